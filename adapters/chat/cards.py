"""Say in words what every chat says of a card."""

from __future__ import annotations

from typing import Any

from bot.cards.card import Card, Mention, Text, plain

Json = dict[str, Any]


def short(text: str, most: int) -> str:
    """Return at most `most` characters, the last of them an ellipsis where something was cut."""
    return text if len(text) <= most else text[: most - 1] + "…"


def first_words(card: Card) -> str:
    """Return a card's first paragraph as bare text, "" where it has none."""
    return next((plain(block.spans) for block in card.blocks if isinstance(block, Text)), "")


def unnamed(card: Card) -> list[Mention]:
    """Return the people that a card pings whom no text of it names, each once."""
    texts = [block.spans for block in card.blocks if isinstance(block, Text)]
    people = {span.user for spans in texts for span in spans if isinstance(span, Mention)}
    return [mention for mention in dict.fromkeys(card.mentions) if mention.user not in people]
