from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from bot.costs.nowcast import month_end
from bot.model.window import Window

NOV = Window(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))


def days(first, amounts):
    return {first + timedelta(days=n): Decimal(amount) for n, amount in enumerate(amounts)}


def at(day):
    return datetime(2026, 11, day, tzinfo=UTC)


def test_a_flat_bill_has_no_range():
    found = month_end(days(date(2026, 11, 1), [100] * 20), NOV, at(19))
    assert (found.spent, found.forecast, found.low, found.high) == (1800, 3000, 3000, 3000)


def test_days_after_the_settled_ones_do_not_count():
    daily = days(date(2026, 11, 1), [100] * 18 + [7, 1])
    assert month_end(daily, NOV, at(19)) == month_end(days(date(2026, 11, 1), [100] * 18), NOV, at(19))


def test_days_of_the_month_before_help_at_its_start():
    found = month_end(days(date(2026, 10, 25), [10] * 10), NOV, at(2))
    assert (found.spent, found.forecast, found.days_used) == (10, 300, 8)


def test_fewer_than_three_days_say_nothing():
    assert month_end(days(date(2026, 11, 1), [100, 100]), NOV, at(3)) is None


def test_an_unsteady_bill_has_a_wide_range_that_never_undoes_what_is_spent():
    found = month_end(days(date(2026, 11, 1), [0, 0, 0, 1000]), NOV, at(5))
    assert found.spent == 1000 == found.low
    assert found.low < found.forecast < found.high


@pytest.mark.parametrize("scale", [1, 10, 10**5])
def test_the_forecast_scales_with_the_bill(scale):
    one = month_end(days(date(2026, 11, 1), [3, 4, 5, 6]), NOV, at(5))
    many = month_end(days(date(2026, 11, 1), [3 * scale, 4 * scale, 5 * scale, 6 * scale]), NOV, at(5))
    assert many.forecast == one.forecast * scale
    assert abs(many.high - one.high * scale) < Decimal("1e-15") * scale


def test_the_range_holds_four_in_five():
    """Against a steady random bill, the 80 % range holds the true end about as often as it says."""
    import numpy as np

    rng = np.random.default_rng(7)
    held = 0
    for _ in range(1000):
        month = [Decimal(f"{x:.2f}") for x in rng.normal(1000, 120, 30)]
        found = month_end(days(date(2026, 11, 1), month), NOV, at(15))
        held += found.low <= sum(month) <= found.high
    assert 0.76 < held / 1000 < 0.84


@pytest.mark.parametrize(
    ("amounts", "forecast", "reach"),
    [
        ([10, 20, 30], 600, "309.9"),  # s = 10, t = 1.886 at 2 degrees of freedom, 27 days left: sqrt(27 + 27²/3) = 16.43
        ([10, 20, 30, 40], 750, "295.3"),  # s = 12.91, t = 1.638 at 3, 26 days left: sqrt(26 + 26²/4) = 13.96
    ],
)
def test_the_range_is_students_of_few_days(amounts, forecast, reach):
    found = month_end(days(date(2026, 11, 1), amounts), NOV, at(1 + len(amounts)))
    assert (found.spent, found.forecast) == (sum(amounts), forecast)
    assert found.high - found.forecast == pytest.approx(Decimal(reach), abs=Decimal("0.1"))
    assert found.forecast - found.low == pytest.approx(Decimal(reach), abs=Decimal("0.1"))


def test_credits_that_make_days_negative_may_undo_what_is_spent():
    found = month_end(days(date(2026, 11, 1), [100, -80, 90, -60]), NOV, at(5))
    assert found.forecast - found.low == pytest.approx(found.high - found.forecast, abs=Decimal("0.01"))
    assert found.low < found.spent
