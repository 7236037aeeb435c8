"""Split the cost of nodes among pods anew.

The bill's rows of each hour by the core-hours that pods held in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from math import isnan
from typing import Any

import numpy as np

from bot.answers.receipt.verify import MEASURES
from bot.costs.allocation import derived_owner
from bot.errors import TrnbotError
from bot.model.frame import Doubles, Frame
from bot.model.labels import Labels
from bot.model.reading import Reading, reaches
from bot.model.receipt import exact
from bot.model.spend import Filter, Money, Spend
from bot.model.window import Window
from bot.ports import Ports

_OWNERS = ("pod", "namespace", "team")
_NOBODY = ("",)
_STEPS = {"hour": timedelta(hours=1), "day": timedelta(days=1)}
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)


class UnknownTerm(Exception):
    """Tell that the rows say nothing of it."""


class Readings:
    """Hold everything visible at the time of the question."""

    def __init__(self, ports: Ports, at: datetime) -> None:
        self._ports, self._at = ports, at

    @cached_property
    def reading(self) -> Reading:
        return self._ports.world.source.read(self._at)


@dataclass(frozen=True)
class _Part:
    """State a share of a row of the bill that goes to a key, or leaves it.

    And its derived, unused and idle parts.
    """

    key: Mapping[str, str]
    money: Money
    share: Decimal = Decimal(1)
    derived: bool = False
    unused: Decimal = Decimal(0)
    idle: Decimal = Decimal(0)


@dataclass(frozen=True)
class _Held:
    """State the share of a cluster's cores that a pod held within an hour, or a day.

    Of no pod, the rest.
    """

    pod: Labels | None
    share: Decimal
    unused: Decimal


class SplitRows:
    """Name the parts of the bill by owner."""

    def __init__(self, ports: Ports, readings: Readings, at: datetime) -> None:
        self._ports, self._readings, self._at = ports, readings, at
        self._made: dict[tuple[Any, ...], list[_Part]] = {}

    def names(self) -> Mapping[str, Any]:
        """Return the terms by name."""
        return {"allocated": self.allocated, "teamless": self.teamless}

    def allocated(
        self,
        window: Mapping[str, datetime],
        by: Sequence[str],
        where: Sequence[Filter],
        key: Mapping[str, str],
    ) -> list[Mapping[str, Any]]:
        """Return the rows of the bill of a key, those that came to it from nodes and pods, and those that left it."""
        return [
            _terms(part)
            for part in self._all(window, by, where)
            if all(part.key[name] == key[name] for name in by)
        ]

    def teamless(
        self, window: Mapping[str, datetime], where: Sequence[Filter]
    ) -> list[Mapping[str, Any]]:
        """Return by resource the rows of no team."""
        nobody = (*where, Filter("team", _NOBODY))
        return [
            {**_terms(x), "resource": x.key["resource"]}
            for x in self._all(window, ("resource", "cluster", "namespace"), nobody)
        ]

    def _all(
        self, window: Mapping[str, datetime], by: Sequence[str], where: Sequence[Filter]
    ) -> Sequence[_Part]:
        span, asked = (
            Window(window["start"], window["end"]),
            {*by, *(x.dimension for x in where)} & set(_OWNERS),
        )
        if not asked:
            raise UnknownTerm("owners")
        made = (span, tuple(by), tuple(where))
        if made not in self._made:
            filters, owners = (
                [x for x in where if (x.dimension in _OWNERS) is of] for of in (False, True)
            )
            moved = [
                *self._nodes(span, by, filters, asked),
                *(self._owned(span, by, filters) if "team" in asked else []),
            ]
            billed = [_Part(row.key, row.money) for row in self._rows(span, ("day", *by), where)]
            kept = [
                x
                for x in moved
                if all((x.key[y.dimension] in y.values) is not y.negated for y in owners)
            ]
            self._made[made] = [*billed, *kept]
        return self._made[made]

    def _rows(self, span: Window, by: Sequence[str], where: Sequence[Filter]) -> Sequence[Spend]:
        return self._ports.world.billing.tally(span, tuple(dict.fromkeys(by)), where).rows

    def _owned(self, span: Window, by: Sequence[str], where: Sequence[Filter]) -> Iterator[_Part]:
        """Yield the bill's own pods without a team.

        Away from nobody, to the owner that their name tells of.
        """
        pods = [*where, Filter("pod", _NOBODY, negated=True), Filter("team", _NOBODY)]
        try:
            rows = self._rows(span, (*by, "cluster", *_OWNERS), pods)
        except TrnbotError:
            return
        for row in rows:
            owner, _ = derived_owner(
                Labels(
                    cluster=row.key["cluster"], namespace=row.key["namespace"], pod=row.key["pod"]
                )
            )
            if owner:
                yield _Part(row.key, row.money, Decimal(-1))
                yield _Part({**row.key, "team": owner}, row.money, derived=True)

    def _nodes(
        self, span: Window, by: Sequence[str], where: Sequence[Filter], asked: set[str]
    ) -> Iterator[_Part]:
        """Yield the cost of Neuron nodes, away from the node and to the pods that held its cores, and the rest to no pod."""
        kinds = tuple(
            name for name, kind in self._ports.world.knowledge.types().items() if kind.has_neuron
        )
        nodes = [
            *where,
            Filter("instance_type", kinds),
            Filter("cluster", _NOBODY, negated=True),
            Filter("pod", _NOBODY),
        ]
        nodes += [Filter("team", _NOBODY)] if asked == {"team"} else []
        for step, length in _STEPS.items():
            try:
                rows = self._rows(span, (*by, "cluster", step, *_OWNERS), nodes)
                told = (
                    self._rows(span, ("cluster", step), [Filter("pod", _NOBODY, negated=True)])
                    if rows
                    else ()
                )
            except TrnbotError:
                continue
            if rows and reaches(span, self._at) and self._pods():
                split = {(row.key["cluster"], row.key[step]) for row in told}
                held = self._held(length)
                pools: dict[tuple[str, ...], list[tuple[Spend, list[_Held]]]] = defaultdict(list)
                for row in rows:
                    place = row.key["cluster"], _begin(row.key[step])
                    if (place[0], row.key[step]) not in split and place in held:
                        pools[tuple(row.key[name] for name in (*by, *_OWNERS, "cluster"))].append(
                            (row, held[place])
                        )
                whose = (
                    pool
                    for pool in pools.values()
                    if any(each.pod for _, every in pool for each in every)
                )
                yield from (
                    part for pool in whose for row, every in pool for part in _parts(row, every)
                )
            return

    def _pods(self) -> Frame | None:
        try:
            return self._readings.reading.frame("pod")
        except TrnbotError:
            # A bill without metrics stands as it is.
            return None

    def _held(self, length: timedelta) -> Mapping[tuple[str, datetime], list[_Held]]:
        """Return by cluster and hour, or day, the shares of its cores that pods held."""
        pods, nodes = self._readings.reading.frame("pod"), self._readings.reading.frame("node")
        assert pods
        requested, given = pods.of("neuroncore_request_count"), pods.of("neuroncore_usage_count")
        cores = np.nan_to_num(np.where(np.isnan(requested), given, requested).astype(float))
        busy = np.where(
            np.isnan(x := pods.of("neuroncore_busy_count")),
            cores * pods.of("neuroncore_utilization_ratio"),
            x,
        )
        sought, used = _core_hours(cores, pods, length), _core_hours(busy, pods, length)
        offered, reserved = (
            (self._by_cluster(nodes, length, of) for of in ("limit", "reserved"))
            if nodes
            else ({}, {})
        )
        places: dict[tuple[str, datetime], list[int]] = defaultdict(list)
        for row, pod in enumerate(pods.things):
            for at in sought[row]:
                places[pod.cluster, at].append(row)
        held = {}
        known = {pod.cluster for pod in pods.things}
        for cluster, at in {*places, *(place for place in offered if place[0] in known)}:
            rows = places.get((cluster, at), [])
            asked = sum(sought[row][at] for row in rows)
            whole = max(asked, offered.get((cluster, at), 0.0))
            taken = min(max(asked, reserved.get((cluster, at), 0.0)), whole)
            if whole > 0:
                mine = [
                    _pod_part(pods.things[row], sought[row][at], used[row].get(at), whole)
                    for row in rows
                    if sought[row][at]
                ]
                held[cluster, at] = [
                    *mine,
                    _Held(None, exact((whole - asked) / whole), exact((whole - taken) / whole)),
                ]
        return held

    def _by_cluster(
        self, nodes: Frame, length: timedelta, of: str
    ) -> Mapping[tuple[str, datetime], float]:
        types = self._ports.world.knowledge.types()
        levels = nodes.of(f"neuroncore_{of}_count").astype(float)
        if of == "limit":
            kinds = [types.get(x.instance_type) for x in nodes.things]
            cores = np.array([[float(x.cores) if x and x.has_neuron else np.nan] for x in kinds])
            reports = np.where(np.isnan(nodes.of("neuroncore_utilization_ratio")), np.nan, cores)
            levels = np.where(np.isnan(levels), reports, levels)
        sums: dict[tuple[str, datetime], float] = defaultdict(float)
        for node, hours in zip(
            nodes.things, _core_hours(np.nan_to_num(levels), nodes, length), strict=True
        ):
            for at, amount in hours.items():
                sums[node.cluster, at] += amount
        return sums


def _pod_part(pod: Labels, held: float, used: float | None, whole: float) -> _Held:
    busy = 1.0 if used is None or isnan(used) else min(1.0, max(0.0, used / held))
    return _Held(pod, exact(held / whole), exact(held / whole * (1 - busy)))


def _core_hours(levels: Doubles, frame: Frame, length: timedelta) -> list[dict[datetime, float]]:
    """Return each thing's cores times hours by the hour, or day, in which a step begins."""
    begins = [
        _FIRST + (frame.start + n * frame.step - _FIRST) // length * length
        for n in range(frame.n_steps)
    ]
    hours = frame.step / timedelta(hours=1)
    sums: list[dict[datetime, float]] = []
    for row in levels:
        mine: dict[datetime, float] = defaultdict(float)
        for at, level in zip(begins, row.tolist(), strict=True):
            mine[at] += level * hours
        sums.append(mine)
    return sums


def _parts(row: Spend, held: Sequence[_Held]) -> Iterator[_Part]:
    yield _Part(row.key, row.money, Decimal(-1))
    for each in held:
        if each.pod is None:
            yield _Part(row.key, row.money, each.share, idle=each.unused)
            continue
        team = row.key.get("team", "") or each.pod.team or derived_owner(each.pod)[0]
        key = {**row.key, "pod": each.pod.pod, "namespace": each.pod.namespace, "team": team}
        yield _Part(key, row.money, each.share, True, each.unused)


def _terms(part: _Part) -> Mapping[str, Any]:
    whole = part.money.amortised
    amounts = {name: getattr(part.money, name) * part.share for name in MEASURES}
    derived = {"derived": whole * part.share if part.derived else Decimal(0)}
    return amounts | derived | {"unused": whole * part.unused, "idle": whole * part.idle}


def _begin(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)
