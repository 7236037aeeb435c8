-- What the rows of one key are. Capacity Blocks: docs.aws.amazon.com/cur/latest/userguide.
WITH line AS (SELECT key, {aliases} FROM distinct_raw)
SELECT
    key,
    coalesce(payer, '') AS payer,
    coalesce(currency, 'USD') AS currency,
    coalesce(account, '') AS account,
    coalesce(region, nullif(regexp_extract(zone, '^([a-z]{{2}}(?:-[a-z]+)+-[0-9]+)[a-z]?$', 1), ''), '') AS region,
    coalesce(zone, '') AS zone,
    coalesce(service, servicecode, '') AS service,
    coalesce(usage_type, '') AS usage_type,
    coalesce(operation, '') AS operation,
    coalesce(plain_type(instance_type), type_in(usage_type), '') AS instance_type,
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
    CASE WHEN resource IS DISTINCT FROM coalesce(sp_arn, ri_arn) OR purchase = 'capacity-block' THEN coalesce(resource, '') ELSE '' END AS resource,
    description,
    tags,
    date_trunc('month', period)::DATE AS period,
    coalesce(line_type, 'Usage') IN ('Usage', 'SavingsPlanCoveredUsage', 'DiscountedUsage', 'SavingsPlanNegation') AS usage,
    {has_invoice} AND invoice IS NULL AS uninvoiced,
    coalesce(line_type, 'Usage') IN ('Usage', 'SavingsPlanCoveredUsage', 'DiscountedUsage')
        AND (runs_instance(usage_type) OR holds_instance(usage_type)) AS metered,
    line_type = 'Fee' AND ri_arn IS NOT NULL AND (purchase <> 'capacity-block' OR ri_arn NOT LIKE 'arn:%') AS bought,
    -- A reservation of capacity is one commitment, used and empty: its empty places may name it as their resource alone.
    coalesce(sp_arn, ri_arn, CASE WHEN purchase = 'on-demand' THEN coalesce(held_by,
        CASE WHEN holds_instance(usage_type) AND resource LIKE '%:capacity-reservation/%' THEN resource END) END) AS commitment,
    moment(lapses) AS lapses,
    FALSE AS buys,
    FALSE AS unused,
    reservation_in(concat_ws(' ', held_by, ri_arn, resource)) AS reservation,
    line_type = 'Fee' AND purchase = 'capacity-block' AS prepaid,
    unit ILIKE 'h%' AS by_hour,
    parent
FROM line
