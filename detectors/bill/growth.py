"""Lay the bill out by lines, state what grew there, and name the few places that explain it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from bot.model.causes import Cause
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import SPEND_METRIC
from detectors.arrays import Numbers, Rows
from detectors.words import percent

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


DIMENSIONS = ("usage_type", "service", "region", "account", "cluster", "team", "project")
ENOUGH = 0.8
"""Share of the growth that the named values hold together."""
MOST_VALUES = 3
"""Values of one dimension that still explain; more of them are a description of the bill."""
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
        return Labels.of({name: values[0] for name, values in self.named if len(values) == 1})

    def __str__(self) -> str:
        """Read as `88 % of it: NatGateway-Bytes in us-west-2, account 1234, team search`."""
        names = {name for name, _ in self.named}
        kept = [
            (name, values)
            for name, values in self.named
            if name != "service" or "usage_type" not in names
        ]
        words = [_WORDS.get(name, "{}").format(" and ".join(values)) for name, values in kept]
        return f"{percent(self.share)} of it: {', '.join(words).replace(', in ', ' in ')}"


def explain(things: Sequence[Labels], value: Numbers, usual: Numbers) -> RootCause | None:
    """Return the fewest values that hold most of the growth from `usual` to `value` (each (n_things,)); None without any."""
    growth = value - usual
    total = float(growth.sum())
    if total <= 0:
        return None
    kept = np.ones(len(things), dtype=bool)
    named: dict[str, tuple[str, ...]] = {}
    left = list(DIMENSIONS)
    while left:
        choices = {name: _smallest(things, name, growth, kept, total) for name in left}
        fitting = [name for name in left if choices[name]]
        if not fitting:
            break
        best = max(
            fitting,
            key=lambda name: (
                _surprise(things, name, choices[name], value, usual),
                -left.index(name),
            ),
        )
        named[best] = choices[best]
        kept &= np.array([thing.get(best) in choices[best] for thing in things])
        left.remove(best)
    ordered = tuple(
        (name, named[name]) for name in DIMENSIONS if name in named and all(named[name])
    )
    return RootCause(min(1.0, float(growth[kept].sum()) / total), ordered) if ordered else None


def _smallest(
    things: Sequence[Labels], name: str, growth: Numbers, kept: np.ndarray, total: float
) -> tuple[str, ...]:
    """Return the fewest values of a dimension that still hold enough of the growth.

    () when many or all of them do.
    """
    sums: dict[str, float] = {}
    for thing, more, inside in zip(things, growth.tolist(), kept.tolist(), strict=True):
        if inside:
            sums[thing.get(name)] = sums.get(thing.get(name), 0.0) + more
    ranked = sorted(sums, key=lambda word: (-sums[word], word))
    reached = np.cumsum([sums[word] for word in ranked])
    n = int(np.argmax(reached >= ENOUGH * total)) + 1
    if n > MOST_VALUES or reached[n - 1] < ENOUGH * total or (n > 1 and n == len(ranked)):
        return ()
    return tuple(ranked[:n])


def _surprise(
    things: Sequence[Labels], name: str, words: tuple[str, ...], value: Numbers, usual: Numbers
) -> float:
    """Return how far the share of these values moved.

    Half the Jensen-Shannon terms of now and before, in nats.
    """
    inside = np.array([thing.get(name) in words for thing in things])
    now = float(value[inside].sum()) / max(float(value.sum()), 1e-9)
    before = float(usual[inside].sum()) / max(float(usual.sum()), 1e-9)
    middle = (now + before) / 2
    return sum(0.5 * share * float(np.log(share / middle)) for share in (now, before) if share > 0)


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
