SELECT {chosen} FROM {table} WHERE {month} GROUP BY {keys}
