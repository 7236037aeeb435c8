"""The forecast held against months as they ended, at days 8, 16 and 24; the table is printed by `benchmarks.forecast`."""

from statistics import median

import pytest

from benchmarks.forecast import DAYS, Asked, asked, invented


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
