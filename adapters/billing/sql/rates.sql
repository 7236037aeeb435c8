-- An hour of capacity that is reserved and empty is none of an instance: it is told apart.
SELECT t.instance_type, t.region, t.purchase, t.cluster, parse_filename(t.resource) AS instance, sum(d.amortised), sum(d.hours), max(d.ended),
    max(f.form), max(d.month), t.line = 'commitment' OR holds_instance(t.usage_type) AS empty, max(t.lapses)
FROM detail AS d JOIN thing AS t ON t.id = d.thing LEFT JOIN file AS f ON f.id = d.file CROSS JOIN extent
WHERE d.hours IS NOT NULL AND d.started >= $start AND d.ended <= $seen AND t.instance_type <> '' AND t.currency = extent.currency
GROUP BY ALL HAVING sum(d.hours) > 0 AND sum(d.amortised) > 0 ORDER BY ALL
