SELECT started::DATE AS day, {hour} {thing} AS thing, kind, net, amortised, hours,
    coalesce(usage AND ended > $settled::TIMESTAMP, FALSE) OR (uninvoiced AND month = $newest::DATE) AS estimated
FROM {detail} WHERE started >= {start} AND started < {end}
