"""Decide whether a channel hears something, and why: a Reason, not a bool."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from bot.model.alert import Alert, Notification, NotificationLogEntry, Reason
from bot.model.anomaly import Severity
from bot.model.policy import Policy
from bot.watch.group import Incident

_LEAST_GROWTH_USD = Decimal(100)
"""A message follows its cost by doublings, each worth at least this much: a handful of edits a day, none for small change."""
UNTOLD = timedelta(days=1)
"""How long after its end an incident that could not be told is still told."""
_GROWN, _SHRUNK = 1.2, 0.8
"""Shares of the things last told beyond which more or fewer is worth an edit; single nodes come and go."""


def notifications_of(incident: Incident, policy: Policy, now: datetime) -> Notification | None:
    """Return what to say of an incident now, or None."""
    reason = _reason(incident, policy, now)
    return Notification(incident.id, incident.channel, reason, now, incident.alerts) if reason else None


def log_entry_of(notice: Notification, message: str) -> NotificationLogEntry:
    """Return what to remember after (with the message's id) or before (with "") a notice is sent."""
    return NotificationLogEntry(
        id=notice.id,
        channel=notice.channel,
        reason=notice.reason,
        at=notice.at,
        alerts=tuple(alert.id for alert in notice.alerts),
        things=_things(notice.alerts),
        usd_per_hour=_per_hour(notice.alerts),
        usd_so_far=_so_far(notice.alerts),
        digest=_decided(notice.alerts),
        message=message,
        over=notice.reason is Reason.OVER,
    )


def _reason(incident: Incident, policy: Policy, now: datetime) -> Reason | None:
    said, alerts = incident.said, incident.alerts
    speaking = [alert for alert in alerts if alert.firing and not alert.muted_by]
    over = not any(alert.firing for alert in alerts)
    if said is None or not said.message:  # of what ended before it could be told, the end is told: perhaps it was, after all
        return Reason.FIRST if speaking else Reason.OVER if said and over and not too_late(alerts, now) else None
    if over:
        return Reason.OVER
    if said.over:
        return Reason.MORE if speaking else None
    if _decided(alerts) != said.digest:
        return Reason.DECIDED
    if not speaking:
        return None
    return _reminder(said, speaking, policy, now) or _grown(said, alerts, policy)


def too_late(alerts: Sequence[Alert], now: datetime) -> bool:
    """Tell whether alerts, none of which was told, ended so long ago that nobody needs to hear of them."""
    return all(alert.closed is not None and now - alert.closed >= UNTOLD for alert in alerts)


def _grown(said: NotificationLogEntry, alerts: Sequence[Alert], policy: Policy) -> Reason | None:
    things, per_hour = _things(alerts), _per_hour(alerts)
    if set(said.alerts) < {alert.id for alert in alerts} or things > said.things * _GROWN:
        return Reason.MORE
    if things < said.things * _SHRUNK or (said.usd_per_hour and not per_hour and any(a.anomaly.lost_hours for a in alerts)):
        return Reason.FEWER
    factor = Decimal(str(policy.number("alert.worse_factor")))
    faster = said.usd_per_hour and per_hour > said.usd_per_hour * factor
    doubled = said.usd_so_far and _so_far(alerts) >= max(2 * said.usd_so_far, said.usd_so_far + _LEAST_GROWTH_USD)
    return Reason.WORSE if faster or doubled else None


def _reminder(said: NotificationLogEntry, speaking: Sequence[Alert], policy: Policy, now: datetime) -> Reason | None:
    """Remind at each multiple of `alert.remind_after` since the opening, however often the message was edited meanwhile."""
    every = policy.duration("alert.remind_after")
    urgent = [a for a in speaking if a.severity is Severity.CRITICAL and a.acknowledged is None]
    due = any((now - a.opened) // every > (max(said.at, a.opened) - a.opened) // every for a in urgent)
    return Reason.REMINDER if due else None


def _things(alerts: Sequence[Alert]) -> int:
    return sum(max(1, len(alert.anomaly.things)) for alert in alerts if alert.firing)


def _per_hour(alerts: Sequence[Alert]) -> Decimal:
    return sum((a.waste.per_hour for a in alerts if a.firing and a.waste), Decimal(0))


def _so_far(alerts: Sequence[Alert]) -> Decimal:
    return sum((a.waste.so_far for a in alerts if a.waste), Decimal(0))


def _decided(alerts: Sequence[Alert]) -> str:
    """Return a fingerprint of what people decided: acknowledgements and silences."""
    marks = [
        (a.id, a.acknowledged.id if a.acknowledged else "", a.muted_by if a.muted_by.startswith("silence:") else "")
        for a in alerts
    ]
    return hashlib.sha256(repr([m for m in marks if m[1] or m[2]]).encode()).hexdigest()[:16]
