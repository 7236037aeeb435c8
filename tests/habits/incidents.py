"""What goes wrong in a job, each with the causes that a reader of its metrics may name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bot.model.causes import Cause
from tests.habits.jobs import ALL, NIC, Job

DROPS = frozenset({Cause.STARVED, Cause.NETWORK_BOUND, Cause.COLLECTIVE_PATH, Cause.STRAGGLER})


@dataclass(frozen=True)
class Incident:
    """State what went wrong, where and when (minutes), and the share of the work that it cost."""

    cause: Cause
    job: str
    rows: tuple[int, ...]
    start: int
    end: int
    lost: float
    also: frozenset[Cause] = frozenset()


Plant = Callable[[Job, int, int, np.random.Generator], Incident]


def _whole(job: Job) -> tuple[int, ...]:
    return tuple(range(job.nodes))


def hang(job: Job, start: int, end: int, rng: np.random.Generator) -> Incident:
    """Let a collective wait for ever with every process loaded."""
    cut = (ALL, slice(start, end))
    job.work[cut], job.loaded[cut] = 0, 1
    job.pace[start:end] = 0
    also = frozenset({Cause.ALLOCATED_UNUSED})
    return Incident(Cause.HUNG, job.name, _whole(job), start, end, 1, also)


def idle(job: Job, start: int, end: int, rng: np.random.Generator) -> Incident:
    """End the job and leave its nodes behind."""
    job.stop(ALL, start, end)
    job.pace[start:end] = 0
    return Incident(Cause.IDLE, job.name, _whole(job), start, end, 1)


def held(job: Job, start: int, end: int, rng: np.random.Generator) -> Incident:
    """End the processes while their pods keep the cores."""
    job.stop(ALL, start, end, reserved=32)
    job.pace[start:end] = 0
    also = frozenset({Cause.IDLE})
    return Incident(Cause.ALLOCATED_UNUSED, job.name, _whole(job), start, end, 1, also)


def starve(job: Job, start: int, end: int, rng: np.random.Generator) -> Incident:
    """Let a slow loader of data hold up the job: hosts are busy, cores wait."""
    share = float(rng.uniform(0.3, 0.6))
    cut = (ALL, slice(start, end))
    job.work[cut] *= share
    job.cpu[cut] = 0.96
    job.pace[start:end] *= share
    return Incident(Cause.STARVED, job.name, _whole(job), start, end, 1 - share)


def straggle(job: Job, start: int, end: int, rng: np.random.Generator) -> Incident:
    """Let one node be slow and all others wait for it in the collective."""
    share = float(rng.uniform(0.45, 0.65))
    slow = int(rng.integers(job.nodes))
    others = [row for row in range(job.nodes) if row != slow]
    job.work[others, start:end] *= share
    job.efa[slow, start:end] *= share
    job.slow[:, start:end] = 1 / share
    job.pace[start:end] *= share
    return Incident(Cause.STRAGGLER, job.name, _whole(job), start, end, 1 - share, DROPS)


def wait_busily(job: Job, start: int, end: int, rng: np.random.Generator) -> Incident:
    """Let cores spin while the network is slow: all look as busy as ever at half the pace."""
    share = float(rng.uniform(0.4, 0.6))
    cut = (ALL, slice(start, end))
    job.work[cut] *= share
    job.busy_wait[cut] = True
    job.slow[cut], job.dropped[cut] = 1 / share, 900
    job.pace[start:end] *= share
    return Incident(Cause.NETWORK_BOUND, job.name, _whole(job), start, end, 1 - share, DROPS)


def congest(job: Job, start: int, end: int, rng: np.random.Generator) -> Incident:
    """Fill the NIC with somebody else's traffic."""
    share = float(rng.uniform(0.4, 0.65))
    cut = (ALL, slice(start, end))
    job.work[cut] *= share
    job.slow[cut] = 1 / share
    job.efa[cut] = 0.97 / share
    job.pace[start:end] *= share
    return Incident(Cause.NETWORK_BOUND, job.name, _whole(job), start, end, 1 - share, DROPS)


def lose_packets(job: Job, start: int, end: int, rng: np.random.Generator) -> Incident:
    """Lose packets for hours: executions wait for what is sent again."""
    share = float(rng.uniform(0.45, 0.65))
    cut = (ALL, slice(start, end))
    job.work[cut] *= share
    job.slow[cut], job.dropped[cut] = 1 / share, 1500
    job.pace[start:end] *= share
    return Incident(Cause.NETWORK_BOUND, job.name, _whole(job), start, end, 1 - share, DROPS)


def fail(job: Job, start: int, end: int, rng: np.random.Generator) -> Incident:
    """Let executions of one node fail again and again."""
    row = int(rng.integers(job.nodes))
    job.errors[row, start:end] = rng.random(end - start) < 0.5
    return Incident(Cause.EXECUTION_ERRORS, job.name, (row,), start, end, 0)


def fall_silent(job: Job, start: int, end: int, rng: np.random.Generator) -> Incident:
    """Let the agent of one node die."""
    row = int(rng.integers(job.nodes))
    job.silent[row, start:end] = True
    return Incident(Cause.NO_DATA, job.name, (row,), start, end, 0)


def fill_memory(job: Job, start: int, end: int, rng: np.random.Generator) -> Incident:
    """Let device memory grow to its end on all nodes."""
    job.memory[:, start:end] = 0.97
    return Incident(Cause.MEMORY_PRESSURE, job.name, _whole(job), start, end, 0)


def break_device(job: Job, start: int, end: int, rng: np.random.Generator) -> Incident:
    """Let a device of one node report ECC events, and its node and all that wait for it slow down."""
    row = int(rng.integers(job.nodes))
    job.ecc[row, start:end] = rng.random(end - start) < 0.3
    job.work[:, start:end] *= 0.5
    job.slow[:, start:end] = 2
    job.pace[start:end] *= 0.5
    return Incident(
        Cause.HARDWARE_FAULT, job.name, _whole(job), start, end, 0.5, frozenset({Cause.STRAGGLER})
    )


PLANTS: dict[str, tuple[Plant, ...]] = {
    "pretrain": (hang, idle, held, starve, straggle, wait_busily, congest, fail, fall_silent,
                 fill_memory, break_device),
    "rl": (hang, idle, held),
    "stages": (hang, starve, congest, straggle, fail),
    "arrays": (hang, fall_silent, held),
    "hyperpod": (hang, straggle, idle),
    "lossy": (lose_packets, wait_busily, hang, starve),
    "shared": (fail, fall_silent, hang),
    "trials": (fail, fall_silent),
}  # fmt: skip
"""What may befall a kind of job, so that its truth can be read in its metrics."""
assert NIC
