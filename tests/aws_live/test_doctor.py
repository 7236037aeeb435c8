"""Say in `doctor` where accelerator metrics come from, and what to do where they do not."""

from dataclasses import replace

import pytest

from bot.settings.settings import read_settings
from tests.aws_live.cloudwatch import Stored

OWN = {"TRNBOT_MONITOR_NAMESPACE": "Neuron", "TRNBOT_MONITOR_METRICS": "util -> neuroncore_utilization_ratio in percent"}


def found(live, name):
    return next(check for check in live.examine() if check.name.startswith(name))


def hide(world, metric="node_neuroncore"):
    series = world.standin.cloudwatch.series["us-west-2"]
    world.standin.cloudwatch.series["us-west-2"] = {key: x for key, x in series.items() if not key[1].startswith(metric)}


def test_container_insights_are_seen(world):
    next(world.ticks(2, 2))
    check = found(world.live(), "AWS us-west-2")
    assert check.ok
    assert "3 accelerated instances; NeuronCore metrics of Container Insights" in check.found


def test_nodes_of_eks_without_metrics_point_to_promql(world):
    hide(world)
    next(world.ticks(2, 2))
    check = found(world.live(), "AWS us-west-2")
    assert not check.ok
    assert "only PromQL reads" in check.remedy
    assert "enhanced observability" in check.remedy


@pytest.mark.parametrize(
    ("scale", "unit", "ok", "said"),
    [
        (1, "percent", True, "util of 3 instances"),
        (0.01, "percent", False, "looks like a ratio"),
        (1, "ratio", False, "so it is percent"),
    ],
)
def test_an_own_namespace_is_looked_at_with_its_units(world, scale, unit, ok, said):
    series = world.standin.cloudwatch.series["us-west-2"]
    for (_, metric, pairs), one in list(series.items()):
        if metric == "node_neuroncore_utilization" and len(pairs) == 3:
            rows = one.rows * [1, 1, scale, scale, scale]
            series["Neuron", "util", tuple(p for p in pairs if p[0] == "InstanceId")] = Stored(rows, one.period)
    next(world.ticks(2, 2))
    own = read_settings(OWN).own_names
    own = replace(own, meanings=tuple(replace(x, unit=unit) for x in own.meanings))
    check = found(world.live(own=own), "namespace Neuron")
    assert (check.ok, said in check.found) == (ok, True)


def test_an_own_namespace_without_series_names_the_settings(world):
    next(world.ticks(2, 2))
    check = found(world.live(own=read_settings(OWN).own_names), "namespace Neuron")
    assert not check.ok
    assert "TRNBOT_MONITOR_INSTANCE" in check.remedy


def test_a_stream_without_objects_is_told(world):
    next(world.ticks(2, 2))
    check = found(world.live(streams=["s3://metric-streams/none"]), "metric stream")
    assert (check.ok, check.found) == (False, "no object within the last hour")
