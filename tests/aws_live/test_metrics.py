"""Read a live account tick by tick: the same as a recording of it reads, no point twice, none lost."""

import json
import logging
from collections import defaultdict
from datetime import timedelta

import numpy as np
import pytest

from tests.aws_live.conftest import open_tiny
from tests.aws_live.same import differences


@pytest.mark.parametrize(
    "start_hours", [0.25, 3.5], ids=["from the first points", "with hours of history"]
)
def test_every_tick_reads_as_the_recording_does(world, tiny, start_hours):
    """A series is billed once a tick, and asking again within a step costs nothing.

    No point is read twice but after a missing minute, which is asked for once more.
    """
    live, recorded, cloudwatch = world.live(), open_tiny(tiny), world.standin.cloudwatch
    for now in world.ticks(start_hours, start_hours + 0.75):
        billed = cloudwatch.requested
        reading = live.read(now)
        assert reading.gaps == ()
        assert differences(reading, recorded.read(now)) == []
        assert 0 < cloudwatch.requested - billed <= len(live.metrics.book.series)

    served, called = cloudwatch.served, dict(world.standin.called)
    assert len(served) > 2_000
    minutes = defaultdict(list)
    for *query, at in served:
        minutes[*query].append(at)
    for query, at in minutes.items():
        after_holes = [x for x in at if served[*query, x] > 1]
        missing = set(np.arange(min(at), max(at), 60)) - set(at)
        assert all(served[*query, x] == 2 and min(missing, default=x) < x for x in after_holes), (
            query
        )
    assert live.read(now + timedelta(minutes=4)).inventory.instances
    assert dict(world.standin.called) == called


def test_a_late_point_is_picked_up(world, tiny):
    at = int((world.extent.start + timedelta(hours=2)).timestamp())
    for minute in range(3):
        world.standin.cloudwatch.hidden["node_neuroncore_utilization", at + minute * 60] = at + 700
    live, recorded = world.live(), open_tiny(tiny)
    for now in world.ticks(1.9, 2.4):
        reading = live.read(now)
    assert differences(reading, recorded.read(now)) == []


def test_history_beyond_six_hours_is_read_coarsely_and_keeps_its_levels(world, tiny, monkeypatch):
    monkeypatch.setattr("adapters.aws.live.poller.RECENT_SECONDS", 3600)
    live, recorded = world.live(), open_tiny(tiny)
    (now,) = world.ticks(5, 5)
    live.read(now)
    asked = world.standin.cloudwatch.requested
    live.settle(now)
    assert "The history of 0 of" in " ".join(live.problems())
    live.metrics.backfill.join()
    now += timedelta(minutes=5)
    world.now = now
    one, other = live.read(now).frames["node"], recorded.read(now).frames["node"]
    assert one.metrics == other.metrics
    for metric in (
        "neuroncore_utilization_ratio",
        "neuroncore_memory_used_bytes",
        "efa_rx_bytes_per_second",
    ):
        ours, theirs = one.of(metric)[:, 3:-15], other.of(metric)[:, 3:-15]
        assert np.nanmean(ours) == pytest.approx(np.nanmean(theirs), rel=0.02, nan_ok=True)
        assert np.isfinite(ours).sum() == pytest.approx(np.isfinite(theirs).sum(), rel=0.02)
    assert live.problems() == ()
    assert world.standin.cloudwatch.requested > 2 * asked
    assert np.allclose(one.values[:, -10:], other.values[:, -10:], rtol=1e-5, equal_nan=True)


def test_faults_leave_no_gap(world, tiny, caplog):
    world.standin.faults.throttled, world.standin.faults.reset = 0.2, 0.05
    live, recorded = world.live(), open_tiny(tiny)
    with caplog.at_level(logging.INFO, "trnbot.aws"):
        for now in world.ticks(1, 1.1):
            reading = live.read(now)
    world.standin.faults.throttled = world.standin.faults.reset = 0
    (now,) = world.ticks(1.25, 1.25)
    reading = live.read(now)
    assert world.standin.failed.total() > 10
    assert reading.gaps == ()
    assert differences(reading, recorded.read(now)) == []


def test_an_outage_is_said_logged_once_and_filled_afterwards(world, tiny, caplog):
    live, recorded = world.live(), open_tiny(tiny)
    for now in world.ticks(1, 1.25):
        live.read(now)
    world.standin.faults.denied = {"cloudwatch:GetMetricData"}
    with caplog.at_level(logging.INFO, "trnbot.aws"):
        for now in world.ticks(1.34, 2.9):
            reading = live.read(now)
            assert "could not be read" in " ".join(map(str, reading.gaps))
            assert np.isnan(reading.frames["node"].of("neuroncore_utilization_ratio")[:, -1]).all()
        world.standin.faults.denied = set()
        (now,) = world.ticks(3, 3)
        reading = live.read(now)
    assert reading.gaps == ()
    assert differences(reading, recorded.read(now)) == []
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert "denied" in said[0]
    assert "has recovered" in said[1]


@pytest.mark.parametrize("operation", ["cloudwatch:ListMetrics", "ec2:DescribeInstances"])
def test_a_denied_part_costs_only_itself(world, operation):
    world.standin.faults.denied = {operation}
    live = world.live()
    (now,) = world.ticks(2, 2)
    reading = live.read(now)
    assert any(
        operation in gap and "deploy/iam-policy.json" in gap for gap in map(str, reading.gaps)
    )
    assert reading.inventory.file_systems
    assert ("node" in reading.frames) == (operation != "cloudwatch:ListMetrics")


def test_garbled_answers_never_read_as_no_fleet(world):
    live = world.live()
    (now,) = world.ticks(2, 2)
    before = live.read(now)
    world.standin.faults.garbled = 1.0
    (now,) = world.ticks(2.1, 2.1)
    after = live.read(now)
    assert after.inventory.instances == before.inventory.instances
    assert after.frames["node"].things == before.frames["node"].things
    assert after.gaps


def test_cores_are_read_on_request_only(world, tiny):
    live, recorded = world.live(), open_tiny(tiny)
    for now in world.ticks(2, 2.25):
        reading = live.read(now)
    assert "core" not in reading.frames
    there = recorded.read(now).frames["core"]
    asked = there.things[0].instance
    live.drill([asked], now)
    for now in world.ticks(2.34, 2.5):
        reading = live.read(now)
    ours, theirs = reading.frames["core"], recorded.read(now).frames["core"]
    assert ours.things == theirs.things
    rows = slice(-2, None)
    assert np.isnan(ours.values[:, :-3]).all(), "nothing from before it was asked for"
    assert np.allclose(ours.values[:, rows], theirs.values[:, rows], rtol=1e-5, equal_nan=True)
    assert differences(reading, recorded.read(now)) == []


def test_no_secret_is_said(world, caplog):
    world.standin.faults.denied = {"sts:GetCallerIdentity"}
    live = world.live()
    (now,) = world.ticks(2, 2)
    said = json.dumps(
        [
            [*map(str, live.read(now).gaps)],
            list(live.problems()),
            [r.getMessage() for r in caplog.records],
        ]
    )
    assert "sts:GetCallerIdentity" in said
    assert "wJalrXUtnFEMI" not in said
    assert "AKIDEXAMPLE" not in said
