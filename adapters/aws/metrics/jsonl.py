"""Read metric-stream JSON: one statistic set of one series a line."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from adapters.aws.files import blocks, records
from adapters.aws.metrics.points import IGNORED, Gatherer, Points, sound
from adapters.aws.problems import Problems, why

_SeriesMemo = dict[tuple[str, ...], int]


def read_jsonl(path: Path, name: str, gatherer: Gatherer, problems: Problems) -> None:
    """Gather the file's points; name the broken lines and skip them."""
    reader = _LineReader(name, gatherer, problems)
    for first, lines in blocks(path, name, problems):
        reader.read(first, lines)


@dataclass
class _LineReader:
    """Read blocks of lines of one file; a series is looked up once."""

    name: str
    gatherer: Gatherer
    problems: Problems
    memo: _SeriesMemo = field(default_factory=dict)

    def read(self, first: int, lines: list[bytes]) -> None:
        """Gather the points of a block, line by line where one of them is broken."""
        parsed = records(lines)
        try:
            if parsed is None:
                raise ValueError("not every line is one JSON object")
            self.gatherer.add(_points(parsed, self.gatherer, self.memo))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            self._one_by_one(first, lines)

    def _one_by_one(self, first: int, lines: list[bytes]) -> None:
        sound_records: list[dict[str, Any]] = []
        for number, line in enumerate(lines, first):
            if not line.strip():
                continue
            try:
                record = orjson.loads(line)
                _points([record], Gatherer(catalogue=self.gatherer.catalogue), {})
            except orjson.JSONDecodeError as error:
                self.problems.add(self.name, f"not JSON ({why(error)}); skipped.", number)
            except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
                self.problems.add(
                    self.name, f"not a metric record ({_missing(error)}); skipped.", number
                )
            else:
                sound_records.append(record)
        self.gatherer.add(_points(sound_records, self.gatherer, self.memo))


def _missing(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else why(error)


def _points(parsed: list[dict[str, Any]], gatherer: Gatherer, memo: _SeriesMemo) -> Points:
    values = [record["value"] for record in parsed]
    seconds = np.array([record["timestamp"] for record in parsed], dtype=np.float64) / 1000
    count = np.array([value["count"] for value in values], dtype=np.float64)
    total = np.array([value["sum"] for value in values], dtype=np.float64)
    peak = np.array(
        [value["max"] if "max" in value else value["sum"] for value in values], dtype=np.float64
    )
    if not sound(seconds, count, total).all():
        raise ValueError("timestamp, count or sum is no number that can be")
    return Points(_numbers(parsed, gatherer, memo), seconds.astype(np.int64), count, total, peak)


def _numbers(
    parsed: list[dict[str, Any]], gatherer: Gatherer, memo: _SeriesMemo
) -> np.ndarray[Any, np.dtype[np.int64]]:
    numbers = np.empty(len(parsed), dtype=np.int64)
    ignored: Counter[tuple[str, str]] = Counter()
    for i, record in enumerate(parsed):
        namespace, metric, dimensions = (
            record["namespace"],
            record["metric_name"],
            record["dimensions"],
        )
        where = record.get("region") or "", record.get("account_id") or ""
        key = (namespace, metric, *where, *dimensions, *dimensions.values())
        number = memo.get(key)
        if number is None:
            number = memo[key] = gatherer.number(namespace, metric, dimensions, *where)
        if number == IGNORED:
            ignored[namespace, metric] += 1
        numbers[i] = number
    for (namespace, metric), times in ignored.items():
        gatherer.ignore(namespace, metric, times)
    return numbers
