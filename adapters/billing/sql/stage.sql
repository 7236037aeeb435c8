CREATE OR REPLACE TEMP VIEW stage AS
SELECT n, key, starts AS started, greatest(starts, ends) AS ended, coalesce(period, date_trunc('month', starts)::DATE) AS month, kind, net, discount, spreads,
    CASE WHEN bought THEN 0 ELSE amortised END AS amortised, CASE WHEN metered THEN amount END AS hours,
    CASE WHEN by_hour THEN amount END AS units, split_cost, unused_cost, split_ratio,
    starts IS NOT NULL AND net IS NOT NULL AS fits
FROM raw JOIN label USING (key)
