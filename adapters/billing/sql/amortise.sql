-- Spread what is prepaid over the hours that it buys. Rows of no file (0) carry no net: they take a fee from its day, give each
-- instance-hour its share of what the hour cost, and what nobody used of it to a thing of the line `commitment`.
CREATE OR REPLACE TEMP TABLE pool AS
SELECT *, CASE WHEN reservation IN (SELECT reservation FROM held) THEN reservation ELSE '' END AS pool FROM prepaid;
CREATE OR REPLACE TEMP TABLE covered AS
SELECT d.*, t.currency, t.region, t.instance_type,
    CASE WHEN h.reservation IN (SELECT reservation FROM prepaid) THEN h.reservation ELSE '' END AS pool
FROM detail AS d JOIN thing AS t ON t.id = d.thing
    LEFT JOIN (SELECT thing, min(reservation) AS reservation FROM held GROUP BY thing) AS h ON h.thing = d.thing
WHERE d.hours > 0 AND NOT holds_instance(t.usage_type)
    AND (t.purchase = 'capacity-block' OR h.reservation IN (SELECT reservation FROM prepaid));
-- Hours, or days where the export tells no hours.
CREATE OR REPLACE TEMP TABLE step AS
SELECT CASE WHEN coalesce(max(ended - started), INTERVAL 1 HOUR) <= INTERVAL 1 HOUR THEN 'hour' ELSE 'day' END AS step FROM covered;
CREATE OR REPLACE TEMP TABLE bucket AS
WITH seen AS (
    -- Instances are billed by the hour, while a row of a whole day may be there at its morning.
    SELECT coalesce(max(ended) FILTER (usage AND ended <= started + INTERVAL 1 HOUR), any_value(billed_through)) AS through
    FROM detail CROSS JOIN extent
), cut AS (
    SELECT pool.*, step, unnest(generate_series(date_trunc(step, begins), least(ends, through) - INTERVAL 1 MICROSECOND,
        ('1 ' || step)::INTERVAL)) AS since
    FROM pool CROSS JOIN step CROSS JOIN seen
), paid AS (
    SELECT *, epoch(ends) - epoch(begins) AS whole, greatest(0, epoch(since) - epoch(begins)) AS before,
        least(epoch(ends), epoch(since + ('1 ' || step)::INTERVAL)) - epoch(begins) AS after
    FROM cut
)
SELECT pool, currency, region, instance_type, step, since, min(thing) AS thing,
    sum(CASE WHEN after >= whole THEN usd ELSE (usd::DOUBLE * after / whole)::DECIMAL(38, 9) END
        - (usd::DOUBLE * before / whole)::DECIMAL(38, 9)) AS usd,
    sum(instances * (after - before) / 3600) AS room
FROM paid GROUP BY ALL;
CREATE OR REPLACE TEMP TABLE share AS
WITH used AS (
    SELECT c.*, b.usd AS whole, greatest(coalesce(b.room, 0), sum(c.hours) OVER within) AS room,
        row_number() OVER (within ORDER BY c.hours DESC, c.thing, c.started) AS nth
    -- The hour is a key of the join: without it, every row meets every hour.
    FROM (SELECT *, date_trunc((SELECT step FROM step), started) AS since FROM covered) AS c
        JOIN bucket AS b USING (pool, currency, region, instance_type, since)
    WINDOW within AS (PARTITION BY b.pool, b.currency, b.region, b.instance_type, b.since)
), each AS (
    SELECT *, (whole::DOUBLE * hours / room)::DECIMAL(38, 9)::DECIMAL(38, 15) AS part FROM used
), summed AS (
    SELECT *, whole - sum(part) OVER (PARTITION BY pool, currency, region, instance_type, since) AS rest FROM each
)
-- Less than a thousandth of a cent that is over comes of rounding: it is the largest part's.
SELECT * REPLACE (part + CASE WHEN nth = 1 AND abs(rest) < 0.00001 THEN rest ELSE 0 END AS part) FROM summed;
CREATE OR REPLACE TEMP TABLE idle AS
SELECT b.*, b.usd - coalesce(s.used, 0) AS rest, coalesce(b.room - s.hours, b.room) AS free
FROM bucket AS b LEFT JOIN (
    SELECT pool, currency, region, instance_type, since, sum(part) AS used, sum(hours) AS hours FROM share GROUP BY ALL
) AS s USING (pool, currency, region, instance_type, since)
WHERE b.usd - coalesce(s.used, 0) <> 0;
CREATE OR REPLACE TEMP TABLE spare AS
SELECT t.id AS fee, t.* REPLACE ('commitment' AS line, thing_id(payer, currency, account, region, zone, service, usage_type, operation,
    instance_type, purchase, 'commitment', resource, cluster, namespace, pod, team, project, tagset, commitment) AS id)
FROM thing AS t WHERE t.id IN (SELECT thing FROM idle);
INSERT INTO thing SELECT * EXCLUDE (fee) FROM spare ANTI JOIN thing AS known ON known.id = spare.id;
CREATE OR REPLACE TEMP TABLE spread AS
SELECT 0 AS file, month, thing, 0::UTINYINT AS kind, started, ended, FALSE AS usage, FALSE AS uninvoiced, 0::DECIMAL(38, 15) AS net,
    -amortised AS amortised, NULL::DOUBLE AS hours
FROM prepaid
UNION ALL
SELECT 0, date_trunc('month', started)::DATE, thing, kind, started, ended, usage, FALSE, 0, part, 0 FROM share
UNION ALL
SELECT 0, date_trunc('month', since)::DATE, spare.id, 0, since, since + ('1 ' || step)::INTERVAL, FALSE, FALSE, 0, rest, nullif(greatest(free, 0), 0)
FROM idle JOIN spare ON spare.fee = idle.thing;
INSERT INTO detail FROM spread;
INSERT INTO rollup
SELECT started::DATE AS day, month, thing, kind, sum(net), sum(amortised), sum(hours), max(ended), max(ended) FILTER (usage), FALSE
FROM spread GROUP BY ALL;
DROP TABLE pool; DROP TABLE covered; DROP TABLE step; DROP TABLE bucket; DROP TABLE share; DROP TABLE idle; DROP TABLE spare; DROP TABLE spread;
