"""Answer which size fits, for a model or for what runs, and whether serving could move to Inferentia2."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from bot.advice.sizing import fits, serving_sizes, smaller
from bot.advice.tco import listed
from bot.cards.card import Card
from bot.cards.sizing import right_size_card, serve_card, size_card
from bot.commands.decide import parameter_count
from bot.commands.known import no_cluster
from bot.commands.registry import arg, command
from bot.model.fleet import InstanceType, Market
from bot.model.price import Price
from bot.model.request import Request
from bot.model.usage import Usage
from bot.ports import Ports
from bot.pricing import Pricing
from bot.usage import usages

STEADY = 0.15
"""Spread of utilization under which a cluster that trains nothing is called steady: trnbot's own default."""


@command(
    "size",
    "Which size holds a model, or which smaller one would hold what runs.",
    examples=("size 7B", "size", "size llama"),
)
async def size(ports: Ports, request: Request, what: str = arg("", "a count of parameters such as 7B, or a cluster")) -> Card:
    """Judge a model by its parameters, clusters by what they used."""
    return await asyncio.to_thread(_size, ports, request, what)


@command("inference", "Clusters that serve on training chips, and what Inferentia2 would cost.", examples=("inference",))
async def inference(ports: Ports, request: Request) -> Card:
    """Find steady inference; training and Trn3 are left alone."""
    return await asyncio.to_thread(_serve, ports, request)


def _size(ports: Ports, request: Request, what: str) -> Card:
    types, claims = ports.knowledge.types(), ports.knowledge.claims()
    if what[:1].isdigit():
        count = parameter_count(what)
        found = fits(count, types.values())
        prices = {x.type.name: price for x in found if (price := _quoted(ports, request, x.type.name, ""))}
        return size_card(count, found, prices, claims.of("sizing"), claims.of("advice"))
    every = usages(ports, request.at)
    mine = [x for x in every if what in ("", x.cluster)]
    if not mine:
        raise no_cluster(what, (x.cluster for x in every))
    sizes = [_less(x, types.values()) for x in mine]
    quoted = [_quoted(ports, request, kind.name, x.region) if kind else None for x, kind in zip(mine, sizes, strict=True)]
    return right_size_card(list(zip(mine, sizes, quoted, strict=True)))


def _less(usage: Usage, types: Iterable[InstanceType]) -> InstanceType | None:
    """Return the smallest size that would hold a node's work; None where none does or too little was read."""
    if usage.utilization is None or usage.peak_gib is None or usage.utilization + (usage.spread or 0) <= 0:
        return None
    fitting = smaller(usage.type, usage.peak_gib, min(1.0, usage.utilization + 2 * (usage.spread or 0)), types)
    return fitting[0] if fitting else None


def _serve(ports: Ports, request: Request) -> Card:
    types = ports.knowledge.types()
    rows = []
    for usage in usages(ports, request.at):
        if usage.utilization is None or usage.peak_gib is None or not _serves(usage):
            continue
        fitting = serving_sizes(usage.type, usage.peak_gib, min(1.0, usage.utilization + 2 * (usage.spread or 0)), types.values())
        if fitting:
            rows.append((usage, fitting[0], _quoted(ports, request, fitting[0].name, usage.region)))
    return serve_card(rows, ports.knowledge.claims().of("serve"))


def _serves(usage: Usage) -> bool:
    """Tell whether it says that it serves, or works steadily and lightly without any training run."""
    steady = usage.spread is not None and usage.spread < STEADY and 0.02 < (usage.utilization or 0) < 0.5
    return not usage.trains and (usage.named_serving or steady)


def _quoted(ports: Ports, request: Request, name: str, region: str) -> Price | None:
    quotes = Pricing(ports).at(request.at).quotes(name, "")
    return listed(quotes, Market.ON_DEMAND, region) or listed(quotes, Market.CAPACITY_BLOCK, region)
