-- What is bought is a thing; detail and rollup hold one integer for it, so that a hundred million rows stay small.
CREATE TABLE IF NOT EXISTS setting (key VARCHAR, value VARCHAR);
CREATE TABLE IF NOT EXISTS file (
    id INTEGER, path VARCHAR, stamp VARCHAR, modified BIGINT, form VARCHAR, shadowed BOOLEAN, problems VARCHAR[]
);
CREATE TABLE IF NOT EXISTS thing (
    id UBIGINT, payer VARCHAR, currency VARCHAR, account VARCHAR, region VARCHAR, zone VARCHAR, service VARCHAR,
    usage_type VARCHAR, operation VARCHAR, instance_type VARCHAR, purchase VARCHAR, line VARCHAR, resource VARCHAR,
    cluster VARCHAR, namespace VARCHAR, pod VARCHAR, team VARCHAR, project VARCHAR, tagset UBIGINT, commitment VARCHAR, lapses TIMESTAMP
);
CREATE TABLE IF NOT EXISTS tagset (
    id UBIGINT, cluster VARCHAR, namespace VARCHAR, team VARCHAR, project VARCHAR, compiles BOOLEAN
);
CREATE TABLE IF NOT EXISTS tag (tagset UBIGINT, plain VARCHAR, value VARCHAR);
-- kind: 0 gross, 1 discount, 2 credit, 3 tax. usage: AWS metered it (a fee, a credit or a tax is not usage).
CREATE TABLE IF NOT EXISTS detail (
    file INTEGER, month DATE, thing UBIGINT, kind UTINYINT, started TIMESTAMP, ended TIMESTAMP, usage BOOLEAN,
    uninvoiced BOOLEAN, net DECIMAL(38, 15), amortised DECIMAL(38, 15), hours DOUBLE
);
CREATE TABLE IF NOT EXISTS split (
    file INTEGER, month DATE, parent VARCHAR, started TIMESTAMP, usage_type VARCHAR, cluster VARCHAR, namespace VARCHAR,
    pod VARCHAR, cost DOUBLE, ratio DOUBLE
);
-- The smallest hashes of each file's rows: enough to see that two files hold the same month.
CREATE TABLE IF NOT EXISTS sketch (file INTEGER, month DATE, payer VARCHAR, mark UBIGINT);
-- What was paid for a Capacity Block, and which reservation an instance's hours came from: enough to spread the one over the other.
CREATE TABLE IF NOT EXISTS fee (
    file INTEGER, month DATE, thing UBIGINT, started TIMESTAMP, ended TIMESTAMP, net DECIMAL(38, 15), amortised DECIMAL(38, 15),
    units DOUBLE, reservation VARCHAR
);
-- A discount that is billed apart from what it is for: `itself` where it is for a commitment's fee, on whose row it stands.
CREATE TABLE IF NOT EXISTS rebate (
    file INTEGER, month DATE, thing UBIGINT, started TIMESTAMP, ended TIMESTAMP, uninvoiced BOOLEAN, net DECIMAL(38, 15), itself BOOLEAN
);
CREATE TABLE IF NOT EXISTS held (file INTEGER, month DATE, thing UBIGINT, reservation VARCHAR);
-- The detail by day.
CREATE TABLE IF NOT EXISTS rollup (
    day DATE, month DATE, thing UBIGINT, kind UTINYINT, net DECIMAL(38, 15), amortised DECIMAL(38, 15), hours DOUBLE, ended TIMESTAMP,
    usage_ended TIMESTAMP, uninvoiced BOOLEAN
);
CREATE TABLE IF NOT EXISTS extent (billed_through TIMESTAMP, settled TIMESTAMP, newest_month DATE, currency VARCHAR, hourly BOOLEAN);
CREATE OR REPLACE MACRO moment(t) AS coalesce(
    try_cast(t AS TIMESTAMPTZ) AT TIME ZONE 'UTC',
    try_strptime(t, ['%m/%d/%Y %H:%M:%S', '%m/%d/%Y %I:%M:%S %p', '%m/%d/%Y %H:%M', '%m/%d/%Y'])
);
CREATE OR REPLACE MACRO money(t) AS try_cast(t AS DECIMAL(38, 15));
-- The sum of a JSON object's numbers.
CREATE OR REPLACE MACRO money_in(t) AS list_sum(list_transform(json_extract_string(t, '$.*'), lambda x: money(x)));
-- A number of at most 15 digits that the same double is written for is the one that `money` would read of its text; else NULL.
CREATE OR REPLACE MACRO short_money(x) AS
    CASE WHEN abs(x) < 99999 AND try_cast(x AS DECIMAL(18, 10))::DOUBLE = x THEN try_cast(x AS DECIMAL(18, 10)) END;
CREATE OR REPLACE MACRO type_in(t) AS
    regexp_extract(t, '(?:^|[^a-z0-9.-])((?:ml\.)?[a-z][a-z0-9-]*[0-9][a-z0-9-]*\.(?:[0-9]*xlarge|large|medium|small|micro|nano|metal[a-z0-9-]*))(?:$|[^a-z0-9.-])', 1);
-- SageMaker's Price List calls the type of a use `ml.TYPE-Training`.
CREATE OR REPLACE MACRO plain_type(t) AS regexp_replace(t, '^(ml\..+)-[A-Z]\w*$', '\1');
-- Cluster:ml.TYPE are the nodes of SageMaker HyperPod, Train:ml.TYPE those of its training jobs.
CREATE OR REPLACE MACRO runs_instance(t) AS
    regexp_matches(t, '(^|-)(BoxUsage|SpotUsage|DedicatedUsage|HostBoxUsage|SchedUsage)(:|$)|(^|-)(Cluster|Train):ml\.');
CREATE OR REPLACE MACRO holds_instance(t) AS regexp_matches(t, '(^|-)(UnusedBox|UnusedDed)(:|$)');
-- FOCUS tells by CapacityReservationStatus that reserved capacity stood empty, where a CUR has the usage type UnusedBox.
CREATE OR REPLACE MACRO held_usage_type(t, status) AS CASE
    WHEN coalesce(status, '') NOT ILIKE 'unused' OR holds_instance(t) THEN t
    WHEN runs_instance(t) THEN regexp_replace(t, '(^|-)(BoxUsage|SpotUsage|DedicatedUsage|HostBoxUsage|SchedUsage)', '\1UnusedBox')
    ELSE 'UnusedBox' END;
CREATE OR REPLACE MACRO reservation_in(t) AS nullif(regexp_extract(t, '\bcr-[0-9a-z-]+'), '');
CREATE OR REPLACE MACRO thing_id(
    payer, currency, account, region, zone, service, usage_type, operation, instance_type, purchase, line, resource,
    cluster, namespace, pod, team, project, tagset, commitment
) AS hash(
    payer, currency, account, region, zone, service, usage_type, operation, instance_type, purchase, line, resource,
    cluster, namespace, pod, team, project, tagset, commitment
);
