"""Answer Cost Explorer and Athena from a recording's billing export, by SQL of our own over its raw columns."""

from __future__ import annotations

import csv
import re
import threading
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

ROOT = Path(__file__).parents[2]
_EC2 = "line_item_product_code = 'AmazonEC2'"
_KEYS = {
    "LINKED_ACCOUNT": "line_item_usage_account_id",
    "REGION": "coalesce(nullif(product_region_code, ''), 'NoRegion')",
    "RECORD_TYPE": "line_item_line_item_type",
    "SERVICE": "coalesce(service.said, line_item_product_code)",
    "USAGE_TYPE": "line_item_usage_type",
}
_AMORTISED = """CASE line_item_line_item_type
    WHEN 'SavingsPlanCoveredUsage' THEN savings_plan_savings_plan_effective_cost
    WHEN 'SavingsPlanRecurringFee' THEN savings_plan_total_commitment_to_date - savings_plan_used_commitment
    WHEN 'SavingsPlanNegation' THEN 0
    ELSE line_item_unblended_cost END"""
_METRICS = {
    "UnblendedCost": "sum(line_item_unblended_cost)",
    "NetUnblendedCost": "sum(line_item_unblended_cost)",
    "AmortizedCost": f"sum({_AMORTISED})",
    "UsageQuantity": "sum(line_item_usage_amount)",
}


class NoData(Exception):
    """Stand for AWS's DataUnavailableException."""


def _files(folder: Path) -> list[str]:
    """Return the export's Parquet files; an export of text is none that AWS could be asked about."""
    return sorted(str(path) for path in (folder / "billing").rglob("*.parquet"))


@cache
def _export(folder: Path) -> duckdb.DuckDBPyConnection:
    """Return a database that holds the export; a recording that is served does not change, so it is read once a process."""
    db = duckdb.connect()
    if files := _files(folder):
        db.execute(f"CREATE TABLE line AS SELECT * FROM read_parquet({files})")
    rows = list(csv.DictReader((ROOT / "bot/knowledge/services.csv").read_text().splitlines()))
    names = {row["code"]: row["said"] for row in rows if row["said"] != "EC2 - Other"}
    db.execute("CREATE TABLE service (code VARCHAR, said VARCHAR)")
    db.executemany("INSERT INTO service VALUES (?, ?)", list(names.items()))
    # Where Trino and DuckDB differ in what the query says.
    db.execute("CREATE MACRO element_at(m, k) AS m[k]")
    db.execute("CREATE MACRO json_format(x) AS x::VARCHAR")
    return db


class Costs:
    """Hold the export as a table; `page_days` is how many days one page of Cost Explorer holds."""

    def __init__(self, folder: Path, page_days: int = 1000) -> None:
        self.page_days = page_days
        self.queries: dict[str, tuple[list[str], list[tuple[Any, ...]]]] = {}
        self.scanned = 25_000_000
        self.failing = ""
        self.nothing: set[str] = set()
        """Operations that AWS has no data for."""
        self._lock = threading.Lock()
        self.db = _export(folder).cursor()
        rows = self.db.execute("DESCRIBE line").fetchall() if _files(folder) else []
        self.columns = [
            (str(row[0]).lower(), str(row[1])) for row in rows if row[0] != "BILLING_PERIOD"
        ]

    def cost_and_usage(self, given: dict[str, Any], today: date) -> dict[str, Any]:
        """Group and filter as asked, a page of so many days at a time."""
        period = given["TimePeriod"]
        start = date.fromisoformat(given.get("NextPageToken") or period["Start"])
        last = date.fromisoformat(period["End"])
        end = min(last, start + timedelta(days=self.page_days))
        keys = [_key(of) for of in given["GroupBy"]]
        metrics = ", ".join(_METRICS[name] for name in given["Metrics"])
        query = f"""SELECT line_item_usage_start_date::DATE AS day, {", ".join(keys)}, {metrics}
            FROM line LEFT JOIN service ON service.code = line_item_product_code
            WHERE line_item_unblended_cost IS NOT NULL AND line_item_usage_start_date >= ? AND line_item_usage_start_date < ?
                AND {_filter(given.get("Filter"))}
            GROUP BY ALL ORDER BY ALL"""
        with self._lock:
            rows = self.db.execute(query, [start, end]).fetchall() if self.columns else []
        days = [start + timedelta(days=n) for n in range((end - start).days)]
        found = [
            _span(day, [row[1:] for row in rows if row[0] == day], given, len(keys), today)
            for day in days
        ]
        more = {"NextPageToken": str(end)} if end < last else {}
        return {
            "GroupDefinitions": given["GroupBy"],
            "ResultsByTime": found,
            "DimensionValueAttributes": [],
            **more,
        }

    def said(self, operation: str, given: dict[str, Any], today: date) -> dict[str, Any]:
        """Say what AWS itself would of this bill: made up, but of the asked days."""
        period = given.get("TimePeriod") or {
            "Start": given["DateInterval"]["StartDate"],
            "End": given["DateInterval"]["EndDate"],
        }
        if operation in self.nothing:
            raise NoData(operation)
        start, end = (date.fromisoformat(period[name]) for name in ("Start", "End"))
        days = [
            {"Start": str(start + timedelta(days=n)), "End": str(start + timedelta(days=n + 1))}
            for n in range((end - start).days)
        ]
        match operation:
            case "GetCostForecast":
                span = {
                    "MeanValue": "1200.50",
                    "PredictionIntervalLowerBound": "1000",
                    "PredictionIntervalUpperBound": "1400",
                }
                total = {"Amount": "1200.50", "Unit": "USD"}
                return {"Total": total, "ForecastResultsByTime": [{"TimePeriod": period, **span}]}
            case "GetSavingsPlansUtilization":
                used = {
                    "TotalCommitment": "240",
                    "UsedCommitment": "180",
                    "UnusedCommitment": "60",
                    "UtilizationPercentage": "75",
                }
                return {
                    "SavingsPlansUtilizationsByTime": [
                        {"TimePeriod": day, "Utilization": used} for day in days
                    ],
                    "Total": {"Utilization": used},
                }
            case "GetSavingsPlansCoverage":
                covered = {
                    "SpendCoveredBySavingsPlans": "180",
                    "OnDemandCost": "60",
                    "TotalCost": "240",
                    "CoveragePercentage": "75",
                }
                return {
                    "SavingsPlansCoverages": [
                        {"TimePeriod": day, "Coverage": covered} for day in days
                    ]
                }
            case "GetReservationUtilization":
                hours = {
                    "TotalAmortizedFee": "48",
                    "RICostForUnusedHours": "12",
                    "UtilizationPercentage": "75",
                }
                return {
                    "UtilizationsByTime": [
                        {"TimePeriod": day, "Groups": [], "Total": hours} for day in days
                    ]
                }
        first = today - timedelta(days=2)
        return {"Anomalies": [_anomaly(first, today - timedelta(days=1))]}

    def table_metadata(self) -> dict[str, Any]:
        kinds = {
            "MAP(VARCHAR, VARCHAR)": "map<string,string>",
            "MAP(VARCHAR, DOUBLE)": "map<string,double>",
        }
        columns = [
            {
                "Name": name,
                "Type": kinds.get(
                    kind, {"VARCHAR": "string", "TIMESTAMP": "timestamp"}.get(kind, "double")
                ),
            }
            for name, kind in self.columns
        ]
        keys = [{"Name": "billing_period", "Type": "string"}]
        return {
            "TableMetadata": {
                "Name": "cur",
                "TableType": "EXTERNAL_TABLE",
                "Columns": columns,
                "PartitionKeys": keys,
            }
        }

    def start(self, query: str) -> str:
        """Run a query as DuckDB understands it."""
        named = f"q-{len(self.queries)}"
        with self._lock:
            query = query.replace('"bills"."cur"', "line")
            # Trino adds up a list by `reduce` with lambdas of its own.
            query = re.sub(r"reduce\((map_values\([^()]*\)), .*?, s -> s\)", r"list_sum(\1)", query)
            found = self.db.execute(query)
            self.queries[named] = ([str(x[0]) for x in found.description], found.fetchall())
        return named

    def execution(self, named: str) -> dict[str, Any]:
        state = (
            {"State": "FAILED", "StateChangeReason": self.failing}
            if self.failing
            else {"State": "SUCCEEDED"}
        )
        return {
            "QueryExecution": {
                "QueryExecutionId": named, "Status": state, "Statistics": {"DataScannedInBytes": self.scanned}
            }
        }  # fmt: skip

    def results(self, named: str, token: str, most: int = 100) -> dict[str, Any]:
        """Return the header and the rows, a page at a time."""
        columns, rows = self.queries[named]
        every = [columns, *rows]
        begin = int(token or 0)
        page = [
            {"Data": [{} if x is None else {"VarCharValue": str(x)} for x in row]}
            for row in every[begin : begin + most]
        ]
        info = [{"Name": name, "Type": "varchar"} for name in columns]
        more = {"NextToken": str(begin + most)} if begin + most < len(every) else {}
        return {"ResultSet": {"Rows": page, "ResultSetMetadata": {"ColumnInfo": info}}, **more}


def _anomaly(first: date, last: date) -> dict[str, Any]:
    root = {
        "Service": "Amazon Elastic Compute Cloud - Compute", "Region": "us-west-2", "LinkedAccount": "111122223333",
        "UsageType": "USW2-BoxUsage:trn1.32xlarge", "Impact": {"Contribution": 900.0},
    }  # fmt: skip
    return {
        "AnomalyId": "a-1",
        "AnomalyStartDate": f"{first}T00:00:00Z",
        "AnomalyEndDate": f"{last}T00:00:00Z",
        "DimensionValue": "Amazon Elastic Compute Cloud - Compute",
        "RootCauses": [root],
        "AnomalyScore": {"MaxScore": 0.9, "CurrentScore": 0.9},
        "Impact": {
            "MaxImpact": 500.0,
            "TotalImpact": 960.0,
            "TotalActualSpend": 2000.0,
            "TotalExpectedSpend": 1040.0,
        },
        "MonitorArn": "arn:aws:ce::111122223333:anomalymonitor/m-1",
    }


def _key(of: dict[str, str]) -> str:
    if of["Type"] == "TAG":
        plain = re.sub(r"[^a-z0-9]+", "_", of["Key"].lower())
        return f"'{of['Key']}$' || coalesce(resource_tags['user_{plain}'], resource_tags['{plain}'], '')"
    return _KEYS[of["Key"]]


def _filter(said: dict[str, Any] | None) -> str:
    if not said:
        return "TRUE"
    if "And" in said:
        return " AND ".join(f"({_filter(one)})" for one in said["And"])
    if "Not" in said:
        return f"NOT ({_filter(said['Not'])})"
    values = ", ".join(
        "'" + value.replace("'", "''") + "'" for value in said["Dimensions"]["Values"]
    )
    return f"{_KEYS[said['Dimensions']['Key']]} IN ({values})"


def _span(
    day: date, rows: list[tuple[Any, ...]], given: dict[str, Any], keys: int, today: date
) -> dict[str, Any]:
    groups = [
        {
            "Keys": [str(key) for key in row[:keys]],
            "Metrics": {
                name: {"Amount": str(amount), "Unit": "N/A" if name == "UsageQuantity" else "USD"}
                for name, amount in zip(given["Metrics"], row[keys:], strict=True)
            },
        }
        for row in rows
    ]
    period = {"Start": str(day), "End": str(day + timedelta(days=1))}
    return {
        "TimePeriod": period,
        "Total": {},
        "Groups": groups,
        "Estimated": day >= today.replace(day=1),
    }
