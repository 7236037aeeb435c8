"""Answer the footprint of what ran."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import timedelta
from decimal import Decimal

from bot.advice.carbon import footprint
from bot.cards.carbon import carbon_card
from bot.cards.card import Card
from bot.commands.registry import arg, command
from bot.errors import WrongInput
from bot.model.request import Request
from bot.model.window import Window
from bot.ports import Ports

_HOUR = timedelta(hours=1)


@command(
    "carbon",
    "Energy and CO2 of the nodes that ran, as an estimate with its formula.",
    examples=("carbon 7d", "carbon 7d watts=500 cluster=llama"),
)
async def carbon(
    ports: Ports,
    request: Request,
    window: Window = arg("7d", "which days"),
    cluster: str = arg("", "only this cluster", keyword=True),
    watts: Decimal | None = arg("", "watts of one chip, where you know better", keyword=True),
    kg_per_kwh: Decimal | None = arg("", "the grid's factor, where you know better", keyword=True),
) -> Card:
    """Count node-hours by inventory, and multiply."""
    if any(x is not None and not 0 < x < 100_000 for x in (watts, kg_per_kwh)):
        raise WrongInput("watts and kg_per_kwh are more than 0, such as watts=500 kg_per_kwh=0.3.")
    return await asyncio.to_thread(_answer, ports, request, window, cluster, watts, kg_per_kwh)


def _answer(ports: Ports, request: Request, window: Window, cluster: str, watts: Decimal | None, kg: Decimal | None) -> Card:
    inventory, claims, types = ports.source.read(request.at).inventory, ports.knowledge.claims(), ports.knowledge.types()
    hours: dict[tuple[str, str], float] = defaultdict(float)
    for one in inventory.instances.values():
        start, end = max(one.launched_at, window.start), min(one.ended_at or request.at, window.end, request.at)
        if end > start and one.labels.instance_type in types and cluster in ("", one.labels.cluster):
            hours[one.labels.instance_type, one.labels.region] += (end - start) / _HOUR
    powers, grids = {x.accelerator: x for x in claims.powers}, {x.region: x for x in claims.grids}
    found = []
    for (name, region), count in sorted(hours.items()):
        kind, grid = types[name], grids.get(region)
        stated = powers[kind.accelerator].watts if kind.accelerator in powers else None
        each = float(watts) if watts is not None else stated
        factor = float(kg) if kg is not None else grid.kg_per_kwh if grid else None
        found.append(footprint(name, region, kind.chips, count, each, factor))
    used = [grids[x] for x in sorted({x.region for x in found} & set(grids))] if kg is None else []
    shown = [powers[x] for x in sorted({types[y.instance_type].accelerator for y in found} & set(powers))]
    return carbon_card(found, window, shown, used, claims.of("energy"), watts is not None)
