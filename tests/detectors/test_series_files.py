import csv
import json
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

from adapters.series_csv import _read, read_truth, score_tree
from bot.errors import WrongInput
from detectors.series.score import score_series

START = datetime(2026, 1, 1, tzinfo=UTC)


def written(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(",".join(map(str, row)) for row in rows) + "\n")
    return path


def table(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


def recording(n=700):
    values = 10 + np.sin(np.arange(n) / 40)
    values[600:601] = 99
    return [
        ["timestamp", "value"],
        *(
            [(START + i * timedelta(minutes=5)).isoformat(), value]
            for i, value in enumerate(values)
        ),
    ]


def test_every_row_is_kept_and_the_strange_one_marked(tmp_path):
    rows = recording()
    rows[50][1], rows[51][1] = "", "n/a"
    score_tree(written(tmp_path / "in.csv", rows), tmp_path / "out.csv", score_series)
    out = table(tmp_path / "out.csv")
    assert out[0] == ["timestamp", "value", "score", "is_anomaly"]
    assert [row[:2] for row in out] == [list(map(str, row)) for row in rows]
    assert [n for n, row in enumerate(out) if row[3] == "1"] == [601]


def test_a_tree_keeps_its_shape(tmp_path):
    written(tmp_path / "in/a/x.csv", recording(5))
    written(tmp_path / "in/b/y.csv", [["timestamp", "m1", "m2"], ["2026-01-01", 1, 2]])
    assert score_tree(tmp_path / "in", tmp_path / "out", score_series) == 2
    assert table(tmp_path / "out/b/y.csv")[1] == ["2026-01-01", "1", "2", "0.000000", "0"]
    assert (tmp_path / "out/a/x.csv").is_file()
    assert score_tree(tmp_path / "in", tmp_path / "in", score_series) == 2, "in its own place"


def test_what_an_earlier_call_wrote_within_the_tree_is_no_input(tmp_path):
    written(tmp_path / "x.csv", recording(5))
    counts = [score_tree(tmp_path, tmp_path / "scored", score_series) for _ in range(2)]
    assert counts == [1, 1]
    assert [path.name for path in (tmp_path / "scored").rglob("*")] == ["x.csv"]


def test_a_header_alone_is_a_series_of_no_rows(tmp_path):
    score_tree(written(tmp_path / "in.csv", recording(0)), tmp_path / "out.csv", score_series)
    assert table(tmp_path / "out.csv") == [["timestamp", "value", "score", "is_anomaly"]]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([["time", "value"]], "header timestamp"),
        ([["timestamp", "value"], ["yesterday", 1]], "line 2: 'yesterday' is not a time"),
        ([["timestamp", "value"], ["2026-01-01", 1, 2]], "line 2 has 3 cells"),
        ([["timestamp", "value"], [], ["", 1]], "line 3: '' is not a time"),
    ],
)
def test_what_is_no_series_is_said_and_nothing_is_written(tmp_path, rows, said):
    with pytest.raises(WrongInput, match=said):
        score_tree(written(tmp_path / "in.csv", rows), tmp_path / "out.csv", score_series)
    assert not (tmp_path / "out.csv").exists()


def test_one_bad_file_of_a_tree_leaves_nothing_written(tmp_path):
    written(tmp_path / "in/a.csv", recording(5))
    written(tmp_path / "in/b.csv", [["timestamp", "value"], ["soon", 1]])
    with pytest.raises(WrongInput, match="'soon' is not a time"):
        score_tree(tmp_path / "in", tmp_path / "out", score_series)
    assert not (tmp_path / "out").exists()


def test_what_is_no_text_is_said(tmp_path):
    (tmp_path / "in.csv").write_bytes(b"timestamp,value\n\xff\xfe,1\n")
    with pytest.raises(WrongInput, match="cannot be read as a CSV"):
        score_tree(tmp_path / "in.csv", tmp_path / "out.csv", score_series)


def with_times(write):
    rows = recording()
    return [rows[0], *([write(datetime.fromisoformat(at)), value] for at, value in rows[1:])]


@pytest.mark.parametrize(
    "write",
    [
        lambda at: at.strftime("%Y-%m-%d %H:%M:%S"),
        lambda at: at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        lambda at: at.strftime("%Y-%m-%d %H:%M:%S UTC"),
        lambda at: at.astimezone(timezone(timedelta(hours=-7))).isoformat(),
        lambda at: int(at.timestamp()),
        lambda at: f"{at.timestamp():.3f}",
        lambda at: int(at.timestamp() * 1000),
        lambda at: int(at.timestamp() * 1_000_000_000),
        lambda at: int((at - START).total_seconds() // 300),
    ],
)
def test_any_way_to_write_a_time_gives_the_same_scores_and_stays_as_it_was(tmp_path, write):
    plain, other = tmp_path / "plain.csv", tmp_path / "other.csv"
    rows = with_times(write)
    score_tree(written(tmp_path / "in.csv", recording()), plain, score_series)
    score_tree(written(tmp_path / "in.csv", rows), other, score_series)
    assert [row[2:] for row in table(other)] == [row[2:] for row in table(plain)]
    assert [row[:2] for row in table(other)] == [list(map(str, row)) for row in rows]


def test_rows_out_of_order_or_twice_stay_where_they_are(tmp_path):
    rows = recording()
    rows[300], rows[301] = rows[301], rows[300]
    rows.insert(400, rows[399])
    score_tree(written(tmp_path / "in.csv", rows), tmp_path / "out.csv", score_series)
    out = table(tmp_path / "out.csv")
    assert [row[:2] for row in out] == [list(map(str, row)) for row in rows]
    assert [n for n, row in enumerate(out) if row[3] == "1"] == [602]


def test_a_history_is_learnt_and_not_written(tmp_path):
    rows = recording()
    score_tree(written(tmp_path / "whole.csv", rows), tmp_path / "all.csv", score_series)
    before = written(tmp_path / "before/a/x.csv", rows[:501]).parents[1]
    written(tmp_path / "in/a/x.csv", [rows[0], *rows[501:]])
    score_tree(tmp_path / "in", tmp_path / "out", score_series, history=before)
    assert table(tmp_path / "out/a/x.csv")[1:] == table(tmp_path / "all.csv")[501:]


def test_a_history_of_other_columns_is_refused(tmp_path):
    before = written(tmp_path / "before.csv", [["timestamp", "m1", "m2"], ["2026-01-01", 1, 2]])
    with pytest.raises(WrongInput, match="has the columns timestamp,m1,m2"):
        score_tree(
            written(tmp_path / "in.csv", recording()),
            tmp_path / "out.csv",
            score_series,
            history=before,
        )


def test_truth_is_read_as_windows_of_each_series(tmp_path):
    path = tmp_path / "windows.json"
    path.write_text(json.dumps({"a/x.csv": [["2026-01-01 00:05:00.000000", "2026-01-02"]]}))
    assert read_truth(path) == {
        "a/x.csv": [(START + timedelta(minutes=5), START + timedelta(days=1))]
    }


@pytest.mark.parametrize("text", ["", "[1]", '{"x.csv": 1}', '{"x.csv": [["2026-01-01"]]}'])
def test_what_is_no_truth_is_said(tmp_path, text):
    (tmp_path / "windows.json").write_text(text)
    with pytest.raises(WrongInput, match="is not the truth of series"):
        read_truth(tmp_path / "windows.json")


@pytest.mark.parametrize(
    ("first", "second", "start", "step_s"),
    [
        ("0", "1", 0.0, 300),
        ("1", "2", 300.0, 300),
        ("2", "3", 2.0, 1),
        ("1767225600", "1767225660", 1_767_225_600.0, 60),
        ("1767225600000", "1767225660000", 1_767_225_600.0, 60),
        ("2026-01-01T00:00:00", "2026-01-01 00:05:00 UTC", 1_767_225_600.0, 300),
        ("2026-01-01T01:00:00+01:00", "2026-01-01T00:05:00Z", 1_767_225_600.0, 300),
    ],
)
def test_times_are_read_in_whatever_way_they_are_told(tmp_path, first, second, start, step_s):
    path = written(tmp_path / "in.csv", [["Timestamp", "value"], [first, 1], [second, ""]])
    read = _read(path)
    times = [time.timestamp() for time in read.times]
    assert times == [start, start + step_s]
    assert read.values.tolist()[0] == [1.0]
    assert np.isnan(read.values[1, 0])
