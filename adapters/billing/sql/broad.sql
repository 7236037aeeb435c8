-- The rollup without resources and tags, which few questions name: things of one kind, a tenth of the rows or fewer.
CREATE OR REPLACE TEMP TABLE kind AS
SELECT id AS one, * REPLACE (thing_id(payer, currency, account, region, zone, service, usage_type, operation, instance_type, purchase, line,
    '', cluster, namespace, pod, team, project, 0::UBIGINT) AS id, '' AS resource, 0::UBIGINT AS tagset)
FROM thing;
INSERT INTO thing SELECT DISTINCT ON (id) * EXCLUDE (one) FROM kind ANTI JOIN thing AS known ON known.id = kind.id;
CREATE OR REPLACE TABLE broad AS
SELECT r.day, r.month, k.id AS thing, r.kind, sum(r.net) AS net, sum(r.amortised) AS amortised, sum(r.hours) AS hours,
    max(r.ended) AS ended, max(r.usage_ended) AS usage_ended, bool_or(r.uninvoiced) AS uninvoiced
FROM rollup AS r JOIN kind AS k ON k.one = r.thing GROUP BY ALL ORDER BY day;
DROP TABLE kind
