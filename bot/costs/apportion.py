"""Divide an amount so that the parts are the whole, to the last digit."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_FLOOR, Decimal

QUANTUM = Decimal("0.000001")
"""USD: an hour of a core costs less than a dollar, and its parts shall still add up over a month."""


def apportion(total: Decimal, weights: Sequence[float]) -> list[Decimal]:
    """Return parts in the ratio of `weights` (signs as they are, their sum not 0) by the largest remainder.

    Each part is whole quanta, but for what of the total lies below one: that is the largest part's. No weights, or a sum of 0:
    the last part has all.
    """
    whole = sum(weights)
    if not weights or not whole:
        return [*[Decimal(0)] * (len(weights) - 1), total]
    exact = [total * Decimal(weight / whole) for weight in weights]
    parts = [one.quantize(QUANTUM, ROUND_FLOOR) for one in exact]
    left = total - sum(parts, Decimal(0))
    order = sorted(range(len(parts)), key=lambda n: (parts[n] - exact[n], n))
    for n in order[: int(left / QUANTUM)]:
        parts[n] += QUANTUM
        left -= QUANTUM
    parts[max(range(len(parts)), key=lambda n: abs(exact[n]))] += left
    return parts
