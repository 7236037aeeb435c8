-- Every fee of a Capacity Block as it was billed, what the instances that it may have paid for are already charged with, and the hours
-- that carry its reservation: from when, until when, and how many instances at once.
WITH hour AS (
    SELECT h.reservation, d.started, max(d.ended) AS ended, max(d.amortised) FILTER (d.file > 0) AS charged, sum(d.hours) AS instances
    FROM held AS h JOIN detail AS d ON d.thing = h.thing
    WHERE d.hours > 0 GROUP BY ALL
), span AS (
    SELECT reservation, max(charged) AS charged, min(started) AS begins, max(ended) AS ends, max(instances) AS instances
    FROM hour GROUP BY reservation
)
SELECT f.thing, f.month, f.started, f.ended, f.net + coalesce(r.net, 0) AS net, f.amortised + coalesce(r.amortised, 0) AS amortised, f.units, f.reservation, t.currency, t.region, t.instance_type, file.form,
    (f.started, f.ended) = (date_trunc('month', f.started), date_trunc('month', f.started) + INTERVAL 1 MONTH) AS monthly,
    span.charged::DECIMAL(38, 15) AS charged, span.begins, span.ends, span.instances,
    span.ends + INTERVAL 1 DAY < extent.billed_through AS is_over
FROM fee AS f JOIN thing AS t ON t.id = f.thing JOIN file ON file.id = f.file CROSS JOIN extent
    LEFT JOIN span ON span.reservation = f.reservation
    LEFT JOIN (SELECT thing, started, sum(net) AS net, sum(amortised) AS amortised FROM detail WHERE file = 0 GROUP BY ALL) AS r
        ON r.thing = f.thing AND r.started = f.started
ORDER BY f.started, f.reservation, f.thing
