"""Weigh changes that nobody asked about: the dollars a month that each saves, and its terms."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from itertools import pairwise

import numpy as np

from bot.cards.lines import quote
from bot.costs.commitments import Commitments, Weighed
from bot.costs.pricing import HOURS_A_MONTH
from bot.model.frame import Frame, Mask
from bot.model.money import cents, counted, usd
from bot.model.price import Payment
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
    months = Decimal(str(use.window.hours)) / HOURS_A_MONTH
    saved = cents(best.saved_usd / months)
    used = use.used_by(best.nodes)
    regret = cents((best.saved_usd - used / 3 * price.usd_per_hour) / months)
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
            ("months in it", f"{months:.4f}"),
            ("with a third less use, a month", usd(regret, digits=2)),
        ),
    )


def cache(again_usd: Decimal, window: Window) -> Suggestion | None:
    """Suggest to keep one compile cache; `again_usd` is the cost of compiling again in the window."""
    if again_usd <= 0:
        return None
    months = Decimal(str(window.hours)) / HOURS_A_MONTH
    saved = cents(again_usd / months)
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
            ("months seen", f"{months:.4f}"),
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
    months = Decimal(str(window.hours)) / HOURS_A_MONTH
    saved = cents((lost + saving - 2 * (lost * saving).sqrt()) / months)
    return Suggestion(
        SuggestionKind.CHECKPOINTS,
        job,
        f"Save checkpoints of {job} {factor:.1f} times as often: restarts lose more than saving"
        " costs",
        saved,
        saved,
        cents(lost / months),
        window,
        "faults stay as frequent as they were",
        "goodput 14d by job",
        (
            ("lost to restarts", usd(lost, digits=2)),
            ("checkpoints and evaluations", usd(saving, digits=2)),
            ("both, where they are equal", usd(2 * (lost * saving).sqrt(), digits=2)),
            ("months seen", f"{months:.4f}"),
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
