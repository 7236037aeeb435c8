"""Run the watch over recorded time, and try a policy on it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from statistics import median
from threading import Lock
from typing import Any

from bot.errors import Unavailable, WrongInput
from bot.model.alert import Alert, Silence, leading
from bot.model.notification import Reason, ReplayResult, StateUpdate
from bot.model.policy import Draft, Override, Policy, VersionKind
from bot.model.request import Request
from bot.model.window import Window
from bot.policy.change import applied, edits
from bot.ports import Documents, Ports
from bot.ports.work import checkpoint, progressed
from bot.settings.routes import routes_now
from bot.watch.notify import decided_entry
from bot.watch.tick import TickResult, Watch, grid


def replay(ports: Ports, channels: Sequence[str], until: datetime | None = None) -> ReplayResult:
    """Tick from the first metric to the last (or to `until`), on the store of `ports`.

    May run for seconds.

    Raises `Unavailable` for a source without an end.
    """
    extent = opened(ports)
    seen = ReplayResult(extent)
    times = grid(extent.start, extent.end, ports.site.interval)
    for _ in ticking(ports, channels, [now for now in times if not until or now <= until], seen):
        pass
    return seen


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
            "A live account has no end to replay to; record it first (trnbot record DIR), or set TRNBOT_SOURCE to it."
        )
    return extent


def ticking(
    ports: Ports, channels: Sequence[str], times: Sequence[datetime], seen: ReplayResult
) -> Iterator[datetime]:
    """Tick at each time into `seen`, handing each back, so that several replays can go on side by side."""
    watch = Watch(ports, channels)
    for count, now in enumerate(times):
        checkpoint()
        progressed("Replaying", count, len(times))
        result = watch.tick(now)
        _save(ports, result, now)
        seen.ticks += 1
        seen.alerts.update((alert.id, alert) for alert in result.outcome.alerts)
        seen.notifications.extend(
            one for one in result.outcome.notifications if one.reason is not Reason.UPDATED
        )
        yield now


def _save(ports: Ports, result: TickResult, now: datetime) -> None:
    """Save the tick's outcome, as if every notification had been delivered."""
    changes, notifications = result.changes(), result.outcome.notifications
    before = {entry.id: entry for entry in result.state.notification_log} if notifications else {}
    decided = [decided_entry(one, before.get(one.id)) for one in notifications]
    sent = [replace(entry, message=f"m{entry.id}", pending=False) for entry in decided]
    ports.stores.alerts.save(
        replace(changes, notification_log=[*changes.notification_log, *sent], ticked_at=now)
    )


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
    old, new = side_of(before), side_of(after)
    appear, disappear = _without(new.notified, old.notified), _without(old.notified, new.notified)
    return PolicyComparison(after.window, after.ticks, old, new, appear, disappear)


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


def spent(alerts: Iterable[Alert]) -> Decimal:
    """Return the waste of alerts so far."""
    return sum((a.waste.so_far for a in alerts if a.waste), Decimal(0))


def summary(comparison: PolicyComparison) -> dict[str, Any]:
    """Return the summary that a version keeps of its preview.

    Lists hold the value before and after.
    """
    before, after = comparison.before, comparison.after
    channels = sorted({*before.notifications, *after.notifications})
    return {
        "start": comparison.window.start.isoformat(),
        "end": comparison.window.end.isoformat(),
        "alerts": [len(before.notified), len(after.notified)],
        "muted": [before.muted, after.muted],
        "appear": len(comparison.appear),
        "disappear": len(comparison.disappear),
        "notices": {
            name: [before.notifications.get(name, 0), after.notifications.get(name, 0)]
            for name in channels
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
    spans: dict[str, list[tuple[datetime, datetime]]] = {}
    for other in others:
        spans.setdefault(other.key, []).append(_span(other))
    return tuple(
        a for a in alerts if not any(_overlap(_span(a), span) for span in spans.get(a.key, ()))
    )


def _span(alert: Alert) -> tuple[datetime, datetime]:
    return alert.anomaly.window.start, alert.closed or max(alert.seen, alert.anomaly.window.end)


def _overlap(span: tuple[datetime, datetime], other: tuple[datetime, datetime]) -> bool:
    return span[0] <= other[1] and other[0] <= span[1]


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
    newest = ports.stores.versions.versions(1)
    stored = newest[0].overrides if newest else ()
    now, then = applied(ports.site.base, stored), applied(ports.site.base, overrides)
    changed = edits(
        now, then, (*stored, *overrides, *((*o[:2], "") for o in ports.site.base.overrides))
    )
    if not changed:
        raise WrongInput("Nothing would change: all of it stands so already.")
    if not _RUNNING.acquire(blocking=False):
        raise Unavailable("Another preview runs just now; try again in a minute.")
    try:
        comparison = preview(ports, (now, then), request.at)
    finally:
        _RUNNING.release()
    stamp = repr((request.at, request.user.id, changed, newest[0].number if newest else 0))
    candidate = Draft(
        id="p" + hashlib.sha256(stamp.encode()).hexdigest()[:8],
        at=request.at,
        by=request.user.id,
        over=newest[0].number if newest else 0,
        doing=doing,
        changes=tuple(changes),
        overrides=tuple(overrides),
        edits=changed,
        shown=summary(comparison),
    )
    _keep(ports, candidate)
    return candidate, comparison


def preview(ports: Ports, policies: tuple[Policy, Policy], until: datetime) -> PolicyComparison:
    """Replay both policies up to `until`, never past it.

    Silences and subscriptions that hold now hold in both.
    """
    window = _window(ports.world.source.extent(), until)
    times = [now for now in grid(window.start, window.end, ports.site.interval) if now <= until]
    silences = [
        held_since(silence, window.start) for silence in ports.stores.alerts.load(until).silences
    ]
    routes = routes_now(ports.site.current_routes(), ports.stores.documents)
    runs = [
        (replace(side, site=replace(side.site, routes=routes)), ReplayResult(window))
        for side in ports.world.replays.again(policies)
    ]
    for side, _ in runs:
        side.stores.alerts.save(StateUpdate(silences=silences))
    for _ in zip(
        *(ticking(side, ports.site.channels, times, result) for side, result in runs), strict=True
    ):
        pass
    return compare(runs[0][1], runs[1][1])


def held_since(silence: Silence, start: datetime) -> Silence:
    """Return a remembered pattern as if it had been judged by `start`.

    A judgement holds at any time.
    """
    return replace(silence, starts=min(silence.starts, start)) if silence.pattern else silence


def kept_draft(ports: Ports, name: str) -> Draft:
    """Return a preview that can still be applied; raise `WrongInput` for any other."""
    stored = PREVIEWS.get(ports.stores.documents, name)
    if stored is None:
        raise WrongInput(
            f"There is no preview '{name}'; it was applied or cancelled, is too old, or never was. Preview it again."
        )
    return stored


def _keep(ports: Ports, document: Draft) -> None:
    PREVIEWS.put(ports.stores.documents, document.id, document)
    for name in PREVIEWS.keys(ports.stores.documents, 2 * KEPT)[KEPT:]:
        PREVIEWS.drop(ports.stores.documents, name)


def _window(extent: Window | None, until: datetime) -> Window:
    start, end = (
        max(until - SPAN, extent.start) if extent else until - SPAN,
        min(until, extent.end) if extent else until,
    )
    if start >= end:
        raise Unavailable(
            f"Nothing is recorded in the 14 days before {until:%Y-%m-%d %H:%M} UTC, so nothing can be previewed."
        )
    return Window(start, end)
