-- The count and the sums of all rows, of which a page is shown.
SELECT count(*), sum(gross), sum(discounts), sum(credits), sum(tax), sum(net), sum(amortised), sum(estimated::INTEGER), list(DISTINCT currency)
FROM ({tally})
