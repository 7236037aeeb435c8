"""Lay jobs beside each other in one fleet, play the watch over it, and grade what it raises."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cached_property

import numpy as np

from bot.model.alert import Alert
from bot.model.fleet import Instance, InstanceType, Inventory, Market, Reservation
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import NODE_METRICS, Reading
from bot.policy.schema import default_policy
from detectors import Detector
from tests.habits.incidents import PLANTS, Incident
from tests.habits.jobs import DAY, HBM, KINDS, NIC, Job

START = datetime(2026, 10, 21, tzinfo=UTC)
STEP = 5
TICK = timedelta(minutes=STEP)
NAMES = tuple(NODE_METRICS)
TRN1 = InstanceType(
    "trn1.32xlarge",
    "trn1",
    "Trainium",
    16,
    32,
    512,
    512,
    128,
    800,
    3040,
    3040,
    "",
    date(2026, 9, 1),
)
GRACE = 90
"""Minutes after its end within which an alert is still about an incident."""


def at(minute: float) -> datetime:
    """Return the time of a minute of the world."""
    return START + timedelta(minutes=minute)


@dataclass
class World:
    """Hold the jobs of a fleet and what goes wrong in them."""

    seed: int
    days: float = 8
    kinds: Sequence[str] = tuple(KINDS)
    incidents: list[Incident] = field(default_factory=list)
    planted: bool = False

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        self.jobs = [KINDS[kind](kind, self.days, rng) for kind in self.kinds]
        if self.planted:
            for kind, job in zip(self.kinds, self.jobs, strict=True):
                self._plant(kind, job, rng)
        self.blind = int(rng.integers(3 * DAY, self.days * DAY - 120))

    def _plant(self, kind: str, job: Job, rng: np.random.Generator) -> None:
        """Let a job have an incident a day or so from its third day on."""
        begin = 3 * DAY + int(rng.integers(0, 400))
        while kind in PLANTS and begin < job.minutes - 400:
            plant = PLANTS[kind][int(rng.integers(len(PLANTS[kind])))]
            length = int(rng.integers(120, 360))
            self.incidents.append(plant(job, begin, begin + length, rng))
            begin += length + int(rng.integers(700, 2000))

    @cached_property
    def frame(self) -> Frame:
        """Return the metrics of all nodes in steps of five minutes."""
        rng = np.random.default_rng([self.seed, 1])
        parts = [self._metrics(job, rng) for job in self.jobs]
        things = tuple(self.labels(job, row) for job in self.jobs for row in range(job.nodes))
        values = np.concatenate(parts).astype(np.float32)
        return Frame("node", things, START, TICK, NAMES, values)

    def _metrics(self, job: Job, rng: np.random.Generator) -> np.ndarray:
        def by_step(values: np.ndarray) -> np.ndarray:
            return values.reshape(job.nodes, -1, STEP)

        def noise(size: float) -> np.ndarray:
            return rng.normal(1, size, (job.nodes, job.minutes // STEP))

        busy = np.where(job.busy_wait, 1.0, job.work) * job.level
        working = job.work > 0
        weight = np.maximum(by_step(working.astype(float)).sum(axis=2), 1e-9)
        latency = by_step(np.where(working, job.latency * job.slow, 0)).sum(axis=2) / weight
        latency[by_step(working).sum(axis=2) == 0] = np.nan
        level = by_step(busy).mean(axis=2)
        memory = by_step(job.memory * job.loaded).mean(axis=2) * HBM * noise(0.002)
        sent = by_step(job.efa * job.work).mean(axis=2) * NIC * noise(0.03)
        cpu = by_step(np.where(job.loaded > 0, job.cpu, 0.02)).mean(axis=2)
        signals = {
            "neuroncore_utilization_ratio": np.clip(level * noise(0.015), 0, 1),
            "neuroncore_utilization_highest_ratio": np.clip(level * 1.05, 0, 1),
            "neuroncore_memory_used_bytes": memory,
            "neuron_runtime_memory_used_bytes": memory,
            "neuron_execution_errors_count": by_step(job.errors).sum(axis=2),
            "neuron_hardware_ecc_events_count": by_step(job.ecc).sum(axis=2),
            "neuron_execution_latency_seconds": latency * noise(0.02),
            "neuroncore_reserved_count": by_step(job.reserved).min(axis=2),
            "neuroncore_limit_count": np.full_like(level, 32),
            "efa_tx_bytes_per_second": sent,
            "efa_rx_bytes_per_second": sent * noise(0.01),
            "efa_rx_dropped_per_second": by_step(job.dropped).mean(axis=2),
            "host_cpu_utilization_ratio": np.clip(cpu * noise(0.06), 0, 1),
            "host_memory_utilization_ratio": 0.4 * noise(0.01),
            "network_in_bytes_per_second": 2e8 * by_step(job.work).mean(axis=2) * noise(0.05),
            "network_out_bytes_per_second": 3e5 * noise(0.05),
            "status_check_failed_count": np.zeros_like(level),
        }
        values = np.full((job.nodes, level.shape[1], len(NAMES)), np.nan)
        for name, signal in signals.items():
            values[:, :, NAMES.index(name)] = signal

        # Single points are lost, and once all of a cluster's: its collector is upgraded.
        lost = by_step(job.silent).any(axis=2) | (rng.random(level.shape) < 0.005)
        if job.reports:
            lost[:, self.blind // STEP : self.blind // STEP + 5] = True
        values[lost] = np.nan
        return values

    @cached_property
    def runs(self) -> Frame:
        """Return the steps of the runs that report them."""
        reporting = [job for job in self.jobs if job.reports]
        counts = [np.cumsum(job.pace)[STEP - 1 :: STEP] * 6 for job in reporting]
        things = tuple(Labels(cluster=job.name) for job in reporting)
        values = np.stack(counts)[:, :, None].astype(np.float32)
        return Frame("run", things, START, TICK, ("run_step_count",), values)

    def labels(self, job: Job, row: int) -> Labels:
        """Return the labels of a node."""
        return Labels(
            cluster=job.name,
            instance=f"i-{job.name}{row:02d}",
            instance_type="trn1.32xlarge",
            region="us-west-2",
            zone="us-west-2b",
        )

    def inventory(self, now: datetime) -> Inventory:
        """Return what an account lists at a time."""
        minute = (now - START) / timedelta(minutes=1)
        instances, blocks = {}, []
        for job in self.jobs:
            market = Market.ON_DEMAND if job.block_ends is None else Market.CAPACITY_BLOCK
            if job.block_ends is not None and minute < job.block_ends:
                place = Labels(
                    resource=f"cr-{job.name}", instance_type="trn1.32xlarge", zone="us-west-2b"
                )
                ends = at(job.block_ends)
                blocks.append(Reservation(place, job.nodes, 0, START, ends, market))
            for row in range(job.nodes):
                launched, ended = job.launched.get(row, -9000), job.ended.get(row)
                if launched > minute:
                    continue
                gone = ended is not None and ended <= minute
                instances[f"i-{job.name}{row:02d}"] = Instance(
                    self.labels(job, row),
                    at(launched),
                    "terminated" if gone else "running",
                    market,
                    at(ended) if gone and ended is not None else None,
                    tags={"purpose": job.purpose} if job.purpose else {},
                )
        return Inventory(now, instances, types={TRN1.name: TRN1}, reservations=tuple(blocks))

    def reading(self, now: datetime) -> Reading:
        """Return all that is known at a time."""
        frames = {"node": self.frame.until(now)}
        if any(job.reports for job in self.jobs):
            frames["run"] = self.runs.until(now)
        return Reading(now, frames, self.inventory(now))

    def alerts(self, first_day: float = 2.5) -> list[Alert]:
        """Play the watch over the world and return every alert that it raised."""
        detector, policy = Detector(), default_policy()
        known: list[Alert] = []
        for minute in range(int(first_day * DAY), int(self.days * DAY) + 1, STEP):
            now = at(minute)
            anomalies = detector(self.reading(now), policy, known).anomalies
            known = list(followed(known, {x.key: x for x in anomalies}, now))
        return known


def followed(known: Sequence[Alert], found: dict, now: datetime) -> Iterator[Alert]:
    """Yield the alerts after a tick: open while seen, closed a quarter of an hour later."""
    from dataclasses import replace

    for alert in known:
        anomaly = found.pop(alert.key, None) if alert.firing else None
        if anomaly:
            yield replace(alert, anomaly=anomaly, seen=now)
        elif alert.firing and now - alert.seen >= timedelta(minutes=15):
            yield replace(alert, closed=now)
        else:
            yield alert
    for key, anomaly in found.items():
        yield Alert(f"{key}@{now:%d%H%M}", anomaly, now, now)


@dataclass
class Grade:
    """Count what was found of the incidents, and what was raised without one."""

    right: list[Alert] = field(default_factory=list)
    wrong: list[Alert] = field(default_factory=list)
    false: list[Alert] = field(default_factory=list)
    missed: list[Incident] = field(default_factory=list)
    cluster_weeks: float = 0

    @property
    def per_week(self) -> float:
        """Return the false alerts of a week of one cluster."""
        return len(self.false) / max(self.cluster_weeks, 1e-9)


def grade(world: World, alerts: Sequence[Alert]) -> Grade:
    """Return which alerts are about an incident, by place and time, and whether the cause is its."""
    weeks = len(world.jobs) * (world.days - 2.5) / 7
    result = Grade(cluster_weeks=weeks)
    found: set[int] = set()
    for alert in alerts:
        begin, end = alert.anomaly.window.start, alert.seen
        fits = [
            (number, incident)
            for number, incident in enumerate(world.incidents)
            if {f"i-{incident.job}{row:02d}" for row in incident.rows} & set(alert.anomaly.things)
            and begin <= at(incident.end + GRACE)
            and end >= at(incident.start)
            and alert.opened >= at(incident.start)
        ]
        right = [n for n, x in fits if alert.cause is x.cause or alert.cause in x.also]
        found.update(right)
        (result.right if right else result.wrong if fits else result.false).append(alert)
    result.missed = [x for n, x in enumerate(world.incidents) if n not in found]
    return result
