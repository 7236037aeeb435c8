"""Hold metrics as CloudWatch statistic sets, and write them as a recording does.

JSON lines or Parquet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import duckdb
import numpy as np

from adapters.simulator.fleet import ACCOUNT
from adapters.simulator.signals import Array


@dataclass(frozen=True)
class DimensionSets:
    """Hold the four statistics, each of shape (n_series, n_points)."""

    count: Array
    sum: Array
    max: Array
    min: Array

    def total(self) -> DimensionSets:
        """Return the statistic set of all series together, shape (1, n_points)."""
        low = np.where(self.count > 0, self.min, np.inf).min(axis=0, keepdims=True)
        return DimensionSets(
            self.count.sum(axis=0, keepdims=True),
            self.sum.sum(axis=0, keepdims=True),
            np.where(self.count > 0, self.max, -np.inf).max(axis=0, keepdims=True),
            np.where(np.isfinite(low), low, 0),
        )


def gather(
    mean: Array,
    visible: Array,
    minutes: int,
    things: int = 1,
    spread: tuple[Array, Array] | None = None,
) -> DimensionSets:
    """Gather `mean` (per thing and minute, shape (n, minutes)) into periods of `minutes`.

    Unseen or nan minutes do not count.

    `spread` holds the largest and the smallest thing of each minute where things differ.
    """
    n, whole = mean.shape[0], mean.shape[1] // minutes
    cut = slice(0, whole * minutes)
    scraped = (visible[:, cut] > 0) & np.isfinite(mean[:, cut])
    high, low = spread or (mean, mean)

    def fold(values: Array, where_not: float) -> Array:
        return np.where(scraped, values[:, cut], where_not).reshape(n, whole, minutes)

    scrapes = scraped.reshape(n, whole, minutes).sum(axis=2)
    return DimensionSets(
        (scrapes * things).astype(np.float64),
        fold(mean, 0.0).sum(axis=2) * things,
        fold(high, -np.inf).max(axis=2),
        fold(low, np.inf).min(axis=2),
    )


MetricForm = Literal["jsonl", "parquet"]


@dataclass(frozen=True)
class SimulatedSeries:
    """Name one series of a metric: where it stands and its dimensions."""

    region: str
    dimensions: Mapping[str, str]


@dataclass(frozen=True)
class SimulatedBlock:
    """Hold one metric of many series: arrays of shape (n_series, n_points).

    A count of 0 means there is no record.
    """

    namespace: str
    metric: str
    unit: str
    series: Sequence[SimulatedSeries]
    count: Array
    sum: Array
    max: Array
    min: Array


_SELECT = """
SELECT ? AS account_id, region, ? AS namespace, ? AS metric_name, dimensions, "timestamp",
       {'count': n, 'sum': total, 'max': high, 'min': low} AS "value", ? AS unit
FROM points JOIN series USING (id)
"""


class RowWriter:
    """Write blocks under a folder.

    One thread and the order of the arrays, so that the same arrays give the same bytes.
    """

    def __init__(self, folder: Path, form: MetricForm) -> None:
        self._folder, self._form = folder, form
        self._db = duckdb.connect(config={"threads": 1, "preserve_insertion_order": True})
        self.rows = 0

    def write(self, block: SimulatedBlock, name: str, times_ms: Sequence[int]) -> None:
        """Write one block as `metrics/NAME.parquet` or `metrics/NAME.jsonl.gz`.

        An empty one leaves no file.
        """
        points = _points(block, np.asarray(times_ms, dtype=np.int64))
        if not len(points["id"]):
            return
        self._db.register("points", points)
        self._name_series(block.series)
        path = (
            self._folder
            / "metrics"
            / f"{name}.{'parquet' if self._form == 'parquet' else 'jsonl.gz'}"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        how = (
            "FORMAT parquet, COMPRESSION zstd"
            if self._form == "parquet"
            else "FORMAT json, COMPRESSION gzip"
        )
        texts = [ACCOUNT, block.namespace, block.metric, block.unit]
        self._db.execute(f"COPY ({_SELECT}) TO {quoted(str(path))} ({how})", texts)
        self.rows += len(points["id"])

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def _name_series(self, series: Sequence[SimulatedSeries]) -> None:
        self._db.execute(
            'CREATE OR REPLACE TEMP TABLE series (id INTEGER, region VARCHAR, "dimensions" MAP(VARCHAR, VARCHAR))'
        )
        named = json.dumps([[i, s.region, dict(s.dimensions)] for i, s in enumerate(series)])
        self._db.execute(
            "INSERT INTO series SELECT (x->>0)::INTEGER, x->>1, (x->2)::MAP(VARCHAR, VARCHAR)"
            " FROM (SELECT unnest(?::JSON[]) AS x)",
            [named],
        )


def quoted(text: str) -> str:
    """Return an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def _points(block: SimulatedBlock, times_ms: np.ndarray) -> dict[str, np.ndarray]:
    shape = block.count.shape
    present = np.flatnonzero(block.count.ravel() > 0)
    ids, at = np.divmod(present, shape[1])
    return {
        "id": ids.astype(np.int32),
        "timestamp": times_ms[at],
        "n": block.count.ravel()[present].astype(np.float64),
        "total": _six_digits(block.sum.ravel()[present]),
        "high": _six_digits(block.max.ravel()[present]),
        "low": _six_digits(block.min.ravel()[present]),
    }


def _six_digits(values: Array) -> Array:
    """Round to six decimals where numbers are small and to whole ones where they are large.

    Honest and compresses well.
    """
    return np.where(np.abs(values) < 1e6, np.round(values, 4), np.round(values))
