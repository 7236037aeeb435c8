"""Show energy and emissions as what they are: an estimate by a formula."""

from __future__ import annotations

from collections.abc import Sequence

from bot.advice.carbon import PUE, Footprint
from bot.cards.card import Align, Block, Card, Column, Table, Tone, quiet, text
from bot.cards.notes import note_lines
from bot.cards.words import period
from bot.model.claims import Grid, Note, Power
from bot.model.window import Window

_R = Align.RIGHT


def carbon_card(
    found: Sequence[Footprint],
    window: Window,
    powers: Sequence[Power],
    grids: Sequence[Grid],
    notes: Sequence[Note],
    assumed: bool,
) -> Card:
    """Draw a row for each type and region; what no vendor states stays unknown."""
    rows = tuple(
        (x.instance_type, x.region, f"{x.node_hours:,.0f}", _or(x.watts, "W"), _or(x.kwh, "kWh"), _or(x.kg, "kg")) for x in found
    )
    columns = (
        Column("type"),
        Column("region"),
        Column("node-hours", _R),
        Column("a chip", _R),
        Column("energy", _R),
        Column("CO2e", _R),
    )
    known = [x.kg for x in found if x.kg is not None]
    unknown = [x.instance_type for x in found if x.watts is None]
    blocks: list[Block] = [Table(columns, rows)]
    if unknown:
        names = ", ".join(dict.fromkeys(unknown))
        blocks.append(text(f"No vendor states the watts of {names}: give what you measured or assume, such as carbon watts=500."))
    blocks.append(quiet(f"An estimate: node-hours x chips x watts x PUE {PUE} / 1000 x kg a kWh; full load, hosts left out."))
    blocks += [quiet(f"{x.accelerator}: {x.watts:.0f} W ({x.source}, {x.asof}).") for x in powers if not assumed]
    blocks += [quiet(f"{x.region}: {x.kg_per_kwh} kg a kWh ({x.source}, {x.asof}).") for x in grids]
    blocks += note_lines(notes, "What vendors claim; types are compared by cited watts alone")
    total = f"about {sum(known):,.0f} kg CO2e" if known else "not known"
    data = {
        "window": {"start": window.start, "end": window.end},
        "estimate": True,
        "rows": [vars(x) for x in found],
    }
    return Card(f"Footprint of {period(window)}: {total}, an estimate", Tone.INFO, tuple(blocks), data)


def _or(amount: float | None, unit: str) -> str:
    return "not known" if amount is None else f"{amount:,.0f} {unit}"
