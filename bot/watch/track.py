"""Open, keep, price and end alerts: anomalies come and go, an alert is one stay, remembered at its peak."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cache

from bot.model.alert import Alert, Peak, Waste, WastedHours
from bot.model.anomaly import Anomaly, BilledExcess, Detection, NodeState
from bot.model.causes import Cause
from bot.model.fleet import Inventory
from bot.model.money import CENT, cents
from bot.model.policy import Policy
from bot.model.price import Basis, Price
from bot.model.reading import Reading
from bot.model.window import Window, month_of
from bot.watch.route import claims_of, launcher_of


def track(
    open_alerts: Sequence[Alert],
    detection: Detection,
    reading: Reading,
    resolve_after: timedelta,
    ended: Sequence[Alert] = (),
) -> list[Alert]:
    """Return every alert that is open or ends at `reading.now`, oldest first.

    An alert ends when its anomaly was not seen for `resolve_after` although its things could be
    seen: a source that failed or a node that fell silent is no recovery. Of the `ended`, one whose
    anomaly is seen again is the same alert again.
    """
    anomalies = {anomaly.key: anomaly for anomaly in detection.anomalies}
    kept = [
        _follow(alert, anomalies.pop(alert.key, None), detection, reading, resolve_after)
        for alert in open_alerts
    ]
    before = {alert.key: alert for alert in sorted(ended, key=lambda alert: alert.opened)}
    again = [
        _seen_again(before[key], anomaly, reading)
        for key, anomaly in anomalies.items()
        if key in before
    ]
    return (
        kept
        + again
        + [_open(anomaly, reading) for key, anomaly in anomalies.items() if key not in before]
    )


def recent(alerts: Iterable[Alert], now: datetime, reopen_within: timedelta) -> list[Alert]:
    """Return the alerts that ended less than `reopen_within` ago, or than their rule's cause may take to return."""
    return [
        alert
        for alert in alerts
        if alert.closed and now - alert.closed < max(reopen_within, _returns(alert))
    ]


def _returns(alert: Alert) -> timedelta:
    return alert.cause.facts.returns if alert.anomaly.rule == alert.cause.value else timedelta(0)


def alert_id(key: str, opened: datetime) -> str:
    """Return the id of one opening.

    The same for the same key and time, so that a repeated tick repeats nothing.
    """
    return "a" + hashlib.sha256(f"{key}|{opened.isoformat()}".encode()).hexdigest()[:9]


def _open(anomaly: Anomaly, reading: Reading) -> Alert:
    now = reading.now
    return Alert(
        id=alert_id(anomaly.key, now),
        anomaly=anomaly,
        opened=now,
        seen=now,
        claims=claims_of(anomaly, reading),
        things_at_peak=len(anomaly.things),
        launched_by=launcher_of(anomaly.things, reading),
    )


def _seen_again(alert: Alert, anomaly: Anomaly, reading: Reading) -> Alert:
    newest = replace(
        anomaly,
        window=Window(min(alert.anomaly.window.start, anomaly.window.start), anomaly.window.end),
    )
    most = max(alert.things_at_peak, len(anomaly.things))
    by = alert.launched_by or launcher_of(anomaly.things, reading)
    claims = alert.claims if by == alert.launched_by else claims_of(anomaly, reading)
    seen = replace(alert, anomaly=newest, seen=reading.now, closed=None, things_at_peak=most)
    return replace(seen, launched_by=by, claims=claims)


def _follow(
    alert: Alert, anomaly: Anomaly | None, detection: Detection, reading: Reading, quiet: timedelta
) -> Alert:
    if anomaly is not None:
        return _seen_again(alert, anomaly, reading)
    if reading.now - alert.seen < quiet or _unseen(alert, detection.states, reading):
        return alert
    return replace(alert, closed=reading.now)


def _unseen(alert: Alert, states: Mapping[str, NodeState], reading: Reading) -> bool:
    """Tell whether the end could not be seen.

    Its part of the source failed, the bill is away, or half of what runs is silent.

    Where fewer are, the others show that it is over: one node that never comes back must not keep
    it open.
    """
    if reading.hidden(alert.anomaly.labels) or (
        alert.anomaly.kind.startswith("spend") and "spend" not in reading.frames
    ):
        return True
    known = [states[thing] for thing in alert.anomaly.things if thing in states]
    silent = known.count(NodeState.NO_DATA)
    return alert.cause is not Cause.NO_DATA and 0 < silent >= len(known) - silent


_NEAR = Decimal("0.8")
"""Share of the most things and of the dearest hour from which a sight still shows the incident, and no recovery."""


_BETTER = Decimal("0.6")
"""The same of the dearest hour for a sight that names another cause.

What came with the onset may be dear, and hide it.
"""


def at_peak(alert: Alert, now: datetime) -> Alert:
    """Return the alert with its peak as of `now`; one that has ended is described by its peak.

    The newest sight near the most things and the dearest hour counts: the longer an incident lasts,
    the surer is its verdict.
    """
    if alert.closed:
        return _ended(alert)
    return replace(alert, peak=_newest(alert)) if alert.seen == now else alert


def _newest(alert: Alert) -> Peak:
    per_hour = alert.usd_per_hour
    most = max(per_hour, alert.peak.most_usd_per_hour) if alert.peak else per_hour
    seen_better = alert.peak is not None and alert.cause is not alert.peak.anomaly.cause
    enough = _BETTER if seen_better else _NEAR
    near = per_hour >= enough * most and len(alert.anomaly.things) >= _NEAR * alert.things_at_peak
    if alert.peak is None or near:
        return Peak(alert.anomaly, per_hour, most)
    return replace(alert.peak, most_usd_per_hour=most)


def _ended(alert: Alert) -> Alert:
    if alert.peak is None:
        return alert
    newest = alert.anomaly
    anomaly = replace(
        alert.peak.anomaly, window=newest.window, billed=newest.billed, at_risk=newest.at_risk
    )
    ended = replace(alert, anomaly=anomaly)
    return (
        replace(ended, waste=replace(alert.waste, per_hour=alert.peak.usd_per_hour))
        if alert.waste
        else ended
    )


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
