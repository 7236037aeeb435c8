DELETE FROM rollup WHERE {changed};
INSERT INTO rollup
SELECT started::DATE AS day, month, thing, kind, sum(net) AS net, sum(amortised) AS amortised, sum(hours) AS hours,
    max(ended) AS ended, max(ended) FILTER (usage) AS usage_ended, bool_or(uninvoiced) AS uninvoiced
FROM detail WHERE {changed} GROUP BY ALL ORDER BY day;
-- A fee or a tax may end with the month: only metered usage of at most a day tells how far the bill has come.
CREATE OR REPLACE TABLE extent AS
WITH through AS (
    SELECT coalesce(max(ended) FILTER (usage AND ended <= started + INTERVAL 25 HOUR), max(ended) FILTER (usage), max(started)) AS newest,
        max(month) AS month, coalesce(bool_and(started = date_trunc('hour', started)), TRUE) AS hourly
    FROM detail
)
SELECT newest AS billed_through, newest - INTERVAL 2 DAY AS settled, month AS newest_month,
    (SELECT mode(thing.currency) FROM rollup JOIN thing ON thing.id = rollup.thing) AS currency, hourly
FROM through;
