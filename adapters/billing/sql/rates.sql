SELECT t.instance_type, t.region, t.purchase, t.cluster, parse_filename(t.resource) AS instance, sum(d.amortised), sum(d.hours), max(d.ended), max(f.form), max(d.month)
FROM detail AS d JOIN thing AS t ON t.id = d.thing JOIN file AS f ON f.id = d.file CROSS JOIN extent
WHERE d.hours > 0 AND d.started >= $start AND d.ended <= $seen AND t.instance_type <> '' AND t.currency = extent.currency
GROUP BY ALL HAVING sum(d.hours) > 0 AND sum(d.amortised) > 0 ORDER BY ALL
