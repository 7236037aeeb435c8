"""Shares that nouns of spend work out of themselves."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from bot.model.spend import Commitment, CommitmentPlan

DAY = date(2026, 11, 20)


@pytest.mark.parametrize(("committed", "unused", "used"), [(10, 4, "0.6"), (10, 0, "1"), (0, 0, "1")])  # fmt: skip
def test_the_used_share_of_a_commitment_is_1_where_nothing_is_committed(
    committed: int, unused: int, used: str
) -> None:
    day = Commitment(CommitmentPlan.SAVINGS_PLANS, DAY, Decimal(committed), Decimal(unused))
    assert day.utilization == Decimal(used)
