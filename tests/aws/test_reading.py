"""What files may look like: formats, broken lines, duplicates, order."""

import gzip
import json
import os
import random
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.errors import Unavailable, WrongInput

UTILIZATION = "node_neuroncore_utilization"
RATIO = "neuroncore_utilization_ratio"


SOUND = (
    '{"namespace":"N","metric_name":"x","dimensions":{},"timestamp":1,"value":{"count":1,"sum":1}}'
)


def values(recording, now, metric=RATIO):
    return recording.read(now).frames["node"].of(metric)


def test_a_missing_folder_is_named(build):
    build.folder = build.folder / "nowhere"
    with pytest.raises(WrongInput, match="nowhere"):
        build.open()


def test_an_empty_recording_says_so(build):
    with pytest.raises(Unavailable, match="empty"):
        build.open()


def test_gzip_reads_as_plain(build, at):
    build.node(UTILIZATION, {m: (32, m) for m in range(30)})
    plain = build.open()
    (build.folder / "metrics/a.jsonl").unlink()
    build.write("metrics/2026/11/17/a.jsonl.gz")
    assert np.array_equal(
        values(plain, at(30)), values(build.open(write=False), at(30)), equal_nan=True
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"namespace": "Contai', "not JSON"),
        (f"{SOUND},{SOUND}", "not JSON"),
        ("[]", "not a metric record"),
        (
            '{"namespace":"ContainerInsights","metric_name":"x","dimensions":{},"timestamp":1}',
            "'value' is missing",
        ),
        (
            '{"namespace":"N","metric_name":"x","dimensions":{},"timestamp":1,"value":{"count":1,"sum":null}}',
            "is not a number",
        ),
        (
            '{"namespace":"N","metric_name":"x","dimensions":{},"timestamp":-1,"value":{"count":1,"sum":1}}',
            "is not a number",
        ),
        (
            '{"namespace":"N","metric_name":"x","dimensions":{},"timestamp":"soon","value":{"count":1,"sum":1}}',
            "soon",
        ),
        (
            '{"namespace":"N","metric_name":"x","dimensions":null,"timestamp":1,"value":{"count":1,"sum":1}}',
            "not a metric record",
        ),
    ],
)
def test_a_broken_line_is_named_and_skipped(build, at, line, why):
    build.node(UTILIZATION, {m: (32, m) for m in range(30)})
    whole = build.open()
    lines = build.lines()
    build.write(lines=[*lines[:7], line, *lines[7:]])
    recording = build.open(write=False)
    assert np.array_equal(values(whole, at(30)), values(recording, at(30)), equal_nan=True)
    (problem,) = recording.problems()
    assert "metrics/a.jsonl, line 8: " in problem
    assert why in problem


def test_many_broken_lines_are_counted(build):
    build.node(UTILIZATION, {m: (32, m) for m in range(30)})
    build.write(lines=[*build.lines(), *(f"broken {i}" for i in range(1000))])
    problems = build.open(write=False).problems()
    assert len(problems) == 21
    assert problems[-1] == "metrics/a.jsonl: 980 more of the kind."


def test_a_gzip_file_that_breaks_off_gives_what_is_whole(build, at):
    build.node(UTILIZATION, {m: (32, m) for m in range(600)})
    path = build.write("metrics/a.jsonl.gz")
    path.write_bytes(path.read_bytes()[:-2000])
    build.write("metrics/b.jsonl", lines=build.lines()[:30])
    recording = build.open(write=False)
    assert values(recording, at(30)).shape == (1, 6)
    assert "a.jsonl.gz" in recording.problems()[0]


def test_a_parquet_file_that_is_none_is_named(build, at):
    build.node(UTILIZATION, {m: (32, m) for m in range(30)})
    (build.folder / "metrics").mkdir()
    (build.folder / "metrics/x.parquet").write_bytes(b"PAR1 but no more")
    recording = build.open()
    assert values(recording, at(30)).shape == (1, 6)
    assert recording.problems()[0].startswith("metrics/x.parquet: ")


def as_it_is(written: bytes) -> bytes:
    return written


def as_parquet(written: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        lines, out = Path(folder) / "a.jsonl", Path(folder) / "a.parquet"
        lines.write_bytes(written)
        duckdb.sql(f"COPY (FROM read_json('{lines}')) TO '{out}' (FORMAT parquet)")
        return out.read_bytes()


@pytest.mark.parametrize("form", [as_it_is, gzip.compress, as_parquet])
@pytest.mark.parametrize(
    "name", ["stream-1-2026-11-17-12-00-00-3f2a", "stream-1-2026-11-17-12-00-00-3f2a.gz", "a.json"]
)
def test_an_object_is_known_by_content_whatever_firehose_named_it(build, at, form, name):
    build.node(UTILIZATION, {m: (32, m) for m in range(30)})
    plain = values(build.open(), at(30))
    written = build.folder / "metrics/a.jsonl"
    (build.folder / "metrics" / name).write_bytes(form(written.read_bytes()))
    written.unlink()
    found = build.open(write=False)
    assert np.array_equal(values(found, at(30)), plain, equal_nan=True)
    assert not found.problems()


def test_a_file_that_is_neither_form_is_named_and_a_mark_is_not(build):
    build.node(UTILIZATION, {0: (32, 1)})
    build.write()
    (build.folder / "metrics/_SUCCESS").write_bytes(b"done")
    (build.folder / "metrics/otel").write_bytes(bytes(range(10, 90)))
    (only,) = build.open().problems()
    assert only.startswith("metrics/otel: neither metric-stream JSON nor Parquet")


def test_unknown_metrics_are_ignored_and_counted(build):
    build.node(UTILIZATION, {m: (32, m) for m in range(30)})
    build.node("node_number_of_unicorns", {m: (1, m) for m in range(7)})
    recording = build.open()
    assert recording.ignored == {"ContainerInsights node_number_of_unicorns": 7}
    assert recording.problems() == ()


def test_of_two_records_of_one_point_the_later_wins(build, at):
    build.node(UTILIZATION, dict.fromkeys(range(30), (32, 32 * 10)))
    first = build.lines()
    build.records.clear()
    build.node(UTILIZATION, {29 - m: (32, 32 * 90) for m in range(30)})
    build.write(lines=[*first, *build.lines()])
    assert values(build.open(write=False), at(30))[0, -1] == pytest.approx(0.9)


LAYOUTS = {
    "map": "dimensions::MAP(VARCHAR, VARCHAR) AS dimensions, value",
    "struct": """{'ClusterName': dimensions->>'ClusterName', 'InstanceId': dimensions->>'InstanceId',
                 'NodeName': dimensions->>'NodeName', 'Absent': NULL::VARCHAR} AS dimensions, value""",
    "json": "dimensions::VARCHAR AS dimensions, to_json(value)::VARCHAR AS value",
    "flat": 'dimensions::VARCHAR AS dimensions, value.count AS "count", value.sum AS "sum", value.max AS "max"',
    "prefixed": "dimensions::VARCHAR AS dimensions, value.count AS value_count, value.sum AS value_sum, value.max AS value_max",
}


@pytest.mark.parametrize(
    "time_as",
    ["timestamp", "epoch_ms(timestamp) AS timestamp", "to_timestamp(timestamp/1000) AS timestamp"],
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_parquet_reads_as_the_lines_do(build, at, layout, time_as):
    for instance in ("i-1", "i-2"):
        build.node(UTILIZATION, {m: (32, m) for m in range(30)}, instance)
        build.node("node_number_of_unicorns", {m: (1, m) for m in range(7)}, instance)
    lines = build.open()
    source = str(build.folder / "metrics/a.jsonl")
    columns = "{account_id:'VARCHAR',region:'VARCHAR',namespace:'VARCHAR',metric_name:'VARCHAR',dimensions:'JSON',timestamp:'BIGINT',value:'STRUCT(count DOUBLE, sum DOUBLE, max DOUBLE, min DOUBLE)'}"
    duckdb.sql(
        f"COPY (SELECT account_id, region, namespace, metric_name, {time_as}, {LAYOUTS[layout]} FROM read_json('{source}',"
        f" format='newline_delimited', columns={columns})) TO '{build.folder}/metrics/a.parquet' (FORMAT parquet)"
    )
    os.remove(source)
    parquet = build.open(write=False)
    assert parquet.problems() == ()
    assert parquet.ignored == lines.ignored
    one, other = lines.read(at(30)).frames["node"], parquet.read(at(30)).frames["node"]
    assert one.things == other.things
    assert np.array_equal(one.values, other.values, equal_nan=True)


def test_parquet_rows_without_a_value_are_counted(build, at):
    (build.folder / "metrics").mkdir()
    duckdb.sql(
        f"""COPY (SELECT 'ContainerInsights' AS namespace, '{UTILIZATION}' AS metric_name,
            MAP {{'ClusterName': 'c', 'InstanceId': 'i', 'NodeName': 'n'}} AS dimensions,
            {int(at(0).timestamp() * 1000)} + t * 60000 AS "timestamp",
            {{'count': 32.0, 'sum': CASE WHEN t = 3 THEN NULL ELSE 32.0 END, 'max': 1.0}} AS value FROM range(30) r(t))
            TO '{build.folder}/metrics/a.parquet' (FORMAT parquet)"""
    )
    recording = build.open()
    assert "1 row here" in recording.problems()[0]
    assert values(recording, at(30))[0, 0] == pytest.approx(0.01)


def test_the_machines_time_zone_changes_nothing(build, at, monkeypatch):
    build.node(UTILIZATION, {m: (32, m) for m in range(30)})
    build.api("ec2/describe_volumes/us-west-2/20261117T000000Z.json", {"Volumes": []})
    here = build.open().read(at(30)).frames["node"]
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    try:
        there = build.open().read(at(30)).frames["node"]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert (here.start, here.things) == (there.start, there.things)
    assert np.array_equal(here.values, there.values, equal_nan=True)


def fill(build, seed):
    """Two nodes at different periods, with gaps, cores and a run."""
    chance = random.Random(seed)
    build.records.clear()
    for instance, period in (("i-1", 1), ("i-2", 5)):
        for metric in (
            UTILIZATION,
            "node_neuroncore_memory_usage_total",
            "node_neuron_execution_errors_total",
        ):
            minutes = [m for m in range(0, 180, period) if m < 30 or chance.random() > 0.2]
            build.node(
                metric, {m: (32 * period, chance.random() * 3200) for m in minutes}, instance
            )
    build.add(
        "Step",
        {"Run": "r", "ClusterName": "llama"},
        {m: (1, m % 50) for m in range(180)},
        namespace="Trn/Training",
    )


def same(one, other):
    assert one.frames.keys() == other.frames.keys()
    for kind, frame in one.frames.items():
        assert (frame.start, frame.things, frame.metrics) == (
            other.frames[kind].start,
            other.frames[kind].things,
            other.frames[kind].metrics,
        )
        assert np.array_equal(frame.values, other.frames[kind].values, equal_nan=True)
    assert (one.runs, one.inventory) == (other.runs, other.inventory)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 1000), files=st.integers(1, 4))
def test_the_order_of_lines_and_files_changes_nothing(build, at, seed, files):
    fill(build, seed)
    build.write("metrics/a.jsonl")
    ordered = build.open(write=False)
    (build.folder / "metrics/a.jsonl").unlink()
    lines = build.lines()
    random.Random(seed).shuffle(lines)
    names = [f"metrics/{'bdac'[i]}.jsonl" for i in range(files)]
    for i, name in enumerate(names):
        build.write(name, lines[i::files])
    shuffled = build.open(write=False)
    for name in names:
        (build.folder / name).unlink()
    same(ordered.read(at(190)), shuffled.read(at(190)))


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 1000), cut=st.integers(30, 190), interval=st.sampled_from([1, 5, 15]))
def test_a_recording_cut_short_reads_as_the_whole_did_then(build, at, seed, cut, interval):
    fill(build, seed)
    build.write()
    whole = build.open(interval, write=False)
    now = at(cut)
    build.write(
        lines=[
            line
            for line in build.lines()
            if json.loads(line)["timestamp"] <= now.timestamp() * 1000
        ]
    )
    same(build.open(interval, write=False).read(now), whole.read(now))


def test_a_truncated_gzip_header_is_reported(build):
    build.node(UTILIZATION, {m: (32, m) for m in range(30)})
    (build.folder / "metrics").mkdir()
    (build.folder / "metrics/z.jsonl.gz").write_bytes(gzip.compress(b"x")[:5])
    assert "z.jsonl.gz" in build.open().problems()[0]
