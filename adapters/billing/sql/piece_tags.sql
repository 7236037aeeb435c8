LEFT JOIN (SELECT tagset, {values} FROM tag GROUP BY tagset) AS tags ON tags.tagset = thing.tagset
