"""Find whom an alert belongs to.

By tags, by labels of Kubernetes, by the mapping file, and who else may know of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from bot.model.alert import Alert, OwnerBy
from bot.model.anomaly import Anomaly
from bot.model.fleet import Instance, LauncherKind, Stored
from bot.model.labels import Labels
from bot.model.owners import LABEL, NODE_GROUP, TAG, Facts, OwnerMap, most
from bot.model.reading import Reading


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
    described = [one for thing in anomaly.things if (one := _described(thing, reading))]
    if owner := _named(one.owner for one in described):
        return owner, OwnerBy.TAG
    if owner := _named(one.labelled_owner for one in described if isinstance(one, Instance)):
        return owner, OwnerBy.LABEL
    owner = mapping.owner(facts_of(anomaly, reading))
    return owner, OwnerBy.FILE if owner else OwnerBy.TAG


def facts_of(anomaly: Anomaly, reading: Reading) -> Iterator[Facts]:
    """Yield the facts of each thing; of an anomaly without described things, its labels."""
    shared = anomaly.scope.merge(anomaly.labels)
    described = [one for thing in anomaly.things if (one := _described(thing, reading))]
    for one in described:
        yield _facts(one.labels.merge(shared), one)
    if not described:
        yield dict(shared)


def _facts(labels: Labels, thing: Instance | Stored) -> Facts:
    facts = dict(labels) | {f"{TAG}{name}": value for name, value in thing.tags.items()}
    if not isinstance(thing, Instance):
        return facts
    return (
        facts
        | {NODE_GROUP: thing.node_group}
        | {f"{LABEL}{name}": value for name, value in thing.node_labels.items()}
    )


def _described(thing: str, reading: Reading) -> Instance | Stored | None:
    return reading.inventory.instances.get(thing) or reading.inventory.resource(thing)


def claims_of(anomaly: Anomaly, reading: Reading) -> tuple[str, ...]:
    """Return who else an anomaly may belong to.

    Who has its namespace, then the person or role that launched most of it.
    """
    namespace = anomaly.scope.namespace or anomaly.labels.namespace
    launches = (reading.inventory.launcher(thing) for thing in anomaly.things)
    launcher = _named(one.name for one in launches if one and one.kind is not LauncherKind.MACHINE)
    return tuple(
        f"{kind}:{found}"
        for kind, found in (("namespace", namespace), ("launcher", launcher))
        if found
    )


def launcher_of(things: Iterable[str], reading: Reading) -> str:
    """Return in words the person or machine that launched most of the things, "" where nobody tells."""
    return _named(str(by) for thing in things if (by := reading.inventory.launcher(thing)))


def _named(names: Iterable[str]) -> str:
    return most(Counter(name for name in names if name))
