"""Write a bill of many resources in many files: CUR 2.0 rows as AWS exports them, made by DuckDB."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb

MONTHS = ("2026-08", "2026-09", "2026-10")

_ROWS = """COPY (
    WITH seen AS (
        SELECT j, (j % {each}) * {files} + {nth} AS r, j // {each} AS nth FROM range({rows}) AS g(j)
    ), placed AS (
        SELECT *, (hash(r) % 10)::INTEGER AS k, (hash(r, 1) % 160)::INTEGER AS work,
            TIMESTAMP '{month}-01' + to_hours(CAST((r * 37 % 500 + nth) % 720 AS INTEGER)) AS hour
        FROM seen
    ), kind AS (
        SELECT *, work % 3 + 1 AS place, ['a', 'b'][1 + (hash(r, 2) % 2)::INTEGER] AS zone FROM placed
    ), priced AS (
        SELECT *,
            CASE WHEN k < 1 THEN 'trn1.32xlarge'
                WHEN k < 5 THEN 'm5.' || ['large', 'xlarge', '2xlarge', '4xlarge'][k] END AS type,
            CASE WHEN k < 5 THEN 1.0 ELSE (1 + hash(j, r) % 1000000) / 300000.0 END::DOUBLE AS amount,
            round(0.0004 * (1 + hash(r, 2) % 997) * CASE WHEN k < 5 THEN 1 + hash(j) % 7 / 70.0 ELSE amount END, 10) AS cost
        FROM kind
    )
    SELECT '111111111111' AS bill_payer_account_id,
        CASE WHEN '{month}' < '2026-10' THEN '18{month}' ELSE '' END AS bill_invoice_id,
        TIMESTAMP '{month}-01' AS bill_billing_period_start_date, 'USD' AS line_item_currency_code,
        (200000000000 + work % 40)::VARCHAR AS line_item_usage_account_id,
        CASE WHEN k = 1 THEN 'SavingsPlanCoveredUsage' ELSE 'Usage' END AS line_item_line_item_type,
        CASE WHEN k < 8 THEN 'AmazonEC2' WHEN k < 9 THEN 'AmazonS3' ELSE 'AmazonFSx' END AS line_item_product_code,
        ['', 'USE1-', 'EUC1-'][place] || CASE WHEN type IS NOT NULL THEN 'BoxUsage:' || type WHEN k < 7 THEN 'EBS:VolumeUsage.gp3'
            WHEN k < 8 THEN 'DataTransfer-Regional-Bytes' WHEN k < 9 THEN 'TimedStorage-ByteHrs' ELSE 'Lustre-Storage' END
            AS line_item_usage_type,
        CASE WHEN type IS NOT NULL THEN 'RunInstances' WHEN k < 8 THEN 'CreateVolume-Gp3' ELSE 'StandardStorage' END
            AS line_item_operation,
        ['us-west-2', 'us-east-1', 'eu-central-1'][place] || zone AS line_item_availability_zone,
        CASE WHEN type IS NOT NULL THEN 'i-' ELSE 'vol-' END || printf('%016x', hash(r, 4)) AS line_item_resource_id,
        hour AS line_item_usage_start_date, hour + INTERVAL 1 HOUR AS line_item_usage_end_date,
        amount AS line_item_usage_amount, CASE WHEN k < 5 THEN 'Hrs' ELSE 'GB-Mo' END AS pricing_unit, 'OnDemand' AS pricing_term,
        cost AS line_item_unblended_cost,
        '$' || (1 + hash(r, 2) % 997) || ' per On Demand Linux Instance Hour' AS line_item_line_item_description,
        CASE WHEN k = 1 THEN cost * 0.7 END AS savings_plan_savings_plan_effective_cost,
        MAP {{'instance_type': coalesce(type, ''), 'region_code': ['us-west-2', 'us-east-1', 'eu-central-1'][place]}} AS product,
        MAP {{'user_team': 'team' || work % 20, 'user_project': 'project' || work, 'user_name': 'node-' || r,
            'aws_eks_cluster_name': 'cluster' || work % 8}} AS resource_tags
    FROM priced
) TO '{path}' (FORMAT parquet)"""


@dataclass(frozen=True)
class BillSize:
    """State how large a bill is: `rows` of so many resources, in so many files a month."""

    rows: int
    resources: int = 20_000
    files: int = 10

    @staticmethod
    def of(rows: int, files: int = 0) -> BillSize:
        """Return a bill of 500 rows a resource and a million a file at most, but 20,000 resources and ten files at least."""
        return BillSize(rows, max(20_000, rows // 500), files or max(10, rows // 1_000_000))


def write_bill(folder: Path, size: BillSize) -> None:
    """Write three months, one folder each; every resource has a tag of its own."""
    db = duckdb.connect()
    for month in MONTHS:
        for nth in range(size.files):
            write_part(db, folder, size, month=month, nth=nth)


def write_part(
    db: duckdb.DuckDBPyConnection, folder: Path, size: BillSize, *, month: str, nth: int
) -> None:
    """Write one file of a month anew."""
    path = folder / f"BILLING_PERIOD={month}" / f"cur-{nth:05}.snappy.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    each, part = size.resources // size.files, size.rows // (size.files * len(MONTHS))
    db.execute(
        _ROWS.format(rows=part, each=each, files=size.files, nth=nth, month=month, path=path)
    )
