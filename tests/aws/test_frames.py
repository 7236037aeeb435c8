from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from adapters.aws.metrics.believed import value_ranges
from adapters.aws.metrics.points import standard
from bot.model.reading import NODE_METRICS

UTILIZATION = "node_neuroncore_utilization"
RATIO = "neuroncore_utilization_ratio"
NODE = {"ClusterName": "llama", "InstanceId": "i-1", "NodeName": "ip-1"}


def series(recording, now, metric=RATIO, kind="node", row=0):
    return recording.read(now).frames[kind].of(metric)[row].tolist()


def test_a_point_is_visible_one_period_and_the_lag_after_its_timestamp(build, at):
    build.node(UTILIZATION, {m: (32, 32 * m) for m in range(0, 20, 5)})
    recording = build.open()
    # The point of minute 0 covers 0-5, is visible at 6 and so belongs to the step (5, 10].
    assert "node" not in recording.read(at(5)).frames
    assert series(recording, at(10)) == pytest.approx([0.0])
    assert series(recording, at(15)) == pytest.approx([0.0, 0.05])


def test_a_frame_ends_at_the_last_whole_step(build, at):
    build.node(UTILIZATION, dict.fromkeys(range(30), (32, 32)))
    frame = build.open().read(at(14)).frames["node"]
    assert frame.end == at(10)
    assert frame.n_steps == 2


def test_a_step_takes_in_every_point_that_became_visible_in_it(build, at):
    build.node(UTILIZATION, {m: (32, 3200 if m >= 4 else 0) for m in range(12)})
    # Minute m is visible at m + 2: minutes 0-3 belong to (0, 5], 4-8 to (5, 10].
    assert series(build.open(), at(10)) == pytest.approx([0.0, 1.0])


def test_a_level_reported_less_often_than_a_step_stands_until_the_next_is_due(build, at):
    build.node(UTILIZATION, dict.fromkeys((0, 5, 10, 15, 20, 35), (160, 160 * 50)))
    values = series(build.open(interval_minutes=1), at(45))
    assert np.isfinite(values[: 26 + 5 - 6]).all()
    assert np.isnan(values[25:35]).all()
    assert values[35] == pytest.approx(0.5)


def test_events_do_not_stand(build, at):
    build.node("node_neuron_execution_errors_total", dict.fromkeys((0, 5, 10, 15), (5, 3)))
    values = series(build.open(interval_minutes=1), at(20), "neuron_execution_errors_count")
    assert np.nansum(values) == 9
    assert np.isfinite(values).sum() == 3


def test_a_missing_point_is_no_reading_and_not_zero(build, at):
    build.node(UTILIZATION, {m: (160, 160) for m in range(0, 60, 5) if m != 30})
    assert np.isnan(series(build.open(), at(60))).tolist() == [False] * 6 + [True] + [False] * 4


@pytest.mark.parametrize("period", [1, 5])
def test_a_total_is_the_sum_over_scrapes(build, at, period):
    scrapes = period
    build.node(
        "node_neuroncore_memory_usage_total",
        dict.fromkeys(range(0, 60, period), (32 * scrapes, 32 * scrapes * 2.0**30)),
    )
    assert series(build.open(), at(60), "neuroncore_memory_used_bytes")[-1] == 32 * 2.0**30


def test_a_total_survives_scrapes_that_are_missing(build, at):
    full, part = (160, 160 * 100), (96, 96 * 100)
    build.node(
        "node_neuroncore_memory_usage_total",
        {m: part if m == 20 else full for m in range(0, 60, 5)},
    )
    assert set(series(build.open(), at(60), "neuroncore_memory_used_bytes")) == {3200.0}


def test_known_cores_tell_scrapes_that_come_less_than_once_a_minute(build, at):
    build.add(
        UTILIZATION,
        {**NODE, "InstanceType": "trn1.32xlarge", "NeuronDevice": "device0", "NeuronCore": "core0"},
        {0: (1, 50)},
    )
    build.node(UTILIZATION, dict.fromkeys(range(0, 60, 5), (32, 32 * 50)))
    build.node("node_efa_rx_bytes", dict.fromkeys(range(0, 60, 5), (8, 8 * 100)))
    assert series(build.open(), at(60), "efa_rx_bytes_per_second")[-1] == 800


def test_split_cores_do_not_double_the_scrapes(build, at):
    build.add(
        UTILIZATION,
        {**NODE, "InstanceType": "trn1.32xlarge", "NeuronDevice": "device0", "NeuronCore": "core0"},
        {0: (1, 50)},
    )
    for metric in (UTILIZATION, "node_neuroncore_memory_usage_total"):
        build.node(metric, dict.fromkeys(range(60), (64, 64 * 10)))
    assert series(build.open(), at(60), "neuroncore_memory_used_bytes")[-1] == 640


def test_network_bytes_of_a_period_become_bytes_a_second(build, at):
    build.add(
        "NetworkIn", {"InstanceId": "i-1"}, dict.fromkeys(range(30), (1, 6000)), namespace="AWS/EC2"
    )
    assert series(build.open(), at(30), "network_in_bytes_per_second")[-1] == 100


def test_a_file_systems_capacity_is_the_sum_over_its_disks(build, at):
    build.add(
        "FreeDataStorageCapacity",
        {"FileSystemId": "fs-1"},
        dict.fromkeys(range(30), (4, 4000000000000.0)),
        namespace="AWS/FSx",
    )
    build.add(
        "ClientConnections",
        {"FileSystemId": "fs-1"},
        dict.fromkeys(range(30), (4, 12)),
        namespace="AWS/FSx",
        peak=3,
    )
    recording = build.open()
    assert series(recording, at(30), "fsx_free_storage_bytes", "file_system")[-1] == np.float32(
        4e12
    )
    assert series(recording, at(30), "fsx_client_connections_count", "file_system")[-1] == 3


def test_dimension_sets_are_never_added(build, at):
    build.node(UTILIZATION, dict.fromkeys(range(30), (32, 32 * 40)))
    build.add(UTILIZATION, {"ClusterName": "llama"}, dict.fromkeys(range(30), (64, 64 * 90)))
    build.add(
        UTILIZATION,
        {"ClusterName": "llama", "UltraServer": "u"},
        dict.fromkeys(range(30), (64, 64 * 90)),
    )
    recording = build.open()
    assert series(recording, at(30))[-1] == pytest.approx(0.4)
    assert series(recording, at(30), kind="cluster")[-1] == pytest.approx(0.9)


def core(i, instance="i-1"):
    return {
        "ClusterName": "llama",
        "InstanceId": instance,
        "NodeName": "ip-1",
        "InstanceType": "trn1.32xlarge",
        "NeuronDevice": f"device{i // 2}",
        "NeuronCore": f"core{i}",
    }


def test_a_node_that_reports_only_cores_is_derived_from_them(build, at):
    for i in range(4):
        build.add(UTILIZATION, core(i), dict.fromkeys(range(30), (1, 20 * i)))
        build.add("node_neuroncore_memory_usage_total", core(i), dict.fromkeys(range(30), (1, 100)))
    recording = build.open()
    assert series(recording, at(30))[-1] == pytest.approx(0.3)
    assert series(recording, at(30), "neuroncore_memory_used_bytes")[-1] == 400


def test_a_node_that_reports_itself_is_not_derived(build, at):
    build.add(UTILIZATION, core(0), dict.fromkeys(range(30), (1, 90)))
    build.node(UTILIZATION, dict.fromkeys(range(30), (32, 32 * 10)))
    assert series(build.open(), at(30))[-1] == pytest.approx(0.1)


def test_cores_are_a_frame_of_their_own(build, at):
    for i in range(12):
        build.add(UTILIZATION, core(i), dict.fromkeys(range(30), (1, i)))
    frame = build.open().read(at(30)).frames["core"]
    assert {x.core for x in frame.things} == {str(i) for i in range(12)}
    assert {x.instance for x in frame.things} == {"i-1"}
    assert frame.values.shape == (12, 6, 1)


def test_pods_are_known_by_their_full_name(build, at):
    sets = {
        "ClusterName": "llama",
        "Namespace": "search",
        "PodName": "train",
        "FullPodName": "train-0",
    }
    build.add("pod_neuroncore_utilization", sets, dict.fromkeys(range(30), (2, 100)))
    build.add("pod_neuroncore_request", sets, dict.fromkeys(range(30), (1, 16)))
    del sets["FullPodName"]
    build.add("pod_neuroncore_utilization", sets, dict.fromkeys(range(30), (4, 400)))
    frame = build.open().read(at(30)).frames["pod"]
    assert [(x.namespace, x.pod, x.job) for x in frame.things] == [("search", "train-0", "train")]
    assert frame.of("neuroncore_request_count")[0, -1] == 16
    assert frame.of(RATIO)[0, -1] == pytest.approx(0.5)


@pytest.mark.parametrize(("cores", "level"), [(8, 50), (16, 25)])
def test_the_cores_that_a_pod_keeps_busy_do_not_depend_on_how_many_report(build, at, cores, level):
    sets = {
        "ClusterName": "llama",
        "Namespace": "search",
        "PodName": "train",
        "FullPodName": "train-0",
    }
    build.add("pod_neuroncore_utilization", sets, dict.fromkeys(range(30), (cores, cores * level)))
    assert build.open().read(at(30)).frames["pod"].of("neuroncore_busy_count")[
        0, -1
    ] == pytest.approx(4)


def test_the_better_source_of_a_metric_wins_and_the_other_fills(build, at):
    build.node("node_cpu_utilization", {m: (1, 10) for m in range(0, 30, 5) if m != 15})
    build.add(
        "CPUUtilization",
        {"InstanceId": "i-1"},
        dict.fromkeys(range(0, 30, 5), (1, 90)),
        namespace="AWS/EC2",
    )
    assert series(build.open(), at(30), "host_cpu_utilization_ratio") == pytest.approx(
        [0.1, 0.1, 0.1, 0.9, 0.1]
    )


def test_reserved_capacity_is_a_share_of_the_limit(build, at):
    build.node("node_neuroncore_limit", dict.fromkeys(range(30), (1, 32)))
    build.node("node_neuroncore_reserved_capacity", dict.fromkeys(range(30), (1, 75)))
    assert series(build.open(), at(30), "neuroncore_reserved_count")[-1] == 24


def test_latency_is_silent_while_nothing_executes(build, at):
    build.node(UTILIZATION, dict.fromkeys(range(40), (32, 0)))
    build.node("node_neuron_execution_latency", dict.fromkeys((3, 4, 5, 21), (1, 0.5)))
    values = series(build.open(), at(40), "neuron_execution_latency_seconds")
    assert np.isfinite(values).tolist() == [True, True, False, False, True, False, False, False]


def test_a_latency_of_zero_is_no_reading(build, at):
    """The agent writes 0 for latency, not nothing, while no runtime is loaded."""
    build.node(UTILIZATION, dict.fromkeys(range(20), (32, 0)))
    build.node(
        "node_neuron_execution_latency",
        {**dict.fromkeys(range(10), (1, 0)), **dict.fromkeys(range(10, 20), (1, 0.5))},
    )
    values = series(build.open(), at(20), "neuron_execution_latency_seconds")
    assert np.isfinite(values).tolist() == [False, False, True, True]
    assert series(build.open(), at(20), RATIO)[-1] == 0, "a utilization of 0 is a reading"


@pytest.mark.parametrize("value", [1e30, -1.0])
def test_values_beyond_physics_are_refused_and_named_once(build, at, value):
    build.node(UTILIZATION, dict.fromkeys(range(20), (32, 320)))
    build.node(
        "node_neurondevice_hw_ecc_events_total",
        {**dict.fromkeys(range(20), (16, 0)), 12: (16, 16 * value), 13: (16, 16 * value)},
    )
    recording = build.open()
    assert np.nansum(series(recording, at(20), "neuron_hardware_ecc_events_count")) == 0
    (problem,) = recording.problems()
    assert problem == (
        "metrics: 2 points of ContainerInsights node_neurondevice_hw_ecc_events_total beyond 0 to"
        " 1e+09"
        f" (the first is {value:g}, of i-1); left out, as no real value can be that."
    )


def test_every_metric_of_the_table_has_its_range():
    targets = {target.metric for targets in standard().shapes.values() for target in targets}
    assert targets | set(NODE_METRICS) == set(value_ranges())


def test_a_thing_shows_only_once_it_has_reported(build, at):
    build.node(UTILIZATION, dict.fromkeys(range(60), (32, 32)))
    build.node(UTILIZATION, dict.fromkeys(range(30, 60), (32, 32)), instance="i-0")
    recording = build.open()
    assert [x.instance for x in recording.read(at(30)).frames["node"].things] == ["i-1"]
    assert [x.instance for x in recording.read(at(60)).frames["node"].things] == ["i-1", "i-0"]


def test_frames_reach_back_over_the_history_kept(build, at):
    build.node(UTILIZATION, dict.fromkeys(range(120), (32, 32)))
    frame = build.open(history=at(30) - at(0)).read(at(120)).frames["node"]
    assert (frame.n_steps, frame.start, frame.end) == (6, at(90), at(120))


def test_frames_are_views(build, at):
    build.node(UTILIZATION, dict.fromkeys(range(60), (32, 32)))
    recording = build.open()
    first, second = (recording.read(at(m)).frames["node"].values for m in (30, 60))
    assert np.shares_memory(first, second)


def test_after_the_end_there_is_no_reading(build, at):
    build.node(UTILIZATION, dict.fromkeys(range(20), (32, 32)))
    frame = build.open().read(at(60)).frames["node"]
    assert frame.end == at(60)
    assert np.isnan(frame.of(RATIO)[0, -6:]).all()


def test_the_extent_is_what_the_metrics_cover(build, at):
    build.node(UTILIZATION, dict.fromkeys(range(0, 60, 5), (160, 160)))
    extent = build.open().extent()
    assert (extent.start, extent.end) == (at(0), at(60))


def test_threads_may_read_at_once(build, at):
    for i in range(8):
        build.add(UTILIZATION, core(i, f"i-{i}"), dict.fromkeys(range(i * 5, 120), (1, i)))
    recording = build.open()
    minutes = [30, 60, 90, 120] * 8
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda m: recording.read(at(m)).frames["core"], minutes))
    for minute, frame in zip(minutes, found, strict=True):
        assert frame.end == at(minute)
        assert frame.things == recording.read(at(minute)).frames["core"].things


@pytest.mark.parametrize("period", [1, 5])
def test_pods_that_wait_are_counted_once_however_many_others_report(build, at, period):
    """The agent reports each pod once a minute, 1 where it is pending: what others report is 0."""
    pods = {minute: 12 if minute < 30 else 6 for minute in range(0, 60, period)}
    pending = {minute: (count * period, 3 * period) for minute, count in pods.items()}
    build.add("pod_status_pending", {"ClusterName": "llama"}, pending)
    found = series(build.open(), at(60), "pods_pending_count", "cluster")
    assert set(found[2:]) == {3.0}
