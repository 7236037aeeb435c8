"""Divide an amount so that the parts are the whole, to the last digit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

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
    # Whole quanta in binary: up to $9 billion they are exact integers, and a remainder is only compared.
    exact = [float(total) / float(QUANTUM) * (weight / whole) for weight in weights]
    quanta = [math.floor(x) for x in exact]
    left = total - QUANTUM * sum(quanta)
    spare = max(0, int(left / QUANTUM))
    for n in sorted(range(len(quanta)), key=lambda n: (quanta[n] - exact[n], n))[:spare]:
        quanta[n] += 1
    parts = [QUANTUM * n for n in quanta]
    largest = max(range(len(parts)), key=lambda n: abs(exact[n]))
    parts[largest] += total - QUANTUM * sum(quanta)
    return parts
