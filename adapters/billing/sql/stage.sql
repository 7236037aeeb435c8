CREATE OR REPLACE TEMP TABLE stage AS
SELECT *, coalesce(hash(tags), 0) AS tagset, started IS NOT NULL AND net IS NOT NULL AS fits
FROM ({rows});
-- FOCUS: what a commitment left unused is a row of its own, and goes to the line of the fee that it is part of.
UPDATE stage SET service = fee.service, usage_type = fee.usage_type, region = fee.region
FROM (
    SELECT commitment, arg_max(service, net) AS service, arg_max(usage_type, net) AS usage_type, arg_max(region, net) AS region
    FROM stage WHERE buys AND commitment IS NOT NULL GROUP BY commitment
) AS fee
WHERE stage.unused AND stage.commitment = fee.commitment
