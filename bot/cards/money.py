"""Write money as people read it."""

from __future__ import annotations

from decimal import Decimal

from bot.model.money import usd
from bot.model.spend import Money, Tally


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
    return amount_in(amount, tally.currency)


def amount_in(amount: Decimal, currency: str) -> str:
    """Write an amount in a currency."""
    return usd(amount) if currency == "USD" else f"{amount:,.2f} {currency}"
