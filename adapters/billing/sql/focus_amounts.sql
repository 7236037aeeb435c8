WITH line AS (SELECT {place} AS n, hash({keys}) AS key, {aliases} FROM {source})
SELECT
    n,
    key,
    starts,
    ends,
    CASE
        WHEN category = 'Tax' THEN 3
        WHEN category = 'Credit' OR (class = 'Correction' AND billed < 0) THEN 2
        WHEN category = 'Discount' OR (category = 'Adjustment' AND billed < 0 AND description ILIKE '%discount%') THEN 1
        ELSE 0
    END::UTINYINT AS kind,
    billed AS net,
    CASE WHEN category IN ('Credit', 'Tax') OR (class = 'Correction' AND billed < 0) THEN 0 ELSE coalesce(effective, billed, 0) END::DECIMAL(38, 15) AS amortised,
    quantity AS amount,
    NULL::DOUBLE AS split_cost,
    NULL::DOUBLE AS unused_cost,
    NULL::DOUBLE AS split_ratio
FROM line
