"""Run the watch over recorded time: a simulated month is a `for` loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime

from bot.errors import Unavailable
from bot.model.notification import Reason
from bot.model.state import ReplayResult
from bot.model.window import Window
from bot.ports import Ports
from bot.ports.work import checkpoint, progressed
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
