-- Only what is metered by the hour, and a commitment's fee of each hour, amortised: what nobody used. A row of a day
-- or a month says nothing of its hours. A thing of cents is left to the days.
WITH series AS (
    SELECT id, hash(account, service, region, usage_type, cluster, team, project) AS series, line = 'commitment' AS commitment
    FROM thing CROSS JOIN extent WHERE thing.currency = extent.currency
), name AS (
    SELECT DISTINCT ON (series) series, account, service, region, usage_type, cluster, team, project FROM thing JOIN series USING (id)
), hour AS (
    SELECT s.series, date_diff('hour', $first::TIMESTAMP, d.started) AS nth, sum(d.amortised)::DOUBLE AS amortised
    FROM detail AS d JOIN series AS s ON s.id = d.thing
    WHERE d.started >= $first::TIMESTAMP AND d.started < $until::TIMESTAMP AND (d.usage OR s.commitment) AND d.kind < 2
        AND d.ended <= d.started + INTERVAL 1 HOUR
    GROUP BY ALL
), told AS (
    SELECT series, list(nth) AS nth, list(amortised) AS amortised FROM hour GROUP BY series HAVING sum(amortised) >= $least
)
SELECT account, service, region, usage_type, cluster, team, project, nth, amortised FROM told JOIN name USING (series)
ORDER BY account, service, region, usage_type, cluster, team, project
