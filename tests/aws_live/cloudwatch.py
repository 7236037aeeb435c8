"""Answer ListMetrics and GetMetricData from a recording, as CloudWatch does: exact dimension sets, aligned periods, pages."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

Key = tuple[str, str, tuple[tuple[str, str], ...]]
PAGE = 500


_PARQUET = "read_parquet('{}/metrics/**/*.parquet', union_by_name=true)"
_COLUMNS = {
    **dict.fromkeys(("region", "namespace", "metric_name"), "VARCHAR"),
    "dimensions": "JSON",
    "timestamp": "BIGINT",
    "value": "STRUCT(count DOUBLE, sum DOUBLE, max DOUBLE, min DOUBLE)",
}


@dataclass
class Stored:
    """Hold one series: columns seconds, count, sum, max, min."""

    rows: np.ndarray
    period: int


@cache
def _read(folder: Path) -> dict[str, dict[Key, Stored]]:
    """Return the series of each region; a recording that is served does not change, so it is read once a process."""
    found: dict[str, dict[Key, Stored]] = {}
    lines = next(folder.glob("metrics/**/*.jsonl*"), None)
    told = (
        f"read_ndjson('{folder}/metrics/**/*.jsonl*', columns={_COLUMNS})"
        if lines
        else _PARQUET.format(folder)
    )
    rows = duckdb.connect().execute(
        "SELECT region, namespace, metric_name, CAST(to_json(dimensions) AS VARCHAR) d,"
        ' list(CAST("timestamp" AS BIGINT) // 1000 ORDER BY "timestamp"), list(value.count ORDER BY "timestamp"),'
        ' list(value.sum ORDER BY "timestamp"), list(value.max ORDER BY "timestamp"), list(value.min ORDER BY "timestamp")'
        f" FROM {told} GROUP BY ALL"
    )
    for region, namespace, metric, dimensions, *columns in rows.fetchall():
        pairs = tuple(sorted((k, v) for k, v in json.loads(dimensions).items() if v is not None))
        table = np.array(columns, dtype=np.float64).T
        spacing = np.diff(table[:13, 0])
        period = int(np.median(spacing)) if len(spacing) else 60
        found.setdefault(region, {})[namespace, metric, pairs] = Stored(
            table, 300 if period >= 300 else 60
        )
    return found


@dataclass
class CloudWatch:
    """Serve metrics by region; times are recorded ones."""

    series: dict[str, dict[Key, Stored]]
    most_points: int = 100_800
    served: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    """How often each point of each statistic was handed out."""
    requested: int = 0
    """Metrics requested: each series once a call."""
    hidden: dict[tuple[str, int], int] = field(default_factory=dict)
    """Points that come late: (metric, seconds) -> seconds when they show."""

    @staticmethod
    def of(folder: Path) -> CloudWatch:
        """Return the metrics of a recording; a test may add and take out series without another test seeing it."""
        return CloudWatch({region: dict(every) for region, every in _read(folder).items()})

    def list_metrics(self, region: str, given: dict[str, Any], now: float) -> dict[str, Any]:
        since = now - (3 * 3600 if given.get("RecentlyActive") else 14 * 86_400)
        wanted = [
            key
            for key, one in sorted(self.series.get(region, {}).items())
            if key[0] == given.get("Namespace", key[0])
            and key[1] == given.get("MetricName", key[1])
            and all(_fits(dict(key[2]), d) for d in given.get("Dimensions", ()))
            and (one.rows[:, 0] + one.period <= now)[0]
            and ((one.rows[:, 0] >= since) & (one.rows[:, 0] + one.period <= now)).any()
        ]
        start = int(given.get("NextToken", 0))
        page = [
            {
                "Namespace": n,
                "MetricName": m,
                "Dimensions": [{"Name": k, "Value": v} for k, v in pairs],
            }
            for n, m, pairs in wanted[start : start + PAGE]
        ]
        return {"Metrics": page} | (
            {"NextToken": str(start + PAGE)} if start + PAGE < len(wanted) else {}
        )

    def get_metric_data(self, region: str, given: dict[str, Any], now: float) -> dict[str, Any]:
        queries = given["MetricDataQueries"]
        assert len(queries) <= 500, "more than 500 queries"
        assert given["ScanBy"] == "TimestampAscending"
        self.requested += len(
            {json.dumps(q["MetricStat"]["Metric"], sort_keys=True) for q in queries}
        )
        results: list[dict[str, Any]] = []
        room = min(int(given.get("MaxDatapoints", self.most_points)), self.most_points)
        query, skip = (int(x) for x in given.get("NextToken", "0.0").split("."))
        while query < len(queries):
            times, values = self._values(
                region, queries[query], given["StartTime"], given["EndTime"], now
            )
            part = slice(skip, skip + room)
            whole = skip + room >= len(times)
            result = {
                "Id": queries[query]["Id"],
                "Label": "a label",
                "StatusCode": "Complete" if whole else "PartialData",
            }
            results.append(
                result | {"Timestamps": times[part].tolist(), "Values": values[part].tolist()}
            )
            self._count(region, queries[query], times[part])
            room -= len(times[part])
            if room <= 0:
                query, skip = (query + 1, 0) if whole else (query, part.stop)
                break
            query, skip = query + 1, 0
        more = {"NextToken": f"{query}.{skip}"} if query < len(queries) else {}
        return {"MetricDataResults": results, "Messages": []} | more

    def _values(
        self, region: str, query: dict[str, Any], start: float, end: float, now: float
    ) -> Any:
        asked = query["MetricStat"]
        metric = asked["Metric"]
        pairs = tuple(sorted((d["Name"], d["Value"]) for d in metric.get("Dimensions", ())))
        stored = self.series.get(region, {}).get((metric["Namespace"], metric["MetricName"], pairs))
        if stored is None:
            return np.zeros(0), np.zeros(0)
        period = int(asked["Period"])
        rows = stored.rows
        begin = start // period * period
        seen = (rows[:, 0] >= begin) & (rows[:, 0] < end) & (rows[:, 0] + stored.period <= now)
        for (name, at), shows in self.hidden.items():
            if name == metric["MetricName"] and now < shows:
                seen &= rows[:, 0] != at
        rows = rows[seen]
        if not len(rows):
            return np.zeros(0), np.zeros(0)
        begins = rows[:, 0] // period * period
        first = np.flatnonzero(np.append(True, np.diff(begins) > 0))
        statistic = {
            "SampleCount": (1, np.add),
            "Sum": (2, np.add),
            "Maximum": (3, np.maximum),
            "Minimum": (4, np.minimum),
        }
        column, fold = statistic[asked["Stat"]]
        return begins[first], fold.reduceat(rows[:, column], first)

    def _count(self, region: str, query: dict[str, Any], times: Any) -> None:
        metric = json.dumps(query["MetricStat"]["Metric"], sort_keys=True)
        stat = query["MetricStat"]["Stat"]
        self.served.update((region, metric, stat, at) for at in times.tolist())


def _fits(said: dict[str, str], wanted: dict[str, str]) -> bool:
    return (
        wanted["Name"] in said and wanted.get("Value", said[wanted["Name"]]) == said[wanted["Name"]]
    )
