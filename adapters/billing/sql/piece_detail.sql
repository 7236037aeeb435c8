SELECT started::DATE AS day, {hour} month, thing, kind, net, amortised,
        CASE WHEN usage THEN ended END AS usage_ended, uninvoiced
    FROM {detail} WHERE started >= {start} AND started < {end}
