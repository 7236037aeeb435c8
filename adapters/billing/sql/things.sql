CREATE OR REPLACE TEMP TABLE named AS
WITH owned AS (
    SELECT s.* EXCLUDE (tags, commitment), coalesce(s.commitment, '') AS commitment, coalesce(t.cluster, '') AS cluster, coalesce(t.namespace, '') AS namespace, '' AS pod,
        coalesce(t.team, '') AS team, coalesce(t.project, '') AS project, {line} AS line
    FROM label AS s LEFT JOIN tagset AS t ON t.id = s.tagset
)
SELECT *, thing_id(payer, currency, account, region, zone, service, usage_type, operation, instance_type, purchase, line, resource,
        cluster, namespace, pod, team, project, tagset, commitment) AS thing,
    hash(account, region, service, usage_type, operation, resource, CASE WHEN usage_type = '' THEN description END) AS mark
FROM owned;
-- A split row without a cost of its own is no thing.
INSERT INTO thing
SELECT DISTINCT ON (thing) thing, payer, currency, account, region, zone, service, usage_type, operation, instance_type, purchase, line,
    resource, cluster, namespace, pod, team, project, tagset, commitment, lapses
FROM named ANTI JOIN thing AS known ON known.id = named.thing
WHERE parent IS NULL OR key IN (SELECT key FROM stage JOIN label USING (key) WHERE label.parent IS NOT NULL AND stage.net <> 0);
-- By time, which compresses well and lets a question for some hours pass over the rest of the month.
INSERT INTO fresh
SELECT {file}, month, thing, kind, started, ended, usage, uninvoiced, net, amortised, hours
FROM stage JOIN named USING (key) WHERE fits AND kind <> 1 AND (parent IS NULL OR net <> 0) ORDER BY started, ended;
INSERT INTO fresh
SELECT {file}, month, thing, 1, started, ended, usage, uninvoiced, discount, 0, CASE WHEN hours IS NOT NULL THEN 0 END
FROM stage JOIN named USING (key) WHERE fits AND discount <> 0 AND NOT spreads ORDER BY started, ended;
INSERT INTO fresh_rebate
SELECT {file}, month, thing, started, ended, uninvoiced, CASE kind WHEN 1 THEN net ELSE discount END AS usd, kind <> 1
FROM stage JOIN named USING (key) WHERE fits AND spreads AND usd <> 0;
INSERT INTO fresh_fee
SELECT {file}, month, thing, started, ended, net + CASE WHEN spreads THEN 0 ELSE discount END, amortised, units, reservation
FROM stage JOIN named USING (key) WHERE fits AND parent IS NULL AND prepaid AND kind = 0 AND net > 0;
INSERT INTO fresh_held
SELECT DISTINCT {file}, month, thing, reservation
FROM stage JOIN named USING (key) WHERE fits AND (parent IS NULL OR net <> 0) AND hours > 0 AND reservation IS NOT NULL;
-- The smallest hashes are found among as many as hold them: to tell all rows apart took more memory than the rows.
INSERT INTO fresh_sketch
WITH row AS (
    SELECT month, payer, hash(started, mark, kind) AS mark FROM stage JOIN named USING (key) WHERE fits AND (parent IS NULL OR net <> 0)
), many AS (
    SELECT month, payer, approx_count_distinct(mark) AS marks FROM row GROUP BY ALL
)
SELECT {file}, month, payer, mark FROM (
    SELECT DISTINCT month, payer, mark FROM row JOIN many USING (month, payer)
    WHERE mark <= 18446744073709551615 // greatest(marks, 4096) * 4096
) QUALIFY row_number() OVER (PARTITION BY month, payer ORDER BY mark) <= 512;
INSERT INTO fresh_split
SELECT {file}, s.month, l.parent, date_trunc('hour', s.started), l.usage_type,
    coalesce(nullif(split_part(l.resource, '/', 2), ''), t.cluster, ''),
    coalesce(nullif(split_part(l.resource, '/', 3), ''), t.namespace, ''),
    split_part(l.resource, '/', 4),
    coalesce(s.split_cost, 0) + coalesce(s.unused_cost, 0), coalesce(s.split_ratio, 0)
FROM stage AS s JOIN label AS l USING (key) LEFT JOIN tagset AS t ON t.id = l.tagset
WHERE l.parent IS NOT NULL AND s.started IS NOT NULL;
DROP TABLE named;
DROP VIEW stage;
DROP TABLE label;
DROP TABLE raw
