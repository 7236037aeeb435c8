"""Take what people do in Teams, and answer it there: messages in threads, presses in place."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Protocol

from adapters.chat.config import TeamsSdk
from adapters.chat.manifest import by_worth
from adapters.chat.teams.activity import (
    CARD,
    MESSAGE,
    Activity,
    Delivery,
    Handle,
    InvokeAnswer,
    Message,
    action_of,
    parse_line,
    thread_of,
)
from adapters.chat.teams.belonging import Belongings
from adapters.chat.teams.client import ConnectorClient
from adapters.chat.teams.conversations import Conversation, conversation_of
from adapters.chat.teams.elements import OURS, bare, pressed_line, stands
from adapters.chat.teams.render import ANSWER_BYTES, render
from adapters.chat.work import Refusals, Tasks, answered
from bot.cards.card import Button, Buttons, Card, Code, Text, Tone, plain, quiet, text
from bot.cards.lines import without_share
from bot.cards.words import short
from bot.errors import NotAllowed, TrnbotError, Unavailable
from bot.model.request import NOT_SERVED, Belonging, Effect, Request, User
from bot.ports import WORKING, ChatPorts, CommandHint, Deduplicator, Draw


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


async def send(
    sdk: Sdk, where: Conversation, message: Message, thread: str = "", replaces: str = ""
) -> str:
    """Address a message, have the SDK send it, and return its id.

    In a thread when one is named and the place has threads, and in the place of the message that it
    `replaces`. Raise `Gone` when that is no longer there.
    """
    return await sdk.send(
        Delivery(
            message,
            where.reference,
            where.thread(thread),
            reply_to=thread if where.threaded and not replaces else "",
            replaces=replaces,
            targeted=where.targeted,
        )
    )


async def message_of(card: Card, draw: Draw, *, budget: int, stands: bool = False) -> Message:
    """Return a card as a message; drawing runs in a thread, for a picture takes its time."""
    content = await asyncio.to_thread(render, card, draw, budget=budget, stands=stands)
    return Message(short(bare(card.brief or card.title), 200), content)


log = logging.getLogger("trnbot.teams")


_ASK_ELSEWHERE = "People of other organizations read here; ask the bot in a personal chat."
_ELSEWHERE = Card(
    "The answer is in your chat with the bot, as people of other organizations read here."
)


@dataclass(frozen=True)
class _Reply:
    """Hold the answer to a press; `place` is None for who does not belong."""

    card: Card
    place: Conversation | None
    request: Request | None = None


class Responder:
    """Carry a line to the bot and its card back; answers go on after the turn of their activity."""

    def __init__(
        self, ports: ChatPorts, belongings: Belongings, sdk: Sdk, timeout_s: float
    ) -> None:
        self._ports = ports
        self._belongings, self._conversations = belongings, belongings.conversations
        self._sdk, self._timeout_s = sdk, timeout_s
        self.tasks = Tasks(_report)
        """Answers that go on after their turn."""
        self._refusals = Refusals()

    async def respond_in_place(
        self, activity: Activity, line: str, *, keeps: bool
    ) -> dict[str, Any]:
        """Return the answer to a press.

        A card in its place, or a word when that card stands or the answer takes long.

        Teams shows either to the person who pressed alone.
        """
        answer, thread = self.tasks.spawn(self._answer(activity, line)), thread_of(activity)
        done, _ = await asyncio.wait({answer}, timeout=self._timeout_s)
        if not done:
            self.tasks.spawn(self._send_when_done(answer, thread))
            return invoke_answer(MESSAGE, "Working on it; the answer follows.")

        reply = answer.result()
        card = reply.card
        if reply.place is None or reply.request is None:
            return invoke_answer(MESSAGE, card.title)
        shares = card.public and self._ports.effect(line) is Effect.SHARES
        if shares and not reply.request.belonging.shared:
            return invoke_answer(MESSAGE, await self._share(reply.place, thread, card))
        if not keeps:
            return invoke_answer(
                CARD, await asyncio.to_thread(render, card, self._ports.draw, budget=ANSWER_BYTES)
            )

        # One line carries the first words; a card that says more follows.
        is_short = all(isinstance(block, Text) for block in card.blocks) and len(card.blocks) <= 1
        if not is_short:
            self.tasks.spawn(self._send_when_done(answer, thread))
        paragraphs = [plain(block.spans) for block in card.each(Text)]
        return invoke_answer(MESSAGE, "\n".join([card.title, *paragraphs[:1]])[:1000])

    async def respond(self, activity: Activity, line: str) -> None:
        """Show that the bot is at it, then answer.

        Where everybody belongs in the thread, otherwise in the person's own chat.
        """
        thread = thread_of(activity) or activity.id
        try:
            place, belonging = await self._belongings.admit(activity)
            where = await self._safe_place(place, belonging, activity.sender.id)
        except (NotAllowed, Unavailable) as error:
            await self.refuse(activity, error)
            return

        request = self._request(activity, line, place, belonging)
        answer = asyncio.ensure_future(self._ports.answer(request))
        under = thread if where is place else ""
        if not where.threaded:
            # The sign of typing is not shown in channels; an answer does not fail for want of it.
            try:
                await send(self._sdk, where, TYPING, thread)
            except TrnbotError as error:
                log.info("teams: no sign of typing: %s", error)

        async def say_working() -> str:
            message = await message_of(WORKING, self._ports.draw, budget=ANSWER_BYTES)
            return await send(self._sdk, where, message, under)

        card, note = await answered(answer, say_working, self._ports.working_after_s, log)
        await self.send(where, under, _shareable(card, place, belonging), note)
        if where is not place:
            await self.send(place, thread, _ELSEWHERE)

    async def _answer(self, activity: Activity, line: str) -> _Reply:
        """Return the answer to a press, in one sentence for who does not belong."""
        try:
            place, belonging = await self._belongings.admit(activity)
        except (NotAllowed, Unavailable) as error:
            return _Reply(Card(str(error)), None)
        request = self._request(activity, line, place, belonging)
        # Only who pressed sees it, and may show it to all.
        return _Reply(await self._ports.answer(request), place, request)

    def _request(
        self, activity: Activity, line: str, place: Conversation, belonging: Belonging
    ) -> Request:
        sender = activity.sender
        user = User(
            f"{OURS}{sender.id}", sender.name[:100], email=self._belongings.email(sender.id)
        )
        at, channel = self._ports.clock(), f"{OURS}{place.id}"
        return Request(
            line, user, at, "teams", belonging, channel, thread_of(activity), whole=False
        )

    async def _safe_place(
        self, place: Conversation, belonging: Belonging, user: str
    ) -> Conversation:
        """Return where an answer may be said: not where people of other organizations read.

        Raise `Unavailable`.
        """
        if not belonging.shared or place.private:
            return place
        try:
            return await self._conversations.reach(user)
        except Unavailable:
            raise Unavailable(_ASK_ELSEWHERE) from None

    async def refuse(self, activity: Activity, why: TrnbotError) -> None:
        """Say one sentence without data, at most once an hour to a person who does not belong."""
        person = f"{type(why).__name__} {activity.sender.id}"
        if self._refusals.is_due(person, certain=isinstance(why, NotAllowed)):
            thread = thread_of(activity) or activity.id
            await self.send(conversation_of(activity), thread, Card(str(why), Tone.INFO))

    async def _share(self, place: Conversation, thread: str, card: Card) -> str:
        """Show a private answer to everyone of the place, or of the one channel.

        Return the outcome in words.
        """
        channels = [replace(place, targeted=False)]
        if place.personal:
            channels = await self._conversations.channels()
        if len(channels) != 1:
            return "Mention the bot in the channel that should see this, and type the line there."
        if channels[0].shared:
            return "People of other organizations read the bot's channel; nothing was shared there."
        await self.send(channels[0], "" if place.personal else thread, without_share(card))
        return "Shared."

    async def _send_when_done(self, answer: asyncio.Task[_Reply], thread: str) -> None:
        reply = await answer
        if reply.place is None or reply.request is None:
            return
        user = reply.request.user.id.removeprefix(OURS)
        where = await self._safe_place(reply.place, reply.request.belonging, user)
        card = _shareable(reply.card, reply.place, reply.request.belonging)
        await self.send(where, thread if where is reply.place else "", card)

    async def send(self, place: Conversation, thread: str, card: Card, instead: str = "") -> None:
        """Send a card, in the place of a message where there is one to replace."""
        message = await message_of(card, self._ports.draw, budget=ANSWER_BYTES)
        if instead:
            try:
                await send(self._sdk, place, message, thread, instead)
                return
            except TrnbotError as error:
                log.info("teams: the answer is a message of its own: %s", error)
        await send(self._sdk, place, message, thread)


def _shareable(card: Card, place: Conversation, belonging: Belonging) -> Card:
    """Return a card without its button to share where all see it, or strangers might."""
    return card if place.private and not belonging.shared else without_share(card)


def _report(error: BaseException) -> None:
    """Log why an answer did not arrive."""
    if isinstance(error, TrnbotError):
        log.warning("teams: an answer was not sent: %s", error)
    else:
        log.error("teams: an answer failed", exc_info=error)


def invoke_answer(kind: str, value: Any) -> dict[str, Any]:
    """Return the body that answers an `Action.Execute`."""
    return {"statusCode": 200, "type": kind, "value": value}


PRESS = "adaptiveCard/action"
HOME = "home"
"""The line that a person's own chat begins with."""


class ActivityListener:
    """Handle activities.

    A message is acknowledged at once and answered after, a press in place while Teams waits.
    """

    def __init__(
        self,
        belongings: Belongings,
        responder: Responder,
        hints: Sequence[CommandHint],
        seen: Deduplicator,
    ) -> None:
        self._belongings, self._conversations = belongings, belongings.conversations
        self._responder, self._hints, self._seen = responder, by_worth(hints), seen
        self._greeted: set[str] = set()

    async def handle(self, activity: Activity) -> InvokeAnswer | None:
        """Obey an activity, and return the answer to a press."""
        match activity.type, activity.action:
            case "message", _:
                if not await self._again(activity):
                    answering = self._responder.respond(activity, parse_line(activity))
                    self._responder.tasks.spawn(answering)
            case "invoke", _:
                return await self._press(activity)
            case "conversationUpdate", _:
                # Where the bot itself is neither added nor removed, a member tells of the place.
                bot = activity.recipient.id
                if bot in activity.members_removed:
                    await self._leave(activity)
                elif bot in activity.members_added:
                    await self._greet(activity)
                else:
                    await self._learn(activity)
            case "installationUpdate", "add" | "add-upgrade":
                await self._greet(activity)
            case "installationUpdate", "remove" | "remove-upgrade":
                await self._leave(activity)
        return None

    async def _press(self, activity: Activity) -> InvokeAnswer:
        """Answer a press in place."""
        data = action_of(activity.value)
        line = pressed_line(data)
        if activity.name != PRESS:
            return InvokeAnswer(HTTPStatus.NOT_IMPLEMENTED)
        if not line:
            answer = invoke_answer(
                MESSAGE, "This button is from an older message; type 'help' instead."
            )
        elif await self._again(activity):
            answer = invoke_answer(MESSAGE, "This press was answered already.")
        else:
            answer = await self._responder.respond_in_place(activity, line, keeps=stands(data))
        return InvokeAnswer(HTTPStatus.OK, answer)

    def refuse(self, activity: Activity) -> dict[str, Any] | None:
        """Tell a person of a tenant that is not served that it is not.

        Where they wrote, or by the answer to a press.
        """
        if activity.type == "message":
            self._responder.tasks.spawn(self._responder.refuse(activity, NotAllowed(NOT_SERVED)))
        pressed = activity.type == "invoke" and activity.name == PRESS
        return invoke_answer(MESSAGE, NOT_SERVED) if pressed else None

    async def _again(self, activity: Activity) -> bool:
        """Return whether this very message or press came before.

        Sent again by Teams, or by who recorded it.
        """
        return await self._seen.again(
            f"{conversation_of(activity).id}|{activity.id}" if activity.id else ""
        )

    async def _leave(self, activity: Activity) -> None:
        """Forget a place that the bot was removed from."""
        gone = conversation_of(activity).id
        self._greeted.discard(gone)
        await self._conversations.forget(gone)

    async def _learn(self, activity: Activity) -> Conversation | None:
        """Remember a place, and return it, where a member tells of it; None for anybody else."""
        try:
            return (await self._belongings.admit(activity))[0]
        except (NotAllowed, Unavailable) as error:
            log.info("teams: a place was not remembered: %s", error)
            return None

    async def _greet(self, activity: Activity) -> None:
        """Remember and greet the place that a member added the bot to."""
        place = await self._learn(activity)
        if place is None or place.id in self._greeted or place.greeted:
            return
        self._greeted.add(place.id)  # installation and conversation update arrive together
        await self._conversations.remember(replace(place, greeted=True))

        # Lines to type, and how alerts come here.
        lines = [hint.example for hint in self._hints[:4]]
        buttons = Buttons(tuple(Button(line, line) for line in lines))
        blocks = (
            text(
                "It reports within minutes what is wasted, why, how many dollars, and what to do."
                " You can also ask:"
            ),
            *((buttons,) if lines else ()),
            quiet(
                "To have alerts sent here, an admin types ",
                Code("subscribe"),
                " here, or sets TRNBOT_ROUTE to ",
                Code(f"teams:{place.id}"),
            ),
        )
        hello = Card("Hello, trnbot watches your Trainium clusters", Tone.INFO, blocks)

        async def begin() -> None:
            await self._responder.send(place, "", hello)
            if place.personal:
                await self._responder.respond(activity, HOME)

        self._responder.tasks.spawn(begin())
