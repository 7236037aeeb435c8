"""What is rare for a job is told; how it always pauses is not."""

from datetime import timedelta

import numpy as np
import pytest
from builder import HBM, START, Fleet, World, hours

from bot.model.causes import Cause
from detectors.rarity import return_level

MINUTE = timedelta(minutes=1)


def phases(fleet, rows, wait_minutes, work_minutes, seed, until=None):
    """Let some nodes wait again and again with their process loaded, as trainers do for rollouts.

    Lengths are drawn to the minute between two bounds; a reading is the mean of its minutes.
    """
    rng = np.random.default_rng(seed)
    minutes = round(((until or hours(fleet.days * 24)) - START) / MINUTE)
    works = np.ones(minutes, dtype=bool)
    at = int(rng.integers(*work_minutes))
    while at < minutes:
        length = int(rng.integers(wait_minutes[0], wait_minutes[1] + 1))
        works[at : at + length] = False
        at += length + int(rng.integers(work_minutes[0], work_minutes[1] + 1))
    per_step = fleet.step // MINUTE
    share = works[: minutes // per_step * per_step].reshape(-1, per_step).mean(axis=1)
    steps = slice(0, len(share))
    for name in ("neuroncore_utilization_ratio", "efa_tx_bytes_per_second"):
        fleet.metrics[name][rows, steps] *= share
    fleet.metrics["efa_rx_bytes_per_second"][rows, steps] *= share
    latency = fleet.metrics["neuron_execution_latency_seconds"]
    latency[rows, steps] = np.where(share > 0, latency[rows, steps], np.nan)
    return fleet


def rollouts_and_trainers(seed, days=4.0, until=None):
    """Return eight nodes of a job: four roll out, four wait for them 5 to 22 minutes and train."""
    fleet = Fleet(8, days=days, seed=seed)
    for name in ("neuroncore_memory_used_bytes", "neuron_runtime_memory_used_bytes"):
        fleet.metrics[name][4:] *= 0.6
    phases(fleet, slice(0, 4), (5, 22), (15, 35), seed, until)
    return phases(fleet, slice(4, 8), (2, 9), (8, 30), seed + 1, until)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_wait_as_the_job_has_shown_is_not_told(seed):
    world = World(rollouts_and_trainers(seed))
    told = world.run(hours(0), hours(96))
    assert [(a.cause.value, a.anomaly.why) for a in told] == []


def test_a_wait_longer_than_the_job_ever_shows_is_a_hang():
    fleet = rollouts_and_trainers(5, until=hours(80))
    fleet.set(
        hours(80), hours(96), neuroncore_utilization=0, neuron_execution_latency=np.nan, efa=0
    )
    world = World(fleet)
    told = world.run(hours(70), hours(83))
    assert {a.cause for a in told} == {Cause.HUNG}
    assert told[0].opened <= hours(81.25)
    assert any("pauses in" in sentence for sentence in told[0].anomaly.evidence)
    assert HBM


def test_the_return_level_is_passed_as_seldom_as_promised():
    rng = np.random.default_rng(3)
    passed = []
    for _ in range(200):
        past = rng.exponential(4, 300).round() + 1
        level = return_level(past, weeks_seen=2, weeks=8)
        later = rng.exponential(4, 1200).round() + 1
        passed.append((later > level).sum())
    # 1,200 pauses are those of 8 weeks, of which one is to be longer.
    assert 0.3 <= np.mean(passed) <= 1.0


def test_pauses_of_one_length_leave_little_room():
    assert return_level(np.full(50, 4.0), 2, 8) < 8
