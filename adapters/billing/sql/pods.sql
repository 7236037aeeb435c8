-- A split row says whose part of its parent it is: split plus unused cost, as a share of the parent's amortised cost.
UPDATE thing SET cluster = s.cluster
FROM (SELECT parent, min(cluster) AS cluster FROM split WHERE cluster <> '' GROUP BY parent) AS s
WHERE thing.resource = s.parent AND thing.cluster = '';
CREATE OR REPLACE TEMP TABLE parted AS
WITH parent AS (
    SELECT thing.resource AS parent, date_trunc('hour', detail.started) AS started, sum(detail.amortised)::DOUBLE AS amortised
    FROM detail JOIN thing ON thing.id = detail.thing
    WHERE detail.hours IS NOT NULL GROUP BY ALL
), pod AS (
    SELECT parent, started, namespace, pod, sum(cost) AS cost, sum(ratio) AS ratio FROM split GROUP BY ALL
), whole AS (
    SELECT parent, started, sum(cost) AS cost, sum(ratio) / count(DISTINCT usage_type) AS ratio, count(DISTINCT usage_type) AS kinds
    FROM split GROUP BY ALL
), share AS (
    SELECT pod.parent, pod.started, pod.namespace, pod.pod,
        CASE WHEN whole.cost > 0 THEN pod.cost / greatest(whole.cost, parent.amortised)
             ELSE pod.ratio / whole.kinds / greatest(1, whole.ratio) END AS part
    FROM pod JOIN whole USING (parent, started) JOIN parent USING (parent, started)
)
SELECT d.rowid AS whole_row, d.* EXCLUDE (thing, net, amortised, hours), d.thing AS node, share.namespace, share.pod,
    round(d.net::DOUBLE * share.part, 9)::DECIMAL(38, 15) AS net,
    round(d.amortised::DOUBLE * share.part, 9)::DECIMAL(38, 15) AS amortised
FROM detail AS d JOIN thing ON thing.id = d.thing
    JOIN share ON share.parent = thing.resource AND share.started = date_trunc('hour', d.started)
WHERE d.hours IS NOT NULL;
-- The same thing once for each pod that had a part of it.
CREATE OR REPLACE TEMP TABLE owned AS
WITH renamed AS (
    SELECT p.node, t.* REPLACE (p.namespace AS namespace, p.pod AS pod)
    FROM (SELECT DISTINCT node, namespace, pod FROM parted) AS p JOIN thing AS t ON t.id = p.node
)
SELECT * REPLACE (thing_id(payer, currency, account, region, zone, service, usage_type, operation, instance_type, purchase, line,
    resource, cluster, namespace, pod, team, project, tagset, commitment) AS id)
FROM renamed;
INSERT INTO thing
SELECT DISTINCT ON (id) * EXCLUDE (node) FROM owned ANTI JOIN thing AS known ON known.id = owned.id;
CREATE OR REPLACE TABLE pod_detail AS
SELECT p.file, p.month, o.id AS thing, p.kind, p.started, p.ended, p.usage, p.uninvoiced, p.net, p.amortised, NULL::DOUBLE AS hours
FROM parted AS p JOIN owned AS o ON o.node = p.node AND o.namespace = p.namespace AND o.pod = p.pod
UNION ALL
SELECT d.* REPLACE (d.net - coalesce(p.net, 0) AS net, d.amortised - coalesce(p.amortised, 0) AS amortised)
FROM detail AS d LEFT JOIN (SELECT whole_row, sum(net) AS net, sum(amortised) AS amortised FROM parted GROUP BY whole_row) AS p
    ON p.whole_row = d.rowid;
DROP TABLE parted;
DROP TABLE owned;
