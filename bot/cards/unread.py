"""Say beside a sum what it does not hold."""

from __future__ import annotations

from collections.abc import Sequence

from bot.cards.card import Block, quiet

_TOLD = 2


def unread(problems: Sequence[str]) -> list[Block]:
    """Return the first sentences about the export: a file that broke off must not make a smaller bill without a word."""
    if not problems:
        return []
    more = len(problems) - _TOLD
    rest = f" And {more:,} more: 'about' names them." if more > 0 else ""
    return [quiet("About the export: ", " ".join(problems[:_TOLD]), rest)]
