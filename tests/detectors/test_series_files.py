import csv
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from adapters.series import score_tree
from bot.errors import WrongInput
from detectors.series import score_series


def written(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(",".join(map(str, row)) for row in rows) + "\n")
    return path


def table(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


def recording(n=700):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    values = 10 + np.sin(np.arange(n) / 40)
    values[600:601] = 99
    return [["timestamp", "value"], *([(start + i * timedelta(minutes=5)).isoformat(), value] for i, value in enumerate(values))]


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


def test_a_header_alone_is_a_series_of_no_rows(tmp_path):
    score_tree(written(tmp_path / "in.csv", recording(0)), tmp_path / "out.csv", score_series)
    assert table(tmp_path / "out.csv") == [["timestamp", "value", "score", "is_anomaly"]]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([["time", "value"]], "header timestamp"),
        ([["timestamp", "value"], ["yesterday", 1]], "line 2: 'yesterday' is not a time"),
        ([["timestamp", "value"], ["2026-01-01", 1, 2]], "line 2 has 3 cells"),
    ],
)
def test_what_is_no_series_is_said_and_nothing_is_written(tmp_path, rows, said):
    with pytest.raises(WrongInput, match=said):
        score_tree(written(tmp_path / "in.csv", rows), tmp_path / "out.csv", score_series)
    assert not (tmp_path / "out.csv").exists()
