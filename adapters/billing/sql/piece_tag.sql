LEFT JOIN (SELECT tagset, arg_min(value, list_position({names}, plain)) AS value FROM tag WHERE list_contains({names}, plain) GROUP BY tagset)
        AS {alias} ON {alias}.tagset = thing.tagset
