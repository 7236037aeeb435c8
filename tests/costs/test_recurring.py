"""What comes once in every month: runs of nodes, and fees."""

from datetime import date, timedelta
from decimal import Decimal

import pytest

from bot.costs.recurring import Due, Run, fees_again, monthly_run

FIRST, MONTH, END = date(2026, 9, 1), date(2026, 11, 1), date(2026, 12, 1)


def run(until, *spans, first=FIRST):
    """Return what is told of a line of $100 a day in [start, stop) days from September 1 on."""
    days = [first + timedelta(days=n) for n in range((until - first).days)]
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


@pytest.mark.parametrize(
    ("sentence", "until", "spans", "coming", "whole"),
    [
        ("a day without a charge ends no run", date(2026, 11, 8), [(17, 18), (19, 20), (47, 50)], 300, 300),
        ("four days of ten are rare", date(2026, 11, 10), [(0, 14), (30, 44)], 1400, 1400),
        ("the first may come in the second month", date(2026, 11, 1), [(37, 39)], 200, 200),
        ("one that cost more than the last is over", date(2026, 11, 21), [(17, 19), (47, 49), (78, 81)], 0, 200),
        ("one of the 30th is due on the last day", date(2026, 11, 8), [(29, 31), (59, 61)], 100, 200),
        ("one is waited for ten days", date(2026, 11, 15), [(3, 5), (33, 35)], 200, 200),
        ("a late one has less of the month left", date(2026, 11, 26), [(18, 28), (48, 58)], 500, 1000),
    ],
)  # fmt: skip
def test_what_a_monthly_run_still_costs(sentence, until, spans, coming, whole):
    assert run(until, *spans) == Run(Decimal(coming), Decimal(whole)), sentence


@pytest.mark.parametrize(
    ("sentence", "until", "spans"),
    [
        ("two days without a charge end a run", date(2026, 11, 8), [(17, 18), (20, 21), (47, 50)]),
        ("more than four days of ten are not rare", date(2026, 11, 9), [(0, 14), (30, 44)]),
        ("there was time for one before", date(2026, 11, 1), [(38, 40)]),
        ("one alone that still runs", date(2026, 10, 3), [(30, 32)]),
        ("one is waited for no longer", date(2026, 11, 16), [(3, 5), (33, 35)]),
    ],
)
def test_the_edges_of_a_monthly_run(sentence, until, spans):
    assert run(until, *spans) is None, sentence


def test_a_month_that_ends_today_is_a_whole_one():
    assert run(date(2026, 11, 1), (3, 6), (33, 36), first=date(2026, 9, 15))


def test_a_fee_of_the_first_day_of_the_bill_is_expected_when_it_came_once():
    assert due({date(2026, 10, 13): 700}, first=date(2026, 10, 13)) == [Due(share=Decimal("0.35"))]


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


@pytest.mark.parametrize(
    ("sentence", "billed", "grows"),
    [
        # A tenth of October's $2,000, of which November has $600 so far.
        ("a tenth of the charges so far", 60, True),
        ("more of the first charges, as tiers go", 85, True),
        ("as much as last month: it is whole", 200, False),
        ("more than last month", 260, False),
        ("nothing on the 1st", 0, False),
    ],
)
def test_a_share_of_the_charges_so_far_grows_with_them(sentence, billed, grows):
    monthly = {
        date(2026, 9, 1): Decimal(1000),
        date(2026, 10, 1): Decimal(2000),
        MONTH: Decimal(600),
    }
    lumps = {date(2026, 9, 1): 100, date(2026, 10, 1): 200, MONTH: billed}
    lumps = {day: Decimal(usd) for day, usd in lumps.items()}
    expected = [Due(Decimal(-billed), Decimal("0.1"))] if grows else []
    assert list(fees_again(lumps, MONTH, FIRST, monthly)) == expected, sentence
