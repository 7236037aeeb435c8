-- Amortised cost as AWS defines it for CUR: docs.aws.amazon.com/cur/latest/userguide (Savings Plans and reservation columns).
WITH line AS (SELECT {place} AS n, hash({keys}) AS key, {aliases} FROM {source})
SELECT
    n,
    key,
    starts,
    ends,
    CASE
        WHEN line_type LIKE '%Discount' THEN 1
        WHEN line_type IN ('Credit', 'Refund') THEN 2
        WHEN line_type = 'Tax' THEN 3
        ELSE 0
    END::UTINYINT AS kind,
    CASE WHEN parent IS NOT NULL AND said IS NULL THEN 0 ELSE cost END AS net,
    CASE
        WHEN line_type IN ('Credit', 'Refund', 'Tax') THEN 0
        WHEN line_type = 'SavingsPlanCoveredUsage' THEN coalesce(sp_effective, cost)
        WHEN line_type = 'SavingsPlanRecurringFee' THEN coalesce(sp_total - coalesce(sp_used, 0), cost)
        WHEN line_type IN ('SavingsPlanNegation', 'SavingsPlanUpfrontFee') THEN 0
        WHEN line_type = 'DiscountedUsage' THEN coalesce(ri_effective, cost)
        WHEN line_type = 'RIFee' AND coalesce(ri_unused_upfront, ri_unused_recurring) IS NOT NULL
            THEN coalesce(ri_unused_upfront, 0) + coalesce(ri_unused_recurring, 0)
        ELSE coalesce(cost, 0)
    END::DECIMAL(38, 15) AS amortised,
    amount,
    split_cost,
    unused_cost,
    split_ratio
FROM line
