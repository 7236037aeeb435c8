"""Answer which size holds a model, and where a cluster could be smaller."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bot.answers.cluster_use import usages
from bot.answers.decide import SMALL_PARAMETERS, parameter_count
from bot.answers.names import no_cluster
from bot.answers.registry import Needs, Topic, arg, command
from bot.answers.rightsize import leaner_of, right_size_card
from bot.cards.card import Align, Block, Button, Buttons, Card, Column, Table, Tone, quiet, text
from bot.cards.notes import PriceAge, note_lines
from bot.costs.offers import Offers
from bot.costs.pricing import Pricing
from bot.model.claims import Note
from bot.model.counts import counted
from bot.model.fleet import InstanceType
from bot.model.labels import Labels
from bot.model.money import usd
from bot.model.price import Price
from bot.model.request import Request
from bot.ports import Ports

BYTES_A_PARAMETER = 16
"""Mixed precision with Adam.

2 weights, 2 gradients, 12 master weights and moments (Rajbhandari et al., ZeRO, 2020).
"""
ROOM = 1.25
"""Memory for activations and buffers, as a multiple of the states': trnbot's own default."""


@dataclass(frozen=True)
class Fit:
    """State how many nodes of a type hold a model's training states, UltraServers whole."""

    type: InstanceType
    nodes: int
    filled: float
    """Share of their accelerator memory."""

    def __str__(self) -> str:
        """Read as `1 x trn2.48xlarge` or `4 UltraServers (16 x trn2u.48xlarge)`."""
        nodes = f"{self.nodes} x {self.type.name}"
        return (
            f"{counted(self.nodes // self.type.sold_in, 'UltraServer')} ({nodes})"
            if self.type.sold_in > 1
            else nodes
        )


def training_gib(parameters: float) -> float:
    """Return the accelerator memory that training needs, in GiB."""
    return parameters * BYTES_A_PARAMETER * ROOM / 2**30


def fits(parameters: float, types: Iterable[InstanceType]) -> tuple[Fit, ...]:
    """Return the fewest nodes of each Trainium type: the advised one first, then by chips.

    Sizes of one chip are joined by the network alone: they count only where one of them is enough.
    UltraServers are for what no single node holds.
    """
    need = training_gib(parameters)
    options = [_fewest(need, kind) for kind in types if kind.accelerator.startswith("Trainium")]
    whole = any(x.nodes == 1 for x in options)
    listed = (
        x
        for x in options
        if x.nodes == 1 or (x.type.chips > 1 and not (whole and x.type.sold_in > 1))
    )
    every = sorted(listed, key=lambda x: (x.nodes * x.type.chips, x.type.name))
    best = _advised(every)
    return (best, *(x for x in every if x is not best))


def _fewest(need_gib: float, kind: InstanceType) -> Fit:
    sold = max(1, math.ceil(need_gib / (kind.accelerator_memory_gib * kind.sold_in)))
    nodes = sold * kind.sold_in
    return Fit(kind, nodes, need_gib / (nodes * kind.accelerator_memory_gib))


def _advised(options: Sequence[Fit]) -> Fit:
    """Return what the notes on sizes advise.

    One node of the first family that holds it, else UltraServers.

    Trn1 for fine-tuning and mid-size models, Trn2 for what needs more, an UltraServer for what does
    not fit 16 chips.
    """
    one = [x for family in _FAMILIES for x in options if x.type.family == family and x.nodes == 1]
    together = [x for x in options if x.type.sold_in > 1]
    return (one or together or list(options))[0]


_FAMILIES = ("trn1", "trn2")
"""The order in which the notes name them, the cheaper chip first."""


_R = Align.RIGHT


@dataclass(frozen=True)
class SizeNotes:
    """Hold what others say about sizes and about training, and how old a price may be."""

    sizing: Sequence[Note]
    advice: Sequence[Note]
    age: PriceAge


def size_card(
    parameters: float, options: Sequence[Fit], prices: Mapping[str, Price], notes: SizeNotes
) -> Card:
    """Draw the fewest nodes of each type that hold the training states, with dollars where a price is known."""
    columns = (
        Column("type"),
        Column("nodes", _R),
        Column("memory filled", _R),
        Column("$/h", _R),
        Column("price of"),
    )
    rows = tuple(_fit(x, prices.get(x.type.name), notes.age) for x in options)
    need = training_gib(parameters)
    blocks: list[Block] = [
        text(f"Training states need about {need:,.0f} GiB of accelerator memory."),
        Table(columns, rows),
    ]
    if parameters < SMALL_PARAMETERS:
        blocks.append(
            text(
                "A model this small runs on one core or a trn1.2xlarge: on many chips the interconnect outweighs the gain."
            )
        )
    formula = f"{BYTES_A_PARAMETER} bytes a parameter (mixed precision, Adam) x {ROOM} for activations; long sequences need more."
    blocks += [
        quiet(f"Estimated: {formula} This covers memory only, not the training time."),
        quiet(
            "Sizes of one chip are listed where one is enough: only the network joins several. UltraServers are bought whole."
        ),
        *note_lines(notes.sizing, notes.age.today),
        *note_lines(notes.advice, notes.age.today),
    ]
    blocks.append(
        Buttons((Button("What it costs a year", "help tco"), Button("Capacity", "help capacity")))
    )
    best = options[0]
    data = {
        "parameters": parameters,
        "needs_gib": round(need, 1),
        "advised": best.type.name,
        "fits": [_fit_data(x, prices.get(x.type.name)) for x in options],
    }
    holds = "holds" if best.nodes == best.type.sold_in else "hold"
    return Card(
        f"{_count(parameters)} parameters: {best} {holds} them", Tone.INFO, tuple(blocks), data
    )


def _fit(fit: Fit, price: Price | None, age: PriceAge) -> tuple[str, ...]:
    of = (
        f"{price.asof}, {price.market}, {price.region}{age.of(price.asof)}"
        if price
        else "not known"
    )
    return (
        fit.type.name,
        f"{fit.nodes}",
        f"{fit.filled * 100:.0f} %",
        usd(price.usd_per_hour * fit.nodes) if price else "?",
        of,
    )


def _fit_data(fit: Fit, price: Price | None) -> dict[str, object]:
    return {
        "instance_type": fit.type.name,
        "nodes": fit.nodes,
        "filled_ratio": round(fit.filled, 3),
        "node_usd_per_hour": price.usd_per_hour if price else None,
        "market": price.market.value if price else None,
        "region": price.region if price else None,
        "asof": price.asof if price else None,
    }


def _count(parameters: float) -> str:
    size, unit = next(
        (x for x in ((1e12, "trillion"), (1e9, "billion")) if parameters >= x[0]), (1e6, "million")
    )
    return f"{parameters / size:g} {unit}"


@command(
    "size",
    "The instance size that fits a model, or a smaller one that would fit the current work.",
    needs=Needs.METRICS | Needs.STATE,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=("size 7B", "size", "size llama"),
)
async def size(
    ports: Ports,
    request: Request,
    what: str = arg("", "a count of parameters such as 7B, or a cluster"),
) -> Card:
    """Judge a model by its parameters, clusters by their use."""
    return await asyncio.to_thread(_size, ports, request, what)


def _size(ports: Ports, request: Request, what: str) -> Card:
    types, claims = ports.world.knowledge.types(), ports.world.knowledge.claims()
    offers = Offers(Pricing(ports).at(request.at))
    if what[:1].isdigit():
        age = PriceAge(request.at.date(), ports.policy.at(Labels()).number("advice.stale_days"))
        count = parameter_count(what)
        options = fits(count, types.values())
        prices = {x.type.name: price for x in options if (price := offers.plain(x.type.name))}
        return size_card(
            count, options, prices, SizeNotes(claims.of("sizing"), claims.of("advice"), age)
        )
    every = usages(ports, request.at)
    mine = [x for x in every if what in ("", x.cluster)]
    if not mine:
        raise no_cluster(what, (x.cluster for x in every if x.cluster))
    return right_size_card([(usage, leaner_of(usage, types.values(), offers)) for usage in mine])
