"""Say in `doctor` where accelerator metrics come from, and what to do where they do not."""

from dataclasses import replace

import pytest

from adapters.aws.api.promql import PrometheusServer
from adapters.aws.live.doctor import examine
from bot.model.frame import MetricsSurface
from bot.settings.settings import read_settings
from tests.aws_live.cloudwatch import Stored

OWN = {
    "TRNBOT_MONITOR_NAMESPACE": "Neuron",
    "TRNBOT_MONITOR_METRICS": "util -> neuroncore_utilization_ratio in percent",
}


def found(live, name):
    return next(check for check in examine(live) if check.name.startswith(name))


def hide(world, metric="node_neuroncore"):
    series = world.standin.cloudwatch.series["us-west-2"]
    world.standin.cloudwatch.series["us-west-2"] = {
        key: x for key, x in series.items() if not key[1].startswith(metric)
    }


def test_nodes_of_eks_without_metrics_name_the_add_on_and_the_server(world):
    hide(world)
    next(world.ticks(0.25, 0.25))
    check = found(world.live(), "AWS us-west-2")
    assert not check.ok
    assert "CloudWatch Observability add-on" in check.remedy
    assert "TRNBOT_METRICS_URL" in check.remedy


def test_of_two_surfaces_the_one_that_is_not_read_is_said_too(world):
    world.standin.publish("classic", "otel")
    next(world.ticks(0.25, 0.25))
    assert (
        "OTel store (PromQL): 3 nodes, not read, as the first covers them"
        in found(world.live(), "AWS us-west-2").found
    )
    check = found(world.live(surface=MetricsSurface.PROMQL), "AWS us-west-2")
    assert "(GetMetricData): 3 nodes, not read (TRNBOT_METRICS_SURFACE=promql)" in check.found
    assert "OTel store (PromQL): 3 nodes, read" in check.found


@pytest.mark.parametrize(
    ("recorded", "told"),
    [(2, "they tell of 2 of 3 nodes"), (3, "they tell of 3 of")],
)
def test_recording_rules_are_said_with_the_points_that_they_spare(world, recorded, told):
    world.standin.publish("prometheus")
    next(world.ticks(0.25, 0.25))
    store = world.standin.store("prometheus", "us-west-2")
    probes = [x for x in store.series if x.name == "neuron_hardware_info"][:recorded]
    store.series += [replace(x, name="trnbot:neuroncore_utilization_ratio:avg") for x in probes]
    server = PrometheusServer(f"{world.endpoint}/prometheus")
    check = found(world.live(server=server), "recording rules for us-west-2")
    assert check.ok
    assert told in check.found
    assert "270 points a tick, 1,245 without them" in check.found
    assert ("install deploy/prometheus/rules.yaml" in check.found) == (recorded < 3)
    assert ("TRNBOT_METRICS_LAG=2m" in check.found) == (recorded == 3)


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
            series["Neuron", "util", tuple(p for p in pairs if p[0] == "InstanceId")] = Stored(
                rows, one.period
            )
    next(world.ticks(0.25, 0.25))
    own = read_settings(OWN).own_names
    own = replace(own, meanings=tuple(replace(x, unit=unit) for x in own.meanings))
    check = found(world.live(own=own), "namespace Neuron")
    assert (check.ok, said in check.found) == (ok, True)


def test_an_own_namespace_without_series_names_the_settings(world):
    next(world.ticks(0.25, 0.25))
    check = found(world.live(own=read_settings(OWN).own_names), "namespace Neuron")
    assert not check.ok
    assert "TRNBOT_MONITOR_INSTANCE" in check.remedy


def test_a_stream_without_objects_is_told(world):
    next(world.ticks(0.25, 0.25))
    check = found(world.live(streams=["s3://metric-streams/none"]), "metric stream")
    assert (check.ok, check.found) == (False, "no object within the last hour")
