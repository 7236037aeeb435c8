"""Draw messages from cards, and send or replace them in conversations."""

from __future__ import annotations

import asyncio

from adapters.teams.activity import Delivery, Message
from adapters.teams.conversations import Conversation
from adapters.teams.markup import bare, short
from adapters.teams.render import render
from adapters.teams.sdk import Sdk
from bot.cards.card import Card
from bot.ports import Draw

TYPING = Message()
"""The sign of typing: that an answer is on its way."""


class Sender:
    """Address messages, and let the SDK send them."""

    def __init__(self, sdk: Sdk) -> None:
        self._sdk = sdk

    async def send(self, where: Conversation, message: Message, thread: str = "") -> str:
        """Send a message, in a thread when one is named and the place has threads; return its id."""
        under = thread if where.threaded else ""
        there = Delivery(
            message, where.reference, where.thread(under), reply_to=under, targeted=where.targeted
        )
        return await self._sdk.send(there)

    async def replace(
        self, where: Conversation, posted: str, message: Message, thread: str = ""
    ) -> None:
        """Put a message in the place of one that was posted, there or in a thread.

        Raise `Gone` when that is no longer there.
        """
        there = where.thread(thread if where.threaded else "")
        await self._sdk.send(
            Delivery(message, where.reference, there, replaces=posted, targeted=where.targeted)
        )


async def message_of(card: Card, draw: Draw, *, budget: int, stands: bool = False) -> Message:
    """Return a card as a message; drawing runs in a thread, for a picture takes its time."""
    content = await asyncio.to_thread(render, card, draw, budget=budget, stands=stands)
    return Message(short(bare(card.title), 200), content)
