CREATE OR REPLACE TEMP TABLE line_item AS
WITH named AS (
    SELECT s.* EXCLUDE (tags), coalesce(t.cluster, '') AS cluster, coalesce(t.namespace, '') AS namespace, '' AS pod,
        coalesce(t.team, '') AS team, coalesce(t.project, '') AS project, {line} AS line
    FROM stage AS s LEFT JOIN tagset AS t ON t.id = s.tagset
    WHERE s.fits AND (s.parent IS NULL OR s.net <> 0)
)
SELECT *, thing_id(payer, currency, account, region, zone, service, usage_type, operation, instance_type, purchase, line, resource,
    cluster, namespace, pod, team, project, tagset) AS thing
FROM named;
INSERT INTO thing
SELECT DISTINCT thing, payer, currency, account, region, zone, service, usage_type, operation, instance_type, purchase, line, resource,
    cluster, namespace, pod, team, project, tagset
FROM line_item ANTI JOIN thing AS known ON known.id = line_item.thing;
INSERT INTO fresh
SELECT {file}, month, thing, kind, started, greatest(started, ended), usage, uninvoiced, net, amortised, hours FROM line_item;
INSERT INTO fresh_fee
SELECT {file}, month, thing, started, greatest(started, ended), net, amortised, units, reservation
FROM line_item WHERE prepaid AND kind = 0 AND net > 0;
INSERT INTO fresh_held
SELECT DISTINCT {file}, month, thing, reservation FROM line_item WHERE hours > 0 AND reservation IS NOT NULL;
INSERT INTO fresh_sketch
SELECT {file}, month, payer, mark FROM (
    SELECT DISTINCT month, payer,
        hash(started, account, region, service, usage_type, operation, resource, kind, CASE WHEN usage_type = '' THEN description END) AS mark
    FROM line_item
) QUALIFY row_number() OVER (PARTITION BY month, payer ORDER BY mark) <= 512;
INSERT INTO fresh_split
SELECT {file}, s.month, s.parent, date_trunc('hour', s.started), s.usage_type,
    coalesce(nullif(split_part(s.resource, '/', 2), ''), t.cluster, ''),
    coalesce(nullif(split_part(s.resource, '/', 3), ''), t.namespace, ''),
    split_part(s.resource, '/', 4),
    coalesce(s.split_cost, 0) + coalesce(s.unused_cost, 0), coalesce(s.split_ratio, 0)
FROM stage AS s LEFT JOIN tagset AS t ON t.id = s.tagset
WHERE s.parent IS NOT NULL AND s.started IS NOT NULL;
DROP TABLE line_item;
