"""Answer the energy and the emissions of the nodes that ran: an estimate by a formula."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from bot.answers.registry import Needs, Topic, arg, command
from bot.cards.card import Align, Block, Card, Column, Table, Tone, quiet, text
from bot.cards.notes import note_lines
from bot.cards.words import period
from bot.errors import WrongInput
from bot.model.claims import Grid, Note, Power
from bot.model.request import Request
from bot.model.window import Window
from bot.ports import Ports

PUE = 1.2
"""Power usage effectiveness that Cloud Carbon Footprint takes for AWS (its constants file, read 2026-11-21)."""


@dataclass(frozen=True)
class Footprint:
    """State node-hours with their kWh and kg of CO2 equivalents; None where a factor is not known."""

    instance_type: str
    region: str
    node_hours: float
    watts: float | None
    kwh: float | None
    kg: float | None


def footprint(
    instance_type: str, region: str, chips: int, node_hours: float, watts: float | None, kg_per_kwh: float | None
) -> Footprint:
    """Return kWh = node-hours x chips x watts a chip x PUE / 1000, and kg = kWh x the grid's factor."""
    kwh = node_hours * chips * watts * PUE / 1000 if watts is not None else None
    return Footprint(
        instance_type, region, node_hours, watts, kwh, kwh * kg_per_kwh if kwh is not None and kg_per_kwh is not None else None
    )


_R = Align.RIGHT


def carbon_card(
    footprints: Sequence[Footprint],
    window: Window,
    powers: Sequence[Power],
    grids: Sequence[Grid],
    notes: Sequence[Note],
    assumed: bool,
) -> Card:
    """Draw a row for each type and region; a figure that no vendor states stays unknown."""
    rows = tuple(
        (x.instance_type, x.region, f"{x.node_hours:,.0f}", _or(x.watts, "W"), _or(x.kwh, "kWh"), _or(x.kg, "kg"))
        for x in footprints
    )
    columns = (
        Column("type"),
        Column("region"),
        Column("node-hours", _R),
        Column("a chip", _R),
        Column("energy", _R),
        Column("CO2e", _R),
    )
    kilograms = [x.kg for x in footprints if x.kg is not None]
    unknown = [x.instance_type for x in footprints if x.watts is None]
    blocks: list[Block] = [Table(columns, rows)]
    if unknown:
        names = ", ".join(dict.fromkeys(unknown))
        blocks.append(
            text(f"No vendor publishes the watts of {names}: give a measured or assumed figure, such as carbon watts=500.")
        )
    blocks.append(quiet(f"Estimated: node-hours x chips x watts x PUE {PUE} / 1000 x kg a kWh; full load, without hosts."))
    blocks += [quiet(f"{x.accelerator}: {x.watts:.0f} W ({x.source}, {x.asof}).") for x in powers if not assumed]
    blocks += [quiet(f"{x.region}: {x.kg_per_kwh} kg a kWh ({x.source}, {x.asof}).") for x in grids]
    blocks += note_lines(notes, "What vendors claim; types are compared by cited watts alone")
    total = f"about {sum(kilograms):,.0f} kg CO2e" if kilograms else "not known"
    data = {
        "window": {"start": window.start, "end": window.end},
        "estimate": True,
        "rows": [vars(x) for x in footprints],
    }
    return Card(f"Footprint of {period(window)}: {total}, an estimate", Tone.INFO, tuple(blocks), data)


def _or(amount: float | None, unit: str) -> str:
    return "not known" if amount is None else f"{amount:,.0f} {unit}"


_HOUR = timedelta(hours=1)


@command(
    "carbon",
    "Estimated energy and CO2 of the nodes that ran, with the formula.",
    needs=Needs.METRICS,
    topic=Topic.PLANS,
    examples=("carbon 7d", "carbon 7d watts=500 cluster=llama"),
)
async def carbon(
    ports: Ports,
    request: Request,
    window: Window = arg("7d", "which days"),
    cluster: str = arg("", "only this cluster", keyword=True),
    watts: Decimal | None = arg("", "watts of one chip, if you know a better figure", keyword=True),
    kg_per_kwh: Decimal | None = arg("", "the grid's factor, if you know a better figure", keyword=True),
) -> Card:
    """Count node-hours by inventory, and multiply."""
    if any(x is not None and not 0 < x < 100_000 for x in (watts, kg_per_kwh)):
        raise WrongInput("watts and kg_per_kwh are more than 0, such as watts=500 kg_per_kwh=0.3.")
    return await asyncio.to_thread(_answer, ports, request, window, cluster, watts, kg_per_kwh)


def _answer(ports: Ports, request: Request, window: Window, cluster: str, watts: Decimal | None, kg: Decimal | None) -> Card:
    inventory, claims, types = (
        ports.world.source.read(request.at).inventory,
        ports.world.knowledge.claims(),
        ports.world.knowledge.types(),
    )
    hours: dict[tuple[str, str], float] = defaultdict(float)
    for instance in inventory.instances.values():
        start, end = max(instance.launched_at, window.start), min(instance.ended_at or request.at, window.end, request.at)
        if end > start and instance.labels.instance_type in types and cluster in ("", instance.labels.cluster):
            hours[instance.labels.instance_type, instance.labels.region] += (end - start) / _HOUR
    powers, grids = {x.accelerator: x for x in claims.powers}, {x.region: x for x in claims.grids}
    footprints = []
    for (name, region), count in sorted(hours.items()):
        kind, grid = types[name], grids.get(region)
        stated = powers[kind.accelerator].watts if kind.accelerator in powers else None
        each = float(watts) if watts is not None else stated
        factor = float(kg) if kg is not None else grid.kg_per_kwh if grid else None
        footprints.append(footprint(name, region, kind.chips, count, each, factor))
    used = [grids[x] for x in sorted({x.region for x in footprints} & set(grids))] if kg is None else []
    shown = [powers[x] for x in sorted({types[y.instance_type].accelerator for y in footprints} & set(powers))]
    return carbon_card(footprints, window, shown, used, claims.of("energy"), watts is not None)
