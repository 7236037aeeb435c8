"""Answer the cost of training runs and how they scale, compare two, and follow migrations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, timedelta
from decimal import Decimal
from statistics import linear_regression
from typing import Any

from bot.answers.cost.goodput import node_time
from bot.answers.runs.card import (
    COMPARE_FIGURES,
    compare_card,
    run_card,
    runs_card,
    sentence,
)
from bot.answers.runs.costed import (
    BASELINES,
    MIGRATIONS,
    MOST,
    VERDICT,
    Baseline,
    Costed,
    OpenMigration,
    costed_runs,
    find_run,
    sample,
    side,
    verdict_of_runs,
)
from bot.cards.card import (
    Button,
    Buttons,
    Card,
    Chart,
    ChartKind,
    Series,
    Tone,
    compose,
    quiet,
    text,
)
from bot.cards.columns import COUNT, RATIO, USD, Column, Columns, Unit, datum
from bot.cards.lines import quote
from bot.cards.words import as_read, percent
from bot.costs import training
from bot.costs.goodput import run_goodput
from bot.costs.node_time import NodeTime
from bot.errors import TrnbotError, Unavailable, WrongInput, refuse, require_known
from bot.grammar.names import refuse_unwritable
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.codec import by_key
from bot.model.money import cents, counted
from bot.model.request import Request
from bot.model.run import job_of
from bot.model.spend import Filter
from bot.model.window import Window
from bot.ports import Ports

_NODES = {"EC2", "commitment"}


@command(
    "runs",
    "The cost of training runs: per epoch, token, parameter and checkpoint.",
    needs=Needs.METRICS,
    may=Needs.BILL | Needs.DETECTOR | Needs.STATE,
    topic=Topic.COSTS,
    examples=("runs", "runs llama-8b", "runs llama-8b storage=off"),
    figures={
        "nodes": "mean over the time that the run was seen",
        "usd": (
            "sum over the run's nodes of their hours while it was seen, each at what it was "
            "billed, else x the price of the node's hour"
        ),
        "billed_ratio": (
            "share of its node-hours that cost what they were billed at; the others cost their "
            "nodes' price"
        ),
        "epochs": "count of the epochs that finished while it was seen",
        "partial_epoch": "share of the epoch that is under way",
        "partial_usd": "cost since the last epoch's end",
        "usd_per_epoch": "cost of the finished epochs / their number",
        "hours_per_epoch": "hours of the finished epochs / their number",
        "usd_per_billion_tokens": "cost / tokens gained x 10^9",
        "usd_per_billion_parameters": "cost / parameters x 10^9",
        "usd_per_checkpoint": "cost / checkpoints written",
        "checkpoints": "count of the checkpoints written, by the age of the newest",
        "goodput": "classes_usd/productive over usd less classes_usd/not_seen",
        "ettr": (
            "effective training time ratio: productive hours of the wall hours since it was first"
            " seen, a step by the share of its nodes that worked"
        ),
        "classes_usd/*": "usd x the class's share of what the run's nodes cost step by step",
        "attempts": "as the run reports it",
        "loss": "as the run reports it",
        "storage_usd": "amortised cost of storage of the run's cluster while it was seen",
    },
)
def runs(
    ports: Ports,
    request: Request,
    name: str = arg("", "one run"),
    storage: bool = arg("on", "count FSx, S3, EBS and transfer from the bill too", keyword=True),
) -> Card:
    """List the runs that report, or one with every unit."""
    reporting = costed_runs(ports, request.at)
    chosen = [find_run(reporting, name)] if name else list(reporting)
    time: NodeTime | None = None
    if chosen:
        since = min(run.cost.since for run in chosen)
        with suppress(TrnbotError):
            reading = ports.world.source.read(request.at)
            time = node_time(ports, reading, Window(since, request.at))
    goodputs = [run_goodput(time, run.cost, run.paid) if time else None for run in chosen]
    if not name:
        return as_read(
            runs_card([(x.name, x.cost, y) for x, y in zip(chosen, goodputs, strict=True)]),
            "It is not known which runs report",
            ports.world.source.read(request.at),
        )
    (run,), (goodput,) = chosen, goodputs

    return run_card(run, _beside(ports, run, reporting) if storage else None, goodput)


@command(
    "compare",
    "Compare two runs or baselines: the cost of an epoch and of an equal loss, and how certain"
    " they are.",
    needs=Needs.METRICS | Needs.STATE,
    may=Needs.BILL,
    topic=Topic.COSTS,
    examples=("compare vit-2b llama-8b",),
    figures={**COMPARE_FIGURES, **VERDICT.sources("verdict")},
)
def compare(
    ports: Ports,
    request: Request,
    before: str = arg(None, "a run or a baseline"),
    after: str = arg(None, "another one"),
) -> Card:
    """Take the first as the base."""
    refuse((before == after, f"'{before}' is named twice; name two runs or baselines."))
    reporting = costed_runs(ports, request.at)
    a, b = (side(ports, reporting, name) for name in (before, after))
    verdict = verdict_of_runs(ports, request.at, a, b)
    card = compare_card(training.compare(a, b), verdict)

    return replace(card, data={**card.data, "verdict": VERDICT.record(verdict)})


@command(
    "baselines",
    "The baselines: costs of earlier runs, kept for comparison.",
    needs=Needs.STATE,
    topic=Topic.COSTS,
    examples=("baselines",),
)
def baselines(ports: Ports, request: Request) -> Card:
    """List the baselines, the newest first."""
    names = BASELINES.keys(ports.stores.documents, MOST)
    words = "None is kept yet; 'baseline keep RUN' keeps one."
    if names:
        words = f"Kept: {', '.join(names)}."
    return Card("Baselines", Tone.INFO, (text(words),), {"baselines": names})


@command(
    "baseline keep",
    "Keep a run's costs for comparison after its metrics are gone.",
    needs=Needs.METRICS | Needs.STATE,
    may=Needs.BILL,
    topic=Topic.COSTS,
    examples=("baseline keep gpu-run", "baseline keep gpu-run as before-port"),
    changes=True,
)
def baseline_keep(
    ports: Ports,
    request: Request,
    name: str = arg(None, "the run"),
    as_: str = arg("", "name of the baseline; the run's own name when left out", keyword=True),
) -> Card:
    """Write the epochs, losses and tokens of a run as a baseline."""
    baseline = as_ or name
    refuse_unwritable(baseline)
    run = find_run(costed_runs(ports, request.at), name)
    BASELINES.put(ports.stores.documents, baseline, Baseline.of(run, request.at))

    epochs = len(run.cost.epochs)

    return Card(
        f"Baseline {baseline} is kept",
        Tone.GOOD,
        (
            text(
                f"'{baseline}' keeps {counted(epochs, 'epoch')} on {', '.join(run.instance_types)};"
                f" compare {baseline} with any run."
            ),
        ),
        {"name": baseline, "epochs": epochs},
    )


@command(
    "migration open",
    "Follow a migration: the weekly digest compares its run with a baseline.",
    needs=Needs.METRICS | Needs.STATE,
    may=Needs.BILL,
    topic=Topic.COSTS,
    examples=("migration open llama-8b baseline=gpu-run",),
    changes=True,
)
def migration_open(
    ports: Ports,
    request: Request,
    name: str = arg(None, "the run on the new chips"),
    baseline: str = arg(None, "the run or baseline on the old ones", keyword=True),
) -> Card:
    """Keep both names until it is closed."""
    reporting = costed_runs(ports, request.at)
    sides = side(ports, reporting, baseline), side(ports, reporting, name)
    MIGRATIONS.put(ports.stores.documents, name, OpenMigration(baseline, request.at))

    return Card(
        f"Migration {name} is open",
        Tone.GOOD,
        (
            text(sentence(training.compare(*sides))),
            quiet("The weekly digest repeats this comparison until 'migration close'."),
        ),
        {"name": name},
    )


@command(
    "migration close",
    "Stop following a migration.",
    needs=Needs.STATE,
    topic=Topic.COSTS,
    examples=("migration close llama-8b",),
    changes=True,
)
def migration_close(
    ports: Ports, request: Request, name: str = arg(None, "the run on the new chips")
) -> Card:
    """Forget it; baselines stay."""
    names = MIGRATIONS.keys(ports.stores.documents, MOST)
    require_known(
        f"No migration '{name}' is open",
        name,
        names,
        otherwise="open one by 'migration open RUN baseline=NAME'",
    )
    MIGRATIONS.drop(ports.stores.documents, name)

    return Card(f"Migration {name} is closed", Tone.GOOD, (), {"name": name})


def _beside(ports: Ports, run: Costed, reporting: tuple[Costed, ...]) -> dict[str, Decimal] | None:
    """Return the bill of the cluster beside its nodes, an equal part for each of its runs.

    None without a bill.
    """
    cluster = run.cost.run.labels.cluster
    sharers = sum(x.cost.run.labels.cluster == cluster for x in reporting)
    first, last = (
        instant.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        for instant in (run.cost.since, run.cost.until)
    )
    # A bill knows whole hours: those in which the run was seen, and one at least.
    window = Window(first, max(last, first + timedelta(hours=1)))
    try:
        rows = ports.world.billing.tally(window, ("line",), (Filter("cluster", (cluster,)),)).rows
    except Unavailable:
        return None
    billed = {row.key["line"]: cents(row.money.amortised / sharers) for row in rows}

    return {line: amount for line, amount in billed.items() if line not in _NODES and amount}


@dataclass(frozen=True)
class ScalePoint:
    """State the work of all runs on so many nodes; efficiency is against the fewest nodes."""

    nodes: int
    runs: int
    tokens: float
    node_hours: float
    usd_per_billion_tokens: Decimal | None
    efficiency: float = 1.0

    @property
    def tokens_per_hour(self) -> float:
        """Return the tokens an hour of all nodes."""
        return self.tokens_per_node_hour * self.nodes

    @property
    def tokens_per_node_hour(self) -> float:
        """Return the tokens an hour of one node, waiting and repeated work counted."""
        return self.tokens / self.node_hours

    @property
    def worth(self) -> float:
        """Return how many nodes would do as much if each worked as one of the fewest does."""
        return self.nodes * self.efficiency


def points_of(runs: Sequence[training.Sample]) -> list[ScalePoint]:
    """Return one point for each number of nodes, the fewest first."""
    of_nodes = by_key(
        (max(1, round(run.nodes)), run)
        for run in runs
        if run.nodes and run.tokens and run.node_hours
    )
    points: list[ScalePoint] = []
    for nodes, alike in sorted(of_nodes.items()):
        tokens, hours = (
            sum(getattr(x, name) or 0.0 for x in alike) for name in ("tokens", "node_hours")
        )
        paid = [
            (x.usd_per_billion_tokens * Decimal(str(x.tokens)), Decimal(str(x.tokens)))
            for x in alike
            if x.usd_per_billion_tokens is not None and x.tokens
        ]
        total = sum((weight for _, weight in paid), Decimal(0))
        usd = cents(sum((part for part, _ in paid), Decimal(0)) / total) if total else None
        # The fewest nodes set the pace that the others are held against.
        first = points[0].tokens_per_node_hour if points else tokens / hours
        points.append(ScalePoint(nodes, len(alike), tokens, hours, usd, tokens / hours / first))

    return points


def worth_at(points: Sequence[ScalePoint], nodes: int) -> float:
    """Return how many ideal nodes so many would be worth, by a power law through the points; two at least."""
    line = linear_regression(
        [math.log(point.nodes) for point in points], [math.log(point.worth) for point in points]
    )
    return math.exp(line.intercept + line.slope * math.log(nodes))


POINTS = Columns[ScalePoint](
    Column("nodes", lambda x: x.nodes, COUNT, "nodes", "mean of the run's nodes, rounded"),
    Column("runs", lambda x: x.runs, COUNT, "runs", "count of the runs on so many nodes"),
    Column(
        "tokens/h",
        lambda x: x.tokens_per_hour,
        Unit("{:,.0f}".format),
        "tokens_per_hour",
        "tokens of a node-hour x nodes",
    ),
    datum(
        "tokens_per_node_hour",
        lambda x: x.tokens_per_node_hour,
        "sum of tokens / sum of node-hours of the runs on so many nodes",
    ),
    Column(
        "efficiency",
        lambda x: x.efficiency,
        RATIO,
        "efficiency",
        "tokens of a node-hour / those of the fewest nodes",
    ),
    Column(
        "worth of nodes", lambda x: x.worth, Unit("{:,.1f}".format), "worth", "nodes x efficiency"
    ),
    Column(
        "$ a billion tokens",
        lambda x: x.usd_per_billion_tokens,
        USD,
        "usd_per_billion_tokens",
        "cost / tokens x 10^9 of the runs on so many nodes",
        missing="not known",
    ),
)


def scaling_card(name: str, of: str, points: Sequence[ScalePoint], nodes: int) -> Card:
    """Draw efficiency by the number of nodes; of `nodes` that nobody tried, their worth."""
    most, fewest = points[-1], points[0]
    data: dict[str, Any] = {
        "run": name,
        "points": POINTS.data(points),
        "nodes": nodes or None,
        "worth": None,
    }
    buttons = Buttons(
        (Button(f"Run {name}"[:40], f"runs {quote(name)}"), Button("All runs", "runs"))
    )
    if len(points) < 2:
        blocks = compose(
            text(
                f"Every run of {of} that was measured used {counted(fewest.nodes, 'node')}: how it"
                " scales is not known. A run on another number of nodes, or a kept baseline, would"
                " show it."
            ),
            POINTS.table(points),
            buttons,
        )
        return Card(f"Scaling of {of}: one number of nodes only", Tone.INFO, blocks, data)

    beyond = None
    if nodes:
        data["worth"] = worth = round(worth_at(points, nodes), 2)
        sure = "between" if fewest.nodes <= nodes <= most.nodes else "beyond"
        beyond = text(
            f"{nodes:,} nodes would do the work of about {worth:,.0f} ({percent(worth / nodes)}):"
            f" an estimate by a power law, {sure} what was measured."
        )
    blocks = compose(
        beyond,
        POINTS.table(points),
        Chart(
            ChartKind.BAR,
            "Efficiency by number of nodes",
            "%",
            (Series("efficiency", tuple(round(100 * x.efficiency, 1) for x in points)),),
            categories=tuple(f"{x.nodes:,}" for x in points),
            summary=f"{fewest.nodes:,} nodes are 100 %; {most.nodes:,} reach"
            f" {percent(most.efficiency)}.",
        ),
        quiet(
            "Estimated from tokens over node-hours of each run, with its waiting and repeated work."
            " Runs of one model (by its parameters, else its name) on one type count together;"
            " batch size and data may differ."
        ),
        buttons,
    )

    return Card(
        f"Scaling of {of}: {most.nodes:,} nodes do the work of {most.worth:,.1f}",
        Tone.INFO,
        blocks,
        data,
    )


def _alike(
    costed: Costed, runs: Sequence[Costed], baselines: Mapping[str, training.Sample]
) -> list[training.Sample]:
    """Return the runs and baselines of one run's model on its type.

    By the model's size where trainers report it, else by the name without its date or attempt.
    """

    def key(side: training.Sample) -> tuple[float | str, tuple[str, ...]]:
        return side.size or job_of(side.name), side.types

    sides = [sample(run) for run in runs]
    names = {side.name for side in sides}
    sides += [side for name, side in baselines.items() if name not in names]

    return [side for side in sides if key(side) == key(sample(costed))]


@command(
    "scaling",
    "How training a model scales over nodes: efficiency of its runs on each number of nodes.",
    needs=Needs.METRICS | Needs.STATE,
    may=Needs.BILL,
    topic=Topic.COSTS,
    examples=("scaling llama-8b", "scaling llama-8b nodes=256"),
    rows=("points",),
    figures={
        **POINTS.sources("points"),
        "nodes": "as typed",
        "worth": "a power law through the points' worth",
    },
)
def scaling(
    ports: Ports,
    request: Request,
    name: str = arg(None, "a run of the model"),
    nodes: int = arg("0", "say what so many nodes would be worth", keyword=True),
) -> Card:
    """Group the runs of the same size on the same type by their nodes."""
    refuse((not 0 <= nodes <= 100_000, "'nodes' is 0 to 100,000."))
    runs = costed_runs(ports, request.at)
    costed = find_run(runs, name)
    baselines = {
        key: kept.named(key) for key, kept in BASELINES.newest(ports.stores.documents, MOST)
    }
    points = points_of(_alike(costed, runs, baselines))
    if not points:
        raise WrongInput(
            f"Run {name} reports no tokens, or shares its nodes: its speed is not known."
        )
    size = costed.cost.run.parameters
    model = f"{size / 1e9:g} billion parameters" if size else job_of(name)

    return scaling_card(name, f"{model} on {', '.join(costed.instance_types)}", points, nodes)
