"""State changes that nobody asked about, and weigh those that spare hours of nodes without work.

Each has the dollars a month that it saves, and its terms.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum

import numpy as np

from bot.cards.lines import quote
from bot.costs.pricing import HOURS_A_MONTH
from bot.model.frame import Doubles, Frame, Mask
from bot.model.money import cents, counted, usd
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
        stamp = f"{self.kind.name}|{self.subject}"
        return "s" + hashlib.sha256(stamp.encode()).hexdigest()[:8]


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
    means = np.sort([paid.mean(), *(half.mean() for half in np.array_split(paid, 2))])
    low, middle, high = (cents(Decimal(str(mean)) * HOURS_A_MONTH / hours) for mean in means)
    return low, middle, high


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
    slots = (start.weekday() * 24 + start.hour + np.arange(hours)) % WEEK_HOURS
    present = running.any(axis=(0, 2))
    weeks = np.bincount(slots, present, WEEK_HOURS)
    works = np.bincount(slots, present & busy, WEEK_HOURS) > 0
    free = _long_enough((weeks >= _LEAST_WEEKS) & ~works)
    if not free.any() or not works.any():
        return None

    # What they cost in those hours, each node at its own price; either half tells how it varies.
    rates = np.array([float(price) for price in prices])
    spent = (running.mean(axis=2) * rates[:, None]).sum(axis=0) * free[slots]
    low, middle, high = monthly_range(spent)
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


def _steps_to_full_hour(frame: Frame) -> int:
    past = timedelta(minutes=frame.start.minute, seconds=frame.start.second)
    return int(-(-(timedelta(hours=1) - past) // frame.step)) if past else 0


def _long_enough(free: Mask) -> Mask:
    """Return the hours of the week that lie in a stretch of a night at least, week after week."""
    long = np.zeros_like(free)
    for first in range(WEEK_HOURS):
        stretch = (first + np.arange(_NIGHT_HOURS)) % WEEK_HOURS
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
    by_job = Counter[str]()
    paid = Decimal(0)
    for job, length, price in pools:
        by_job[job] += 1
        paid += price * Decimal(str(length / timedelta(hours=1)))
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
