"""Read JSON lines: a metric stream, and reports of neuron-monitor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from pathlib import Path
from sys import intern
from typing import Any

import numpy as np
import orjson

from adapters.aws.files import MALFORMED, Problems, blocks, objects, objects_in, why
from adapters.aws.metrics.points import IGNORED, Gatherer, Points, sound


def read_jsonl(path: Path, name: str, gatherer: Gatherer, problems: Problems) -> None:
    """Gather the file's points; name the broken lines and skip them."""

    def checked(record: Any) -> Any:
        _points([record], Gatherer(catalogue=gatherer.catalogue))
        return record

    for first, lines in blocks(path, name, problems):
        try:
            parsed = orjson.loads(b"[" + b",".join(lines) + b"]")
            if len(parsed) != len(lines):
                raise ValueError("not every line is one JSON value")
            gatherer.add(_points(parsed, gatherer))
        except MALFORMED:
            # Line by line where one of them is broken.
            sound_records = objects_in(
                enumerate(lines, first), name, problems, checked, "metric record"
            )
            gatherer.add(_points([record for record, _ in sound_records], gatherer))


def _points(parsed: list[dict[str, Any]], gatherer: Gatherer) -> Points:
    values = [record["value"] for record in parsed]
    seconds = np.array([record["timestamp"] for record in parsed], dtype=np.float64) / 1000
    count = np.array([value["count"] for value in values], dtype=np.float64)
    total = np.array([value["sum"] for value in values], dtype=np.float64)
    peak = np.array(
        [value["max"] if "max" in value else value["sum"] for value in values], dtype=np.float64
    )
    if not sound(seconds, count, total).all():
        raise ValueError("timestamp, count or sum is not a number that can be")

    numbers = np.empty(len(parsed), dtype=np.int64)
    ignored: Counter[tuple[str, str]] = Counter()
    for i, record in enumerate(parsed):
        namespace, metric, dimensions = (
            record["namespace"],
            record["metric_name"],
            record["dimensions"],
        )
        where = record.get("region") or "", record.get("account_id") or ""

        # Dimensions are not sorted here: another order is only looked up once more.
        key = (namespace, metric, *where, *dimensions, *dimensions.values())
        number = gatherer.number_of.get(key)
        if number is None:
            number = gatherer.number(namespace, metric, dimensions, *where)
            gatherer.number_of[tuple(intern(x) if isinstance(x, str) else x for x in key)] = number
        if number == IGNORED:
            ignored[namespace, metric] += 1
        numbers[i] = number
    for (namespace, metric), times in ignored.items():
        gatherer.ignore(namespace, metric, times)
    return Points(numbers, seconds.astype(np.int64), count, total, peak)


NAMESPACE = "neuron-monitor"
_MILLISECONDS_FROM = 1e11
"""A number of seconds this large would be the year 5138."""
_TYPES = ("generic", "numerical", "transient", "model", "runtime", "hardware")
_Values = Iterator[tuple[str, tuple[str, ...], Sequence[float]]]
"""A metric, the cores that it is told of, and the value of each."""
_NODE = ("",)
"""In place of cores: the value is the node's."""


def read_reports(
    path: Path, name: str, instance: str, gatherer: Gatherer, problems: Problems
) -> None:
    """Gather one instance's reports; name the broken lines and skip them."""
    # Numbers of series, seconds since the epoch, the value of each.
    rows: list[tuple[tuple[int, ...], int, Sequence[float]]] = []

    @cache
    def series(metric: str, cores: tuple[str, ...], region: str) -> tuple[int, ...]:
        node = {"InstanceId": instance}
        names = (node | {"NeuronCore": core} if core else node for core in cores)
        return tuple(gatherer.number(NAMESPACE, metric, name, region, "") for name in names)

    def gathered(report: Mapping[str, Any]) -> list[str]:
        """Take a whole report in, and return what is said of its broken groups."""
        complaints: list[str] = []
        stamp = report["timestamp"]
        if isinstance(stamp, str):
            time = datetime.fromisoformat(stamp)
            seconds = int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())
        else:
            seconds = int(stamp / 1000 if stamp >= _MILLISECONDS_FROM else stamp)
        region = (report.get("instance_info") or {}).get("instance_region") or ""
        rows.extend(
            [
                (series(metric, cores, region), seconds, values)
                for metric, cores, values in _values(report, complaints)
            ]
        )
        return complaints

    for complaints, number in objects(path, name, problems, gathered, "neuron-monitor report"):
        for sentence in complaints:
            problems.add(name, sentence, number)
    if not rows:
        return
    lengths = [len(numbers) for numbers, _, _ in rows]
    numbers = np.fromiter(chain.from_iterable(x for x, _, _ in rows), np.int64, sum(lengths))
    value = np.fromiter(chain.from_iterable(x for _, _, x in rows), np.float64, len(numbers))
    seconds = np.repeat([x for _, x, _ in rows], lengths)
    gatherer.add(Points(numbers, seconds, np.ones(len(numbers)), value, value))


def _values(report: Mapping[str, Any], complaints: list[str]) -> _Values:
    """Yield every value of a report.

    A group that is not as it should be is named and left out, and the others are read.
    """
    runtimes = report["neuron_runtime_data"] or []
    groups = [runtime.get("report") or {} for runtime in runtimes]
    hardware, system = report.get("neuron_hardware_info") or {}, report.get("system_data") or {}
    yield "runtime_loaded", _NODE, (float(bool(runtimes)),)
    for name, (of_runtimes, values_of) in _GROUPS.items():
        try:
            reported = [
                group.get(name) or {"error": "absent"}
                for group in (groups if of_runtimes else [system])
            ]
            # Of a group that a runtime could not tell nothing is known.
            is_whole = not any(group.get("error") for group in reported)
            parsed = [
                (metric, cores, [float(value) for value in values])
                for metric, cores, values in (values_of(reported, hardware) if is_whole else ())
            ]
        except MALFORMED as error:
            complaints.append(
                f"its {name} is not as neuron-monitor writes it ({why(error)}); left out."
            )
        else:
            yield from parsed


_Groups = list[Mapping[str, Any]]


def _cores(counters: _Groups, hardware: Mapping[str, Any]) -> _Values:
    used = {
        core: float(counter["neuroncore_utilization"])
        for x in counters
        for core, counter in x["neuroncores_in_use"].items()
    }
    yield "neuroncore_utilization", tuple(used), list(used.values())
    devices, cores = (
        int(hardware.get(name) or 0)
        for name in ("neuron_device_count", "neuroncore_per_device_count")
    )
    yield "neuroncore_utilization", _NODE, [sum(used.values()) / max(devices * cores, len(used), 1)]
    # The guide calls it `flops`, the tool itself `effective_flops`; not every version tells it.
    flops = [
        counter.get("effective_flops", counter.get("flops"))
        for x in counters
        for counter in x["neuroncores_in_use"].values()
    ]
    if flops and None not in flops:
        yield "effective_flops", _NODE, [sum(flops)]


def _memory(memory: _Groups, _: Mapping[str, Any]) -> _Values:
    used = [group["neuron_runtime_used_bytes"] for group in memory]
    yield "neuron_device", _NODE, [sum(float(x["neuron_device"]) for x in used)]
    usages = [(x.get("usage_breakdown") or {}).get("neuroncore_memory_usage") for x in used]
    cores = [pair for usage in usages if usage is not None for pair in usage.items()]
    if None in usages:
        return
    totals = [sum(parts.values()) for _, parts in cores]
    yield "neuroncore_memory", tuple(core for core, _ in cores), totals
    yield "neuroncore_memory", _NODE, [sum(totals)]
    for part in ("model_code", "tensors"):
        yield f"neuroncore_{part}", _NODE, [sum(parts.get(part, 0) for _, parts in cores)]


def _executions(executions: _Groups, _: Mapping[str, Any]) -> _Values:
    # The guide's text and its example name one type differently, and not every version has all.
    counted = [x.get("error_summary") or {} for x in executions]
    counted = [{"numerical": x.get("numeric", 0)} | x for x in counted]
    errors = {kind: sum(float(x.get(kind, 0)) for x in counted) for kind in _TYPES}
    yield "errors", _NODE, [sum(errors.values())]
    for kind in _TYPES[1:]:
        yield f"errors_{kind}", _NODE, [errors[kind]]
    summaries = [x.get("execution_summary") or {} for x in executions]
    completed = [summary["completed"] for summary in summaries if "completed" in summary]
    if completed and len(completed) == len(executions):
        yield "completed", _NODE, [sum(completed)]
    latencies = [(x.get("latency_stats") or {}).get("total_latency") or {} for x in executions]
    if medians := [latency["p50"] for latency in latencies if latency.get("p50") is not None]:
        yield "latency_p50", _NODE, [float(np.mean(medians))]


def _counters(groups: _Groups, _: Mapping[str, Any]) -> _Values:
    devices = groups[0].get("neuron_devices") or []
    wrong, right = (
        sum(x.get(f"mem_ecc_{kind}", 0) + x.get(f"sram_ecc_{kind}", 0) for x in devices)
        for kind in ("uncorrected", "corrected")
    )
    yield "ecc", _NODE, [wrong + right]
    yield "ecc_uncorrected", _NODE, [wrong]


def _vcpus(groups: _Groups, _: Mapping[str, Any]) -> _Values:
    usage = groups[0].get("average_usage") or groups[0]
    if "idle" in usage:
        yield "vcpu", _NODE, [100 - usage["idle"] - usage.get("io_wait", 0)]
    elif "user" in usage:
        yield "vcpu", _NODE, [usage["user"] + usage.get("system", 0)]


def _host_memory(groups: _Groups, _: Mapping[str, Any]) -> _Values:
    (memory,) = groups
    if memory.get("memory_total_bytes"):
        yield "memory", _NODE, [memory["memory_used_bytes"] / memory["memory_total_bytes"]]


_GROUPS: Mapping[str, tuple[bool, Callable[[_Groups, Mapping[str, Any]], _Values]]] = {
    "neuroncore_counters": (True, _cores),
    "memory_used": (True, _memory),
    "execution_stats": (True, _executions),
    "neuron_hw_counters": (False, _counters),
    "vcpu_usage": (False, _vcpus),
    "memory_info": (False, _host_memory),
}
"""Whether each group is reported by every runtime, else by the node, and how it is read."""
