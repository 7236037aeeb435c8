{raw}
CREATE OR REPLACE TEMP TABLE label AS SELECT *, coalesce(hash(tags), 0) AS tagset FROM ({labels});
DROP TABLE distinct_raw;
CREATE OR REPLACE TEMP TABLE stage AS
SELECT *, started IS NOT NULL AND net IS NOT NULL AS fits
FROM ({amounts})
