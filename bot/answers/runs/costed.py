"""Join training runs with the nodes that they ran on, and those with the price of an hour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime

from bot.costs.compare import RunComparison, Sample, compare
from bot.costs.pricing import Pricing
from bot.costs.training import RunCost, paid, run_cost
from bot.errors import WrongInput, nearest
from bot.model.fleet import Instance
from bot.model.price import Price
from bot.model.reading import Reading
from bot.model.run import Run
from bot.ports import Documents, Ports
from bot.watch.tick import Watch


@dataclass(frozen=True)
class Baseline(Sample):
    """Hold one side of a comparison as it was kept, when, and on which instance types it ran."""

    at: datetime | None = None
    types: tuple[str, ...] = ()

    @classmethod
    def of(cls, costed: Costed, at: datetime) -> Baseline:
        """Return a run as a baseline."""
        return cls(**vars(sample(costed)), at=at, types=costed.instance_types)

    def named(self, name: str) -> Sample:
        """Return it as a side of that name."""
        return Sample(**{field.name: getattr(self, field.name) for field in fields(Sample)} | {"name": name})


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
    """How its nodes were found: `the job label`, `the project tag`, `the whole cluster`, `1/3 of the cluster`."""
    prices: tuple[Price, ...]
    unpriced: int = 0

    @property
    def name(self) -> str:
        """Return the run's name."""
        return self.cost.run.labels.job


def costed_runs(ports: Ports, at: datetime) -> tuple[Costed, ...]:
    """Return every run that is seen at the time, the dearest first; may block."""
    reading = Watch(ports, ()).read(at)
    pricing = Pricing(ports).at(at)
    runs = [costed for run in reading.runs if (costed := _costed(run, reading, pricing))]
    return tuple(sorted(runs, key=lambda x: -x.cost.usd))


def find_run(runs: Sequence[Costed], name: str) -> Costed:
    """Return the run of that name; raise `WrongInput` with the nearest one."""
    for run in runs:
        if run.name == name:
            return run
    raise WrongInput(f"No run called '{name}' reports{nearest(name, [x.name for x in runs])}.")


def sample(costed: Costed) -> Sample:
    """Return a run as one side of a comparison."""
    cost = costed.cost
    epochs = len(cost.epochs) + (cost.partial_epoch or 0) if cost.epochs else 0
    per_epoch = cost.run.tokens / cost.run.epochs if cost.run.tokens and cost.run.epochs and epochs else None
    return Sample(
        costed.name,
        tuple(x.usd for x in cost.epochs),
        tuple(x.hours for x in cost.epochs),
        per_epoch,
        cost.usd_per_billion_tokens,
        cost.losses,
    )


def side(ports: Ports, runs: Sequence[Costed], name: str) -> Sample:
    """Return a run that reports, else a baseline of that name; raise `WrongInput` for neither."""
    if any(x.name == name for x in runs):
        return sample(find_run(runs, name))
    baseline = BASELINES.get(ports.stores.documents, name)
    if baseline is None:
        choices = [x.name for x in runs] + BASELINES.keys(ports.stores.documents, MOST)
        raise WrongInput(f"Neither a run nor a baseline is called '{name}'{nearest(name, choices)}.")
    return baseline.named(name)


def parities(ports: Ports, at: datetime) -> tuple[tuple[str, RunComparison | None], ...]:
    """Return each open migration with its comparison, None where a side no longer tells; may block."""
    opened = MIGRATIONS.newest(ports.stores.documents, MOST)
    if not opened:
        return ()
    runs = costed_runs(ports, at)
    return tuple((name, _parity(ports, runs, name, migration.baseline)) for name, migration in sorted(opened, key=lambda x: x[0]))


def _parity(ports: Ports, runs: Sequence[Costed], name: str, baseline: str) -> RunComparison | None:
    try:
        return compare(side(ports, runs, baseline), side(ports, runs, name))
    except WrongInput:
        return None


def _costed(run: Run, reading: Reading, pricing: Pricing) -> Costed | None:
    frame = reading.frame("run")
    row = (
        next((i for i, x in enumerate(frame.things) if (x.job, x.cluster) == (run.labels.job, run.labels.cluster)), None)
        if frame
        else None
    )
    if frame is None or row is None:
        return None
    mine, by, parts = _nodes(run, reading)
    priced = [(instance, price) for instance in mine if (price := pricing.instance(instance))]
    nodes = paid([(instance, price.usd_per_hour / parts) for instance, price in priced])
    cost = run_cost(run, frame.pick([row]), nodes)
    if cost is None:
        return None
    types = tuple(sorted({instance.labels.instance_type for instance in mine}))
    return Costed(cost, types, by, tuple(dict.fromkeys(price for _, price in priced)), len(mine) - len(priced))


def _nodes(run: Run, reading: Reading) -> tuple[list[Instance], str, int]:
    """Return the nodes that a run is charged with, how they were found, and among how many runs they are shared."""
    labels = run.labels
    cluster = [x for x in reading.inventory.instances.values() if x.labels.cluster == labels.cluster]
    for mine, by in (
        ([x for x in cluster if x.labels.job == labels.job], "the job label"),
        ([x for x in cluster if x.project == labels.job], "the project tag"),
    ):
        if mine:
            return mine, by, 1
    parts = sum(x.labels.cluster == labels.cluster for x in reading.runs)
    return (
        cluster,
        "the whole cluster" if parts == 1 else f"1/{parts} of the cluster, as no tag tells whose nodes are whose",
        parts,
    )
