"""Weeks at speed, with restarts, deaths, redelivered bills and retention: bounded, and nothing is lost or doubled."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from benchmarks.quarter import Life, WeekSeen, differing, outgrown, soak
from bot.settings.settings import read_settings
from tests.builders import NOON
from tests.house.test_kill import FileChat, Fuse

STEADY = [
    WeekSeen(week, 300.0, 2_000_000, 90_000_000, 5_000_000, 2, 20, 80) for week in range(1, 9)
]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_five_weeks_are_bounded_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        soaked = soak(tmp_path, weeks=5, minutes=60, interval="1h")
    assert (len(soaked.weeks), list(soaked.wrong)) == (5, [])
    assert soaked.deaths >= 4
    assert soaked.alerts > 50


def test_a_steady_bot_is_bounded() -> None:
    assert not list(outgrown(STEADY))


@pytest.mark.parametrize(
    ("grown", "named"),
    [
        ({"memory_mib": 330.0}, "memory"),
        ({"database": 3_000_000}, "the database"),
        ({"cache": 140_000_000}, "the cache"),
    ],
)
def test_what_grows_is_named(grown: dict[str, float], named: str) -> None:
    (sentence,) = outgrown([*STEADY[:-1], replace(STEADY[-1], **grown)])  # type: ignore[arg-type]
    assert sentence.startswith(named)


def test_weeks_before_retention_show_nothing() -> None:
    (sentence,) = outgrown(STEADY[:2])
    assert "too few" in sentence


def lived(folder: Path, posts: int) -> Life:
    """Return a bot that told of one alert, and posted about it so many times."""
    folder.mkdir()
    life = Life(read_settings({}), "", folder, {"a1": ("idle/cluster=lab", NOON, None)})
    life.chat = FileChat(folder / "chat.jsonl", Fuse())
    for _ in range(posts):
        life.chat._write("post", message="m1", channel="ops", key="k", title="idle")
    return life


def test_a_message_twice_or_never_and_an_alert_that_is_another_are_named(
    tmp_path: Path,
) -> None:
    truth = lived(tmp_path / "truth", 1)
    assert not list(differing(lived(tmp_path / "same", 1), truth))
    (doubled,) = differing(lived(tmp_path / "twice", 2), truth)
    assert doubled.startswith("sent 2 times, not 1")
    assert any("sent 0 times" in x for x in differing(lived(tmp_path / "never", 0), truth))
    late = lived(tmp_path / "late", 1)
    late.alerts["a1"] = ("idle/cluster=lab", NOON + timedelta(hours=1), None)
    assert len(list(differing(late, truth))) == 2
