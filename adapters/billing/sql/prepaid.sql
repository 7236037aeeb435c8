-- Every fee of a Capacity Block as it was billed, and what the instances that it may have paid for are already charged with.
SELECT f.thing, f.month, f.started, f.ended, f.net, f.amortised, f.units, f.reservation, t.currency, t.region, t.instance_type, file.form,
    (f.started, f.ended) = (date_trunc('month', f.started), date_trunc('month', f.started) + INTERVAL 1 MONTH) AS monthly,
    (SELECT max(d.amortised) FROM held AS h JOIN detail AS d ON d.thing = h.thing
     WHERE h.reservation = f.reservation AND d.hours > 0 AND d.file > 0)::DECIMAL(38, 15) AS charged
FROM fee AS f JOIN thing AS t ON t.id = f.thing JOIN file ON file.id = f.file
ORDER BY f.started, f.reservation, f.thing
