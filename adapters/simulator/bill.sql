-- Cut the charges of the table `charge` into rows of their step, price them, and add negations, discounts and taxes: the table `line`.
-- The discount of 3 % and the tax of 2 % are the invented account's own.
CREATE TABLE cut AS
SELECT *, (units * CASE WHEN step = '1 month' THEN 1
                        ELSE (epoch(least(ends, until)) - epoch(greatest(starts, since))) / epoch(step::INTERVAL)
                   END)::DECIMAL(20, 6) AS amount
FROM (SELECT *, since + step::INTERVAL AS until
      FROM (SELECT *, unnest(generate_series(date_trunc(split_part(step, ' ', 2), starts),
                                             ends - INTERVAL 1 SECOND, step::INTERVAL)) AS since FROM charge));

CREATE TABLE priced AS
SELECT * REPLACE (CASE WHEN parent = '' THEN effective ELSE 0 END AS effective),
       (amount * rate)::DECIMAL(24, 10) AS usd,
       CASE WHEN parent = '' THEN (amount * effective)::DECIMAL(24, 10) ELSE 0 END AS effective_usd,
       CASE WHEN parent = '' THEN NULL ELSE (amount * effective * ratio)::DECIMAL(24, 10) END AS split_usd
FROM cut;

CREATE TABLE line AS
WITH used AS (SELECT plan, since, sum(effective_usd) AS used FROM priced WHERE kind = 'SavingsPlanCoveredUsage' GROUP BY ALL),
whole AS (
    SELECT p.*, CASE WHEN kind = 'SavingsPlanRecurringFee' THEN usd END AS committed,
           CASE WHEN kind = 'SavingsPlanRecurringFee' THEN coalesce(u.used, 0)::DECIMAL(24, 10) END AS used
    FROM priced p LEFT JOIN used u ON u.plan = p.plan AND u.since = p.since),
-- A negation and a discount are summed by SKU and hour, and are of no resource and no tags.
negations AS (
    SELECT min_by(w, w.id) AS one, -sum(amount) AS negated_amount, -sum(usd) AS negated
    FROM whole w WHERE kind = 'SavingsPlanCoveredUsage' GROUP BY plan, region, usage_type, since),
negated AS (SELECT unnest(one), negated_amount, negated FROM negations),
discounts AS (
    SELECT min_by(w, w.id) AS one, (sum(usd) * -0.03)::DECIMAL(24, 10) AS discount
    FROM whole w WHERE kind = 'Usage' AND product = 'AmazonEC2' AND parent = '' AND instance_type <> '' AND usd > 0
    GROUP BY region, usage_type, since),
discount_lines AS (
    SELECT unnest(one), discount FROM discounts),
taxes AS (
    SELECT min_by(w, w.id) AS one, date_trunc('month', since) AS month, (sum(usd) * 0.02)::DECIMAL(24, 10) AS tax
    FROM whole w WHERE kind = 'Usage' GROUP BY product, month),
tax_lines AS (SELECT unnest(one), month, tax FROM taxes)
SELECT * FROM whole
UNION ALL BY NAME SELECT * EXCLUDE (negated_amount, negated) REPLACE (
    'SavingsPlanNegation' AS kind, negated_amount AS amount, negated AS usd, 0 AS effective_usd, '' AS resource, '' AS zone,
    MAP {}::MAP(VARCHAR, VARCHAR) AS tags, 'SavingsPlanNegation' AS description) FROM negated
UNION ALL BY NAME SELECT * EXCLUDE (discount) REPLACE (
    'EdpDiscount' AS kind, discount AS usd, 1 AS amount, '' AS resource, '' AS zone,
    MAP {}::MAP(VARCHAR, VARCHAR) AS tags, 'Enterprise Program Discount' AS description) FROM discount_lines
UNION ALL BY NAME SELECT * EXCLUDE (month, tax) REPLACE (
    'Tax' AS kind, month AS since, month + INTERVAL 1 MONTH AS until, tax AS usd, 1 AS amount, '' AS resource, '' AS zone,
    '' AS usage_type, '' AS operation, '' AS instance_type, MAP {}::MAP(VARCHAR, VARCHAR) AS tags,
    'Tax of product code ' || product AS description) FROM tax_lines;
