-- One copy of a month counts. Two formats of one payer's month are copies; two files of one format are, when most rows agree.
WITH part AS (
    SELECT DISTINCT s.file, s.month, s.payer, f.path, f.form, {rank} AS rank, f.modified
    FROM sketch AS s JOIN file AS f ON f.id = s.file
), pair AS (
    SELECT a.file AS better, b.file AS worse, a.month, a.payer AS better_payer, b.payer AS payer, a.form = b.form AS alike,
        a.path AS better_path, a.form AS better_form, b.path, b.form
    FROM part AS a JOIN part AS b ON a.month = b.month AND a.file <> b.file
        AND (a.payer = b.payer OR a.payer = '' OR b.payer = '')
        AND (a.rank, -a.modified, a.path) < (b.rank, -b.modified, b.path)
), reach AS (
    SELECT file, month, payer, CASE WHEN count(*) < 512 THEN 18446744073709551615 ELSE max(mark) END AS top FROM sketch GROUP BY ALL
), seen AS (
    SELECT p.better, p.worse, p.month, p.better_payer, p.payer, s.mark, count(*) AS files, bool_or(s.file = p.better) AS in_better
    FROM pair AS p
        JOIN reach AS g ON g.file = p.better AND g.month = p.month AND g.payer = p.better_payer
        JOIN reach AS h ON h.file = p.worse AND h.month = p.month AND h.payer = p.payer
        JOIN sketch AS s ON s.month = p.month AND s.mark <= least(g.top, h.top)
            AND ((s.file = p.better AND s.payer = p.better_payer) OR (s.file = p.worse AND s.payer = p.payer))
    WHERE p.alike GROUP BY ALL
), common AS (
    SELECT better, worse, month, better_payer, payer,
        count(*) FILTER (files > 1) / least(count(*) FILTER (in_better), count(*) FILTER (files > 1 OR NOT in_better)) AS share
    FROM seen GROUP BY ALL
)
SELECT DISTINCT ON (p.worse, p.month, p.payer) p.worse, p.month, p.payer, p.path, p.form, p.better_path, p.better_form
FROM pair AS p LEFT JOIN common AS c USING (better, worse, month, better_payer, payer)
WHERE NOT p.alike OR c.share > 0.5
ORDER BY p.worse, p.month, p.payer, p.better_path
