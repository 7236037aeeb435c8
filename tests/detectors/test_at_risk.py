"""A fault, a hang and an ageing checkpoint say what the work since the newest checkpoint cost."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import numpy as np
import pytest
from builder import START, STEP, Fleet, World, hours, only
from test_faults import climbing

from bot.cards.alert import notification_card, over_card
from bot.model.alert import Alert
from bot.model.causes import Cause
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.notification import Notification, Reason
from bot.model.policy import Policy
from bot.policy.schema import default_policy
from bot.watch.track import value
from detectors.nodes.at_risk import _intervals
from tests.builders import price

HOUR = timedelta(hours=1)
STILL = {
    "neuroncore_utilization": 0,
    "neuron_execution_latency": np.nan,
    "efa": 0,
    "host_cpu": 0.03,
}


def run(saved=29.25, stands_from=48.0, job="llama-70b", silent_from=48.0):
    """Return a run that saves every 45 minutes until an hour, stands still from another on, and reports until a third."""
    minutes = np.arange(576) * 5.0
    last = np.minimum(minutes, saved * 60) // 45 * 45
    values = np.stack([np.minimum(minutes, stands_from * 60) * 10, (minutes - last) * 60], axis=1)[
        None
    ].astype(np.float32)
    values[:, minutes > silent_from * 60] = np.nan
    things = (Labels(cluster="llama", job=job),)
    return Frame(
        "run", things, START, STEP, ("run_step_count", "run_checkpoint_age_seconds"), values
    )


def valued(anomaly, now):
    return value(Alert("a", anomaly, now, now), None, lambda thing: price("21.50"), now)


def test_a_broken_device_says_what_a_stop_of_its_job_loses():
    fleet = Fleet(4).set(hours(30) - STEP, hours(30), slice(1, 2), neuron_hardware_ecc_events=200)
    fault = only(World(fleet, frames={"run": run()}).at(hours(30)))
    assert (fault.cause, fault.things) == (Cause.HARDWARE_FAULT, ("i-llama001",))
    assert (len(fault.at_risk.things), fault.at_risk.hours) == (4, pytest.approx(0.67, abs=0.01))
    alert = valued(fault, hours(30))
    assert alert.at_risk_usd == pytest.approx(Decimal("57.33"), abs=Decimal("0.01"))
    card = notification_card(Notification("n", "c", Reason.FIRST, hours(30), (alert,)))
    (line,) = [block for block in card.blocks if "At risk" in str(block)]
    assert "of work on 4 nodes since the newest checkpoint, 40 min ago" in str(line)
    assert card.data["at_risk_usd"] == alert.at_risk_usd


@pytest.mark.parametrize("silent_from", [48.0, 30.0], ids=["reports", "silent too"])
def test_a_hang_counts_the_work_before_it_and_no_minute_of_its_own(silent_from):
    fleet = Fleet(4).set(hours(30), hours(36), **STILL)
    world = World(fleet, frames={"run": run(stands_from=30, silent_from=silent_from)})
    hang = only(world.at(hours(30.5)))
    assert hang.cause is Cause.HUNG
    assert hang.at_risk.hours == pytest.approx(0.7, abs=0.1)
    (alert,) = world.run(hours(30), hours(32))
    assert alert.anomaly.at_risk.hours == pytest.approx(0.7, abs=0.1)


def test_an_ageing_checkpoint_says_what_it_would_cost():
    risk = only(World(Fleet(4), frames={"run": run()}).at(hours(32)))
    assert risk.cause is Cause.CHECKPOINT_AT_RISK
    assert (risk.at_risk.things, risk.at_risk.hours) == (risk.things, pytest.approx(2.67, abs=0.1))
    # What its nodes share is known of it too: the team, where tags name one.
    assert risk.labels.instance_type == "trn1.32xlarge"


@pytest.mark.parametrize(
    "frames", [{}, {"run": run(silent_from=20)}], ids=["no run", "ended long ago"]
)
def test_without_a_run_nothing_is_said_to_be_at_risk(frames):
    fleet = Fleet(4).set(hours(30) - STEP, hours(30), slice(1, 2), neuron_hardware_ecc_events=200)
    assert only(World(fleet, frames=frames).at(hours(30))).at_risk is None


def test_the_same_work_is_not_counted_twice_at_the_end():
    fleet = Fleet(4)
    risk = valued(only(World(fleet, frames={"run": run()}).at(hours(32))), hours(32))
    card = over_card((risk, risk))
    assert "$229 of work was at risk" in card.title


def test_a_start_makes_no_checkpoint_interval():
    """Its age counts from the restore, and its first checkpoint comes when it will."""
    seconds = np.arange(1, 145) * STEP.total_seconds()
    saved = [0.0, *np.arange(2700, 18000, 2700), 20100.0, 20700.0, *np.arange(23400, 44000, 2700)]
    ages = seconds - np.array([max(x for x in saved if x < s) for s in seconds])
    counts = np.where(seconds < 20100, seconds, seconds - 3000)
    values = np.stack([counts, ages], axis=1)[None].astype(np.float32)
    names = ("run_step_count", "run_checkpoint_age_seconds")
    frame = Frame("run", (Labels(job="a"),), START, STEP, names, values)
    assert set(_intervals(frame, 0, 0.0)) == {2700.0}


class Called(Fleet):
    """Nodes that are called by their run: two by one, the others by another."""

    def instances(self, now):
        called = ("llama-70b-0", "llama-70b-1", "llama-8b-0", "llama-8b-1")
        found = super().instances(now).items()
        tagged = zip(found, called, strict=True)
        return {name: replace(x, tags={"Name": tag}) for (name, x), tag in tagged}


def test_of_two_runs_of_a_cluster_nobody_knows_the_nodes():
    twin = run(job="llama-8b", saved=48)
    frames = {
        "run": replace(
            twin,
            things=twin.things + run().things,
            values=np.concatenate([twin.values, run().values]),
        )
    }
    (late,) = World(Fleet(4), frames=frames).at(hours(32)).anomalies
    assert (late.scope.job, late.things, late.at_risk) == ("llama-70b", (), None)
    (named,) = World(Fleet(4, job="llama-70b"), frames=frames).at(hours(32)).anomalies
    assert len(named.things) == 4

    # A name gives its nodes to a run as a label does.
    (called,) = World(Called(4), frames=frames).at(hours(32)).anomalies
    assert called.things == ("i-llama000", "i-llama001")


@pytest.mark.parametrize(("back", "gap"), [(500, 0), (0, 5)], ids=["falls back", "is silent"])
def test_a_failure_loses_no_work_from_before_the_newest_start(back, gap):
    frame = run()
    frame.values[:, 372:, 0] -= back
    frame.values[:, 372 : 372 + gap] = np.nan
    late = only(World(Fleet(4), frames={"run": frame}).at(hours(32)))
    since = 1 - gap * STEP / HOUR
    assert late.at_risk.hours == pytest.approx(since, abs=0.1)
    assert "; a failure now would lose the" in late.why
    assert "since it began again." in late.why


def test_time_in_which_a_run_was_silent_is_no_work():
    frame = run()
    frame.values[:, 355:380] = np.nan
    assert World(Fleet(4), frames={"run": frame}).at(hours(32)).anomalies == ()


def test_a_process_that_runs_out_of_memory_explains_no_checkpoint_where_nobody_is_told_of_it():
    unheard = Policy({**default_policy().values, "memory_pressure.on": False})
    for policy, cause in ((None, Cause.MEMORY_PRESSURE), (unheard, Cause.CHECKPOINT_AT_RISK)):
        world = World(climbing(0.93), frames={"run": run()}, policy=policy)
        assert only(world.at(hours(32))).cause is cause
