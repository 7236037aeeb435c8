"""Answer a person in their conversation: a message in its thread, a press in place while Teams waits."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any, Protocol

from adapters.chat.cards import short
from adapters.chat.config import TeamsSdk
from adapters.chat.teams.activity import (
    CARD,
    MESSAGE,
    Activity,
    Delivery,
    Handle,
    InvokeAnswer,
    Message,
)
from adapters.chat.teams.belonging import Belongings, Recent
from adapters.chat.teams.client import ConnectorClient
from adapters.chat.teams.conversations import Conversation, conversation_of
from adapters.chat.teams.elements import OURS, bare
from adapters.chat.teams.parser import request_of, thread_of
from adapters.chat.teams.render import ANSWER_BYTES, render
from bot.cards.card import Card, Text, Tone, plain
from bot.cards.lines import without_share
from bot.errors import NotAllowed, TrnbotError, Unavailable
from bot.model.request import Belonging, Effect, Request
from bot.ports import WORKING, WORKING_AFTER_S, ChatPorts, Draw


class Sdk(Protocol):
    """Carry activities that are verified and read, and messages that are drawn.

    In by turns, out by the client.
    """

    async def take(self, activity: Activity, handle: Handle) -> InvokeAnswer | None:
        """Let an activity be handled in a turn, and return the answer to a press."""
        ...

    async def send(self, delivery: Delivery) -> str:
        """Send or replace a message and return its id.

        Raise `Gone` or `Unavailable` as the client does.
        """
        ...


def open_sdk(name: TeamsSdk, client: ConnectorClient, app_id: str) -> Sdk:
    """Return an SDK by its name; it alone is imported."""
    if name is TeamsSdk.AGENTS:
        from adapters.chat.teams.sdk_agents import Agents

        return Agents(client, app_id)
    from adapters.chat.teams.sdk_botbuilder import Botbuilder

    return Botbuilder(client, app_id)


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


log = logging.getLogger("trnbot.teams")


_HOUR_S = 3600.0
_MINUTE_S = 60.0
_ASK_ELSEWHERE = "People of other organizations read here; ask the bot in a personal chat."
_ELSEWHERE = Card(
    "The answer is in your chat with the bot, as people of other organizations read here."
)


@dataclass(frozen=True)
class _Reply:
    """Hold the answer to a press; `here` is None for who does not belong."""

    card: Card
    here: Conversation | None
    request: Request | None = None

    @property
    def shared(self) -> bool:
        """Return whether people of other organizations read where the button stands."""
        return self.request is not None and self.request.belonging.shared


class Responder:
    """Carry a line to the bot and its card back; answers go on after the turn of their activity."""

    def __init__(
        self, ports: ChatPorts, belongings: Belongings, sender: Sender, timeout_s: float
    ) -> None:
        self._ports = ports
        self._belongings, self._conversations = belongings, belongings.conversations
        self._sender = sender
        self._timeout_s = timeout_s
        self._tasks: set[asyncio.Task[Any]] = set()
        self._refused = Recent[bool](time.monotonic)

    async def drain(self) -> None:
        """Wait for every answer under way."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def send_later(self, here: Conversation, card: Card) -> None:
        """Send a card to a conversation after the turn."""
        self._start(self._send(here, "", card))

    def respond_later(self, activity: Activity, line: str) -> None:
        """Answer a message's line in its thread after the turn."""
        self._start(self._respond(activity, line))

    def refuse_later(self, activity: Activity, why: TrnbotError) -> None:
        """Tell a person after the turn why they are not answered."""
        self._start(self._refuse(activity, why))

    async def respond_in_place(
        self, activity: Activity, line: str, *, keeps: bool
    ) -> dict[str, Any]:
        """Return the answer to a press.

        A card in its place, or a word when that card stands or the answer takes long.

        Teams shows either to the person who pressed alone.
        """
        answer, thread = self._start(self._answer(activity, line)), thread_of(activity)
        done, _ = await asyncio.wait({answer}, timeout=self._timeout_s)
        if not done:
            self._start(self._send_when_done(answer, thread))
            return invoke_answer(MESSAGE, "Working on it; the answer follows.")
        reply = answer.result()
        if reply.here is None:
            return invoke_answer(MESSAGE, reply.card.title)
        if reply.card.public and not reply.shared and self._ports.effect(line) is Effect.SHARES:
            return invoke_answer(MESSAGE, await self._share(reply.here, thread, reply.card))
        if not keeps:
            return invoke_answer(
                CARD,
                await asyncio.to_thread(render, reply.card, self._ports.draw, budget=ANSWER_BYTES),
            )
        if not _is_short(reply.card):
            self._start(self._send_when_done(answer, thread))
        return invoke_answer(MESSAGE, _in_words(reply.card))

    async def _respond(self, activity: Activity, line: str) -> None:
        """Show that the bot is at it, then answer.

        Where everybody belongs in the thread, otherwise in the person's own chat.
        """
        thread = thread_of(activity) or activity.id
        try:
            here, belonging = await self._belongings.admit(activity)
            where = await self._place(here, belonging, activity.sender.id)
        except (NotAllowed, Unavailable) as error:
            await self._refuse(activity, error)
            return
        request = request_of(activity, line, here, belonging, self._ports.clock())
        answer = asyncio.ensure_future(self._ask(here, request))
        there = thread if where is here else ""
        await self._show_typing(where, thread)
        done, _ = await asyncio.wait({answer}, timeout=WORKING_AFTER_S)
        note = "" if done else await self._say_working(where, there)
        await self._send(where, there, await answer, note)
        if where is not here:
            await self._send(here, thread, _ELSEWHERE)

    async def _answer(self, activity: Activity, line: str) -> _Reply:
        """Return the answer to a press, in one sentence for who does not belong."""
        try:
            here, belonging = await self._belongings.admit(activity)
        except (NotAllowed, Unavailable) as error:
            return _Reply(Card(str(error)), None)
        request = request_of(activity, line, here, belonging, self._ports.clock())
        return _Reply(await self._ask(here, request), here, request)

    async def _place(self, here: Conversation, belonging: Belonging, user: str) -> Conversation:
        """Return where an answer may be said: not where people of other organizations read.

        Raise `Unavailable`.
        """
        if not belonging.shared or here.private:
            return here
        try:
            return await self._conversations.reach(user)
        except Unavailable:
            raise Unavailable(_ASK_ELSEWHERE) from None

    async def _refuse(self, activity: Activity, why: TrnbotError) -> None:
        """Say one sentence without data, at most once an hour to a person who does not belong."""
        person = f"{type(why).__name__} {activity.sender.id}"
        if self._refused.get(person, _HOUR_S if isinstance(why, NotAllowed) else _MINUTE_S):
            return
        self._refused.put(person, value=True)
        await self._send(
            conversation_of(activity), thread_of(activity) or activity.id, Card(str(why), Tone.INFO)
        )

    async def _share(self, here: Conversation, thread: str, card: Card) -> str:
        """Show a private answer to everyone of the place, or of the one channel.

        Return the outcome in words.
        """
        channels = (
            await self._conversations.channels()
            if here.personal
            else [replace(here, targeted=False)]
        )
        if len(channels) != 1:
            return "Mention the bot in the channel that should see this, and type the line there."
        if channels[0].shared:
            return "People of other organizations read the bot's channel; nothing was shared there."
        await self._send(channels[0], "" if here.personal else thread, without_share(card))
        return "Shared."

    async def _send_when_done(self, answer: asyncio.Task[_Reply], thread: str) -> None:
        reply = await answer
        if reply.here is None or reply.request is None:
            return
        user = reply.request.user.id.removeprefix(OURS)
        where = await self._place(reply.here, reply.request.belonging, user)
        await self._send(where, thread if where is reply.here else "", reply.card)

    async def _ask(self, here: Conversation, request: Request) -> Card:
        card = await self._ports.answer(request)
        return card if here.private and not request.belonging.shared else without_share(card)

    async def _show_typing(self, here: Conversation, thread: str) -> None:
        """Show the sign of typing, where it is shown: not in channels.

        An answer does not fail for want of it.
        """
        if here.threaded:
            return
        try:
            await self._sender.send(here, TYPING, thread)
        except TrnbotError as error:
            log.info("teams: no sign of typing: %s", error)

    async def _say_working(self, where: Conversation, thread: str) -> str:
        """Say that it is worked on, and return the message that the answer replaces.

        "" where it was not said.
        """
        try:
            return await self._sender.send(
                where, await message_of(WORKING, self._ports.draw, budget=ANSWER_BYTES), thread
            )
        except TrnbotError as error:
            log.info("teams: not said that it is worked on: %s", error)
            return ""

    async def _send(self, here: Conversation, thread: str, card: Card, instead: str = "") -> None:
        """Send a card, in the place of a message where there is one to replace."""
        message = await message_of(card, self._ports.draw, budget=ANSWER_BYTES)
        if instead:
            try:
                await self._sender.replace(here, instead, message, thread)
            except TrnbotError as error:
                log.info("teams: the answer is a message of its own: %s", error)
            else:
                return
        await self._sender.send(here, message, thread)

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
    words = [card.title, *(plain(block.spans) for block in card.blocks if isinstance(block, Text))][
        :2
    ]
    return "\n".join(words)[:1000]
