"""Weigh changes that nobody asked about: the dollars a month that each saves, and its terms."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from itertools import pairwise

import numpy as np

from bot.cards.lines import quote
from bot.costs.commitments import Commitments, Weighed
from bot.costs.pricing import HOURS_A_MONTH
from bot.model.fleet import Refusal, scarcities
from bot.model.frame import Frame, Mask
from bot.model.money import cents, counted, usd
from bot.model.price import Payment
from bot.model.reading import AT_LIMIT, Throughput
from bot.model.window import Window

_WEEK_HOURS = 168
_NIGHT_HOURS = 4
"""Nodes are worth stopping for so long: a start, and loading what was compiled, take their part."""
_LEAST_WEEKS = 2
"""A habit has been seen twice."""
_SOON = timedelta(days=30)
_WEEK = timedelta(days=7)
GROWTH_WEEKS = 5
"""Weeks in a row of which each has to cost more than the one before."""
_GROWTH = Decimal("1.1")
"""How many times the first week the last one has to cost: less is not worth a rule."""
_LEAST_STARTS = 10
"""Fewer starts are no habit."""
_DESK_HOURS = 50
"""Of a week, in which a person may sit at a notebook."""
_ALWAYS_ON = 0.95
"""Share of the hours in which a notebook is billed that nobody ever stops."""
_HEADROOM = 2
"""Times the busiest step that a smaller throughput still carries."""


class SuggestionKind(StrEnum):
    """Name the kinds of suggestions."""

    MOVE = "another type"
    COMMITMENT = "a commitment"
    SCHEDULE = "a schedule"
    STORAGE = "unused storage"
    CACHE = "one compile cache"
    CHECKPOINTS = "checkpoints"
    RENEWAL = "a renewal"
    RESERVED = "room in a reservation"
    VOLUMES = "newer volumes"
    GROWTH = "storage that only grows"
    QUOTA = "room in a quota"
    ELSEWHERE = "another zone or hour"
    CREDITS = "the end of credits"
    POOL = "another spot pool"
    WARM_POOL = "a warm pool"
    KEPT_WARM = "an unused warm pool"
    NOTEBOOK = "a notebook"
    LESS_THROUGHPUT = "less throughput"
    MORE_THROUGHPUT = "more throughput"

    @property
    def saves(self) -> bool:
        """Return whether its dollars are saved; of the others they are at stake."""
        return self not in (SuggestionKind.QUOTA, SuggestionKind.CREDITS)


@dataclass(frozen=True)
class Suggestion:
    """State one change, USD a month that it saves with their range, and the data they rest on."""

    kind: SuggestionKind
    subject: str
    """The cluster, type or day that it is about."""
    todo: str
    usd_per_month: Decimal
    low_usd: Decimal
    high_usd: Decimal
    window: Window
    """The time that it was seen in."""
    holds_if: str
    """What has to go on for it to be true."""
    line: str
    """The line to type next."""
    steps: tuple[tuple[str, str], ...] = field(default=())
    """The arithmetic: what, and how much."""
    act: str = ""
    """The line by which the bot itself prepares it, "" where it cannot."""

    @property
    def id(self) -> str:
        """Return the same id for the same kind and subject, whatever it saves."""
        stamp = f"{self.kind.name}|{self.subject}"
        return "s" + hashlib.sha256(stamp.encode()).hexdigest()[:8]


def _a_month(amount: Decimal, window: Window) -> Decimal:
    """Return the USD of a window by the month, to the cent."""
    return cents(amount / _months(window))


def _months(window: Window) -> Decimal:
    return Decimal(str(window.hours)) / HOURS_A_MONTH


def schedule(
    cluster: str, nodes: Frame, limit: float, prices: Sequence[Decimal]
) -> Suggestion | None:
    """Suggest to stop a cluster's nodes in the hours of the week in which none ever works.

    `nodes` are those that are paid only while they run, with the USD an hour of each. An hour of
    the week counts once at least two weeks had nodes in it and all were at or under `limit`. None
    where no such hours follow each other for long, or where the nodes never work at all.
    """
    used = nodes.of("neuroncore_utilization_ratio")
    steps_an_hour = timedelta(hours=1) // nodes.step
    skipped = _steps_to_full_hour(nodes)
    hours = (nodes.n_steps - skipped) // steps_an_hour
    shaped = used[:, skipped : skipped + hours * steps_an_hour].reshape(
        len(nodes.things), hours, steps_an_hour
    )
    running = ~np.isnan(shaped)
    busy = (np.where(running, shaped, 0) > limit).any(axis=(0, 2))

    # Each hour of the week: in how many weeks nodes ran, and whether one of them ever worked.
    start = nodes.start + skipped * nodes.step
    slots = (start.weekday() * 24 + start.hour + np.arange(hours)) % _WEEK_HOURS
    present = running.any(axis=(0, 2))
    weeks = np.bincount(slots, present, _WEEK_HOURS)
    works = np.bincount(slots, present & busy, _WEEK_HOURS) > 0
    free = _long_enough((weeks >= _LEAST_WEEKS) & ~works)
    if not free.any() or not works.any():
        return None

    # What they cost in those hours, each node at its own price; either half tells how it varies.
    rates = np.array([float(price) for price in prices])
    spent = (running.mean(axis=2) * rates[:, None]).sum(axis=0) * free[slots]
    low, middle, high = (
        cents(Decimal(str(rate)) * HOURS_A_MONTH)
        for rate in np.sort([spent.mean(), *(half.mean() for half in np.array_split(spent, 2))])
    )
    free_hours = int(free.sum())
    return Suggestion(
        SuggestionKind.SCHEDULE,
        cluster,
        f"Stop the on-demand nodes of {cluster} for {free_hours} hours of each week"
        f" ({_longest(free)} UTC among them): no node worked in those hours",
        middle,
        low,
        high,
        Window(start, start + timedelta(hours=hours)),
        "weeks stay like these, and nodes start again within minutes",
        f"idle {cluster}",
        (
            ("free hours of each week", f"{free_hours}"),
            ("hours read", f"{hours:,}"),
            ("paid in those hours", usd(Decimal(str(spent.sum())), digits=2)),
            ("hours in a month", f"{HOURS_A_MONTH}"),
        ),
    )


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
    saved = _a_month(best.saved_usd, use.window)
    used = use.used_by(best.nodes)
    regret = _a_month(best.saved_usd - used / 3 * price.usd_per_hour, use.window)
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
        f"{best.nodes} nodes keep running for a year; the low end assumes a third less use",
        f"capacity {name} nodes={best.nodes} days=365",
        (
            ("node-hours taken over", f"{used:,.1f}"),
            ("at the price on demand", usd(price.usd_per_hour, digits=4)),
            ("node-hours committed to", f"{best.nodes * use.window.hours:,.1f}"),
            ("at the rate of the commitment", rate),
            ("saved in that time", usd(best.saved_usd, digits=2)),
            ("months in it", f"{_months(use.window):.4f}"),
            ("with a third less use, a month", usd(regret, digits=2)),
        ),
    )


def cache(again_usd: Decimal, window: Window) -> Suggestion | None:
    """Suggest to keep one compile cache; `again_usd` is the cost of compiling again in the window."""
    if again_usd <= 0:
        return None
    saved = _a_month(again_usd, window)
    return Suggestion(
        SuggestionKind.CACHE,
        "compiles",
        "Keep one compile cache that all nodes share (NEURON_COMPILE_CACHE_URL): graphs were"
        " compiled again that had been compiled before",
        saved,
        saved,
        saved,
        window,
        "the graphs stay the same: a new compiler or a changed model recompiles for good reason",
        "compiles 14d",
        (
            ("compiling again what had been compiled", usd(again_usd, digits=2)),
            ("months seen", f"{_months(window):.4f}"),
        ),
    )


def checkpoints(job: str, lost: Decimal, saving: Decimal, window: Window) -> Suggestion | None:
    """Suggest to save checkpoints more often; `lost` and `saving` are a job's USD in the window.

    What a restart throws away grows with the time between checkpoints, what saving them costs
    shrinks with it: their sum is least where both are equal (Young, 1974). `saving` may hold
    evaluations as well, so that the least saved is told. None where nothing is known of one of
    them, or where saving costs more already.
    """
    if not 0 < saving < lost:
        return None
    factor = (lost / saving).sqrt()
    saved = _a_month(lost + saving - 2 * (lost * saving).sqrt(), window)
    return Suggestion(
        SuggestionKind.CHECKPOINTS,
        job,
        f"Save checkpoints of {job} {factor:.1f} times as often: restarts lose more than saving"
        " costs",
        saved,
        saved,
        _a_month(lost, window),
        window,
        "faults stay as frequent as they were",
        "goodput 14d by job",
        (
            ("lost to restarts", usd(lost, digits=2)),
            ("checkpoints and evaluations", usd(saving, digits=2)),
            ("both, where they are equal", usd(2 * (lost * saving).sqrt(), digits=2)),
            ("months seen", f"{_months(window):.4f}"),
        ),
    )


def storage(amounts: Sequence[tuple[str, Decimal]], since: datetime, now: datetime) -> Suggestion:
    """Suggest to delete storage that nobody uses; `amounts` are ids with their USD a month."""
    total = sum((amount for _, amount in amounts), Decimal(0))
    volumes = [name for name, _ in amounts if name.startswith("vol-")]
    return Suggestion(
        SuggestionKind.STORAGE,
        "storage",
        "Snapshot and delete what nobody uses:"
        f" {counted(len(amounts), 'volume or file system', 'volumes and file systems')}",
        total,
        total,
        total,
        Window(since, now),
        "nobody needs them again",
        "storage",
        tuple((name, f"{usd(amount, digits=2)} a month") for name, amount in amounts),
        f"act delete {' '.join(volumes)}" if volumes else "",
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


def newer_volumes(gib: int, older: Decimal, newer: Decimal, now: datetime) -> Suggestion | None:
    """Suggest to make gp2 volumes gp3; `older` and `newer` are the USD a month of all of them."""
    saved = cents(older - newer)
    if saved <= 0:
        return None
    return Suggestion(
        SuggestionKind.VOLUMES,
        "gp2",
        f"Change {gib:,} GiB of gp2 volumes to gp3: the same data for less, changed while in use",
        saved,
        saved,
        saved,
        Window(now - timedelta(hours=1), now),
        "no volume needs more than the 3,000 operations and 125 MB a second that gp3 includes",
        "storage",
        (
            ("GiB of gp2", f"{gib:,}"),
            ("as gp2, a month", usd(older, digits=2)),
            ("as gp3, a month", usd(newer, digits=2)),
        ),
    )


def only_grows(usage: str, weeks: Sequence[Decimal], end: datetime) -> Suggestion | None:
    """Suggest to bound storage whose every week cost more than the one before; `weeks` are USD.

    It saves what it has grown by, and as much again where it would go on; None for less than weeks
    enough, or growth that is not worth a rule.
    """
    grows = all(before < after for before, after in pairwise(weeks))
    if len(weeks) < GROWTH_WEEKS or not grows or weeks[-1] < _GROWTH * weeks[0]:
        return None
    a_month = Decimal(HOURS_A_MONTH) / _WEEK_HOURS
    saved = cents((weeks[-1] - weeks[0]) * a_month)
    return Suggestion(
        SuggestionKind.GROWTH,
        usage,
        f"Let {usage} expire: it has cost more in each of {len(weeks)} weeks",
        saved,
        saved,
        2 * saved,
        Window(end - len(weeks) * _WEEK, end),
        "nobody needs what is older; the high end is as much growth again",
        f"cost 35d by resource usage_type={quote(usage)}",
        (
            *((f"week {n}", usd(amount, digits=2)) for n, amount in enumerate(weeks, 1)),
            ("weeks in a month", f"{a_month:.4f}"),
        ),
    )


def renewals(lapsing: Iterable[tuple[date, Decimal]], now: datetime) -> list[Suggestion]:
    """Suggest to renew commitments that end within 30 days; `lapsing` are its day and USD a day after it."""
    ending = []
    for day, usd_per_day in lapsing:
        ahead = day - now.date()
        if not timedelta(0) <= ahead <= _SOON or usd_per_day <= 0:
            continue
        saved = cents(usd_per_day * HOURS_A_MONTH / 24)
        ending.append(
            Suggestion(
                SuggestionKind.RENEWAL,
                f"{day}",
                f"Renew what ends on {day:%B} {day.day}: the nodes that it covers cost more on"
                " demand",
                saved,
                saved,
                saved,
                Window(now - timedelta(days=7), now),
                "the nodes that it covers keep running as in the last week",
                "forecast",
                (
                    ("more a day, on demand", usd(usd_per_day, digits=2)),
                    ("days in a month", f"{HOURS_A_MONTH / 24:.2f}"),
                ),
            )
        )
    return ending


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
    saved = _a_month(usd_waiting, window)
    return Suggestion(
        SuggestionKind.ELSEWHERE,
        f"{worst.instance_type}/{worst.zone}",
        f"Ask for {worst.instance_type} in {best} first, where it was had, most about {best_at}:"
        f" {worst.zone} refused {counted(worst.refused, 'launch', 'launches')}, most about {worst_at}",
        saved,
        _a_month(usd_sure, window),
        saved,
        window,
        "its idle nodes waited for those that were refused",
        f"capacity {worst.instance_type}",
        (
            *((f"refused in {x.zone}", f"{x.refused}") for x in refused),
            *((f"had in {zone}", f"{n}") for zone, n in zones.most_common()),
            ("idle from a refusal to the next launch", usd(usd_waiting, digits=2)),
            ("of it in hours with a refusal", usd(usd_sure, digits=2)),
            ("months seen", f"{_months(window):.4f}"),
        ),
    )


def _hour(times: Iterable[datetime]) -> str:
    """Return the hour of day that most of the times are in: `14:00 UTC`."""
    counts = Counter(at.hour for at in times)
    return f"{min(counts, key=lambda hour: (-counts[hour], hour)):02d}:00 UTC"


def credits_end(daily: Mapping[date, Decimal], gone_on: date, now: datetime) -> Suggestion | None:
    """Suggest to be ready for bills without credits; `daily` are the USD that they paid on each day.

    None where they last for more than 30 days, or pay nothing.
    """
    days = sorted(daily)
    paid = np.array([float(daily[day]) for day in days])
    if not paid.sum() > 0 or gone_on - now.date() > _SOON:
        return None
    low, middle, high = (
        cents(Decimal(str(rate)) * HOURS_A_MONTH / 24)
        for rate in np.sort([paid.mean(), *(half.mean() for half in np.array_split(paid, 2))])
    )
    start = datetime(days[0].year, days[0].month, days[0].day, tzinfo=now.tzinfo)
    return Suggestion(
        SuggestionKind.CREDITS,
        "credits",
        f"Be ready for bills without credits from about {gone_on:%B} {gone_on.day} on: ask for"
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
        f"Take the spot {name} of {cluster} from {move.zone}: it costs less with what reclaims"
        f" lose, and refused none{denied}",
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


def warm_pool(
    cluster: str, starts: Sequence[tuple[timedelta, Decimal]], step: timedelta, window: Window
) -> Suggestion | None:
    """Suggest a warm pool; `starts` are times from launch to first reading, and USD an hour.

    It spares all over the fastest start. Readings are a step apart: the low end takes as much off
    each. None for few starts, or where nothing is sure.
    """
    fastest = min((wait for wait, _ in starts), default=timedelta())
    saved, sure = (
        sum(
            (
                price * Decimal(str(max(wait - fastest - less, timedelta()) / timedelta(hours=1)))
                for wait, price in starts
            ),
            Decimal(0),
        )
        for less in (timedelta(), step)
    )
    if len(starts) < _LEAST_STARTS or sure <= 0:
        return None
    waited = sum((wait for wait, _ in starts), timedelta())
    return Suggestion(
        SuggestionKind.WARM_POOL,
        cluster,
        f"Keep stopped nodes of {cluster} in a warm pool of its Auto Scaling group:"
        f" {len(starts)} starts took {waited / len(starts) / timedelta(minutes=1):.0f} minutes each",
        _a_month(saved, window),
        _a_month(sure, window),
        _a_month(saved, window),
        window,
        "a node of the pool starts like the fastest did; a stopped one costs its volumes alone",
        f"goodput 14d by node cluster={quote(cluster)}",
        (
            ("starts", f"{len(starts)}"),
            ("from launch to first reading, in all", f"{waited / timedelta(hours=1):.2f} hours"),
            ("the fastest", f"{fastest / timedelta(minutes=1):.1f} minutes"),
            ("paid for what was longer", usd(saved, digits=2)),
            ("months seen", f"{_months(window):.4f}"),
        ),
    )


def kept_warm(pools: Sequence[tuple[str, timedelta, Decimal]], window: Window) -> Suggestion | None:
    """Suggest to keep warm pools for less; `pools` are jobs, hours kept, and USD an hour of each node.

    They are of jobs after which nothing reused the nodes. None where none is.
    """
    by_job = Counter[str]()
    paid = Decimal(0)
    for job, length, price in pools:
        by_job[job] += 1
        paid += price * Decimal(str(length / timedelta(hours=1)))
    if paid <= 0:
        return None
    saved, jobs = _a_month(paid, window), counted(len(by_job), "training job")
    return Suggestion(
        SuggestionKind.KEPT_WARM,
        "sagemaker",
        f"Shorten KeepAlivePeriodInSeconds of {jobs}: nothing reused their warm pools",
        saved,
        saved,
        saved,
        window,
        "jobs go on to follow each other as they did",
        "cost 14d by resource service=AmazonSageMaker",
        (
            *((job, counted(nodes, "node")) for job, nodes in by_job.most_common(8)),
            ("paid after the jobs ended", usd(paid, digits=2)),
            ("months seen", f"{_months(window):.4f}"),
        ),
    )


def notebook(resource: str, hours: Sequence[Decimal], window: Window) -> Suggestion | None:
    """Suggest to stop a notebook that is always on; `hours` are the USD of each hour billed.

    Whether anybody uses it nobody can read. A person sits at it for fifty hours of a week at most:
    the high end is that nobody does.
    """
    if len(hours) < _ALWAYS_ON * window.hours or sum(hours) <= 0:
        return None
    whole, name = _a_month(sum(hours, Decimal(0)), window), resource.rpartition(":")[2]
    saved = cents(whole * (_WEEK_HOURS - _DESK_HOURS) / _WEEK_HOURS)
    is_instance = name.startswith("notebook-instance/")
    region = resource.split(":")[3] if resource.startswith("arn:") else ""
    act = f"act notebook {name.rpartition('/')[2]} region={region}" if is_instance else ""
    return Suggestion(
        SuggestionKind.NOTEBOOK,
        name,
        f"Stop {name} when nobody sits at it: it is billed by night and on weekends too",
        saved,
        saved,
        whole,
        window,
        f"nobody needs it for more than {_DESK_HOURS} hours of a week; the high end is not at all",
        f"cost 14d by day resource={quote(resource)}",
        (
            ("hours billed", f"{len(hours)} of {window.hours:.0f}"),
            ("paid for them", usd(sum(hours, Decimal(0)), digits=2)),
            ("all hours, a month", usd(whole, digits=2)),
            ("hours of a week at a desk", f"{_DESK_HOURS} of {_WEEK_HOURS}"),
        ),
        act,
    )


def less_throughput(
    load: Throughput, tiers: Mapping[int, Decimal], window: Window
) -> Suggestion | None:
    """Suggest less throughput for a file system; `tiers` are USD a month by MB/s a TiB.

    The least that carries twice the busiest step; the high end is the least that carries it. None
    where that is not less, or not enough was read.
    """
    system, current = load.system, load.system.throughput_mbps_per_tib
    fitting = {
        headroom: min(
            (x for x in tiers if system.at(x) >= headroom * load.peak and x <= current),
            default=current,
        )
        for headroom in (_HEADROOM, 1 / AT_LIMIT)
    }
    enough, least = fitting.values()
    if load.beyond_network or enough >= current or current not in tiers:
        return None
    saved = cents(tiers[current] - tiers[enough])
    return Suggestion(
        SuggestionKind.LESS_THROUGHPUT,
        system.labels.resource,
        f"Give {system.labels.resource} {enough} MB/s a TiB instead of {current}: its busiest"
        f" step used {load.peak_share:.0%} of it",
        saved,
        saved,
        cents(tiers[current] - tiers[least]),
        window,
        "no job to come reads or writes more; changed while it is used, at list prices",
        "storage",
        (
            ("read for", f"{load.looked / timedelta(hours=1):.0f} hours"),
            ("busiest step", f"{load.peak / 1e6:,.0f} MB/s"),
            (f"carried at {enough} MB/s a TiB", f"{system.at(enough) / 1e6:,.0f} MB/s"),
            (f"a month at {current}", usd(tiers[current], digits=2)),
            (f"a month at {enough}", usd(tiers[enough], digits=2)),
        ),
    )


def more_throughput(
    load: Throughput, tiers: Mapping[int, Decimal], starved: Decimal, window: Window
) -> Suggestion | None:
    """Suggest more throughput where nodes starve; `starved` is the USD that its cluster lost so.

    With more, the same data comes in so much less time; the low end counts as starved by it the
    share of time alone in which the file system was at its limit. None where that does not pay.
    """
    system, current = load.system, load.system.throughput_mbps_per_tib
    larger = min((tier for tier in tiers if tier > current), default=0)
    if not larger or current not in tiers:
        return None
    extra, spared = tiers[larger] - tiers[current], starved * (1 - Decimal(current) / larger)
    limited = Decimal(str(load.limited / load.looked))
    saved, low = (cents(_a_month(x, window) - extra) for x in (spared, spared * limited))
    if low <= 0:
        return None
    return Suggestion(
        SuggestionKind.MORE_THROUGHPUT,
        system.labels.resource,
        f"Give {system.labels.resource} {larger} MB/s a TiB instead of {current}: it was at its"
        f" limit {limited:.0%} of the time, and nodes of {system.labels.cluster} starved",
        saved,
        low,
        saved,
        window,
        "they starved for its data; the low end is the share of time that it was at its limit",
        "storage",
        (
            ("starved", usd(starved, digits=2)),
            ("months seen", f"{_months(window):.4f}"),
            ("at its limit", f"{limited:.1%} of the time"),
            ("time that the same data need", f"{current} / {larger}"),
            (f"a month at {current}", usd(tiers[current], digits=2)),
            (f"a month at {larger}", usd(tiers[larger], digits=2)),
        ),
    )


def _steps_to_full_hour(frame: Frame) -> int:
    past = timedelta(minutes=frame.start.minute, seconds=frame.start.second)
    return int(-(-(timedelta(hours=1) - past) // frame.step)) if past else 0


def _long_enough(free: Mask) -> Mask:
    """Return the hours of the week that lie in a stretch of a night at least, week after week."""
    long = np.zeros_like(free)
    for first in range(_WEEK_HOURS):
        stretch = (first + np.arange(_NIGHT_HOURS)) % _WEEK_HOURS
        if free[stretch].all():
            long[stretch] = True
    return long


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def _longest(free: Mask) -> str:
    """Write the longest stretch of free hours: `Fri 19:00 to Mon 07:00`."""
    # The week is a circle: a stretch may go on from Sunday to Monday.
    begins = np.flatnonzero(free & ~np.roll(free, 1))
    lengths = [int(np.argmin(np.roll(free, -first))) for first in begins]
    place = int(np.argmax(lengths))
    first, last = int(begins[place]), int(begins[place]) + lengths[place]
    return " to ".join(f"{_DAYS[hour // 24 % 7]} {hour % 24:02d}:00" for hour in (first, last))
