SELECT day, thing, kind, net, amortised, hours,
    coalesce(usage_ended > $settled::TIMESTAMP, FALSE) OR (uninvoiced AND month = $newest::DATE) AS estimated
FROM rollup WHERE day >= {start} AND day < {end}
