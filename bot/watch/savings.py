"""Count the waste that stopped because somebody acted.

An estimate, by the waste of each alert an hour at its peak.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from bot.model.alert import Alert
from bot.model.money import cents
from bot.model.window import Window, month_of


@dataclass(frozen=True)
class Saving:
    """State one alert that ended after somebody acted."""

    alert: Alert
    by: str
    """Who acknowledged it, "" where nobody did and its things are gone."""
    usd_per_hour: Decimal
    usd_so_far: Decimal
    """What it would have wasted from its last sight, to which its cost counts, until now or the end of that UTC month."""


def savings(alerts: Sequence[Alert], running: Set[str], now: datetime) -> list[Saving]:
    """Return the savings among `alerts`, dearest an hour first.

    `running` are the ids of the instances that run at `now`.

    Counts an alert that ended and cost something, and that was acknowledged before, or notified of
    and lost all its nodes.
    """
    acted = [
        alert for alert in alerts if _stopped(alert) and (_acted(alert) or _gone(alert, running))
    ]
    return sorted(
        (_saving(alert, now) for alert in acted),
        key=lambda saving: saving.usd_per_hour,
        reverse=True,
    )


def saved_within(
    alerts: Sequence[Alert], window: Window, running: Set[str], now: datetime
) -> list[Saving]:
    """Return the savings among the alerts that ended in the window, up to `now`."""
    ended = [
        alert
        for alert in alerts
        if alert.closed and window.start <= alert.closed <= min(window.end, now)
    ]
    return savings(ended, running, now)


def _stopped(alert: Alert) -> bool:
    return alert.closed is not None and alert.waste is not None and alert.waste.per_hour > 0


def _acted(alert: Alert) -> bool:
    ack = alert.acknowledged
    return ack is not None and alert.closed is not None and ack.at <= alert.closed


def _gone(alert: Alert, running: Set[str]) -> bool:
    things = alert.anomaly.things
    return (
        alert.anomaly.kind == "node"
        and not alert.muted_by
        and bool(things)
        and running.isdisjoint(things)
    )


def _saving(alert: Alert, now: datetime) -> Saving:
    assert alert.ended
    assert alert.waste
    ack = alert.acknowledged if _acted(alert) else None
    until = min(now, month_of(alert.ended).end)
    hours = max(Decimal(0), Decimal(str((until - alert.ended).total_seconds())) / 3600)
    so_far = cents(alert.waste.per_hour * hours)
    return Saving(alert, ack.who if ack else "", alert.waste.per_hour, so_far)
