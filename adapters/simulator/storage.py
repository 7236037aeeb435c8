"""Make the metrics of file systems and volumes, and list the ones there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from adapters.simulator.fleet import Fleet, identifier
from adapters.simulator.rows import Block, Series
from adapters.simulator.scenario import Cluster, Incident, Scenario
from adapters.simulator.signals import Array, generator
from adapters.simulator.statistics import gather
from adapters.simulator.telemetry import Crew
from bot.model.anomaly import Cause

DISKS_PER_TIB = 1


@dataclass(frozen=True)
class FileSystemSpec:
    """Describe one FSx for Lustre file system; from `unused_from` (a minute) nobody mounts it."""

    id: str
    cluster: Cluster
    tib: float
    unused_from: int | None = None
    unused_until: int | None = None


@dataclass(frozen=True)
class VolumeSpec:
    """Describe one data volume; `detached` is the minute since when it is attached to nothing."""

    id: str
    cluster: Cluster
    gib: int
    instance: str
    detached: int | None = None


def orphans(scenario: Scenario) -> list[Incident]:
    """Return the incidents that leave storage behind."""
    return [x for x in scenario.incidents if x.cause is Cause.ORPHANED_STORAGE]


def file_systems(scenario: Scenario, fleet: Fleet) -> list[FileSystemSpec]:
    """Return each cluster's file system, and those that incidents orphan (`level` >= 1 TiB says one is)."""
    own = [
        FileSystemSpec(identifier(fleet.seed, "fs-", c.name), c, c.file_system_tib)
        for c in scenario.clusters
        if c.file_system_tib
    ]
    by_name = {c.name: c for c in scenario.clusters}
    left = [
        FileSystemSpec(
            identifier(fleet.seed, "fs-", x.cluster, "old"),
            by_name[x.cluster],
            x.level,
            round(x.at * 60),
            round((x.at + x.hours) * 60),
        )
        for x in orphans(scenario)
        if x.level
    ]
    return own + left


def volumes(scenario: Scenario, fleet: Fleet) -> list[VolumeSpec]:
    """Return a data volume for each cluster's first two nodes, and two of 4,000 GiB that each orphaning incident leaves."""
    kept = [
        VolumeSpec(identifier(fleet.seed, "vol-", n.id), n.cluster, 1000, n.id)
        for c in scenario.clusters
        for n in fleet.of(c.name)[:2]
        if n.launched_minute < 0 and n.ended_minute is None
    ]
    by_name = {c.name: c for c in scenario.clusters}
    left = [
        VolumeSpec(identifier(fleet.seed, "vol-", x.cluster, "old", i), by_name[x.cluster], 12_000, "", round(x.at * 60))
        for x in orphans(scenario)
        if not x.level
        for i in range(2)
    ]
    return kept + left


def file_system_blocks(spec: FileSystemSpec, crews: Sequence[Crew]) -> Iterator[Block]:
    """Yield `AWS/FSx` of one file system: one point per disk and minute, so `Sum` is the whole."""
    shape = crews[0].signals.progress.shape[0]
    rng = generator(crews[0].seed, spec.id)
    if spec.unused_from is None:
        read = np.sum([c.signals.read.sum(axis=0) for c in crews], axis=0) * 60
        write = np.sum([c.signals.write.sum(axis=0) for c in crews], axis=0) * 60
        clients = np.sum([c.signals.pod.sum(axis=0) for c in crews], axis=0)
        metadata = np.abs(rng.normal(900, 150, shape)) * (clients > 0)
    else:
        at = np.arange(shape)
        used = ((at < spec.unused_from) | (at >= (spec.unused_until or shape))).astype(np.float64)
        read, write, clients = used * np.abs(rng.normal(3e10, 4e9, shape)), used * 1e8, used * 2
        metadata = used * np.abs(rng.normal(200, 30, shape))
    disks = max(1, int(spec.tib * DISKS_PER_TIB / 1.2))
    seen = np.ones((1, shape))
    series = [Series(spec.cluster.region, {"FileSystemId": spec.id})]
    free = np.full(shape, spec.tib * 2.0**40 * 0.41 / disks)
    for metric, unit, values, things in (
        ("DataReadBytes", "Bytes", read / disks, disks),
        ("DataWriteBytes", "Bytes", write / disks, disks),
        ("DataReadOperations", "Count", read / disks / 1_048_576, disks),
        ("DataWriteOperations", "Count", write / disks / 1_048_576, disks),
        ("MetadataOperations", "Count", metadata, 1),
        ("ClientConnections", "Count", clients, 1),
        ("FreeDataStorageCapacity", "Bytes", free, disks),
    ):
        sets = gather(np.atleast_2d(values), seen, crews[0].minutes, things)
        yield Block("AWS/FSx", metric, unit, series, sets.count, sets.sum, sets.max, sets.min)


def volume_blocks(specs: Sequence[VolumeSpec], fleet: Fleet, minutes: int) -> Iterator[Block]:
    """Yield `AWS/EBS` at five minutes; a volume that is attached to nothing has no record."""
    shape = fleet.minutes
    seen = np.stack([_attached(v, shape) for v in specs])
    rng = generator(fleet.seed, "volumes")
    writes = np.abs(rng.normal(2e7, 5e6, (len(specs), shape)))
    series = [Series(v.cluster.region, {"VolumeId": v.id}) for v in specs]
    for metric, unit, values in (
        ("VolumeReadBytes", "Bytes", writes * 0.4),
        ("VolumeWriteBytes", "Bytes", writes),
        ("VolumeIdleTime", "Seconds", 60 - writes / 2e6),
    ):
        sets = gather(values, seen, max(5, minutes))
        yield Block("AWS/EBS", metric, unit, series, sets.count, sets.sum, sets.max, sets.min)


def _attached(spec: VolumeSpec, minutes: int) -> Array:
    at = np.arange(minutes)
    return np.asarray(at < (minutes if spec.detached is None else spec.detached), dtype=np.float64)
