"""Watch a live account that misbehaves: no gap afterwards, no false silence, the same alerts, each change of state said once."""

import time
from datetime import timedelta

import numpy as np
import pytest

from bot.model.causes import Cause
from bot.model.window import Window
from tests.aws_live.conftest import open_tiny
from tests.aws_live.ordeal import Lines, Watched, ports_of, repeated, told, unlike, watch
from tests.aws_live.same import differences

FIVE = timedelta(minutes=5)
KINDS = {
    "throttled and reset": {"throttled": 0.2, "reset": 0.05},
    "broken off": {"truncated": 0.15, "broken": 0.1},
    "garbage": {"garbled": 0.1, "garbage": 0.1},
    "all": {
        "throttled": 0.1,
        "reset": 0.05,
        "truncated": 0.05,
        "broken": 0.05,
        "garbled": 0.03,
        "garbage": 0.03,
        "pages": 0.2,
    },
}
"""Shares of calls; nothing is retried within a tick here, so that every one of them reaches the watch.

`make test` tries all kinds at once, `make test-all` each alone; `python -m benchmarks.soak` for hours.
"""


def window(world, start, end):
    return Window(
        world.extent.start + timedelta(hours=start), world.extent.start + timedelta(hours=end)
    )


@pytest.fixture(scope="module")
def peace(tiny):
    """Return what a backtest of the same hours sees."""
    from bot.watch.preview import replay

    recording = open_tiny(tiny)
    cut = Window(
        recording.extent().start + timedelta(hours=2.25),
        recording.extent().start + timedelta(hours=4.5),
    )

    class Cut:
        """Read the recording from where the live watch begins."""

        extent = staticmethod(lambda: cut)
        read = staticmethod(recording.read)
        problems = staticmethod(recording.problems)

    return replay(ports_of(tiny, source=Cut()), ("web:alerts",))


@pytest.mark.parametrize(
    "kind",
    ["all", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "all")],
)
def test_faults_of_every_kind_cost_nothing_in_the_end(world, tiny, tmp_path, peace, kind):
    faults = world.standin.faults
    faults.seed = 3
    for name, share in KINDS[kind].items():
        setattr(faults, name, share)
    live, span = world.live(attempts=1), window(world, 2.25, 4.5)

    def end(now):
        if now >= span.end - 2 * FIVE:
            faults.end()

    with Lines() as lines:
        seen = watch(Watched(world, live, span, end), tmp_path / "bill")
    assert world.standin.failed.total() > 15
    assert unlike(seen, peace, late=2 * FIVE, later=3 * FIVE) == []
    assert repeated(lines.said) == []
    (now,) = world.ticks(4.6, 4.6)
    reading = live.read(now)
    assert reading.gaps == ()
    assert differences(reading, open_tiny(tiny).read(now)) == []


@pytest.mark.parametrize("hours", [0.5, pytest.param(1.75, marks=pytest.mark.slow)])
def test_an_outage_is_no_silence_of_the_fleet_and_leaves_no_gap(
    world, tiny, tmp_path, peace, hours
):
    live, span = world.live(attempts=1), window(world, 2.75, 4 + hours)
    begin = span.start + timedelta(hours=1)

    def spoil(now):
        world.standin.faults.dead = begin <= now < begin + timedelta(hours=hours)

    watched = Watched(world, live, span, spoil)
    with Lines() as lines:
        seen = watch(watched, tmp_path / "bill")
    assert repeated(lines.said) == []
    metrics = [line for line in lines.said if "GetMetricData" in line]
    assert ["has recovered" in line for line in metrics] == [False, True]
    assert [a.anomaly.cause for a in seen.alerts.values()] == [Cause.IDLE]
    assert told(seen)[0][:3] == told(peace)[0][:3]
    assert all(
        watched.gaps[now] for now in watched.gaps if begin <= now < begin + timedelta(hours=hours)
    )
    (now,) = world.ticks(4.1 + hours, 4.1 + hours)
    reading = live.read(now)
    assert reading.gaps == ()
    assert differences(reading, open_tiny(tiny).read(now)) == []


@pytest.mark.parametrize(
    "operation",
    [
        "ec2:DescribeInstances",
        pytest.param("cloudwatch:ListMetrics", marks=pytest.mark.slow),
        pytest.param("cloudwatch:GetMetricData", marks=pytest.mark.slow),
    ],
)
def test_a_slow_source_costs_its_part_and_no_tick(world, operation):
    real = []
    live = world.live(haste=30)
    (now,) = world.ticks(2, 2)
    live.read(now)
    world.standin.faults.slow = {operation: 20}
    for now in world.ticks(3.1, 3.2):
        began = time.monotonic()
        reading = live.read(now)
        real.append(time.monotonic() - began)
    assert reading.inventory.instances
    assert reading.gaps
    assert any("slow" in problem for problem in live.problems())
    assert max(real) < 15
    newest = reading.frames["node"].of("neuroncore_utilization_ratio")[:, -2]
    assert np.isnan(newest).all() == (operation == "cloudwatch:GetMetricData")
    assert world.standin.called["ec2:DescribeInstances"]


def test_credentials_that_expire_and_come_back(world, tiny, caplog):
    live = world.live()
    for now in world.ticks(1, 1.1):
        live.read(now)
    world.standin.faults.expired = True
    for now in world.ticks(1.25, 1.5):
        reading = live.read(now)
        assert "renew the credentials" in " ".join(map(str, reading.gaps))
    world.standin.faults.expired = False
    for now in world.ticks(1.59, 1.6):
        reading = live.read(now)
    assert reading.gaps == ()
    assert differences(reading, open_tiny(tiny).read(now)) == []


def test_a_part_that_cannot_be_read_is_no_silence(world, tiny, tmp_path):
    live, span = world.live(attempts=1), window(world, 2.25, 2.8)
    lost = set()

    def about(action, account, region, given):
        asked = str(given.get("MetricDataQueries", ""))
        return "throttled" if lost and any(x in asked for x in lost) else ""

    world.standin.faults.of = about
    live.metrics.most_queries = 20

    def spoil(now):
        if now == span.start + FIVE:
            lost.add(sorted(live.fleet(live.places()[0]).instances)[0])

    watched = Watched(world, live, span, spoil)
    seen = watch(watched, tmp_path / "bill")
    assert told(seen) == []
    assert any(watched.gaps.values())
