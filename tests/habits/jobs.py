"""How jobs on Trainium look from outside, minute by minute: kinds of work that no fixed pause fits.

Each kind follows the documentation of the system that runs it; nothing here knows what a detector
expects. A job holds its minutes as (nodes, minutes) arrays, nan where nothing is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

HBM = 512 * 2.0**30
NIC = 1e11
"""Bytes a second of EFA that a node of 800 Gbit/s has."""
DAY = 1440
Minutes = np.ndarray


@dataclass
class Job:
    """Hold the minutes of the nodes of one cluster, and what is true of them."""

    name: str
    nodes: int
    days: float
    rng: np.random.Generator
    serves: bool = False
    purpose: str = ""
    reports: bool = False
    """Whether its run reports steps."""
    block_ends: int | None = None
    """The minute at which its Capacity Block ends."""
    alive: np.ndarray = field(init=False)
    launched: dict[int, int] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        minutes = int(self.days * DAY)
        shape = (self.nodes, minutes)
        self.minutes = minutes
        self.work = np.ones(shape)
        """Share of its full work that a node does: 1 trains, 0 waits or is gone."""
        self.level = np.full(shape, 0.85)
        self.loaded = np.ones(shape)
        """Share of its usual device memory that is held; 0 = no process."""
        self.memory = np.full(shape, 0.7)
        self.latency = np.full(shape, 0.6)
        self.slow = np.ones(shape)
        """By how much executions take longer."""
        self.efa = np.full(shape, 0.25)
        self.cpu = np.full(shape, 0.12)
        self.dropped = np.zeros(shape)
        self.reserved = np.full(shape, 32.0)
        self.errors = np.zeros(shape)
        self.ecc = np.zeros(shape)
        self.busy_wait = np.zeros(shape, dtype=bool)
        """Where cores spin while they wait: utilization says nothing of the work."""
        self.silent = np.zeros(shape, dtype=bool)
        self.pace = np.ones(minutes)
        """Steps of the run a minute, as a share of its usual ones."""

    def pause(self, rows: slice | list[int], start: int, length: int) -> None:
        """Let nodes wait with their process loaded."""
        self.work[rows, start : start + length] = 0

    def stop(self, rows: slice | list[int], start: int, end: int, reserved: float = 0.0) -> None:
        """Leave nodes without a process, and with so many reserved cores."""
        cut = (rows, slice(start, end))
        self.work[cut], self.loaded[cut], self.reserved[cut] = 0, 0, reserved

    def leave(self, row: int, minute: int) -> None:
        """Take a node away for good."""
        self.ended[row] = minute
        self.silent[row, minute:] = True

    def come(self, row: int, minute: int) -> None:
        """Launch a node at a minute: it reports from then on."""
        self.launched[row] = minute
        self.silent[row, :minute] = True


Kind = Callable[[str, float, np.random.Generator], Job]
ALL = slice(None)


def checkpoints(job: Job, every: tuple[int, int], lasts: tuple[int, int]) -> Job:
    """Let all nodes of a job pause together to save."""
    at = int(job.rng.integers(*every))
    while at < job.minutes:
        length = int(job.rng.integers(lasts[0], lasts[1] + 1))
        job.pause(ALL, at, length)
        job.pace[at : at + length] = 0
        at += length + int(job.rng.integers(*every))
    return job


def pretraining(name: str, days: float, rng: np.random.Generator) -> Job:
    """Train on all nodes, saving about each hour, evaluating each few hours."""
    job = checkpoints(Job(name, 10, days, rng, reports=True), (50, 70), (2, 4))
    at = int(rng.integers(120, 300))
    while at < job.minutes:
        length = int(rng.integers(8, 16))
        cut = (ALL, slice(at, at + length))
        job.latency[cut], job.loaded[cut], job.level[cut], job.efa[cut] = 0.25, 0.55, 0.45, 0.02
        job.pace[at : at + length] = 0
        at += int(rng.integers(180, 300))
    return job


def rollouts(name: str, days: float, rng: np.random.Generator) -> Job:
    """Learn by reinforcement: trainers wait for rollouts, and rollouts for new weights."""
    job = Job(name, 8, days, rng, reports=True)
    job.memory[4:] = 0.45
    at = int(rng.integers(10, 40))
    while at < job.minutes:
        wait, train = int(rng.integers(5, 23)), int(rng.integers(12, 30))
        job.pause(slice(0, 4), at, wait)
        share = float(rng.uniform(0.2, 0.5))
        job.pause(slice(4, 8), at + wait, int(train * share))
        at += wait + train
    return job


def elastic(name: str, days: float, rng: np.random.Generator) -> Job:
    """Train on sixteen nodes, on twelve while capacity is short, and on sixteen others again."""
    job = checkpoints(Job(name, 20, days, rng), (80, 100), (3, 5))
    shrinks = int(rng.integers(DAY, 2 * DAY))
    grows = shrinks + int(rng.integers(300, 900))
    for minute in (shrinks, grows):
        job.stop(ALL, minute, minute + int(rng.integers(6, 12)), reserved=32)
    for row in range(12, 16):
        job.leave(row, shrinks)
    for row in range(16, 20):
        job.come(row, grows - 8)
        job.stop([row], grows - 8, grows + 6, reserved=0)
    return job


def arrays(name: str, days: float, rng: np.random.Generator) -> Job:
    """Run array jobs one after the other, some twenty minutes apart."""
    job = Job(name, 6, days, rng)
    at = 0
    while at < job.minutes:
        runs = int(rng.integers(40, 130))
        pause = int(rng.integers(15, 23))
        job.stop(ALL, at + runs, at + runs + pause)
        at += runs + pause
    return job


def stages(name: str, days: float, rng: np.random.Generator) -> Job:
    """Train in four pipeline stages that are never equally busy."""
    job = checkpoints(Job(name, 8, days, rng, reports=True), (110, 130), (4, 6))
    for stage, level in enumerate((0.93, 0.72, 0.55, 0.34)):
        job.level[2 * stage : 2 * stage + 2] = level
        job.memory[2 * stage : 2 * stage + 2] = 0.6 + 0.06 * stage
    return job


def shared(name: str, days: float, rng: np.random.Generator) -> Job:
    """Share each node among four jobs of eight cores; one ends now and then and another begins."""
    job = Job(name, 4, days, rng)
    job.efa[:] = 0
    for row in range(job.nodes):
        at = int(rng.integers(300, 1200))
        while at < job.minutes:
            length = int(rng.integers(60, 600))
            cut = (row, slice(at, at + length))
            job.reserved[cut], job.level[cut], job.loaded[cut] = 24, 0.64, 0.75
            at += length + int(rng.integers(300, 1500))
    return job


def trials(name: str, days: float, rng: np.random.Generator) -> Job:
    """Try one setting after the other on each node, in nearly the same memory."""
    job = Job(name, 6, days, rng)
    job.efa[:] = 0
    for row in range(job.nodes):
        at = 0
        while at < job.minutes:
            length = int(rng.integers(120, 320))
            cut = (row, slice(at, at + length))
            job.memory[cut] = 0.5 * (1 + rng.uniform(-0.021, 0.021))
            job.level[cut] = rng.uniform(0.45, 0.9)
            job.latency[cut] = rng.uniform(0.3, 0.8)
            at += length
            job.stop([row], at, at + int(rng.integers(2, 9)), reserved=32)
    return job


def karpenter(name: str, days: float, rng: np.random.Generator) -> Job:
    """Launch nodes for jobs, give each node its next job within minutes, and take it away at last."""
    job = Job(name, 10, days, rng)
    for row in range(job.nodes):
        begin = int(rng.integers(0, DAY)) if row % 2 else 0
        if begin:
            job.come(row, begin)
            job.stop([row], begin, begin + int(rng.integers(4, 10)))
        at, last = begin, int(rng.integers(3 * DAY, 2 * job.minutes))
        while at < min(last, job.minutes):
            length = int(rng.integers(200, 1500))
            cut = (row, slice(at, at + length))
            job.memory[cut], job.latency[cut] = rng.uniform(0.3, 0.9), rng.uniform(0.2, 1.2)
            job.level[cut], job.efa[cut] = rng.uniform(0.4, 0.95), rng.choice([0.0, 0.1, 0.3])
            at += length
            if at < last:
                job.stop([row], at, at + int(rng.integers(2, 7)))
        if last < job.minutes:
            job.stop([row], at, at + int(rng.integers(3, 12)))
            job.leave(row, min(at + 12, job.minutes - 1))
    return job


def hyperpod(name: str, days: float, rng: np.random.Generator) -> Job:
    """Train on nodes of HyperPod, two of which are scaled in after some days."""
    job = checkpoints(Job(name, 6, days, rng), (60, 90), (2, 5))
    minute = int(rng.integers(3 * DAY, 5 * DAY))
    for row in (4, 5):
        job.leave(row, minute)
    job.stop(ALL, minute, minute + 10, reserved=32)
    return job


def service(name: str, days: float, rng: np.random.Generator) -> Job:
    """Serve people by day, in a land whose clocks go back an hour after half of the time."""
    job = Job(f"serve-{name}", 6, days, rng, serves=True)
    minute = np.arange(job.minutes)
    local = (minute + np.where(minute < job.minutes // 2, 0, 60)) / 60 % 24
    week = np.where((minute // DAY + 2) % 7 >= 5, 0.6, 1.0)  # a world begins on a Wednesday
    load = 0.12 + 0.5 * week * np.clip(np.sin((local - 7) / 14 * np.pi), 0, 1)
    job.level[:] = load * rng.normal(1, 0.05, job.level.shape)
    job.efa[:], job.latency[:] = 0, 0.08
    return job


def lossy(name: str, days: float, rng: np.random.Generator) -> Job:
    """Train over a network that loses packets for some minutes now and then."""
    job = checkpoints(Job(name, 8, days, rng, reports=True), (55, 65), (2, 3))
    for at in rng.integers(60, job.minutes - 60, int(6 * days)):
        cut = (ALL, slice(at, at + int(rng.integers(2, 8))))
        job.dropped[cut], job.slow[cut] = rng.uniform(50, 300), 1.2
        job.work[cut] *= 0.85
    return job


def standby(name: str, days: float, rng: np.random.Generator) -> Job:
    """Keep nodes warm for a failover: loaded, and nearly always without work."""
    job = Job(name, 3, days, rng, purpose="warm-standby")
    job.work[:] = 0
    return job


def notebooks(name: str, days: float, rng: np.random.Generator) -> Job:
    """Let people try things by day: a cell now and then, nothing at night."""
    job = Job(name, 3, days, rng, purpose="interactive")
    job.efa[:] = 0
    minute = np.arange(job.minutes) / 60 % 24
    for row in range(job.nodes):
        busy = (rng.random(job.minutes) < 0.15) & (minute > 8) & (minute < 18)
        job.work[row] = busy
    return job


def block(name: str, days: float, rng: np.random.Generator) -> Job:
    """Train in a Capacity Block, and end half an hour before EC2 takes its nodes back."""
    job = checkpoints(Job(name, 6, days, rng), (60, 90), (2, 4))
    job.block_ends = int(5.5 * DAY)
    job.stop(ALL, job.block_ends - 60, job.minutes)
    for row in range(job.nodes):
        job.leave(row, job.block_ends - 25)
    return job


KINDS: dict[str, Kind] = {
    "pretrain": pretraining,
    "rl": rollouts,
    "elastic": elastic,
    "arrays": arrays,
    "stages": stages,
    "shared": shared,
    "trials": trials,
    "karpenter": karpenter,
    "hyperpod": hyperpod,
    "chat": service,
    "lossy": lossy,
    "standby": standby,
    "notebooks": notebooks,
    "block": block,
}
