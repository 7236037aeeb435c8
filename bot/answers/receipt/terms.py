"""Name the terms of formulas beside an answer's data.

Arguments of the line, dated facts, and noted answers of ports.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from bot.answers.receipt.alert_rows import AlertRows
from bot.answers.receipt.bill_rows import BillRows
from bot.answers.receipt.compile_rows import CompileRows
from bot.answers.receipt.forecast_rows import ForecastRows
from bot.answers.receipt.readings import Readings
from bot.answers.receipt.run_rows import RunRows
from bot.answers.receipt.split_rows import SplitRows
from bot.cards.card import Card
from bot.costs.tally import settled_until
from bot.costs.witness import Witness
from bot.grammar.line import Call
from bot.model.spend import Money
from bot.model.window import Window, month_of
from bot.ports import Ports


def outside_of(
    call: Call, card: Card, ports: Ports, witness: Witness, at: datetime
) -> Mapping[str, Any]:
    """Return the names that stand outside of the data."""
    knowledge = ports.world.knowledge
    claims, readings = knowledge.claims(), Readings(ports, at)
    return {
        **readings.names(),
        **RunRows(ports, readings, at).names(),
        **BillRows(ports, at).names(),
        **AlertRows(ports, witness).names(),
        **ForecastRows(ports, at).names(),
        **CompileRows(ports, readings, at).names(),
        **SplitRows(ports, readings, at).names(),
        "now": at,
        "stated": lambda: [
            Decimal(x.replace(",", "")) for x in re.findall(r"\$(\d[\d,]*(?:\.\d+)?)", repr(claims))
        ],
        "settings": lambda: [value for value in _settings(ports) if isinstance(value, Decimal)],
        "efforts": {effort.name: effort for effort in claims.efforts},
        "later": max,
        "earlier": min,
        "month_of": month_of,
        "month_named": lambda text: month_of(datetime.fromisoformat(f"{text}-01T00:00:00+00:00")),
        "written": written,
        "shares": lambda text: [x / 100 if x > 1 else x for x in written(text)],
        "words": lambda text: [word for word in re.split(r"[\s,]+", text) if word],
        "joined": lambda *texts: "".join(map(str, texts)),
        "arg": {name.rstrip("_"): value for name, value in call.arguments.items()},
        "types": knowledge.types(),
        "chips": {chip.name: chip for chip in claims.chips},
        "powers": {power.accelerator: power for power in claims.powers},
        "pues": {pue.provider: pue for pue in claims.pues},
        "grids": {grid.region: grid for grid in claims.grids},
        "transfers": {transfer.route: transfer for transfer in claims.transfers},
        "settled_days": _settled_days(witness),
        "spot_steps": _spot_steps(witness, card.data.get("window")),
    }


def _settings(ports: Ports) -> Iterator[object]:
    """Yield every value of the policy in force, overrides included."""
    yield from ports.policy.values.values()
    yield from (value for _, _, value in ports.policy.overrides)


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
                {
                    "usd_per_hour": price.usd_per_hour,
                    "hours": Decimal((end - begun) // timedelta(seconds=1)) / 3600,
                }
            )
            ends[price.zone] = begun
    return steps


_LETTERS = {"k": 3, "m": 6, "b": 9, "t": 12}


def written(text: str) -> list[Decimal]:
    """Return the numbers of typed words.

    `7B` is 7,000,000,000, `30-40%` is 0.30 and 0.40, and 35 as a share is 0.35.
    """
    found = re.findall(r"(-?[\d.]+)\s*([kmbt])?", text.lower())
    numbers_ = [Decimal(digits).scaleb(_LETTERS.get(letter, 0)) for digits, letter in found]
    return [number / 100 for number in numbers_] if "%" in text else numbers_
