CREATE OR REPLACE TEMP TABLE stage AS
SELECT *, coalesce(hash(tags), 0) AS tagset, started IS NOT NULL AND net IS NOT NULL AS fits
FROM ({rows})
