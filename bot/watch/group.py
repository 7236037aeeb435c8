"""Join alerts of one incident into what one message shows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence, Set
from dataclasses import dataclass

from bot.model.alert import Alert, NotificationLogEntry
from bot.model.causes import About


@dataclass(frozen=True)
class Incident:
    """Hold the alerts one channel hears of together, and what it was told of them last."""

    id: str
    channel: str
    alerts: tuple[Alert, ...]
    said: NotificationLogEntry | None = None


def group(
    alerts: Sequence[Alert], said: Sequence[NotificationLogEntry], channel: str, hears: Set[str] | None = None
) -> list[Incident]:
    """Return the incidents of one channel, oldest first: alerts stay with the message that told of them.

    Firing, unmuted alerts that the channel `hears` (ids, None = all) and no message holds yet join an open incident of the
    same group, else begin one. What a message told of stays with it, whoever the alert is for by now: its end is told where
    its beginning was.
    """
    by_id = {alert.id: alert for alert in alerts}
    meant = by_id.keys() if hears is None else hears
    held: dict[str, list[Alert]] = {}
    firing = {alert.id for alert in alerts if alert.firing}
    opened = {s.id: s for s in said if s.channel == channel and not (s.over and firing.isdisjoint(s.alerts))}
    for one in opened.values():
        held[one.id] = [by_id[i] for i in one.alerts if i in by_id and (one.message or i in meant)]
    told = {alert.id for members in held.values() for alert in members}
    groups = {group_key(members[0]): sid for sid, members in held.items() if any(a.firing for a in members)}
    for alert in alerts:
        if alert.id in told or not alert.firing or alert.muted_by or alert.id not in meant:
            continue
        sid = groups.setdefault(group_key(alert), incident_id(channel, alert))
        held.setdefault(sid, []).append(alert)
    return [Incident(sid, channel, tuple(members), opened.get(sid)) for sid, members in held.items() if members]


def group_key(alert: Alert) -> str:
    """Return what alerts of one incident have in common: cause and cluster, or the account for causes of money."""
    where = alert.anomaly.scope
    if alert.cause.facts.about is About.MONEY:
        return f"money/{where.account}"
    return f"{alert.anomaly.rule}/{where.cluster or where.account or where.region}"


def incident_id(channel: str, first: Alert) -> str:
    """Return the incident's id: the same for the same channel and first alert, so that a repeat is recognised."""
    return "n" + hashlib.sha256(f"{channel}|{first.id}".encode()).hexdigest()[:11]
