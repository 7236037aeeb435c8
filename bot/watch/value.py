"""Put dollars on an alert: an hour, so far, and by month end; and escalate by cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cache

from bot.model.alert import Alert, Waste, WastedHours
from bot.model.anomaly import Anomaly, BilledExcess
from bot.model.fleet import Inventory
from bot.model.money import CENT, cents
from bot.model.policy import Policy
from bot.model.price import Basis, Price
from bot.model.window import month_of

PriceOf = Callable[[str, Inventory], Price | None]
"""Return the price of an hour of a thing.

An instance, a volume, a file system, what a reservation leaves unused.
"""
PriceOfThing = Callable[[str], Price | None]
_BILLIONTH = Decimal("0.000000001")
_UNSURE = {Basis.BILLED: Decimal("0.05"), Basis.LISTED: Decimal("0.10")}
"""How far the true price may lie from the quoted one, as a share.

Our own estimate, shown as a range on the card.
"""
_UNSURE_ELSE = Decimal("0.25")


def value(
    alert: Alert,
    before: Alert | None,
    price: PriceOfThing,
    now: datetime,
    onset: datetime | None = None,
) -> Alert:
    """Return the alert with its waste and its risk at `now`.

    `before` is the same alert as last saved, None when it just opened.

    Waste an hour = sum over things of price x wasted share. So far adds the hours since it was last
    seen, at the opening those since the onset, each by its own share; it stands still while the
    anomaly is not seen. Of a cause of the bill it is what the bill shows over the usual, and the
    newest rate for the hours that are not billed yet, where it goes on. Month end = so far + waste
    an hour x hours left in the UTC month, so far alone where it passes by itself; what was lost
    before it was told counts at once. Of an alert that fires again, what lies between its end and
    the new `onset` is not counted.
    """
    price = cache(price)
    alert = (
        replace(alert, at_risk_usd=_at_risk(alert.anomaly, price)) if alert.seen == now else alert
    )
    earlier = before.waste if before else None
    priced = _per_hour(alert.anomaly, price)
    if priced is None or alert.seen != now:
        return replace(
            alert, waste=_stopped(alert, earlier) if alert.closed and earlier else earlier
        )
    per_hour, weakest, unpriced = priced
    shares = alert.anomaly.shares_since
    lately = _per_hour(replace(alert.anomaly, wasted_shares=shares), price) if shares else None
    so_far, lost = _so_far(alert, before, (lately or priced)[0], onset), _lost(alert.anomaly, price)
    waste = _waste(alert.anomaly, per_hour, max(so_far, lost), weakest, now)
    hours = (
        _lost_hours(alert.anomaly, price)
        if lost > so_far
        else _wasted_hours(alert, before, price, onset)
    )
    return replace(alert, waste=replace(waste, unpriced=unpriced, hours=hours))


def _so_far(
    alert: Alert, before: Alert | None, per_hour: Decimal, onset: datetime | None
) -> Decimal:
    """Return what it has cost until it was seen.

    What the bill shows and an estimate since, or the hours at their price.
    """
    if billed := alert.anomaly.billed:
        return billed.usd + per_hour * _unbilled(billed, alert.seen)
    earlier = before.waste if before else None
    return (earlier.so_far if earlier else Decimal(0)) + per_hour * _hours(
        _since(alert, before, onset), alert.seen
    )


def _since(alert: Alert, before: Alert | None, onset: datetime | None) -> datetime:
    """Return from when on its waste is not counted yet."""
    since = before.seen if before and before.waste else alert.anomaly.window.start
    return max(since, onset) if before and before.closed and onset else since


_MOST_PRICES = 200
"""Prices by which the hours of an alert are kept; of more, none are."""


def _wasted_hours(
    alert: Alert, before: Alert | None, price: PriceOfThing, onset: datetime | None
) -> tuple[WastedHours, ...]:
    """Return the hours of `so_far` by price: those known, and those since.

    None where some of them were not kept.
    """
    anomaly, earlier = alert.anomaly, before.waste if before else None
    if anomaly.usd_per_hour is not None or (earlier and earlier.so_far and not earlier.hours):
        return ()
    length = _hours(_since(alert, before, onset), alert.seen)
    hours = {each.usd_per_hour: each.hours for each in (earlier.hours if earlier else ())}
    for usd, share in _shares(
        anomaly, anomaly.shares_since or anomaly.wasted_shares, price
    ).items():
        hours[usd] = hours.get(usd, Decimal(0)) + (share * length).quantize(_BILLIONTH)
    now = _shares(anomaly, anomaly.wasted_shares, price)
    kept = tuple(WastedHours(usd, each, now.get(usd, Decimal(0))) for usd, each in hours.items())
    return kept if len(kept) <= _MOST_PRICES else ()


def _lost_hours(anomaly: Anomaly, price: PriceOfThing) -> tuple[WastedHours, ...]:
    now = _shares(anomaly, anomaly.wasted_shares, price)
    lost = _shares(anomaly, anomaly.lost_hours, price)
    return tuple(
        WastedHours(usd, lost.get(usd, Decimal(0)), now.get(usd, Decimal(0)))
        for usd in {**now, **lost}
    )


def _shares(
    anomaly: Anomaly, shares: Sequence[float], price_of: PriceOfThing
) -> dict[Decimal, Decimal]:
    """Return the sum of the things' shares by their price."""
    sums: dict[Decimal, Decimal] = {}
    for thing, share in zip(anomaly.things, shares, strict=False):
        if price := price_of(thing):
            sums[price.usd_per_hour] = sums.get(price.usd_per_hour, Decimal(0)) + Decimal(
                str(round(share, 6))
            )
    return sums


def _unbilled(billed: BilledExcess, now: datetime) -> Decimal:
    """Return the hours of it that the bill does not show yet, up to its end where that is known."""
    return _hours(billed.through, billed.until or now)


def _stopped(alert: Alert, waste: Waste) -> Waste:
    """Return the final waste of an alert that ended: nothing more will be lost.

    A bill comes late: what was added since the last hour that it showed was an estimate, and the
    end has disproved it.
    """
    billed = alert.anomaly.billed
    so_far = billed.usd if billed else waste.so_far
    total = cents(so_far)
    return replace(waste, so_far=so_far, month_end=total, month_end_low=total, month_end_high=total)


def _waste(
    anomaly: Anomaly, per_hour: Decimal, so_far: Decimal, price: Price | None, now: datetime
) -> Waste:
    low, middle, high = _month_end(anomaly, per_hour, so_far, price, now)
    return Waste(
        per_hour=cents(per_hour),
        so_far=so_far.quantize(Decimal("0.000001"), ROUND_HALF_EVEN),
        month_end=cents(middle),
        month_end_low=cents(low),
        month_end_high=cents(high),
        basis=price.found_by if price else "the bill",
        priced_at=price.asof if price else None,
    )


def _month_end(
    anomaly: Anomaly, per_hour: Decimal, so_far: Decimal, price: Price | None, now: datetime
) -> tuple[Decimal, Decimal, Decimal]:
    """Return what it will have cost by the end of the UTC month if nothing changes.

    At least, about, and at most.

    An anomaly that passes by itself costs nothing more.
    """
    if anomaly.cause.facts.passes:
        return so_far, so_far, so_far
    left, billed = _hours(now, month_of(now).end), anomaly.billed
    if billed:
        left, unsure = _unbilled(billed, month_of(now).end), _UNSURE[Basis.BILLED]
        low, high = billed.low * (1 - unsure), billed.high * (1 + unsure)
        return billed.usd + low * left, billed.usd + per_hour * left, billed.usd + high * left
    low, high = (per_hour * factor for factor in _range(anomaly, price))
    return so_far + low * left, so_far + per_hour * left, so_far + high * left


def _per_hour(anomaly: Anomaly, price_of: PriceOfThing) -> tuple[Decimal, Price | None, int] | None:
    """Return USD an hour, the least sure price it rests on and how many things have none.

    None when nothing has a price.
    """
    if anomaly.usd_per_hour is not None:
        return anomaly.usd_per_hour, None, 0
    total, weakest, unpriced = Decimal(0), None, 0
    for thing, share in zip(anomaly.things, anomaly.wasted_shares, strict=False):
        price = price_of(thing)
        if price is None:
            unpriced += 1
            continue
        total += price.usd_per_hour * Decimal(str(round(share, 6)))
        weakest = price if weakest is None or _rank(price) > _rank(weakest) else weakest
    return (total, weakest, unpriced) if weakest else None


def _lost(anomaly: Anomaly, price_of: PriceOfThing) -> Decimal:
    """Return the USD of the hours that were lost before the alert opened."""
    priced = (
        (price_of(thing), hours)
        for thing, hours in zip(anomaly.things, anomaly.lost_hours, strict=False)
    )
    return sum(
        (price.usd_per_hour * Decimal(str(round(hours, 6))) for price, hours in priced if price),
        Decimal(0),
    )


def _at_risk(anomaly: Anomaly, price_of: PriceOfThing) -> Decimal | None:
    """Return the USD of the work that would be lost.

    None where there is none, or no price is known.
    """
    if anomaly.at_risk is None:
        return None
    hours = Decimal(str(round(anomaly.at_risk.hours, 6)))
    prices = [price for thing in anomaly.at_risk.things if (price := price_of(thing))]
    return (
        cents(sum((price.usd_per_hour for price in prices), Decimal(0)) * hours) if prices else None
    )


def _range(anomaly: Anomaly, price: Price | None) -> tuple[Decimal, Decimal]:
    """Return the factors of the low and high estimate.

    How unsure the price is, and how wide the usual is.
    """
    unsure = Decimal(0) if price is None else _UNSURE.get(price.basis, _UNSURE_ELSE)
    low, high = 1 - unsure, 1 + unsure
    if anomaly.usual and anomaly.wasted_shares and 0 < anomaly.value < anomaly.usual[0]:
        middle = 1 - 2 * anomaly.value / (anomaly.usual[0] + anomaly.usual[1])
        low *= Decimal(str((1 - anomaly.value / anomaly.usual[0]) / middle))
        high *= Decimal(str((1 - anomaly.value / anomaly.usual[1]) / middle))
    return low, high


def _rank(price: Price) -> int:
    return list(Basis).index(price.basis)


def _hours(start: datetime, end: datetime) -> Decimal:
    return max(Decimal(0), Decimal(str((end - start).total_seconds())) / 3600)


_CALM = Decimal("0.5")
"""Share of the limit under which what was costly is so no more.

What swings about the limit does not change its mind.
"""


def escalated(alert: Alert, policy: Policy) -> Alert:
    """Return the alert marked as costly when it wastes `alert.critical_usd_per_hour`.

    An ended one stays as it was.
    """
    if alert.closed or alert.waste is None:
        return alert
    limit = policy.at(alert.anomaly.labels).usd("alert.critical_usd_per_hour")
    least = limit * _CALM if alert.costly else limit
    return replace(alert, costly=alert.waste.per_hour >= max(least, CENT))
