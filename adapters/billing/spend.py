"""Cut the `spend` frame: amortised USD a UTC day of each account, service, region and usage type."""

from __future__ import annotations

from datetime import datetime, timedelta

import duckdb
import numpy as np

from adapters.billing.sql import sql
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import SPEND_METRIC

_DAY = timedelta(days=1)


def spend_frame(db: duckdb.DuckDBPyConnection, seen: datetime, days: int) -> Frame | None:
    """Return the frame of the `days` before midnight `seen`, or None when it holds no row.

    nan: the bill has no row at all that day, or this thing has one whose end is not seen yet. 0: others have, this has none.
    """
    first = seen - days * _DAY
    parameters = {"first": first.replace(tzinfo=None), "seen": seen.replace(tzinfo=None)}
    rows = db.execute(sql("deltas"), parameters).fetchall()
    things = {key: n for n, key in enumerate(dict.fromkeys(row[:4] for row in rows if not row[6]))}
    if not things:
        return None
    values = np.full((len(things), days, 1), np.nan, dtype=np.float32)
    values[:, sorted({row[4] for row in rows if not row[6]})] = 0
    for *key, at, amortised, unseen in rows:
        if tuple(key) in things:
            values[things[tuple(key)], at, 0] = np.nan if unseen else float(amortised)
    labels = tuple(Labels(account=a, service=s, region=r, usage_type=u) for a, s, r, u in things)
    return Frame("spend", labels, first, _DAY, (SPEND_METRIC,), values)
