"""Find the amounts that stand on a card alone: in its words, and in no number of its data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from bot.cards.card import Card, Facts, Table, Text
from bot.cards.words import about
from bot.model.codec import encode
from bot.model.money import usd
from bot.model.receipt import Figure, numbers

_USD = re.compile(r"\$\d[\d,]*(?:\.\d+)?")
_FORMULA = "stands on the card alone, rounded for reading"
_WRITTEN: tuple[Callable[[Decimal], str], ...] = (usd, lambda amount: usd(amount, 2), lambda amount: usd(amount, 0), about)


def drawn_alone(card: Card) -> tuple[Figure, ...]:
    """Return the amounts of USD on a card that no number of its data is written as."""
    known = {write(abs(amount)) for _, amount in numbers(card.data) for write in _WRITTEN if amount.is_finite()}
    said = [encode(block) for block in card.blocks if isinstance(block, Text | Facts | Table)]
    drawn = dict.fromkeys(amount for words in _words([card.title, *said]) for amount in _USD.findall(words))
    return tuple(Figure(f"/card/{each}", _read(each), _FORMULA) for each in drawn if each not in known)


def _read(drawn: str) -> Decimal:
    return Decimal(drawn.replace(",", "").removeprefix("$"))


def _words(drawn: Any) -> Iterator[str]:
    match drawn:
        case str():
            yield drawn
        case Mapping():
            yield from (word for inner in drawn.values() for word in _words(inner))
        case list():
            yield from (word for inner in drawn for word in _words(inner))
