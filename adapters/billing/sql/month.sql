-- One definition for every engine that rolls an export up where it lies. A small month comes row by row, a large one by day.
SELECT {chosen} FROM {table} CROSS JOIN (SELECT count(*) <= {hourly_rows} AS by_hour FROM {table} WHERE {month}) AS size
WHERE {month} GROUP BY {keys}
