"""Give what formulas may name beside an answer's data: arguments of the line, dated facts, and what was noted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from bot.answers.line import Call
from bot.cards.card import Card
from bot.costs.tally import settled_until
from bot.costs.witness import Witness
from bot.model.spend import Money
from bot.model.window import Window
from bot.ports import Knowledge


def outside_of(call: Call, card: Card, knowledge: Knowledge, witness: Witness) -> Mapping[str, Any]:
    """Return the names that stand outside of the data."""
    claims = knowledge.claims()
    return {
        "arg": {name.rstrip("_"): value for name, value in call.arguments.items()},
        "types": knowledge.types(),
        "chips": {chip.name: chip for chip in claims.chips},
        "powers": {power.accelerator: power for power in claims.powers},
        "grids": {grid.region: grid for grid in claims.grids},
        "transfers": {transfer.route: transfer for transfer in claims.transfers},
        "settled_days": _settled_days(witness),
        "spot_steps": _spot_steps(witness, card.data.get("window")),
    }


def _settled_days(witness: Witness) -> list[Money]:
    """Return the bill's settled days, of the last question that asked for days alone."""
    daily = [tally for tally in witness.tallies.values() if tally.by == ("day",)]
    if not daily or daily[-1].billed_through is None:
        return []
    until = settled_until(daily[-1].billed_through).date()
    return [row.money for row in daily[-1].rows if date.fromisoformat(row.key["day"]) < until]


def _spot_steps(witness: Witness, window: Any) -> Mapping[str, list[Mapping[str, Decimal]]]:
    """Return by zone every spot price with the hours that it stood within the window, going back from its end."""
    if not isinstance(window, Mapping):
        return {}
    span = Window(window["start"], window["end"])
    steps: dict[str, list[Mapping[str, Decimal]]] = defaultdict(list)
    ends: dict[str, datetime] = {}
    for at, price in sorted(witness.spot, key=lambda change: change[0], reverse=True):
        end = ends.get(price.zone, span.end)
        begun = max(at, span.start)
        if begun < end:
            steps[price.zone].append(
                {"usd_per_hour": price.usd_per_hour, "hours": Decimal((end - begun) // timedelta(seconds=1)) / 3600}
            )
            ends[price.zone] = begun
    return steps
