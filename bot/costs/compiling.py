"""Work out the cost of compiles.

Node-hours times the price of an hour, so every amount here is an estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from bot.costs.pricing import Pricing, hours_of
from bot.model.codec import by_key
from bot.model.money import cents
from bot.model.reading import Reading, reaches
from bot.model.run import Compile, CompileMark, Ending, Mark
from bot.model.spend import Filter
from bot.model.window import Window
from bot.ports import Ports

HourOf = Callable[[str], Decimal | None]
"""Return the USD of an hour of an instance, None where nobody knows it."""


@dataclass(frozen=True)
class Batch:
    """State compiles of one scope that share their minutes and came to the same.

    `usd` is None where no price is known; `spared_usd` is the sum less the slowest: what one node
    for all would have spared.
    """

    compiles: tuple[Compile, ...]
    window: Window
    usd: Decimal | None
    spared_usd: Decimal

    @property
    def ending(self) -> Ending:
        """Return how the compiles ended."""
        return self.compiles[0].ending

    @property
    def place(self) -> str:
        """Return the job that compiled, else its cluster, team, region or account."""
        scope = self.compiles[0].scope
        return scope.job or scope.cluster or scope.team or scope.region or scope.account

    @property
    def nodes(self) -> int:
        """Return the number of nodes that compiled."""
        return len({compilation.instance for compilation in self.compiles})

    @property
    def node_hours(self) -> float:
        """Return the node-hours of the compiles."""
        return sum(compilation.hours for compilation in self.compiles)

    def graphs(self, marks: Iterable[CompileMark]) -> dict[str, set[str]]:
        """Return each graph that its nodes began to compile by the log, and which nodes did."""
        nodes = {compilation.instance for compilation in self.compiles}
        begun = (x for x in marks if x.mark is Mark.BEGUN and x.module and x.at in self.window)
        graphs = by_key((x.module, x.instance) for x in begun if x.instance in nodes)
        return {module: set(instances) for module, instances in graphs.items()}


@dataclass(frozen=True)
class CompileBill:
    """State the cost of the compiles within `window`.

    Of all, of those cut off, and of those that a cache would have spared.
    """

    window: Window
    compiles: int
    node_hours: float
    usd: Decimal
    cut_usd: Decimal
    spared_usd: Decimal
    unpriced: int = 0
    """Nodes that compiled and whose price nobody knows."""


def batches(compiles: Iterable[Compile], hour_of: HourOf) -> list[Batch]:
    """Return the compiles that share scope, ending and minutes together, the newest first."""
    groups: list[list[Compile]] = []
    for compilation in sorted(compiles, key=lambda x: (str(x.scope), x.ending, x.window)):
        last = groups[-1] if groups else []
        alike = last and (last[0].scope, last[0].ending) == (compilation.scope, compilation.ending)
        if alike and compilation.window.start < max(x.window.end for x in last):
            last.append(compilation)
        else:
            groups.append([compilation])

    joined = (_batch(group, hour_of) for group in groups)
    return sorted(joined, key=lambda batch: (batch.window.end, batch.usd or 0), reverse=True)


def _batch(group: Sequence[Compile], hour_of: HourOf) -> Batch:
    """Return compiles as one batch, at the price of each one's hour."""
    priced = ((part, hour_of(part.instance)) for part in group)
    usd = [hour * Decimal(str(part.hours)) for part, hour in priced if hour is not None]
    total = sum(usd, Decimal(0))
    spared = cents(total - max(usd, default=Decimal(0)))
    window = Window(min(x.window.start for x in group), max(x.window.end for x in group))
    return Batch(tuple(group), window, cents(total) if usd else None, spared)


def sharing(batch: Batch, marks: Iterable[CompileMark]) -> int:
    """Return how many of the batch's nodes compile, by the log, a graph that others compile too."""
    shared = (nodes for nodes in batch.graphs(marks).values() if len(nodes) > 1)
    return len(set().union(*shared))


class CacheMiss(StrEnum):
    """Name why a start compiled: the part of the cache's key that was most likely missed.

    Neuron's cache names a graph `MODULE_GRAPH+FLAGS` in a folder of the compiler's version, so a
    log that names graphs tells these apart.
    """

    FIRST = "first time"
    GRAPH = "another graph"
    FLAGS = "other flags"
    NOT_SHARED = "cache not shared"
    """Graphs that other nodes had compiled, with the same flags."""
    NOT_KEPT = "cache not kept"
    """Graphs that the same nodes had compiled: the folder is gone, or the version is new."""
    COLD = "cold cache"
    """A job that had compiled and worked, and no log names its graphs."""
    UNKNOWN = "not known"
    """Nodes that had compiled before, for this job or another: no log and no tag tells."""


_IN_CACHE = (CacheMiss.NOT_SHARED, CacheMiss.NOT_KEPT, CacheMiss.COLD)
"""Misses of graphs that had been compiled before."""


@dataclass(frozen=True)
class LedgerEntry:
    """State one start that compiled, and why."""

    batch: Batch
    miss: CacheMiss

    @property
    def spared_usd(self) -> Decimal:
        """Return the USD that was avoidable.

        By one cache for all nodes all of it where the work had been compiled before; else by one
        node that compiles before the others are launched all but the slowest node's.
        """
        return self.again_usd or self.batch.spared_usd

    @property
    def again_usd(self) -> Decimal:
        """Return its cost where the work had been compiled before, else 0."""
        return (self.batch.usd or Decimal(0)) if self.miss in _IN_CACHE else Decimal(0)


def ledger(
    starts: Sequence[Batch], marks: Sequence[CompileMark], cold: Callable[[Batch], bool]
) -> list[LedgerEntry]:
    """Return why each start compiled, the newest first, each held against those before it.

    `cold` says whether an alert told that a start's job had compiled before.
    """
    # The nodes that compiled each graph, by the scope of their work.
    compiled: dict[str, dict[str, set[str]]] = {}
    entries = []
    for batch in sorted(starts, key=lambda x: x.window):
        scope, begun = str(batch.compiles[0].scope), batch.graphs(marks)
        before = compiled.get(scope, {})

        miss = CacheMiss.UNKNOWN
        if begun and before:
            miss = _missed(begun, before)
        elif cold(batch):
            miss = CacheMiss.COLD
        elif scope not in compiled:
            miss = CacheMiss.FIRST
        entries.append(LedgerEntry(batch, miss))
        # A compile that was cut off leaves nothing in the cache.
        if batch.ending is not Ending.CUT:
            compiled[scope] = {
                x: before.get(x, set()) | begun.get(x, set()) for x in before | begun
            }
    return entries[::-1]


def _missed(begun: Mapping[str, set[str]], before: Mapping[str, set[str]]) -> CacheMiss:
    """Return why nodes compiled the graphs `begun`, by the nodes that compiled graphs `before`."""
    if again := [module for module in begun if module in before]:
        same = any(begun[module] & before[module] for module in again)
        return CacheMiss.NOT_KEPT if same else CacheMiss.NOT_SHARED
    graphs = {module.partition("+")[0] for module in before}
    flags = any(module.partition("+")[0] in graphs for module in begun)
    return CacheMiss.FLAGS if flags else CacheMiss.GRAPH


def clipped(compiles: Iterable[Compile], window: Window) -> list[Compile]:
    """Return the parts of compiles that lie within the window."""
    parts = (replace(x, window=x.window.within(window)) for x in compiles)
    return [part for part in parts if part.window.length]


def bill_of(compiles: Sequence[Compile], window: Window, hour_of: HourOf) -> CompileBill:
    """Return the cost of the parts of compiles that lie within the window."""
    inside = clipped(compiles, window)
    in_window, none = batches(inside, hour_of), Decimal(0)
    cut = (batch for batch in in_window if batch.ending is Ending.CUT)
    return CompileBill(
        window,
        len(in_window),
        sum(batch.node_hours for batch in in_window),
        usd=sum((batch.usd or none for batch in in_window), none),
        cut_usd=sum((batch.usd or none for batch in cut), none),
        spared_usd=sum((batch.spared_usd for batch in in_window), none),
        unpriced=len({part.instance for part in inside if hour_of(part.instance) is None}),
    )


_DIMENSIONS = ("cluster", "team", "project", "region", "zone", "account", "instance_type")
"""Dimensions of the bill that an instance has too: only by these can its compiles be kept apart."""


def may_show_compiling(window: Window, where: Sequence[Filter], now: datetime) -> bool:
    """Return whether metrics may tell of compiles in the window, and each filter is of nodes."""
    return reaches(window, now) and all(condition.dimension in _DIMENSIONS for condition in where)


def compiling_within(
    ports: Ports, reading: Reading, window: Window, where: Sequence[Filter]
) -> CompileBill | None:
    """Return the cost of compiling within the part of the window that the reading reaches.

    None for nothing. May block.
    """
    frame = reading.frame("node")
    if frame is None or frame.end <= window.start or frame.start >= window.end:
        return None
    overlap = Window(max(window.start, frame.start), min(window.end, frame.end))

    def counts(compilation: Compile) -> bool:
        """Return whether the filters keep a node; one that nobody described stays without any."""
        node = reading.inventory.instances.get(compilation.instance)
        if node is None:
            return not where
        labels = dict(node.labels) | {"project": node.project}
        return all(condition.keeps(labels) for condition in where)

    compiles = list(filter(counts, ports.world.compiles(reading, ports.policy, overlap.start)))
    bill = bill_of(compiles, overlap, hours_of(Pricing(ports).at(reading.now), reading.inventory))
    return bill if bill.compiles else None
