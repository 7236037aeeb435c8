"""Listen: messages, presses, installations; each becomes a line, each line a card."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from botbuilder.core import ActivityHandler, InvokeResponse, TurnContext
from botbuilder.schema import Activity

from adapters.teams.auth import REFUSAL
from adapters.teams.conversations import Conversation, Conversations, conversation_of
from adapters.teams.forms import pressed_line, stands
from adapters.teams.parser import action_of, parse_line, request_of, thread_of
from adapters.teams.render import ANSWER_BYTES, render
from adapters.teams.sender import (
    CARD,
    MESSAGE,
    Sender,
    greeting,
    invoke_answer,
    is_short,
    message_activity,
    typing_activity,
    unshared,
)
from bot.cards.card import Card, Text, plain
from bot.errors import TrnbotError
from bot.model.request import Request
from bot.ports import Answer, Clock, CommandHint, Draw
from bot.ports.seen import Deduplicator

log = logging.getLogger("trnbot.teams")

PATIENCE_S = 8.0
"""How long a press is answered in place; Teams gives up after about 10 s."""


class Listener(ActivityHandler):  # type: ignore[misc]  # botbuilder ships no types
    """Answer people; a message is acknowledged at once and answered after, a press in place while Teams waits."""

    def __init__(
        self,
        answer: Answer,
        clock: Clock,
        draw: Draw,
        conversations: Conversations,
        voice: Sender,
        hints: tuple[CommandHint, ...],
        seen: Deduplicator,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._answer = answer
        self._clock = clock
        self._draw = draw
        self._conversations = conversations
        self._voice = voice
        self._hints = hints
        self._patience_s = patience_s
        self._seen = seen
        self._greeted: set[str] = set()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def drain(self) -> None:
        """Wait for every answer under way."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def on_turn(self, turn_context: TurnContext) -> None:
        """Refresh the conversation's reference, then go by the activity's type."""
        activity = turn_context.activity
        if activity.type in ("message", "invoke", "conversationUpdate", "installationUpdate"):
            await self._refresh(activity)
            await self._conversations.meet(activity)
        await super().on_turn(turn_context)

    async def on_message_activity(self, turn_context: TurnContext) -> None:
        """Answer a message in its thread."""
        activity = turn_context.activity
        if not await self._again(activity):
            self._later(self._reply(conversation_of(activity), activity, parse_line(activity)))

    async def on_invoke_activity(self, turn_context: TurnContext) -> InvokeResponse:
        """Answer a press in place (botbuilder's own path fails under `CloudAdapter`)."""
        activity = turn_context.activity
        data = action_of(activity.value)
        line = pressed_line(data)
        if activity.name != "adaptiveCard/action":
            return InvokeResponse(status=HTTPStatus.NOT_IMPLEMENTED)
        if not line:
            return _answered(invoke_answer(MESSAGE, "This button is from an older message; type 'help' instead."))
        if await self._again(activity):
            return _answered(invoke_answer(MESSAGE, "This press was answered already."))
        return _answered(await self._press(activity, line, keeps=stands(data)))

    def refuse(self, activity: Activity) -> None:
        """Say to a person of a tenant that is not served that it is not; nothing of them is kept."""
        self._later(self._send(conversation_of(activity), "", REFUSAL))

    async def on_installation_update_add(self, turn_context: TurnContext) -> None:
        """Say hello where the bot was added."""
        await self._greet(turn_context.activity)

    async def on_installation_update_remove(self, turn_context: TurnContext) -> None:
        """Forget a place that the bot was removed from."""
        await self._leave(turn_context.activity)

    async def on_conversation_update_activity(self, turn_context: TurnContext) -> None:
        """Greet when the bot itself was added, forget when it was removed."""
        activity = turn_context.activity
        own = activity.recipient.id
        if any(member.id == own for member in activity.members_added or []):
            await self._greet(activity)
        if any(member.id == own for member in activity.members_removed or []):
            await self._leave(activity)

    async def _again(self, activity: Activity) -> bool:
        """Tell whether this very message or press came before: sent again by Teams, or by who recorded it."""
        return await self._seen.again(f"{conversation_of(activity).id}|{activity.id}" if activity.id else "")

    async def _leave(self, activity: Activity) -> None:
        gone = conversation_of(activity).id
        self._greeted.discard(gone)
        await self._conversations.forget(gone)

    async def _refresh(self, activity: Activity) -> None:
        here = conversation_of(activity)
        known = await self._conversations.known(here.id)
        if known is not None:
            kind = here.kind if activity.conversation.conversation_type else known.kind
            here = replace(here, kind=kind, greeted=known.greeted)
        await self._conversations.remember(here)

    async def _greet(self, activity: Activity) -> None:
        here = conversation_of(activity)
        known = await self._conversations.known(here.id)
        if here.id in self._greeted or (known is not None and known.greeted):
            return
        self._greeted.add(here.id)  # installation and conversation update arrive together
        await self._conversations.remember(replace(known or here, greeted=True))
        hello = greeting(self._hints, here.id)
        self._later(self._send(here, "", hello))

    async def _reply(self, here: Conversation, activity: Activity, line: str) -> None:
        """Show that the bot is at it, then answer."""
        thread = thread_of(activity) or (activity.id or "")
        card, _ = await asyncio.gather(self._ask(here, request_of(activity, line, here, self._clock)), self._typing(here, thread))
        await self._send(here, thread, card)

    async def _press(self, activity: Activity, line: str, *, keeps: bool) -> dict[str, Any]:
        """Return the answer to a press: a card in its place, or a word when that card stands or the answer takes long."""
        here = conversation_of(activity)
        request = request_of(activity, line, here, self._clock)
        asked = self._later(self._ask(here, request))
        done, _ = await asyncio.wait({asked}, timeout=self._patience_s)
        thread = thread_of(activity)
        if not done:
            self._later(self._follow(here, thread, asked))
            return invoke_answer(MESSAGE, "Working on it; the answer follows here.")
        card = asked.result()
        if card.public and line.startswith("share "):
            return invoke_answer(MESSAGE, await self._share(here, thread, card))
        if not keeps:
            return invoke_answer(CARD, await asyncio.to_thread(render, card, self._draw, budget=ANSWER_BYTES))
        if not is_short(card):
            self._later(self._send(here, thread, card))
        return invoke_answer(MESSAGE, _in_words(card))

    async def _share(self, here: Conversation, thread: str, card: Card) -> str:
        """Show a private answer to everyone of the place, or of the one channel; return what was done."""
        channels = await self._conversations.channels() if here.personal else [replace(here, targeted=False)]
        if len(channels) != 1:
            return "Mention the bot in the channel that should see this, and type the line there."
        await self._send(channels[0], "" if here.personal else thread, unshared(card))
        return "Shared."

    async def _follow(self, here: Conversation, thread: str, asked: asyncio.Task[Card]) -> None:
        await self._send(here, thread, await asked)

    async def _ask(self, here: Conversation, request: Request) -> Card:
        card = await self._answer(request)
        return card if here.private else unshared(card)

    async def _typing(self, here: Conversation, thread: str) -> None:
        """Show the sign of typing, where it is shown: not in channels. An answer does not fail for want of it."""
        if here.threaded:
            return
        try:
            await self._voice.say(here, typing_activity(), thread)
        except TrnbotError as error:
            log.info("teams: no sign of typing: %s", error)

    async def _send(self, here: Conversation, thread: str, card: Card) -> None:
        await self._voice.say(here, await message_activity(card, self._draw, budget=ANSWER_BYTES), thread)

    def _later(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
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


def _answered(body: dict[str, Any]) -> InvokeResponse:
    return InvokeResponse(status=HTTPStatus.OK, body=body)


def _in_words(card: Card) -> str:
    """Return a card's first words, for the line that Teams shows beside a pressed button."""
    words = [card.title, *(plain(block.spans) for block in card.blocks if isinstance(block, Text))][:2]
    return "\n".join(words)[:1000]
