SELECT day, month, thing, kind, net, amortised, usage_ended, uninvoiced
    FROM {rollup} WHERE day >= {start} AND day < {end}
