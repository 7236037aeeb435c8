"""The forecast held against months as they ended, at days 8, 16 and 24; the table is printed by `benchmarks.forecast`."""

from statistics import median

import pytest

from benchmarks.forecast import DAYS, SETS, Asked, asked, invented


@pytest.fixture(scope="module")
def every(tmp_path_factory) -> list[Asked]:
    found = []
    for seed in range(301, 305):
        found += asked(f"invented {seed}", invented(seed, tmp_path_factory.mktemp("month")))
    return found


def test_forecasts_of_days_8_16_and_24_are_near_the_months_as_they_ended(every):
    assert {one.day for one in every} == set(DAYS)
    assert median(abs(one.error) for one in every) <= 0.03


def test_the_stated_range_holds(every):
    assert sum(one.held for one in every) / len(every) >= 0.85


def test_no_range_reaches_under_what_is_spent(every):
    assert all(one.forecast.low >= one.forecast.spent for one in every)


def test_a_range_says_something(every):
    assert median(one.width for one in every) <= 0.2


def test_a_month_is_drawn_by_its_seed_alone(every, tmp_path):
    again = list(asked("invented 301", invented(301, tmp_path)))
    assert again == every[: len(DAYS)]
    assert not set(SETS["tuned"]) & set(SETS["held"])
