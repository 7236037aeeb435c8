"""Answer how a model's training scales over nodes, by the runs that were measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from bot.answers.runs.costed import BASELINES, MOST, Costed, costed_runs, find_run, sample
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
from bot.costs.training import Sample
from bot.errors import WrongInput
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.money import cents, counted
from bot.model.request import Request
from bot.model.run import job_of
from bot.ports import Ports

_BILLION = 10**9


@dataclass(frozen=True)
class ScalePoint:
    """State what runs on so many nodes did together; efficiency is against the fewest nodes."""

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


def points_of(runs: Sequence[Sample]) -> list[ScalePoint]:
    """Return one point for each number of nodes, the fewest first."""
    of_nodes: dict[int, list[Sample]] = {}
    for run in runs:
        if run.nodes and run.tokens and run.node_hours:
            of_nodes.setdefault(max(1, round(run.nodes)), []).append(run)
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
        first = points[0].tokens_per_node_hour if points else tokens / hours
        points.append(ScalePoint(nodes, len(alike), tokens, hours, usd, tokens / hours / first))
    return points


def worth_at(points: Sequence[ScalePoint], nodes: int) -> float:
    """Return what so many nodes would be worth, by a power law through the points; two at least."""
    xs, ys = (
        [math.log(x) for x in line]
        for line in zip(*((p.nodes, p.worth) for p in points), strict=True)
    )
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum(
        (x - mean_x) ** 2 for x in xs
    )
    return math.exp(mean_y + slope * (math.log(nodes) - mean_x))


_A_NODE = "sum of tokens / sum of node-hours of the runs on so many nodes"
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
    datum("tokens_per_node_hour", lambda x: x.tokens_per_node_hour, _A_NODE),
    Column(
        "efficiency",
        lambda x: x.efficiency,
        RATIO,
        "efficiency",
        "tokens of a node-hour / those of the fewest nodes",
    ),
    Column("worth nodes", lambda x: x.worth, Unit("{:,.1f}".format), "worth", "nodes x efficiency"),
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
    """Draw efficiency by the number of nodes; of `nodes` that nobody tried, what they would be worth."""
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
        alone = text(
            f"Every run of {of} that was measured had {counted(fewest.nodes, 'node')}: how it scales"
            " is not known. A run on another number of nodes, or a kept baseline, tells."
        )
        blocks = compose(alone, POINTS.table(points), buttons)
        return Card(f"Scaling of {of}: one number of nodes only", Tone.INFO, blocks, data)

    title = f"Scaling of {of}: {most.nodes:,} nodes do the work of {most.worth:,.1f}"
    beyond = None
    if nodes:
        data["worth"] = worth = round(worth_at(points, nodes), 2)
        sure = "between" if fewest.nodes <= nodes <= most.nodes else "beyond"
        beyond = text(
            f"{nodes:,} nodes would do the work of about {worth:,.0f} ({worth / nodes:.0%}):"
            f" an estimate by a power law, {sure} what was measured."
        )
    chart = Chart(
        ChartKind.BAR,
        "Efficiency by number of nodes",
        "%",
        (Series("efficiency", tuple(round(100 * x.efficiency, 1) for x in points)),),
        categories=tuple(f"{x.nodes:,}" for x in points),
        summary=f"{fewest.nodes:,} nodes are 100 %; {most.nodes:,} reach {most.efficiency:.0%}.",
    )
    blocks = compose(
        beyond,
        POINTS.table(points),
        chart,
        quiet(
            "Estimated from tokens over node-hours of each run, with its waiting and repeated work."
            " Runs of one model (by its parameters, else its name) on one type count together; batch size and data may differ."
        ),
        buttons,
    )
    return Card(title, Tone.INFO, blocks, data)


def _alike(costed: Costed, runs: Sequence[Costed], baselines: Mapping[str, Sample]) -> list[Sample]:
    """Return the runs and baselines of one run's model on its type.

    By the model's size where trainers report it, else by the name without its date or attempt.
    """

    def key(side: Sample) -> tuple[str, tuple[str, ...]]:
        # Trainers count the parameters of one model a little differently.
        return f"{side.parameters:.2g}" if side.parameters else job_of(side.name), side.types

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
    figures={**POINTS.sources("points"), "worth": "a power law through the points' worth"},
)
def scaling(
    ports: Ports,
    request: Request,
    name: str = arg(None, "a run of the model"),
    nodes: int = arg("0", "say what so many nodes would be worth", keyword=True),
) -> Card:
    """Group the runs of the same size on the same type by their nodes."""
    if not 0 <= nodes <= 100_000:
        raise WrongInput("'nodes' is 0 to 100,000.")
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
    model = f"{size / _BILLION:g} billion parameters" if size else job_of(name)
    of = f"{model} on {', '.join(costed.instance_types)}"
    return scaling_card(name, of, points, nodes)
