"""State the receipt of an answer.

Its questions to the ports, and the formula of every number on the card.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from bot.model.money import MILLIONTH
from bot.model.price import Price
from bot.model.spend import Filter, Money
from bot.model.window import Window

Path = tuple[str | int, ...]
"""Where a number stands in the data of an answer."""


class AskedPort(StrEnum):
    """Name the ports whose answers a receipt notes."""

    BILL = "bill"
    RATES = "account rates"
    PRICES = "price lists"
    SPOT = "spot prices"
    METRICS = "metrics and inventory"
    ALERTS = "alerts"
    OUTLOOK = "provider's outlook"
    FACTS = "dated facts"


@dataclass(frozen=True)
class TallyTerms:
    """Hold a question to the bill, so that it can be asked again."""

    window: Window
    by: tuple[str, ...]
    where: tuple[Filter, ...] = ()

    def __str__(self) -> str:
        """Read as `2026-11-13..2026-11-19 by team, service, region=us-east-1`."""
        by = f" by {', '.join(self.by)}" if self.by else ""
        return f"{self.window}{by}{''.join(f', {pair}' for pair in self.where)}"


@dataclass(frozen=True)
class Piece:
    """State a day's (or, in a long window, a month's) part of a sum of the bill."""

    key: str
    money: Money


@dataclass(frozen=True)
class PortQuestion:
    """State one question of an answer, and its outcome."""

    port: AskedPort
    asked: str
    rows: int
    digest: str
    """Of all that came back, by which a later answer is told to be the same."""
    total: Money | None = None
    through: datetime | None = None
    """How far the data reached: the bill's newest hour, the time of a reading."""
    terms: TallyTerms | None = None
    pieces: tuple[Piece, ...] = ()
    prices: tuple[Price, ...] = ()
    """The price rows that came back; of the account's own rates, those of types."""

    @property
    def key(self) -> tuple[AskedPort, str]:
        """Return the key that sets this question apart from the others of an answer."""
        return self.port, self.asked


@dataclass(frozen=True)
class Figure:
    """State one number of an answer, and how it came about."""

    path: str
    """Such as `/rows/3/amortised_usd`."""
    amount: Decimal
    formula: str


@dataclass(frozen=True)
class AnswerReceipt:
    """State how every number of one answer came about."""

    line: str
    at: datetime
    """The time of the question, which is "now" when it is asked again."""
    source: str
    questions: tuple[PortQuestion, ...]
    figures: tuple[Figure, ...]


class Checked(StrEnum):
    """Name how a number was checked."""

    RECOMPUTED = "recomputed"
    """A sum of the bill that was added up from its days and its resources, or of the answer's rows."""
    LOOKED_UP = "looked up again"
    """It stands in a price row that was asked for again."""
    AGAIN = "answered again"
    """The same code answered once more.

    It shows that the data are the same, not that the arithmetic is right.
    """


@dataclass(frozen=True)
class Difference:
    """State one thing that is not as the receipt has it."""

    what: str
    was: str
    now: str
    why: str = ""


@dataclass(frozen=True)
class Verification:
    """State how each number of a receipt was checked, and the differences."""

    checked: Mapping[str, Checked]
    """By the path of a figure; those that differ are left out."""
    differences: tuple[Difference, ...]
    sums: int = 0
    """Sums of the bill that were added up from their pieces."""
    notes: tuple[str, ...] = ()
    """Sums that were not added up, and why; another source."""


def numbers(data: Any, path: Path = ()) -> list[tuple[Path, Decimal]]:
    """Return every number of an answer's data with its path, in the order of the data."""
    match data:
        case bool() | None | str():
            return []
        case int() | float() | Decimal():
            return [(path, exact(data))]
        case Mapping():
            items = ((str(name), inner) for name, inner in data.items())
            return [pair for name, inner in items for pair in numbers(inner, (*path, name))]
        case Sequence():
            return [pair for i, inner in enumerate(data) for pair in numbers(inner, (*path, i))]
    return []


def exact(number: int | float | Decimal) -> Decimal:
    """Return a number as a decimal: of a float, the shortest that reads the same."""
    return (
        number
        if isinstance(number, Decimal)
        else Decimal(repr(float(number)) if isinstance(number, float) else int(number))
    )


def pointer(path: Path) -> str:
    """Write a path as `/rows/3/amortised_usd`."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


_HALF_A_CENT = Decimal("0.005001")


def agree(one: Decimal, other: Decimal) -> bool:
    """Return whether an amount is the other one to the cent.

    Below a dollar, where it is not itself of cents, to six digits.

    Rounded or not they lie half a cent apart at most: which way a half was rounded is no
    difference.
    """
    if not (one.is_finite() and other.is_finite()):
        return str(one) == str(other)
    cents = max(abs(one), abs(other)) >= 1 or one.as_tuple().exponent == -2
    return abs(one - other) <= (_HALF_A_CENT if cents else MILLIONTH)
