"""Answer a person in their conversation: a message in its thread, a press in place while Teams waits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from botbuilder.schema import Activity

from adapters.teams.conversations import Conversation, Conversations, conversation_of
from adapters.teams.parser import request_of, thread_of
from adapters.teams.render import ANSWER_BYTES, render
from adapters.teams.sender import CARD, MESSAGE, Sender, message_activity, typing_activity
from bot.cards.card import Card, Text, plain
from bot.cards.share import without_share
from bot.errors import TrnbotError
from bot.model.request import Request
from bot.ports import ChatPorts

log = logging.getLogger("trnbot.teams")


class Responder:
    """Carry a line to the bot and its card back; answers go on after the turn of their activity."""

    def __init__(self, ports: ChatPorts, conversations: Conversations, sender: Sender, timeout_s: float) -> None:
        self._ports = ports
        self._conversations = conversations
        self._sender = sender
        self._timeout_s = timeout_s
        self._tasks: set[asyncio.Task[Any]] = set()

    async def drain(self) -> None:
        """Wait for every answer under way."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def send_later(self, here: Conversation, card: Card) -> None:
        """Send a card to a conversation after the turn."""
        self._start(self._send(here, "", card))

    def respond_later(self, activity: Activity, line: str) -> None:
        """Answer a message's line in its thread after the turn."""
        self._start(self._respond(conversation_of(activity), activity, line))

    async def respond_in_place(self, activity: Activity, line: str, *, keeps: bool) -> dict[str, Any]:
        """Return the answer to a press: a card in its place, or a word when that card stands or the answer takes long."""
        here = conversation_of(activity)
        answer = self._start(self._ask(here, request_of(activity, line, here, self._ports.clock)))
        done, _ = await asyncio.wait({answer}, timeout=self._timeout_s)
        thread = thread_of(activity)
        if not done:
            self._start(self._send_when_done(here, thread, answer))
            return invoke_answer(MESSAGE, "Working on it; the answer follows here.")
        card = answer.result()
        if card.public and line.startswith("share "):
            return invoke_answer(MESSAGE, await self._share(here, thread, card))
        if not keeps:
            return invoke_answer(CARD, await asyncio.to_thread(render, card, self._ports.draw, budget=ANSWER_BYTES))
        if not _is_short(card):
            self._start(self._send(here, thread, card))
        return invoke_answer(MESSAGE, _in_words(card))

    async def _respond(self, here: Conversation, activity: Activity, line: str) -> None:
        """Show that the bot is at it, then answer."""
        thread = thread_of(activity) or (activity.id or "")
        request = request_of(activity, line, here, self._ports.clock)
        card, _ = await asyncio.gather(self._ask(here, request), self._show_typing(here, thread))
        await self._send(here, thread, card)

    async def _share(self, here: Conversation, thread: str, card: Card) -> str:
        """Show a private answer to everyone of the place, or of the one channel; return the outcome in words."""
        channels = await self._conversations.channels() if here.personal else [replace(here, targeted=False)]
        if len(channels) != 1:
            return "Mention the bot in the channel that should see this, and type the line there."
        await self._send(channels[0], "" if here.personal else thread, without_share(card))
        return "Shared."

    async def _send_when_done(self, here: Conversation, thread: str, answer: asyncio.Task[Card]) -> None:
        await self._send(here, thread, await answer)

    async def _ask(self, here: Conversation, request: Request) -> Card:
        card = await self._ports.answer(request)
        return card if here.private else without_share(card)

    async def _show_typing(self, here: Conversation, thread: str) -> None:
        """Show the sign of typing, where it is shown: not in channels. An answer does not fail for want of it."""
        if here.threaded:
            return
        try:
            await self._sender.send(here, typing_activity(), thread)
        except TrnbotError as error:
            log.info("teams: no sign of typing: %s", error)

    async def _send(self, here: Conversation, thread: str, card: Card) -> None:
        await self._sender.send(here, await message_activity(card, self._ports.draw, budget=ANSWER_BYTES), thread)

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Do the work after the turn; its failure is logged once."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            if isinstance(error, TrnbotError):
                log.warning("teams: an answer was not sent: %s", error)
            else:
                log.error("teams: an answer failed", exc_info=error)


def invoke_answer(kind: str, value: Any) -> dict[str, Any]:
    """Return the body that answers an `Action.Execute`."""
    return {"statusCode": 200, "type": kind, "value": value}


def _is_short(card: Card) -> bool:
    """Return whether a card says everything in its words, so that one line can carry it."""
    return all(isinstance(block, Text) for block in card.blocks) and len(card.blocks) <= 1


def _in_words(card: Card) -> str:
    """Return a card's first words, for the line that Teams shows beside a pressed button."""
    words = [card.title, *(plain(block.spans) for block in card.blocks if isinstance(block, Text))][:2]
    return "\n".join(words)[:1000]
