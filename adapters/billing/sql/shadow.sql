-- One copy of a month counts. Two formats of one payer's month are copies; two files of one format are, when most rows agree.
-- The hundred files of a month make thousands of pairs: only those that hold a row in common are looked into.
WITH part AS MATERIALIZED (
    SELECT DISTINCT s.file, s.month, s.payer, f.path, f.form, ({rank}, -f.modified, f.path) AS rank
    FROM sketch AS s JOIN file AS f ON f.id = s.file
), met AS MATERIALIZED (
    SELECT s.file AS better, t.file AS worse, month, s.payer AS better_payer, t.payer, mark
    FROM sketch AS s JOIN sketch AS t USING (month, mark)
    WHERE s.file <> t.file AND (s.payer = t.payer OR s.payer = '' OR t.payer = '')
), pair AS MATERIALIZED (
    SELECT a.file AS better, b.file AS worse, a.month, a.payer AS better_payer, b.payer, FALSE AS alike
    FROM part AS a JOIN part AS b ON a.month = b.month AND a.form <> b.form
        AND (a.payer = b.payer OR a.payer = '' OR b.payer = '') AND a.rank < b.rank
    UNION ALL
    SELECT m.*, TRUE FROM (SELECT DISTINCT * EXCLUDE (mark) FROM met) AS m
        JOIN part AS a ON a.file = m.better AND a.month = m.month AND a.payer = m.better_payer
        JOIN part AS b ON b.file = m.worse AND b.month = m.month AND b.payer = m.payer AND b.form = a.form AND a.rank < b.rank
), reach AS (
    SELECT file, month, payer, CASE WHEN count(*) < 512 THEN 18446744073709551615 ELSE max(mark) END AS top FROM sketch GROUP BY ALL
), known AS MATERIALIZED (
    SELECT p.* EXCLUDE (alike), least(g.top, h.top) AS top
    FROM pair AS p JOIN reach AS g ON g.file = p.better AND g.month = p.month AND g.payer = p.better_payer
        JOIN reach AS h ON h.file = p.worse AND h.month = p.month AND h.payer = p.payer
    WHERE p.alike
), seen AS (
    SELECT k.*, 1 AS shared, 0 AS mine, 0 AS theirs FROM known AS k
        JOIN met AS m USING (better, worse, month, better_payer, payer) WHERE m.mark <= k.top
    UNION ALL
    SELECT k.*, 0, 1, 0 FROM known AS k
        JOIN sketch AS s ON s.file = k.better AND s.month = k.month AND s.payer = k.better_payer AND s.mark <= k.top
    UNION ALL
    SELECT k.*, 0, 0, 1 FROM known AS k
        JOIN sketch AS s ON s.file = k.worse AND s.month = k.month AND s.payer = k.payer AND s.mark <= k.top
), common AS (
    SELECT better, worse, month, better_payer, payer, sum(shared) / least(sum(mine), sum(theirs)) AS share FROM seen GROUP BY ALL
)
SELECT DISTINCT ON (p.worse, p.month, p.payer) p.worse, p.month, p.payer, w.path, w.form, b.path, b.form
FROM pair AS p LEFT JOIN common AS c USING (better, worse, month, better_payer, payer)
    JOIN file AS b ON b.id = p.better JOIN file AS w ON w.id = p.worse
WHERE NOT p.alike OR c.share > 0.5
ORDER BY p.worse, p.month, p.payer, b.path
