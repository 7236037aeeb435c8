"""How soon a drop of a whole job is told, wherever it begins between ticks, and what must not be taken for one."""

from datetime import timedelta

import pytest
from crew import DAY, START, Crew
from minutes import Fleet, spoken

from bot.model.causes import Cause

ONSET = DAY + 400
BEFORE = DAY // 4
"""Minutes that are watched before what a test is about; earlier ones are read as history."""


@pytest.mark.parametrize("period", [1, 5])
@pytest.mark.parametrize(
    "offset", [0, *(pytest.param(offset, marks=pytest.mark.slow) for offset in (1, 2, 3)), 4]
)
def test_a_severe_drop_is_told_within_a_quarter_of_an_hour(period, offset):
    crew = Crew(8, days=1.5, seed=offset).pauses()
    crew.at["util"][:, ONSET - 40 : ONSET] = crew.level
    crew.starve(ONSET + offset, 180, 0.2)
    (alert,) = spoken(Fleet((crew,), period, watched_from=ONSET - BEFORE).replay())
    onset = START + timedelta(minutes=ONSET + offset)
    assert alert.cause is Cause.STARVED
    assert timedelta(0) < alert.opened - onset <= timedelta(minutes=15)
    assert abs(alert.anomaly.window.start - onset) <= timedelta(minutes=11)


@pytest.mark.parametrize("period", [1, 5])
@pytest.mark.parametrize(
    "minutes",
    [1, pytest.param(3, marks=pytest.mark.slow), pytest.param(5, marks=pytest.mark.slow), 8],
)
def test_a_pause_of_any_length_is_not_told(period, minutes):
    crew = Crew(8, days=2, seed=minutes)
    for i, start in enumerate(range(DAY, 2 * DAY - 60, 61)):
        crew.scale(start, minutes, util=(0.0, 0.04, 0.2)[i % 3], tx=0.02, inward=0.1)
        if minutes > 6:
            crew.scale(start, minutes, high=(0.0, 0.04, 0.2)[i % 3])
    assert spoken(Fleet((crew,), period, watched_from=DAY - BEFORE).replay()) == []


@pytest.mark.parametrize("offset", [0, 2, 4])
def test_one_bad_reading_is_not_told(offset):
    crew = Crew(8, days=2)
    for start in range(DAY, 2 * DAY - 60, 120):
        crew.starve(start + offset, 5 - offset, 0.15)
    assert spoken(Fleet((crew,), 5, watched_from=DAY - BEFORE).replay()) == []
