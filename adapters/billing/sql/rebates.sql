-- Spread what is billed as a discount apart over what it is for. AWS adds a discount up by account and SKU: it is for the rows of its
-- hour, day or month that agree with all it names, by what they cost; a discount that names no SKU stands as it is. A discount of a commitment's fee stands in net with the fee, and
-- in amortised cost with what the fee paid for. Rows of no file (0).
CREATE OR REPLACE TEMP TABLE rebated AS
SELECT thing, itself, CASE WHEN itself THEN 'row' WHEN ended - started <= INTERVAL 1 HOUR THEN 'hour' WHEN ended - started <= INTERVAL 25 HOUR
        THEN 'day' ELSE 'month' END AS step,
    CASE step WHEN 'row' THEN started WHEN 'hour' THEN date_trunc('hour', started) WHEN 'day' THEN date_trunc('day', started)
        ELSE date_trunc('month', started) END AS since,
    CASE step WHEN 'row' THEN ended ELSE since END AS until,
    month, min(started) AS started, max(ended) AS ended, bool_or(uninvoiced) AS uninvoiced, sum(net) AS usd
FROM rebate GROUP BY ALL;
CREATE OR REPLACE TEMP TABLE target AS
SELECT r.id AS source, t.id AS thing, FALSE AS itself
FROM (SELECT * FROM thing WHERE id IN (SELECT thing FROM rebated WHERE NOT itself)) AS r
    JOIN thing AS t USING (payer, currency, account, service)
WHERE r.usage_type || r.resource <> '' AND r.region IN ('', t.region) AND r.usage_type IN ('', t.usage_type) AND r.operation IN ('', t.operation)
    AND r.resource IN ('', t.resource, t.commitment) AND r.team IN ('', t.team) AND r.project IN ('', t.project)
    AND r.cluster IN ('', t.cluster)
UNION ALL
SELECT DISTINCT thing, thing, TRUE FROM rebated WHERE itself;
CREATE OR REPLACE TEMP TABLE discounted AS
WITH met AS (
    SELECT r.thing AS source, r.itself, r.usd, d.*
    FROM rebated AS r JOIN target ON target.source = r.thing AND target.itself = r.itself
        JOIN (
            SELECT rowid AS row, *, unnest(['row', 'hour', 'day', 'month']) AS step,
                unnest([started, date_trunc('hour', started), date_trunc('day', started), date_trunc('month', started)]) AS since,
                unnest([ended, date_trunc('hour', started), date_trunc('day', started), date_trunc('month', started)]) AS until
            FROM detail WHERE kind = 0 AND net > 0
        ) AS d ON d.thing = target.thing AND (d.step, d.since, d.until) = (r.step, r.since, r.until)
), share AS (
    SELECT *, (usd::DOUBLE * net::DOUBLE / (sum(net) OVER within)::DOUBLE)::DECIMAL(38, 9)::DECIMAL(38, 15) AS part,
        row_number() OVER (within ORDER BY net DESC, thing, started) AS nth
    FROM met WINDOW within AS (PARTITION BY source, itself, step, since, until)
)
-- What comes of rounding is the largest part's.
SELECT * REPLACE (CASE WHEN nth = 1 THEN part + usd - sum(part) OVER (PARTITION BY source, itself, step, since, until) ELSE part END AS part)
FROM share;
-- In FOCUS the hours of a Capacity Block are charged themselves: its fee has no amortised cost then.
CREATE OR REPLACE TEMP MACRO is_spread(usage, purchase, amortised) AS
    NOT usage AND (purchase IN ('savings-plan', 'reserved') OR (purchase = 'capacity-block' AND amortised = 0));
CREATE OR REPLACE TEMP TABLE fee_share AS
WITH fee AS (
    SELECT any_value(thing) AS thing, min(started) AS started, any_value(net) AS net, any_value(amortised) AS amortised, sum(part) AS part
    FROM discounted WHERE NOT usage GROUP BY row
)
SELECT payer, purchase, commitment, started::DATE AS day, min(started) AS since, sum(part)::DOUBLE / sum(net)::DOUBLE AS share
FROM fee JOIN thing ON thing.id = fee.thing
WHERE is_spread(FALSE, purchase, amortised) GROUP BY ROLLUP (payer, purchase, commitment, day);
CREATE OR REPLACE TEMP TABLE spread AS
SELECT d.month, d.thing, d.started, d.ended, d.usage, d.uninvoiced, d.part AS net,
    CASE WHEN is_spread(d.usage, t.purchase, d.amortised) THEN 0 ELSE d.part END AS amortised,
    d.hours IS NOT NULL AS metered
FROM discounted AS d JOIN thing AS t ON t.id = d.thing
UNION ALL
SELECT month, thing, started, ended, FALSE, uninvoiced, usd, usd, FALSE
FROM rebated ANTI JOIN discounted ON (rebated.thing, rebated.itself, rebated.step, rebated.since, rebated.until)
    = (discounted.source, discounted.itself, discounted.step, discounted.since, discounted.until)
UNION ALL
SELECT d.month, d.thing, d.started, d.ended, d.usage, d.uninvoiced, 0,
    (d.amortised::DOUBLE * coalesce(daily.share, once.share))::DECIMAL(38, 9)::DECIMAL(38, 15), d.hours IS NOT NULL
FROM detail AS d JOIN thing AS t ON t.id = d.thing
    LEFT JOIN fee_share AS daily ON (daily.payer, daily.purchase, daily.commitment, daily.day)
        = (t.payer, t.purchase, t.commitment, d.started::DATE)
    LEFT JOIN fee_share AS once ON (once.payer, once.purchase, once.commitment) = (t.payer, t.purchase, t.commitment)
        AND once.day IS NULL AND d.started >= once.since
WHERE d.kind = 0 AND d.amortised <> 0 AND coalesce(daily.share, once.share) <> 0;
INSERT INTO detail
SELECT 0, month, thing, 1, started, ended, usage, uninvoiced, net, amortised, CASE WHEN metered THEN 0 END FROM spread;
DROP MACRO is_spread; DROP TABLE rebated; DROP TABLE target; DROP TABLE discounted; DROP TABLE fee_share; DROP TABLE spread;
