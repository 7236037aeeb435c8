"""Find the jobs that stand in more than one Availability Zone.

Their collectives cross it, slowly and for money.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from bot.model.fleet import Instance
from bot.model.reading import Reading

_NOW = timedelta(hours=1)
"""How old the newest sign of a pod or a run may be for it to count as there."""


@dataclass(frozen=True)
class Scattered:
    """State one job whose nodes stand in several zones: (zone, number of nodes), most nodes first."""

    cluster: str
    job: str
    zones: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        """Read as `us-west-2b (3) and us-west-2c (1)`."""
        *first, last = [f"{zone} ({n:,})" for zone, n in self.zones]
        return f"{', '.join(first)} and {last}"


def scattered(reading: Reading) -> tuple[Scattered, ...]:
    """Return the jobs whose running accelerated nodes are in several zones, sorted.

    A node's job is its tag's. In a cluster whose nodes carry none, all are one job only where all
    its pods that hold cores are of one, or (without pods) exactly one run reports: nodes of
    separate jobs may stand anywhere.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    nodes = [
        instance
        for instance in reading.inventory.instances.values()
        if instance.labels.zone and _works(instance, reading)
    ]
    tagged = {instance.labels.cluster for instance in nodes if instance.labels.job}
    alone = {
        name: _only_job(reading, name)
        for name in {instance.labels.cluster for instance in nodes} - tagged
        if name
    }
    for node in nodes:
        job = node.labels.job or alone.get(node.labels.cluster, "")
        if job:
            groups.setdefault((node.labels.cluster, job), []).append(node.labels.zone)
    jobs = [
        Scattered(cluster, job, _counted(zones))
        for (cluster, job), zones in sorted(groups.items())
        if len(set(zones)) > 1
    ]
    return tuple(jobs)


def _works(node: Instance, reading: Reading) -> bool:
    kind = reading.inventory.types.get(node.labels.instance_type)
    return node.running and bool(kind and kind.chips)


def _counted(zones: list[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(zones).items(), key=lambda zone: (-zone[1], zone[0])))


def _only_job(reading: Reading, cluster: str) -> str:
    """Return the one job of a cluster, "" where there is none or there may be several."""
    jobs = _held_by(reading, cluster) or {
        run.labels.job
        for run in reading.runs
        if run.labels.cluster == cluster and reading.now - run.seen_at <= _NOW
    }
    return next(iter(jobs)) if len(jobs) == 1 else ""


def _held_by(reading: Reading, cluster: str) -> set[str]:
    """Return the jobs whose pods hold cores of a cluster now."""
    pods = reading.frame("pod")
    if pods is None or not pods.n_steps:
        return set()
    hour = pods.last(_NOW)
    cores = np.nan_to_num(hour.of("neuroncore_request_count")) + np.nan_to_num(
        hour.of("neuroncore_usage_count")
    )
    holding = np.asarray((cores > 0).any(axis=1))
    return {
        x.job or x.pod
        for x, holds in zip(hour.things, holding, strict=True)
        if holds and x.cluster == cluster
    }
