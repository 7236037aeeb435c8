"""Choose the channels of an alert by its labels, and find whom it belongs to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain

from bot.model.alert import Alert, OwnerBy
from bot.model.anomaly import Anomaly
from bot.model.causes import Severity
from bot.model.fleet import Instance, LauncherKind, Stored
from bot.model.notification import NotificationLogEntry
from bot.model.policy import Policy
from bot.model.reading import Reading
from bot.model.route import LABEL, NODE_GROUP, TAG, Facts, OwnerMap, Route, Routes, distinct, most


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
    labels = alert.anomaly.scope.merge(alert.anomaly.labels)
    return (
        route.selector.selects(labels)
        and route.cause in {"", alert.cause.value}
        and route.severity in {"", alert.severity.value}
    )


def audience(alert: Alert, routes: Routes, policy: Policy, now: datetime) -> tuple[str, ...]:
    """Return the channels of the alert at `now`.

    Those of a second route too, once it stood unacknowledged for too long.
    """
    late = now - alert.opened >= policy.duration("alert.escalate_after")
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
