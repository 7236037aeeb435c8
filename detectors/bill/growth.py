"""Lay the bill out by lines, state which grew, and name the few places that explain it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

import numpy as np

from bot.model.causes import Cause
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import SPEND_METRIC
from detectors.numbers import DAY, Mask, Numbers, Rows, count, number, percent

LEAST_DAYS = count("growth.LEAST_DAYS")
LOOKBACK = count("growth.LOOKBACK")
CENT = number("growth.CENT")
Parts = tuple[tuple[Labels, float, float], ...]
"""Tagged things, each with USD a step now and usually."""
LINE = ("account", "service", "region", "usage_type")


@dataclass(frozen=True)
class BillLines:
    """Hold USD a step by line and by the tagged things that a line is made of, from `start`."""

    things: tuple[Labels, ...]
    parts: Numbers
    """By thing, (n_things, n_steps)."""
    lines: tuple[Labels, ...]
    line_of: Rows
    """The row of each thing's line, (n_things,)."""
    values: Numbers
    """By line, (n_lines, n_steps)."""
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

    @property
    def per_day(self) -> int:
        """Return how many steps a day has."""
        return DAY // self.step

    def index(self, time: datetime) -> int:
        """Return the settled step that a time is in, the nearest where it is in none."""
        return min(max(0, (time - self.start) // self.step), self.n_steps - 1)

    def rows_of(self, line: int) -> Rows:
        """Return the rows of the things of a line."""
        return np.flatnonzero(self.line_of == line)


def settled_steps(frame: Frame | None) -> tuple[int, int]:
    """Return the first and the last step with a charge, half-open; (0, 0) for none."""
    if frame is None or not frame.has(SPEND_METRIC) or not frame.n_steps:
        return 0, 0
    billed = np.flatnonzero(~np.isnan(frame.of(SPEND_METRIC)).all(axis=0))
    return (int(billed[0]), int(billed[-1]) + 1) if len(billed) else (0, 0)


def lay_out(frame: Frame | None, metric: str = SPEND_METRIC) -> BillLines | None:
    """Return the settled part of a frame by lines; None where nothing has settled."""
    first, last = settled_steps(frame)
    if frame is None or not last or not frame.has(metric):
        return None
    places: dict[Labels, int] = {}
    names = (thing.only(LINE) for thing in frame.things)
    line_of = np.array([places.setdefault(name, len(places)) for name in names], dtype=np.intp)
    parts = np.asarray(frame.of(metric)[:, first:last], dtype=np.float64)
    order = np.argsort(line_of, kind="stable")
    begins = np.searchsorted(line_of[order], np.arange(len(places)))
    values = np.add.reduceat(parts[order], begins, axis=0)
    start = frame.start + first * frame.step
    return BillLines(frame.things, parts, tuple(places), line_of, values, start, frame.step)


DIMENSIONS = ("usage_type", "service", "region", "account", "cluster", "team", "project")
ENOUGH = number("growth.ENOUGH")
_WORDS = {
    "region": "in {}",
    "account": "account {}",
    "cluster": "cluster {}",
    "team": "team {}",
    "project": "project {}",
}


@dataclass(frozen=True)
class RootCause:
    """Name the values that hold `share` of a growth, by dimension."""

    share: float
    named: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def labels(self) -> Labels:
        """Return the dimensions that have a single value."""
        return Labels(**{name: values[0] for name, values in self.named if len(values) == 1})

    def __str__(self) -> str:
        """Read as `88 % of it: NatGateway-Bytes in us-west-2, account 1234, team search`."""
        names = {name for name, _ in self.named}
        words = [
            _WORDS.get(name, "{}").format(" and ".join(values))
            for name, values in self.named
            if name != "service" or "usage_type" not in names
        ]
        return f"{percent(self.share)} of it: {', '.join(words).replace(', in ', ' in ')}"


def explain(things: Sequence[Labels], value: Numbers, usual: Numbers) -> RootCause | None:
    """Return the fewest values that hold most of the growth from `usual` to `value`.

    Each (n_things,); None without any growth, or where many values share it.
    """
    growth = value - usual
    total = float(growth.sum())
    if total <= 0:
        return None
    inside = np.ones(len(things), dtype=bool)
    naming: dict[str, tuple[str, ...]] = {}
    open_names = list(DIMENSIONS)
    while open_names:
        choices = {name: _smallest(things, name, growth, inside, total) for name in open_names}
        fitting = [name for name in open_names if choices[name]]
        if not fitting:
            break

        # The dimension whose values' share of the money moved farthest, by half the
        # Jensen-Shannon terms of now and before, in nats.
        surprises = []
        for name in fitting:
            chosen = np.array([thing.get(name) in choices[name] for thing in things])
            now = float(value[chosen].sum()) / max(float(value.sum()), 1e-9)
            before = float(usual[chosen].sum()) / max(float(usual.sum()), 1e-9)
            middle = (now + before) / 2
            terms = (
                0.5 * share * float(np.log(share / middle)) for share in (now, before) if share > 0
            )
            surprises.append(sum(terms))
        best = fitting[surprises.index(max(surprises))]
        naming[best] = choices[best]
        inside &= np.array([thing.get(best) in choices[best] for thing in things])
        open_names.remove(best)
    ordered = tuple(
        (name, naming[name]) for name in DIMENSIONS if name in naming and all(naming[name])
    )
    return RootCause(min(1.0, float(growth[inside].sum()) / total), ordered) if ordered else None


def _smallest(
    things: Sequence[Labels], name: str, growth: Numbers, inside: Mask, total: float
) -> tuple[str, ...]:
    """Return the fewest values of a dimension that still hold enough of the growth.

    () when many or all of them do.
    """
    sums: dict[str, float] = {}
    for row in np.flatnonzero(inside).tolist():
        word = things[row].get(name)
        sums[word] = sums.get(word, 0.0) + float(growth[row])
    ranked = sorted(sums, key=lambda word: (-sums[word], word))
    reached = np.cumsum([sums[word] for word in ranked])
    n = int(np.argmax(reached >= ENOUGH * total)) + 1
    is_few = n <= count("growth.MOST_VALUES") and not 1 < n == len(ranked)
    return tuple(ranked[:n]) if is_few and reached[n - 1] >= ENOUGH * total else ()


_HOURS = re.compile(r"(?:BoxUsage|SpotUsage|DedicatedUsage):([\w.-]+)")
"""Usage types of instance hours, and the instance type in them."""
MOST = number("growth.MOST")


def type_in(usage_type: str) -> str:
    """Return the instance type of a usage type of instance hours, "" of any other usage type."""
    match = _HOURS.search(usage_type)
    return match[1] if match else ""


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
    parts: Parts
    """What it is made of."""
    by_use: frozenset[str] = frozenset()
    """Clusters whose part of the growth is the price of more busy nodes."""

    @property
    def extra(self) -> float:
        """Return USD a day over the usual."""
        return max(0.0, self.value - self.high) * (DAY / self.step)

    @property
    def things(self) -> set[Labels]:
        """Return the things it is made of."""
        return {thing for thing, _, _ in self.parts}

    @property
    def growing(self) -> tuple[Labels, ...]:
        """Return the fewest things that hold most of the growth which use does not explain."""
        parts = (part for part in self.parts if part[0].cluster not in self.by_use)
        ranked = sorted(parts, key=lambda x: (x[2] - x[1], str(x[0])))
        reached = np.cumsum([max(0.0, now - usual) for _, now, usual in ranked])
        n = int(np.argmax(reached >= MOST * reached[-1])) + 1 if ranked else 0
        return tuple(thing for thing, _, _ in ranked[:n])


def rounded(usd: float) -> Decimal:
    """Return USD an hour as an anomaly states it."""
    return Decimal(str(round(usd, 4)))


def growth_score(usual: float, value: float) -> float:
    """Return how strange it is that USD grew from `usual` to `value`, in 0.3..1."""
    return float(np.clip(1 - usual / max(value, 1e-9), 0.3, 1.0))


def root_of(parts: Parts) -> RootCause | None:
    """Return the root cause of the growth of (thing, now, usually) parts."""
    things = [thing for thing, _, _ in parts]
    return explain(
        things, np.array([now for _, now, _ in parts]), np.array([usual for _, _, usual in parts])
    )
