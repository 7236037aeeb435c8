"""Group the alerts of one incident, and decide which channels are notified, and why.

Channels by an alert's labels, and by whom it belongs to.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import chain

from bot.model.alert import Alert, MutedBy, OwnerBy, leading, usd_per_hour_of
from bot.model.anomaly import Anomaly
from bot.model.causes import About, Severity
from bot.model.fleet import Instance, LauncherKind, Stored
from bot.model.money import cents
from bot.model.notification import Notification, NotificationLogEntry, Reason
from bot.model.policy import Policy
from bot.model.reading import Reading
from bot.model.route import LABEL, NODE_GROUP, TAG, Facts, OwnerMap, Route, Routes, distinct, most


@dataclass(frozen=True)
class Incident:
    """Hold the alerts that share one message in one channel, and its last log entry."""

    id: str
    channel: str
    alerts: tuple[Alert, ...]
    entry: NotificationLogEntry | None = None


def group(
    alerts: Sequence[Alert],
    entries: Sequence[NotificationLogEntry],
    channel: str,
    audience: Set[str] | None = None,
) -> list[Incident]:
    """Return the incidents of one channel, oldest first.

    Alerts stay with the message that holds them.

    Firing, unmuted alerts that are for the channel (the ids in `audience`, None = all) and in no
    message yet join an open incident for one of the reasons in `_JOINING`, else begin one: one
    fault is one message. What another alert explains joins its incident. An alert stays with its
    message, whoever it is for by now: its end is shown where its beginning was.
    """
    by_id = {alert.id: alert for alert in alerts}
    audience = by_id.keys() if audience is None else audience

    # The entries of incidents that are not over, not shown to be so, or of which an alert fires
    # again or is billed by now.
    firing = {alert.id for alert in alerts if alert.firing or (alert.waste and alert.waste.billed)}
    opened = {
        entry.id: entry
        for entry in entries
        if entry.channel == channel
        and (entry.pending or not (entry.over and firing.isdisjoint(entry.alerts)))
    }
    members = {
        entry.id: [
            by_id[i] for i in entry.alerts if i in by_id and (entry.message or i in audience)
        ]
        for entry in opened.values()
    }
    grouped = {alert.id for incident in members.values() for alert in incident}
    fresh = [a for a in alerts if a.id not in grouped and a.firing and a.id in audience]
    for alert in fresh:
        if not alert.muted_by:
            # Of several incidents the newest.
            joined = (
                name
                for joins in _JOINING
                for name in reversed(members)
                if joins(alert, members[name])
            )
            name = next(joined, "")

            # What costs more than all of a message about the bill is no further detail of it.
            of_money = alert.cause.facts.about is About.MONEY and name in opened
            if not name or (of_money and alert.usd_per_hour > _per_hour(members[name])):
                name = incident_id(channel, alert)
            members.setdefault(name, []).append(alert)

    # What is explained joins the incident of what explains it, be it one that is itself explained.
    joining = explained = [alert for alert in fresh if alert.muted_by]
    while joining:
        holders = {
            alert.effect_mark: incident
            for incident in members.values()
            for alert in incident
            if alert.firing
        }
        joining = [alert for alert in explained if alert.muted_by in holders]
        explained = [alert for alert in explained if alert.muted_by not in holders]
        for alert in joining:
            holders[alert.muted_by].append(alert)
    return [
        Incident(name, channel, tuple(incident), opened.get(name))
        for name, incident in members.items()
        if incident
    ]


def _explains(alert: Alert, incident: Sequence[Alert]) -> bool:
    """Return whether an alert explains one that was notified of minutes before it was seen.

    A symptom of the cluster counts before this one is wide enough to mute it.
    """
    cluster = alert.anomaly.scope.cluster
    effects = (
        a
        for a in incident
        if a.firing
        and (
            a.muted_by == alert.effect_mark
            or (alert.cause in a.cause.facts.part_of and a.anomaly.scope.cluster == cluster != "")
        )
    )
    sooner = any(effect.opened >= alert.anomaly.window.start for effect in effects)
    return sooner and all(member.key != alert.key for member in incident)


def _is_of_group(alert: Alert, incident: Sequence[Alert]) -> bool:
    """Return whether an incident that goes on is of an alert's group."""
    goes_on = any(a.firing for a in leading(incident))
    return goes_on and group_key(incident[0]) == group_key(alert)


_TOGETHER = timedelta(minutes=15)
"""How long one after the other two alerts open that may be symptoms of one fault."""


def _began_beside(alert: Alert, incident: Sequence[Alert]) -> bool:
    """Return whether an alert began beside another symptom of what may be one fault.

    It may show on some nodes of its cluster as silence, on others as errors, before it is seen as a
    whole.
    """
    faults, scope = set(alert.cause.facts.part_of), alert.anomaly.scope
    return scope.cluster != "" and any(
        a.speaking
        and faults & {*a.cause.facts.part_of}
        and a.anomaly.scope == scope
        and a.owner == alert.owner
        and abs(alert.opened - a.opened) <= _TOGETHER
        for a in incident
    )


_JOINING = (_explains, _is_of_group, _began_beside)
"""Why an alert is told of in the message of an incident, what counts most first."""


def group_key(alert: Alert) -> str:
    """Return the key that alerts of one incident share.

    Cause and cluster, or the account for causes of money.

    What is planned for a cluster's nodes is an incident of its own: an interruption is no further
    detail of it. So is what befalls another job of the cluster later, or another owner's nodes.
    """
    where = alert.anomaly.scope
    if alert.cause.facts.about is About.MONEY:
        return f"money/{where.account}"
    job = where.job if alert.cause.facts.about is About.NODES else ""
    apart = (where.cluster and where.resource) or job
    return "/".join(
        filter(None, (alert.anomaly.rule, where.cluster or where.account or where.region, apart))
    )


def incident_id(channel: str, first: Alert) -> str:
    """Return the incident's id.

    The same for the same channel and first alert, so that a repeat is recognised.
    """
    return "n" + hashlib.sha256(f"{channel}|{first.id}".encode()).hexdigest()[:11]


_LEAST_GROWTH_USD = Decimal(100)
"""A message follows its cost by doublings, each worth at least this much.

A handful of edits a day, none for small change.
"""
_FRESH = timedelta(hours=1)
"""How old the dollars of a message may be, where they go on."""
UNTOLD = timedelta(days=1)
"""How long after its end an incident is still notified of, where that was not possible before."""
_GROWN, _SHRUNK = 1.2, 0.8
"""Shares of the things last notified of beyond which more or fewer is worth an edit.

Single nodes come and go.
"""


def notification_of(incident: Incident, policy: Policy, now: datetime) -> Notification | None:
    """Return the notification that an incident calls for now.

    What is new, else what its message does not show yet; or None.
    """
    entry = incident.entry
    if reason := _reason(incident, policy, now):
        return Notification(incident.id, incident.channel, reason, now, incident.alerts)
    if entry is None or not entry.pending or not (entry.message or sendable(incident.alerts, now)):
        return None
    return Notification(
        incident.id, incident.channel, entry.reason, now, incident.alerts, owed=True
    )


def sendable(alerts: Sequence[Alert], now: datetime) -> bool:
    """Return whether an incident without a message is still worth one.

    One of its alerts speaks, or it ended not long ago.
    """
    if any(alert.firing for alert in alerts):
        return any(alert.speaking for alert in alerts)
    return not too_late(alerts, now)


def log_entry_of(notification: Notification, message: str) -> NotificationLogEntry:
    """Return the log entry of a notification.

    Before it is sent (`message` is ""), or after, with the message's id.
    """
    return NotificationLogEntry(
        id=notification.id,
        channel=notification.channel,
        reason=notification.reason,
        at=notification.at,
        alerts=tuple(alert.id for alert in notification.alerts),
        things=_things(notification.alerts),
        usd_per_hour=_per_hour(notification.alerts),
        usd_so_far=_so_far(notification.alerts),
        digest=_decided(notification.alerts),
        message=message,
        over=notification.reason is Reason.OVER,
        pending=not message,
    )


def decided_entry(
    notification: Notification, before: NotificationLogEntry | None
) -> NotificationLogEntry:
    """Return the entry to write before anything is sent.

    One that is only owed stays as it was decided.
    """
    if before is None:
        return log_entry_of(notification, "")
    if notification.owed:
        return before
    entry = replace(
        log_entry_of(notification, before.message), pending=True, version=before.version + 1
    )
    # What grows slowly is compared with what was notified of it, not with the last hour.
    if notification.reason is Reason.UPDATED:
        return replace(
            entry, things=before.things, usd_per_hour=before.usd_per_hour, over=before.over
        )
    return entry


def _reason(incident: Incident, policy: Policy, now: datetime) -> Reason | None:
    """Return why the channel is to be notified now, None where nothing is new."""
    entry, alerts = incident.entry, incident.alerts
    speaking = [alert for alert in alerts if alert.speaking]
    # Nobody was ever notified of it.
    if entry is None or (entry.over and not entry.message and not entry.pending):
        return Reason.FIRST if speaking else None
    repriced = cents(_so_far(alerts)) != cents(entry.usd_so_far)
    if not any(alert.firing for alert in leading(alerts)):
        # Also of a message that is not sent yet: it may have been, after all.
        ended = Reason.OVER if entry.message or sendable(alerts, now) else None
        # The bill may come after an end was shown; alerts that the state knows no more cost as ever.
        known = {alert.id for alert in alerts}.issuperset(entry.alerts)
        corrected = Reason.UPDATED if entry.message and repriced and known else None
        return corrected if entry.over else ended
    if entry.over:
        return Reason.MORE if speaking else None
    if _decided(alerts) != entry.digest:
        return Reason.DECIDED

    # A reminder is due at each multiple of the interval since people were told, however often the
    # message was edited meanwhile.
    interval = policy.duration("alert.remind_after")
    due = any(
        (now - a.notified_at) // interval
        > (max(entry.at, a.notified_at) - a.notified_at) // interval
        for a in speaking
        if a.severity is Severity.CRITICAL and a.acknowledged is None
    )
    reason = Reason.REMINDER if due else None
    if speaking and (reason := reason or _grown(entry, alerts, policy)):
        return reason

    # The dollars are said anew each hour, also in a message that is muted: it stands to be read.
    stale = entry.message and now - entry.at >= _FRESH
    return Reason.UPDATED if stale and repriced else None


def too_late(alerts: Sequence[Alert], now: datetime) -> bool:
    """Return whether alerts ended so long ago that nobody needs to be notified any more."""
    return all(alert.closed is not None and now - alert.closed >= UNTOLD for alert in alerts)


def _grown(entry: NotificationLogEntry, alerts: Sequence[Alert], policy: Policy) -> Reason | None:
    """Return MORE, FEWER or WORSE beside the last notification, None where little changed."""
    things, per_hour, so_far = _things(alerts), _per_hour(alerts), _so_far(alerts)
    if set(entry.alerts) < {alert.id for alert in alerts} or things > entry.things * _GROWN:
        return Reason.MORE
    lost_before = any(alert.anomaly.lost_hours for alert in alerts)
    # A message that is drawn of an alert that has ended would still say that it fires.
    ended = any(alert.closed and alert.closed > entry.at for alert in leading(alerts))
    shrunk = ended or things < entry.things * _SHRUNK
    if shrunk or (entry.usd_per_hour and not per_hour and lost_before):
        return Reason.FEWER

    factor = Decimal(str(policy.number("alert.worse_factor")))
    faster = entry.usd_per_hour and per_hour > entry.usd_per_hour * factor
    doubled = entry.usd_so_far and so_far >= max(
        2 * entry.usd_so_far, entry.usd_so_far + _LEAST_GROWTH_USD
    )
    return Reason.WORSE if faster or doubled else None


def _things(alerts: Sequence[Alert]) -> int:
    return sum(max(1, len(alert.anomaly.things)) for alert in leading(alerts) if alert.firing)


def _per_hour(alerts: Sequence[Alert]) -> Decimal:
    return usd_per_hour_of(a for a in leading(alerts) if a.firing)


def _so_far(alerts: Sequence[Alert]) -> Decimal:
    return sum((a.waste.so_far for a in leading(alerts) if a.waste), Decimal(0))


def _decided(alerts: Sequence[Alert]) -> str:
    """Return a fingerprint of people's decisions: acknowledgements, silences and assignments.

    Of an alert that nobody assigned, as it was before alerts could be.
    """
    marks = []
    for alert in alerts:
        ack = alert.acknowledged.id if alert.acknowledged else ""
        silence = alert.muted_by if MutedBy.SILENCE.marks(alert) else ""
        assignment = (alert.assignment.id,) if alert.assignment else ()
        if ack or silence or any(assignment):
            marks.append((alert.id, ack, silence, *assignment))
    return hashlib.sha256(repr(marks).encode()).hexdigest()[:16]


def route(alert: Alert, routes: Routes) -> tuple[str, ...]:
    """Return the channels that the alert is for, each once.

    Every route that fits adds its channels, and so does the owner's. The default hears what no
    route of the settings and no channel of an owner takes, and what has no owner; the second
    audience hears what is bought or kept for nothing too, not what runs badly.
    """
    fitting = [candidate for candidate in routes.routes if fits(candidate, alert)]
    owners = routes.mapping.channels.get(alert.owner.lower(), ())
    from_settings = any(not fit.by for fit in fitting)
    default = routes.default
    if owners or (from_settings and routes.owner_among(alert.owners)):
        default = ()
    channels = [channel for fit in fitting for channel in fit.to]
    return distinct([*default, *channels, *owners, *routes.finops_of(alert.cause)])


def fits(route: Route, alert: Alert) -> bool:
    """Return whether the alert has everything that the route asks for."""
    return (
        route.selector.selects(alert.anomaly.scope.merge(alert.anomaly.labels))
        and route.cause in {"", alert.cause.value}
        and route.severity in {"", alert.severity.value}
    )


def audience(alert: Alert, routes: Routes, policy: Policy, now: datetime) -> tuple[str, ...]:
    """Return the channels of the alert at `now`.

    Those of a second route too, once it stood unacknowledged for too long since it notifies.
    """
    late = now - alert.notified_at >= policy.duration("alert.escalate_after")
    urgent = alert.firing and alert.severity is Severity.CRITICAL and alert.acknowledged is None
    return distinct([*route(alert, routes), *(routes.escalate if urgent and late else ())])


def listeners(
    entries: Sequence[NotificationLogEntry],
    channels: Sequence[str],
    audiences: Sequence[tuple[str, ...]],
) -> tuple[str, ...]:
    """Return every channel to consider.

    Those of every alert, those of some alert now, and those that hold a message already.
    """
    notified = [entry.channel for entry in entries if entry.message]
    return tuple(dict.fromkeys([*channels, *chain(*audiences), *notified]))


def with_owner(alert: Alert, reading: Reading, mapping: OwnerMap) -> Alert:
    """Return an alert that is seen now with its owner.

    One whom tags or labels name stays, one of the mapping is asked anew.
    """
    if alert.seen != reading.now or (alert.owner and alert.owner_by is not OwnerBy.FILE):
        return alert
    owner, by = owner_of(alert.anomaly, reading, mapping)
    return replace(alert, owner=owner, owner_by=by)


def owner_of(anomaly: Anomaly, reading: Reading, mapping: OwnerMap) -> tuple[str, OwnerBy]:
    """Return who has most of the things and how it is told.

    Owner tags, else Kubernetes labels, else the mapping, else nobody.
    """
    described = _described(anomaly, reading)
    if owner := _named(thing.owner for thing in described):
        return owner, OwnerBy.TAG
    nodes = [thing for thing in described if isinstance(thing, Instance)]
    if owner := _named(node.labelled_owner for node in nodes):
        return owner, OwnerBy.LABEL
    owner = mapping.owner(facts_of(anomaly, reading))
    return owner, OwnerBy.FILE if owner else OwnerBy.TAG


def facts_of(anomaly: Anomaly, reading: Reading) -> Iterator[Facts]:
    """Yield the facts of each thing; of an anomaly without described things, its labels."""
    shared = anomaly.scope.merge(anomaly.labels)
    described = _described(anomaly, reading)
    for thing in described:
        facts = dict(thing.labels.merge(shared))
        facts |= {f"{TAG}{name}": value for name, value in thing.tags.items()}
        if isinstance(thing, Instance):
            facts[NODE_GROUP] = thing.node_group
            facts |= {f"{LABEL}{name}": value for name, value in thing.node_labels.items()}
        yield facts
    if not described:
        yield dict(shared)


def _described(anomaly: Anomaly, reading: Reading) -> list[Instance | Stored]:
    """Return the things of an anomaly that the inventory describes."""
    inventory = reading.inventory
    things = (inventory.instances.get(x) or inventory.resource(x) for x in anomaly.things)
    return [thing for thing in things if thing]


def claims_of(anomaly: Anomaly, reading: Reading) -> tuple[str, ...]:
    """Return who else an anomaly may belong to.

    Who has its namespace, then the person or role that launched most of it.
    """
    namespace = anomaly.scope.namespace or anomaly.labels.namespace
    launches = (reading.inventory.launcher(thing) for thing in anomaly.things)
    launcher = _named(by.name for by in launches if by and by.kind is not LauncherKind.MACHINE)
    claims = {"namespace": namespace, "launcher": launcher}
    return tuple(f"{kind}:{name}" for kind, name in claims.items() if name)


def launcher_of(things: Iterable[str], reading: Reading) -> str:
    """Return in words who or what launched most of the things, "" where nobody tells."""
    return _named(str(by) for thing in things if (by := reading.inventory.launcher(thing)))


def _named(names: Iterable[str]) -> str:
    return most(Counter(name for name in names if name))
