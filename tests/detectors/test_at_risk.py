"""A fault, a hang and an ageing checkpoint say what the work since the newest checkpoint cost."""

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
from detectors.progress import _rates
from tests.builders import price


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


def test_the_same_work_is_not_counted_twice_at_the_end():
    fleet = Fleet(4)
    risk = valued(only(World(fleet, frames={"run": run()}).at(hours(32))), hours(32))
    card = over_card((risk, risk))
    assert "$229 of work was at risk" in card.title


@pytest.mark.parametrize("steps_a_report", [1, 2])
def test_a_start_makes_no_checkpoint_interval(steps_a_report):
    """Its age counts from the restore, and its first checkpoint comes when it will."""
    seconds = np.arange(1, 145) * STEP.total_seconds()
    saved = [0.0, *np.arange(2700, 18000, 2700), 20100.0, 20700.0, *np.arange(23400, 44000, 2700)]
    ages = seconds - np.array([max(x for x in saved if x < s) for s in seconds])
    counts = np.where(seconds < 20100, seconds, seconds - 3000)
    values = np.stack([counts, ages], axis=1)[None].astype(np.float32)
    values = values[:, np.arange(144) // steps_a_report * steps_a_report]
    names = ("run_step_count", "run_checkpoint_age_seconds")
    frame = Frame("run", (Labels(job="a"),), START, STEP, names, values)
    assert set(_intervals(frame, 0, 0.0)) == {2700.0}


@pytest.mark.parametrize("steps_a_report", [1, 2, 3])
def test_a_run_that_reports_seldom_is_no_slower(steps_a_report):
    counts = np.arange(576) // steps_a_report * steps_a_report * 40.0
    values = counts[None, :, None].astype(np.float32)
    frame = Frame("run", (Labels(job="a"),), START, STEP, ("run_step_count",), values)
    rates, _ = _rates(frame)
    assert rates[0, 9:] == pytest.approx(1.0)


def test_a_process_that_runs_out_of_memory_explains_no_checkpoint_where_nobody_is_told_of_it():
    unheard = Policy({**default_policy().values, "memory_pressure.on": False})
    for policy, cause in ((None, Cause.MEMORY_PRESSURE), (unheard, Cause.CHECKPOINT_AT_RISK)):
        world = World(climbing(0.93), frames={"run": run()}, policy=policy)
        assert only(world.at(hours(32))).cause is cause
