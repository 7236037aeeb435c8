"""What comes once in every month: runs of nodes, and fees."""

from datetime import date, timedelta
from decimal import Decimal

import pytest

from bot.costs.recurring import Due, Run, fees_again, monthly_run

FIRST, MONTH, END = date(2026, 9, 1), date(2026, 11, 1), date(2026, 12, 1)


def run(until, *spans):
    """Return what is told of a line of $100 a day in [start, stop) days from September 1 on."""
    days = [FIRST + timedelta(days=n) for n in range((until - FIRST).days)]
    inside = [any(start <= n < stop for start, stop in spans) for n in range(len(days))]
    return monthly_run([Decimal(100 * whether) for whether in inside], days, END)


def test_a_run_that_came_in_both_months_comes_again():
    # September 18 to 20 and October 18 to 20; it is November 8.
    assert run(date(2026, 11, 8), (17, 20), (47, 50)) == Run(Decimal(300), Decimal(300))


def test_a_run_that_came_already_comes_no_more():
    told = run(date(2026, 11, 22), (17, 20), (47, 50), (78, 81))
    assert told.coming == 0


def test_a_run_of_the_month_ends_when_it_has_cost_what_the_last_one_did():
    told = run(date(2026, 11, 19), (17, 20), (47, 50), (78, 79))
    assert told == Run(Decimal(200), Decimal(300))


@pytest.mark.parametrize(
    "spans",
    [[(0, 70)], [(3, 5), (11, 13), (20, 24), (50, 53)], [(48, 51)], []],
    ids=["always", "often", "once, and not in the month before", "never"],
)
def test_what_is_no_monthly_run(spans):
    assert run(date(2026, 11, 8), *spans) is None


def due(lumps, first=FIRST):
    monthly = {date(2026, 9, 1): Decimal(1000), date(2026, 10, 1): Decimal(2000)}
    lumps = {day: Decimal(usd) for day, usd in lumps.items()}
    return list(fees_again(lumps, MONTH, first, monthly))


def test_support_that_follows_the_bill_is_expected_as_its_share():
    assert due({date(2026, 9, 1): 100, date(2026, 10, 1): 200}) == [Due(share=Decimal("0.1"))]


def test_a_fee_of_the_first_is_expected_when_it_came_once():
    assert due({date(2026, 10, 1): 200}) == [Due(share=Decimal("0.1"))]


def test_a_fee_that_stays_the_same_is_expected_as_it_was():
    assert due({date(2026, 9, 1): 500, date(2026, 10, 1): 500}) == [Due(Decimal(500))]


def test_a_fee_of_a_day_in_the_month_is_expected_when_it_came_twice():
    assert due({date(2026, 10, 13): 700}) == []
    assert due({date(2026, 9, 13): 700, date(2026, 10, 13): 700}) == [Due(Decimal(700))]


def test_a_fee_that_came_already_is_not_expected_again():
    assert due({date(2026, 10, 1): 200, date(2026, 11, 1): 210}) == []
