"""Price the nodes that ran day by day, so that a forecast knows of the days that no bill tells of yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np

from bot.costs.nowcast import Nowcast, forecast_month
from bot.costs.pricing import Pricing
from bot.model.fleet import Instance, Market
from bot.model.frame import Mask
from bot.model.labels import Labels
from bot.model.price import Price
from bot.model.reading import Reading
from bot.model.window import Window
from bot.ports import Ports

_DAY = timedelta(days=1)


def running_cost(
    reading: Reading, price_of: Callable[[Instance], Price | None], back: timedelta
) -> dict[date, Decimal]:
    """Return USD of the nodes that ran on each whole day of the last `back` which metrics tell of.

    Nodes that a commitment pays, or whose kind is held by a reservation, are left out: that goes on
    when they leave. Empty where no metrics tell of nodes, as one that ended is then forgotten.
    """
    frame = reading.frame("node")
    if frame is None or not frame.n_steps:
        return {}
    midnight = reading.now.replace(hour=0, minute=0, second=0, microsecond=0)
    # The frame's first day is cut off.
    first = max(midnight - back, frame.start.astimezone(UTC) + _DAY).replace(
        hour=0, minute=0, second=0, microsecond=0
    )
    costs: defaultdict[date, Decimal] = defaultdict(Decimal)
    for day in Window(min(first, midnight), midnight).days():
        costs[day.start.date()] = Decimal(0)
    held = {_kind(reservation.labels) for reservation in reading.inventory.reservations}
    for instance, span in _spans(reading):
        start, end = max(first, span.start), min(midnight, span.end)
        price = price_of(instance) if start < end and _kind(instance.labels) not in held else None
        if price and price.market not in _PREPAID:
            for day in Window(start, end).days():
                costs[day.start.date()] += price.usd_per_hour * Decimal(str(round(day.hours, 6)))
    return dict(costs)


_BACK = timedelta(days=7)
"""How many days back nodes are priced: a bill settles within them."""


def running_of(ports: Ports, reading: Reading) -> dict[date, Decimal]:
    """Return the cost of the nodes that ran in the last days, at the price of each; may block."""
    return running_cost(reading, Pricing(ports).at(reading.now).instance, _BACK)


def forecast_of(ports: Ports, now: datetime, reading: Reading | None) -> Nowcast | None:
    """Forecast the month of `now` from its bill, and from the nodes that ran where a reading tells of them; may block."""
    return forecast_month(
        ports.world.billing, now, running=running_of(ports, reading) if reading else None
    )


_PREPAID = {Market.SAVINGS_PLAN, Market.RESERVED, Market.CAPACITY_BLOCK}


def _kind(labels: Labels) -> tuple[str, str]:
    return labels.instance_type, labels.region


def _spans(reading: Reading) -> Iterator[tuple[Instance, Window]]:
    """Yield each node with the time it ran: as described, else from its first metric to its last."""
    described = reading.inventory.instances
    for instance in described.values():
        if instance.running or instance.ended_at:
            until = instance.ended_at or reading.now
            yield instance, Window(min(instance.launched_at, until), until)
    frame = reading.frame("node")
    assert frame
    seen: Mask = np.any(~np.isnan(frame.values), axis=2)
    for row, labels in enumerate(frame.things):
        steps = np.flatnonzero(seen[row])
        if len(steps) and labels.instance not in described:
            span = Window(
                frame.start + int(steps[0]) * frame.step,
                frame.start + (int(steps[-1]) + 1) * frame.step,
            )
            yield Instance(labels, span.start, "terminated", ended_at=span.end), span
