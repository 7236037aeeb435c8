import json
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import botocore.session
import duckdb
import pytest
from botocore.validate import ParamValidator

from adapters.simulator import SCENARIOS, Files, SimulationTiming, generate
from bot.__main__ import main
from bot.errors import WrongInput
from bot.model.causes import Cause
from bot.model.labels import NAMES

CORES, DEVICES, INTERFACES = 32, 16, 8
NODE_SET = "map_keys(dimensions) = ['ClusterName', 'InstanceId', 'NodeName']"


def digests(folder: Path) -> dict[str, str]:
    return {
        str(p.relative_to(folder)): sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_same_seed_same_bytes(tmp_path: Path, form: str) -> None:
    for name in ("a", "b"):
        generate(tmp_path / name, 3, "tiny", files=Files(form=form))
    assert digests(tmp_path / "a") == digests(tmp_path / "b")


def test_another_seed_is_another_recording(tmp_path: Path, tiny: Path) -> None:
    generate(tmp_path / "other", 8, "tiny")
    path = "metrics/tiny/bert/node_neuroncore_utilization.parquet"
    assert (tmp_path / "other" / path).read_bytes() != (tiny / path).read_bytes()


@pytest.mark.parametrize("name", ["tiny", "causes"])
def test_every_api_answer_has_the_shape_botocore_knows(
    name: str, request: pytest.FixtureRequest
) -> None:
    session = botocore.session.get_session()
    files = sorted((request.getfixturevalue(name) / "api").rglob("*.json"))
    for path in files:
        service, operation = path.parts[-4], path.parts[-3]
        model = session.get_service_model(service)
        shape = model.operation_model(
            "".join(w.capitalize() for w in operation.split("_"))
        ).output_shape
        problems = ParamValidator().validate(json.loads(path.read_text()), shape)
        assert not problems.has_errors(), f"{path}: {problems.generate_report()}"
    assert {p.parts[-3] for p in files} >= {
        "describe_instances",
        "describe_volumes",
        "describe_file_systems",
        "get_products",
    }


def test_jsonl_and_parquet_hold_the_same_records(
    tmp_path: Path, tiny: Path, sql: duckdb.DuckDBPyConnection
) -> None:
    generate(tmp_path / "lines", 7, "tiny", files=Files(form="jsonl"))
    shown = 'metric_name, dimensions::JSON::VARCHAR AS d, "timestamp", "value".count, "value".sum, "value".max, "value".min, unit'
    kinds = "columns={metric_name: 'VARCHAR', dimensions: 'MAP(VARCHAR, VARCHAR)', timestamp: 'BIGINT', unit: 'VARCHAR', "
    kinds += "value: 'STRUCT(count DOUBLE, sum DOUBLE, max DOUBLE, min DOUBLE)'}"
    lines = f"SELECT {shown} FROM read_json('{tmp_path}/lines/metrics/**/*.jsonl.gz', {kinds})"
    table = f"SELECT {shown} FROM '{tiny}/metrics/**/*.parquet'"
    assert (
        sql.sql(f"SELECT count(*) FROM ({table})").fetchall()
        == sql.sql(f"SELECT count(*) FROM ({lines})").fetchall()
    )
    assert sql.sql(f"({table}) EXCEPT ({lines})").fetchall() == []


@pytest.mark.parametrize(
    ("metric", "things"),
    [
        ("node_neuroncore_utilization", CORES),
        ("node_neuroncore_memory_usage_total", CORES),
        ("node_neurondevice_hw_ecc_events_total", DEVICES),
        ("node_efa_rx_bytes", INTERFACES),
        ("node_neurondevice_runtime_memory_used_bytes", 1),
    ],
)
def test_count_is_scrapes_times_things(
    tiny: Path, sql: duckdb.DuckDBPyConnection, metric: str, things: int
) -> None:
    found = sql.sql(
        f"""SELECT DISTINCT "value".count FROM '{tiny}/metrics/**/*.parquet' WHERE metric_name = '{metric}' AND {NODE_SET}"""
    ).fetchall()
    assert found == [(float(things),)]


def test_cores_and_cluster_tell_the_same_as_nodes(
    tiny: Path, sql: duckdb.DuckDBPyConnection
) -> None:
    def total(where: str) -> float:
        read = f"FROM '{tiny}/metrics/**/*.parquet' WHERE metric_name = 'node_neuroncore_utilization' AND {where}"
        return float(sql.sql(f'SELECT sum("value".sum) {read}').fetchall()[0][0])

    first = sql.sql(
        f"SELECT min(dimensions['InstanceId']) FROM '{tiny}/metrics/tiny/bert/cores/*.parquet'"
    ).fetchall()[0][0]
    one = f"dimensions['InstanceId'] = '{first}' AND "
    assert total(one + "cardinality(dimensions) = 6") == pytest.approx(
        total(one + NODE_SET), rel=1e-4
    )
    assert total("cardinality(dimensions) = 1") == pytest.approx(total(NODE_SET), rel=1e-4)


def test_an_idle_node_says_zero_without_a_runtime_and_no_latency(
    tiny: Path, sql: duckdb.DuckDBPyConnection
) -> None:
    label = json.loads((tiny / "labels.json").read_text())[0]
    span = " AND ".join(
        f'"timestamp" {sign} {int(datetime.fromisoformat(label[key]).timestamp() * 1000)}'
        for sign, key in ((">=", "start"), ("<", "end"))
    )
    read = f"FROM '{tiny}/metrics/**/*.parquet' WHERE dimensions['InstanceId'] = '{label['things'][0]}' AND {span}"
    rows = dict(sql.sql(f'SELECT metric_name, max("value".max) {read} GROUP BY 1').fetchall())
    assert (
        rows["node_neuroncore_utilization"]
        == rows["node_neurondevice_runtime_memory_used_bytes"]
        == 0
    )
    assert "node_neuron_execution_latency" not in rows


@pytest.mark.slow
def test_a_whole_recording_holds_the_parts_that_are_tested_alone(
    tmp_path: Path, causes: Path
) -> None:
    generate(tmp_path / "whole", 7, "causes", SimulationTiming(period_seconds=300))
    parts, whole = digests(causes), digests(tmp_path / "whole")
    assert parts
    assert parts.items() <= whole.items()


def test_every_cause_is_labelled(causes: Path) -> None:
    labels = json.loads((causes / "labels.json").read_text())
    assert {x["cause"] for x in labels} == {str(c) for c in Cause if c.facts.scenario == "causes"}
    assert {c for c in Cause if c.facts.scenario == "compiles"} == {Cause.KILLED_COMPILE}
    assert Cause.KILLED_COMPILE in {x.cause for x in SCENARIOS["compiles"].incidents}
    assert all(set(x["labels"]) <= set(NAMES) and x["start"] < x["end"] for x in labels)


def test_labels_name_what_the_bill_shows(causes: Path, sql: duckdb.DuckDBPyConnection) -> None:
    labels = json.loads((causes / "labels.json").read_text())
    named = {x["labels"]["usage_type"] for x in labels if "usage_type" in x["labels"]}
    billed = sql.sql(
        f"SELECT DISTINCT line_item_usage_type FROM '{causes}/billing/**/*.parquet'"
    ).fetchall()
    assert len(named) == 3
    assert named <= {row[0] for row in billed}


def test_things_of_storage_and_reservations_are_in_the_inventory(causes: Path) -> None:
    labels = json.loads((causes / "labels.json").read_text())
    things = [
        t
        for x in labels
        if x["cause"] in ("orphaned_storage", "unused_capacity")
        for t in x["things"]
    ]
    described = "".join(p.read_text() for p in (causes / "api").rglob("*.json"))
    assert len(things) == 4
    assert all(thing in described for thing in things)


def test_spot_prices_come_newest_first_as_ec2_gives_them(causes: Path) -> None:
    files = sorted(causes.glob("api/ec2/describe_spot_price_history/*/*.json"))
    for file in files:
        changes = json.loads(file.read_text())["SpotPriceHistory"]
        times = [change["Timestamp"] for change in changes]
        assert times == sorted(times, reverse=True) != sorted(times)
    assert files


def test_the_command_line_writes_a_recording_into_a_new_folder(tmp_path: Path) -> None:
    folder = str(tmp_path / "x")
    assert main(["simulate", folder, "--seed", "5", "--scenario", "tiny", "--days", "0.1"]) == 0
    assert main(["simulate", folder, "--scenario", "tiny"]) == 2


def test_nothing_is_wrong_in_calm() -> None:
    assert SCENARIOS["calm"].incidents == ()


def test_start_days_and_period_are_obeyed(tmp_path: Path, sql: duckdb.DuckDBPyConnection) -> None:
    start = datetime(2026, 3, 4, 5, tzinfo=UTC)
    generate(tmp_path / "x", 1, "tiny", SimulationTiming(start, 0.125, 300))
    path = tmp_path / "x/metrics/tiny/bert/node_cpu_utilization.parquet"
    rows = sql.sql(
        f"SELECT min(timestamp), max(timestamp), count(DISTINCT timestamp) FROM '{path}'"
    ).fetchall()
    first = int(start.timestamp() * 1000)
    assert rows == [(first, first + 35 * 300_000, 36)]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (("calmm",), "did you mean 'calm'"),
        (("tiny", SimulationTiming(period_seconds=90)), "write 60 or 300"),
    ],
)
def test_wrong_input_is_named(tmp_path: Path, wrong: tuple[object, ...], sentence: str) -> None:
    with pytest.raises(WrongInput, match=sentence):
        generate(tmp_path / "new", 1, *wrong)
    assert not (tmp_path / "new").exists()


def test_a_used_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(WrongInput, match="not empty"):
        generate(tmp_path, 1, "tiny")
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]
