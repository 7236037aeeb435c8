import json
from datetime import UTC, timedelta, timezone

import numpy as np
import pytest

RATIO = "neuroncore_utilization_ratio"


def runtime(percents, device_bytes=1000, errors=None, p50=0.5):
    cores = {str(i): {"neuroncore_utilization": x} for i, x in enumerate(percents)}
    memory = {
        core: {"constants": 1, "model_code": 2, "runtime_memory": 3, "tensors": 4} for core in cores
    }
    return {
        "pid": 1,
        "error": "",
        "report": {
            "neuroncore_counters": {"period": 60, "neuroncores_in_use": cores, "error": ""},
            "execution_stats": {
                "error_summary": errors or {},
                "latency_stats": {"total_latency": {"p50": p50} if p50 else None},
                "error": "",
            },
            "memory_used": {
                "neuron_runtime_used_bytes": {
                    "neuron_device": device_bytes,
                    "usage_breakdown": {"neuroncore_memory_usage": memory},
                },
                "error": "",
            },
        },
    }


def report(at, runtimes, ecc=0):
    return {
        "timestamp": int(at.timestamp() * 1000),
        "neuron_runtime_data": runtimes,
        "system_data": {
            "neuron_hw_counters": {
                "neuron_devices": [
                    {"mem_ecc_corrected": 3, "sram_ecc_uncorrected": ecc, "mem_ecc_uncorrected": 0}
                ],
                "error": "",
            },
            "vcpu_usage": {
                "average_usage": {"user": 30, "system": 10, "idle": 50, "io_wait": 10},
                "error": "",
            },
            "memory_info": {"memory_total_bytes": 200, "memory_used_bytes": 50, "error": ""},
        },
        "neuron_hardware_info": {
            "neuron_device_count": 2,
            "neuroncore_per_device_count": 4,
            "error": "",
        },
    }


@pytest.fixture
def reports(build, at):
    def write(of, minutes=range(1, 31), name="i-1"):
        build.write(
            f"neuron-monitor/{name}.jsonl.gz", [json.dumps(report(at(m), **of(m))) for m in minutes]
        )
        return build.open()

    return write


def last(recording, now, metric):
    return recording.read(now).frames["node"].of(metric)[0, -1]


def test_cores_not_in_use_did_nothing(reports, at):
    recording = reports(lambda m: {"runtimes": [runtime([80, 80])]})
    assert last(recording, at(30), RATIO) == pytest.approx(0.2)
    assert last(recording, at(30), "neuron_runtime_loaded_ratio") == 1
    assert last(recording, at(30), "neuroncore_memory_used_bytes") == 20
    assert last(recording, at(30), "neuron_runtime_memory_used_bytes") == 1000
    assert last(recording, at(30), "neuron_execution_latency_seconds") == 0.5


def test_a_node_without_a_runtime_says_that_it_has_none(reports, at):
    recording = reports(lambda m: {"runtimes": []})
    assert last(recording, at(30), "neuron_runtime_loaded_ratio") == 0
    assert last(recording, at(30), RATIO) == 0
    assert np.isnan(last(recording, at(30), "neuron_execution_latency_seconds"))


def test_the_host_is_seen_too(reports, at):
    recording = reports(lambda m: {"runtimes": []})
    assert last(recording, at(30), "host_cpu_utilization_ratio") == pytest.approx(0.4)
    assert last(recording, at(30), "host_memory_utilization_ratio") == 0.25


def test_a_host_that_tells_no_idle_time_is_as_busy_as_it_tells(build, at):
    busy = {"vcpu_usage": {"average_usage": {"user": 30, "system": 10}, "error": ""}}
    lines = [json.dumps(report(at(m), []) | {"system_data": busy}) for m in range(1, 31)]
    build.write("neuron-monitor/i-1.jsonl.gz", lines)
    assert last(build.open(), at(30), "host_cpu_utilization_ratio") == pytest.approx(0.4)


def test_errors_are_told_by_type(reports, at):
    recording = reports(
        lambda m: {
            "runtimes": [runtime([1], errors={"generic": 1, "numeric": 2, "hardware": 3})],
            "ecc": 1,
        }
    )
    assert last(recording, at(30), "neuron_execution_errors_count") == 5 * 6
    assert last(recording, at(30), "neuron_execution_errors_numerical_count") == 5 * 2
    assert last(recording, at(30), "neuron_execution_errors_hardware_count") == 5 * 3
    assert last(recording, at(30), "neuron_hardware_ecc_events_count") == 5 * 4
    assert last(recording, at(30), "neuron_hardware_ecc_uncorrected_count") == 5


def test_a_runtime_that_cannot_tell_leaves_no_reading(reports, at):
    broken = {"pid": 1, "error": "gone", "report": {}}
    recording = reports(lambda m: {"runtimes": [broken] if m > 15 else [runtime([80])]})
    assert np.isnan(last(recording, at(30), RATIO))
    assert last(recording, at(30), "neuron_runtime_loaded_ratio") == 1


def test_a_report_is_visible_the_lag_after_it_was_written(reports, at):
    recording = reports(lambda m: {"runtimes": [runtime([m])]}, minutes=range(5, 60, 5))
    assert "node" not in recording.read(at(5)).frames
    assert last(recording, at(10), RATIO) == pytest.approx(0.05 / 8)


@pytest.mark.parametrize("zone", [None, UTC, timezone(timedelta(hours=5.5))])
def test_a_time_in_words_is_read_in_its_zone_and_without_one_in_utc(build, reports, at, zone):
    def stamped(minute):
        time = at(minute).astimezone(zone) if zone else at(minute).replace(tzinfo=None)
        runtimes = [runtime([minute] * 8)]
        return json.dumps({**report(at(minute), runtimes), "timestamp": time.isoformat()})

    build.write("neuron-monitor/i-1.jsonl.gz", [stamped(m) for m in range(1, 31)])
    assert last(build.open(), at(30), RATIO) == last(
        reports(lambda m: {"runtimes": [runtime([m] * 8)]}), at(30), RATIO
    )


def test_cloudwatch_wins_and_reports_fill(build, reports, at):
    build.node(
        "node_neuroncore_utilization", {m: (8, 8 * 90) for m in range(30) if not 8 <= m < 15}
    )
    recording = reports(lambda m: {"runtimes": [runtime([40] * 8)]})
    frame = recording.read(at(30)).frames["node"]
    assert frame.values.shape[0] == 1
    assert frame.of(RATIO)[0].tolist() == pytest.approx([0.9, 0.9, 0.4, 0.9, 0.9, 0.9], abs=0.01)


def test_a_broken_report_is_named(build, reports, at):
    build.node("node_neuroncore_utilization", dict.fromkeys(range(30), (8, 8 * 90)))
    build.write(
        "neuron-monitor/i-1.jsonl", ['{"timestamp": 1}', "{", json.dumps(report(at(5), []))]
    )
    problems = build.open().problems()
    assert [x.partition(": ")[0] for x in problems] == [
        "neuron-monitor/i-1.jsonl, line 1",
        "neuron-monitor/i-1.jsonl, line 2",
    ]


def test_cores_in_use_are_things(reports, at):
    recording = reports(lambda m: {"runtimes": [runtime([10, 20])]})
    frame = recording.read(at(30)).frames["core"]
    assert [(x.instance, x.core) for x in frame.things] == [("i-1", "0"), ("i-1", "1")]
    assert frame.of(RATIO)[:, -1].tolist() == pytest.approx([0.1, 0.2])


REAL = {
    "pid": 4211,
    "address": "",
    "neuron_runtime_tag": "serve",
    "error": "",
    "report": {
        "execution_stats": {
            "period": 5.0,
            "error_summary": dict.fromkeys(
                ("numerical", "transient", "model", "runtime", "hardware"), 0
            ),
            "execution_summary": {"completed": 37, "completed_with_err": 0, "timed_out": 0},
            "latency_stats": {"total_latency": {"p50": 0.021}, "device_latency": {"p50": 0.02}},
            "error": "",
        },
        "memory_used": {
            "period": 5.0,
            "neuron_runtime_used_bytes": {
                "host": 400_000_000,
                "neuron_device": 3_900_000_000,
                "usage_breakdown": {
                    "neuroncore_memory_usage": {
                        "0": {"constants": 1, "tensors": 3},
                        "1": {"tensors": 4},
                    }
                },
            },
            "loaded_models": [{"name": "llm", "is_running": True}],
            "error": "",
        },
        "neuroncore_counters": {
            "period": 5.0,
            "neuroncores_in_use": {
                "0": {"neuroncore_utilization": 79.1, "effective_flops": 3_100_000_000_000},
                "1": {"neuroncore_utilization": 60.9, "effective_flops": 2_250_000_000_000},
            },
            "error": "",
        },
    },
}
"""What neuron-monitor says of a trn1.2xlarge under a small LLM server, every five seconds."""


def idle(runtime):
    """Return the same server without requests: nothing executes, the model stays loaded, and latencies are null."""
    stats = runtime["report"]["execution_stats"] | {
        "execution_summary": {"completed": 0},
        "latency_stats": {"total_latency": None, "device_latency": None},
    }
    cores = {core: {"neuroncore_utilization": 0, "effective_flops": 0} for core in ("0", "1")}
    counters = runtime["report"]["neuroncore_counters"] | {"neuroncores_in_use": cores}
    return runtime | {
        "report": runtime["report"] | {"execution_stats": stats, "neuroncore_counters": counters}
    }


@pytest.fixture
def trn1(build, at):
    """Return a function that opens half an hour of such reports, with one runtime by the minute, and says what is wrong."""

    def open_it(of):
        lines = [
            json.dumps(
                {
                    "timestamp": int(at(0).timestamp()) + second,
                    "neuron_runtime_data": [of(second // 60)],
                    "system_data": None,
                    "instance_info": {
                        "instance_type": "trn1.2xlarge",
                        "instance_region": "us-west-2",
                        "error": "",
                    },
                    "neuron_hardware_info": {
                        "neuron_device_count": 1,
                        "neuroncore_per_device_count": 2,
                        "error": "",
                    },
                }
            )
            for second in range(5, 1805, 5)
        ]
        build.write("neuron-monitor/i-1.jsonl.gz", lines)
        return build.open()

    return open_it


def test_a_real_report_of_a_trn1_2xlarge_is_read_exactly(trn1, at):
    recording = trn1(lambda minute: REAL)
    assert recording.problems() == ()
    told = {
        RATIO: 0.70,
        "neuroncore_effective_flops": 5.35e12,
        "neuron_execution_latency_seconds": 0.021,
        "neuron_executions_completed_count": 60 * 37,
        "neuron_execution_errors_count": 0,
        "neuroncore_memory_used_bytes": 8,
        "neuron_runtime_memory_used_bytes": 3.9e9,
    }
    assert {name: last(recording, at(30), name) for name in told} == pytest.approx(told)
    assert np.isnan(last(recording, at(30), "host_cpu_utilization_ratio"))


def test_a_server_without_requests_has_no_latency_and_completes_nothing(trn1, at):
    recording = trn1(lambda minute: idle(REAL))
    assert recording.problems() == ()
    assert np.isnan(last(recording, at(30), "neuron_execution_latency_seconds"))
    assert [last(recording, at(30), x) for x in (RATIO, "neuron_executions_completed_count")] == [
        0,
        0,
    ]
    assert last(recording, at(30), "neuron_runtime_memory_used_bytes") == pytest.approx(3.9e9)


@pytest.mark.parametrize(
    ("group", "broken", "lost"),
    [
        ("neuroncore_counters", {"neuroncores_in_use": None}, RATIO),
        (
            "neuroncore_counters",
            {"neuroncores_in_use": {"0": {"neuroncore_utilization": None}}},
            RATIO,
        ),
        ("neuroncore_counters", {"neuroncores_in_use": {"0": {}}}, RATIO),
        (
            "execution_stats",
            {"execution_summary": {"completed": "many"}},
            "neuron_executions_completed_count",
        ),
        ("execution_stats", {"latency_stats": []}, ""),
        (
            "execution_stats",
            {"latency_stats": {"total_latency": {"p50": None}}, "error_summary": None},
            "",
        ),
        ("memory_used", {"neuron_runtime_used_bytes": None}, "neuron_runtime_memory_used_bytes"),
        (
            "memory_used",
            {"neuron_runtime_used_bytes": {"neuron_device": 5, "usage_breakdown": None}},
            "",
        ),
    ],
)
def test_a_group_that_is_malformed_costs_no_other(trn1, at, group, broken, lost):
    report = REAL["report"] | {group: REAL["report"][group] | broken}
    recording = trn1(lambda minute: REAL | {"report": report})
    assert any(group in x for x in recording.problems()) == bool(lost)
    read = {
        name: bool(np.isfinite(last(recording, at(30), name)))
        for name in (RATIO, "neuron_executions_completed_count", "neuron_runtime_memory_used_bytes")
    }
    assert read == {name: name != lost for name in read}
