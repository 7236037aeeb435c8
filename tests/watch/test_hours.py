from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.errors import WrongInput
from bot.model.causes import Severity
from bot.model.policy import Policy
from bot.model.window import read_moment, read_quiet_hours
from bot.policy.schema import SETTINGS, default_policy
from bot.watch.mute import mute
from tests.builders import NOON, alert, anomaly, waste

NIGHT = Policy({**default_policy().values, "alert.quiet_hours": "22:00-07:00 Europe/Berlin"})

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "at", "holds"),
    [
        ("22:00-07:00 Europe/Berlin", "2026-11-20T20:59", False),
        ("22:00-07:00 Europe/Berlin", "2026-11-20T21:00", True),
        ("22:00-07:00 Europe/Berlin", "2026-11-20T05:59", True),
        ("22:00-07:00 Europe/Berlin", "2026-11-20T06:00", False),
        ("22:00-07:00 Europe/Berlin", "2026-07-20T20:00", True),
        ("12:00-13:00", "2026-11-20T12:59", True),
        ("12:00-13:00@UTC", "2026-11-20T13:00", False),
    ],
)
def test_hours_hold_by_the_clock_of_their_zone(text: str, at: str, holds: bool) -> None:
    hours = read_quiet_hours(text)
    assert hours is not None
    assert hours.hold(datetime.fromisoformat(at).replace(tzinfo=UTC)) is holds


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("22-7", "write 22:00-07:00 Europe/Berlin, or off"),
        ("25:00-07:00", "is not a time of the day"),
        ("07:00-07:00", "begins when it ends"),
        ("22:00-07:00 Europe/Berln", "'Europe/Berln' is not a time zone"),
        ("22:00-07:00 ../etc", "is not a time of the day"),
    ],
)
def test_wrong_hours_are_told_in_one_sentence(text: str, words: str) -> None:
    with pytest.raises(WrongInput, match=words):
        SETTINGS["alert.quiet_hours"].parse(text)


@pytest.mark.parametrize(
    ("severity", "hour", "marked"),
    [
        (Severity.WARNING, 23, "policy:alert.quiet_hours"),
        (Severity.CRITICAL, 23, ""),
        (Severity.WARNING, 12, ""),
    ],
)
def test_at_night_only_what_is_critical_speaks(severity: Severity, hour: int, marked: str) -> None:
    found = alert(anomaly(severity=severity), waste=waste())
    (seen,) = mute([replace(found)], (), NIGHT, NOON.replace(hour=hour))
    assert seen.muted_by == marked


def test_zones_are_known_where_the_system_has_none() -> None:
    line = "from bot.model.window import read_weekly; print(read_weekly('mon 09:00 Europe/Berlin'))"
    environ = {**os.environ, "PYTHONTZPATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", line],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.stdout == "mon 09:00 Europe/Berlin\n", done.stderr


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("36h", "2026-11-22T00:00"),
        ("2026-11-23 09:00", "2026-11-23T09:00"),
        ("2026-11-23T09:00", "2026-11-23T09:00"),
        ("2026-11-23T09:00Z", "2026-11-23T09:00"),
        ("2026-11-23", "2026-11-23T00:00"),
        ("2026-11-23 09:00 Europe/Berlin", "2026-11-23T08:00"),
        ("2026-07-23 09:00@Europe/Berlin", "past"),
        ("18:00", "2026-11-20T18:00"),
        ("9:00", "2026-11-21T09:00"),
        ("12:00", "2026-11-21T12:00"),
        ("00:30 Asia/Kolkata", "2026-11-20T19:00"),
        ("mon 09:00", "2026-11-23T09:00"),
        ("Friday 09:00 Europe/Berlin", "2026-11-27T08:00"),
        ("fri 13:00", "2026-11-20T13:00"),
        ("mon", "not a time"),
        ("25:00", "not on a clock"),
        ("2026-02-30", "not on a clock"),
        ("xyz 09:00", "is in the past, or not a date"),
        ("tomorrow", "not a time"),
        ("9:00 Berlin", "not a time zone"),
        ("", "not a time"),
    ],
)
def test_a_moment_is_read_as_it_is_meant(text: str, moment: str) -> None:
    """At noon of Friday, 20 November 2026."""
    if moment[0].isdigit():
        assert f"{read_moment(text, NOON):%Y-%m-%dT%H:%M}" == moment
    else:
        with pytest.raises(WrongInput, match=moment):
            read_moment(text, NOON)
