"""State what grew in the bill: where, since when, how much, and which few places explain it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from bot.model.causes import Cause
from bot.model.labels import Labels
from detectors.bill.explain import RootCause, explain
from detectors.bill.lines import DAY

HOURS = re.compile(r"(?:BoxUsage|SpotUsage|DedicatedUsage):([\w.-]+)")
"""Usage types of instance hours, and the instance type in them."""
MOST = 0.8
"""Share of a growth that the things hold which say whose it is."""


@dataclass(frozen=True)
class Jump:
    """State a line or place that left its usual.

    USD a step of the newest such step(s), since when, and the parts that grew.
    """

    where: Labels
    """A line of the bill, or a wider place whose small growths add up."""
    cause: Cause
    since: datetime
    until: datetime
    value: float
    low: float
    high: float
    step: timedelta
    parts: tuple[tuple[Labels, float, float], ...]
    """The tagged things it is made of, each with USD a step now and usually."""

    @property
    def extra(self) -> float:
        """Return USD a day over the usual."""
        return max(0.0, self.value - (self.low + self.high) / 2) * (DAY / self.step)

    @property
    def growing(self) -> tuple[Labels, ...]:
        """Return the fewest things that hold most of the growth."""
        ranked = sorted(self.parts, key=lambda x: (x[2] - x[1], str(x[0])))
        reached = np.cumsum([max(0.0, now - usual) for _, now, usual in ranked])
        n = int(np.argmax(reached >= MOST * reached[-1])) + 1 if ranked else 0
        return tuple(thing for thing, _, _ in ranked[:n])

    @property
    def root(self) -> RootCause | None:
        """Return the few dimension values that explain it; None where it is one thing anyway."""
        return root_of(self.parts)


def root_of(parts: tuple[tuple[Labels, float, float], ...]) -> RootCause | None:
    """Return the root cause of the growth of (thing, now, usually) parts."""
    things = [thing for thing, _, _ in parts]
    return explain(
        things, np.array([now for _, now, _ in parts]), np.array([usual for _, _, usual in parts])
    )
