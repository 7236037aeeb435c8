-- The rollup without resources and tags, which few questions name: a tenth of the rows or fewer. Its things are numbered, so that a
-- join is a look into an array.
CREATE OR REPLACE TABLE broad_of AS
SELECT id AS thing, (dense_rank() OVER (ORDER BY thing_id(payer, currency, account, region, zone, service, usage_type, operation,
    instance_type, purchase, line, '', cluster, namespace, pod, team, project, 0::UBIGINT, '')) - 1)::INTEGER AS broad
FROM thing;
CREATE OR REPLACE TABLE broad_thing AS
SELECT DISTINCT ON (broad) broad AS id, thing.* EXCLUDE (id, resource, tagset, commitment, lapses)
FROM thing JOIN broad_of ON broad_of.thing = thing.id;
CREATE OR REPLACE TABLE broad AS
SELECT r.day, b.broad AS thing, r.kind, sum(r.net) AS net, sum(r.amortised) AS amortised, sum(r.hours) AS hours, max(r.ended) AS ended,
    bool_or(coalesce(r.usage_ended > extent.settled, FALSE) OR (r.uninvoiced AND r.month = extent.newest_month)) AS estimated
FROM rollup AS r JOIN broad_of AS b ON b.thing = r.thing CROSS JOIN extent GROUP BY ALL ORDER BY day
