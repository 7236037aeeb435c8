"""Odd combinations: against the hours before in the same job, and beside them what the bill says."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from builder import START, Fleet, World, hours
from sentences import contradictions_of, faults_of

from bot.model.causes import Cause
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import SPEND_METRIC
from detectors.detector import Detector
from detectors.forest import COSTS, METRICS, CostHistory, fit, known_costs
from detectors.nodes.odd import combined, spans_of_scopes
from detectors.roster import build_roster

HOUR = timedelta(hours=1)
JOBS = ((1.0, 1.0, 0.11), (0.7, 2.4, 0.3), (0.85, 0.4, 0.2), (1.1, 1.6, 0.15), (0.6, 0.7, 0.4))
"""Memory and latency of a job against the first, and its host CPU."""
EVALUATION = {
    "neuroncore_memory": 0.55,
    "neuron_runtime_memory": 0.55,
    "neuron_execution_latency": 2.0,
}


def jobs(nodes=8, days=4, cluster="llama", every=14, seed=1):
    """Return a fleet whose nodes run one job after another, half an hour apart, each with evaluations."""
    fleet = Fleet(nodes, days, cluster, seed=seed)
    for i, start in enumerate(range(0, int(24 * days), every)):
        memory, latency, cpu = JOBS[i % len(JOBS)]
        end = min(hours(start + every), hours(24 * days))
        fleet.scale(
            hours(start),
            end,
            neuroncore_memory=memory,
            neuron_runtime_memory=memory,
            neuron_execution_latency=latency,
        )
        fleet.set(hours(start), end, host_cpu=cpu)
        for after in (4, 9):
            evaluate(fleet, hours(start + after))
        fleet.stop(hours(start), hours(start + 0.5))
    return fleet


def evaluate(fleet, start, level=0.45):
    end = start + timedelta(minutes=20)
    return fleet.scale(start, end, neuroncore_utilization=level, efa=0.06 * level, **EVALUATION)


def told(world, start, end):
    return [alert for alert in world.run(start, end) if alert.cause is Cause.ODD]


def test_a_rest_without_reserved_cores_hides_no_oddness_of_the_job_after_it():
    fleet = jobs(every=28).stop(hours(56), hours(58))
    fleet.set(hours(0), hours(96), neuroncore_reserved=32).set(
        hours(56), hours(58), neuroncore_reserved=0
    )
    world = World(fleet.scale(hours(66), hours(68), efa=0.05))
    (alert,) = told(world, hours(62), hours(68))
    assert alert.opened - hours(66) <= timedelta(minutes=40)


def test_a_new_job_of_another_kind_is_not_odd():
    fleet = Fleet(8, days=4).stop(hours(60), hours(60.5))
    fleet.scale(
        hours(60.5),
        hours(96),
        neuroncore_memory=0.6,
        neuron_runtime_memory=0.6,
        neuron_execution_latency=2.2,
        efa=0.5,
    )
    assert told(World(fleet.set(hours(60.5), hours(96), host_cpu=0.4)), hours(58), hours(72)) == []


def test_an_evaluation_that_uses_nearly_as_much_is_not_odd():
    fleet = jobs()
    for start in (62, 65.2, 67.4):
        evaluate(fleet, hours(start), level=0.88)
    assert told(World(fleet), hours(61), hours(69)) == []


@pytest.mark.parametrize("days_before", [True, False])
def test_a_return_to_what_the_days_before_showed_is_not_odd(days_before):
    """The hours before were of a trouble, which was told too late not to be taken as usual."""
    fleet = jobs(every=96).scale(hours(66), hours(68), **EVALUATION)
    if days_before:
        fleet.scale(hours(0), hours(52), **EVALUATION)
    assert len(told(World(fleet), hours(64), hours(68))) == (0 if days_before else 1)


def test_of_many_rows_the_forest_learns_every_nth_of_all_blocks(monkeypatch):
    world, learnt = World(jobs()), []

    def grow(rows):
        learnt.append(rows)
        return fit(rows)

    for most in (10**6, 50):
        monkeypatch.setattr("detectors.nodes.odd.MOST_ROWS", most)
        world.detector = Detector(grow)
        world.at(hours(64))
    every, thinned = learnt
    assert np.array_equal(thinned, every[:: -(-len(every) // 50)])
    assert 40 < len(thinned) <= 50


def bill(usd, cluster="llama"):
    """Return the bill by the hour, from START, of one line of instance hours."""
    thing = Labels(
        account="1",
        service="AmazonEC2",
        region="us-west-2",
        usage_type="BoxUsage:trn1.32xlarge",
        cluster=cluster,
    )
    values = np.asarray(usd, dtype=np.float32)[None, :, None]
    return Frame("spend_hour", (thing,), START, HOUR, (SPEND_METRIC,), values)


def costs(usd, fleet, until, length=HOUR):
    world = World(fleet)
    frame = world.whole.until(until)
    return known_costs(
        bill(usd), frame, build_roster(frame.things, world.inventory(until)), until, length
    )


def test_costs_are_of_a_nodes_hour_a_clusters_hour_and_a_busy_cores_hour():
    fleet = Fleet(4, days=1).set(hours(0), hours(24), neuroncore_utilization=0.5)
    ((node, cluster, core),) = costs(np.full(24, 80.0), fleet, hours(12))[0]
    assert (node, cluster) == pytest.approx((20, 80))
    assert core == pytest.approx(80 / (4 * 32 * 0.5))


def test_costs_know_no_hour_that_has_not_arrived():
    fleet = Fleet(4, days=2)
    assert costs(np.full(20, 80.0), fleet, hours(24)).shape == (4, 0, len(COSTS))
    early, late = np.full(30, 80.0), np.full(40, 80.0)
    late[30:] = 900
    assert (
        costs(early, fleet, hours(30), 9 * HOUR) == costs(late, fleet, hours(30), 9 * HOUR)
    ).all()


def test_another_price_is_far_from_the_week_before():
    usd = np.full(96, 80.0)
    usd[80:] = 200
    world = World(Fleet(4, days=4))
    roster = build_roster(world.whole.things, world.inventory(hours(96)))
    history = CostHistory.of(bill(usd), world.whole, roster, hours(96))
    assert np.abs(history.at(hours(70))).max() < 1
    assert (history.at(hours(90)) == 10).all()


def test_nobody_learns_from_a_cluster_in_which_odd_work_was_told():
    """A node that the alert let go was as odd before: it would raise the score that is asked of the next."""
    world = World(jobs().scale(hours(66), hours(68), slice(0, 7), **EVALUATION))
    told(world, hours(62), hours(68))
    (alert,) = world.known
    ended = replace(alert, closed=hours(68))
    view = world.detector.view(world.reading(hours(69)), world.policy, [ended])
    (span,) = spans_of_scopes(view, hours(69))
    assert len(alert.anomaly.things) == 7
    assert span.things == tuple(world.fleets[0].ids)
    assert (span.start, span.end) == (alert.anomaly.window.start, hours(69))


@pytest.mark.parametrize(
    ("work", "others", "odd"),
    [(10, 1, False), (-10, 1, True), (10, 2, True), (0, 1, False)],
    ids=["busier and another", "less busy and another", "busier and two others", "one"],
)
def test_to_be_busier_is_no_part_of_a_combination(work, others, odd):
    far = np.zeros((1, len(METRICS)), np.float32)
    far[0, 0], far[0, 1 : 1 + others] = work, -10
    assert combined(far).tolist() == [odd]


def test_a_return_to_a_state_before_the_newest_job_is_not_odd():
    fleet = jobs(every=96).stop(hours(60), hours(60.2))
    other = {"neuroncore_memory": 0.6, "neuron_runtime_memory": 0.6}
    fleet.scale(hours(60.2), hours(66), neuron_execution_latency=0.5, host_cpu=3, **other)
    assert told(World(fleet), hours(58), hours(72)) == []


@pytest.mark.parametrize("sent", [1.0, 0.3])
def test_the_sentence_of_an_oddness_never_says_that_a_change_is_as_before(sent):
    """Where the work doubles too, traffic that stays is no change; less of it is said as it was sent."""
    half = {"neuroncore_utilization": 0.5, "neuroncore_memory": 0.5, "neuron_runtime_memory": 0.5}
    fleet = jobs(every=96).scale(hours(0), hours(66), **half)
    fleet.scale(hours(66), hours(70), efa=sent)
    (alert,) = told(World(fleet), hours(62), hours(70))
    assert faults_of(alert.anomaly) == []
    assert "NeuronCore utilization 90 % instead of 45 %" in alert.anomaly.why
    assert ("EFA sent" in alert.anomaly.why) == (sent < 1)


def test_a_sentence_that_contradicts_itself_is_found():
    before = "NeuronCore utilization is as before"
    assert (
        len(
            contradictions_of(
                f"A: {before} (70 %, usual 35 %), but EFA sent 5 Gbps instead of 9 Gbps."
            )
        )
        == 1
    )
    assert (
        len(
            contradictions_of(
                f"A: {before} (70 %, usual 70 %), but NeuronCore utilization 70 % instead of 35 %."
            )
        )
        == 1
    )
    assert (
        len(contradictions_of(f"A: {before} (70 %, usual 70 %), but host CPU 9 % instead of 9 %."))
        == 1
    )
    assert (
        contradictions_of(
            f"A: {before} (70 %, usual 69 %), but EFA sent 5 Gbps instead of 9 Gbps, host CPU 9 % instead of 4 %."
        )
        == []
    )


LENT = {
    "neuroncore_memory": 0.6,
    "neuron_runtime_memory": 0.6,
    "neuron_execution_latency": 0.2,
    "efa": 0.05,
}


def lent(job, start, end):
    """Return nodes of one job, two of which do other work without a stop and name `job`."""
    fleet, two = jobs(6, every=120), jobs(2, every=120, seed=2)
    fleet.job, two.job, two.ids = "pretrain", job, ["i-lent0", "i-lent1"]
    return World(fleet, two.scale(hours(start), hours(end), **LENT))


@pytest.mark.parametrize(("job", "odd"), [("evals", 0), ("pretrain", 1)])
def test_work_of_the_job_that_a_node_now_names_is_not_odd_in_the_job_before(job, odd):
    assert len(told(lent(job, 66, 96), hours(65), hours(68))) == odd


def test_a_node_that_comes_back_to_its_job_is_not_odd_where_it_looks_as_its_peers_do():
    assert told(lent("pretrain", 4, 66), hours(65), hours(68)) == []


@pytest.mark.parametrize(("nodes", "odd"), [(slice(None), 0), (slice(0, 1), 1)])
def test_servers_that_change_together_are_under_load(nodes, odd):
    fleet = jobs(8, every=120)
    fleet.job = "serving"
    more = {"neuron_execution_latency": 1.6, "host_cpu": 3, "network_in": 3}
    alerts = told(World(fleet.scale(hours(66), hours(68), nodes, **more)), hours(65), hours(68))
    assert len(alerts) == odd
    assert all("odd combination on 1 server:" in alert.anomaly.why for alert in alerts)
