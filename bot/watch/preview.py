"""Run the watch over recorded time, and try a policy on it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from statistics import median
from threading import Lock
from typing import Any

from bot.errors import Unavailable, WrongInput
from bot.model.alert import Alert, Silence, leading, spent
from bot.model.codec import by_key
from bot.model.notification import Reason, ReplayResult, ReplaySpan, StateUpdate
from bot.model.policy import Draft, Override, Policy, VersionKind
from bot.model.request import Request
from bot.model.window import Window, utc_text
from bot.policy.file import applied, edits
from bot.ports import Documents, Ports
from bot.ports.work import checkpoint, progressed
from bot.settings.routes import routes_now
from bot.watch.notify import decided_entry
from bot.watch.tick import Watch, grid

Run = Callable[[Sequence[Ports], ReplaySpan], Sequence[ReplayResult]]
"""Replay several sides over one span."""


def side_by_side(sides: Sequence[Ports], span: ReplaySpan) -> list[ReplayResult]:
    """Tick every side at each time, on its own store."""
    results = [ReplayResult(span.window) for _ in sides]
    replays = [
        ticking(side, span.channels, span.times, result)
        for side, result in zip(sides, results, strict=True)
    ]
    for _ in zip(*replays, strict=True):
        pass
    return results


def anywhere(sides: Sequence[Ports], span: ReplaySpan) -> Sequence[ReplayResult]:
    """Replay on other machines where there are any and it pays, else here: with one result.

    The stores of the sides may stay as they were.
    """
    return sides[0].world.workers.replays(sides, span) or side_by_side(sides, span)


def replay(
    ports: Ports,
    channels: Sequence[str],
    until: datetime | None = None,
    run: Run = side_by_side,
) -> ReplayResult:
    """Tick from the first metric to the last (or to `until`), here on the store of `ports`.

    May run for seconds.

    Raises `Unavailable` for a source without an end.
    """
    extent = opened(ports)
    times = grid(extent.start, extent.end, ports.site.interval)
    times = [instant for instant in times if not until or instant <= until]
    (replayed,) = run([ports], ReplaySpan(extent, times, channels))
    return replayed


def opened(ports: Ports) -> Window:
    """Open the source and, beside it, all else that a replay needs.

    Return the first metric to the last.

    Raises `Unavailable` for a source without an end.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="prepare") as beside:
        prepared = beside.submit(ports.world.prepare)
        extent = ports.world.source.extent()
    prepared.result()
    if extent is None:
        raise Unavailable(
            "A live account has no end to replay to; record it first (trnbot record DIR),"
            " or set TRNBOT_SOURCE to it."
        )
    return extent


def ticking(
    ports: Ports, channels: Sequence[str], times: Sequence[datetime], replayed: ReplayResult
) -> Iterator[datetime]:
    """Tick at each time into `replayed`, yielding it: several replays can go on side by side."""
    watch = Watch(ports, channels)
    for count, now in enumerate(times):
        checkpoint()
        progressed("Replaying", count, len(times))
        result = watch.tick(now)

        # The outcome is saved as if every notification had been delivered.
        changes, notifications = result.changes(), result.outcome.notifications
        before = {entry.id: entry for entry in result.state.notification_log}
        decided = [decided_entry(n, before.get(n.id)) for n in notifications]
        sent = [replace(entry, message=f"m{entry.id}", pending=False) for entry in decided]
        log = [*changes.notification_log, *sent]
        saved = replace(changes, notification_log=log, ticked_at=now, seen=result.coverage)
        ports.stores.alerts.save(saved)

        replayed.ticks += 1
        replayed.alerts.update((alert.id, alert) for alert in result.outcome.alerts)
        replayed.notifications += [n for n in notifications if n.reason is not Reason.UPDATED]
        yield now


@dataclass(frozen=True)
class Side:
    """Hold the outcome of one policy."""

    notified: tuple[Alert, ...]
    """Alerts that some channel was notified of, oldest first."""
    muted: int
    notifications: Mapping[str, int]
    """Messages and edits by channel."""
    usd: Decimal
    """Waste of those alerts."""
    delay: timedelta | None
    """Median time from the beginning of an anomaly to its alert, None without any."""
    digest: str
    """Fingerprint of every alert and notification: the same fingerprint is the same run."""


@dataclass(frozen=True)
class PolicyComparison:
    """Hold both sides, and the alerts that only one of them notifies anybody of."""

    window: Window
    ticks: int
    before: Side
    after: Side
    appear: tuple[Alert, ...]
    disappear: tuple[Alert, ...]


def compare(before: ReplayResult, after: ReplayResult) -> PolicyComparison:
    """Compare two replays; two alerts are one when they have the same key and overlap in time."""
    sides = side_of(before), side_of(after)
    notified = sides[0].notified, sides[1].notified
    appear, disappear = _without(notified[1], notified[0]), _without(*notified)
    return PolicyComparison(after.window, after.ticks, *sides, appear, disappear)


def side_of(result: ReplayResult) -> Side:
    """Sum up one replay."""
    ids = {
        alert.id for notification in result.notifications for alert in leading(notification.alerts)
    }
    alerts = sorted(result.alerts.values(), key=lambda a: (a.opened, a.key))
    notified = tuple(a for a in alerts if a.id in ids)
    delays = [(a.opened - a.anomaly.window.start).total_seconds() for a in notified]
    return Side(
        notified=notified,
        muted=len(alerts) - len(notified),
        notifications=dict(
            sorted(Counter(notification.channel for notification in result.notifications).items())
        ),
        usd=spent(notified),
        delay=timedelta(seconds=median(delays)) if delays else None,
        digest=digest(result),
    )


def digest(result: ReplayResult) -> str:
    """Return a fingerprint of every alert and notification of a replay."""
    ordered = sorted(result.alerts.values(), key=lambda a: a.id)
    alerts = [
        (a.id, a.key, a.opened, a.closed, a.muted_by, a.waste and a.waste.so_far) for a in ordered
    ]
    notifications = [
        (n.id, n.channel, n.reason.value, n.at, [a.id for a in n.alerts])
        for n in result.notifications
    ]
    return hashlib.sha256(repr((alerts, notifications)).encode()).hexdigest()[:16]


def summary(comparison: PolicyComparison) -> dict[str, Any]:
    """Return the summary that a version keeps of its preview.

    Lists hold the value before and after.
    """
    before, after = comparison.before, comparison.after
    return {
        "start": comparison.window.start.isoformat(),
        "end": comparison.window.end.isoformat(),
        "alerts": [len(before.notified), len(after.notified)],
        "muted": [before.muted, after.muted],
        "appear": len(comparison.appear),
        "disappear": len(comparison.disappear),
        "notices": {
            name: [before.notifications.get(name, 0), after.notifications.get(name, 0)]
            for name in sorted({*before.notifications, *after.notifications})
        },
        "waste_usd": [f"{before.usd:.2f}", f"{after.usd:.2f}"],
        "found_usd": f"{spent(comparison.appear):.2f}",
        "missed_usd": f"{spent(comparison.disappear):.2f}",
        "delay_minutes": [
            side.delay and side.delay.total_seconds() / 60 for side in (before, after)
        ],
        "digest": after.digest,
    }


def _without(alerts: Sequence[Alert], others: Sequence[Alert]) -> tuple[Alert, ...]:
    """Return the alerts that overlap none of the others of the same key."""
    spans = by_key((alert.key, _span(alert)) for alert in others)
    return tuple(
        alert
        for alert in alerts
        if all(
            _span(alert)[1] < start or end < _span(alert)[0]
            for start, end in spans.get(alert.key, ())
        )
    )


def _span(alert: Alert) -> tuple[datetime, datetime]:
    return alert.anomaly.window.start, alert.closed or max(alert.seen, alert.anomaly.window.end)


SPAN = timedelta(days=14)
PREVIEWS = Documents("previews", Draft)
KEPT = 50
"""Previews that can still be applied; older ones are forgotten."""
_RUNNING = Lock()


def draft(
    ports: Ports,
    request: Request,
    doing: VersionKind,
    changes: Sequence[Override],
    overrides: Sequence[Override],
) -> tuple[Draft, PolicyComparison]:
    """Preview `overrides` in place of those in force, and keep the draft to be applied.

    May run for a minute.

    Raises `WrongInput` when nothing would change, `Unavailable` while another preview runs or
    without recorded time.
    """
    versions = ports.stores.versions.versions(1)
    over, stored = (versions[0].number, versions[0].overrides) if versions else (0, ())
    base = ports.site.base
    current, candidate = applied(base, stored), applied(base, overrides)
    taken_back = [(scope, key, "") for scope, key, _ in base.overrides]
    changed = edits(current, candidate, (*stored, *overrides, *taken_back))
    if not changed:
        raise WrongInput("Nothing would change: it is all set that way already.")

    with alone():
        comparison = compare(*replayed(ports, (current, candidate), request.at))

    stamp = repr((request.at, request.user.id, changed, over))
    previewed = Draft(
        id="p" + hashlib.sha256(stamp.encode()).hexdigest()[:8],
        at=request.at,
        by=request.user.id,
        over=over,
        doing=doing,
        changes=tuple(changes),
        overrides=tuple(overrides),
        edits=changed,
        shown=summary(comparison),
    )
    documents = ports.stores.documents
    PREVIEWS.put(documents, previewed.id, previewed)
    for name in PREVIEWS.keys(documents, 2 * KEPT)[KEPT:]:
        PREVIEWS.drop(documents, name)
    return previewed, comparison


@contextmanager
def alone() -> Iterator[None]:
    """Replay while nobody else does; raise `Unavailable` where somebody does."""
    if not _RUNNING.acquire(blocking=False):
        raise Unavailable("Another preview is running; try again in a minute.")
    try:
        yield
    finally:
        _RUNNING.release()


def replayed(ports: Ports, policies: Sequence[Policy], until: datetime) -> Sequence[ReplayResult]:
    """Replay each policy over the last 14 days up to `until`, never past it.

    Silences and subscriptions that hold now hold in all.
    """
    extent = ports.world.source.extent() or Window(until - SPAN, until)
    start, end = max(until - SPAN, extent.start), min(until, extent.end)
    if start >= end:
        raise Unavailable(
            f"Nothing is recorded in the 14 days before {utc_text(until)},"
            " so nothing can be previewed."
        )

    # What is to be previewed may not be judged by what comes after the question.
    times = [instant for instant in grid(start, end, ports.site.interval) if instant <= until]
    silences = [held_since(s, start) for s in ports.stores.alerts.load(until).silences]
    routes = routes_now(ports.site.current_routes(), ports.stores.documents)
    sides = [
        replace(side, site=replace(side.site, routes=routes))
        for side in ports.world.replays.again(policies)
    ]
    for side in sides:
        side.stores.alerts.save(StateUpdate(silences=silences))
    return anywhere(sides, ReplaySpan(Window(start, end), times, ports.site.channels))


def held_since(silence: Silence, start: datetime) -> Silence:
    """Return a remembered pattern as if it had been judged by `start`.

    A judgement holds at any time.
    """
    return replace(silence, starts=min(silence.starts, start)) if silence.pattern else silence


def kept_draft(ports: Ports, name: str) -> Draft:
    """Return a preview that can still be applied; raise `WrongInput` for any other."""
    previewed = PREVIEWS.get(ports.stores.documents, name)
    if previewed is None:
        raise WrongInput(
            f"There is no preview '{name}'; it was applied or cancelled, is too old,"
            " or never existed. Preview it again."
        )
    return previewed
