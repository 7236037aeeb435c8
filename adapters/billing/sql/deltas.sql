SELECT t.account, t.service, t.region, t.usage_type, t.cluster, t.team, t.project, date_diff('day', $first::DATE, r.day) AS at,
    sum(r.amortised) AS amortised, sum(r.net) AS net, max(r.ended) > $seen::TIMESTAMP AS unseen
FROM broad AS r JOIN broad_thing AS t ON t.id = r.thing CROSS JOIN extent
WHERE r.day >= $first::DATE AND r.day < $seen::DATE AND t.currency = extent.currency AND r.kind < 2
GROUP BY ALL ORDER BY ALL
