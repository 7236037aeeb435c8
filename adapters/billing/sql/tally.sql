SELECT {keys} thing.currency,
    coalesce(sum(piece.net) FILTER (piece.kind = 0), 0), coalesce(sum(piece.net) FILTER (piece.kind = 1), 0),
    coalesce(sum(piece.net) FILTER (piece.kind = 2), 0), coalesce(sum(piece.net) FILTER (piece.kind = 3), 0),
    sum(piece.net), sum(piece.amortised),
    bool_or(coalesce(piece.usage_ended > extent.settled, FALSE) OR (piece.uninvoiced AND piece.month = extent.newest_month))
FROM (
    {pieces}
) AS piece
    JOIN thing ON thing.id = piece.thing
    CROSS JOIN extent
    {tags}
WHERE {filters}
GROUP BY ALL
