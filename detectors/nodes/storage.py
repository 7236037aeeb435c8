"""Find storage and capacity that is paid for and not used: volumes, file systems, reservations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from bot.model.anomaly import Anomaly
from bot.model.causes import Cause
from bot.model.fleet import FileSystem, Reservation, Volume
from bot.model.labels import Labels
from bot.model.money import counted
from bot.model.reading import (
    BEYOND,
    Throughput,
    detached_since,
    own_frame,
    quiet_since,
    quiet_steps,
    throughput_of,
)
from detectors.arrays import Rows
from detectors.rule import Explanation, Subject, anomaly_of
from detectors.view import View
from detectors.words import lasted, percent, volume_rate

FILE_SYSTEM_SUGGESTIONS = (
    "Export what is worth keeping to S3 and delete the file system; a scratch copy is quickly made again.",
)
_SOON = timedelta(hours=1)
_CLIENTS = "fsx_client_connections_count"


def orphan_anomalies(view: View) -> Iterator[Anomaly]:
    """Yield one anomaly for each volume or file system that nobody used for `orphaned_storage.for`."""
    for volume in view.reading.inventory.volumes:
        since = (
            _detached(view, volume)
            if _long_enough(view, volume.labels, volume.created_at)
            else None
        )
        if since is not None and _long_enough(view, volume.labels, since):
            name = f"Volume of {volume.size_gib:,} GiB"
            yield _orphan_anomaly(
                view, _Orphan(volume.labels, since, "volume", name, "attached to nothing")
            )
    for system in view.reading.inventory.file_systems:
        since = _idle_since(view, system)
        if since is not None and _long_enough(view, system.labels, since):
            name, symptom = (
                f"FSx file system of {system.storage_gib:,} GiB",
                "no client and no operation",
            )
            orphan = _Orphan(
                system.labels,
                since,
                "file_system",
                name,
                symptom,
                FILE_SYSTEM_SUGGESTIONS,
                _CLIENTS,
            )
            yield _orphan_anomaly(view, orphan)


@dataclass(frozen=True)
class _Orphan:
    """Describe a volume or file system that nobody uses."""

    labels: Labels
    since: datetime
    kind: str
    name: str
    symptom: str
    suggestions: tuple[str, ...] | None = None
    metric: str = ""


def unused_capacity_anomalies(view: View) -> Iterator[Anomaly]:
    """Yield one anomaly for each reservation with empty places, `unused_capacity.for` after its start or after a node left."""
    for one in view.reading.inventory.reservations:
        policy = view.policy.at(one.labels)
        running = one.starts_at + policy.duration("unused_capacity.for") <= view.now and (
            one.ends_at is None or view.now < one.ends_at
        )
        patience = policy.duration("unused_capacity.for")
        if (
            policy.on("unused_capacity.on")
            and running
            and one.total > 0
            and one.available > _just_left(view, one, patience)
        ):
            yield _unused(view, one)


def _just_left(view: View, one: Reservation, patience: timedelta) -> int:
    """Return how many nodes that may have stood in a reservation ended within `patience`.

    Their places are being filled again.
    """
    if one.available <= 0 or view.is_open(Cause.UNUSED_CAPACITY.value):
        return 0
    left = ~view.roster.running & (view.silent_steps < view.window.steps(patience))
    kinds = (view.roster.labels[row] for row in np.flatnonzero(left))
    return sum(
        x.instance_type == one.labels.instance_type and _same_place(x, one.labels) for x in kinds
    )


_NEAR = 0.8
"""Share of the provisioned throughput from which a file system that no tag ties to a cluster is named."""
_NAMED = 2
_DAY = timedelta(days=1)


def file_system_loads(view: View, rows: Rows) -> list[Throughput]:
    """Return the busiest file systems of the nodes' cluster.

    Else untagged ones of its region near their limit.
    """
    place = Labels.shared(view.roster.labels[row] for row in rows)
    systems, frame = view.reading.inventory.file_systems, view.reading.frame("file_system")
    mine = [x for x in systems if place.cluster and x.labels.cluster == place.cluster]
    near = [x for x in systems if not x.labels.cluster and _same_place(x.labels, place)]
    loads = [load for x in (mine or near) if (load := throughput_of(x, frame, _DAY))]
    told = [load for load in loads if mine or (load.share >= _NEAR and load.peak_share < BEYOND)]
    return sorted(told, key=lambda load: (-load.share, load.system.labels.resource))[:_NAMED]


def load_words(load: Throughput) -> str:
    """Read as `FSx fs-0ab reads 1.9 of 2.0 GB/s: 95 % of what is provisioned`."""
    verb = (
        "reads"
        if load.reads >= 0.9 * load.now
        else "writes"
        if load.reads <= 0.1 * load.now
        else "reads and writes"
    )
    moved = volume_rate(load.now, load.provisioned)
    more = " (from a cache or by burst credits)" if load.share >= BEYOND else ""
    return f"FSx {load.system.labels.resource} {verb} {moved}: {percent(load.share)} of what is provisioned{more}"


def more_throughput(loads: Iterable[Throughput]) -> tuple[str, ...]:
    """Return what to do about file systems that are held to their limit."""
    full = [load.system.labels.resource for load in loads if load.held_back]
    return tuple(
        f"Raise the throughput of {name} (PerUnitStorageThroughput), or its size: it is at its limit."
        for name in full
    )


def _same_place(one: Labels, other: Labels) -> bool:
    return all(
        not mine or not theirs or mine == theirs
        for mine, theirs in ((one.region, other.region), (one.account, other.account))
    )


def _unused(view: View, one: Reservation) -> Anomaly:
    share = one.available / one.total
    explanation = Explanation(
        why=f"{one.available} of {counted(one.total, 'reserved instance')}"
        f" ({one.labels.instance_type}, {one.market}) stand empty.",
        value=float(one.available),
        unit="count",
        usual=(0.0, 0.0),
        score=0.9,
        evidence=(f"{percent(share)} of the reservation unused",),
    )
    resource, start = one.labels.resource, max(one.starts_at, view.now - timedelta(hours=1))
    subject = Subject(Labels(resource=resource), one.labels, (resource,), start, (share,))
    return anomaly_of(view, Cause.UNUSED_CAPACITY, subject, explanation)


def _orphan_anomaly(view: View, orphan: _Orphan) -> Anomaly:
    length = view.now - orphan.since
    explanation = Explanation(
        why=f"{orphan.name}: {orphan.symptom} for {lasted(length)}.",
        value=length.total_seconds(),
        unit="seconds",
        score=0.9,
        suggestions=orphan.suggestions,
        metric=orphan.metric,
        kind=orphan.kind,
    )
    resource = orphan.labels.resource
    subject = Subject(Labels(resource=resource), orphan.labels, (resource,), orphan.since, (1.0,))
    return anomaly_of(view, Cause.ORPHANED_STORAGE, subject, explanation)


def _long_enough(view: View, labels: Labels, since: datetime) -> bool:
    policy = view.policy.at(labels)
    return policy.on("orphaned_storage.on") and view.now - since >= policy.duration(
        "orphaned_storage.for"
    )


def _detached(view: View, volume: Volume) -> datetime | None:
    """Return since when a volume is attached to nothing; what an open alert knows is not forgotten."""
    since = detached_since(volume, view.reading.frame("volume"))
    if since is None or not view.is_open(Cause.ORPHANED_STORAGE.value):
        return since
    alert = view.open.get((Cause.ORPHANED_STORAGE.value, Labels(resource=volume.labels.resource)))
    return min(since, alert.anomaly.window.start) if alert else since


def _idle_since(view: View, system: FileSystem) -> datetime | None:
    """Return since when nobody used a file system.

    No client, no operation, and readings that say so.
    """
    frame = view.reading.frame("file_system")
    own = own_frame(frame, system.labels.resource)
    if own is None or not quiet_steps(own.last(_SOON))[0].all():
        return None
    longest = view.policy.at(system.labels).duration("orphaned_storage.for")
    part = own.last(longest)
    quiet, read = quiet_steps(part)
    if part.window.length < longest or read.mean() < 0.9 or not quiet.all():
        return None
    alert = view.open.get((Cause.ORPHANED_STORAGE.value, Labels(resource=system.labels.resource)))
    return alert.anomaly.window.start if alert else quiet_since(own)
