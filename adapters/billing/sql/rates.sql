-- An hour of capacity that is reserved and empty is none of an instance: it is told apart. When a commitment ends may be said on its fee alone.
WITH ends AS (SELECT commitment, max(lapses) AS lapses FROM thing WHERE commitment <> '' AND lapses IS NOT NULL GROUP BY commitment)
SELECT t.instance_type, t.region, t.purchase, t.cluster, parse_filename(t.resource) AS instance, sum(d.amortised), sum(d.hours), max(d.ended),
    max(f.form), max(d.month), t.line = 'commitment' OR holds_instance(t.usage_type) AS empty, max(ends.lapses)
FROM detail AS d JOIN thing AS t ON t.id = d.thing LEFT JOIN ends USING (commitment) LEFT JOIN file AS f ON f.id = d.file CROSS JOIN extent
WHERE d.hours IS NOT NULL AND d.started >= $start AND d.ended <= $seen AND t.instance_type <> '' AND t.currency = extent.currency
GROUP BY ALL HAVING sum(d.hours) > 0 AND sum(d.amortised) > 0 ORDER BY ALL
