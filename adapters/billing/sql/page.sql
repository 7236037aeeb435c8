-- The first rows, and behind each of them the count and the sums of those beyond.
WITH whole AS MATERIALIZED ({tally}),
page AS MATERIALIZED (SELECT * FROM whole ORDER BY {order} LIMIT {most}),
summed AS (
    SELECT count(*) AS count, sum(gross) AS gross, sum(discounts) AS discounts, sum(credits) AS credits, sum(tax) AS tax, sum(net) AS net,
        sum(amortised) AS amortised, coalesce(sum(estimated::INTEGER), 0) AS estimated
    FROM whole
), shown AS (
    SELECT count(*) AS count, sum(gross) AS gross, sum(discounts) AS discounts, sum(credits) AS credits, sum(tax) AS tax, sum(net) AS net,
        sum(amortised) AS amortised, coalesce(sum(estimated::INTEGER), 0) AS estimated
    FROM page
)
SELECT page.*, w.count - s.count, w.gross - s.gross, w.discounts - s.discounts, w.credits - s.credits, w.tax - s.tax, w.net - s.net,
    w.amortised - s.amortised, w.estimated > s.estimated, w.count - w.estimated > s.count - s.estimated,
    (SELECT list(DISTINCT currency) FROM whole)
FROM page CROSS JOIN summed AS w CROSS JOIN shown AS s
