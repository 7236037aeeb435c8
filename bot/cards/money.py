"""Write money as people read it."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal

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


def amount_of(amount: Decimal, tally: Tally) -> str:
    """Write an amount in the currency of its bill."""
    return usd(amount) if tally.currency == "USD" else f"{amount:,.2f} {tally.currency}"
