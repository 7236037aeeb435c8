"""What the bot says of its own month is the pace of its ticks, whenever it was started."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from adapters.aws.api.outcomes import CallCounts, UsageMeter


class Clock:
    """Tell the time that a test sets."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


@pytest.mark.parametrize("hour", [1, 15, 23])
def test_a_month_is_told_at_the_pace_of_steady_ticks_not_of_the_hours_since_midnight(hour):
    clock = Clock(datetime(2026, 11, 20, hour, tzinfo=UTC))
    meter = UsageMeter(clock)
    for tick in range(10):
        meter.count(
            CallCounts(usd=Decimal("0.50") if tick == 0 else Decimal("0.01"))
        )  # a start reads history
        meter.save()
        clock.now += timedelta(minutes=5)
    assert meter.month_usd() == Decimal("0.12") * 730


def test_yesterday_counts_where_the_bot_ran_as_it_began():
    clock = Clock(datetime(2026, 11, 18, 20, tzinfo=UTC))
    meter = UsageMeter(clock)
    for usd in ("0.40", "2.40", "0.01"):
        meter.count(CallCounts(usd=Decimal(usd)))
        clock.now += timedelta(days=1)
    clock.now -= timedelta(days=1)
    assert meter.month_usd() == Decimal("2.40") * 730 / 24


def test_a_first_evening_is_no_whole_day():
    clock = Clock(datetime(2026, 11, 18, 23, tzinfo=UTC))
    meter = UsageMeter(clock)
    meter.count(CallCounts(usd=Decimal("0.10")))
    clock.now += timedelta(hours=3)
    for _ in range(8):
        meter.count(CallCounts(usd=Decimal("0.01")))
        meter.save()
        clock.now += timedelta(minutes=5)
    assert meter.month_usd() == Decimal("0.12") * 730
