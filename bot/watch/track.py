"""Open, keep, price and end alerts.

Anomalies come and go; an alert is one stay of one, remembered at its peak.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache

from bot.costs.pricing import BilledHour
from bot.model.alert import Alert, Peak, Waste, WastedHours
from bot.model.anomaly import Anomaly, BilledExcess, Detection, NodeState
from bot.model.causes import About, Cause
from bot.model.codec import by_key
from bot.model.fleet import Inventory
from bot.model.money import MILLIONTH, cents, summed
from bot.model.policy import Policy
from bot.model.price import Basis, Price
from bot.model.reading import Reading
from bot.model.window import HOUR, Window, month_of
from bot.watch.notify import claims_of, launcher_of


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
    tracked = []
    for alert in open_alerts:
        if anomaly := anomalies.pop(alert.key, None):
            tracked.append(_seen_again(alert, anomaly, reading))
            continue

        # The end cannot be seen where its part of the source failed, the bill is away, or half of
        # what runs is silent. Where fewer are, the others show that it is over: one node that never
        # comes back must not keep it open.
        states = [detection.states[x] for x in alert.anomaly.things if x in detection.states]
        silent = states.count(NodeState.NO_DATA)
        unseen = (
            reading.hidden(alert.anomaly.labels)
            or (alert.anomaly.kind.startswith("spend") and "spend" not in reading.frames)
            or (alert.cause is not Cause.NO_DATA and 0 < silent >= len(states) - silent)
        )
        over = reading.now - alert.seen >= resolve_after and not unseen
        tracked.append(replace(alert, closed=reading.now) if over else alert)

    before = {alert.key: alert for alert in sorted(ended, key=lambda alert: alert.opened)}
    again = [key for key in anomalies if key in before]
    tracked += [_seen_again(before[key], anomalies.pop(key), reading) for key in again]
    opened = [
        Alert(
            id=alert_id(anomaly.key, reading.now),
            anomaly=anomaly,
            opened=reading.now,
            seen=reading.now,
            claims=claims_of(anomaly, reading),
            things_at_peak=len(anomaly.things),
            launched_by=launcher_of(anomaly.things, reading),
        )
        for anomaly in anomalies.values()
    ]
    return tracked + opened


def recent(alerts: Iterable[Alert], now: datetime, reopen_within: timedelta) -> list[Alert]:
    """Return the alerts that ended not long ago.

    Less than `reopen_within`, or than their rule's cause may take to return.
    """
    return [
        alert
        for alert in alerts
        if alert.closed
        and (
            now - alert.closed < reopen_within
            or (
                alert.anomaly.rule == alert.cause.value
                and now - alert.closed < alert.cause.facts.returns
            )
        )
    ]


def alert_id(key: str, opened: datetime) -> str:
    """Return the id of one opening.

    The same for the same key and time, so that a repeated tick repeats nothing.
    """
    return "a" + hashlib.sha256(f"{key}|{opened.isoformat()}".encode()).hexdigest()[:9]


def _seen_again(alert: Alert, anomaly: Anomaly, reading: Reading) -> Alert:
    start = min(alert.anomaly.window.start, anomaly.window.start)
    launcher = alert.launched_by or launcher_of(anomaly.things, reading)
    return replace(
        alert,
        anomaly=replace(anomaly, window=Window(start, anomaly.window.end)),
        seen=reading.now,
        closed=None,
        things_at_peak=max(alert.things_at_peak, len(anomaly.things)),
        launched_by=launcher,
        claims=alert.claims if launcher == alert.launched_by else claims_of(anomaly, reading),
    )


_NEAR = Decimal("0.8")
"""Share of the most things and of the dearest hour from which a sight shows no recovery yet."""
_BETTER = Decimal("0.6")
"""The same of the dearest hour for a sight that names another cause.

What came with the onset may be dear, and hide it.
"""


def at_peak(alert: Alert, now: datetime) -> Alert:
    """Return the alert with its peak as of `now`; one that has ended is described by its peak.

    The newest sight near the most things and the dearest hour counts: the longer an incident lasts,
    the surer is its verdict.
    """
    anomaly, peak, per_hour = alert.anomaly, alert.peak, alert.usd_per_hour
    if alert.closed:
        if peak is None:
            return alert
        described = replace(
            peak.anomaly, window=anomaly.window, billed=anomaly.billed, at_risk=anomaly.at_risk
        )
        waste = replace(alert.waste, per_hour=peak.usd_per_hour) if alert.waste else None
        return replace(alert, anomaly=described, waste=waste)
    if alert.seen != now:
        return alert

    if peak is None:
        return replace(alert, peak=Peak(anomaly, per_hour, per_hour))
    most = max(per_hour, peak.most_usd_per_hour)
    enough = _NEAR if alert.cause is peak.anomaly.cause else _BETTER
    if per_hour >= enough * most and len(anomaly.things) >= _NEAR * alert.things_at_peak:
        return replace(alert, peak=Peak(anomaly, per_hour, most))
    return replace(alert, peak=replace(peak, most_usd_per_hour=most))


PriceOf = Callable[[str, Inventory], Price | None]
"""Return the price of an hour of a thing.

An instance, a volume, a file system, what a reservation leaves unused.
"""
PriceOfThing = Callable[[str], Price | None]
_BILLIONTH, _TRILLIONTH = Decimal("0.000000001"), Decimal("0.000000000001")
_UNSURER = {basis: place for place, basis in enumerate(Basis)}
"""How unsure a price is by its basis, the best first."""
_MOST_PRICES = 200
"""Prices by which the hours of an alert are kept; of more, none are."""


_HELD = 0.9
"""Share of alerts that last as long as it is said."""


@dataclass(frozen=True)
class HoursLeft:
    """State how many more hours an alert goes on: at least, in the mean, and at most."""

    low: Decimal
    mean: Decimal
    high: Decimal


@dataclass(frozen=True)
class Lengths:
    """Hold how long alerts lasted, or have lasted so far, by their cause."""

    hours: Mapping[Cause, Sequence[tuple[float, bool]]] = field(default_factory=dict)
    """Hours of each alert, and whether it has ended."""

    @classmethod
    def of(cls, alerts: Iterable[Alert]) -> Lengths:
        """Return the lengths of some alerts."""
        spans = ((x, _hours(x.anomaly.window.start, x.seen)) for x in alerts)
        return cls(by_key((x.cause, (float(hours), bool(x.closed))) for x, hours in spans))

    def left(self, alert: Alert, most: Decimal) -> HoursLeft:
        """Return how many more hours an open alert goes on, `most` at most.

        An alert that lasted longer than this one has tells how much longer; one that is still open
        tells that it was no shorter. Beside them stands the usual length of the cause, as one alert
        that went on for so long and for as long again as this one has lasted: what has outlived the
        usual is no longer usual. The chance to end is the same in every hour, and known as well as
        there are alerts that tell of it (a Lomax distribution).
        """
        age = float(_hours(alert.anomaly.window.start, alert.seen))
        lengths = self.hours.get(alert.cause, ())
        longer = [(hours - age, ended) for hours, ended in lengths if hours > age]
        scale = alert.cause.facts.lasts / HOUR + age + sum(hours for hours, _ in longer)
        # As many as have ended, the usual, and the one that is asked about.
        shape = 2 + sum(ended for _, ended in longer)

        def quantile(share: float) -> float:
            return scale * (math.pow(1 - share, -1 / shape) - 1)

        end, tail = float(most), (1 - _HELD) / 2
        mean = scale / (shape - 1) * (1 - (1 + end / scale) ** (1 - shape))
        low, high = min(quantile(tail), mean), min(quantile(1 - tail), end)
        return HoursLeft(*(Decimal(str(round(hours, 6))) for hours in (low, mean, high)))


def value(
    alert: Alert,
    before: Alert | None,
    price: PriceOfThing,
    now: datetime,
    onset: datetime | None = None,
    lengths: Lengths | None = None,
) -> Alert:
    """Return the alert with its waste and its risk at `now`.

    `before` is the same alert as last saved, None when it just opened.

    Waste an hour = sum over things of price x wasted share. So far adds the hours since it was last
    seen, at the opening those since the onset, each by its own share; it stands still while the
    anomaly is not seen. Of a cause of the bill it is what the bill shows over the usual, and the
    newest rate for the hours that are not billed yet, where it goes on. Month end = so far + waste
    an hour x the hours for which it goes on by the `lengths` of others, those left in the UTC month
    at most; so far alone where it passes by itself; what was lost before it was told counts at
    once. Of an alert that fires again, what lies between its end and the new `onset` is not
    counted.
    """
    price = cache(price)
    anomaly, earlier = alert.anomaly, before.waste if before else None
    if alert.seen == now:
        alert = replace(alert, at_risk_usd=_at_risk(anomaly, price))
    priced = _per_hour(anomaly, anomaly.wasted_shares, price)
    if priced is None or alert.seen != now:
        ended = alert.closed and earlier
        return replace(alert, waste=_at_its_end(anomaly, ended) if ended else earlier)

    # From when on its waste is not counted yet.
    since = before.seen if before and earlier else anomaly.window.start
    if before and before.closed and onset:
        since = max(since, onset)
    length = _hours(since, alert.seen)

    per_hour, weakest, unpriced = priced
    shares = anomaly.shares_since or anomaly.wasted_shares
    lately = (_per_hour(anomaly, shares, price) or priced)[0]
    if anomaly.billed:
        so_far = anomaly.billed.usd + lately * _unbilled(anomaly.billed, alert.seen)
    else:
        so_far = (earlier.so_far if earlier else Decimal(0)) + lately * length

    shares_now = _shares(anomaly, anomaly.wasted_shares, price)
    lost_hours = _shares(anomaly, anomaly.lost_hours, price)
    lost = sum((usd * length for usd, length in lost_hours.items()), Decimal(0))
    if lost > so_far:
        so_far, hours = lost, dict.fromkeys(shares_now, Decimal(0)) | lost_hours
    else:
        hours = _hours_by_price(earlier, _shares(anomaly, shares, price), length)
        if anomaly.usd_per_hour is not None:
            hours = {}

    left = (lengths or Lengths()).left(alert, _hours(now, month_of(now).end))
    low, middle, high = _month_end(alert, per_hour, so_far, weakest, left)
    committed_share, lapses = _committed(anomaly, per_hour, price)
    waste = Waste(
        per_hour=per_hour.quantize(MILLIONTH),
        so_far=so_far.quantize(MILLIONTH),
        month_end=middle.quantize(MILLIONTH),
        month_end_low=low.quantize(MILLIONTH),
        month_end_high=high.quantize(MILLIONTH),
        basis=weakest.found_by if weakest else "the bill",
        priced_at=weakest.asof if weakest else None,
        unpriced=unpriced,
        hours=tuple(
            WastedHours(usd, wasted, shares_now.get(usd, Decimal(0)))
            for usd, wasted in hours.items()
        ),
        committed_share=committed_share,
        lapses=lapses,
    )
    return replace(alert, waste=waste)


def without_moved(
    before: Alert, things: Sequence[str], opened: Iterable[Alert], price: PriceOfThing
) -> Alert:
    """Return an alert as last saved, without the waste of things that an alert just opened counts.

    `things` are those that it is still seen at. What moved to another alert is counted there from
    its onset on: its part of what was wasted since, by its part of an hour.
    """
    anomaly, waste = before.anomaly, before.waste
    length = _hours(anomaly.window.start, before.seen)
    if waste is None or not length or anomaly.billed or anomaly.lost_hours:
        return before
    priced = {
        thing: of_thing.usd_per_hour * share
        for thing, of_thing, share in _priced(anomaly, anomaly.wasted_shares, price)
    }
    total, left = sum(priced.values(), Decimal(0)), set(anomaly.things) - set(things)
    if not total or not left:
        return before

    gone = Decimal(0)
    for alert in opened:
        moved = sum((priced.get(x, Decimal(0)) for x in left & {*alert.anomaly.things}), Decimal(0))
        both = _hours(max(anomaly.window.start, alert.anomaly.window.start), before.seen)
        gone += moved / total * max(both, Decimal(0)) / length
    kept = 1 - gone
    so_far = (waste.so_far * kept).quantize(MILLIONTH)
    hours = tuple(replace(x, hours=(x.hours * kept).quantize(_BILLIONTH)) for x in waste.hours)
    return replace(before, waste=replace(waste, so_far=so_far, hours=hours))


def _at_its_end(anomaly: Anomaly, earlier: Waste) -> Waste:
    """Return the waste of an alert that is over: nothing more will be lost."""
    # A bill comes late: what was added since the last hour that it showed was an estimate, and the
    # end has disproved it.
    so_far = anomaly.billed.usd if anomaly.billed else earlier.so_far
    return replace(
        earlier, so_far=so_far, month_end=so_far, month_end_low=so_far, month_end_high=so_far
    )


def awaits_bill(alert: Alert) -> bool:
    """Return whether an alert has ended at estimated prices of hours that the bill will show.

    It shows the hours of nodes. An hour of a reservation or of storage holds more than is wasted,
    or several instances' hours at once.
    """
    waste, anomaly = alert.waste, alert.anomaly
    estimated = waste is not None and not waste.billed and bool(waste.hours)
    of_nodes = anomaly.cause.facts.about is About.NODES and not anomaly.lost_hours
    return bool(alert.closed and estimated and of_nodes)


def at_billed_prices(
    alert: Alert, billed: Mapping[str, Mapping[datetime, BilledHour]], at: datetime
) -> Alert:
    """Return an ended alert at the price that the bill shows of the hours of its things.

    As it is, an estimate, until the bill knows the hour of its end; `at` is when that is asked.
    """
    waste, start, end = alert.waste, alert.anomaly.window.start, alert.seen
    last = (end - timedelta(microseconds=1)).replace(minute=0, second=0, microsecond=0)
    hours = [billed[thing] for thing in alert.anomaly.things if thing in billed]
    if waste is None or not any(last in of_thing for of_thing in hours):
        return alert

    # Every wasted hour costs their mean: by how much of each hour of the bill lies within the alert.
    shown = [(hour, paid) for of_thing in hours for hour, paid in of_thing.items() if paid.hours]
    weights = [_hours(max(start, hour), min(end, hour + HOUR)) for hour, _ in shown]
    total = sum(weights, Decimal(0))
    if not total:
        return alert
    prices = (paid.usd / Decimal(str(paid.hours)) for _, paid in shown)
    cost = sum((price * weight for price, weight in zip(prices, weights, strict=True)), Decimal(0))
    price, wasted = (cost / total).quantize(MILLIONTH), sum(x.hours for x in waste.hours)

    so_far = (price * wasted).quantize(MILLIONTH)
    revalued = so_far / waste.so_far if waste.so_far else 1
    ended = replace(
        waste,
        per_hour=(waste.per_hour * revalued).quantize(MILLIONTH),
        so_far=so_far,
        hours=(WastedHours(price, Decimal(wasted)),),
        priced_at=at.date(),
        billed=True,
    )
    return replace(alert, waste=_at_its_end(alert.anomaly, ended))


def _committed(
    anomaly: Anomaly, per_hour: Decimal, price_of: PriceOfThing
) -> tuple[Decimal, date | None]:
    """Return the share of an hour's waste that commitments bill either way, and their last day."""
    priced = _priced(anomaly, anomaly.wasted_shares, price_of)
    usd = sum((price.committed_usd_per_hour * share for _, price, share in priced), Decimal(0))
    prices = filter(None, map(price_of, anomaly.things))
    share = (usd / per_hour).quantize(_TRILLIONTH) if per_hour else Decimal(0)
    return share, max((price.lapses for price in prices if price.lapses), default=None)


def _priced(
    anomaly: Anomaly, shares: Sequence[float], price_of: PriceOfThing
) -> list[tuple[str, Price, Decimal]]:
    """Return each thing that has a price, with its price and share."""
    return [
        (thing, price, Decimal(str(round(share, 6))))
        for thing, share in zip(anomaly.things, shares, strict=False)
        if (price := price_of(thing))
    ]


def _shares(
    anomaly: Anomaly, shares: Sequence[float], price_of: PriceOfThing
) -> dict[Decimal, Decimal]:
    """Return the sum of the things' shares by their price."""
    priced = _priced(anomaly, shares, price_of)
    return summed((price.usd_per_hour, share) for _, price, share in priced)


def _hours_by_price(
    earlier: Waste | None, shares: Mapping[Decimal, Decimal], length: Decimal
) -> dict[Decimal, Decimal]:
    """Return the wasted hours by their price, those of before and those of the shares since.

    None where some of them were not kept, or are too many to keep.
    """
    if earlier and earlier.so_far and not earlier.hours:
        return {}
    before = [(wasted.usd_per_hour, wasted.hours) for wasted in (earlier.hours if earlier else ())]
    since = [(usd, (share * length).quantize(_BILLIONTH)) for usd, share in shares.items()]
    hours = summed([*before, *since])
    return hours if len(hours) <= _MOST_PRICES else {}


def _unbilled(billed: BilledExcess, now: datetime) -> Decimal:
    """Return the hours of it that the bill does not show yet, up to its end where that is known."""
    return _hours(billed.through, billed.until or now)


def _month_end(
    alert: Alert, per_hour: Decimal, so_far: Decimal, price: Price | None, left: HoursLeft
) -> tuple[Decimal, Decimal, Decimal]:
    """Return its cost by the end of the UTC month if it goes on for the hours left.

    At least, about, and at most.

    An anomaly that passes by itself costs nothing more.
    """
    anomaly = alert.anomaly
    if anomaly.cause.facts.passes:
        return so_far, so_far, so_far
    base, unbilled = so_far, Decimal(0)
    # How unsure the price is, and how wide the usual is.
    unsure = Decimal(0) if price is None else price.basis.unsure
    least, most = per_hour, per_hour
    if billed := anomaly.billed:
        base, unbilled, unsure = billed.usd, _unbilled(billed, alert.seen), Basis.BILLED.unsure
        least, most = billed.low, billed.high
        if billed.until:
            left = HoursLeft(*[Decimal(0)] * 3)
    elif anomaly.usual and anomaly.wasted_shares and 0 < anomaly.value < anomaly.usual[0]:
        middle = 1 - 2 * anomaly.value / (anomaly.usual[0] + anomaly.usual[1])
        least *= Decimal(str((1 - anomaly.value / anomaly.usual[0]) / middle))
        most *= Decimal(str((1 - anomaly.value / anomaly.usual[1]) / middle))
    return (
        base + least * (1 - unsure) * (unbilled + left.low),
        base + per_hour * (unbilled + left.mean),
        base + most * (1 + unsure) * (unbilled + left.high),
    )


def _per_hour(
    anomaly: Anomaly, shares: Sequence[float], price_of: PriceOfThing
) -> tuple[Decimal, Price | None, int] | None:
    """Return USD an hour, the least sure price it rests on and how many things have none.

    None when nothing has a price.
    """
    if anomaly.usd_per_hour is not None:
        return anomaly.usd_per_hour, None, 0
    priced = _priced(anomaly, shares, price_of)
    if not priced:
        return None
    usd = sum((price.usd_per_hour * share for _, price, share in priced), Decimal(0))
    weakest = max((price for _, price, _ in priced), key=lambda price: _UNSURER[price.basis])
    return usd, weakest, min(len(anomaly.things), len(shares)) - len(priced)


def _at_risk(anomaly: Anomaly, price_of: PriceOfThing) -> Decimal | None:
    """Return the USD of the work that would be lost.

    None where there is none, or no price is known.
    """
    if anomaly.at_risk is None:
        return None
    hours = Decimal(str(round(anomaly.at_risk.hours, 6)))
    prices = [price for thing in anomaly.at_risk.things if (price := price_of(thing))]
    usd = sum((price.usd_per_hour for price in prices), Decimal(0))
    return cents(usd * hours) if prices else None


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
    return replace(alert, costly=alert.waste.per_hour >= least)
