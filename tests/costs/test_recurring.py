"""What comes once in every month: runs of nodes, and fees."""

from datetime import date, timedelta
from decimal import Decimal

import pytest

from bot.costs.recurring import Due, due_again, rare_days

FIRST, MONTH = date(2026, 9, 1), date(2026, 11, 1)


def run(until, *spans, first=FIRST):
    """Return what is told of a line of $100 a day in [start, stop) days from September 1 on."""
    days = [FIRST + timedelta(days=n) for start, stop in spans for n in range(start, stop)]
    charged = {day: Decimal(100) for day in days if day < until}
    return due_again(charged, MONTH, until, first, {})


@pytest.mark.parametrize(
    ("sentence", "until", "spans", "due"),
    [
        ("one of both months before comes again", date(2026, 11, 8), [(17, 20), (47, 50)], 300),
        ("and costs what the last did", date(2026, 11, 8), [(17, 18), (47, 50)], 300),
        ("one that came already comes no more", date(2026, 11, 22), [(17, 20), (47, 50), (78, 80)], 0),
        ("one that goes on ends with what the last cost", date(2026, 11, 19), [(17, 20), (47, 50), (78, 79)], 200),
        ("one that cost more than the last is over", date(2026, 11, 21), [(17, 19), (47, 49), (78, 81)], 0),
        ("the month before and this one are two", date(2026, 11, 19), [(47, 50), (78, 79)], 200),
        ("one is waited for ten days", date(2026, 11, 14), [(3, 5), (33, 35)], 200),
        ("and no longer", date(2026, 11, 16), [(3, 5), (33, 35)], 0),
        ("of two in a month the second is", date(2026, 11, 8), [(0, 1), (14, 15), (30, 31), (44, 45), (61, 62)], 100),
        ("until it has come", date(2026, 11, 18), [(14, 15), (30, 31), (44, 45), (61, 62), (75, 76)], 0),
        ("one that came early and short is over", date(2026, 11, 8), [(9, 19), (39, 49), (61, 63)], 0),
    ],
)  # fmt: skip
def test_a_run_of_each_month_is_expected_once(sentence, until, spans, due):
    assert run(until, *spans).usd == due, sentence


@pytest.mark.parametrize(
    ("sentence", "until", "spans"),
    [
        ("never", date(2026, 11, 8), []),
        ("once, and not in the month before", date(2026, 11, 8), [(48, 51)]),
        ("on other days of the month", date(2026, 11, 8), [(3, 5), (50, 53)]),
        ("not in the last one", date(2026, 11, 8), [(3, 5)]),
    ],
)
def test_what_is_no_run_of_each_month(sentence, until, spans):
    assert run(until, *spans) is None, sentence


def test_a_young_bill_has_room_for_one_run():
    young = date(2026, 9, 25)
    assert run(date(2026, 11, 8), (47, 50), first=young) == Due(Decimal(300))
    assert run(date(2026, 11, 8), (47, 48), first=young) is None, "a day is no run"
    assert run(date(2026, 11, 8), (47, 50), first=date(2026, 9, 17)) is None


def test_a_run_that_differs_from_the_last_is_less_sure():
    assert run(date(2026, 11, 8), (17, 19), (47, 50)).unsure == 100


@pytest.mark.parametrize(
    ("sentence", "charged", "rare"),
    [
        ("on four days of ten", 4, True),
        ("on five", 5, False),
        ("on none", 0, False),
    ],
)
def test_few_days_are_rare(sentence, charged, rare):
    amounts = {FIRST + timedelta(days=n): Decimal(n < charged) for n in range(10)}
    assert bool(rare_days(amounts, date(2026, 9, 11))) is rare, sentence


@pytest.mark.parametrize(("apart", "rare"), [(7, False), (15, True), (30, True)])
def test_what_comes_every_week_is_a_habit_and_not_rare(apart, rare):
    charged = {FIRST + timedelta(days=n): Decimal(5) for n in range(0, 70, apart)}
    assert bool(rare_days(charged, date(2026, 11, 10))) is rare


def test_one_day_is_rare_however_young_the_line_is():
    assert rare_days({FIRST: Decimal(5)}, FIRST)


def test_a_fee_of_the_first_day_of_the_bill_is_expected_when_it_came_once():
    assert due({date(2026, 10, 13): 700}, first=date(2026, 10, 13)) == Due(share=Decimal("0.35"))


def due(fees, first=FIRST):
    monthly = {date(2026, 9, 1): Decimal(1000), date(2026, 10, 1): Decimal(2000)}
    charged = {day: Decimal(usd) for day, usd in fees.items()}
    return due_again(charged, MONTH, date(2026, 11, 20), first, monthly)


def test_support_that_follows_the_bill_is_expected_as_its_share():
    assert due({date(2026, 9, 1): 100, date(2026, 10, 1): 200}) == Due(share=Decimal("0.1"))


def test_a_fee_of_the_first_is_expected_when_it_came_once():
    assert due({date(2026, 10, 1): 200}) == Due(share=Decimal("0.1"))


def test_a_fee_that_stays_the_same_is_expected_as_it_was():
    assert due({date(2026, 9, 1): 500, date(2026, 10, 1): 500}) == Due(Decimal(500))


def test_a_fee_of_a_day_in_the_month_is_expected_when_it_came_twice():
    assert due({date(2026, 10, 13): 700}) is None
    assert due({date(2026, 9, 13): 700, date(2026, 10, 13): 700}) == Due(Decimal(700))


def test_a_fee_that_came_already_is_not_expected_again():
    assert due({date(2026, 10, 1): 200, date(2026, 11, 1): 210}) == Due()


@pytest.mark.parametrize(
    ("sentence", "billed", "grows"),
    [
        # A tenth of October's $2,000, of which November has $600 so far.
        ("a tenth of the charges so far", 60, True),
        ("more of the first charges, as tiers go", 85, True),
        ("as much as last month: it is whole", 200, False),
        ("more than last month", 260, False),
    ],
)
def test_a_share_of_the_charges_so_far_grows_with_them(sentence, billed, grows):
    monthly = {
        date(2026, 9, 1): Decimal(1000),
        date(2026, 10, 1): Decimal(2000),
        MONTH: Decimal(600),
    }
    fees = {date(2026, 9, 1): 100, date(2026, 10, 1): 200, MONTH: billed}
    charged = {day: Decimal(usd) for day, usd in fees.items()}
    expected = Due(Decimal(-billed), Decimal("0.1")) if grows else Due()
    assert due_again(charged, MONTH, date(2026, 11, 20), FIRST, monthly) == expected, sentence
