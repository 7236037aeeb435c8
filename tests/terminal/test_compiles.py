"""What `status` and `cost` say of compiles, over a recording in which one goes on, one runs long and one is cut off."""

import json

import pytest

from adapters.simulator import generate
from bot.__main__ import main


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """Return a recording up to the relaunch of the job whose compile was cut off."""
    folder = tmp_path_factory.mktemp("compiles") / "recording"
    generate(folder, 1, "compiles", days=1.55)
    return folder


@pytest.fixture
def ask(recording, tmp_path, monkeypatch, capsys):
    """Return the data of a line at a time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRNBOT_CONFIG", raising=False)

    def run(at, *words):
        assert main([*words, "--source", f"recording:{recording}", "--at", at, "--json"]) == 0
        return json.loads(capsys.readouterr().out)["data"]

    return run


def test_status_says_of_a_compile_what_it_has_cost(ask):
    (one,) = ask("2026-11-17T20:30:00Z", "status", "llama")["compiles"]
    assert (one["ending"], len(one["nodes"]), one["end"], one["grace_seconds"]) == ("going on", 8, None, 3600)
    assert 0 < float(one["spared_usd"]) < float(one["usd"])


def test_a_compile_that_was_cut_off_is_wasted_dollars_in_status_and_in_the_bill(ask):
    (one,) = ask("2026-11-18T11:15:00Z", "status", "vision")["compiles"]
    assert (one["ending"], len(one["nodes"])) == ("cut off", 4)
    compiling = ask("2026-11-18T13:00:00Z", "cost", "2026-11-17..2026-11-18", "cluster=vision")["compiling"]
    assert 0 < float(compiling["cut_usd"]) < float(compiling["usd"])
    assert compiling["compiles"] == 2
    assert compiling["estimated"] is True


def test_a_question_that_metrics_cannot_answer_has_no_compile_line(ask):
    assert "compiling" not in ask("2026-11-18T13:00:00Z", "cost", "2026-11-17..2026-11-18", "service=AmazonS3")
    assert "compiling" not in ask("2026-11-18T13:00:00Z", "cost", "2026-10-17..2026-10-18")
