"""Write the bill as AWS exports it: charges cut into rows by DuckDB, exact in DECIMAL, in one of three formats."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Literal

import duckdb

from adapters.simulator.bill_formats import SELECTS
from adapters.simulator.charges import Charge, charges
from adapters.simulator.fleet import ACCOUNT, Fleet
from adapters.simulator.rows import quoted
from adapters.simulator.scenario import Scenario

BillForm = Literal["cur2", "focus1.2", "legacy"]

_CUT = """
CREATE TABLE cut AS
SELECT *, (units * CASE WHEN step = '1 month' THEN 1
                        ELSE (epoch(least(ends, until)) - epoch(greatest(starts, since))) / epoch(step::INTERVAL)
                   END)::DECIMAL(20, 6) AS amount
FROM (SELECT *, since + step::INTERVAL AS until
      FROM (SELECT *, unnest(generate_series(date_trunc(split_part(step, ' ', 2), starts),
                                             ends - INTERVAL 1 SECOND, step::INTERVAL)) AS since FROM charge))
"""
_PRICED = """
CREATE TABLE priced AS
SELECT * REPLACE (CASE WHEN parent = '' THEN effective ELSE 0 END AS effective),
       (amount * rate)::DECIMAL(24, 10) AS usd,
       CASE WHEN parent = '' THEN (amount * effective)::DECIMAL(24, 10) ELSE 0 END AS effective_usd,
       CASE WHEN parent = '' THEN NULL ELSE (amount * effective * ratio)::DECIMAL(24, 10) END AS split_usd
FROM cut
"""
_LINES = """
CREATE TABLE line AS
WITH used AS (SELECT plan, since, sum(effective_usd) AS used FROM priced WHERE kind = 'SavingsPlanCoveredUsage' GROUP BY ALL),
whole AS (
    SELECT p.*, CASE WHEN kind = 'SavingsPlanRecurringFee' THEN usd END AS committed,
           CASE WHEN kind = 'SavingsPlanRecurringFee' THEN coalesce(u.used, 0)::DECIMAL(24, 10) END AS used
    FROM priced p LEFT JOIN used u ON u.plan = p.plan AND u.since = p.since),
negated AS (
    SELECT * REPLACE ('SavingsPlanNegation' AS kind, -usd AS usd, 0 AS effective_usd, 'SavingsPlanNegation' AS description)
    FROM whole WHERE kind = 'SavingsPlanCoveredUsage'),
discounts AS (
    SELECT min_by(w, w.id) AS one, date_trunc('day', since) AS day, (sum(usd) * -0.03)::DECIMAL(24, 10) AS discount
    FROM whole w WHERE kind = 'Usage' AND product = 'AmazonEC2' AND parent = '' AND instance_type <> '' AND usd > 0
    GROUP BY region, usage_type, day),
discount_lines AS (
    SELECT unnest(one), day, discount FROM discounts),
taxes AS (
    SELECT min_by(w, w.id) AS one, date_trunc('month', since) AS month, (sum(usd) * 0.02)::DECIMAL(24, 10) AS tax
    FROM whole w WHERE kind = 'Usage' GROUP BY product, month),
tax_lines AS (SELECT unnest(one), month, tax FROM taxes)
SELECT * FROM whole
UNION ALL BY NAME SELECT * FROM negated
UNION ALL BY NAME SELECT * EXCLUDE (day, discount) REPLACE (
    'EdpDiscount' AS kind, day AS since, day + INTERVAL 1 DAY AS until, discount AS usd, 1 AS amount, '' AS resource, '' AS zone,
    MAP {}::MAP(VARCHAR, VARCHAR) AS tags, 'Enterprise Program Discount' AS description) FROM discount_lines
UNION ALL BY NAME SELECT * EXCLUDE (month, tax) REPLACE (
    'Tax' AS kind, month AS since, month + INTERVAL 1 MONTH AS until, tax AS usd, 1 AS amount, '' AS resource, '' AS zone,
    '' AS usage_type, '' AS operation, '' AS instance_type, MAP {}::MAP(VARCHAR, VARCHAR) AS tags,
    'Tax of product code ' || product AS description) FROM tax_lines
"""


def write_bill(
    folder: Path,
    scenario: Scenario,
    fleet: Fleet,
    form: BillForm = "cur2",
    file_form: Literal["parquet", "csv.gz"] = "parquet",
) -> None:
    """Write `billing/BILLING_PERIOD=YYYY-MM/bill.parquet` (or csv.gz), a file for each month."""
    db = duckdb.connect(config={"threads": 1, "preserve_insertion_order": True})
    _load(db, list(charges(scenario, fleet)))
    for statement in (_CUT, _PRICED, _LINES):
        db.execute(statement)
    _finalise(db, fleet)
    months = [m for (m,) in db.execute("SELECT DISTINCT strftime(since, '%Y-%m') AS m FROM line ORDER BY m").fetchall()]
    how = "FORMAT parquet, COMPRESSION zstd" if file_form == "parquet" else "FORMAT csv, HEADER, COMPRESSION gzip"
    select = SELECTS[form](file_form == "parquet")
    for month in months:
        path = folder / "billing" / f"BILLING_PERIOD={month}" / f"bill.{file_form}"
        path.parent.mkdir(parents=True, exist_ok=True)
        where = f"strftime(since, '%Y-%m') = {quoted(month)}"
        rows = f"{select} WHERE {where} ORDER BY since, id, kind"
        db.execute(f"COPY ({rows}) TO {quoted(str(path))} ({how})")
    db.close()


def _load(db: duckdb.DuckDBPyConnection, every: Sequence[Charge]) -> None:
    columns = {f.name: [_text(getattr(c, f.name)) for c in every] for f in fields(Charge)}
    columns["id"] = [str(i) for i in range(len(every))]
    texts = json.dumps([dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])
    typed = {
        "id": "BIGINT",
        "starts": "TIMESTAMP",
        "ends": "TIMESTAMP",
        "units": "DECIMAL(18, 6)",
        "rate": "DECIMAL(12, 8)",
        "effective": "DECIMAL(12, 8)",
        "ratio": "DECIMAL(6, 4)",
        "tags": "MAP(VARCHAR, VARCHAR)",
    }
    casts = ", ".join(f"(x->>'{n}')::{'JSON::' if n == 'tags' else ''}{typed.get(n, 'VARCHAR')} AS {n}" for n in columns)
    db.execute(f"CREATE TABLE charge AS SELECT {casts} FROM (SELECT unnest(?::JSON[]) AS x)", [texts])  # noqa: S608 - our own names


def _text(value: object) -> str:
    if isinstance(value, dict):
        return json.dumps(value)
    return f"{value:%Y-%m-%d %H:%M:%S}" if hasattr(value, "strftime") else str(value)


def _finalise(db: duckdb.DuckDBPyConnection, fleet: Fleet) -> None:
    """Give months that are over an invoice; the current month is still an estimate."""
    db.execute("ALTER TABLE line ADD COLUMN account VARCHAR")
    db.execute("ALTER TABLE line ADD COLUMN invoice VARCHAR")
    invoice = "CASE WHEN strftime(since, '%Y-%m') < ? THEN '18' || strftime(since, '%y%m') END"
    db.execute(f"UPDATE line SET account = ?, invoice = {invoice}", [ACCOUNT, f"{fleet.at(fleet.minutes):%Y-%m}"])  # noqa: S608 - our own text
