"""Find storage and capacity that is paid for and not used: volumes, file systems, reservations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import numpy as np

from bot.model.anomaly import Anomaly
from bot.model.causes import Cause
from bot.model.fleet import FileSystem, Volume
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
from detectors.jobs import TOGETHER
from detectors.numbers import DAY, HOUR, Rows, lasted, number, percent, volume_rate
from detectors.progress import READ
from detectors.rule import Explanation, Subject, anomaly_of, belief
from detectors.view import View

FILE_SYSTEM_SUGGESTIONS = (
    "Export what is worth keeping to S3 and delete the file system; a scratch copy is quick to make"
    " again.",
)
_CLIENTS = "fsx_client_connections_count"
_NAMED = 2
_MOSTLY = number("storage.MOSTLY")


def orphan_anomalies(view: View) -> Iterator[Anomaly]:
    """Yield one anomaly for each group of volumes, and each file system, unused for long enough.

    The setting is `orphaned_storage.for`.
    """
    for scope, volumes in _left_together(view):
        gib = sum(volume.size_gib for _, volume in volumes)
        what = f"Volume of {gib:,} GiB"
        if len(volumes) > 1:
            what = f"{len(volumes)} volumes of {gib:,} GiB together"
        subject = _orphans(scope, [volume.labels for _, volume in volumes], volumes[0][0])
        yield _orphan_anomaly(view, subject, f"{what}: attached to nothing")

    for system in view.reading.inventory.file_systems:
        since = _idle_since(view, system)
        if since is not None and _long_enough(view, system.labels, since):
            why = f"FSx file system of {system.storage_gib:,} GiB: no client and no operation"
            scope = Labels(resource=system.labels.resource)
            subject = _orphans(scope, [system.labels], since)
            yield _orphan_anomaly(view, subject, why, "file_system")


def _left_together(view: View) -> Iterator[tuple[Labels, list[tuple[datetime, Volume]]]]:
    """Yield the scope and the volumes, the first one first, that one event left unused.

    Those of one owner in one place that were let go within minutes of each other are one finding.
    """
    alerts = view.opened(Cause.ORPHANED_STORAGE.value)
    alert_of = {thing: alert for alert in alerts for thing in alert.anomaly.things}
    orphans = []
    for volume in view.reading.inventory.volumes:
        if not _long_enough(view, volume.labels, volume.created_at):
            continue
        since = detached_since(volume, view.reading.frame("volume"))
        alert = alert_of.get(volume.labels.resource)
        if since is not None and alert:
            since = min(since, alert.anomaly.window.start)  # the alert knows the time before
        if since is not None and _long_enough(view, volume.labels, since):
            orphans.append((since, volume))
    orphans.sort(key=lambda orphan: (orphan[0], orphan[1].labels.resource))

    # A volume stays with the alert that names it; a new one joins what was let go with it.
    groups: dict[Labels, list[tuple[datetime, Volume]]] = {}
    begun = [(_owned(a.anomaly.labels), a.anomaly.window.start, a.anomaly.scope) for a in alerts]
    for since, volume in orphans:
        place, alert = _owned(volume.labels), alert_of.get(volume.labels.resource)
        together = (x for at, start, x in begun if at == place and abs(since - start) <= TOGETHER)
        scope = alert.anomaly.scope if alert else next(together, None)
        if scope is None:
            scope = Labels(resource=volume.labels.resource)
            begun.append((place, since, scope))
        groups.setdefault(scope, []).append((since, volume))
    yield from groups.items()


def _owned(labels: Labels) -> Labels:
    return labels.only(("account", "region", "cluster", "team", "project"))


def _orphans(scope: Labels, labels: Sequence[Labels], since: datetime) -> Subject:
    """Return things that nobody has used since a time, all of whose cost is waste."""
    things, shares = tuple(x.resource for x in labels), (1.0,) * len(labels)
    return Subject(scope, Labels.shared(labels), things, since, wasted_shares=shares)


def _orphan_anomaly(view: View, subject: Subject, why: str, kind: str = "volume") -> Anomaly:
    """Return the anomaly of things that nobody uses."""
    length = view.now - subject.start
    of_file_system = kind == "file_system"
    explanation = Explanation(
        why=f"{why} for {lasted(length)}.",
        value=length.total_seconds(),
        unit="seconds",
        suggestions=FILE_SYSTEM_SUGGESTIONS if of_file_system else None,
        metric=_CLIENTS if of_file_system else "",
        kind=kind,
        **belief("storage_unused"),
    )
    return anomaly_of(view, Cause.ORPHANED_STORAGE, subject, explanation)


def _long_enough(view: View, labels: Labels, since: datetime) -> bool:
    policy = view.policy.at(labels)
    on, patience = policy.on("orphaned_storage.on"), policy.duration("orphaned_storage.for")
    return on and view.now - since >= patience


def _idle_since(view: View, system: FileSystem) -> datetime | None:
    """Return since when nobody used a file system.

    There is no client, no operation, and readings say so.
    """
    frame = own_frame(view.reading.frame("file_system"), system.labels.resource)
    if frame is None:
        return None
    newest = frame.last(HOUR)
    if (newest.of(_CLIENTS) > 0).any() or not quiet_steps(newest)[0].all():
        return None
    longest = view.policy.at(system.labels).duration("orphaned_storage.for")
    part = frame.last(longest)
    quiet, reported = quiet_steps(part)
    if part.window.length < longest or reported.mean() < READ or not quiet.all():
        return None
    alert = view.open.get((Cause.ORPHANED_STORAGE.value, Labels(resource=system.labels.resource)))
    return alert.anomaly.window.start if alert else quiet_since(frame)


def unused_capacity_anomalies(view: View) -> Iterator[Anomaly]:
    """Yield one anomaly for each reservation with empty places.

    It has them `unused_capacity.for` after its start or after a node left.
    """
    for reservation in view.reading.inventory.reservations:
        labels, empty = reservation.labels, reservation.available
        policy = view.policy.at(labels)
        patience = policy.duration("unused_capacity.for")
        started = reservation.starts_at + patience <= view.now
        ended = reservation.ends_at is not None and view.now >= reservation.ends_at
        asked = policy.on("unused_capacity.on") and min(empty, reservation.total) > 0
        if not (asked and started) or ended:
            continue

        # The places of nodes that ended a moment ago are being filled again.
        gone = ~view.roster.running & (view.silent_steps < view.window.steps(patience))
        left = [view.roster.labels[row] for row in np.flatnonzero(gone)]
        kind = labels.instance_type
        just_left = sum(x.instance_type == kind and _same_place(x, labels) for x in left)
        if empty <= just_left and not view.opened(Cause.UNUSED_CAPACITY.value):
            continue
        share = empty / reservation.total
        explanation = Explanation(
            why=f"{empty} of {counted(reservation.total, 'reserved instance')}"
            f" ({labels.instance_type}, {reservation.market}) are not used.",
            value=float(empty),
            unit="count",
            usual=(0.0, 0.0),
            **belief("places_empty"),
            evidence=(f"{percent(share)} of the reservation unused",),
        )
        resource, start = labels.resource, max(reservation.starts_at, view.now - HOUR)
        subject = Subject(Labels(resource=resource), labels, (resource,), start, (share,))
        yield anomaly_of(view, Cause.UNUSED_CAPACITY, subject, explanation)


def file_system_loads(view: View, rows: Rows) -> list[Throughput]:
    """Return the busiest file systems of the nodes' cluster.

    Else untagged ones of its region near their limit.
    """
    place = Labels.shared(view.roster.labels[row] for row in rows)
    systems, frame = view.reading.inventory.file_systems, view.reading.frame("file_system")
    tagged = [x for x in systems if place.cluster and x.labels.cluster == place.cluster]
    near = [x for x in systems if not x.labels.cluster and _same_place(x.labels, place)]
    loads = [load for x in (tagged or near) if (load := throughput_of(x, frame, DAY))]
    if not tagged:
        loads = [
            load
            for load in loads
            if load.share >= number("storage.NEAR") and load.peak_share < BEYOND
        ]
    return sorted(loads, key=lambda load: (-load.share, load.system.labels.resource))[:_NAMED]


def load_words(load: Throughput) -> str:
    """Read as `FSx fs-0ab reads 1.9 of 2.0 GB/s: 95 % of what is provisioned`."""
    verb = "reads and writes"
    if load.reads >= _MOSTLY * load.now:
        verb = "reads"
    elif load.reads <= (1 - _MOSTLY) * load.now:
        verb = "writes"
    moved = volume_rate(load.now, load.provisioned)
    burst = " (from a cache or by burst credits)" if load.share >= BEYOND else ""
    share = f"{percent(load.share)} of what is provisioned{burst}"
    return f"FSx {load.system.labels.resource} {verb} {moved}: {share}"


def more_throughput(loads: Iterable[Throughput]) -> tuple[str, ...]:
    """Return the advice about file systems that are held to their limit."""
    return tuple(
        f"Raise the throughput of {load.system.labels.resource} (PerUnitStorageThroughput), or its"
        " size: it is at its limit."
        for load in loads
        if load.held_back
    )


def _same_place(source: Labels, target: Labels) -> bool:
    pairs = ((source.region, target.region), (source.account, target.account))
    return all(not first or not second or first == second for first, second in pairs)
