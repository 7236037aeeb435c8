"""Files that hold one metric each, as a stream that is split by metric leaves them."""

import contextlib

import duckdb
import numpy as np
import pytest

from adapters.aws.files import Problems
from adapters.aws.metrics.parquet_files import (
    by_layout,
    connect_locked,
    grouped_for_queries,
    with_new_sets,
)

UTILIZATION = "node_neuroncore_utilization"
MEMORY = "node_neuroncore_memory_usage_total"
COLUMNS = (
    "{account_id:'VARCHAR',region:'VARCHAR',namespace:'VARCHAR',metric_name:'VARCHAR',dimensions:'MAP(VARCHAR, VARCHAR)',"
    "timestamp:'BIGINT',value:'STRUCT(count DOUBLE, sum DOUBLE, max DOUBLE, min DOUBLE)'}"
)


def fill(build):
    for metric in (UTILIZATION, MEMORY, "node_number_of_unicorns"):
        for instance in ("i-1", "i-2"):
            build.node(metric, {m: (32, m) for m in range(30)}, instance)


def by_metric(build, change=""):
    """Write the lines as one file a metric; `change` is SQL that replaces columns."""
    lines = build.write()
    for row in duckdb.sql(f"SELECT DISTINCT metric_name FROM read_json('{lines}')").fetchall():
        duckdb.sql(
            f"COPY (SELECT * {change} FROM read_json('{lines}', format='newline_delimited', columns={COLUMNS})"
            f" WHERE metric_name = '{row[0]}') TO '{build.folder}/metrics/{row[0]}.parquet' (FORMAT parquet)"
        )
    lines.unlink()
    return build.open(write=False)


def same_nodes(one, other):
    assert one.things == other.things
    assert one.metrics == other.metrics
    assert np.array_equal(one.values, other.values, equal_nan=True)


def test_files_of_one_metric_read_as_the_lines_do(build, at):
    fill(build)
    lines = build.open()
    parquet = by_metric(build)
    assert parquet.problems() == ()
    assert parquet.ignored == lines.ignored == {"ContainerInsights node_number_of_unicorns": 60}
    same_nodes(lines.read(at(30)).frames["node"], parquet.read(at(30)).frames["node"])


@pytest.mark.parametrize("others", [1, 30], ids=["other bytes", "as many bytes"])
def test_files_that_store_their_sets_alike_are_not_mixed_up_with_one_that_does_not(
    build, at, others
):
    fill(build)
    for record in build.records[:others]:
        record["dimensions"] |= {"InstanceId": "i-9", "NodeName": "ip-i-9"}
    lines = build.open()
    same_nodes(lines.read(at(30)).frames["node"], by_metric(build).read(at(30)).frames["node"])


@pytest.mark.parametrize("column", ["region", "account_id"])
def test_a_column_without_any_value_reads_as_one_that_is_left_out(build, at, column):
    fill(build)
    recording = by_metric(build, f"REPLACE (NULL::VARCHAR AS {column})")
    plain = by_metric(build, f"EXCLUDE ({column})")
    same_nodes(plain.read(at(30)).frames["node"], recording.read(at(30)).frames["node"])


def test_points_without_a_sum_are_left_out_of_each_file(build, at):
    fill(build)
    for i in (3, 70, 71):
        build.records[i]["value"]["sum"] = None
    recording = by_metric(build)
    assert sum("3 rows" in problem for problem in recording.problems()) == 1
    fine = [record for record in build.records if record["value"]["sum"] is not None]
    build.records[:] = fine
    same_nodes(build.open().read(at(30)).frames["node"], recording.read(at(30)).frames["node"])


def test_where_the_first_file_is_damaged_the_next_tells_the_sets(build, at):
    fill(build)
    by_metric(build)
    damaged = build.folder / "metrics" / f"{MEMORY}.parquet"
    where = f"FROM parquet_metadata('{damaged}') WHERE path_in_schema = 'value, sum'"
    ((start,),) = duckdb.sql(
        f"SELECT least(dictionary_page_offset, data_page_offset) {where}"
    ).fetchall()
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:start] + b"\xff" * 60 + whole[start + 60 :])
    recording = build.open(write=False)
    (problem,) = recording.problems()
    assert problem.startswith(f"metrics/{MEMORY}.parquet: cannot be read")
    damaged.unlink()
    same_nodes(
        build.open(write=False).read(at(30)).frames["node"], recording.read(at(30)).frames["node"]
    )


def test_a_file_whose_row_groups_are_each_about_another_metric_is_about_any(build, at):
    """Within each row group all names are one, and the next has another."""
    for metric in (UTILIZATION, MEMORY):
        for instance in range(50):
            build.node(metric, {m: (32, m) for m in range(41)}, f"i-{instance}")
    lines = build.open()
    written = build.write()
    duckdb.sql(
        f"COPY (SELECT * FROM (SELECT * FROM read_json('{written}', format='newline_delimited', columns={COLUMNS})"
        f" WHERE metric_name = '{UTILIZATION}' ORDER BY \"timestamp\" LIMIT 2048) UNION ALL BY NAME"
        f" SELECT * FROM read_json('{written}', format='newline_delimited', columns={COLUMNS})"
        f" WHERE metric_name = '{MEMORY}') TO '{build.folder}/metrics/both.parquet'"
        " (FORMAT parquet, ROW_GROUP_SIZE 2048)"
    )
    written.unlink()
    recording = build.open(write=False)
    assert recording.problems() == ()
    ours, theirs = (x.read(at(30)).frames["node"] for x in (lines, recording))
    assert ours.metrics == theirs.metrics
    assert np.array_equal(ours.values, theirs.values, equal_nan=True)


ABOUT = {
    "memory": "('N', 'memory', 'r', 'a', 'x')",
    "nobody": "('N', 'memory', NULL::VARCHAR, 'a', 'y')",
    "odd": "('N', 'memory', NULL::VARCHAR, 'a', 'x'), ('N', 'memory', 'r', 'a', 'x')",
    "two": "('N', 'cpu', 'r', 'a', 'x'), ('N', 'memory', 'r', 'a', 'x')",
    "use": "('N', 'use', 'r', 'a', 'x')",
    "ways": "('N', 'use', 'r', 'a', 'y')",
    "wrong": "(7, 'use', 'r', 'a', 'x')",
}


def test_what_a_file_is_about_is_told_by_its_statistics_where_they_can(tmp_path):
    paths = [tmp_path / name for name in ABOUT]
    for path, rows in zip(paths, ABOUT.values(), strict=True):
        duckdb.sql(
            f"COPY (FROM (VALUES {rows}) t(namespace, metric_name, region, account_id, dimensions)) TO '{path}' (FORMAT parquet)"
        )
    problems = Problems()
    with contextlib.closing(connect_locked(paths)) as connection:
        layouts = by_layout(connection, [(path, path.name) for path in paths], problems)
    files = sorted((file for alike in layouts.values() for file in alike), key=lambda x: x.name)
    assert {file.name: (file.names, file.rows) for file in files} == {
        "memory": (("N", "memory", "r", "a"), 1),
        "nobody": (("N", "memory", None, "a"), 1),
        "odd": (None, 0),
        "two": (None, 0),
        "use": (("N", "use", "r", "a"), 1),
        "ways": (("N", "use", "r", "a"), 1),
        "wrong": (None, 0),
    }
    memory, nobody, _, _, use, ways, _ = files
    assert memory.sets == use.sets != ways.sets == nobody.sets
    groups = [[file.name for file in group] for group in grouped_for_queries(files)]
    assert groups == [["memory", "nobody"], ["odd", "two"], ["use", "ways"], ["wrong"]]
    assert with_new_sets(files, {memory.sets}) == [nobody]
    assert problems.sentences() == ()


def test_files_of_metrics_are_read_by_a_database_that_nothing_unlocks(tmp_path):
    (tmp_path / "it's").mkdir()
    with contextlib.closing(connect_locked([tmp_path / "it's" / "a.parquet"])) as locked:
        for statement in (
            "SET enable_external_access = true",
            "SELECT * FROM read_csv('/etc/passwd')",
        ):
            with pytest.raises(duckdb.Error):
                locked.execute(statement)
