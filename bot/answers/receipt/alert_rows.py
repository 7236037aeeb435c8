"""Take the dollars of alerts apart.

The hours that the watch kept by price, prices looked up anew, and rows of the bill.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from statistics import median
from typing import Any

import numpy as np

from bot.costs.formulas import UnknownTerm
from bot.costs.pricing import Pricing
from bot.costs.witness import Witness
from bot.model.alert import Alert, WastedHours
from bot.model.reading import SPEND_METRIC
from bot.model.receipt import exact
from bot.model.window import month_of
from bot.ports import Ports
from bot.watch.feedback import saved_within

_LOOKBACK, _DAYS = timedelta(days=14), 35
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


class AlertRows:
    """Name the rows of the alerts that an answer asked for."""

    def __init__(self, ports: Ports, witness: Witness) -> None:
        self._ports, self._witness = ports, witness

    def names(self) -> Mapping[str, Any]:
        """Return the terms by name."""
        return {
            "alert": self.alert,
            "known_alerts": list(self._witness.alerts.values()),
            "wasted": self.wasted,
            "wasting": self.wasting,
            "left": self.left,
            "at_risk": self.at_risk,
            "excess": self.excess,
            "stopped": self.stopped,
        }

    def alert(self, name: str) -> Alert:
        """Return the stored row of an alert."""
        if name not in self._witness.alerts:
            raise UnknownTerm(name)
        return self._witness.alerts[name]

    def wasted(self, name: str) -> Sequence[WastedHours]:
        """Return the hours that an alert's things wasted, by price, as the watch added them up."""
        alert = self.alert(name)
        if not alert.waste or (alert.waste.so_far and not alert.waste.hours):
            raise UnknownTerm(name)
        return alert.waste.hours

    def wasting(self, name: str) -> list[Mapping[str, Decimal]]:
        """Return the share of an hour that each thing of an alert wasted when it was seen last, and its price, looked up anew."""
        alert = self.alert(name)
        if alert.anomaly.usd_per_hour is not None:
            raise UnknownTerm(name)
        pairs = zip(alert.anomaly.things, alert.anomaly.wasted_shares, strict=False)
        return [
            {"share": exact(round(share, 6)), "usd_per_hour": usd}
            for thing, share in pairs
            for usd in self._prices(alert, thing)
        ]

    def at_risk(self, name: str) -> Mapping[str, Any]:
        """Return the hours of work that would be lost, and the prices of the nodes that do it."""
        alert = self.alert(name)
        if alert.anomaly.at_risk is None:
            raise UnknownTerm(name)
        prices = [
            usd for thing in alert.anomaly.at_risk.things for usd in self._prices(alert, thing)
        ]
        return {"hours": exact(round(alert.anomaly.at_risk.hours, 6)), "usd_per_hour": prices}

    def left(self, name: str) -> Decimal:
        """Return the hours of the UTC month that are left since an alert was seen.

        None once it has ended or where it passes.
        """
        alert = self.alert(name)
        return (
            Decimal(0)
            if alert.closed or alert.cause.facts.passes
            else _hours(alert.seen, month_of(alert.seen).end)
        )

    def excess(self, name: str) -> Mapping[str, Any]:
        """Return an alert's excess over the usual by the bill.

        Each step less the median of that step on like days before.
        """
        alert = self.alert(name)
        billed, begun = alert.anomaly.billed, alert.anomaly.window.start
        frame = (
            self._ports.world.billing.deltas(alert.seen, _DAYS).frame(alert.anomaly.kind)
            if billed
            else None
        )
        if billed is None or frame is None:
            raise UnknownTerm(name)
        mine = [
            row for row, thing in enumerate(frame.things) if alert.anomaly.labels.selects(thing)
        ]
        values = np.nan_to_num(frame.of(SPEND_METRIC)[mine].astype(float)).sum(axis=0).tolist()
        steps = {frame.start + n * frame.step: exact(value) for n, value in enumerate(values)}
        over = [
            usd - _usual(steps, at, begun)
            for at, usd in steps.items()
            if begun <= at < billed.through
        ]
        newest = over[-int(_DAY / frame.step) :]
        ended, month = billed.until or alert.closed, month_of(alert.seen).end
        return {
            "usd": max(Decimal(0), sum(over, Decimal(0))),
            "newest": newest,
            "steps_an_hour": exact(_HOUR / frame.step),
            "unbilled": Decimal(0) if alert.closed else _hours(billed.through, ended or alert.seen),
            "to_come": Decimal(0) if alert.closed else _hours(billed.through, ended or month),
        }

    def stopped(self, window: Any, now: datetime) -> list[Mapping[str, Any]]:
        """Return the alerts that ended within a time after somebody acted, with the hours since, within the month."""
        running = self._ports.world.source.read(now).inventory.running
        every = [
            x.alert for x in saved_within(list(self._witness.alerts.values()), window, running, now)
        ]
        ends = [(x, x.closed) for x in every if x.closed]
        return [
            {"alert": x, "hours": _hours(closed, min(now, month_of(closed).end))}
            for x, closed in ends
        ]

    def _prices(self, alert: Alert, thing: str) -> list[Decimal]:
        """Return the price of an hour of a thing on the day when the alert was seen last.

        Nothing where there is none.
        """
        price = Pricing(self._ports).at(alert.seen)(
            thing, self._ports.world.source.read(alert.seen).inventory
        )
        return [price.usd_per_hour] if price else []


def _usual(steps: Mapping[datetime, Decimal], at: datetime, begun: datetime) -> Decimal:
    """Return the median of a step on the days before that are alike: working days, or weekends.

    On all where few are.
    """
    days = [
        before
        for n in range(1, _DAYS)
        if begun - _LOOKBACK <= (before := at - n * _DAY) < begun and before in steps
    ]
    alike = [before for before in days if (before.weekday() >= 5) is (at.weekday() >= 5)]
    return (
        Decimal(median(steps[before] for before in (alike if len(alike) > 1 else days)))
        if days
        else Decimal(0)
    )


def _hours(start: datetime, end: datetime) -> Decimal:
    return max(Decimal(0), Decimal(str((end - start).total_seconds())) / 3600)
