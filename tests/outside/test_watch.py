"""Metric streams of other makes than the simulator's: what is told, and what is not."""

import json
import random
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from tests.outside.stream import START, Fleet, Sample, works, write

ONSET = 9 * 60 + 7


def starves(node, minute):
    """Fall to a fifth with the host's CPUs at their end."""
    at = works(node, minute)
    return (
        at if minute < ONSET else Sample(at.util * 0.22, at.memory, 96, at.latency, at.efa * 0.22)
    )


def idles(node, minute):
    """End the job: zeros without a runtime, which the agent makes up."""
    return works(node, minute) if minute < ONSET else Sample(0, 0, 2, None, 0)


def leaves_memory(node, minute):
    """Stop at once on every node with the memory held."""
    return works(node, minute) if minute < ONSET else Sample(0, 0.7, 3, None, 0)


def compiles(node, minute):
    """Compile for 40 minutes in the middle, then train on."""
    return Sample(0, 0.004, 80, None, 0) if ONSET <= minute < ONSET + 40 else works(node, minute)


def vanishes(node, minute):
    return works(node, minute) if minute < ONSET or node else None


LLAMA = Fleet("llama", 4, works)
PLAYS = {
    "starved": (starves, 20),
    "idle": (idles, 45),
    "hung": (leaves_memory, 40),
    "no_data": (vanishes, 40),
}


@pytest.mark.parametrize("cause", PLAYS)
def test_a_cause_is_told_once_and_in_time(cause, data, tmp_path):
    play, minutes = PLAYS[cause]
    told = data("backtest", str(write(tmp_path / "r", [replace(LLAMA, play=play)], 11)))
    [alert] = told["alerts"]
    assert (alert["cause"], alert["closed_at"], alert["muted_by"]) == (cause, None, "")
    assert datetime.fromisoformat(alert["opened_at"]) <= START + timedelta(minutes=ONSET + minutes)
    assert [n["reason"] for n in told["notices"]].count("FIRST") == 1


@pytest.mark.parametrize("play", [works, compiles])
def test_work_and_a_compile_are_not_told(play, data, tmp_path):
    fleets = [
        replace(LLAMA, play=play),
        replace(LLAMA, cluster="mix", kind="trn2.48xlarge", cores=128, interfaces=16),
    ]
    assert data("backtest", str(write(tmp_path / "r", fleets, 11)))["alerts"] == []


def test_waste_is_price_times_what_is_missing(data, tmp_path):
    source = write(tmp_path / "r", [replace(LLAMA, play=starves)], 11)
    [alert] = data("alerts", "--source", f"recording:{source}")["data"]["alerts"]
    assert float(alert["waste_usd"]["per_hour"]) == pytest.approx(4 * 21.50 * (1 - 0.22), rel=0.04)


def test_a_host_without_neuron_is_no_silence(data, tmp_path):
    """A GPU node whose agent sends no GPU metrics, and a plain host, only tell their CPU."""
    fleets = [
        LLAMA,
        *(
            Fleet(kind[:2], 2, works, kind=kind, neuron=False)
            for kind in ("p5.48xlarge", "m5.large")
        ),
    ]
    source = write(tmp_path / "r", fleets, 3)
    assert data("backtest", str(source))["alerts"] == []
    rows = data("fleet", "--source", f"recording:{source}")["card"]
    assert "not watched" in json.dumps(rows)
    assert "no data" not in json.dumps(rows)


def test_tags_that_would_ping_stay_text(trnbot, tmp_path):
    hostile = {
        "team": "<!channel> *pay* [x](http://e)",
        "owner": "<@U123>",
        "project": "y" * 256,
        "empty": "",
    }
    source = write(tmp_path / "r", [replace(LLAMA, play=starves, tags=hostile)], 11)
    code, out, _ = trnbot("alerts", "--source", f"recording:{source}")
    assert code == 0
    assert "starved" in out


def spoiled(lines):
    """Break some lines in each way, without taking a whole reading away."""
    bad = [
        '{"bad":',
        "null",
        "[]",
        '"x"',
        "{}",
        '{"timestamp": 1e300}',
        '{"timestamp": "soon"}',
        "\x00",
    ]
    return [*lines[:50], *bad, *lines[50:], *bad]


def shuffled(lines):
    mixed = [*lines, *lines[::9]]
    random.Random(1).shuffle(mixed)
    return mixed


def of_another_age(lines):
    """Add a point of 1970 and one of 2100: a unit that was mixed up, a clock that was wrong."""
    record = json.loads(lines[0])
    return [
        *lines,
        json.dumps({**record, "timestamp": 1762041}),
        json.dumps({**record, "timestamp": 4102444800000}),
    ]


@pytest.mark.parametrize("change", [spoiled, shuffled, of_another_age])
def test_bad_lines_change_nothing(change, data, tmp_path):
    fleet = [replace(LLAMA, play=starves)]
    clean, other = (
        data("backtest", str(write(tmp_path / n, fleet, 11, how)))
        for n, how in (("a", list), ("b", change))
    )
    assert clean["alerts"]
    for part in ("start", "end", "ticks", "alerts", "notices"):
        assert other[part] == clean[part]
