"""Answer which size holds a model, where a cluster could be smaller, and whether serving could move."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from bot.answers.cluster_use import ClusterUse, usages
from bot.answers.decide import parameter_count
from bot.answers.registry import Needs, Topic, arg, command
from bot.answers.values import no_cluster
from bot.cards.card import Align, Block, Button, Buttons, Card, Column, Table, Tone, quiet, text
from bot.cards.notes import note_lines
from bot.costs.pricing import Pricing, listed_price
from bot.model.claims import Note
from bot.model.fleet import InstanceType, Market
from bot.model.money import cents, usd
from bot.model.price import Price
from bot.model.request import Request
from bot.ports import Ports

BYTES_A_PARAMETER = 16
"""Mixed precision with Adam: 2 weights, 2 gradients, 12 master weights and moments (Rajbhandari et al., ZeRO, 2020)."""
ROOM = 1.25
"""Memory for activations and buffers, as a multiple of the states': trnbot's own default."""
HEADROOM = 0.9
"""Share of memory or compute that a smaller size may be filled to: trnbot's own default."""
SMALL_PARAMETERS = 100_000_000


@dataclass(frozen=True)
class Fit:
    """State how many nodes of a type hold a model's training states."""

    type: InstanceType
    nodes: int
    filled: float
    """Share of their accelerator memory."""


def training_gib(parameters: float) -> float:
    """Return the accelerator memory that training needs, in GiB."""
    return parameters * BYTES_A_PARAMETER * ROOM / 2**30


def fits(parameters: float, types: Iterable[InstanceType]) -> tuple[Fit, ...]:
    """Return the fewest nodes of each Trainium type, the fewest chips first."""
    need = training_gib(parameters)
    options = []
    for kind in types:
        if kind.accelerator.startswith("Trainium"):
            nodes = max(1, math.ceil(need / kind.accelerator_memory_gib))
            options.append(Fit(kind, nodes, need / (nodes * kind.accelerator_memory_gib)))
    return tuple(sorted(options, key=lambda x: (x.nodes * x.type.chips, x.type.name)))


def smaller(kind: InstanceType, peak_gib: float, utilization: float, types: Iterable[InstanceType]) -> tuple[InstanceType, ...]:
    """Return the family's smaller sizes that hold a node's memory peak and its work, the smallest first."""
    work = kind.bf16_tflops * utilization
    return tuple(
        sorted(
            (
                x
                for x in types
                if x.family == kind.family
                and x.chips < kind.chips
                and peak_gib <= x.accelerator_memory_gib * HEADROOM
                and work <= x.bf16_tflops * HEADROOM
            ),
            key=lambda x: x.chips,
        )
    )


def serving_sizes(
    kind: InstanceType, peak_gib: float, utilization: float, types: Iterable[InstanceType]
) -> Sequence[InstanceType]:
    """Return the Inferentia2 sizes that hold a serving node's memory peak and work, the smallest first.

    Trn3 is sold for training and serving alike, so nothing is returned for it.
    """
    if kind.family not in {"trn1", "trn1n", "trn2", "trn2u"}:
        return ()
    work = kind.bf16_tflops * utilization
    fitting = [x for x in types if x.family == "inf2" and peak_gib <= x.accelerator_memory_gib * HEADROOM]
    return sorted((x for x in fitting if work <= x.bf16_tflops * HEADROOM), key=lambda x: x.chips)


_R = Align.RIGHT
HOURS_A_MONTH = 730


def size_card(
    parameters: float, options: Sequence[Fit], prices: Mapping[str, Price], sizing: Sequence[Note], advice: Sequence[Note]
) -> Card:
    """Draw the fewest nodes of each type that hold the training states, with dollars where a price is known."""
    columns = (Column("type"), Column("nodes", _R), Column("memory filled", _R), Column("$/h", _R), Column("price of"))
    rows = tuple(_fit(x, prices.get(x.type.name)) for x in options)
    need = training_gib(parameters)
    blocks: list[Block] = [text(f"Training states need about {need:,.0f} GiB of accelerator memory."), Table(columns, rows)]
    if parameters < SMALL_PARAMETERS:
        blocks.append(
            text("A model this small runs on one core or a trn1.2xlarge: on many chips the interconnect outweighs the gain.")
        )
    formula = f"{BYTES_A_PARAMETER} bytes a parameter (mixed precision, Adam) x {ROOM} for activations; long sequences need more."
    blocks += [
        quiet(f"Estimated: {formula} This covers memory only, not the training time."),
        *note_lines(sizing),
        *note_lines(advice),
    ]
    blocks.append(Buttons((Button("What it costs a year", "help tco"), Button("Capacity", "help capacity"))))
    data = {
        "parameters": parameters,
        "needs_gib": round(need, 1),
        "fits": [{"instance_type": x.type.name, "nodes": x.nodes, "filled_ratio": round(x.filled, 3)} for x in options],
    }
    return Card(
        f"{_count(parameters)} parameters: {options[0].nodes} x {options[0].type.name} hold them", Tone.INFO, tuple(blocks), data
    )


def right_size_card(rows: Sequence[tuple[ClusterUse, InstanceType | None, Price | None]]) -> Card:
    """List clusters with the smaller size that would hold them, or that none would."""
    columns = (
        Column("cluster"),
        Column("runs"),
        Column("used", _R),
        Column("memory peak", _R),
        Column("would fit"),
        Column("saves a month", _R),
    )
    drawn, total = [], Decimal(0)
    for usage, kind, price in rows:
        saved = saving(usage, price)
        total += saved or Decimal(0)
        fitting = f"{usage.nodes} x {kind.name}" if kind else "no smaller size"
        drawn.append(
            (
                usage.cluster,
                f"{usage.nodes} x {usage.type.name}",
                _share(usage),
                _peak(usage),
                fitting,
                usd(saved) if saved else "–",
            )
        )
    notes = quiet(f"Estimated over seven days; a size fits if peak memory and work use at most {HEADROOM * 100:.0f} % of it.")
    title = f"A smaller size would save about {usd(total)} a month" if total else "No cluster fits a smaller size"
    data = {"clusters": [_data(usage, kind, price) for usage, kind, price in rows]}
    return Card(title, Tone.INFO, (Table(columns, tuple(drawn)), notes), data)


def serve_card(rows: Sequence[tuple[ClusterUse, InstanceType, Price | None]], notes: Sequence[Note]) -> Card:
    """List clusters that seem to serve on training chips, with the cost of Inferentia2."""
    quoted = [*note_lines(notes, "What others report; not applied to the numbers above")]
    if not rows:
        sentence = text(
            "No cluster on trn1 or trn2 serves steadily: none is marked as serving by name or tag, or all of them train."
        )
        return Card("Nothing to move to Inferentia2", Tone.GOOD, (sentence, *quoted), {"clusters": []})
    columns = (Column("cluster"), Column("runs"), Column("used", _R), Column("would fit"), Column("saves a month", _R))
    drawn = tuple(
        (
            u.cluster,
            f"{u.nodes} x {u.type.name}",
            _share(u),
            f"{u.nodes} x {k.name}",
            usd(s) if (s := saving(u, p)) else "no price known",
        )
        for u, k, p in rows
    )
    total = sum((s for u, _, p in rows if (s := saving(u, p))), Decimal(0))
    note = quiet("Estimated from peak memory and peak TFLOPS over seven days: measure latency on one node before you move.")
    title = f"Serving could move to Inferentia2 and save about {usd(total)} a month"
    return Card(title, Tone.INFO, (Table(columns, drawn), note, *quoted), {"clusters": [_data(*row) for row in rows]})


def saving(usage: ClusterUse, price: Price | None) -> Decimal | None:
    """Return USD a month that the other size saves, None where a price is missing or nothing is saved."""
    if usage.price is None or price is None or price.usd_per_hour >= usage.price.usd_per_hour:
        return None
    return cents((usage.price.usd_per_hour - price.usd_per_hour) * usage.nodes * HOURS_A_MONTH)


def _fit(fit: Fit, price: Price | None) -> tuple[str, ...]:
    cost = (usd(price.usd_per_hour * fit.nodes), f"{price.asof}, {price.market}") if price else ("?", "not known")
    return fit.type.name, f"{fit.nodes}", f"{fit.filled * 100:.0f} %", *cost


def _share(usage: ClusterUse) -> str:
    return "no reading" if usage.utilization is None else f"{usage.utilization * 100:.0f} %"


def _peak(usage: ClusterUse) -> str:
    return "no reading" if usage.peak_gib is None else f"{usage.peak_gib:,.0f} of {usage.type.accelerator_memory_gib:,} GiB"


def _count(parameters: float) -> str:
    return f"{parameters / 1e9:g} billion" if parameters >= 1e9 else f"{parameters / 1e6:g} million"


def _data(usage: ClusterUse, kind: InstanceType | None, price: Price | None) -> dict[str, object]:
    return {
        "cluster": usage.cluster,
        "runs": usage.type.name,
        "nodes": usage.nodes,
        "utilization_ratio": usage.utilization,
        "peak_gib": usage.peak_gib,
        "fits": kind.name if kind else None,
        "saves_usd_per_month": saving(usage, price),
    }


STEADY = 0.15
"""Spread of utilization under which a cluster that trains nothing is called steady: trnbot's own default."""


@command(
    "size",
    "The instance size that fits a model, or a smaller one that would fit the current work.",
    needs=Needs.METRICS,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=("size 7B", "size", "size llama"),
)
async def size(ports: Ports, request: Request, what: str = arg("", "a count of parameters such as 7B, or a cluster")) -> Card:
    """Judge a model by its parameters, clusters by their use."""
    return await asyncio.to_thread(_size, ports, request, what)


@command(
    "inference",
    "Clusters that serve on training chips, and the cost on Inferentia2.",
    needs=Needs.METRICS,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=("inference",),
)
async def inference(ports: Ports, request: Request) -> Card:
    """Find steady inference; training and Trn3 are left alone."""
    return await asyncio.to_thread(_serve, ports, request)


def _size(ports: Ports, request: Request, what: str) -> Card:
    types, claims = ports.world.knowledge.types(), ports.world.knowledge.claims()
    if what[:1].isdigit():
        count = parameter_count(what)
        options = fits(count, types.values())
        prices = {x.type.name: price for x in options if (price := _quoted(ports, request, x.type.name, ""))}
        return size_card(count, options, prices, claims.of("sizing"), claims.of("advice"))
    every = usages(ports, request.at)
    mine = [x for x in every if what in ("", x.cluster)]
    if not mine:
        raise no_cluster(what, (x.cluster for x in every))
    sizes = [_less(x, types.values()) for x in mine]
    quoted = [_quoted(ports, request, kind.name, x.region) if kind else None for x, kind in zip(mine, sizes, strict=True)]
    return right_size_card(list(zip(mine, sizes, quoted, strict=True)))


def _less(usage: ClusterUse, types: Iterable[InstanceType]) -> InstanceType | None:
    """Return the smallest size that would hold a node's work; None where none does or too little was read."""
    if usage.utilization is None or usage.peak_gib is None or usage.utilization + (usage.spread or 0) <= 0:
        return None
    fitting = smaller(usage.type, usage.peak_gib, min(1.0, usage.utilization + 2 * (usage.spread or 0)), types)
    return fitting[0] if fitting else None


def _serve(ports: Ports, request: Request) -> Card:
    types = ports.world.knowledge.types()
    rows = []
    for usage in usages(ports, request.at):
        if usage.utilization is None or usage.peak_gib is None or not _serves(usage):
            continue
        fitting = serving_sizes(usage.type, usage.peak_gib, min(1.0, usage.utilization + 2 * (usage.spread or 0)), types.values())
        if fitting:
            rows.append((usage, fitting[0], _quoted(ports, request, fitting[0].name, usage.region)))
    return serve_card(rows, ports.world.knowledge.claims().of("serve"))


def _serves(usage: ClusterUse) -> bool:
    """Tell whether it says that it serves, or works steadily and lightly without any training run."""
    steady = usage.spread is not None and usage.spread < STEADY and 0.02 < (usage.utilization or 0) < 0.5
    return not usage.trains and (usage.named_serving or steady)


def _quoted(ports: Ports, request: Request, name: str, region: str) -> Price | None:
    quotes = Pricing(ports).at(request.at).quotes(name, "")
    return listed_price(quotes, Market.ON_DEMAND, region) or listed_price(quotes, Market.CAPACITY_BLOCK, region)
