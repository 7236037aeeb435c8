-- Billed and effective cost are after discounts; what the row says of them tells what it cost before.
WITH line AS (
    SELECT {place} AS n, hash({keys}) AS key, {aliases} FROM {source}
), sorted AS (
    SELECT *, CASE
            WHEN category = 'Tax' THEN 3
            WHEN category = 'Credit' OR (class = 'Correction' AND billed < 0) THEN 2
            WHEN category = 'Discount' OR (category = 'Adjustment' AND billed < 0 AND description ILIKE '%discount%') THEN 1
            ELSE 0
        END::UTINYINT AS kind,
        -- What a commitment paid for is billed at nothing and effectively costs something; what costs nothing at all was discounted away.
        CASE WHEN kind = 0 AND (billed <> 0 OR coalesce(effective, 0) = 0) THEN coalesce(discount, 0) ELSE 0 END::DECIMAL(38, 15) AS applied
    FROM line
)
SELECT
    n,
    key,
    starts,
    ends,
    kind,
    billed - applied AS net,
    applied AS discount,
    kind = 1 AS spreads,
    CASE WHEN kind > 0 THEN 0 ELSE coalesce(effective, billed, 0) END::DECIMAL(38, 15) AS amortised,
    quantity AS amount,
    NULL::DOUBLE AS split_cost,
    NULL::DOUBLE AS unused_cost,
    NULL::DOUBLE AS split_ratio
FROM sorted
