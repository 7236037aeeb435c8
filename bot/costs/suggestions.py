"""State changes that nobody asked about, and weigh those of hours without work and of storage.

Each has the dollars a month that it saves, and its terms.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from itertools import pairwise

import numpy as np

from bot.cards.lines import quote
from bot.costs.pricing import HOURS_A_MONTH
from bot.model.frame import Doubles, Frame, Mask
from bot.model.money import cents, counted, usd
from bot.model.price import Price
from bot.model.reading import AT_LIMIT, Throughput
from bot.model.window import Window

WEEK_HOURS = 168
_NIGHT_HOURS = 4
"""Nodes are worth stopping for so long: a start, and loading what was compiled, take their part."""
_LEAST_WEEKS = 2
"""A habit has been seen twice."""
_LEAST_STARTS = 10
"""Fewer starts are no habit."""
_DESK_HOURS = 50
"""Of a week, in which a person may sit at a notebook."""
_ALWAYS_ON = 0.95
"""Share of the hours in which a notebook is billed that nobody ever stops."""


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
        return "s" + hashlib.sha256(f"{self.kind.name}|{self.subject}".encode()).hexdigest()[:8]


def a_month(amount: Decimal, window: Window) -> Decimal:
    """Return the USD of a window by the month, to the cent."""
    return cents(amount / months(window))


def months(window: Window) -> Decimal:
    """Return the length of a window in months."""
    return Decimal(str(window.hours)) / HOURS_A_MONTH


def months_seen(window: Window) -> tuple[str, str]:
    """Return the step that tells how long a window is."""
    return "months seen", f"{months(window):.4f}"


def monthly_range(paid: Doubles, hours: int = 1) -> tuple[Decimal, Decimal, Decimal]:
    """Return the least, middle and greatest USD a month, by all of `paid` and by either half.

    `paid` are the USD of so many `hours` each, (n,).
    """
    low, middle, high = (
        cents(Decimal(str(mean)) * HOURS_A_MONTH / hours)
        for mean in np.sort([paid.mean(), *(half.mean() for half in np.array_split(paid, 2))])
    )
    return low, middle, high


def committed_step(committed: Decimal) -> Sequence[tuple[str, str]]:
    """Return the step that takes off what commitments bill either way, none where none does."""
    return [("of it committed, billed either way", usd(committed, digits=2))] if committed else []


def schedule(
    cluster: str, nodes: Frame, limit: float, prices: Sequence[Price]
) -> Suggestion | None:
    """Suggest to stop a cluster's nodes in the hours of the week in which none ever works.

    `nodes` are those that EC2 runs on demand, with the price of an hour of each; what a commitment
    pays of it stopping does not save. An hour of the week counts once at least two weeks had nodes
    in it and all were at or under `limit`. None where no such hours follow each other for long,
    where the nodes never work at all, or where commitments pay for all of them.
    """
    steps_an_hour = timedelta(hours=1) // nodes.step
    past = timedelta(minutes=nodes.start.minute, seconds=nodes.start.second)
    skipped = int(-(-(timedelta(hours=1) - past) // nodes.step)) if past else 0
    hours = (nodes.n_steps - skipped) // steps_an_hour
    used = nodes.of("neuroncore_utilization_ratio")[:, skipped : skipped + hours * steps_an_hour]
    shaped = used.reshape(len(nodes.things), hours, steps_an_hour)
    running = ~np.isnan(shaped)
    busy = (np.where(running, shaped, 0) > limit).any(axis=(0, 2))

    # Each hour of the week: in how many weeks nodes ran, and whether one of them ever worked.
    start = nodes.start + skipped * nodes.step
    slots = (start.weekday() * 24 + start.hour + np.arange(hours)) % WEEK_HOURS
    present = running.any(axis=(0, 2))
    works = np.bincount(slots, present & busy, WEEK_HOURS) > 0
    weeks = np.bincount(slots, present, WEEK_HOURS)
    free = _long_enough((weeks >= _LEAST_WEEKS) & ~works)
    if not free.any() or not works.any():
        return None

    # What they cost in those hours, each node at its own price; either half tells how it varies.
    rates = np.array([(x.usd_per_hour, x.usd_per_hour - x.committed_usd_per_hour) for x in prices])
    spent, saved = rates.astype(np.float64).T @ running.mean(axis=2) * free[slots]
    low, middle, high = monthly_range(saved)
    if not middle:
        return None
    committed = Decimal(str(round(spent.sum() - saved.sum(), 6)))
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
            *committed_step(committed),
            ("hours in a month", f"{HOURS_A_MONTH}"),
        ),
    )


def _long_enough(free: Mask) -> Mask:
    """Return the hours of the week that lie in a stretch of a night at least, week after week."""
    night = range(_NIGHT_HOURS)
    begins = np.all([np.roll(free, -hour) for hour in night], axis=0)
    return np.asarray(np.any([np.roll(begins, hour) for hour in night], axis=0))


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def _longest(free: Mask) -> str:
    """Write the longest stretch of free hours: `Fri 19:00 to Mon 07:00`."""
    # The week is a circle: a stretch may go on from Sunday to Monday.
    begins = np.flatnonzero(free & ~np.roll(free, 1))
    lengths = [int(np.argmin(np.roll(free, -first))) for first in begins]
    place = int(np.argmax(lengths))
    first, last = int(begins[place]), int(begins[place]) + lengths[place]
    return " to ".join(f"{_DAYS[hour // 24 % 7]} {hour % 24:02d}:00" for hour in (first, last))


def cache(again_usd: Decimal, window: Window) -> Suggestion | None:
    """Suggest to keep one compile cache; `again_usd` is the cost of compiling again in the window."""
    if again_usd <= 0:
        return None
    saved = a_month(again_usd, window)
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
            months_seen(window),
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
    saved = a_month(lost + saving - 2 * (lost * saving).sqrt(), window)
    return Suggestion(
        SuggestionKind.CHECKPOINTS,
        job,
        f"Save checkpoints of {job} {factor:.1f} times as often: restarts lose more than saving"
        " costs",
        saved,
        saved,
        a_month(lost, window),
        window,
        "faults stay as frequent as they were",
        "goodput 14d by job",
        (
            ("lost to restarts", usd(lost, digits=2)),
            ("checkpoints and evaluations", usd(saving, digits=2)),
            ("both, where they are equal", usd(2 * (lost * saving).sqrt(), digits=2)),
            months_seen(window),
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
        a_month(saved, window),
        a_month(sure, window),
        a_month(saved, window),
        window,
        "a node of the pool starts like the fastest did; a stopped one costs its volumes alone",
        f"goodput 14d by node cluster={quote(cluster)}",
        (
            ("starts", f"{len(starts)}"),
            ("from launch to first reading, in all", f"{waited / timedelta(hours=1):.2f} hours"),
            ("the fastest", f"{fastest / timedelta(minutes=1):.1f} minutes"),
            ("paid for what was longer", usd(saved, digits=2)),
            months_seen(window),
        ),
    )


def kept_warm(pools: Sequence[tuple[str, timedelta, Decimal]], window: Window) -> Suggestion | None:
    """Suggest to keep warm pools for less; `pools` are jobs, hours kept, and USD an hour of each node.

    They are of jobs after which nothing reused the nodes. None where none is.
    """
    by_job = Counter(job for job, _, _ in pools)
    costs = (price * Decimal(str(length / timedelta(hours=1))) for _, length, price in pools)
    paid = sum(costs, Decimal(0))
    if paid <= 0:
        return None
    saved, jobs = a_month(paid, window), counted(len(by_job), "training job")
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
            months_seen(window),
        ),
    )


def notebook(resource: str, hours: Sequence[Decimal], window: Window) -> Suggestion | None:
    """Suggest to stop a notebook that is always on; `hours` are the USD of each hour billed.

    Whether anybody uses it nobody can read. A person sits at it for fifty hours of a week at most:
    the high end is that nobody does.
    """
    if len(hours) < _ALWAYS_ON * window.hours or sum(hours) <= 0:
        return None
    whole, name = a_month(sum(hours, Decimal(0)), window), resource.rpartition(":")[2]
    saved = cents(whole * (WEEK_HOURS - _DESK_HOURS) / WEEK_HOURS)
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
            ("hours of a week at a desk", f"{_DESK_HOURS} of {WEEK_HOURS}"),
        ),
        act,
    )


GROWTH_WEEKS = 5
"""Weeks in a row of which each has to cost more than the one before."""
_GROWTH = Decimal("1.1")
"""How many times the first week the last one has to cost: less is not worth a rule."""
_HEADROOM = 2
"""Times the busiest step that a smaller throughput still carries."""


def unused_storage(
    amounts: Sequence[tuple[str, Decimal]], since: datetime, now: datetime
) -> Suggestion:
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
    weeks_a_month = Decimal(HOURS_A_MONTH) / WEEK_HOURS
    saved = cents((weeks[-1] - weeks[0]) * weeks_a_month)
    return Suggestion(
        SuggestionKind.GROWTH,
        usage,
        f"Let {usage} expire: it has cost more in each of {len(weeks)} weeks",
        saved,
        saved,
        2 * saved,
        Window(end - len(weeks) * timedelta(days=7), end),
        "nobody needs what is older; the high end is as much growth again",
        f"cost 35d by resource usage_type={quote(usage)}",
        (
            *((f"week {n}", usd(amount, digits=2)) for n, amount in enumerate(weeks, 1)),
            ("weeks in a month", f"{weeks_a_month:.4f}"),
        ),
    )


def less_throughput(
    load: Throughput, tiers: Mapping[int, Decimal], window: Window
) -> Suggestion | None:
    """Suggest less throughput for a file system; `tiers` are USD a month by MB/s a TiB.

    The least that carries twice the busiest step; the high end is the least that carries it. None
    where that is not less, or not enough was read.
    """
    system, current = load.system, load.system.throughput_mbps_per_tib
    enough, least = {
        headroom: min(
            (x for x in tiers if system.at(x) >= headroom * load.peak and x <= current),
            default=current,
        )
        for headroom in (_HEADROOM, 1 / AT_LIMIT)
    }.values()
    if load.beyond_network or enough >= current or current not in tiers:
        return None
    saved = cents(tiers[current] - tiers[enough])
    return Suggestion(
        SuggestionKind.LESS_THROUGHPUT,
        system.labels.resource,
        f"Give {system.labels.resource} {enough} MB/s a TiB instead of {current}: its busiest"
        f" step used {100 * load.peak_share:,.0f} % of it",
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
    saved, low = (cents(a_month(x, window) - extra) for x in (spared, spared * limited))
    if low <= 0:
        return None
    return Suggestion(
        SuggestionKind.MORE_THROUGHPUT,
        system.labels.resource,
        f"Give {system.labels.resource} {larger} MB/s a TiB instead of {current}: it was at its"
        f" limit {100 * limited:.0f} % of the time, and nodes of {system.labels.cluster} starved",
        saved,
        low,
        saved,
        window,
        "they starved for its data; the low end is the share of time that it was at its limit",
        "storage",
        (
            ("starved", usd(starved, digits=2)),
            months_seen(window),
            ("at its limit", f"{limited:.1%} of the time"),
            ("time that the same data need", f"{current} / {larger}"),
            (f"a month at {current}", usd(tiers[current], digits=2)),
            (f"a month at {larger}", usd(tiers[larger], digits=2)),
        ),
    )
