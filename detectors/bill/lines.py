"""Lay a spend frame out by lines of the bill, which are judged, and the tagged things that a line is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import SPEND_METRIC
from detectors.arrays import Numbers, Rows

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
LEAST_DAYS = 7
"""Settled days before the bill is judged at all."""
LINE = ("account", "service", "region", "usage_type")


@dataclass(frozen=True)
class BillLines:
    """Hold USD a step by line (`values`, (n_lines, n_steps)) and by thing (`parts`, (n_things, n_steps)), from `start`."""

    things: tuple[Labels, ...]
    parts: Numbers
    lines: tuple[Labels, ...]
    line_of: Rows
    """The row of each thing's line, (n_things,)."""
    values: Numbers
    start: datetime
    step: timedelta

    @property
    def n_steps(self) -> int:
        """Return how many steps are settled."""
        return int(self.values.shape[1])

    @property
    def end(self) -> datetime:
        """Return the end of the newest settled step."""
        return self.at(self.n_steps)

    def at(self, step: int) -> datetime:
        """Return the start of a step."""
        return self.start + step * self.step

    def sums(self, key: Callable[[Labels], Labels]) -> dict[Labels, Numbers]:
        """Return the sums of the things by `key` of their labels, each (n_steps,)."""
        rows: dict[Labels, list[int]] = {}
        for i, thing in enumerate(self.things):
            rows.setdefault(key(thing), []).append(i)
        return {where: self.parts[some].sum(axis=0) for where, some in rows.items()}

    def rows_of(self, scope: Labels) -> list[int]:
        """Return the things that a scope selects."""
        return [i for i, thing in enumerate(self.things) if scope.selects(thing)]


def settled_steps(frame: Frame | None) -> tuple[int, int]:
    """Return the first and the last step that anything was billed in, half-open; (0, 0) for none."""
    if frame is None or not frame.has(SPEND_METRIC) or not frame.n_steps:
        return 0, 0
    billed = np.flatnonzero(~np.isnan(frame.of(SPEND_METRIC)).all(axis=0))
    return (int(billed[0]), int(billed[-1]) + 1) if len(billed) else (0, 0)


def lay_out(frame: Frame, metric: str = SPEND_METRIC) -> BillLines | None:
    """Return the settled part of a frame by lines; None where nothing has settled."""
    first, last = settled_steps(frame)
    if not last:
        return None
    places: dict[tuple[str, ...], int] = {}
    line_of = np.array(
        [places.setdefault(_line(x), len(places)) for x in frame.things], dtype=np.intp
    )
    parts = np.asarray(frame.of(metric)[:, first:last], dtype=np.float64)
    order = np.argsort(line_of, kind="stable")
    values = np.add.reduceat(
        parts[order], np.searchsorted(line_of[order], np.arange(len(places))), axis=0
    )
    lines = tuple(Labels(**dict(zip(LINE, place, strict=True))) for place in places)
    return BillLines(
        frame.things, parts, lines, line_of, values, frame.start + first * frame.step, frame.step
    )


def _line(thing: Labels) -> tuple[str, ...]:
    return thing.account, thing.service, thing.region, thing.usage_type
