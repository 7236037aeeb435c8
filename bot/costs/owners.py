"""Name the likely owner of untagged cost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from bot.model.codec import by_key
from bot.model.fleet import FileSystem, Inventory, Volume
from bot.model.labels import SHARED_NAMESPACES, Labels
from bot.model.money import counted
from bot.model.spend import Spend

_ENDING = re.compile(r"(-[a-z0-9]{8,10}-[a-z0-9]{5}|-[a-z0-9]{5}|-\d+)$")
"""The endings that controllers of Kubernetes add to a job's name.

Hash and suffix of a ReplicaSet, suffix of a Job, ordinal.
"""


def derived_owner(pod: Labels) -> tuple[str, str]:
    """Return the owner of a pod and the label it was derived from, ("", "") for none."""
    if pod.namespace not in SHARED_NAMESPACES:
        return pod.namespace, "namespace"
    job = pod.job or _ENDING.sub("", pod.pod)
    return (job, "job") if job else ("", "")


@dataclass(frozen=True)
class OwnerHint:
    """State the likely owner of some untagged cost: `owner` is "" where nothing names one.

    `things` are its resources.
    """

    owner: str
    by: str
    amortised: Decimal
    things: tuple[str, ...]


def owner_hints(rows: Iterable[Spend], inventory: Inventory) -> list[OwnerHint]:
    """Return hints for rows keyed by resource, cluster and namespace, dearest first.

    Rows of one hint are one.
    """
    places = (instance.labels for instance in inventory.instances.values())
    nodes = by_key((x.cluster, x.team) for x in places if x.cluster and x.team)
    teams = {cluster: Counter(of_cluster) for cluster, of_cluster in nodes.items()}

    names = {name: _words(name) for name in {team for counts in teams.values() for team in counts}}
    by_hint = by_key((_hint(row.key, inventory, teams, names), row) for row in rows)
    hints = (
        OwnerHint(
            *hint,
            sum((row.money.amortised for row in of_hint), Decimal(0)),
            tuple(dict.fromkeys(row.key["resource"] for row in of_hint if row.key["resource"])),
        )
        for hint, of_hint in by_hint.items()
    )
    return sorted(hints, key=lambda hint: (not hint.owner, -hint.amortised, hint.owner))


def _hint(
    key: Mapping[str, str],
    inventory: Inventory,
    teams: Mapping[str, Counter[str]],
    names: Mapping[str, Sequence[str]],
) -> tuple[str, str]:
    """Return the surest hint.

    A person who launched it, an owner tag, a name, its namespace, its neighbours.
    """
    resource = key["resource"].rpartition("/")[2]
    launcher = inventory.launcher(resource)
    if launcher and launcher.person:
        return launcher.person, f"launched it ({launcher.event or 'tag'})"
    instance = inventory.instances.get(resource)
    if instance and instance.owner:
        return instance.owner, "owner tag"

    stored: list[Volume | FileSystem] = [*inventory.volumes, *inventory.file_systems]
    thing = instance or next((x for x in stored if x.labels.resource == resource), None)
    name = thing.tags.get("Name", "") if thing else ""
    words = f" {' '.join(_words(name))} "
    for team, of_team in sorted(names.items()):
        if of_team and f" {' '.join(of_team)} " in words:
            return team, f"named {name}"

    if key["namespace"]:
        return key["namespace"], "namespace"
    cluster = key["cluster"] or (instance.labels.cluster if instance else "")
    if neighbours := teams.get(cluster):
        team, n = neighbours.most_common(1)[0]
        return team, f"team of {counted(n, 'other node')} of {cluster}"
    return (str(launcher), "launched it") if launcher else ("", "")


def _words(name: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[a-z0-9]+", name.lower()))
