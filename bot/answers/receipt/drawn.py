"""Find the amounts that stand on a card alone: in its words, and in no number of its data."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from bot.cards.card import Card, Facts, Table, Text
from bot.cards.words import about
from bot.model.codec import encode
from bot.model.money import usd
from bot.model.receipt import DRAWN, Figure, numbers

_USD = re.compile(r"\$\d+(?:,\d{3})*(?:\.\d+)?")
_DIGITS = (None, 0, 2, 4)
_LABELS = ("cluster", "team", "state", "instance_type", "service")
"""What rows are summed by on cards."""


def drawn_alone(card: Card, made: Sequence[tuple[str, Decimal]] = ()) -> tuple[Figure, ...]:
    """Return the amounts of USD on a card that no number of its data is written as.

    Sums of its rows, and all others.

    `made` are the amounts that formulas of the card make, with how each is made.
    """
    known = {written for _, amount in numbers(card.data) for written in _all_written(amount)}
    said = [encode(block) for block in card.blocks if isinstance(block, Text | Facts | Table)]
    drawn = dict.fromkeys(
        amount for words in _words([card.title, *said]) for amount in _USD.findall(words)
    )
    every = [*_sums(card.data), *made]
    stated = {
        written: (amount, words) for words, amount in every for written in _all_written(amount)
    }
    alone = [(each, *stated.get(each, (_read(each), DRAWN))) for each in drawn if each not in known]
    return tuple(Figure(f"/card/{each}", amount, formula) for each, amount, formula in alone)


def _all_written(amount: Decimal) -> list[str]:
    """Return the ways in which a card may write an amount."""
    if not amount.is_finite():
        return []
    return [about(abs(amount)), *(usd(abs(amount), digits) for digits in _DIGITS)]


def _read(drawn: str) -> Decimal:
    return Decimal(drawn.replace(",", "").removeprefix("$"))


def _sums(data: Mapping[str, Any]) -> Iterator[tuple[str, Decimal]]:
    """Yield the sums of a list's numbers over the rows of one label, with how each is made."""
    for name, rows in data.items():
        if not isinstance(rows, list | tuple) or not all(isinstance(row, Mapping) for row in rows):
            continue
        for label in _LABELS:
            yield from (
                (
                    f"sum of {name} {number} where {label} is {value or 'none'}",
                    sum(amounts, Decimal(0)),
                )
                for (value, number), amounts in _grouped(rows, label).items()
                if len(amounts) > 1 and any(amounts)
            )


def _grouped(
    rows: Sequence[Mapping[str, Any]], label: str
) -> Mapping[tuple[str, str], list[Decimal]]:
    groups: dict[tuple[str, str], list[Decimal]] = defaultdict(list)
    for row in rows:
        named = [
            part[label]
            for part in (row, row.get("labels"), row.get("key"))
            if isinstance(part, Mapping) and label in part
        ]
        for path, amount in numbers(row) if named else []:
            if "usd" in (number := " ".join(map(str, path))):
                groups[str(named[0]), number].append(amount)
    return groups


def _words(drawn: Any) -> Iterator[str]:
    match drawn:
        case str():
            yield drawn
        case Mapping():
            yield from (word for inner in drawn.values() for word in _words(inner))
        case list():
            yield from (word for inner in drawn for word in _words(inner))
