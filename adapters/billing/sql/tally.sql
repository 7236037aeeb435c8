-- kind: 0 gross, 1 discount, 2 credit, 3 tax.
SELECT {keys} thing.currency,
    coalesce(sum(piece.net) FILTER (WHERE piece.kind = 0), 0) AS gross, coalesce(sum(piece.net) FILTER (WHERE piece.kind = 1), 0) AS discounts,
    coalesce(sum(piece.net) FILTER (WHERE piece.kind = 2), 0) AS credits, coalesce(sum(piece.net) FILTER (WHERE piece.kind = 3), 0) AS tax,
    sum(piece.net) AS net, sum(piece.amortised) AS amortised, sum(piece.hours) AS hours, bool_or(piece.estimated) AS estimated
FROM {pieces} AS piece
    JOIN {things} AS thing ON thing.id = piece.thing
    {tags}
WHERE {filters}
GROUP BY ALL
