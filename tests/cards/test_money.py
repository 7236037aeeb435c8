"""Dollars read alike from cents to ten million."""

from decimal import Decimal

import pytest

from bot.cards.words import about
from bot.model.money import cents, usd


@pytest.mark.parametrize(
    ("amount", "written"),
    [
        ("0.004", "$0.00"),
        ("99.99", "$99.99"),
        ("1e2", "$100"),
        ("1083.40", "$1,083"),
        ("1e4", "$10,000"),
        ("123456.49", "$123,456"),
        ("1e6", "$1,000,000"),
        ("1e7", "$10,000,000"),
        ("-12345.6", "-$12,346"),
    ],
)
def test_an_amount_is_written_with_its_sign_and_thousands(amount, written):
    assert usd(Decimal(amount)) == written


@pytest.mark.parametrize(
    ("amount", "written"), [("271834", "$272,000"), ("9876543", "$9,880,000"), ("99.4", "$99.40")]
)
def test_an_estimate_has_three_digits(amount, written):
    assert about(Decimal(amount)) == written


@pytest.mark.parametrize(
    ("amount", "rounded"),
    [
        ("1.006", "1.01"),
        ("1.004", "1.00"),
        ("1.005", "1.00"),
        ("1.015", "1.02"),
        ("-1.006", "-1.01"),
    ],
)
def test_a_cent_is_the_nearest_and_of_two_the_even_one(amount, rounded):
    assert str(cents(Decimal(amount))) == rounded
