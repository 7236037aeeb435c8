"""Name the terms of formulas beside an answer's data: arguments of the line, dated facts, and noted answers of ports."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from bot.answers.line import Call
from bot.cards.card import Card
from bot.answers.receipt.bill_rows import BillRows
from bot.answers.receipt.compile_rows import CompileRows
from bot.answers.receipt.forecast_rows import ForecastRows
from bot.answers.receipt.readings import Readings
from bot.answers.receipt.run_rows import RunRows
from bot.costs.formulas import UnknownTerm
from bot.costs.pricing import Pricing
from bot.costs.tally import settled_until
from bot.costs.witness import Witness
from bot.model.alert import Alert
from bot.model.money import cents
from bot.model.receipt import exact
from bot.model.spend import Money
from bot.model.window import Window, month_of
from bot.ports import Ports


def outside_of(call: Call, card: Card, ports: Ports, witness: Witness, at: datetime) -> Mapping[str, Any]:
    """Return the names that stand outside of the data."""
    knowledge = ports.world.knowledge
    claims, waste = knowledge.claims(), _Waste(ports, witness)
    readings = Readings(ports, at)
    return {
        **readings.names(),
        **RunRows(ports, readings, at).names(),
        **BillRows(ports, at).names(),
        **ForecastRows(ports, at).names(),
        **CompileRows(ports, readings, at).names(),
        "now": at,
        "efforts": {effort.name: effort for effort in claims.efforts},
        "later": max,
        "month_named": lambda text: month_of(datetime.fromisoformat(f"{text}-01T00:00:00+00:00")),
        "written": written,
        "shares": lambda text: [x / 100 if x > 1 else x for x in written(text)],
        "words": lambda text: [word for word in re.split(r"[\s,]+", text) if word],
        "joined": lambda *texts: "".join(map(str, texts)),
        "wasted": waste.per_hour,
        "wasted_by_month_end": waste.month_end,
        "arg": {name.rstrip("_"): value for name, value in call.arguments.items()},
        "types": knowledge.types(),
        "chips": {chip.name: chip for chip in claims.chips},
        "powers": {power.accelerator: power for power in claims.powers},
        "pues": {pue.provider: pue for pue in claims.pues},
        "grids": {grid.region: grid for grid in claims.grids},
        "transfers": {transfer.route: transfer for transfer in claims.transfers},
        "known_alerts": list(witness.alerts.values()),
        "settled_days": _settled_days(witness),
        "spot_steps": _spot_steps(witness, card.data.get("window")),
    }


@dataclass(frozen=True)
class _Waste:
    """Multiply out the waste of an alert that fires: its things' prices, looked up anew, by their wasted shares."""

    ports: Ports
    witness: Witness

    def per_hour(self, name: str) -> Decimal:
        """Return the waste an hour to the cent."""
        return cents(self._exact(self._firing(name)))

    def month_end(self, name: str) -> Decimal:
        """Return so far + waste an hour x the hours left in its UTC month."""
        alert = self._firing(name)
        assert alert.waste
        left = month_of(alert.seen).end - alert.seen
        return cents(alert.waste.so_far + self._exact(alert) * exact(left.total_seconds()) / 3600)

    def _firing(self, name: str) -> Alert:
        alert = self.witness.alerts.get(name)
        if alert is None or not alert.firing or not alert.waste or alert.anomaly.usd_per_hour is not None:
            raise UnknownTerm(name)
        return alert

    def _exact(self, alert: Alert) -> Decimal:
        inventory = self.ports.world.source.read(alert.seen).inventory
        pricing = Pricing(self.ports).at(alert.seen)
        shares = zip(alert.anomaly.things, alert.anomaly.wasted_shares, strict=False)
        priced = ((pricing(thing, inventory), exact(round(share, 6))) for thing, share in shares)
        return sum((price.usd_per_hour * share for price, share in priced if price), Decimal(0))


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


_LETTERS = {"k": 3, "m": 6, "b": 9, "t": 12}


def written(text: str) -> list[Decimal]:
    """Return the numbers of typed words: `7B` is 7,000,000,000, `30-40%` is 0.30 and 0.40, and 35 as a share is 0.35."""
    found = re.findall(r"(-?[\d.]+)\s*([kmbt])?", text.lower())
    numbers_ = [Decimal(digits).scaleb(_LETTERS.get(letter, 0)) for digits, letter in found]
    return [number / 100 for number in numbers_] if "%" in text else numbers_
