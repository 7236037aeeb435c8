-- FOCUS: what a commitment left unused is a row of its own, and goes to the line of the fee that it is part of.
UPDATE label SET service = fee.service, usage_type = fee.usage_type, region = fee.region
FROM (
    SELECT commitment, arg_max(service, net) AS service, arg_max(usage_type, net) AS usage_type, arg_max(region, net) AS region
    FROM stage JOIN label USING (key) WHERE buys AND commitment IS NOT NULL GROUP BY commitment
) AS fee
WHERE label.unused AND label.commitment = fee.commitment
