WITH line AS (SELECT n, key, {aliases} FROM raw)
SELECT
    n,
    key,
    starts AS started,
    greatest(starts, ends) AS ended,
    coalesce(period, date_trunc('month', starts)::DATE) AS month,
    CASE
        WHEN category = 'Tax' THEN 3
        WHEN category = 'Credit' OR (class = 'Correction' AND money(billed) < 0) THEN 2
        WHEN category = 'Discount' OR (category = 'Adjustment' AND money(billed) < 0 AND discounts) THEN 1
        ELSE 0
    END::UTINYINT AS kind,
    money(billed) AS net,
    CASE WHEN category IN ('Credit', 'Tax') OR (class = 'Correction' AND money(billed) < 0) THEN 0 ELSE coalesce(money(effective), money(billed), 0) END::DECIMAL(38, 15) AS amortised,
    CASE WHEN metered THEN try_cast(quantity AS DOUBLE) END AS hours,
    CASE WHEN by_hour THEN try_cast(quantity AS DOUBLE) END AS units,
    NULL::DOUBLE AS split_cost,
    NULL::DOUBLE AS unused_cost,
    NULL::DOUBLE AS split_ratio
FROM line JOIN label USING (key)
