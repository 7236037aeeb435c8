"""Watch one fleet by each surface of metrics: the alerts are the same, and each asks for no more than its policy says."""

from datetime import timedelta

import pytest

from adapters.aws.api.operations import statements
from adapters.aws.live.record import record
from bot.model.frame import MetricsSurface
from bot.model.window import Window
from bot.watch.preview import replay
from tests.aws_live.ordeal import Watched, ports_of, told, watch
from tests.aws_live.surfaces import all_watched

CLASSIC = ("cloudwatch:GetMetricData", "cloudwatch:ListMetrics")


@pytest.mark.slow
def test_every_surface_gives_the_same_alerts_within_its_policy(tiny, tmp_path):
    classic, otel, prometheus = all_watched(tiny, tmp_path)
    assert [cause.value for cause, *_ in classic.alerts] == ["idle"]
    assert otel.alerts == prometheus.alerts == classic.alerts
    assert classic.actions == otel.actions == prometheus.actions == CLASSIC
    allowed = {action for _, statement in statements() for action in statement["Action"]}
    assert set(CLASSIC) <= allowed
    assert 0 < prometheus.usd < otel.usd < classic.usd
    assert "idle of 2 at 03:35" in str(otel)


@pytest.mark.slow
def test_a_backtest_of_a_record_by_promql_gives_the_alerts_of_the_watch(world, tmp_path):
    world.standin.publish("otel")
    start = world.extent.start
    window = Window(start + timedelta(hours=2.5), start + timedelta(hours=4.5))
    live = world.live(surface=MetricsSurface.PROMQL, journal=tmp_path / "journal")
    before = watch(Watched(world, live, window), tmp_path / "no-bill")
    record(
        world.live(surface=MetricsSurface.PROMQL, journal=tmp_path / "journal"),
        tmp_path / "made",
        start,
        window.end,
    )
    after = replay(ports_of(tmp_path / "made"), ("web:alerts",))
    assert [cause.value for cause, *_ in told(before)] == ["idle"]
    assert told(after) == told(before)
