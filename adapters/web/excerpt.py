"""Show as many messages of a channel as a page may weigh, the newest of them last.

Those before are a link away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from adapters.web.html import PageRenderer
from adapters.web.messages import PageMessage
from adapters.web.strip import retold

HEAVIEST = 80_000
"""Characters of the messages of a page, of which a browser lays out each before it paints the first."""
MOST = 60


@dataclass(frozen=True)
class Excerpt:
    """Hold drawn messages, the oldest first.

    `earlier` is the id of the one before them, "" where there is none.
    """

    slots: tuple[Markup, ...]
    earlier: str
    newest: bool
    """Whether no later message was left out."""


def excerpt(
    messages: Iterator[PageMessage], draw: Callable[[PageMessage], str], *, newest: bool
) -> Excerpt:
    """Return the first of messages, which come newest first.

    One at least, and no more than a page holds.
    """
    slots: list[Markup] = []
    weight = 0
    for message in messages:
        drawn = draw(message)
        weight += len(drawn)
        if slots and (weight > HEAVIEST or len(slots) == MOST):
            return Excerpt(tuple(reversed(slots)), message.id, newest)
        slots.append(Markup(drawn))  # noqa: S704  # the template escapes
    return Excerpt(tuple(reversed(slots)), "", newest)


class SlotDrawer:
    """Draw messages, each with the dollars that its alert wastes now.

    A drawing is kept until the message or these change.
    """

    def __init__(self, pages: PageRenderer) -> None:
        self._pages = pages
        self._kept: dict[str, tuple[PageMessage, Any, str]] = {}

    def draw(self, message: PageMessage, wastes: Mapping[str, Mapping[str, Any]]) -> str:
        """Return the message as HTML."""
        waste = wastes.get(str(message.card.data.get("id")))
        kept = self._kept.pop(message.id, None)
        if kept is None or kept[0] is not message or kept[1] != waste:
            told = replace(message, card=retold(message.card, wastes))
            kept = message, waste, self._pages.page("slot.html", message=told)
        self._kept[message.id] = kept
        if len(self._kept) > 2 * MOST:
            del self._kept[next(iter(self._kept))]
        return kept[2]
