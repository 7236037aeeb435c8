"""Write money as people read it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from bot.cards.card import Text, quiet
from bot.costs.nowcast import Expected
from bot.model.outlook import Commitment, Plan
from bot.model.spend import Money, Tally


def usd(amount: Decimal, digits: int | None = None) -> str:
    """Write USD with its sign before the dollar: `$1,083`, `$21.50`, `-$3.20`; cents below $100 unless `digits` says."""
    places = digits if digits is not None else (2 if abs(amount) < 100 else 0)
    rounded = abs(amount).quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN)
    sign = "-" if amount < 0 and rounded else ""
    return f"{sign}${rounded:,.{places}f}"


def money_data(money: Money) -> dict[str, Decimal]:
    """Return the six amounts under the names scripts rely on."""
    return {
        "gross_usd": money.gross,
        "discounts_usd": money.discounts,
        "credits_usd": money.credits,
        "tax_usd": money.tax,
        "net_usd": money.net,
        "amortised_usd": money.amortised,
    }


def expected_data(theirs: Expected | None) -> dict[str, Any]:
    """Return the provider's forecast of the month's end, where it made one."""
    if theirs is None:
        return {}
    return {"expected": {"amortised_usd": theirs.mean, "low_usd": theirs.low, "high_usd": theirs.high, "asof": theirs.asof}}


def use_texts(commitments: Sequence[Commitment]) -> list[Text]:
    """Say how each kind of commitment was used on the newest day that the provider tells of."""
    found = []
    for plan in Plan:
        days = [one for one in commitments if one.plan is plan and one.committed]
        if days:
            last = max(days, key=lambda one: one.day)
            covers = f"; they cover {last.coverage:.0%} of what they could" if last.coverage is not None else ""
            words = f"{plan[0].upper()}{plan[1:]}: {last.utilization:.0%} of {usd(last.committed)} used on {last.day}, by AWS"
            found.append(quiet(f"{words}; {usd(last.unused)} unused{covers}.".replace("%", " %")))
    return found


def amount_of(amount: Decimal, tally: Tally) -> str:
    """Write an amount in the currency of its bill."""
    return usd(amount) if tally.currency == "USD" else f"{amount:,.2f} {tally.currency}"
