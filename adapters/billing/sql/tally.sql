WITH settled AS (SELECT settled, newest_month FROM extent),
row AS (
    SELECT piece.*,
        coalesce(piece.usage_ended > settled.settled, FALSE) OR (piece.uninvoiced AND piece.month = settled.newest_month) AS estimated
    FROM (
        {pieces}
    ) AS piece CROSS JOIN settled
)
SELECT {keys} thing.currency, piece.kind, sum(piece.net), sum(piece.amortised), bool_or(piece.estimated)
FROM {rows} AS piece
    JOIN thing ON thing.id = piece.thing
    {tags}
WHERE {filters}
GROUP BY ALL
