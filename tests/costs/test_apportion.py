"""Parts are the whole, to the last digit."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from bot.costs.allocation import QUANTUM, apportion

AMOUNTS = st.decimals("-1e7", "1e7", places=15)
WEIGHTS = st.lists(st.floats(0, 1e6, allow_subnormal=False), min_size=1, max_size=40)


@given(AMOUNTS, WEIGHTS)
def test_parts_are_the_whole(total, weights):
    parts = apportion(total, weights)
    assert sum(parts, Decimal(0)) == total
    assert len(parts) == len(weights)


@given(st.decimals("0", "1e7", places=2), WEIGHTS)
def test_no_part_is_further_than_a_quantum_from_its_share(total, weights):
    whole = sum(weights)
    if whole > 0:
        exact = [total * Decimal(weight / whole) for weight in weights]
        assert all(
            abs(part - want) <= 2 * QUANTUM
            for part, want in zip(apportion(total, weights), exact, strict=True)
        )


def test_the_largest_remainder_has_the_odd_quantum():
    assert apportion(Decimal("0.000010"), [1, 1, 1]) == [
        Decimal("0.000004"),
        Decimal("0.000003"),
        Decimal("0.000003"),
    ]
    assert apportion(Decimal(7), [0, 0]) == [0, 7]
