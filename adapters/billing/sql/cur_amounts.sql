-- Amortised cost as AWS defines it for CUR, after discounts where the row says what they are: docs.aws.amazon.com/cur/latest/userguide
-- (Savings Plans, reservation and discount columns). What a plan covers and its negation are no money: the fee is. Of rows that say
-- what they cost after discounts, a discount's row of its own would count it again. `spreads`: a discount that the row does not
-- amortise itself.
WITH line AS (
    SELECT {place} AS n, hash({keys}) AS key, {aliases},
        coalesce(line_type LIKE '%Discount', FALSE) AS is_discount,
        coalesce(line_type IN ('RIFee', 'SavingsPlanRecurringFee', 'SavingsPlanUpfrontFee') OR (line_type = 'Fee' AND ri_arn IS NOT NULL), FALSE)
            AS is_fee
    FROM {source}
), discounted AS (
    SELECT * REPLACE (
        CASE WHEN is_discount OR line_type IN ('Credit', 'Refund', 'Tax', 'SavingsPlanCoveredUsage', 'SavingsPlanNegation') THEN 0
             ELSE coalesce(net_cost - cost, discount, 0) END::DECIMAL(38, 15) AS discount),
        -- What is left of a plan's commitment after discounts; of a plan paid upfront no fee tells it.
        CASE WHEN coalesce(sp_upfront, 0) + coalesce(sp_recurring, 0) <> 0 AND coalesce(sp_net_upfront, sp_net_recurring) IS NOT NULL
             THEN (coalesce(sp_net_upfront, 0) + coalesce(sp_net_recurring, 0))::DOUBLE / (coalesce(sp_upfront, 0) + coalesce(sp_recurring, 0))::DOUBLE
             WHEN net_cost <> cost AND cost <> 0 THEN net_cost::DOUBLE / cost::DOUBLE END AS sp_left
    FROM line
)
SELECT
    n,
    key,
    starts,
    ends,
    CASE
        WHEN is_discount THEN 1
        WHEN line_type IN ('Credit', 'Refund') THEN 2
        WHEN line_type = 'Tax' THEN 3
        ELSE 0
    END::UTINYINT AS kind,
    CASE
        WHEN parent IS NOT NULL AND said IS NULL THEN 0
        WHEN line_type IN ('SavingsPlanCoveredUsage', 'SavingsPlanNegation') THEN cost * 0
        WHEN is_discount AND {is_net} THEN coalesce(net_cost, 0)
        ELSE cost
    END::DECIMAL(38, 15) AS net,
    discount,
    is_discount OR (is_fee AND NOT {is_net} AND discount <> 0) AS spreads,
    CASE
        WHEN is_discount OR line_type IN ('Credit', 'Refund', 'Tax', 'SavingsPlanNegation', 'SavingsPlanUpfrontFee') THEN 0
        WHEN line_type = 'SavingsPlanCoveredUsage' THEN coalesce(sp_net_effective, sp_effective, cost)
        WHEN line_type = 'SavingsPlanRecurringFee' AND sp_left <> 1
            THEN (coalesce(sp_total - coalesce(sp_used, 0), cost)::DOUBLE * sp_left)::DECIMAL(38, 9)::DECIMAL(38, 15)
        WHEN line_type = 'SavingsPlanRecurringFee' THEN coalesce(sp_total - coalesce(sp_used, 0), cost)
        WHEN line_type = 'DiscountedUsage' THEN coalesce(ri_net_effective, ri_effective, cost + discount)
        WHEN line_type = 'RIFee' AND coalesce(ri_unused_upfront, ri_unused_recurring) IS NOT NULL
            THEN coalesce(ri_net_unused_upfront, ri_unused_upfront, 0) + coalesce(ri_net_unused_recurring, ri_unused_recurring, 0)
        WHEN spreads THEN coalesce(cost, 0)
        ELSE coalesce(cost, 0) + discount
    END::DECIMAL(38, 15) AS amortised,
    amount,
    split_cost,
    unused_cost,
    split_ratio
FROM discounted
