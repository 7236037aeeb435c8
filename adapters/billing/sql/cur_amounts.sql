-- Amortised cost as AWS defines it for CUR: docs.aws.amazon.com/cur/latest/userguide (Savings Plans and reservation columns).
WITH line AS (SELECT n, key, {aliases} FROM raw)
SELECT
    n,
    key,
    starts AS started,
    greatest(starts, ends) AS ended,
    coalesce(period, date_trunc('month', starts)::DATE) AS month,
    CASE
        WHEN line_type LIKE '%Discount' THEN 1
        WHEN line_type IN ('Credit', 'Refund') THEN 2
        WHEN line_type = 'Tax' THEN 3
        ELSE 0
    END::UTINYINT AS kind,
    money(CASE WHEN parent IS NULL THEN cost ELSE coalesce(cost, '0') END) AS net,
    CASE
        WHEN line_type IN ('Credit', 'Refund', 'Tax') THEN 0
        WHEN line_type = 'SavingsPlanCoveredUsage' THEN coalesce(money(sp_effective), money(cost))
        WHEN line_type = 'SavingsPlanRecurringFee' THEN coalesce(money(sp_total) - coalesce(money(sp_used), 0), money(cost))
        WHEN line_type IN ('SavingsPlanNegation', 'SavingsPlanUpfrontFee') THEN 0
        WHEN line_type = 'DiscountedUsage' THEN coalesce(money(ri_effective), money(cost))
        WHEN line_type = 'RIFee' AND coalesce(ri_unused_upfront, ri_unused_recurring) IS NOT NULL
            THEN coalesce(money(ri_unused_upfront), 0) + coalesce(money(ri_unused_recurring), 0)
        WHEN bought THEN 0
        ELSE coalesce(money(cost), 0)
    END::DECIMAL(38, 15) AS amortised,
    CASE WHEN metered THEN try_cast(amount AS DOUBLE) END AS hours,
    CASE WHEN by_hour THEN try_cast(amount AS DOUBLE) END AS units,
    try_cast(split_cost AS DOUBLE) AS split_cost,
    try_cast(unused_cost AS DOUBLE) AS unused_cost,
    try_cast(split_ratio AS DOUBLE) AS split_ratio
FROM line JOIN label USING (key)
