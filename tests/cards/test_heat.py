"""A day of the fleet by hour."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from bot.answers.fleet.card import fleet_heat
from bot.cards.card import ChartKind
from bot.model.frame import Frame
from bot.model.labels import Labels

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
FIVE = timedelta(minutes=5)
METRICS = ("neuroncore_utilization_ratio", "gpu_utilization_ratio")


def frame(hours=26):
    """Return three nodes of two clusters, one of GPUs, full until the last hour; one reads nothing for a day."""
    steps = hours * 12
    values = np.full((3, steps, 2), np.nan, np.float32)
    values[0, :, 0], values[0, -12:, 0] = 0.9, 0.2
    values[2, :, 1] = 0.5
    things = (
        Labels(cluster="llama", instance="i-1"),
        Labels(cluster="llama", instance="i-2"),
        Labels(cluster="gpu", instance="i-3"),
    )
    return Frame("node", things, NOON - FIVE * steps, FIVE, METRICS, values)


def test_a_row_a_cluster_and_a_cell_an_hour():
    chart = fleet_heat(frame(), ("llama", "gpu", "gone"))
    assert chart is not None
    assert (chart.kind, len(chart.times), chart.times[-1]) == (
        ChartKind.HEAT,
        24,
        NOON - timedelta(hours=1),
    )
    llama, gpu = chart.series
    assert llama.values[-2:] == (90.0, 20.0)
    assert set(gpu.values) == {50.0}
    assert chart.summary == "Utilization in the last hour: llama 20 %, gpu 50 %."


def test_the_last_hour_ends_now_whatever_the_clock_says():
    half_past = frame().until(NOON - timedelta(minutes=30))
    chart = fleet_heat(half_past, ("llama",))
    assert chart is not None
    assert (len(chart.times), chart.times[-1]) == (24, NOON - timedelta(minutes=90))
    assert chart.series[0].values[-1] == 55.0, "half of it at 90 %, half at 20 %"


@pytest.mark.parametrize("nodes", [12, 13])
def test_only_what_has_no_row_is_said_to_be_left_out(nodes):
    one = frame(1).pick([0])
    things = tuple(Labels(cluster="llama", instance=f"i-{n}") for n in range(nodes))
    day = replace(one, things=things, values=np.repeat(one.values, nodes, axis=0))
    chart = fleet_heat(day, [thing.instance for thing in things], "instance")
    assert len(chart.series) == 12
    assert ("the 12 least used nodes" in chart.title) is (nodes > 12)


def test_nothing_read_is_no_chart():
    assert fleet_heat(None, ("llama",)) is None
    assert fleet_heat(frame(), ("gone",)) is None
