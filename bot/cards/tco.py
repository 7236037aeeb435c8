"""Show two options line by line for the same work, and at which speed they break even."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from bot.advice.tco import Total, Work
from bot.cards.card import Align, Block, Button, Buttons, Card, Column, Table, Tone, quiet, text
from bot.cards.money import usd
from bot.model.claims import SpeedUp, Transfer

_LINES = ("instances", "egress", "compiling", "engineering")


def tco_card(
    work: Work, options: Sequence[Total], voices: Sequence[SpeedUp], route: Transfer, today: date, stale_days: float
) -> Card:
    """Draw the first type, and the second at each speed that somebody states."""
    base, moved = options[0], options[1:]
    columns = (Column("USD"), Column(base.price.instance_type, Align.RIGHT), *(Column(_name(x), Align.RIGHT) for x in moved))
    rows = [(line, *(usd(getattr(x, line)) for x in options)) for line in _LINES]
    rows.append(("node $/h", *(usd(x.price.usd_per_hour) for x in options)))
    rows.append(("node-hours", *(f"{x.hours:,.0f}" for x in options)))
    table = Table(columns, tuple(rows), ("total", *(usd(x.total) for x in options)), f"{work.months} months of the same work")
    blocks: list[Block] = [text(_verdict(base, moved)), table]
    blocks += [quiet(_source(x, today, stale_days)) for x in dict.fromkeys(x.price for x in options)]
    blocks += [quiet(f"Speed {x.factor:.2f}x, {x.kind}: {x.says} ({x.source}, {x.asof}).") for x in voices]
    blocks.append(
        quiet(
            f"An estimate. Egress {usd(route.usd_per_gb, 2)} a GB ({route.source}, {route.asof}). Storage is the same for both."
        )
    )
    blocks.append(Buttons((Button("Does porting pay?", "breakeven"), Button("Ten questions", "decide"))))
    low, high = min(x.total for x in moved), max(x.total for x in moved)
    span = usd(low) if low == high else f"{usd(low)} to {usd(high)}"
    title = f"{work.months} months: {base.price.instance_type} {usd(base.total)}, {moved[0].price.instance_type} {span}"
    return Card(title, Tone.INFO, tuple(blocks), {"options": [_data(x) for x in options], "months": work.months})


def _name(option: Total) -> str:
    return f"{option.price.instance_type.partition('.')[0]} at {option.speed:.2f}x"


def _verdict(base: Total, moved: Sequence[Total]) -> str:
    cheaper = [x for x in moved if x.total < base.total]
    if len(cheaper) == len(moved):
        return f"{moved[0].price.instance_type} costs less for the same work at every speed that is stated."
    if not cheaper:
        return f"{base.price.instance_type} costs less for the same work at every speed that is stated."
    return "It depends on the speed that your model gets: measure a short run on both."


def _source(price: Any, today: date, stale_days: float) -> str:
    age = (today - price.asof).days
    stale = f" {age} days old: look it up again." if age > stale_days else ""
    return f"{price.instance_type}: {price}, {price.region}.{stale}"


def _data(option: Total) -> dict[str, Any]:
    lines: dict[str, Decimal] = {f"{line}_usd": getattr(option, line) for line in _LINES}
    price = option.price
    named = {"instance_type": price.instance_type, "speed": option.speed, "usd_per_hour": price.usd_per_hour, "asof": price.asof}
    return (
        named
        | {"market": price.market.value, "region": price.region, "node_hours": option.hours}
        | lines
        | {"total_usd": option.total}
    )
