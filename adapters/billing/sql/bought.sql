-- FOCUS: the line that each commitment's fee is in.
CREATE OR REPLACE TEMP TABLE bought AS
SELECT commitment, arg_max(service, net) AS service, arg_max(usage_type, net) AS usage_type, arg_max(region, net) AS region
FROM stage JOIN label USING (key) WHERE buys AND commitment IS NOT NULL GROUP BY commitment
