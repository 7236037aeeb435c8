"""Write money as people read it."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from bot.costs.nowcast import Expected


def usd(amount: Decimal, digits: int | None = None) -> str:
    """Write USD with its sign before the dollar: `$1,083`, `$21.50`, `-$3.20`; cents below $100 unless `digits` says."""
    places = digits if digits is not None else (2 if abs(amount) < 100 else 0)
    rounded = abs(amount).quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN)
    sign = "-" if amount < 0 and rounded else ""
    return f"{sign}${rounded:,.{places}f}"


def expected_data(theirs: Expected | None) -> dict[str, Any]:
    """Return the provider's forecast of the month's end, where it made one."""
    if theirs is None:
        return {}
    return {"expected": {"amortised_usd": theirs.mean, "low_usd": theirs.low, "high_usd": theirs.high, "asof": theirs.asof}}
