"""Read the bill as frames: each line's amounts by day, and those of the dearest things by hour."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import duckdb
import numpy as np

from adapters.billing.sql import sql
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import BILLED_METRIC, SPEND_METRIC

_DAY, _HOUR, _WEEK = timedelta(days=1), timedelta(hours=1), timedelta(days=7)
_NAMES = ("account", "service", "region", "usage_type", "cluster", "team", "project")
_LINE = 4
"""How many of the names make a line of the bill."""
_MONDAY = datetime(2024, 1, 1, tzinfo=UTC)
_BEFORE = timedelta(days=30)
_LEAST_USD = 1.0
"""A thing that cost less within the hours' span is left to the days.

The long tail is most of a large bill's things.
"""


def spend_frame(db: duckdb.DuckDBPyConnection, midnight: datetime, days: int) -> Frame | None:
    """Return the frame of the `days` before `midnight`, or None when it holds no row.

    nan: the bill has no row at all that day, or this line has one whose end is not seen yet. 0:
    others have, this has none.
    """
    first = midnight - days * _DAY
    parameters = {"first": first.replace(tzinfo=None), "seen": midnight.replace(tzinfo=None)}
    n = len(_NAMES)
    rows = db.execute(sql("deltas"), parameters).fetchall()
    things = {
        key: i for i, key in enumerate(dict.fromkeys(row[:n] for row in rows if not row[n + 3]))
    }
    if not things:
        return None
    values = np.full((len(things), days, 2), np.nan, dtype=np.float32)
    values[:, sorted({row[n] for row in rows if not row[n + 3]})] = 0
    for row in rows:
        if row[:n] in things:
            values[things[row[:n]], row[n]] = float(row[n + 1]), float(row[n + 2])
    lines: dict[tuple[str, ...], list[int]] = {}
    for key, i in things.items():
        lines.setdefault(key[:_LINE], []).append(i)
    for row in rows:
        if row[n + 3] and row[:_LINE] in lines:
            values[lines[row[:_LINE]], row[n]] = np.nan
    return Frame("spend", _labels(things), first, _DAY, (SPEND_METRIC, BILLED_METRIC), values)


def hours_of_week(at: datetime) -> datetime:
    """Return the Monday that `hours` is asked for.

    One reading of the tables serves every hour of its week.
    """
    return at - (at - _MONDAY) % _WEEK


def hours_frame(db: duckdb.DuckDBPyConnection, monday: datetime) -> Frame | None:
    """Return the frame of 30 days before a Monday and the week after it, later hours and all.

    None when nothing is hourly.
    """
    first, until = monday - _BEFORE, monday + _WEEK
    parameters = {
        "first": first.replace(tzinfo=None),
        "until": until.replace(tzinfo=None),
        "least": _LEAST_USD,
    }
    rows = db.execute(sql("hours"), parameters).fetchall()
    if not rows:
        return None
    n = len(_NAMES)
    values = np.zeros((len(rows), (until - first) // _HOUR, 1), dtype=np.float32)
    for i, row in enumerate(rows):
        values[i, row[n], 0] = row[n + 1]
    values[:, (values == 0).all(axis=(0, 2))] = np.nan
    return Frame(
        "spend_hour", _labels(row[:n] for row in rows), first, _HOUR, (SPEND_METRIC,), values
    )


def _labels(keys: Iterable[tuple[str, ...]]) -> tuple[Labels, ...]:
    return tuple(Labels(**dict(zip(_NAMES, key, strict=True))) for key in keys)
