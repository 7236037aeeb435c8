(SELECT thing, kind, sum(net) AS net, sum(amortised) AS amortised, sum(hours) AS hours, bool_or(estimated) AS estimated FROM ({pieces}) GROUP BY ALL)
