"""Weigh changes of storage: delete it, change it, let it expire, give it less or more throughput."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise

from bot.cards.lines import quote
from bot.costs.pricing import HOURS_A_MONTH
from bot.costs.suggestions import WEEK_HOURS, Suggestion, SuggestionKind, a_month, months_seen
from bot.model.money import cents, counted, usd
from bot.model.reading import AT_LIMIT, Throughput
from bot.model.window import Window

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
    a_month = Decimal(HOURS_A_MONTH) / WEEK_HOURS
    saved = cents((weeks[-1] - weeks[0]) * a_month)
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
            ("weeks in a month", f"{a_month:.4f}"),
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
    saved, low = (cents(a_month(x, window) - extra) for x in (spared, spared * limited))
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
            months_seen(window),
            ("at its limit", f"{limited:.1%} of the time"),
            ("time that the same data need", f"{current} / {larger}"),
            (f"a month at {current}", usd(tiers[current], digits=2)),
            (f"a month at {larger}", usd(tiers[larger], digits=2)),
        ),
    )
