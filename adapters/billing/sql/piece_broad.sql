SELECT day, thing, kind, net, amortised, hours, estimated FROM broad WHERE day >= {start} AND day < {end}
