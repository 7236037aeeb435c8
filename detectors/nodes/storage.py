"""Find what is paid for and not used: detached volumes, file systems without clients, reservations without instances."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from bot.model.anomaly import Anomaly, Cause, Severity
from bot.model.fleet import FileSystem, Reservation
from bot.model.labels import Labels
from bot.model.storage import detached_since, own_frame, quiet_since, quiet_steps
from detectors.rule import Explanation, anomaly_of_things
from detectors.view import View
from detectors.words import count, lasted, percent

_VOLUME = ("Take a snapshot and delete the volume, or attach it where it is needed.",)
_FILE_SYSTEM = ("Export what is worth keeping to S3 and delete the file system; a scratch copy is quickly made again.",)
_CAPACITY = (
    "Launch into the reservation, share it with another account, or cancel it (a Capacity Block cannot be cancelled).",
    "Move nodes of this type that run on demand elsewhere into it.",
)
SOON = timedelta(hours=1)


def find_orphans(view: View) -> Iterator[Anomaly]:
    """Yield one anomaly for each volume or file system that nobody used for `orphaned_storage.for`."""
    for volume in view.reading.inventory.volumes:
        since = detached_since(volume, view.reading.frame("volume"))
        if since is not None and _long_enough(view, volume.labels, since):
            yield _orphan(
                view, volume.labels, since, f"Volume of {volume.size_gib:,} GiB", "attached to nothing", "volume", _VOLUME
            )
    for system in view.reading.inventory.file_systems:
        since = _idle_since(view, system)
        if since is not None and _long_enough(view, system.labels, since):
            said = f"FSx file system of {system.storage_gib:,} GiB"
            yield _orphan(view, system.labels, since, said, "no client and no operation", "file_system", _FILE_SYSTEM)


def find_unused_capacity(view: View) -> Iterator[Anomaly]:
    """Yield one anomaly for each reservation with empty places, `unused_capacity.for` after its start."""
    for one in view.reading.inventory.reservations:
        policy = view.policy.at(one.labels.only(("cluster", "team", "region", "account")))
        running = one.starts_at + policy.duration("unused_capacity.for") <= view.now and (
            one.ends_at is None or view.now < one.ends_at
        )
        if policy.on("unused_capacity.on") and running and one.available > 0 and one.total > 0:
            yield _unused(view, one)


def _unused(view: View, one: Reservation) -> Anomaly:
    share = one.available / one.total
    words = Explanation(
        why=f"{one.available} of {count(one.total, 'reserved instance')} ({one.labels.instance_type}, {one.market}) stand empty.",
        value=float(one.available),
        unit="count",
        usual=(0.0, 0.0),
        score=0.9,
        evidence=(f"{percent(share)} of the reservation unused",),
        suggestions=_CAPACITY,
        metric="",
        kind="reservation",
    )
    scope = Labels(resource=one.labels.resource)
    start = max(one.starts_at, view.now - timedelta(hours=1))
    return anomaly_of_things(view, Cause.UNUSED_CAPACITY, scope, one.labels, (one.labels.resource,), start, words, (share,))


def _orphan(
    view: View, labels: Labels, since: datetime, what: str, symptom: str, kind: str, suggestions: tuple[str, ...]
) -> Anomaly:
    length = view.now - since
    words = Explanation(
        why=f"{what}: {symptom} for {lasted(length)}.",
        value=length.total_seconds(),
        unit="seconds",
        score=0.9,
        suggestions=suggestions,
        metric="fsx_client_connections_count" if kind == "file_system" else "",
        kind=kind,
        severity=Severity.INFO,
    )
    return anomaly_of_things(
        view, Cause.ORPHANED_STORAGE, Labels(resource=labels.resource), labels, (labels.resource,), since, words, (1.0,)
    )


def _long_enough(view: View, labels: Labels, since: datetime) -> bool:
    policy = view.policy.at(labels.only(("cluster", "team", "region", "account")))
    return policy.on("orphaned_storage.on") and view.now - since >= policy.duration("orphaned_storage.for")


def _idle_since(view: View, system: FileSystem) -> datetime | None:
    """Return since when nobody used a file system: no client, no operation, and readings that say so."""
    frame = view.reading.frame("file_system")
    own = own_frame(frame, system.labels.resource)
    if own is None or not quiet_steps(own.last(SOON))[0].all():
        return None
    longest = view.policy.at(system.labels.only(("cluster", "team", "region", "account"))).duration("orphaned_storage.for")
    part = own.last(longest)
    quiet, read = quiet_steps(part)
    if part.window.length < longest or read.mean() < 0.9 or not quiet.all():
        return None
    known = view.open.get((Cause.ORPHANED_STORAGE.value, Labels(resource=system.labels.resource)))
    return known.anomaly.window.start if known else quiet_since(own)
