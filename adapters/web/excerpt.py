"""Show as many messages of a channel as a page may weigh, the newest of them last; those before are a link away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from markupsafe import Markup

from adapters.web.messages import PageMessage

HEAVIEST = 120_000
"""Characters of the messages of a page: with its frame, style and scripts it stays below 300 kB."""
MOST = 60


@dataclass(frozen=True)
class Excerpt:
    """Hold drawn messages, the oldest first; `earlier` is the id of the one before them, "" where there is none."""

    slots: tuple[Markup, ...]
    earlier: str
    newest: bool
    """Whether no later message was left out."""


def excerpt(messages: Iterator[PageMessage], draw: Callable[[PageMessage], str], *, newest: bool) -> Excerpt:
    """Return the first of messages, which come newest first: one at least, and no more than a page holds."""
    slots: list[Markup] = []
    weight = 0
    for message in messages:
        drawn = draw(message)
        weight += len(drawn)
        if slots and (weight > HEAVIEST or len(slots) == MOST):
            return Excerpt(tuple(reversed(slots)), message.id, newest)
        slots.append(Markup(drawn))  # noqa: S704  # the template escapes
    return Excerpt(tuple(reversed(slots)), "", newest)
