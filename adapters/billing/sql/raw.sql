-- Times and amounts of every row. What tells rows apart is looked into once for each of their kinds, as files repeat it by the
-- thousand; `key` is its hash.
CREATE OR REPLACE TEMP TABLE raw AS {amounts};
CREATE OR REPLACE TEMP TABLE distinct_raw AS
SELECT hash({keys}) AS key, {keys} FROM {source} WHERE {place} IN (SELECT min(n) FROM raw GROUP BY key);
CREATE OR REPLACE TEMP TABLE label AS SELECT *, coalesce(hash(tags), 0) AS tagset FROM ({labels});
DROP TABLE distinct_raw;
