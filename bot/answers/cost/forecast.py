"""Word where a month ends: by our own forecast, and by the provider's beside it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from bot.answers.cost.chart import short
from bot.cards.money import amount_in
from bot.cards.words import about, day
from bot.costs.nowcast import Expected, Nowcast
from bot.model.counts import counted
from bot.model.projection import COVERAGE
from bot.model.spend import Tally


def forecast_words(nowcast: Nowcast | None, theirs: Expected | None, tally: Tally) -> str:
    """Say where the month ends, how sure that is, and what it rests on; "" where nobody forecasts."""
    ours = month_end_words(nowcast) if nowcast else ""
    return "".join(
        f" {words}" for words in (ours[:1].upper() + ours[1:], _theirs(theirs, tally)) if words
    )


def month_end_words(nowcast: Nowcast) -> str:
    """Say where the month ends by our own forecast.

    About, at least and at most, and what it rests on.
    """
    low, high = (_about(amount, nowcast.currency) for amount in (nowcast.low, nowcast.high))
    between = f"{low} to {high} in {COVERAGE * 10:.0f} of 10 months, " if low != high else ""
    return f"about {_about(nowcast.forecast, nowcast.currency)} by month end ({between}{basis_words(nowcast)})."


def range_words(nowcast: Nowcast, theirs: Expected | None, tally: Tally) -> str:
    """Say how sure a forecast is whose amounts stand above, what it rests on, and the provider's own."""
    sure = (
        f"The range holds in {COVERAGE * 10:.0f} of 10 months, "
        if nowcast.low != nowcast.high
        else "Known "
    )
    return f"{sure}{basis_words(nowcast)}. {_theirs(theirs, tally)}".rstrip()


def basis_words(nowcast: Nowcast) -> str:
    """Say what a forecast rests on."""
    fees = (
        f", {amount_in(nowcast.fees, nowcast.currency)} of fees counted once"
        if nowcast.fees
        else ""
    )
    since = (
        f", and since {short(nowcast.running_since.isoformat())} from the nodes that ran"
        if nowcast.running_since
        else ""
    )
    days = counted(nowcast.days_used, "settled day")
    return f"from {days}{fees}{since}"


def _theirs(expected: Expected | None, tally: Tally) -> str:
    if expected is None:
        return ""
    low, mean, high = (
        _about(amount, tally.currency) for amount in (expected.low, expected.mean, expected.high)
    )
    return f"AWS itself expects about {mean} ({low} to {high}, asked {day(expected.asof)})."


def _about(amount: Decimal, currency: str) -> str:
    return about(amount) if currency == "USD" else amount_in(amount, currency)


def forecast_data(nowcast: Nowcast | None, theirs: Expected | None) -> dict[str, Any]:
    """Return the forecasts of the month's end that were made."""
    ours = (
        {
            "forecast": {
                "amortised_usd": nowcast.forecast,
                "low_usd": nowcast.low,
                "high_usd": nowcast.high,
                "fees_usd": nowcast.fees,
                "settled": nowcast.settled,
                "settled_days": nowcast.days_used,
                "running_since": nowcast.running_since,
            }
        }
        if nowcast
        else {}
    )
    expected = (
        {
            "expected": {
                "amortised_usd": theirs.mean,
                "low_usd": theirs.low,
                "high_usd": theirs.high,
                "asof": theirs.asof,
            }
        }
        if theirs
        else {}
    )
    return ours | expected
