-- Each batch of a file gave its smallest hashes; those of the file are the smallest among them.
CREATE OR REPLACE TABLE fresh_sketch AS
SELECT * FROM (SELECT DISTINCT * FROM fresh_sketch) QUALIFY row_number() OVER (PARTITION BY file, month, payer ORDER BY mark) <= 512
