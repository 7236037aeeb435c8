SELECT day, thing, kind, net, amortised, estimated FROM broad WHERE day >= {start} AND day < {end}
