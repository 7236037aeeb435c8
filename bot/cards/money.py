"""Write money as people read it."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal


def usd(amount: Decimal, digits: int | None = None) -> str:
    """Write USD with its sign before the dollar: `$1,083`, `$21.50`, `-$3.20`; cents below $100 unless `digits` says."""
    places = digits if digits is not None else (2 if abs(amount) < 100 else 0)
    rounded = abs(amount).quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN)
    sign = "-" if amount < 0 and rounded else ""
    return f"{sign}${rounded:,.{places}f}"
