"""Make the signals of healthy jobs, minute by minute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from zlib import crc32

import numpy as np
import numpy.typing as npt

from adapters.simulator.fleet import SPOT_WAIT_MINUTES, Fleet, SimulatedNode
from adapters.simulator.scenario import FOREVER, Kind, PlannedJob

Array = npt.NDArray[np.float64]
LOAD_MINUTES = 5
RESIZE_MINUTES = 12
BOOT_MINUTES = 3


@dataclass
class Signals:
    """Hold arrays of shape (n_nodes, n_minutes); ratios are 0..1, rates are bytes a second.

    `progress` of shape (n_minutes,) is the pace of the training steps, 1.0 = usual; `saving` is 1
    where checkpoints work.
    """

    utilization: Array
    runtime: Array
    """1 while a Neuron runtime is loaded."""
    memory: Array
    """Share of the device memory in use."""
    pod: Array
    """1 while a pod holds the cores."""
    latency: Array
    """Seconds an execution takes; nan while nothing executes."""
    errors: Array
    hardware_errors: Array
    ecc: Array
    efa: Array
    """Share of the NIC's rate, each direction."""
    cpu: Array
    host_memory: Array
    read: Array
    """Bytes a second read from the file system over ENA."""
    write: Array
    eni: Array
    """Other ENA traffic, bytes a second each direction."""
    visible: Array
    """1 where the scrape arrived."""
    status_failed: Array
    compiling: Array
    """1 while neuronx-cc works, 2 where it will be cut off; no metric says it, a log does."""
    progress: Array
    saving: Array

    def part(self, rows: slice, minutes: slice) -> Signals:
        """Return views of some nodes over some minutes."""
        arrays = (getattr(self, field.name) for field in fields(self))
        return Signals(*(x[rows, minutes] if x.ndim == 2 else x[minutes] for x in arrays))

    def fill(self, **values: float | Array) -> None:
        """Put values in place of these signals, each under its name."""
        for name, value in values.items():
            getattr(self, name)[:] = value

    def scale(self, **factors: float | Array) -> None:
        """Multiply these signals, each by its factor."""
        for name, factor in factors.items():
            getattr(self, name)[:] *= factor


def quiet(nodes: int, minutes: int, rng: np.random.Generator) -> Signals:
    """Return nodes that run nothing: zeros without a runtime, a host that idles."""
    shape = nodes, minutes
    blank: dict[str, Array] = {f.name: np.zeros(shape) for f in fields(Signals)}
    idle = {
        "latency": np.full(shape, np.nan),
        "visible": np.ones(shape),
        "cpu": 0.015 + np.abs(rng.normal(0.004, 0.003, shape)),
        "host_memory": 0.035 + rng.normal(0, 0.0008, shape),
        "eni": np.abs(rng.normal(3e5, 6e4, shape)),
        "progress": np.zeros(minutes),
        "saving": np.ones(minutes),
    }
    return Signals(**blank | idle)


def generator(seed: int, *names: str) -> np.random.Generator:
    """Return the stream of random numbers that belongs to a thing, whatever else is simulated."""
    return np.random.default_rng([seed, crc32("/".join(names).encode())])


def alive(nodes: Sequence[SimulatedNode], minutes: int) -> Array:
    """Return 1 where a node exists and has booted, shape (n_nodes, n_minutes)."""
    minute = np.arange(minutes)
    first = np.array([n.launched_minute + BOOT_MINUTES for n in nodes])[:, None]
    last = np.array([minutes if n.ended_minute is None else n.ended_minute for n in nodes])[:, None]
    return ((minute >= first) & (minute < last)).astype(np.float64)


def wander(rng: np.random.Generator, minutes: int, size: float, memory_minutes: float) -> Array:
    """Return a slow random drift of about `size` that forgets within `memory_minutes`."""
    knots = max(3, int(minutes / memory_minutes) + 3)
    values = rng.normal(0, size, knots)
    return np.interp(np.arange(minutes), np.arange(knots) * memory_minutes, values)


def healthy(fleet: Fleet, nodes: Sequence[SimulatedNode], missing: float) -> Signals:
    """Return the signals of one job's nodes when nothing goes wrong.

    `missing` is the share of scrapes that never arrive.
    """
    job, minutes, count = nodes[0].job, fleet.minutes, len(nodes)
    rng = generator(fleet.seed, nodes[0].cluster.name, job.name)
    signals = quiet(count, minutes, rng)
    match job.kind:
        case Kind.TRAINING:
            _train(signals, slice(0, count), job, rng, minutes)
        case Kind.RESEARCH:
            for row in range(count):
                _train(signals, slice(row, row + 1), job, rng, minutes)
        case Kind.INFERENCE:
            _serve(signals, job, rng, fleet.start, minutes)
        case Kind.NOTHING:
            pass

    # Nodes that join a training later begin it then, and slow nobody.
    for row, node in enumerate(nodes):
        if job.kind is Kind.TRAINING and job.begins == -FOREVER and node.launched_minute >= 0:
            booted = node.launched_minute + BOOT_MINUTES
            pace = signals.progress.copy()
            stand_still(signals.part(slice(row, row + 1), slice(0, booted)))
            fresh = signals.part(slice(row, row + 1), slice(booted, None))
            restart(fresh, rng, gap_minutes=RESIZE_MINUTES - SPOT_WAIT_MINUTES - BOOT_MINUTES)
            signals.progress[:] = pace

    # The noise of every fleet: a corrected ECC event and a transient error now and then.
    shape = signals.ecc.shape
    signals.ecc[rng.random(shape) < 1 / (40 * 1440)] = 1
    stumble = (rng.random(shape) < 1 / (25 * 1440)) & (signals.utilization > 0.1)
    signals.errors[stumble] = 1

    signals.visible *= alive(nodes, minutes)
    if missing:
        signals.visible[rng.random(shape) < missing] = 0
        for row in range(count):
            for lost in rng.integers(0, minutes, max(1, minutes // 6000)):
                signals.visible[row, lost : lost + int(rng.integers(3, 8))] = 0
    return signals


def stand_still(part: Signals) -> None:
    """Take the pods away: no runtime, no memory, no traffic."""
    silent = ("utilization", "runtime", "memory", "pod", "efa", "read", "write")
    part.fill(
        **dict.fromkeys((*silent, "progress", "compiling"), 0.0),
        latency=np.nan,
        cpu=0.014 + 0.008 * (part.cpu * 997 % 1),
        host_memory=0.035 + 0.004 * (part.host_memory * 997 % 1),
    )


def compile_graph(part: Signals, rng: np.random.Generator) -> None:
    """Let neuronx-cc work: the pod is there, the host's CPUs are busy, no runtime is loaded."""
    stand_still(part)
    n, minutes = part.cpu.shape
    waves = 0.80 + wander(rng, minutes, 0.09, 4)[None, :] + rng.normal(0, 0.03, (n, minutes))
    rise = 0.18 + 0.10 * np.linspace(0, 1, minutes)[None, :]
    part.fill(
        cpu=np.clip(waves, 0.60, 0.995),
        host_memory=rise + rng.normal(0, 0.004, (n, minutes)),
        pod=1,
        compiling=1,
        eni=np.abs(rng.normal(2e6, 5e5, (n, minutes))),
    )


def restart(
    part: Signals, rng: np.random.Generator, compile_minutes: int = 0, gap_minutes: int = 0
) -> None:
    """Begin with a gap, a compile if asked for, the load of the weights, then the ramp.

    The rest of `part` trains.
    """
    gap = min(part.cpu.shape[1], gap_minutes or int(rng.integers(4, 9)))
    everywhere = slice(None)
    stand_still(part.part(everywhere, slice(0, gap)))
    if compile_minutes:
        compile_graph(part.part(everywhere, slice(gap, gap + compile_minutes)), rng)
    begin = gap + compile_minutes
    load = part.part(everywhere, slice(begin, begin + LOAD_MINUTES))
    load.scale(utilization=0.02, memory=np.linspace(0.1, 0.95, load.memory.shape[1]))
    load.fill(latency=np.nan, efa=0, progress=0, read=2.5e9)
    ramp = part.part(everywhere, slice(begin + LOAD_MINUTES, begin + LOAD_MINUTES + 14))
    rise = 1 - 0.75 * np.exp(-np.arange(ramp.utilization.shape[1]) / 3.5)
    ramp.scale(utilization=rise, efa=rise, read=rise, progress=rise)


def _train(
    signals: Signals, rows: slice, job: PlannedJob, rng: np.random.Generator, minutes: int
) -> None:
    """Train on some nodes, with evaluations, checkpoints, restarts and changes of size."""
    part, everywhere = signals.part(rows, slice(0, minutes)), slice(None)
    _steady(part, job, rng)

    evaluation = minutes
    if job.eval_hours:
        evaluation = round(job.eval_hours * 60 * rng.uniform(0.2, 1.0))
    while evaluation < minutes:
        phase = part.part(everywhere, slice(evaluation, evaluation + int(rng.integers(17, 24))))
        phase.scale(utilization=0.61, efa=0.25, read=0.7, latency=0.55, progress=0)
        boundary = part.part(everywhere, slice(evaluation - 3, evaluation))
        boundary.scale(utilization=0.35, progress=0.35)
        evaluation += round(job.eval_hours * 60 * rng.uniform(0.9, 1.1))

    # Checkpoints stop every step for a moment and write to the file system.
    checkpoint = int(rng.integers(2, job.checkpoint_minutes))
    while checkpoint < minutes:
        length = int(rng.integers(1, 4))
        dip = part.part(everywhere, slice(checkpoint, checkpoint + length))
        depth = rng.uniform(0, 0.04, dip.utilization.shape)
        if length > 1:
            depth += 0.06
        dip.scale(utilization=depth, efa=0.03, read=0.05)
        dip.fill(write=6e8, cpu=dip.cpu + 0.07, progress=0)
        checkpoint += job.checkpoint_minutes + int(rng.integers(-2, 3))

    begin = max(0, round(job.begins * 60) + BOOT_MINUTES) if job.begins > -FOREVER else 0
    if begin:
        stand_still(part.part(everywhere, slice(0, begin)))
        restart(part.part(everywhere, slice(begin, minutes)), rng, job.compile_minutes)

    # A long run is launched again now and then.
    again = begin + round(job.run_hours * 60 * rng.uniform(0.3, 0.9))
    while again < minutes:
        restart(part.part(everywhere, slice(again, minutes)), rng, job.compile_minutes)
        again += round(job.run_hours * 60 * rng.uniform(0.8, 1.2))

    # Where nodes come or go, synchronous training stops whole and goes on with the new set.
    hours = {hour for _, hour in (*job.joins, *job.leaves, *job.replaced)}
    for resized in sorted(round(hour * 60) for hour in hours if 0 < hour * 60 < minutes):
        restart(part.part(everywhere, slice(resized, minutes)), rng, gap_minutes=RESIZE_MINUTES)


def _steady(part: Signals, job: PlannedJob, rng: np.random.Generator) -> None:
    n, minutes = part.utilization.shape
    shared = wander(rng, minutes, 0.008, 9) + wander(rng, minutes, 0.010, 240)
    lean = rng.normal(0, 0.008, (n, 1)) + np.stack(
        [wander(rng, minutes, 0.003, 400) for _ in range(n)]
    )
    part.utilization[:] = np.clip(
        job.usual + shared + lean + rng.normal(0, 0.007, (n, minutes)), 0, 0.995
    )

    # Each signal draws its noise in this order: another order is another recording.
    pace, efa = part.utilization / job.usual, job.efa if n > 1 else 0.0
    execution_seconds = 0.92 * job.step_seconds / 8
    part.fill(
        runtime=1,
        pod=1,
        memory=job.memory + rng.normal(0, 0.003, (n, 1)) + wander(rng, minutes, 0.003, 500),
        latency=execution_seconds
        * (1 + rng.normal(0, 0.01, (n, 1)) + rng.normal(0, 0.012, (n, minutes)))
        / pace,
        efa=efa * pace * (1 + rng.normal(0, 0.03, (n, minutes))),
        cpu=np.clip(
            0.11
            + rng.normal(0, 0.006, (n, 1))
            + 0.02 * wander(rng, minutes, 0.5, 30)
            + rng.normal(0, 0.008, (n, minutes)),
            0.03,
            1,
        ),
        host_memory=0.41
        + rng.normal(0, 0.01, (n, 1))
        + wander(rng, minutes, 0.006, 300)
        + rng.normal(0, 0.001, (n, minutes)),
        read=1.8e8 * pace * (1 + rng.normal(0, 0.08, (n, minutes))),
        progress=pace.mean(axis=0),
    )


def _serve(
    signals: Signals, job: PlannedJob, rng: np.random.Generator, start: datetime, minutes: int
) -> None:
    """Answer requests: by the hour, busiest about 20:00 UTC, and by the west coast's weekday."""
    hour = (start.hour * 60 + start.minute + np.arange(minutes)) / 60
    day = (
        1
        + 0.52 * np.cos((hour - 20) / 24 * 2 * np.pi)
        + 0.10 * np.cos((hour - 18) / 12 * 2 * np.pi)
    )
    weekdays = np.array(
        [(start + timedelta(minutes=m, hours=-8)).weekday() for m in range(0, minutes, 60)]
    ).repeat(60)[:minutes]

    # Nobody falls silent at midnight: weekends fade in and out.
    smooth = np.convolve(np.where(weekdays >= 5, 0.62, 1.0), np.ones(181) / 181, mode="same")
    smooth[:91], smooth[-91:] = smooth[min(91, minutes - 1)], smooth[max(-92, -minutes)]

    shape = signals.utilization.shape
    load = day * smooth * job.usual + wander(rng, minutes, 0.012, 12)
    lean = 1 + rng.normal(0, 0.04, (shape[0], 1))
    busy = np.clip(load[None, :] * lean + rng.normal(0, 0.02, shape), 0.01, 0.98)
    signals.fill(
        utilization=busy,
        runtime=1,
        pod=1,
        memory=job.memory + 0.03 * (busy - job.usual),
        latency=0.045 * (1 + 0.3 * busy + rng.normal(0, 0.02, shape)),
        cpu=0.05 + 0.25 * busy + rng.normal(0, 0.008, shape).clip(-0.03, 0.03),
        host_memory=0.22 + rng.normal(0, 0.002, shape),
        eni=4e7 * busy,
    )
