-- Amortised cost as AWS defines it for CUR: docs.aws.amazon.com/cur/latest/userguide (Savings Plans and reservation columns).
WITH line AS (SELECT {aliases} FROM {source})
SELECT
    coalesce(payer, '') AS payer,
    coalesce(currency, 'USD') AS currency,
    coalesce(account, '') AS account,
    coalesce(region, nullif(regexp_extract(zone, '^([a-z]{{2}}(?:-[a-z]+)+-[0-9]+)[a-z]?$', 1), ''), '') AS region,
    coalesce(zone, '') AS zone,
    coalesce(service, servicecode, '') AS service,
    coalesce(usage_type, '') AS usage_type,
    coalesce(operation, '') AS operation,
    coalesce(instance_type, type_in(usage_type), '') AS instance_type,
    CASE
        WHEN line_type = 'Tax' THEN ''
        WHEN market ILIKE 'CapacityBlock' OR held_as ILIKE '%capacity block%' OR usage_type ILIKE '%CapacityBlock%'
            OR description ILIKE '%capacity block%'
            THEN 'capacity-block'
        WHEN line_type LIKE 'SavingsPlan%' THEN 'savings-plan'
        WHEN line_type IN ('DiscountedUsage', 'RIFee') OR (line_type = 'Fee' AND ri_arn IS NOT NULL) THEN 'reserved'
        WHEN usage_type ILIKE '%SpotUsage%' OR term = 'Spot' THEN 'spot'
        WHEN coalesce(line_type, 'Usage') = 'Usage' THEN 'on-demand'
        ELSE ''
    END AS purchase,
    coalesce(resource, '') AS resource,
    description,
    tags,
    moment(starts) AS started,
    coalesce(moment(ends), moment(starts)) AS ended,
    coalesce(date_trunc('month', moment(period)), date_trunc('month', moment(starts)))::DATE AS month,
    coalesce(line_type, 'Usage') IN ('Usage', 'SavingsPlanCoveredUsage', 'DiscountedUsage', 'SavingsPlanNegation') AS usage,
    {has_invoice} AND invoice IS NULL AS uninvoiced,
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
        WHEN line_type = 'Fee' AND ri_arn IS NOT NULL AND (purchase <> 'capacity-block' OR ri_arn NOT LIKE 'arn:%') THEN 0
        ELSE coalesce(money(cost), 0)
    END::DECIMAL(38, 15) AS amortised,
    CASE
        WHEN coalesce(line_type, 'Usage') IN ('Usage', 'SavingsPlanCoveredUsage', 'DiscountedUsage') AND (runs_instance(usage_type) OR holds_instance(usage_type))
            THEN try_cast(amount AS DOUBLE)
    END AS hours,
    NULL::VARCHAR AS commitment,
    FALSE AS buys,
    FALSE AS unused,
    reservation_in(concat_ws(' ', held_by, ri_arn, resource)) AS reservation,
    line_type = 'Fee' AND purchase = 'capacity-block' AS prepaid,
    CASE WHEN unit ILIKE 'h%' THEN try_cast(amount AS DOUBLE) END AS units,
    parent,
    try_cast(split_cost AS DOUBLE) AS split_cost,
    try_cast(unused_cost AS DOUBLE) AS unused_cost,
    try_cast(split_ratio AS DOUBLE) AS split_ratio
FROM line
