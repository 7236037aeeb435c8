"""What is compared at a bound: amounts of a receipt, sizes that are unpacked, names of attempts."""

from decimal import Decimal

import pytest

from bot.model.limits import (
    UNPACKED_BYTES,
    UNPACKED_FREE,
    UNPACKED_RATIO,
    Newest,
    unpacked_limit,
)
from bot.model.receipt import agree
from bot.model.run import job_of


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("12.34", "12.345", True),
        ("12.34", "12.346", False),
        ("0.123456", "0.1234565", True),
        ("0.123456", "0.123459", False),
        ("0.12", "0.124", True),
        ("NaN", "NaN", True),
        ("NaN", "1", False),
        ("1", "Infinity", False),
    ],
)
def test_amounts_agree_to_the_cent_and_below_a_dollar_to_six_digits(
    one: str, other: str, same: bool
) -> None:
    assert agree(Decimal(one), Decimal(other)) is same


@pytest.mark.parametrize(
    ("packed", "most"),
    [
        (0, UNPACKED_FREE),
        (
            UNPACKED_FREE // UNPACKED_RATIO + 1,
            UNPACKED_FREE // UNPACKED_RATIO * UNPACKED_RATIO + UNPACKED_RATIO,
        ),
        (UNPACKED_BYTES, UNPACKED_BYTES),
    ],
)
def test_a_file_may_unpack_to_a_multiple_of_itself_and_no_further(packed: int, most: int) -> None:
    assert unpacked_limit(packed) == most


@pytest.mark.parametrize(
    ("name", "job"),
    [
        ("llama-8b", "llama-8b"),
        ("llama-8b-attempt-2", "llama-8b"),
        ("llama-8b-20261120", "llama-8b"),
        ("-20261120", "-20261120"),
    ],
)
def test_a_job_is_named_without_its_attempt_unless_nothing_else_is_left(
    name: str, job: str
) -> None:
    assert job_of(name) == job


def test_the_newest_are_those_that_were_set_last():
    newest = Newest[str, int](2)
    newest["a"], newest["b"] = 1, 2
    assert dict(newest) == {"a": 1, "b": 2}
    newest["a"] = 3
    newest["c"] = 4
    assert dict(newest) == {"a": 3, "c": 4}
