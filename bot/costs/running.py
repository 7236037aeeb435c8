"""Tell what the nodes that ran cost by the hour, which is known before the bill."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import ceil

import numpy as np

from bot.costs.pricing import Pricing, listed_price
from bot.costs.recurring import Daily
from bot.model.fleet import Instance, Market, Reservation
from bot.model.frame import Doubles, Frame, Mask
from bot.model.labels import Labels
from bot.model.money import cents
from bot.model.price import Price
from bot.model.reading import Reading
from bot.model.spend import ZERO, Filter
from bot.model.window import DAY, HOUR, Window, midnight
from bot.ports import Ports

Line = tuple[str, ...]
"""What a line of a bill is told apart by; of nodes how and as what they are billed, and the cluster."""
_NEAR = 0.1
"""By how much what nodes cost may differ from their line over its newest hours."""


@dataclass(frozen=True)
class Running:
    """Hold the cost of the nodes that ran by kind: how they are billed, and the cluster.

    `hours` are USD of each hour since the midnight `start`, the last one up to `now`.
    """

    start: datetime
    now: datetime
    hours: Mapping[Line, Doubles]

    def since(
        self, whole: datetime, through: datetime, lines: Mapping[Line, Daily]
    ) -> dict[Line, Doubles]:
        """Return USD of each day from `whole` until today, of the kinds that a bill confirms.

        Their line costs what they do in its hours after `whole`, up to `through`, or on the day
        before: of nodes that ended before these hours, not all are known.
        """
        newest = [Window(whole, min(through, whole + DAY))] if through > whole else []
        newest.append(Window(whole - DAY, whole))
        confirmed: dict[Line, Doubles] = {}
        for kind, usd in self.hours.items():
            for window in newest:
                if window.start < self.start or kind in confirmed:
                    continue
                first, last = (round((at - self.start) / HOUR) for at in (window.start, window.end))
                cost = float(usd[first:last].sum())
                billed = float(lines.get(kind, {}).get(window.start.date(), ZERO))
                if abs(billed - cost) <= _NEAR * max(billed, cost):
                    scale = billed / cost if cost else 1.0
                    confirmed[kind] = scale * self._days(usd)[(whole - self.start).days :]
        return confirmed

    def _days(self, usd: Doubles) -> Doubles:
        """Return USD of each day until today.

        What is left of today costs what the nodes of now do, by the usual course of a day.
        """
        past = usd[: len(usd) // 24 * 24].reshape(-1, 24)
        today = usd[past.size :]
        if not len(today):
            return np.asarray(past.sum(axis=1))
        course = np.median(past, axis=0) if len(past) else np.ones(24)
        if course[len(today) - 1] <= 0:
            course = np.ones(24)

        part = (self.now - self.start) / HOUR - (len(usd) - 1)
        rate = usd[-2:].sum() / (1 + part)
        left = 1 - part + course[len(today) :].sum() / course[len(today) - 1]
        return np.append(past.sum(axis=1), today.sum() + rate * left)


def running_cost(
    reading: Reading, price_of: Callable[[Instance], Price | None], back: timedelta
) -> Running | None:
    """Return the cost of nodes in each hour that metrics tell of, of the last `back` and today.

    Nodes that a commitment pays, or whose kind is held by a reservation, are left out: that goes on
    when they leave. None where no metrics tell of nodes, as one that ended is then forgotten.
    """
    frame = reading.frame("node")
    if frame is None or not frame.n_steps:
        return None
    today = midnight(reading.now)
    # The frame's first day is cut off.
    start = min(midnight(max(today - back, frame.start + DAY)), today)
    begins = np.arange(ceil((reading.now - start) / HOUR))
    hours: dict[Line, Doubles] = {}
    reserved = {_kind(reservation.labels) for reservation in reading.inventory.reservations}
    for instance, span in _spans(reading, frame):
        if _kind(instance.labels) in reserved:
            continue
        price = price_of(instance)
        if price and price.market not in _PREPAID:
            # As a forecast names the lines of a bill that a node's hours stand in.
            usage = "Spot" if instance.market is Market.SPOT else "Box"
            line = f"{usage}Usage:{instance.labels.instance_type}", instance.labels.cluster
            first, last = ((at - start) / HOUR for at in (span.start, span.end))
            ran = np.clip(np.minimum(begins + 1, last) - np.maximum(begins, first), 0, None)
            hours[line] = hours.get(line, 0) + ran * float(price.usd_per_hour)
    return Running(start, reading.now, hours)


@dataclass(frozen=True)
class Booking:
    """State capacity that AWS has promised, and the price of an hour of each of its nodes."""

    reservation: Reservation
    price: Price
    usd: Decimal = ZERO
    """What it adds to the month that is forecast."""

    @property
    def is_block(self) -> bool:
        """Return whether it is a Capacity Block, which is paid for with one fee."""
        return self.reservation.market is Market.CAPACITY_BLOCK

    def charged_at(self, settled: datetime) -> datetime:
        """Return when the fee of a block is charged, by a bill that has settled without it.

        AWS charges it within hours of the purchase (EC2 User Guide, Capacity Blocks pricing and
        billing, 2026-11). A bill that does not have it there dates it to the start of the block.
        """
        bought = self.reservation.bought_at
        return bought if bought and bought >= settled else self.reservation.starts_at

    def cost(self, window: Window) -> Decimal:
        """Return what its hours in a window cost."""
        reservation = self.reservation
        lasts = Window(
            reservation.starts_at, max(reservation.starts_at, reservation.ends_at or window.end)
        )
        hours = Decimal(str(lasts.within(window).hours))
        return cents(reservation.total * hours * self.price.usd_per_hour)

    def paid(self, month: Window, settled: datetime) -> Decimal:
        """Return what is paid for it in a month."""
        start, end = self.reservation.starts_at, self.reservation.ends_at
        if not (self.is_block and end):
            return self.cost(month)
        is_due = month.start <= self.charged_at(settled) < month.end
        return self.cost(Window(start, end)) if is_due else ZERO


@dataclass(frozen=True)
class Fleet:
    """Hold the facts of a fleet beside its bill: the nodes that ran, and commitments."""

    running: Running | None = None
    blocks: Sequence[Reservation] = ()
    bookings: Sequence[Booking] = ()
    """Blocks that are not over, and reservations that begin later."""
    lapsing: Daily = field(default_factory=dict)
    """USD a day that its nodes cost more from the day on which what covers them ends."""


_BACK = timedelta(days=7)
"""How many days back nodes are priced: a bill settles within them."""


def fleet_of(ports: Ports, reading: Reading | None, where: Sequence[Filter] = ()) -> Fleet | None:
    """Return the nodes that ran in the last days, at the price of each, and blocks; may block.

    Nodes tell of the whole bill alone, not of a part of it.
    """
    if reading is None:
        return None
    inventory, pricing = reading.inventory, Pricing(ports).at(reading.now)
    promised = [
        reservation
        for reservation in (*inventory.blocks, *inventory.scheduled)
        if all(condition.keeps(_key(reservation)) for condition in where)
    ]
    blocks = [
        reservation for reservation in promised if reservation.market is Market.CAPACITY_BLOCK
    ]
    bookings = [
        Booking(reservation, price)
        for reservation in promised
        if reservation.ends_at is None or reservation.ends_at > reading.now
        for quotes in [pricing.quotes(reservation.labels.instance_type, reservation.labels.region)]
        if (price := listed_price(quotes, _bought_as(reservation), reservation.labels.region))
    ]
    if where:
        return Fleet(blocks=blocks, bookings=bookings)
    running = running_cost(reading, pricing.instance, _BACK)
    return Fleet(running, blocks, bookings, lapsing_of(pricing))


def _bought_as(reservation: Reservation) -> Market:
    """Return how the hours of a reservation are billed that no commitment covers."""
    return reservation.market if reservation.market is Market.CAPACITY_BLOCK else Market.ON_DEMAND


def _key(reservation: Reservation) -> dict[str, str]:
    """Return what the rows of a reservation on a bill are told apart by."""
    return {"service": "AmazonEC2", "purchase": _bought_as(reservation), **dict(reservation.labels)}


def lapsing_of(pricing: Pricing) -> dict[date, Decimal]:
    """Return USD a day that nodes cost more from the day on which what covers them ends.

    Their hours of the last week, at the price on demand less the one that they have.
    """
    lapsing: defaultdict[date, Decimal] = defaultdict(Decimal)
    for rate in pricing.rates.by_type:
        if rate.lapses is None or rate.market not in _COVERED:
            continue
        quotes = pricing.quotes(rate.instance_type, rate.region)
        if plain := listed_price(quotes, Market.ON_DEMAND, rate.region):
            hours = Decimal(str(rate.hours)) / _BACK.days
            lapsing[rate.lapses] += hours * (plain.usd_per_hour - rate.usd_per_hour)
    return dict(lapsing)


_COVERED = {Market.SAVINGS_PLAN, Market.RESERVED}
_PREPAID = {*_COVERED, Market.CAPACITY_BLOCK}


def _kind(labels: Labels) -> tuple[str, str]:
    return labels.instance_type, labels.region


def _spans(reading: Reading, frame: Frame) -> Iterator[tuple[Instance, Window]]:
    """Yield each node with the time it ran: as described, else from first metric to last."""
    described = reading.inventory.instances
    for instance in described.values():
        if instance.running or instance.ended_at:
            until = instance.ended_at or reading.now
            yield instance, Window(min(instance.launched_at, until), until)
    measured: Mask = np.any(~np.isnan(frame.values), axis=2)
    for row, labels in enumerate(frame.things):
        steps = np.flatnonzero(measured[row])
        if len(steps) and labels.instance not in described:
            begin = frame.start + int(steps[0]) * frame.step
            end = frame.start + (int(steps[-1]) + 1) * frame.step
            yield Instance(labels, begin, "terminated", ended_at=end), Window(begin, end)
