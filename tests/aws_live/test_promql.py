"""Read NeuronCore metrics by PromQL: the same as by GetMetricData, from CloudWatch's OTel store and from a Prometheus server."""

from datetime import timedelta

import numpy as np
import pytest

from adapters.aws.api.operations import Place
from adapters.aws.api.promql import PrometheusServer
from adapters.aws.config import ReadingConfig
from adapters.aws.live.promql import fetch
from adapters.aws.live.record import record
from adapters.aws.live.requests import MetricRequest, SeriesBook
from adapters.aws.metrics.points import MetricSeries
from adapters.aws.metrics.promql import NAMESPACE, SampleCounts
from adapters.aws.recording.recording import open_recording
from bot.model.frame import MetricsSurface
from tests.aws_live.cloudwatch import Stored
from tests.aws_live.conftest import FIVE, TYPES, open_tiny

APPROXIMATE = {"neuroncore_memory_used_bytes": 0.05}
"""What runtimes hold stands for the sum over cores, at a thousandth of the samples."""
NOT_TOLD = {"neuroncore_limit_count", "host_cpu_utilization_ratio"}


def by_promql(world, surface, **more):
    world.standin.publish(surface)
    return world.live(surface=MetricsSurface.PROMQL, server=server_of(world, surface), **more)


def server_of(world, surface):
    return (
        PrometheusServer(f"{world.endpoint}/prometheus")
        if surface == "prometheus"
        else PrometheusServer()
    )


def assert_alike(ours, theirs, metrics):
    """Compare the steps that both frames have, node by node."""
    assert {x.instance for x in ours.things} == {x.instance for x in theirs.things}
    order = [[x.instance for x in theirs.things].index(thing.instance) for thing in ours.things]
    for metric in metrics:
        one, other = ours.of(metric), theirs.of(metric)[order]
        n = min(one.shape[1], other.shape[1])
        close = np.isclose(
            one[:, -n:], other[:, -n:], rtol=APPROXIMATE.get(metric, 1e-4), equal_nan=True
        )
        assert close.all(), f"{metric}: {np.argwhere(~close)[:5]}"


@pytest.mark.parametrize("surface", ["otel", "prometheus"])
@pytest.mark.parametrize(
    "start_hours", [0.25, 3.5], ids=["from the first points", "with hours of history"]
)
def test_frames_are_those_of_the_classic_namespace(world, tiny, surface, start_hours):
    live, recorded = by_promql(world, surface), open_tiny(tiny)
    for now in world.ticks(start_hours, start_hours + 0.5):
        reading = live.read(now)
        assert reading.gaps == ()
    ours, theirs = reading.frames["node"], recorded.read(now).frames["node"]
    told = set(theirs.metrics) - NOT_TOLD
    if surface == "prometheus":
        told -= {metric for metric in told if metric.startswith("efa_")} | {
            "neuroncore_reserved_count"
        }
    assert told <= set(ours.metrics)
    assert_alike(ours, theirs, told)
    assert {(x.cluster, x.instance_type, x.region, x.account) for x in ours.things} == {
        ("tiny", "trn1.32xlarge", "us-west-2", "111122223333")
    }


def test_pods_are_told_by_the_otel_store(world, tiny):
    live, recorded = by_promql(world, "otel"), open_tiny(tiny)
    for now in world.ticks(3, 3.25):
        reading = live.read(now)
    ours, theirs = reading.frames["pod"], recorded.read(now).frames["pod"]
    assert {(x.cluster, x.namespace, x.pod, x.job) for x in ours.things} == {
        (x.cluster, x.namespace, x.pod, x.job) for x in theirs.things
    }
    order = [[x.pod for x in theirs.things].index(thing.pod) for thing in ours.things]
    for metric in (
        "neuroncore_utilization_ratio",
        "neuroncore_busy_count",
        "neuroncore_usage_count",
    ):
        assert np.allclose(
            ours.of(metric)[:, -3:], theirs.of(metric)[order][:, -3:], rtol=1e-3, equal_nan=True
        ), metric


def test_a_fleet_that_the_classic_namespace_tells_of_is_not_asked_for_by_promql(world):
    world.standin.publish("classic", "otel")
    live = world.live()
    (now,) = world.ticks(2, 2)
    live.read(now)
    assert not [
        action
        for action in world.standin.called
        if action in ("cloudwatch:QueryMetrics", "cloudwatch:GetLabels")
    ]


def test_nodes_that_only_promql_tells_of_are_read_by_it_and_no_other_is(world, tiny):
    world.standin.publish("classic", "otel")
    world.standin.store("otel", "us-west-2")
    series = world.standin.cloudwatch.series["us-west-2"]
    moved = sorted(
        {
            dict(pairs)["InstanceId"]
            for _, metric, pairs in series
            if metric == "node_neuroncore_limit"
        }
    )[0]
    gone = [
        key
        for key in series
        if key[0] == "ContainerInsights" and dict(key[2]).get("InstanceId") == moved
    ]
    for key in gone:
        del series[key]
    live, recorded = world.live(), open_tiny(tiny)
    for now in world.ticks(2, 2.25):
        reading = live.read(now)
    assert_alike(
        reading.frames["node"], recorded.read(now).frames["node"], ["neuroncore_utilization_ratio"]
    )
    read = {
        dict(x.dimensions)["InstanceId"]
        for x in live.metrics.book.series
        if x.namespace == "PromQL" and "InstanceId" in x.names
    }
    assert read == {moved}


@pytest.mark.parametrize(
    "hours_ago", [0.5, 4.0], ids=["while it is watched", "before it was watched"]
)
def test_a_cluster_that_moves_to_the_otel_store_is_read_on_without_a_hole(world, tiny, hours_ago):
    world.standin.publish("classic", "otel")
    world.standin.store("otel", "us-west-2")
    series, begin = world.standin.cloudwatch.series["us-west-2"], world.extent.start
    moved = (begin + timedelta(hours=4.5 - hours_ago)).timestamp()
    for key, one in list(series.items()):
        if key[0] == "ContainerInsights":
            series[key] = Stored(one.rows[one.rows[:, 0] < moved], one.period)
    live, recorded = world.live(), open_tiny(tiny)
    for hours in (3.9, 4.0, 4.5, 4.95, 5.0) if hours_ago == 0.5 else (4.5,):
        (now,) = world.ticks(hours, hours)
        reading = live.read(now)
    ours, theirs = (
        x.frames["node"].of("neuroncore_utilization_ratio") for x in (reading, recorded.read(now))
    )
    n = min(ours.shape[1], theirs.shape[1])
    assert np.isfinite(ours[:, -n:]).all()
    # The step in which it moved has minutes of both, of which the classic ones count.
    assert (
        np.isclose(np.sort(ours[:, -n:], axis=0), np.sort(theirs[:, -n:], axis=0), rtol=1e-4)
        .all(axis=0)
        .sum()
    ) >= n - 1


def test_cores_are_read_on_request_only(world):
    live = by_promql(world, "otel")
    for now in world.ticks(2, 2.25):
        reading = live.read(now)
    assert "core" not in reading.frames
    asked = reading.frames["node"].things[0].instance
    live.drill([asked], now)
    for now in world.ticks(2.34, 2.5):
        reading = live.read(now)
    cores = reading.frames["core"]
    assert {x.instance for x in cores.things} == {asked}
    assert sorted(int(x.core) for x in cores.things) == list(range(32))
    assert np.isfinite(cores.of("neuroncore_utilization_ratio")[:, -1]).all()


def test_samples_are_counted_and_priced_as_the_server_counts_them(world):
    live = by_promql(world, "otel")
    for now in world.ticks(2, 3):
        live.read(now)
    use = next(
        use for use in live.calls.meter.bill().uses if use.operation == "cloudwatch:QueryMetrics"
    )
    looked_at = world.standin.store("otel", "us-west-2").samples
    assert use.unit == "sample"
    assert use.units == pytest.approx(looked_at, rel=0.1)
    assert use.usd == use.units * use.price_usd
    assert live.calls.meter.bill().usd >= use.usd > 0


class RuledServer:
    """Answers queries about nodes: `values` of an instance by a text in the query and the begin of a minute."""

    server = PrometheusServer("https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-1")

    def __init__(self, values):
        self.values, self.charged = values, 0

    def call(self, place, service, operation, *, query, start, end, **_):
        source = next(x for x in self.values if x in query)
        return {"data": {"result": list(self.results(source, query, start, end))}}

    def results(self, source, query, start, end):
        for instance, value_of in self.values[source].items():
            late = 59.999 if source == "trnbot:" else 0
            times = {begin + 60 + late: value for begin, value in value_of.items()}
            values = [[time, value] for time, value in times.items() if start <= time <= end]
            if instance in query and values:
                yield {"metric": {"instance_id": instance}, "values": values}

    def charge(self, service, operation, samples):
        self.charged += samples


def read_by_rules(server, minutes, instances):
    """Read utilization of instances that recording rules tell of: by instance the values by minute."""
    place, metric, book = Place("us-west-2"), "neuroncore_utilization_ratio", SeriesBook()
    for instance in instances:
        pairs = (("ClusterName", "c"), ("InstanceId", instance), ("NodeName", "n"))
        names = tuple(name for name, _ in pairs)
        book.enter([MetricSeries(NAMESPACE, metric, names, pairs, place.region, "")], 0)
    numbers = tuple(range(len(instances)))
    # They were installed after the samples had been counted.
    book.samples[place] = SampleCounts({}, 60.0, len(instances))
    of_nodes = float(len(instances))
    book.recorded[place] = {f"trnbot:{metric}:{x}": of_nodes for x in ("avg", "max")}
    statistics = (("Sum", "Maximum"),) * len(instances)
    request = MetricRequest(place, 0, 60 * minutes, numbers, 60, statistics)
    return {
        instances[x.number]: dict(zip(x.times.tolist(), x.sets["Sum"].tolist(), strict=True))
        for x in fetch(server, book, request)
    }


def test_recording_rules_that_came_after_a_count_are_priced():
    server = RuledServer({"trnbot:": {"i-1": {0: "0.5"}}})
    assert read_by_rules(server, 1, ["i-1"]) == {"i-1": {0: 0.5}}
    assert server.charged == 2


def test_each_minute_that_no_rule_tells_of_comes_by_the_series():
    recorded = {"i-1": {60: "0.1", 120: "0.1"}, "i-2": {0: "0.2", 60: "0.2"}}
    by_series = {x: dict.fromkeys((0, 60, 120), "0.9") for x in recorded}
    server = RuledServer({"trnbot:": recorded, "neuroncore": by_series})
    assert read_by_rules(server, 3, ["i-1", "i-2"]) == {
        "i-1": {0: 0.9, 60: 0.1, 120: 0.1},
        "i-2": {0: 0.2, 60: 0.2, 120: 0.9},
    }


def test_a_server_of_ones_own_costs_nothing(world):
    live = by_promql(world, "prometheus")
    for now in world.ticks(2, 2.25):
        live.read(now)
    use = next(
        use for use in live.calls.meter.bill().uses if use.operation == "prometheus:QueryMetrics"
    )
    assert (use.usd, use.calls > 10) == (0, True)


def test_an_outage_is_said_and_filled_afterwards(world, tiny):
    live, recorded = by_promql(world, "otel"), open_tiny(tiny)
    for now in world.ticks(1, 1.25):
        live.read(now)
    world.standin.faults.denied = {"cloudwatch:QueryMetrics"}
    for now in world.ticks(1.34, 2.25):
        reading = live.read(now)
        assert "could not be read" in " ".join(map(str, reading.gaps))
        assert reading.unread
    assert "allow cloudwatch:GetMetricData and cloudwatch:ListMetrics" in " ".join(live.problems())
    world.standin.faults.denied = set()
    (now,) = world.ticks(2.34, 2.34)
    reading = live.read(now)
    assert reading.gaps == ()
    assert_alike(
        reading.frames["node"], recorded.read(now).frames["node"], ["neuroncore_utilization_ratio"]
    )


def test_faults_leave_no_gap(world, tiny):
    world.standin.faults.throttled, world.standin.faults.reset, world.standin.faults.truncated = (
        0.1,
        0.05,
        0.05,
    )
    live, recorded = by_promql(world, "otel"), open_tiny(tiny)
    for now in world.ticks(1, 1.1):
        live.read(now)
    world.standin.faults.end()
    for now in world.ticks(1.25, 1.34):
        reading = live.read(now)
    assert world.standin.failed.total() > 3
    assert reading.gaps == ()
    assert_alike(
        reading.frames["node"], recorded.read(now).frames["node"], ["neuroncore_utilization_ratio"]
    )


def test_an_answer_as_large_as_answers_get_is_not_taken_for_all(world):
    live = by_promql(world, "otel")
    (now,) = world.ticks(2, 2)
    store = world.standin.store("otel", "us-west-2")
    store.most, store.padded = 500, 600
    assert "some may be missing" in " ".join(map(str, live.read(now).gaps))


def test_a_recording_holds_the_bots_own_names_and_reads_as_the_watch_did(world, tmp_path):
    live = by_promql(world, "otel")
    for now in world.ticks(2, 3):
        reading = live.read(now)
    record(live, tmp_path / "recording", now - timedelta(hours=1), now)
    again = open_recording(tmp_path / "recording", ReadingConfig(FIVE, TYPES)).read(now)
    names = {*reading.frames["node"].metrics}
    assert names <= set(again.frames["node"].metrics)
    ours, theirs = again.frames["node"], reading.frames["node"]
    order = [[x.instance for x in theirs.things].index(thing.instance) for thing in ours.things]
    for metric in names:
        assert np.allclose(
            ours.of(metric)[:, -6:], theirs.of(metric)[order][:, -6:], rtol=1e-4, equal_nan=True
        ), metric
