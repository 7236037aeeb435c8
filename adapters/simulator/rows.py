"""Write CloudWatch statistic sets as a recording holds them: one writer for both forms, JSON lines and Parquet."""

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

Form = Literal["jsonl", "parquet"]


@dataclass(frozen=True)
class Series:
    """Name one series of a metric: where it stands and its dimensions."""

    region: str
    dimensions: Mapping[str, str]


@dataclass(frozen=True)
class Block:
    """Hold one metric of many series: arrays of shape (n_series, n_points); a count of 0 means there is no record."""

    namespace: str
    metric: str
    unit: str
    series: Sequence[Series]
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
    """Write blocks under a folder; one thread and the order of the arrays, so that the same arrays give the same bytes."""

    def __init__(self, folder: Path, form: Form) -> None:
        self._folder, self._form = folder, form
        self._db = duckdb.connect(config={"threads": 1, "preserve_insertion_order": True})
        self.rows = 0

    def write(self, block: Block, name: str, times_ms: Sequence[int]) -> None:
        """Write one block as `metrics/NAME.parquet` or `metrics/NAME.jsonl.gz`; an empty one leaves no file."""
        points = _points(block, np.asarray(times_ms, dtype=np.int64))
        if not len(points["id"]):
            return
        self._db.register("points", points)
        self._name_series(block.series)
        path = self._folder / "metrics" / f"{name}.{'parquet' if self._form == 'parquet' else 'jsonl.gz'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        how = "FORMAT parquet, COMPRESSION zstd" if self._form == "parquet" else "FORMAT json, COMPRESSION gzip"
        texts = [ACCOUNT, block.namespace, block.metric, block.unit]
        self._db.execute(f"COPY ({_SELECT}) TO {quoted(str(path))} ({how})", texts)
        self.rows += len(points["id"])

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def _name_series(self, series: Sequence[Series]) -> None:
        self._db.execute('CREATE OR REPLACE TEMP TABLE series (id INTEGER, region VARCHAR, "dimensions" MAP(VARCHAR, VARCHAR))')
        named = json.dumps([[i, s.region, dict(s.dimensions)] for i, s in enumerate(series)])
        self._db.execute(
            "INSERT INTO series SELECT (x->>0)::INTEGER, x->>1, (x->2)::MAP(VARCHAR, VARCHAR)"
            " FROM (SELECT unnest(?::JSON[]) AS x)",
            [named],
        )


def quoted(text: str) -> str:
    """Return an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def _points(block: Block, times_ms: np.ndarray) -> dict[str, np.ndarray]:
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
    """Round to six decimals where numbers are small and to whole ones where they are large: honest and compresses well."""
    return np.where(np.abs(values) < 1e6, np.round(values, 4), np.round(values))
