"""Cost a training run anew from rows: hours of the bill, prices of its nodes, and its own reports.

By time, not by steps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from math import isnan
from typing import Any

import numpy as np

from bot.answers.receipt.readings import Readings
from bot.costs.formulas import UnknownTerm
from bot.costs.pricing import Pricing
from bot.errors import TrnbotError
from bot.model.claims import ClaimKind
from bot.model.fleet import Instance
from bot.model.frame import Frame
from bot.model.receipt import exact
from bot.model.run import Run
from bot.model.spend import Filter
from bot.model.window import Window
from bot.ports import Ports

_HOUR = timedelta(hours=1)
_RESTORE = 60.0
"""Seconds by which the time of a checkpoint moves at least when another one was written."""


@dataclass(frozen=True)
class _Part:
    """State the cost of a node in a part of the run's time.

    By the bill's row of the hour, else by the price of its hour.
    """

    start: datetime
    end: datetime
    hours: Decimal
    billed_usd: Decimal | None
    usd_per_hour: Decimal

    @property
    def usd(self) -> Decimal:
        return self.hours * self.usd_per_hour if self.billed_usd is None else self.billed_usd


class RunRows:
    """Name the rows of runs."""

    def __init__(self, ports: Ports, readings: Readings, at: datetime) -> None:
        self._ports, self._readings, self._at = ports, readings, at
        self._known: dict[str, list[_Part]] = {}

    def names(self) -> Mapping[str, Any]:
        """Return the terms by name."""
        return {
            "run_nodes": self.nodes,
            "run_hours": self.hours,
            "run_until": self.until,
            "report": self.report,
            "epoch": self.epoch,
            "speeds": self.speeds,
            "runs_in": self.runs_in,
        }

    def nodes(self, name: str) -> list[Mapping[str, Any]]:
        """Return each part of a node's time in the run with its hours, and their cost by the bill's row or the price."""
        return [
            {
                "hours": x.hours,
                "billed_usd": x.billed_usd,
                "usd_per_hour": x.usd_per_hour,
                "usd": x.usd,
            }
            for x in self._parts(name)
        ]

    def hours(self, name: str) -> Decimal:
        """Return the hours from the run's first report to its last."""
        span = self._span(self._run(name))
        return _hours(span.start, span.end)

    def until(self, name: str, step: Decimal) -> Decimal:
        """Return the USD of a run up to a step of its time, of a step that is begun by proportion."""
        start, length, whole = self._span(self._run(name)).start, self._frame.step, int(step)
        before, after = (self._usd_until(name, start + length * n) for n in (whole, whole + 1))
        return before + (after - before) * (step - whole)

    def report(self, name: str) -> Mapping[str, Any]:
        """Return the report of a run, and the outcome of all its reports.

        Tokens gained, checkpoints written.
        """
        run = self._run(name)
        tokens = self._series(run, "run_tokens_count")
        gained = tokens and max(tokens) - (0 if self._whole(run) else tokens[0])
        row = {
            "attempts": run.attempts,
            "loss": run.loss,
            "parameters": run.parameters,
            "tokens": gained or None,
        }
        return row | {"checkpoints": self._checkpoints(run)}

    def epoch(self, name: str) -> Mapping[str, Any]:
        """Return the first and the last epoch that ended within a run's time, at which step each did, and how far it is now."""
        run = self._run(name)
        reports = self._series(run, "run_epoch_count", gaps=True)
        reached = np.maximum.accumulate(reports).tolist() if reports else []
        if not reached:
            raise UnknownTerm(name)
        whole, now = self._whole(run), Decimal(repr(reached[-1]))
        first = 0 if whole else -int(-reached[0] // 1)
        last = int(reached[-1])
        ends = {
            n: Decimal(0) if whole and n == 0 else _passed(reached, n)
            for n in {first, last}
            if n >= first
        }
        hours = Decimal(str(self._frame.step / _HOUR))
        marks = {
            "first": first,
            "last": last,
            "now": now,
            "first_step": ends[first],
            "last_step": ends.get(last, Decimal(0)),
        }
        return marks | {"hours_a_step": hours}

    def speeds(self, old: str, new: str) -> list[float]:
        """Return the speeds of a node of one type by that of another.

        By the runs on both, else as sources and peaks state it.
        """
        was, now = (self._gained(name) for name in (old, new))
        if own := sorted({float(now[size] / was[size]) for size in was.keys() & now.keys()}):
            return own
        types, claims = (
            self._ports.world.knowledge.types(),
            self._ports.world.knowledge.claims().speedups,
        )
        one, other = types[old], types[new]
        parts = [
            kind.chips / max(x.chips for x in types.values() if x.family == kind.family)
            for kind in (one, other)
        ]
        stated = [x for x in claims if (x.from_family, x.to_family) == (one.family, other.family)]
        factors = {x.factor * parts[1] / parts[0] for x in stated}
        if one.bf16_tflops and not any(x.kind is ClaimKind.PEAK for x in stated):
            factors.add(other.bf16_tflops / one.bf16_tflops)
        return sorted(factors)

    def _gained(self, instance_type: str) -> Mapping[float, Decimal]:
        """Return by the size of a model the tokens that a node-hour of a type gained."""
        rows = self.gained(instance_type)
        sums = {
            size: [
                sum((x[of] for x in rows if x["size"] == size), Decimal(0))
                for of in ("tokens", "hours")
            ]
            for size in {x["size"] for x in rows}
        }
        return {size: tokens / hours for size, (tokens, hours) in sums.items() if hours}

    def runs_in(self, cluster: str) -> Decimal:
        """Return how many runs of a cluster report."""
        return Decimal(
            sum(
                x.labels.cluster == cluster and bool(self._reported(x))
                for x in self._readings.reading.runs
            )
        )

    def gained(self, instance_type: str) -> list[Mapping[str, Any]]:
        """Return each run that had nodes of this type to itself.

        Its size to two digits, tokens gained and node-hours.
        """
        rows: list[Mapping[str, Any]] = []
        for run in self._readings.reading.runs:
            nodes, sharing = (
                self._charged(run)
                if self._row(run) is not None and self._reported(run)
                else ([], [])
            )
            alone = len(sharing) == 1 and {x.labels.instance_type for x in nodes} == {instance_type}
            tokens = alone and self.report(run.labels.job)["tokens"]
            if tokens and run.parameters:
                hours = sum((x.hours for x in self._parts(run.labels.job)), Decimal(0))
                rows.append(
                    {
                        "size": float(f"{run.parameters:.2g}"),
                        "tokens": exact(tokens),
                        "hours": hours,
                    }
                )
        return rows

    @cached_property
    def _frame(self) -> Frame:
        frame = self._readings.reading.frame("run")
        if frame is None:
            raise UnknownTerm("run")
        return frame

    @cached_property
    def _pricing(self) -> Pricing:
        return Pricing(self._ports).at(self._at)

    def _run(self, name: str) -> Run:
        every = [
            x
            for x in self._readings.reading.runs
            if x.labels.job == name and self._row(x) is not None
        ]
        if len(every) != 1:
            raise UnknownTerm(name)
        return every[0]

    def _row(self, run: Run) -> int | None:
        places = [
            i
            for i, x in enumerate(self._frame.things)
            if (x.job, x.cluster) == (run.labels.job, run.labels.cluster)
        ]
        return places[0] if places else None

    def _reported(self, run: Run) -> tuple[int, int] | None:
        """Return the first step that a run reported in, and the one after its last."""
        row = self._row(run)
        steps = (
            []
            if row is None
            else np.flatnonzero(np.isfinite(self._frame.values[row]).any(axis=1)).tolist()
        )
        return (steps[0], steps[-1] + 1) if steps else None

    def _span(self, run: Run) -> Window:
        steps = self._reported(run)
        if steps is None:
            raise UnknownTerm(run.labels.job)
        return Window(*(self._frame.start + n * self._frame.step for n in steps))

    def _series(self, run: Run, metric: str, gaps: bool = False) -> list[float]:
        """Return the reports of a run; with gaps, of every step.

        The one before stands where there is none.
        """
        steps, row = self._reported(run), self._row(run)
        if steps is None:
            return []
        values = self._frame.of(metric)[row, slice(*steps)].astype(float).tolist()
        known = [x for x in values if not isnan(x)]
        if not gaps or not known:
            return known
        stands, filled = known[0], []
        for value in values:
            stands = stands if isnan(value) else value
            filled.append(stands)
        return filled

    def _whole(self, run: Run) -> bool:
        steps, epochs = self._reported(run) or (0, 0), self._series(run, "run_epoch_count")
        return steps[0] > 0 and (not epochs or epochs[0] < 0.5)

    def _checkpoints(self, run: Run) -> int | None:
        """Count the times that the newest checkpoint became another one, but by a restore."""
        steps, row = self._reported(run) or (0, 0), self._row(run)
        ages, done = (
            self._frame.of(x)[row, slice(*steps)].astype(float)
            for x in ("run_checkpoint_age_seconds", "run_step_count")
        )
        seconds = self._frame.step.total_seconds()
        written = [
            (n * seconds - age, step)
            for n, (age, step) in enumerate(zip(ages, done, strict=True))
            if not isnan(age)
        ]
        pairs = list(pairwise(written))
        return (
            sum(bool(b[0] - a[0] > _RESTORE and not b[1] < a[1]) for a, b in pairs)
            if pairs
            else None
        )

    def _charged(self, run: Run) -> tuple[list[Instance], list[Run]]:
        """Return the nodes that a run is charged with, and the runs that share them."""
        here = [
            x
            for x in self._readings.reading.inventory.instances.values()
            if x.labels.cluster == run.labels.cluster
        ]

        def own(other: Run) -> list[Instance]:
            name = other.labels.job
            return [x for x in here if x.labels.job == name] or [
                x for x in here if x.project == name
            ]

        if mine := own(run):
            return mine, [run]
        beside = [x for x in self._readings.reading.runs if x.labels.cluster == run.labels.cluster]
        taken = {x.id for other in beside for x in own(other)}
        return [x for x in here if x.id not in taken], [x for x in beside if not own(x)]

    def _parts(self, name: str) -> list[_Part]:
        if name not in self._known:
            self._known[name] = list(self._cut(self._run(name)))
        return self._known[name]

    def _cut(self, run: Run) -> Iterator[_Part]:
        """Yield the parts of the nodes' times that lie in one hour of the bill, and that equally many runs share."""
        span, (nodes, sharing) = self._span(run), self._charged(run)
        spans = [self._span(x) for x in sharing if self._row(x) is not None and self._reported(x)]
        bill = self._bill(span, nodes)
        cuts = sorted(
            {
                *self._hours_of(span),
                *(at for x in spans for at in (x.start, x.end) if at in span),
                span.start,
                span.end,
            }
        )
        for node in nodes:
            price = self._pricing.instance(node)
            if price is None:
                continue
            for start, end in pairwise(cuts):
                up = _overlap(node, start, end) / max(
                    1, sum(x.start <= start < x.end for x in spans)
                )
                if up:
                    hour = start.replace(minute=0, second=0, microsecond=0)
                    billed = bill.get((node.id, hour))
                    whole = _overlap(node, hour, hour + _HOUR)
                    yield _Part(
                        *_within(node, start, end),
                        up,
                        billed and billed * up / whole,
                        price.usd_per_hour,
                    )

    def _hours_of(self, span: Window) -> Iterator[datetime]:
        """Yield the first step of each hour within a span.

        A step is of the hour in which it begins.
        """
        hour = span.start.replace(minute=0, second=0, microsecond=0)
        while hour < span.end:
            steps = max(0, -((span.start - hour) // self._frame.step))
            yield min(span.start + steps * self._frame.step, span.end)
            hour += _HOUR

    def _bill(
        self, span: Window, nodes: Sequence[Instance]
    ) -> Mapping[tuple[str, datetime], Decimal]:
        """Return the amortised rows of the bill by node and hour."""
        types = tuple(sorted({x.labels.instance_type for x in nodes}))
        window = Window(span.start.replace(minute=0, second=0, microsecond=0), span.end)
        try:
            rows = self._ports.world.billing.tally(
                window, ("hour", "resource"), (Filter("instance_type", types),)
            ).rows
        except TrnbotError:
            return {}
        every = (
            (
                row.key["resource"].split("/")[-1],
                datetime.fromisoformat(row.key["hour"]),
                row.money.amortised,
            )
            for row in rows
        )
        return {(node, hour): usd for node, hour, usd in every if usd > 0}

    def _usd_until(self, name: str, at: datetime) -> Decimal:
        total = Decimal(0)
        for part in self._parts(name):
            if part.end <= at:
                total += part.usd
            elif part.start < at:
                total += part.usd * _hours(part.start, at) / _hours(part.start, part.end)
        return total


def _within(node: Instance, start: datetime, end: datetime) -> tuple[datetime, datetime]:
    return max(start, node.launched_at), min(end, node.ended_at or end)


def _overlap(node: Instance, start: datetime, end: datetime) -> Decimal:
    return _hours(*_within(node, start, end))


def _hours(start: datetime, end: datetime) -> Decimal:
    return max(Decimal(0), Decimal((end - start) // timedelta(microseconds=1)) / 3_600_000_000)


def _passed(reached: Sequence[float], value: int) -> Decimal:
    """Return the step at which a series passes a value, between two steps by proportion.

    Step i ends at i + 1.
    """
    after = bisect_left(reached, value)
    if after == 0 or after == len(reached):
        return Decimal(min(after + 1, len(reached)))
    below, above = (Decimal(repr(float(reached[n]))) for n in (after - 1, after))
    return after + (value - below) / (above - below)
