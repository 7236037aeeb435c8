"""Answer the cost of training runs, compare two, keep baselines, and follow migrations."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, timedelta
from decimal import Decimal

from bot.answers.plan.sides import VERDICT, verdict_of_runs
from bot.answers.runs.card import compare_card, run_card, runs_card, sentence
from bot.answers.runs.costed import (
    BASELINES,
    MIGRATIONS,
    MOST,
    Baseline,
    Costed,
    OpenMigration,
    costed_runs,
    find_run,
    side,
)
from bot.cards.card import Card, Tone, quiet, text
from bot.cards.words import as_read
from bot.costs.training import compare as compared
from bot.errors import Unavailable, WrongInput, nearest
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.money import cents
from bot.model.request import Request
from bot.model.spend import Filter
from bot.model.window import Window
from bot.ports import Ports

_NODES = {"EC2", "commitment"}


@command(
    "runs",
    "The cost of training runs: per epoch, token, parameter and checkpoint.",
    needs=Needs.METRICS,
    may=Needs.BILL,
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
    if not name:
        card = runs_card([(run.name, run.cost) for run in reporting])
        return as_read(
            card, "It is not known which runs report", ports.world.source.read(request.at)
        )
    run = find_run(reporting, name)

    return run_card(run, _beside(ports, run, reporting) if storage else None)


@command(
    "compare",
    "Compare two runs or baselines: the cost of an epoch and of an equal loss, and how certain"
    " they are.",
    needs=Needs.METRICS | Needs.STATE,
    may=Needs.BILL,
    topic=Topic.COSTS,
    examples=("compare vit-2b llama-8b",),
    figures={
        "epochs": "count of the finished epochs",
        "usd_per_epoch": "cost of the finished epochs / their number",
        "hours_per_epoch": "hours of the finished epochs / their number",
        "usd_per_billion_tokens": "cost / tokens gained x 10^9",
        "equal_loss/*": "cost and hours of each side between two losses that both passed",
        "usd_per_epoch/*": "mean of b - mean of a, with its 95 % interval",
        **VERDICT.sources("verdict"),
        "hours_per_epoch/*": "mean of b - mean of a, with its 95 % interval",
    },
)
def compare(
    ports: Ports,
    request: Request,
    before: str = arg(None, "a run or a baseline"),
    after: str = arg(None, "another"),
) -> Card:
    """Take the first as the base."""
    if before == after:
        raise WrongInput(f"'{before}' is named twice; name two runs or baselines.")
    reporting = costed_runs(ports, request.at)
    a, b = (side(ports, reporting, name) for name in (before, after))
    verdict = verdict_of_runs(ports, request.at, a, b)
    card = compare_card(compared(a, b), verdict)

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
    if not re.fullmatch(r"[\w.-]{1,60}", baseline):
        raise WrongInput(
            f"'{baseline[:60]}' does not do as a name; take letters, digits, dots and dashes."
        )
    run = find_run(costed_runs(ports, request.at), name)
    BASELINES.put(ports.stores.documents, baseline, Baseline.of(run, request.at))

    epochs = len(run.cost.epochs)
    note = text(
        f"{epochs} epochs on {', '.join(run.instance_types)} are kept as '{baseline}';"
        f" compare {baseline} with any run."
    )
    data = {"name": baseline, "epochs": epochs}

    return Card(f"Baseline {baseline} is kept", Tone.GOOD, (note,), data)


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
    blocks = (
        text(sentence(compared(*sides))),
        quiet("The weekly digest repeats this comparison until 'migration close'."),
    )

    return Card(f"Migration {name} is open", Tone.GOOD, blocks, {"name": name})


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
    if name not in names:
        hint = nearest(name, names, otherwise="open one by 'migration open RUN baseline=NAME'")
        raise WrongInput(f"No migration '{name}' is open{hint}.")
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
