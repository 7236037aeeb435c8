SELECT {keys} thing.currency, piece.kind, sum(piece.net), sum(piece.amortised), sum(piece.hours), bool_or(piece.estimated)
FROM {pieces} AS piece
    JOIN {things} AS thing ON thing.id = piece.thing
    {tags}
WHERE {filters}
GROUP BY ALL
