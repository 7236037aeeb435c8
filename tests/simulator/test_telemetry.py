from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from adapters.simulator import SCENARIOS
from adapters.simulator.generate import Simulation, SimulationTiming, simulate
from adapters.simulator.incidents import apply_incident
from adapters.simulator.reports import follow
from adapters.simulator.scenario import Kind, PlannedIncident, PlannedJob
from adapters.simulator.telemetry import Workers, gather, utilization
from adapters.simulator.workload import generator, quiet
from bot.model.causes import Cause


@pytest.fixture(scope="module")
def reference() -> Simulation:
    return simulate(7, "reference")


def workers_of(simulation: Simulation) -> Workers:
    return simulation.jobs[0]


def test_normal_then_twenty_percent_then_normal(reference: Simulation) -> None:
    level = workers_of(reference).signals.utilization
    before, during, after = (
        np.median(level[:, a * 60 : b * 60]) for a, b in ((2, 47), (49, 53), (55, 60))
    )
    assert level.shape[0] == 64
    assert 0.85 < before < 0.95
    assert during == pytest.approx(0.20, abs=0.02)
    assert after == pytest.approx(before, abs=0.03)


def test_a_starved_loader_leaves_memory_and_latency_and_fills_the_cpu(
    reference: Simulation,
) -> None:
    s = workers_of(reference).signals
    normal, starved = slice(46 * 60, 47 * 60), slice(49 * 60, 50 * 60)
    assert np.nanmedian(s.latency[:, starved]) == pytest.approx(
        np.nanmedian(s.latency[:, normal]), rel=0.06
    )
    assert s.memory[:, starved].mean() == pytest.approx(s.memory[:, normal].mean(), rel=0.01)
    assert s.cpu[:, starved].mean() > 0.94
    assert np.median(s.efa[:, starved]) < 0.3 * np.median(s.efa[:, normal])


def test_the_cores_of_a_straggler_have_no_rest_while_all_others_wait_for_it() -> None:
    rng = generator(7, "straggler")
    signals = quiet(4, 60, rng)
    signals.fill(utilization=0.9)
    incident = PlannedIncident(Cause.STRAGGLER, "search", 0, 1)
    apply_incident(signals, incident, PlannedJob("dlrm", 4, usual=0.9), rng)
    assert signals.utilization[0] == pytest.approx(0.9 * 1.06)
    assert signals.utilization[1:] == pytest.approx(0.45)


def test_steps_go_on_at_a_fifth(reference: Simulation) -> None:
    steps = follow(workers_of(reference)).steps
    pace = [(steps[b * 60] - steps[a * 60]) / (b - a) for a, b in ((30, 40), (48, 53))]
    assert pace[1] / pace[0] == pytest.approx(0.22, abs=0.03)


def test_a_restart_falls_back_to_the_last_checkpoint() -> None:
    simulation = simulate(7, "calm", SimulationTiming(days=5))
    workers = next(c for c in simulation.jobs if c.nodes[0].job.name == "vit-2b")
    drops = np.diff(follow(workers).steps)
    assert (drops < 0).sum() >= 1
    assert drops.min() > -60 * 60 / workers.nodes[0].job.step_seconds


def test_compiles_and_checkpoints_and_evaluations_happen_in_calm() -> None:
    simulation = simulate(7, "calm", SimulationTiming(days=7))
    job = next(c for c in simulation.jobs if c.nodes[0].job.name == "extra").signals
    compiling = (job.cpu > 0.5) & (job.runtime == 0)
    assert 38 <= compiling[0].sum() <= 42
    working = next(c for c in simulation.jobs if c.nodes[0].job.name == "llama-8b").signals
    assert ((working.utilization > 0.5) & (working.utilization < 0.6)).mean() > 0.02
    assert (working.write > 0).mean() > 0.02


def test_a_service_has_its_weekend_on_the_west_coast() -> None:
    friday = SimulationTiming(start=datetime(2026, 11, 20, tzinfo=UTC), days=4)
    calm = SCENARIOS["calm"]
    serving = tuple(x for x in calm.clusters if x.jobs[0].kind is Kind.INFERENCE)
    (service,) = simulate(7, replace(calm, clusters=serving), friday).jobs
    served = service.signals.utilization
    # At noon of the west coast from Friday to Monday: 20:00 UTC.
    noons = [float(served[:, hour * 60 : (hour + 1) * 60].mean()) for hour in (20, 44, 68, 92)]
    assert noons[0] == pytest.approx(noons[3], rel=0.1)
    assert max(noons[1:3]) < 0.75 * noons[0]


def test_stopped_nodes_stop_reporting_and_replaced_ones_begin() -> None:
    jobs = {c.nodes[0].job.name: c for c in simulate(7, "calm").jobs}
    assert jobs["old-run"].signals.visible[:, 200 * 60 :].sum() == 0
    spot = jobs["tuning"]
    assert [n.ended_minute for n in spot.nodes if n.ended_minute is not None] == [6000, 15600]
    assert spot.signals.visible[6, :6000].sum() == 0 < spot.signals.visible[6, 6100:].sum()


def test_unseen_and_nan_minutes_do_not_count() -> None:
    mean = np.array([[1.0, np.nan, 3.0, 4.0]])
    seen = np.array([[1.0, 1.0, 0.0, 1.0]])
    sets = gather(mean, seen, 2, things=10)
    assert sets.count.tolist() == [[10.0, 10.0]]
    assert sets.sum.tolist() == [[10.0, 40.0]]


def test_the_demo_is_bounded_in_size() -> None:
    simulation = simulate(7, "demo")
    assert 95 <= len(simulation.fleet.nodes) <= 130
    points = utilization(simulation.jobs[0]).count.size
    assert points == 64 * 3 * 1440


def test_a_restart_falls_back_to_the_last_checkpoint_and_its_age_counts_from_there() -> None:
    signals = quiet(1, 60, generator(7, "x"))
    signals.fill(pod=1, runtime=1)
    signals.progress[:], signals.saving[:] = 1.0, 1.0
    signals.pod[:, 30:40], signals.progress[30:40] = 0, 0.0
    signals.write[:, 20] = signals.write[:, 50] = 2e8
    signals.write[:, 10] = 1e8
    job = PlannedJob("x", 1, step_seconds=6.0)
    node = replace(simulate(7, "tiny").jobs[0].nodes[0], job=job)
    progress = follow(Workers((node,), signals, 1, 7))
    steps = progress.steps - progress.steps[0] + 10
    assert steps[[0, 20, 29, 39, 40, 59]].tolist() == [10, 210, 300, 300, 220, 410]
    ages = progress.checkpoint_age_seconds / 60
    assert ages[[19, 20, 29, 39, 40, 45, 50, 59]].tolist() == [19, 0, 9, 19, 0, 5, 0, 9]
