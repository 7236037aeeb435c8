"""Keep the console's messages in the database; show a channel's newest, and an alert's story."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from markupsafe import Markup

from adapters.web.html import PageRenderer
from bot.cards.card import Card, Tone
from bot.model.codec import decode, encode
from bot.model.limits import Newest
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
        self._documents, self._clock = documents, clock
        self._writing, self._written = asyncio.Lock(), 0
        self._lately = Newest[str, tuple[Mapping[str, Any], PageMessage | None]](LATELY)

    async def post(self, channel: str, card: Card, key: str) -> PageMessage:
        """Write a new message and return it."""
        instant = self._clock()
        name = f"m{instant:%Y%m%d%H%M%S}-{secrets.token_hex(4)}"
        message = PageMessage(name, channel, key, _shown(card), instant, time.time_ns())

        def prune() -> None:
            for name, _ in list(self._documents.newest(MESSAGES, KEPT * 2))[KEPT:]:
                self._documents.drop(MESSAGES, name)

        async with self._writing:
            await self._put(message)
            self._written += 1
            if self._written % 100 == 1:
                await asyncio.to_thread(prune)
        return message

    async def edit(self, message: str, card: Card, key: str) -> PageMessage | None:
        """Replace a message's card and return it, or None where it is gone."""
        async with self._writing:
            before = await self.get(message)
            if before is None:
                return None
            after = replace(before, card=_shown(card), key=key, edited=self._clock())
            await self._put(after)
        return after

    async def reply(self, message: str, card: Card, key: str) -> PageMessage | None:
        """Add a card to a message's thread, once a key; return the message, None where it is gone."""
        async with self._writing:
            before = await self.get(message)
            if before is None:
                return None
            if key and any(reply.key == key for reply in before.replies):
                return before
            reply = Reply(_shown(card), self._clock(), key)
            after = replace(before, replies=(*before.replies, reply))
            await self._put(after)
        return after

    async def get(self, message: str) -> PageMessage | None:
        """Return one message, or None."""
        document = await asyncio.to_thread(self._documents.get, MESSAGES, message)
        return None if document is None else _read(document)

    async def posted(self, channel: str, thread: str = "") -> Mapping[str, str]:
        """Return the ids of a channel's messages, or the keys of the replies in `thread`, by key."""
        if thread:
            message = await self.get(thread)
            return {reply.key: reply.key for reply in message.replies} if message else {}
        return {str(x.get("key")): str(x["id"]) for x in reversed(await self._newest(channel))}

    async def back_from(self, channel: str, until: str = "") -> tuple[bool, Iterator[PageMessage]]:
        """Return whether these are a channel's newest messages, and yield them newest first.

        They begin at the one of this id; an id that is gone stands for the newest. Each is read
        only when it is asked for.
        """
        documents = (await self._of(channel))[::-1]
        begin = next((n for n, document in enumerate(documents) if document["id"] == until), 0)
        return begin == 0, (
            message for message in map(self._read_once, documents[begin:]) if message is not None
        )

    async def about(self, channel: str, alert: str) -> list[PageMessage]:
        """Return the messages of a channel about an alert, the oldest first."""
        messages = [
            self._read_once(document)
            for document in await self._of(channel)
            if str((document.get("card", {}).get("data") or {}).get("id")) == alert
        ]
        return [message for message in messages if message is not None]

    def _read_once(self, document: Mapping[str, Any]) -> PageMessage | None:
        """Return a document's message, the one that was read before where it is the same.

        None where it cannot be read.
        """
        # Each reading that is used is the newest again.
        name = str(document["id"])
        entry = self._lately.get(name)
        if entry is None or entry[0] != document:
            entry = document, _read(document)
        self._lately[name] = entry
        return entry[1]

    async def _of(self, channel: str) -> list[Mapping[str, Any]]:
        """Return the documents of a channel's messages, the oldest first."""
        return sorted(
            await self._newest(channel), key=lambda document: int(document.get("order", 0))
        )

    async def _newest(self, channel: str) -> list[Mapping[str, Any]]:
        rows = await asyncio.to_thread(self._documents.newest, MESSAGES, KEPT)
        return [document for _, document in rows if document.get("channel") == channel]

    async def _put(self, message: PageMessage) -> None:
        await asyncio.to_thread(self._documents.put, MESSAGES, message.id, encode(message))


def _shown(card: Card) -> Card:
    """Leave out the typed numbers, as a page shows words, but the alerts that the card is of."""
    return replace(
        card, data={name: card.data[name] for name in ("id", "alerts") if name in card.data}
    )


def _read(document: Mapping[str, Any]) -> PageMessage | None:
    """Return the message, None where this version cannot read it: it must not hide the others."""
    try:
        return decode(PageMessage, document)
    except ValueError as error:
        log.warning("a stored message cannot be read: %s", error)
        return None


HEAVIEST = 80_000
"""Characters of a page's messages: a browser lays out all of them before it paints the first."""
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


async def excerpt(
    messages: Iterator[PageMessage],
    draw: Callable[[PageMessage], Awaitable[str]],
    *,
    newest: bool,
) -> Excerpt:
    """Return the first of messages, which come newest first.

    One at least, and no more than a page holds.
    """
    slots: list[Markup] = []
    weight = 0
    for message in messages:
        drawn = await draw(message)
        weight += len(drawn)
        if slots and (weight > HEAVIEST or len(slots) == MOST):
            return Excerpt(tuple(reversed(slots)), message.id, newest)
        slots.append(Markup(drawn))  # noqa: S704  # the template escapes
    return Excerpt(tuple(reversed(slots)), "", newest)


class SlotDrawer:
    """Draw messages, each with the card of its alerts as they stand now.

    A drawing is kept until the message or these change.
    """

    def __init__(
        self, pages: PageRenderer, redraw: Callable[[PageMessage], Awaitable[Card]]
    ) -> None:
        self._pages, self._redraw = pages, redraw
        self._drawn = Newest[str, tuple[PageMessage, Any, str]](2 * MOST)

    async def draw(self, message: PageMessage, firing: Mapping[str, Mapping[str, Any]]) -> str:
        """Return the message as HTML; `firing` are the records of the alerts that fire."""
        data = message.card.data
        # An answer that somebody shared lists whole records, and stands as it was asked.
        listed = data.get("alerts", (data.get("id"),))
        alerts = [firing.get(name) for name in listed if isinstance(name, str)]
        entry = self._drawn.get(message.id)
        if entry is None or entry[0] is not message or entry[1] != alerts:
            current = message
            if any(alerts):
                # What cannot be drawn anew stands as it was sent, with its own instant.
                card = await self._redraw(message)
                current = message if card.tone is Tone.ERROR else replace(message, card=card)
            entry = message, alerts, self._pages.page("slot.html", message=current)
        self._drawn[message.id] = entry
        return entry[2]


@dataclass(frozen=True)
class Moment:
    """Hold one line of an alert's story; `message` is the id of the message that said it."""

    at: datetime
    kind: str
    words: str
    by: str = ""
    message: str = ""


def moments_of(timeline: Card, messages: Sequence[PageMessage]) -> list[Moment]:
    """Return the story of an alert, the oldest first.

    This console's messages about it in place of the log's words.
    """
    sent = [
        Moment(instant, "sent", words, "trnbot", message.id)
        for message in messages
        for instant, words in (
            (message.at, "Sent to this console"),
            *((reply.at, reply.card.title) for reply in message.replies),
        )
    ]

    # The log words a message of this console less closely than the message itself does.
    logged = [Moment(**event) for event in timeline.data.get("events", ())]
    if sent:
        logged = [x for x in logged if x.kind != "sent" or " to web:" not in x.words]
    return sorted([*logged, *sent], key=lambda moment: moment.at)
