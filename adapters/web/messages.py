"""Keep the console's messages in the database, and show them: a channel's newest, and an alert's story."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from markupsafe import Markup

from adapters.web.html import PageRenderer
from adapters.web.live import retold
from bot.cards.card import Card
from bot.model.codec import decode, encode
from bot.ports import Clock, DocumentStore

log = logging.getLogger("trnbot.web")

MESSAGES = "web.messages"
KEPT = 500
"""Messages that the database keeps of all channels."""
LATELY = 120
"""Messages that are kept as they were read, as every page reads them."""


@dataclass(frozen=True)
class Reply:
    """Hold one card in a message's thread."""

    card: Card
    at: datetime
    key: str = ""


@dataclass(frozen=True)
class PageMessage:
    """Hold one message of a channel, as it reads now."""

    id: str
    channel: str
    key: str
    card: Card
    at: datetime
    order: int = 0
    """Nanoseconds of the machine's clock when it was posted.

    A replay's clock may stand still, or start again.
    """
    edited: datetime | None = None
    replies: tuple[Reply, ...] = ()


class Messages:
    """Read and write messages; the database may block, so each call leaves the event loop."""

    def __init__(self, documents: DocumentStore, clock: Clock) -> None:
        self._documents = documents
        self._clock = clock
        self._writing = asyncio.Lock()
        self._written = 0
        self._lately: dict[str, tuple[Mapping[str, Any], PageMessage | None]] = {}

    async def post(self, channel: str, card: Card, key: str) -> PageMessage:
        """Write a new message and return it."""
        at = self._clock()
        made = PageMessage(
            f"m{at:%Y%m%d%H%M%S}-{secrets.token_hex(4)}",
            channel,
            key,
            _shown(card),
            at,
            time.time_ns(),
        )
        async with self._writing:
            await self._put(made)
            self._written += 1
            if self._written % 100 == 1:
                await asyncio.to_thread(self._prune)
        return made

    async def edit(self, message: str, card: Card, key: str) -> PageMessage | None:
        """Replace a message's card and return it, or None where it is gone."""
        async with self._writing:
            before = await self.get(message)
            if before is None:
                return None
            made = replace(before, card=_shown(card), key=key, edited=self._clock())
            await self._put(made)
        return made

    async def reply(self, message: str, card: Card, key: str) -> PageMessage | None:
        """Add a card to a message's thread, once a key, and return the message, or None where it is gone."""
        async with self._writing:
            before = await self.get(message)
            if before is None:
                return None
            if key and any(one.key == key for one in before.replies):
                return before
            made = replace(
                before, replies=(*before.replies, Reply(_shown(card), self._clock(), key))
            )
            await self._put(made)
        return made

    async def get(self, message: str) -> PageMessage | None:
        """Return one message, or None."""
        document = await asyncio.to_thread(self._documents.get, MESSAGES, message)
        return None if document is None else _read(document)

    async def find(self, channel: str, key: str, thread: str = "") -> str:
        """Return the id of the message of this key, or the key of the reply in `thread`.

        "" when there is none.
        """
        if thread:
            message = await self.get(thread)
            return key if message and any(one.key == key for one in message.replies) else ""
        for document in await self._newest(KEPT):
            if document.get("key") == key and document.get("channel") == channel:
                return str(document["id"])
        return ""

    async def back_from(self, channel: str, until: str = "") -> tuple[bool, Iterator[PageMessage]]:
        """Return whether these are a channel's newest messages, and yield them newest first, down from the one of this id.

        Each is read only when it is asked for; an id that is gone stands for the newest.
        """
        documents = (await self._of(channel))[::-1]
        begin = next((n for n, document in enumerate(documents) if document["id"] == until), 0)
        return begin == 0, (
            message
            for document in documents[begin:]
            if (message := self._known(document)) is not None
        )

    async def about(self, channel: str, alert: str) -> list[PageMessage]:
        """Return the messages of a channel about an alert, the oldest first."""
        messages = (
            self._known(document)
            for document in await self._of(channel)
            if _about(document) == alert
        )
        return [message for message in messages if message is not None]

    def _known(self, document: Mapping[str, Any]) -> PageMessage | None:
        """Return a document's message, the one that was read before where it is the same.

        None where it cannot be read.
        """
        name = str(document["id"])
        known = self._lately.pop(name, None)
        if known is None or known[0] != document:
            known = document, _read(document)
        self._lately[name] = known
        if len(self._lately) > LATELY:
            del self._lately[next(iter(self._lately))]
        return known[1]

    async def _of(self, channel: str) -> list[Mapping[str, Any]]:
        """Return the documents of a channel's messages, the oldest first."""
        documents = [
            document for document in await self._newest(KEPT) if document.get("channel") == channel
        ]
        return sorted(documents, key=lambda document: int(document.get("order", 0)))

    async def _newest(self, most: int) -> list[Mapping[str, Any]]:
        rows = await asyncio.to_thread(self._documents.newest, MESSAGES, most)
        return [document for _, document in rows]

    async def _put(self, message: PageMessage) -> None:
        await asyncio.to_thread(self._documents.put, MESSAGES, message.id, encode(message))

    def _prune(self) -> None:
        for key, _ in list(self._documents.newest(MESSAGES, KEPT * 2))[KEPT:]:
            self._documents.drop(MESSAGES, key)


def _shown(card: Card) -> Card:
    """Leave out the typed numbers, as a page shows words, but an alert's dollars.

    They are told again as they are later.
    """
    waste = card.data.get("waste_usd")
    kept = (
        {"id": card.data.get("id"), "waste_usd": {name: str(usd) for name, usd in waste.items()}}
        if isinstance(waste, Mapping)
        else {}
    )
    return replace(card, data=kept)


def _read(document: Mapping[str, Any]) -> PageMessage | None:
    """Return the message, or None where this version cannot read it: it must not hide the others."""
    try:
        return decode(PageMessage, document)
    except ValueError as error:
        log.warning("a stored message cannot be read: %s", error)
        return None


def _about(document: Mapping[str, Any]) -> str:
    """Return the id of the alert that a stored message is about, "" for none."""
    data = document.get("card", {}).get("data") or {}
    return str(data.get("id") or "")


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


@dataclass(frozen=True)
class Moment:
    """Hold one line of an alert's story; `message` is the id of the message that said it."""

    at: datetime
    kind: str
    words: str
    by: str = ""
    message: str = ""


def story(timeline: Card, messages: Sequence[PageMessage]) -> list[Moment]:
    """Return the story of an alert, the oldest first.

    This console's messages about it in place of the log's words.
    """
    told = [Moment(**event) for event in timeline.data.get("events", ())]
    here = list(_here(messages))
    told = [
        moment
        for moment in told
        if moment.kind != "said" or not here or " to web:" not in moment.words
    ]
    return sorted([*told, *here], key=lambda moment: moment.at)


def _here(messages: Sequence[PageMessage]) -> Iterator[Moment]:
    for message in messages:
        yield Moment(message.at, "said", "Sent to this console", "trnbot", message.id)
        for reply in message.replies:
            yield Moment(reply.at, "said", reply.card.title, "trnbot", message.id)
