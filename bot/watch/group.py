"""Group the alerts of one incident, which share one message."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from bot.model.alert import Alert, leading
from bot.model.causes import About
from bot.model.notification import NotificationLogEntry


@dataclass(frozen=True)
class Incident:
    """Hold the alerts that share one message in one channel, and the log entry of its last notification."""

    id: str
    channel: str
    alerts: tuple[Alert, ...]
    entry: NotificationLogEntry | None = None


def group(
    alerts: Sequence[Alert],
    entries: Sequence[NotificationLogEntry],
    channel: str,
    meant: Set[str] | None = None,
) -> list[Incident]:
    """Return the incidents of one channel, oldest first.

    Alerts stay with the message that holds them.

    Firing, unmuted alerts that are `meant` for the channel (ids, None = all) and in no message yet
    join an open incident of the same group, else begin one. What another alert explains joins its
    incident, and what explains an alert that was notified of minutes before joins that: one fault
    is one message. An alert stays with its message, whoever it is for by now: its end is shown
    where its beginning was.
    """
    by_id = {alert.id: alert for alert in alerts}
    meant = by_id.keys() if meant is None else meant
    opened = _open_entries(alerts, entries, channel)
    members: dict[str, list[Alert]] = {}
    for entry in opened.values():
        members[entry.id] = [
            by_id[i] for i in entry.alerts if i in by_id and (entry.message or i in meant)
        ]
    grouped = {alert.id for some in members.values() for alert in some}
    groups = {
        group_key(some[0]): incident
        for incident, some in members.items()
        if any(a.firing for a in leading(some))
    }
    fresh = [
        alert for alert in alerts if alert.id not in grouped and alert.firing and alert.id in meant
    ]
    for alert in fresh:
        if not alert.muted_by:
            incident = _of_effects(alert, members) or groups.setdefault(
                group_key(alert), incident_id(channel, alert)
            )
            members.setdefault(incident, []).append(alert)
    _join([alert for alert in fresh if alert.muted_by], members)
    return [
        Incident(name, channel, tuple(some), opened.get(name))
        for name, some in members.items()
        if some
    ]


def _of_effects(alert: Alert, members: Mapping[str, Sequence[Alert]]) -> str:
    """Return the incident of an alert that this one explains, and that was notified of no longer before it than it is seen."""
    for incident, some in members.items():
        effects = [one for one in some if one.firing and one.muted_by == f"inhibit:{alert.key}"]
        if any(one.opened >= alert.anomaly.window.start for one in effects) and alert.key not in {
            one.key for one in some
        }:
            return incident
    return ""


def _join(explained: Sequence[Alert], members: dict[str, list[Alert]]) -> None:
    """Add alerts to the incident of what explains them, be it one that is itself explained."""
    left = list(explained)
    while left:
        holds = {
            f"inhibit:{one.key}": incident
            for incident, some in members.items()
            for one in some
            if one.firing
        }
        joining = [alert for alert in left if alert.muted_by in holds]
        if not joining:
            return
        for alert in joining:
            members[holds[alert.muted_by]].append(alert)
            left.remove(alert)


def _open_entries(
    alerts: Sequence[Alert], entries: Sequence[NotificationLogEntry], channel: str
) -> dict[str, NotificationLogEntry]:
    """Return the channel's entries of incidents that are not over, not shown to be so, or of which an alert fires again."""
    firing = {alert.id for alert in alerts if alert.firing}
    theirs = (entry for entry in entries if entry.channel == channel)
    return {
        entry.id: entry
        for entry in theirs
        if entry.pending or not (entry.over and firing.isdisjoint(entry.alerts))
    }


def group_key(alert: Alert) -> str:
    """Return the key that alerts of one incident share.

    Cause and cluster, or the account for causes of money.

    What is planned for a cluster's nodes is an incident of its own: an interruption is no further
    detail of it. So is what befalls another job of the cluster later.
    """
    where = alert.anomaly.scope
    if alert.cause.facts.about is About.MONEY:
        return f"money/{where.account}"
    apart = where.resource if where.cluster else ""
    apart = apart or (where.job if alert.cause.facts.of_job else "")
    return "/".join(
        filter(None, (alert.anomaly.rule, where.cluster or where.account or where.region, apart))
    )


def incident_id(channel: str, first: Alert) -> str:
    """Return the incident's id.

    The same for the same channel and first alert, so that a repeat is recognised.
    """
    return "n" + hashlib.sha256(f"{channel}|{first.id}".encode()).hexdigest()[:11]
