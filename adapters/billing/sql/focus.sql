-- What the rows of one key are, by FOCUS columns: focus.finops.org/focus-specification (1.0, 1.2) and AWS's table dictionary of the two exports.
WITH line AS (SELECT key, {aliases} FROM distinct_raw)
SELECT
    key,
    coalesce(payer, '') AS payer,
    coalesce(currency, 'USD') AS currency,
    coalesce(account, '') AS account,
    coalesce(region, '') AS region,
    coalesce(zone, '') AS zone,
    coalesce(service_code, service, '') AS service,
    held_usage_type(coalesce(x_usage_type, sku_usage_type, sku_meter, ''), held_status) AS usage_type,
    coalesce(operation, '') AS operation,
    CASE WHEN service_code = 'AmazonEC2' OR service ILIKE '%Elastic Compute Cloud%' OR x_usage_type IS NOT NULL
        THEN coalesce(plain_type(sku_instance_type), nullif(type_in(coalesce(x_usage_type, sku_usage_type, sku_meter)), ''), type_in(description), '')
        ELSE coalesce(plain_type(sku_instance_type), '')
    END AS instance_type,
    CASE
        -- What is given back was bought in no way, though it may name a pricing category.
        WHEN category IN ('Tax', 'Credit') OR class = 'Correction' THEN ''
        WHEN description ILIKE '%capacity block%' OR x_usage_type ILIKE '%CapacityBlock%' THEN 'capacity-block'
        WHEN commitment ILIKE '%savings%plan%' OR commitment_category = 'Spend' THEN 'savings-plan'
        WHEN commitment ILIKE '%reserv%' OR commitment_category = 'Usage' THEN 'reserved'
        WHEN pricing = 'Dynamic' OR coalesce(x_usage_type, sku_meter) ILIKE '%SpotUsage%' THEN 'spot'
        WHEN pricing IN ('Standard', 'On-Demand') AND category IS DISTINCT FROM 'Purchase' THEN 'on-demand'
        ELSE ''
    END AS purchase,
    -- From 1.2 on a commitment is the resource of its own fee and of what it left unused.
    CASE WHEN resource IS DISTINCT FROM commitment_id THEN coalesce(resource, '') ELSE '' END AS resource,
    description,
    tags,
    date_trunc('month', period)::DATE AS period,
    coalesce(category, 'Usage') = 'Usage' AS usage,
    {has_invoice} AND invoice IS NULL AS uninvoiced,
    coalesce(category, 'Usage') = 'Usage' AND unit ILIKE 'h%'
        AND coalesce(status, '') NOT ILIKE 'unused'
        AND CASE WHEN coalesce(x_usage_type, sku_usage_type, sku_meter, '') = '' THEN description ILIKE '%instance hour%' OR description ILIKE '%covered by%'
                 ELSE runs_instance(coalesce(x_usage_type, sku_usage_type, sku_meter))
                     OR holds_instance(coalesce(x_usage_type, sku_usage_type, sku_meter)) OR description ILIKE '%instance hour%' END
        AS metered,
    FALSE AS bought,
    -- A reservation of capacity is one commitment, used and empty.
    coalesce(commitment_id, CASE WHEN purchase = 'on-demand' THEN held_by END) AS commitment,
    NULL::TIMESTAMP AS lapses,
    category = 'Purchase' AS buys,
    coalesce(status, '') ILIKE 'unused' AS unused,
    reservation_in(concat_ws(' ', held_by, resource)) AS reservation,
    category = 'Purchase' AND purchase = 'capacity-block' AS prepaid,
    unit ILIKE 'h%' AS by_hour,
    NULL::VARCHAR AS parent
FROM line
