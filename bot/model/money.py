"""Round and write money, and counts with their nouns: the one place that does either."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TypeVar

CENT = Decimal("0.01")
MILLIONTH = Decimal("0.000001")
"""Of USD: an hour of a GiB costs hardly more, and parts of an amount still add up."""
Key = TypeVar("Key")
Part = TypeVar("Part")


def cents(amount: Decimal) -> Decimal:
    """Round to the cent, half to even."""
    return amount.quantize(CENT, ROUND_HALF_EVEN)


def cents_of(amount: float) -> Decimal:
    """Return a number as money, rounded to the cent."""
    return cents(Decimal(repr(float(amount))))


def summed(amounts: Iterable[tuple[Key, Decimal]]) -> dict[Key, Decimal]:
    """Return the sum of the amounts of each key, in the order in which keys come."""
    sums: defaultdict[Key, Decimal] = defaultdict(Decimal)
    for key, amount in amounts:
        sums[key] += amount
    return dict(sums)


def summed_apart(
    amounts: Iterable[tuple[Key, Part, Decimal]],
) -> dict[Key, dict[Part, Decimal]]:
    """Return the sum of the amounts of each part of each key, in the order in which they come."""
    sums: defaultdict[Key, defaultdict[Part, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for key, part, amount in amounts:
        sums[key][part] += amount
    return {key: dict(parts) for key, parts in sums.items()}


def usd(amount: Decimal | float, digits: int | None = None) -> str:
    """Write USD with its sign before the dollar: `$1,083`, `$21.50`, `-$3.20`.

    Cents below $100 unless `digits` says.
    """
    exact = amount if isinstance(amount, Decimal) else Decimal(float(amount))
    # Rounded as scripts are told it: $2.499995 and its $2.50 are the same words.
    if digits is None or digits <= 2:
        exact = cents(exact)
    places = digits if digits is not None else (2 if abs(exact) < 100 else 0)
    rounded = abs(exact).quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN)
    sign = "-" if exact < 0 and rounded else ""
    return f"{sign}${rounded:,.{places}f}"


def counted(n: int, noun: str, plural: str = "") -> str:
    """Write how many: `1 node`, `1,024 nodes`."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"
