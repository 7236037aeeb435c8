"""What a terminal says of a source of which part, or nothing, can be read."""

import json

import pytest

from bot.__main__ import main


@pytest.fixture
def told(tmp_path, monkeypatch, capsys):
    """Return what a line over the folder prints, exit code first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRNBOT_CONFIG", raising=False)

    def run(*words):
        code = main([*words, "--source", f"recording:{tmp_path}"])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def unreadable(tmp_path):
    """Put a bill without a readable file into the folder, and no metric."""
    (tmp_path / "billing").mkdir()
    (tmp_path / "billing" / "a.parquet").write_bytes(b"PAR1 not really")


@pytest.mark.usefixtures("unreadable")
def test_what_nothing_can_be_read_of_is_still_looked_at(told):
    code, out, _ = told("about", "--json")
    assert code == 0
    assert [said.split(" ")[0] for said in json.loads(out)["data"]["problems"]] == [
        "The",
        "a.parquet",
    ]
    code, out, _ = told("doctor", "--json")
    wrong = {
        one["name"]: one["found"] for one in json.loads(out)["data"]["checks"] if not one["ok"]
    }
    assert code == 1
    assert "has no metric that could be read" in wrong["metrics"]
    assert "a.parquet could not be read" in wrong["billing"]


@pytest.mark.usefixtures("unreadable")
def test_a_bill_of_which_nothing_can_be_read_fails(told):
    code, out, error = told("cost", "7d", "--at", "2026-11-05T00:00:00Z")
    assert (code, out) == (1, "")
    assert "can be read as a bill: a.parquet" in error


def test_doctor_does_not_call_metrics_whole_that_are_not(told, tmp_path):
    (tmp_path / "metrics").mkdir()
    record = {"namespace": "AWS/EC2", "metric_name": "CPUUtilization", "dimensions": {"InstanceId": "i-1"},
              "timestamp": 1793620800000, "value": {"count": 1, "sum": 5, "max": 5, "min": 5}}  # fmt: skip
    (tmp_path / "metrics" / "stream-1").write_text(json.dumps(record) + "\n{broken\n")
    _, out, _ = told("doctor", "--json")
    (metrics,) = (one for one in json.loads(out)["data"]["checks"] if one["name"] == "metrics")
    assert not metrics["ok"]
    assert "metrics/stream-1, line 2: not JSON" in metrics["found"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["simulate"],
            "trnbot: 'simulate': the following arguments are required: folder; for example",
        ),
        (
            ["simulate", "x", "--seed", "many"],
            "trnbot: 'simulate': argument --seed: invalid int value: 'many'; for example",
        ),
        (
            ["people", "export", "bob"],
            "trnbot: 'people' takes a word and an address: trnbot people",
        ),
    ],
)
def test_a_verb_refuses_in_one_sentence(capsys, words, said):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith(said)
    assert error.count("\n") == 1


def test_a_series_without_a_row_is_not_counted_as_scored(tmp_path, capsys):
    (tmp_path / "in.csv").write_text("timestamp,value\n")
    assert main(["score", str(tmp_path / "in.csv"), str(tmp_path / "out.csv")]) == 0
    assert capsys.readouterr().out == "0 series scored; no row to score in in.csv\n"


def test_help_names_the_verbs_of_a_shell_to_a_person_and_not_to_a_program(capsys):
    assert main(["help"]) == 0
    assert "In a shell also: " in capsys.readouterr().out
    assert main(["help", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_help_says_which_ends_a_window_holds(capsys):
    assert main(["help", "cost"]) == 0
    assert "A..B includes all of day B" in " ".join(capsys.readouterr().out.split())
