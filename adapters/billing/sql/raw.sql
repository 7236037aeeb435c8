-- What tells rows apart is read once for each of their kinds, as files repeat it by the thousand; `key` is its hash.
CREATE OR REPLACE TEMP VIEW raw AS SELECT {place} AS n, hash({keys}) AS key, {columns} FROM {source};
CREATE OR REPLACE TEMP TABLE distinct_raw AS SELECT key, {firsts} FROM raw GROUP BY key;
