"""Compare two replays of the same time: what a change of the policy would have told, and what not."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from statistics import median
from typing import Any

from bot.model.alert import Alert
from bot.model.replay import Replay
from bot.model.window import Window


@dataclass(frozen=True)
class Side:
    """Hold what one policy came to."""

    told: tuple[Alert, ...]
    """Alerts that some channel heard of, oldest first."""
    muted: int
    notices: Mapping[str, int]
    """Messages and edits by channel."""
    usd: Decimal
    """Waste of the told alerts."""
    delay: timedelta | None
    """Median time from the beginning of an anomaly to its alert, None without any."""
    digest: str
    """Fingerprint of every alert and notice: the same fingerprint is the same run."""


@dataclass(frozen=True)
class Comparison:
    """Hold both sides, and the alerts that only one of them tells."""

    window: Window
    ticks: int
    before: Side
    after: Side
    appear: tuple[Alert, ...]
    disappear: tuple[Alert, ...]


def compare(before: Replay, after: Replay) -> Comparison:
    """Compare; two alerts are one when they have the same key and overlap in time, sooner or later told."""
    one, other = side_of(before), side_of(after)
    appear, disappear = _without(other.told, one.told), _without(one.told, other.told)
    return Comparison(after.window, after.ticks, one, other, appear, disappear)


def side_of(seen: Replay) -> Side:
    """Sum up one replay."""
    heard = {alert.id for notice in seen.notices for alert in notice.alerts}
    alerts = sorted(seen.alerts.values(), key=lambda a: (a.opened, a.key))
    told = tuple(a for a in alerts if a.id in heard)
    delays = [(a.opened - a.anomaly.window.start).total_seconds() for a in told]
    return Side(
        told=told,
        muted=len(alerts) - len(told),
        notices=dict(sorted(Counter(notice.channel for notice in seen.notices).items())),
        usd=spent(told),
        delay=timedelta(seconds=median(delays)) if delays else None,
        digest=digest(seen),
    )


def digest(seen: Replay) -> str:
    """Return a fingerprint of every alert and notice of a replay."""
    alerts = sorted(seen.alerts.values(), key=lambda a: a.id)
    told = [(a.id, a.key, a.opened, a.closed, a.muted_by, a.waste and a.waste.so_far) for a in alerts]
    said = [(n.id, n.channel, n.reason.value, n.at, [a.id for a in n.alerts]) for n in seen.notices]
    return hashlib.sha256(repr((told, said)).encode()).hexdigest()[:16]


def spent(alerts: Iterable[Alert]) -> Decimal:
    """Return what alerts have wasted so far."""
    return sum((a.waste.so_far for a in alerts if a.waste), Decimal(0))


def summary(seen: Comparison) -> dict[str, Any]:
    """Return what a version remembers of its preview; lists hold the value before and after."""
    before, after = seen.before, seen.after
    channels = sorted({*before.notices, *after.notices})
    return {
        "start": seen.window.start.isoformat(),
        "end": seen.window.end.isoformat(),
        "alerts": [len(before.told), len(after.told)],
        "muted": [before.muted, after.muted],
        "appear": len(seen.appear),
        "disappear": len(seen.disappear),
        "notices": {name: [before.notices.get(name, 0), after.notices.get(name, 0)] for name in channels},
        "waste_usd": [f"{before.usd:.2f}", f"{after.usd:.2f}"],
        "found_usd": f"{spent(seen.appear):.2f}",
        "missed_usd": f"{spent(seen.disappear):.2f}",
        "delay_minutes": [side.delay and side.delay.total_seconds() / 60 for side in (before, after)],
        "digest": after.digest,
    }


def _without(alerts: Sequence[Alert], others: Sequence[Alert]) -> tuple[Alert, ...]:
    spans: dict[str, list[tuple[datetime, datetime]]] = {}
    for other in others:
        spans.setdefault(other.key, []).append(_span(other))
    return tuple(a for a in alerts if not any(_overlap(_span(a), span) for span in spans.get(a.key, ())))


def _span(alert: Alert) -> tuple[datetime, datetime]:
    return alert.anomaly.window.start, alert.closed or max(alert.seen, alert.anomaly.window.end)


def _overlap(one: tuple[datetime, datetime], other: tuple[datetime, datetime]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]
