"""Report the progress of training runs as a trainer would: namespace `Trn/Training`, by Run and ClusterName."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from adapters.simulator.rows import Block, Series
from adapters.simulator.scenario import Job, Kind
from adapters.simulator.signals import Array, generator
from adapters.simulator.telemetry import Crew

NAMESPACE = "Trn/Training"


@dataclass(frozen=True)
class Progress:
    """Hold what a run has reached at each minute."""

    steps: Array
    checkpoint_age_seconds: Array
    reporting: Array


def follow(crew: Crew) -> Progress:
    """Walk through the minutes: steps add up, a restart falls back to the last checkpoint, whose age counts from the restore."""
    s, job = crew.signals, crew.nodes[0].job
    pods = s.pod.max(axis=0) * s.runtime.max(axis=0) > 0
    rate = 60 / job.step_seconds
    steps, age = np.zeros(pods.size), np.zeros(pods.size)
    at = saved = float(generator(crew.seed, crew.cluster, job.name, "run").integers(20_000, 60_000)) if pods[0] else 0.0
    since = 0
    written = (s.write.max(axis=0) > 1e8) & (s.saving > 0)
    for minute in range(pods.size):
        if minute and pods[minute] and not pods[minute - 1]:
            at, since = saved, minute
        at += s.progress[minute] * rate
        if written[minute]:
            saved, since = at, minute
        steps[minute], age[minute] = at, (minute - since) * 60.0
    return Progress(np.floor(steps), age, pods.astype(np.float64))


def run_blocks(crew: Crew) -> Iterator[Block]:
    """Yield the run's metrics; a job that is not training yields none."""
    job = crew.nodes[0].job
    if job.kind is not Kind.TRAINING:
        return
    progress = follow(crew)
    series = [Series(crew.nodes[0].cluster.region, {"Run": job.name, "ClusterName": crew.cluster})]
    for metric, unit, values in (
        ("Epoch", "Count", progress.steps / job.steps_per_epoch),
        ("Step", "Count", progress.steps),
        ("Tokens", "Count", progress.steps * job.tokens_per_step),
        ("Parameters", "Count", np.full_like(progress.steps, job.parameters)),
        ("Loss", "None", _loss(progress.steps, job, crew)),
        ("CheckpointAgeSeconds", "Seconds", progress.checkpoint_age_seconds),
    ):
        last = values[crew.minutes - 1 :: crew.minutes][None, :]
        count = progress.reporting[crew.minutes - 1 :: crew.minutes][None, :]
        yield Block(NAMESPACE, metric, unit, series, count, last, last, last)


def _loss(steps: Array, job: Job, crew: Crew) -> Array:
    rng = generator(crew.seed, crew.cluster, job.name, "loss")
    return np.asarray(1.62 + 9.0 * (steps + 400) ** -0.22 * (1 + rng.normal(0, 0.006, steps.size)))
