-- Only what is metered by the hour, and a commitment's fee of each hour, amortised: what nobody used. A row of a day
-- or a month says nothing of its hours. A thing of cents is left to the days.
SELECT account, service, region, usage_type, cluster, team, project, list(nth), list(amortised) FROM (
    SELECT t.account, t.service, t.region, t.usage_type, t.cluster, t.team, t.project,
        date_diff('hour', $first::TIMESTAMP, d.started) AS nth, sum(d.amortised)::DOUBLE AS amortised
    FROM detail AS d JOIN thing AS t ON t.id = d.thing CROSS JOIN extent
    WHERE d.started >= $first::TIMESTAMP AND d.started < $until::TIMESTAMP AND (d.usage OR t.line = 'commitment') AND d.kind < 2
        AND d.ended <= d.started + INTERVAL 1 HOUR AND t.currency = extent.currency
    GROUP BY ALL
)
GROUP BY account, service, region, usage_type, cluster, team, project HAVING sum(amortised) >= $least ORDER BY ALL
