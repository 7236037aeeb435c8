"""Compare, rank and share the rows of a tally; never a partial day against a full one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from bot.model.spend import Money, Spend, Tally
from bot.model.window import Window

SETTLE = timedelta(days=2)
"""AWS rewrites the newest days of a bill: figures younger than this behind its end are not compared."""
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Change:
    """State the same measure over two spans of one length."""

    part: Window
    before: Window
    now: Decimal
    then: Decimal

    @property
    def ratio(self) -> Decimal | None:
        """Return the growth (0.12 = 12 % more), None when there was nothing before."""
        return (self.now - self.then) / self.then if self.then > 0 else None


def settled_until(billed_through: datetime) -> datetime:
    """Return the last midnight before which the bill has come to rest."""
    return (billed_through - SETTLE).replace(hour=0, minute=0, second=0, microsecond=0)


def settled_by(tally: Tally, at: datetime) -> datetime | None:
    """Return the midnight before which a tally has come to rest at `at`, None where nothing is billed.

    Of a bill as it stood, what came late is in it already.
    """
    if tally.billed_through is None:
        return None
    if tally.seen:
        return tally.seen.replace(hour=0, minute=0, second=0, microsecond=0)
    return settled_until(min(tally.billed_through, at))


def comparable(window: Window, billed_through: datetime | None) -> tuple[Window, Window] | None:
    """Return the settled part of the window and as long a part of the one before, None when less than a day is settled."""
    if billed_through is None:
        return None
    previous = window.previous()
    end = window.end if window.end <= billed_through - SETTLE else min(window.end, settled_until(billed_through))
    length = min(end - window.start, previous.length)
    if length < min(_DAY, window.length) or not length:
        return None
    return Window(window.start, window.start + length), Window(previous.start, previous.start + length)


def top(rows: Sequence[Spend], most: int) -> tuple[tuple[Spend, ...], Money, int]:
    """Return the first `most` rows, the sum of the others and how many those are; one row over is never folded alone."""
    if len(rows) <= most + 1:
        return tuple(rows), Money(), 0
    rest = sum((row.money for row in rows[most:]), Money())
    return tuple(rows[:most]), rest, len(rows) - most


def share(part: Decimal, whole: Decimal) -> Decimal | None:
    """Return part / whole, None where the whole is not positive."""
    return part / whole if whole > 0 else None


def untagged(tally: Tally, dimension: str) -> Money:
    """Return the money of the rows that have no value in this dimension."""
    return sum((row.money for row in tally.rows if row.key.get(dimension) == ""), Money())
