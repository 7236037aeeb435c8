"""Read neuron-monitor under a namespace, names and dimensions of an installation's own."""

import numpy as np
import pytest

from bot.errors import WrongInput
from bot.settings.settings import read_settings

SAID = {
    "TRNBOT_MONITOR_NAMESPACE": "Neuron",
    "TRNBOT_MONITOR_METRICS": "util -> neuroncore_utilization_ratio in percent, mem -> neuroncore_memory_used_bytes in mib,"
    "errors -> neuron_execution_errors_count, took -> neuron_execution_latency_seconds in milliseconds",
    "TRNBOT_MONITOR_INSTANCE": "instance_id",
    "TRNBOT_MONITOR_CORE": "core",
}
OWN = read_settings(SAID).own_names
TEN = range(10)
CORES = range(4)


def node_of(recording):
    reading = recording.read(recording.extent().end.replace(minute=15))
    return reading, reading.frames["node"]


def test_a_node_reports_itself_in_the_declared_units(build):
    node = {"instance_id": "i-1"}
    build.add("util", node, dict.fromkeys(TEN, (1, 40.0)), "Neuron")
    build.add("mem", node, dict.fromkeys(TEN, (1, 1024.0)), "Neuron")
    build.add("took", node, dict.fromkeys(TEN, (1, 250.0)), "Neuron")
    build.add("errors", node, dict.fromkeys(TEN, (1, 2.0)), "Neuron")
    _, frame = node_of(build.open(own=OWN))
    assert [x.instance for x in frame.things] == ["i-1"]
    shown = {name: float(np.nanmax(frame.of(name))) for name in frame.metrics}
    assert shown == pytest.approx(
        {
            "neuroncore_utilization_ratio": 0.4,
            "neuroncore_utilization_highest_ratio": 0.4,
            "neuroncore_memory_used_bytes": 2.0**30,
            "neuron_execution_latency_seconds": 0.25,
            "neuron_execution_errors_count": 10.0,
        }
    )


@pytest.mark.parametrize("samples", [1, 12], ids=["a sample a minute", "every five seconds"])
def test_cores_make_up_their_node_however_often_they_report(build, samples):
    for core in CORES:
        of = {"instance_id": "i-1", "core": str(core), "runtime": "a"}
        build.add(
            "util",
            of,
            dict.fromkeys(TEN, (samples, samples * 20.0 * core)),
            "Neuron",
            peak=20.0 * core,
        )
        build.add("mem", of, dict.fromkeys(TEN, (samples, samples * 512.0)), "Neuron")
    reading, frame = node_of(build.open(own=OWN))
    assert np.nanmax(frame.of("neuroncore_utilization_ratio")) == pytest.approx(0.3)
    assert np.nanmax(frame.of("neuroncore_utilization_highest_ratio")) == pytest.approx(0.6)
    assert np.nanmax(frame.of("neuroncore_memory_used_bytes")) == pytest.approx(4 * 2.0**29)
    assert [x.core for x in reading.frames["core"].things] == ["0", "1", "2", "3"]


def test_what_the_node_says_itself_wins_over_its_parts(build):
    build.add("util", {"instance_id": "i-1"}, dict.fromkeys(TEN, (1, 40.0)), "Neuron")
    build.add("util", {"instance_id": "i-1", "core": "0"}, dict.fromkeys(TEN, (1, 99.0)), "Neuron")
    assert np.nanmax(
        node_of(build.open(own=OWN))[1].of("neuroncore_utilization_ratio")
    ) == pytest.approx(0.4)


def test_without_the_setting_the_namespace_means_nothing(build):
    build.node("node_cpu_utilization", dict.fromkeys(TEN, (1, 50.0)))
    build.add("util", {"instance_id": "i-1"}, dict.fromkeys(TEN, (1, 40.0)), "Neuron")
    recording = build.open()
    assert recording.ignored == {"Neuron util": 10}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("util", "'util' names no metric; write NAME -> METRIC in UNIT"),
        (
            "util -> neuroncore_utilisation_ratio in percent",
            "did you mean 'neuroncore_utilization_ratio'",
        ),
        (
            "util -> neuroncore_utilization_ratio",
            "write util -> neuroncore_utilization_ratio in percent or ratio",
        ),
        ("mem -> neuroncore_memory_used_bytes in mb", "in bytes or kib or mib or gib"),
    ],
)
def test_a_wrong_name_is_one_sentence(said, told):
    with pytest.raises(WrongInput, match="TRNBOT_MONITOR_METRICS: ") as wrong:
        read_settings(SAID | {"TRNBOT_MONITOR_METRICS": said})
    assert told in str(wrong.value)
