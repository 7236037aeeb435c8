"""Weigh how nodes are had: commitments, reservations and credits, quotas, zones and spot pools.

A commitment is held against on-demand hours: when it breaks even, and its savings of the last weeks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from functools import cached_property
from itertools import pairwise

import numpy as np

from bot.costs.pricing import HOURS_A_MONTH
from bot.costs.suggestions import (
    Suggestion,
    SuggestionKind,
    a_month,
    monthly_range,
    months,
    months_seen,
)
from bot.costs.tally import settled_by
from bot.errors import TrnbotError
from bot.model.fleet import Market, Refusal, scarcities
from bot.model.frame import Frame
from bot.model.money import cents, counted, usd
from bot.model.price import CommitmentOffer, Payment, Price
from bot.model.spend import Filter
from bot.model.window import NO_TIME, Window, day, parse_instant
from bot.ports import Billing

LOOK_BACK = timedelta(days=28)
"""How far back the account's own hours are looked at."""
_SOON = timedelta(days=30)
_WEEK = timedelta(days=7)


@dataclass(frozen=True)
class OnDemandUse:
    """Hold the node-hours of each hour of a window that were paid on demand.

    What a new commitment would have taken over.
    """

    window: Window
    node_hours: tuple[Decimal, ...]

    def used_by(self, nodes: int) -> Decimal:
        """Return the node-hours that a commitment to so many nodes would have used."""
        return sum((min(Decimal(nodes), hour) for hour in self.node_hours), Decimal(0))

    def ratio(self, nodes: int) -> Decimal:
        """Return the used share of a commitment to so many nodes."""
        return self.used_by(nodes) / (nodes * Decimal(str(self.window.hours)))


@dataclass(frozen=True)
class Commitments:
    """Hold what is offered for some nodes of one type in one region.

    Beside it, an hour on demand and the account's use.
    """

    instance_type: str
    nodes: int
    region: str
    offers: Sequence[CommitmentOffer]
    on_demand: Price | None
    use: OnDemandUse | None

    @cached_property
    def weighed(self) -> tuple[Weighed, ...]:
        """Return every offer beside on demand, the cheapest hour first."""
        return tuple(
            Weighed(offer, self.nodes, self.on_demand, self.use)
            for offer in sorted(self.offers, key=lambda x: (x.usd_per_hour, x.plan, x.years))
        )


@dataclass(frozen=True)
class Weighed:
    """Weigh one offer against hours on demand.

    Every figure is None where no on-demand price or no use is known.
    """

    offer: CommitmentOffer
    nodes: int
    on_demand: Price | None
    use: OnDemandUse | None

    @property
    def upfront_usd(self) -> Decimal:
        """Return what all nodes cost at the start."""
        return cents(self.offer.upfront_usd * self.nodes)

    @property
    def off_ratio(self) -> Decimal | None:
        """Return what it takes off the on-demand price, 0 to 1."""
        return 1 - self.offer.usd_per_hour / self.on_demand.usd_per_hour if self.on_demand else None

    @property
    def breakeven_hours(self) -> int | None:
        """Return the hours of the term that a node must run to cost no less on demand.

        None where it never does.
        """
        if self.on_demand is None or self.offer.usd_per_hour > self.on_demand.usd_per_hour:
            return None
        hours = self.offer.hours * self.offer.usd_per_hour / self.on_demand.usd_per_hour
        return int(hours.to_integral_value(ROUND_CEILING))

    @property
    def saved_usd(self) -> Decimal | None:
        """Return what it would have saved over the window of the use.

        Negative where it would have lost.
        """
        if self.on_demand is None or self.use is None:
            return None
        paid = self.offer.usd_per_hour * self.nodes * Decimal(str(self.use.window.hours))
        return cents(self.use.used_by(self.nodes) * self.on_demand.usd_per_hour - paid)


def on_demand_use(billing: Billing, price: Price, at: datetime) -> OnDemandUse | None:
    """Return the account's on-demand hours of the last settled weeks.

    None where the bill tells no hours. May block.

    The bill's USD of an hour over the price of a node's hour are the nodes that ran: what
    commitments cover stands apart.
    """
    dimensions = {
        "instance_type": price.instance_type,
        "region": price.region,
        "purchase": Market.ON_DEMAND.value,
    }
    try:
        settled = settled_by(billing.tally(NO_TIME, ()), at)
        days = billing.tally(Window(settled - LOOK_BACK, settled), ("day",)).rows if settled else ()
        if settled is None or not days:
            return None
        window = Window(parse_instant(min(row.key["day"] for row in days)), settled)
        where = [Filter(name, (value,)) for name, value in dimensions.items()]
        costs = [row.money.amortised for row in billing.tally(window, ("hour",), where).rows]
    except TrnbotError:
        return None
    return OnDemandUse(window, tuple(cost / price.usd_per_hour for cost in costs if cost > 0))


def commitment(commitments: Commitments) -> Suggestion | None:
    """Suggest to commit for a year, paying nothing upfront, to nodes that ran on demand.

    Of the numbers of nodes the one that would have saved most; None where a third less use would
    turn it into a loss.
    """
    use, price = commitments.use, commitments.on_demand
    plain = [x for x in commitments.offers if x.years == 1 and x.payment is Payment.NONE]
    if use is None or price is None or not plain or not use.node_hours:
        return None
    offer = min(plain, key=lambda x: (x.usd_per_hour, x.plan))
    best = max(
        (Weighed(offer, n, price, use) for n in range(1, int(max(use.node_hours)) + 1)),
        key=lambda weighed: weighed.saved_usd or 0,
        default=None,
    )
    if best is None or not best.saved_usd:
        return None

    # Saved over the window, by the month; and if a third of the hours used were not there.
    saved = a_month(best.saved_usd, use.window)
    used = use.used_by(best.nodes)
    regret = a_month(best.saved_usd - used / 3 * price.usd_per_hour, use.window)
    if regret <= 0:
        return None
    name, rate = commitments.instance_type, usd(offer.usd_per_hour, digits=4)
    return Suggestion(
        SuggestionKind.COMMITMENT,
        name,
        f"Commit to {best.nodes} x {name} in {commitments.region} for a year ({offer.plan},"
        " nothing upfront)",
        saved,
        regret,
        saved,
        use.window,
        f"use stays at {counted(best.nodes, 'node')} for a year; the low end assumes a third less",
        f"capacity {name} nodes={best.nodes} days=365",
        (
            ("node-hours taken over", f"{used:,.1f}"),
            ("at the price on demand", usd(price.usd_per_hour, digits=4)),
            ("node-hours committed to", f"{best.nodes * use.window.hours:,.1f}"),
            ("at the rate of the commitment", rate),
            ("saved in that time", usd(best.saved_usd, digits=2)),
            ("months in it", f"{months(use.window):.4f}"),
            ("with a third less use, a month", usd(regret, digits=2)),
        ),
    )


def renewals(lapsing: Iterable[tuple[date, Decimal]], now: datetime) -> Iterator[Suggestion]:
    """Suggest to renew commitments that end within 30 days; `lapsing` are its day and USD a day after it."""
    for lapse, usd_per_day in lapsing:
        if not timedelta(0) <= lapse - now.date() <= _SOON or usd_per_day <= 0:
            continue
        saved = cents(usd_per_day * HOURS_A_MONTH / 24)
        yield Suggestion(
            SuggestionKind.RENEWAL,
            f"{lapse}",
            f"Renew what ends on {day(lapse)}: the nodes that it covers cost more on demand",
            saved,
            saved,
            saved,
            Window(now - _WEEK, now),
            "the nodes that it covers keep running as in the last week",
            "forecast",
            (
                ("more a day, on demand", usd(usd_per_day, digits=2)),
                ("days in a month", f"{HOURS_A_MONTH / 24:.2f}"),
            ),
        )


def reserved_room(
    instance_type: str, zone: str, nodes: int, hours: Decimal, now: datetime
) -> Suggestion:
    """Suggest to run nodes in places that are paid and stand empty; `hours` is their USD an hour."""
    saved = cents(hours * HOURS_A_MONTH)
    return Suggestion(
        SuggestionKind.RESERVED,
        f"{instance_type}/{zone}",
        f"Run {counted(nodes, f'{instance_type} node')} of {zone} in the reservation that is"
        " empty there: they are paid on demand next to it",
        saved,
        saved,
        saved,
        Window(now - timedelta(hours=1), now),
        "both stay as they are; ending the reservation instead saves as much",
        f"capacity {instance_type}",
        (
            ("nodes on demand that fit", f"{nodes}"),
            ("their price an hour", usd(hours, digits=4)),
            ("hours in a month", f"{HOURS_A_MONTH}"),
        ),
    )


@dataclass(frozen=True)
class Demand:
    """State how many nodes of a type a quota lets start, and how many are coming."""

    quota: str
    instance_type: str
    region: str
    free: int
    planned: int
    """Nodes that node groups are to have, and have not."""
    counts: tuple[int, int, int]
    """Nodes two weeks ago, one week ago, and now."""

    @property
    def coming(self) -> tuple[int, int, int]:
        """Return the nodes that come within 30 days, at least, about and at most.

        Nodes that grew in both weeks go on to grow, at the slower, the mean and the faster pace.
        """
        weeks = sorted(after - before for before, after in pairwise(self.counts))
        grows = weeks[0] > 0
        low, middle, high = (
            max(self.planned, int(pace * _SOON / _WEEK) if grows else 0)
            for pace in (weeks[0], sum(weeks) / 2, weeks[1])
        )
        return low, middle, high


def quota(demand: Demand, usd_per_hour: Decimal, now: datetime) -> Suggestion | None:
    """Suggest to ask for room before it is needed; its USD are those of nodes that would not start.

    None where those that come within 30 days fit.
    """
    low, middle, high = (max(0, nodes - demand.free) for nodes in demand.coming)
    if not middle:
        return None
    name, coming, monthly = demand.instance_type, demand.coming[1], usd_per_hour * HOURS_A_MONTH
    return Suggestion(
        SuggestionKind.QUOTA,
        f"{demand.quota}/{demand.region}",
        f"Ask for more of the quota {demand.quota} in {demand.region}, which can take days:"
        f" it lets {demand.free} more {name} start, and {coming} come within 30 days",
        cents(middle * monthly),
        cents(low * monthly),
        cents(high * monthly),
        Window(now - 2 * _WEEK, now),
        "node groups start all nodes that they are to have, and nodes grow as in the last two weeks",
        f"quota {name} nodes={coming}",
        (
            ("nodes two weeks ago, one ago, now", ", ".join(map(str, demand.counts))),
            ("nodes that node groups still are to start", f"{demand.planned}"),
            ("nodes that come within 30 days", f"{coming}"),
            ("nodes that the quota lets start", f"{demand.free}"),
            ("nodes that would not start", f"{middle}"),
            ("price of an hour", usd(usd_per_hour, digits=4)),
            ("hours in a month", f"{HOURS_A_MONTH}"),
        ),
    )


def elsewhere(
    refusals: Sequence[Refusal],
    launches: Sequence[tuple[str, datetime]],
    nodes: Frame,
    limit: float,
    prices: Sequence[Decimal],
) -> Suggestion | None:
    """Suggest to ask for a type first where and when it was had; all is of one type and region.

    `launches` are zones and times, `nodes` the type's nodes with the USD an hour of each. It costs
    what they stood idle for from each refusal until the next launch; the low end counts the hours
    with a refusal alone. None where nothing stood idle, or nothing was had.
    """
    steps = np.arange(nodes.n_steps)
    waits, sure = np.zeros((2, nodes.n_steps), dtype=bool)
    for refusal in refusals:
        had = min((at for _, at in launches if at > refusal.at), default=nodes.end)
        hour = refusal.at.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        first = steps >= (refusal.at - nodes.start) / nodes.step
        waits |= first & (steps < (had - nodes.start) / nodes.step)
        sure |= first & (steps < (min(had, hour) - nodes.start) / nodes.step)
    idle = nodes.of("neuroncore_utilization_ratio") <= limit
    hours = Decimal(str(nodes.step / timedelta(hours=1)))
    usd_waiting, usd_sure = (
        sum(
            (
                price * hours * int(n)
                for price, n in zip(prices, (idle & mask).sum(axis=1), strict=True)
            ),
            Decimal(0),
        )
        for mask in (waits, sure)
    )
    if not launches or not usd_waiting:
        return None

    # The place that gave most beside what it refused, at the hour at which it gave most.
    refused, zones = scarcities(refusals), Counter(zone for zone, _ in launches)
    denied = {x.zone: x.refused for x in refused}
    best = max(sorted(zones), key=lambda zone: zones[zone] - denied.get(zone, 0))
    worst, window = refused[0], Window(nodes.start, nodes.end)
    worst_at = _hour(x.at for x in refusals if (x.labels.zone or x.labels.region) == worst.zone)
    best_at = _hour(at for zone, at in launches if zone == best)
    saved = a_month(usd_waiting, window)
    return Suggestion(
        SuggestionKind.ELSEWHERE,
        f"{worst.instance_type}/{worst.zone}",
        f"Ask for {worst.instance_type} in {best} first, where it was had, most about {best_at}:"
        f" {worst.zone} refused {counted(worst.refused, 'launch', 'launches')}, most about {worst_at}",
        saved,
        a_month(usd_sure, window),
        saved,
        window,
        "its idle nodes waited for those that were refused",
        f"capacity {worst.instance_type}",
        (
            *((f"refused in {x.zone}", f"{x.refused}") for x in refused),
            *((f"had in {zone}", f"{n}") for zone, n in zones.most_common()),
            ("idle from a refusal to the next launch", usd(usd_waiting, digits=2)),
            ("of it in hours with a refusal", usd(usd_sure, digits=2)),
            months_seen(window),
        ),
    )


def _hour(times: Iterable[datetime]) -> str:
    """Return the hour of day that most of the times are in: `14:00 UTC`."""
    counts = Counter(at.hour for at in times)
    return f"{min(counts, key=lambda hour: (-counts[hour], hour)):02d}:00 UTC"


@dataclass(frozen=True)
class PoolCost:
    """State the cost of a cluster's spot nodes in one zone for a month, work done twice included."""

    zone: str
    usd: Decimal
    dear_usd: Decimal
    """At the price that the zone stayed under for 95 % of the time."""
    refused: int
    """Spot requests that the zone refused in the window."""


def pool(where: tuple[str, str], costs: Sequence[PoolCost], window: Window) -> Suggestion | None:
    """Suggest spot nodes of another zone; `where` is cluster and type, `costs` of now and of then.

    None where it would cost more at its dear times than the zone of now does on average.
    """
    (cluster, name), (stay, move) = where, costs
    low = cents(stay.usd - move.dear_usd)
    if low <= 0:
        return None
    denied = f", and {stay.zone} refused {counted(stay.refused, 'request')}" if stay.refused else ""
    return Suggestion(
        SuggestionKind.POOL,
        f"{cluster}/{name}/{stay.zone}",
        f"Run {cluster}'s spot {name} in {move.zone}: there it costs less, work lost to reclaims"
        f" counted, and no request was refused{denied}",
        cents(stay.usd - move.usd),
        low,
        cents(stay.usd - move.usd),
        window,
        f"prices stay as they were, and its data can be read from {move.zone} without a charge;"
        " the low end is its dearest twentieth of the time",
        f"spot {name}",
        (
            (f"a month in {stay.zone}", usd(stay.usd, digits=2)),
            (f"refused in {stay.zone}", f"{stay.refused}"),
            (f"a month in {move.zone}", usd(move.usd, digits=2)),
            ("the same at its dear times", usd(move.dear_usd, digits=2)),
            (f"refused in {move.zone}", f"{move.refused}"),
        ),
    )


def credits_end(daily: Mapping[date, Decimal], gone_on: date, now: datetime) -> Suggestion | None:
    """Suggest to be ready for bills without credits; `daily` are the USD that they paid on each day.

    None where they last for more than 30 days, or pay nothing.
    """
    days = sorted(daily)
    paid = np.array([float(daily[day]) for day in days])
    if not paid.sum() > 0 or gone_on - now.date() > _SOON:
        return None
    low, middle, high = monthly_range(paid, 24)
    start = datetime(days[0].year, days[0].month, days[0].day, tzinfo=now.tzinfo)
    return Suggestion(
        SuggestionKind.CREDITS,
        "credits",
        f"Be ready for bills without credits from about {day(gone_on)} on: ask for"
        " another programme, or stop what is only run because it is free",
        middle,
        low,
        high,
        Window(start, start + timedelta(days=len(days))),
        "the balance is as it was set, and credits go on to be used as on these days",
        "credits",
        (
            ("credits used", usd(sum(daily.values(), Decimal(0)), digits=2)),
            ("days", f"{len(days)}"),
            ("days in a month", f"{HOURS_A_MONTH / 24:.2f}"),
        ),
    )
