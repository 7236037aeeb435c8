"""Join training runs with their nodes and prices, and tell which type or run does work for less."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime

import numpy as np

from bot.cards.card import Text, quiet
from bot.cards.columns import RATIO, Columns, datum
from bot.costs.pricing import BilledHour, Offers, Pricing, billed_hours
from bot.costs.training import (
    Paid,
    RunComparison,
    RunCost,
    Sample,
    compare,
    equal_loss,
    reporting,
    run_cost,
)
from bot.costs.verdict import Verdict, like_for_like, measured_speed, stated_speeds
from bot.errors import WrongInput, not_known
from bot.model.claims import ClaimKind, SpeedUp
from bot.model.fleet import Instance, InstanceType, Market
from bot.model.frame import Doubles, Floats, Frame, Mask
from bot.model.labels import Labels
from bot.model.price import Price
from bot.model.reading import Reading, utilization_of
from bot.model.run import Claim, Run, Sign, nodes_of
from bot.model.window import Window
from bot.ports import Documents, Ports


@dataclass(frozen=True)
class Baseline(Sample):
    """Hold one side of a comparison as it was kept, and when."""

    at: datetime | None = None

    @classmethod
    def of(cls, costed: Costed, at: datetime) -> Baseline:
        """Return a run as a baseline."""
        return cls(**vars(sample(costed)), at=at)

    def named(self, name: str) -> Sample:
        """Return it as a side of that name."""
        return Sample(
            **{field.name: getattr(self, field.name) for field in fields(Sample)} | {"name": name}
        )


@dataclass(frozen=True)
class OpenMigration:
    """State which baseline a run on new chips is compared with every week."""

    baseline: str
    opened: datetime


BASELINES = Documents("baselines", Baseline)
MIGRATIONS = Documents("migrations", OpenMigration)
MOST = 500


@dataclass(frozen=True)
class Costed:
    """State a run with its cost, how its nodes were found, and the prices of their hours."""

    cost: RunCost
    instance_types: tuple[str, ...]
    by: str
    """How its nodes were found.

    `the job label`, `the project tag`, `their names`, `how they worked, up and down together`, `the
    whole cluster`, `1/3 of the cluster`.
    """
    prices: tuple[Price, ...]
    unpriced: int = 0
    paid: Mapping[str, Paid] = field(default_factory=dict)
    """Its nodes with what they cost, by instance."""

    @property
    def name(self) -> str:
        """Return the run's name."""
        return self.cost.run.labels.job

    @property
    def node_hours(self) -> float:
        """Return the hours of all its nodes while it was seen."""
        return self.cost.nodes * (self.cost.until - self.cost.since).total_seconds() / 3600


def costed_runs(ports: Ports, at: datetime) -> tuple[Costed, ...]:
    """Return every run that is seen at the time, the dearest first; may block."""
    reading = ports.world.source.read(at)
    frame = reading.frame("run")
    if frame is None or not reading.runs:
        return ()
    types = {x.id: x.labels.instance_type for x in reading.inventory.instances.values()}
    billed = billed_hours(ports.world.billing, types, Window(frame.start, at))
    runs = _costed(reading, frame, reading.runs, Pricing(ports).at(at), billed)
    return tuple(sorted(runs, key=lambda x: -(x.cost.usd or 0)))


def _costed(
    reading: Reading,
    frame: Frame,
    runs: Sequence[Run],
    pricing: Pricing,
    billed: Mapping[str, Mapping[datetime, BilledHour]],
) -> Iterator[Costed]:
    """Yield what each of some runs cost, by billed hours of its nodes, else by their price."""
    clusters = _Cluster.by_name(reading, frame)
    for run in runs:
        cluster = clusters[run.labels.cluster]
        row = cluster.rows.get(run.labels.job)
        if row is None:
            continue
        nodes, by, among = _nodes(run, reading, frame, cluster)
        prices = [pricing.instance(node) for node in nodes]
        paid = {
            node.id: Paid(
                node.launched_at,
                node.ended_at,
                price.usd_per_hour if price else None,
                {hour: paid.usd for hour, paid in billed.get(node.id, {}).items()},
            )
            for node, price in zip(nodes, prices, strict=True)
        }
        cost = run_cost(run, frame.pick([row]), list(paid.values()), among)
        if cost is not None:
            yield Costed(
                cost,
                tuple(sorted({node.labels.instance_type for node in nodes})),
                by,
                tuple(dict.fromkeys(filter(None, prices))),
                prices.count(None),
                paid,
            )


def find_run(runs: Sequence[Costed], name: str) -> Costed:
    """Return the run of that name; raise `WrongInput` with the nearest one."""
    if match := next((run for run in runs if run.name == name), None):
        return match
    raise not_known(
        f"No run called '{name}' reports",
        name,
        [x.name for x in runs],
        otherwise="'runs' lists those that do",
    )


def sample(costed: Costed) -> Sample:
    """Return a run as one side of a comparison."""
    cost = costed.cost
    return Sample(
        costed.name,
        tuple(x.usd for x in cost.epochs if x.usd is not None),
        tuple(x.hours for x in cost.epochs),
        cost.run.tokens / cost.run.epochs
        if cost.run.tokens and cost.run.epochs and cost.epochs
        else None,
        cost.usd_per_billion_tokens,
        cost.losses,
        costed.instance_types,
        cost.run.parameters,
        cost.tokens,
        cost.nodes if costed.by in _WHOLE else None,
        costed.node_hours if costed.by in _WHOLE else None,
    )


def side(ports: Ports, runs: Sequence[Costed], name: str) -> Sample:
    """Return a run that reports, else a baseline of that name; raise `WrongInput` for neither."""
    # What a run reports now is newer than what was kept of it.
    if any(x.name == name for x in runs):
        return sample(find_run(runs, name))
    baseline = BASELINES.get(ports.stores.documents, name)
    if baseline is None:
        raise not_known(
            f"Neither a run nor a baseline is called '{name}'",
            name,
            dict.fromkeys([*(x.name for x in runs), *BASELINES.keys(ports.stores.documents, MOST)]),
            otherwise="'runs' and 'baselines' list them",
        )

    return baseline.named(name)


def parities(ports: Ports, at: datetime) -> tuple[tuple[str, RunComparison | None], ...]:
    """Return each open migration with its comparison, None where a side is unknown; may block."""
    opened = MIGRATIONS.newest(ports.stores.documents, MOST)
    if not opened:
        return ()
    runs = costed_runs(ports, at)
    compared = []
    for name, migration in sorted(opened, key=lambda x: x[0]):
        comparison = None
        with suppress(WrongInput):
            comparison = compare(side(ports, runs, migration.baseline), side(ports, runs, name))
        compared.append((name, comparison))

    return tuple(compared)


@dataclass(frozen=True)
class _Cluster:
    """Hold the nodes and runs of a cluster, with all that each run is asked for by every other."""

    nodes: list[Instance] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    """The row of each run's frame, by its name."""
    spans: dict[str, slice | None] = field(default_factory=dict)
    """The steps in which each of them reported."""
    claims: dict[Labels, Claim] = field(default_factory=dict)
    """The nodes that a label, a tag or a name gives to a run."""

    @classmethod
    def by_name(cls, reading: Reading, frame: Frame) -> Mapping[str, _Cluster]:
        """Return every cluster by name: worked out once, as each run is held against all others."""
        clusters: dict[str, _Cluster] = defaultdict(cls)
        for node in reading.inventory.instances.values():
            clusters[node.labels.cluster].nodes.append(node)
        for row, thing in enumerate(frame.things):
            cluster = clusters[thing.cluster]
            if thing.job not in cluster.rows:
                cluster.rows[thing.job], cluster.spans[thing.job] = row, reporting(frame, row)
        for place, claim in reading.claims.items():
            clusters[place.cluster].claims[place] = claim

        return clusters


def _nodes(
    run: Run, reading: Reading, frame: Frame, whole: _Cluster
) -> tuple[list[Instance], str, Doubles]:
    """Return the nodes that a run is charged with, how they were found, and who shares them.

    The last is among how many runs they are shared at each step.
    """
    name = run.labels.job
    span = whole.spans.get(name)
    seen = _seen(reading, frame, span) if span else None
    idle = {x.instance for x in seen.pick(without_runtime(seen)).things} if seen else set()
    cluster = [x for x in whole.nodes if x.id not in idle]
    # A claim to nodes that never worked meanwhile, as to a head node, is none.
    working, place = {x.id for x in cluster}, run.labels.only(("cluster", "job"))
    claims = {x: claim for x, claim in whole.claims.items() if not working.isdisjoint(claim.nodes)}
    ids, claimed = nodes_of(place, claims)
    nodes = [x for x in cluster if (x.id in ids) == claimed]
    if claimed:
        return nodes, claims[place].sign, np.ones(frame.n_steps)

    # What no label and no tag gives to a run is shared by all that have no node of their own.
    counts = np.zeros(frame.n_steps)
    by_name = {x.job for x in claims}
    for sharer, reported in whole.spans.items():
        # A run that is over shares nothing.
        if sharer not in by_name and reported:
            counts[reported] += 1

    among = np.maximum(counts, 1)
    most = int(among[span].max()) if span else 1
    by = f"1/{most} of the cluster, as no tag says whose nodes are whose"
    if most == 1:
        by = "the whole cluster"
        free = {x.id for x in nodes}
        beside = seen and seen.pick([i for i, x in enumerate(seen.things) if x.instance in free])
        apart = strangers(utilization_of(beside)) if beside else np.zeros(0, dtype=bool)
        if beside and apart.any():
            by = "how they worked, up and down together"
            gone = {x.instance for x in beside.pick(apart).things}
            nodes = [x for x in nodes if x.id not in gone]

    return nodes, by, among


def _seen(reading: Reading, runs: Frame, span: slice) -> Frame | None:
    """Return the nodes while a run reported, None where none were read then."""
    nodes = reading.frame("node")
    if nodes is None:
        return None
    start, end = (runs.start + step * runs.step for step in (span.start, span.stop))
    part = nodes.until(end)
    return part.last(end - start) if part.n_steps and end > part.start else None


_WHOLE = (
    *Sign,
    "how they worked, up and down together",
    "the whole cluster",
)
"""How a run's nodes were found where they are its own.

Of a shared cluster nobody knows which tokens are whose.
"""


def measured_speeds(
    runs: Iterable[Costed], old: InstanceType, new: InstanceType, today: date
) -> tuple[SpeedUp, ...]:
    """Return the work of a node of `new` as a multiple of one of `old`.

    One for each size of model that was trained on both: by the two runs that went down the longest
    way of loss together, else by tokens gained, over every node-hour of the runs: restarts, waiting
    and repeated steps slow it down as they did.
    """
    sizes: dict[float, tuple[list[Sample], list[Sample]]] = {}
    for run in runs:
        side = sample(run)
        if side.size and side.node_hours and len(side.types) == 1:
            pair = sizes.setdefault(side.size, ([], []))
            for kind, found in zip((old, new), pair, strict=True):
                if side.types[0] == kind.name:
                    found.append(side)

    speeds = []
    for size, (before, after) in sorted(sizes.items()):
        if not before or not after:
            continue
        lost = [(x, a, b) for a in before for b in after if (x := equal_loss(a, b))]
        first, second = _summed(before), _summed(after)
        if lost:
            _, first, second = max(lost, key=lambda found: found[0].high - found[0].low)
        if speed := measured_speed(first, second, (old.family, new.family), today):
            speeds.append(
                replace(speed, says=f"{speed.says}, with {size / 1e9:g} billion parameters")
            )

    return tuple(speeds)


def _summed(sides: Sequence[Sample]) -> Sample:
    """Return several runs of one model as one side: their tokens over their node-hours."""
    if len(sides) == 1:
        return sides[0]
    gained = [x for x in sides if x.tokens]

    return Sample(
        f"{len(gained)} runs",
        (),
        (),
        tokens=sum(x.tokens or 0.0 for x in gained),
        node_hours=sum(x.node_hours or 0 for x in gained) or None,
    )


# Which nodes worked: with a runtime, and up and down together.

_RUNTIME = (
    "neuroncore_utilization_ratio",
    "gpu_utilization_ratio",
    "neuron_runtime_memory_used_bytes",
)
_FEWEST = 24
"""Steps that both must have been read for, before anything is said of two nodes."""
_ALIKE, _APART = 0.7, 0.3
"""Correlations from which two nodes move together, and under which they do not."""


def without_runtime(nodes: Frame) -> Mask:
    """Return which nodes were read and never had a runtime, (n_nodes,)."""
    signs = np.stack([nodes.of(name) for name in _RUNTIME])
    # Of nan no comparison holds: what was not read is no sign, and no absence of one.
    return np.asarray(~(signs > 0).any(axis=(0, 2)) & ~np.isnan(signs).all(axis=(0, 2)))


def strangers(levels: Floats) -> Mask:
    """Return which nodes do not move with the largest group that moves together, (n_nodes,).

    Nobody where no two nodes move together: of steady work nothing can be told. A node that was
    hardly read, or moves a little with the group, as one that failed for a while, is no stranger.
    """
    n = len(levels)
    readings = ~np.isnan(levels)
    group = np.zeros(n, dtype=bool)
    alike = _correlations(levels.astype(np.float64), readings)
    remaining = np.arange(n)
    while remaining.size:
        # From the node with most others that move like it: they are a group.
        likes = alike[np.ix_(remaining, remaining)] >= _ALIKE
        largest = remaining[likes[int(likes.sum(axis=1).argmax())]]
        if largest.size < 2 or largest.size <= group.sum():
            break
        group = np.isin(np.arange(n), largest)
        remaining = np.setdiff1d(remaining, largest)

    if not group.any():
        return group
    enough = (readings.astype(int) @ readings[group].T.astype(int)).max(axis=1) >= _FEWEST

    return np.asarray(~group & enough & (alike[:, group].max(axis=1) < _APART))


def _correlations(levels: Doubles, readings: Mask) -> Doubles:
    """Return the correlation of each pair over the steps that both were read, 0 of too few."""
    known, filled = readings.astype(np.float64), np.where(readings, levels, 0.0)
    count = known @ known.T
    with np.errstate(divide="ignore", invalid="ignore"):
        sums, squares = filled @ known.T, (filled**2) @ known.T
        covariance = filled @ filled.T - sums * sums.T / count
        spread = (squares - sums**2 / count) * (squares - sums**2 / count).T
        correlation: Doubles = covariance / np.sqrt(spread)

    # A node that stands still moves with nobody.
    sure = (count >= _FEWEST) & (spread > (1e-6 * count) ** 2) & np.isfinite(correlation)

    return np.where(sure, correlation, 0.0)


VERDICT = Columns[Verdict](
    datum("cheaper", lambda x: x.cheaper),
    datum("yardstick", lambda x: x.yardstick.value if x.yardstick and x.ratios else None),
    datum(
        "best",
        lambda x: x.ratios and x.ratios[0],
        "price of an hour of the second / (speed x price of one of the first), bought alike, at the"
        " fastest speed",
        RATIO,
    ),
    datum(
        "worst",
        lambda x: x.ratios and x.ratios[1],
        "the same at the slowest speed",
        RATIO,
    ),
    datum("says", str),
)


def unused_lines(verdict: Verdict) -> list[Text]:
    """Quote what others say of a speed that the account's own runs tell."""
    return [
        quiet(f"Not used, because your own runs measured it: {x.factor:.2f}x, {x.kind}: {x.says}.")
        for x in verdict.unused
    ]


def verdict_of(
    ports: Ports,
    reading: Reading,
    types: tuple[InstanceType, InstanceType],
    speed: float | None = None,
    market: Market | None = None,
    region: str = "",
) -> Verdict:
    """Return which of two types does the same work for less; may block.

    At the speed that the asker states, else by the account's own runs, else as others state it.
    Raise `WrongInput` where nothing compares the two.
    """
    (old, new), knowledge = types, ports.world.knowledge
    if speed is None:
        measured = _speeds_of_runs(ports, reading, old, new)
        stated = stated_speeds(old, new, knowledge.types(), knowledge.claims())
    else:
        says = f"a node of {new.name} does {speed:g} times the work of one of {old.name}"
        typed = SpeedUp(
            *(old.family, new.family, speed, ClaimKind.TYPED, says),
            source="as you state",
            asof=reading.now.date(),
        )
        measured, stated = (), (typed,)
    if not (measured or stated):
        raise WrongInput(
            f"No source compares {old.name} with {new.name}; run the model on both and compare"
            " the cost of an epoch."
        )

    prices = prices_alike(ports, reading.now, (old.name, new.name), market, region)
    unused = stated if measured else ()
    return Verdict(old.name, new.name, measured or stated, prices, unused=unused)


def _speeds_of_runs(
    ports: Ports, reading: Reading, old: InstanceType, new: InstanceType
) -> tuple[SpeedUp, ...]:
    """Return the work of a node of `new` by the account's own runs; nothing without runs on both."""
    frame, names = reading.frame("run"), {old.name, new.name}
    nodes = [x for x in reading.inventory.instances.values() if x.labels.instance_type in names]
    if frame is None or {x.labels.instance_type for x in nodes} != names:
        return ()
    clusters = {x.labels.cluster for x in nodes}
    runs = [x for x in reading.runs if x.parameters and x.labels.cluster in clusters]
    # A speed is work over node-hours: no dollar of the bill is asked for.
    costed = _costed(reading, frame, runs, Pricing(ports).at(reading.now), {})
    return measured_speeds(costed, old, new, reading.now.date())


def verdict_of_runs(ports: Ports, at: datetime, old: Sample, new: Sample) -> Verdict:
    """Return which of two runs or baselines does the same work for less; may block."""
    missing = [x.name for x in (old, new) if len(x.types) != 1 or not x.node_hours]
    sizes = {x.size for x in (old, new) if x.size}
    if missing:
        unknown = f"the nodes of {' and '.join(missing)} are not known apart from others"
        return Verdict(old.name, new.name, unknown=unknown)
    if len(sizes) > 1:
        return Verdict(old.name, new.name, unknown="they train models of different sizes")

    kinds = ports.world.knowledge.types()
    before, after = (kinds[x.types[0]].family if x.types[0] in kinds else "" for x in (old, new))
    speed = measured_speed(old, new, (before, after), at.date())
    if speed is None:
        unknown = "neither an equal loss nor tokens are measured of both"
        return Verdict(old.name, new.name, unknown=unknown)

    return Verdict(
        old.name, new.name, (speed,), prices_alike(ports, at, (old.types[0], new.types[0]))
    )


def prices_alike(
    ports: Ports,
    at: datetime,
    types: Sequence[str],
    market: Market | None = None,
    region: str = "",
) -> tuple[Price, Price] | None:
    """Return the prices of an hour of two types, bought alike; None where none are. May block."""
    homes = {
        x.labels.region
        for x in ports.world.source.read(at).inventory.instances.values()
        if x.labels.instance_type in types and x.running
    }
    offers = Offers(Pricing(ports).at(at))
    old, new = (offers.quotes(name) for name in types)

    return like_for_like(old, new, homes, market, region)
