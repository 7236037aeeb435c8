"""Take messages, presses and installations from Teams, and hand each line to the responder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from adapters.chat.manifest import by_worth
from adapters.chat.teams.activity import MESSAGE, Activity, InvokeAnswer, action_of, parse_line
from adapters.chat.teams.belonging import Belongings
from adapters.chat.teams.conversations import Conversation, conversation_of
from adapters.chat.teams.elements import pressed_line, stands
from adapters.chat.teams.responder import Responder, invoke_answer, log
from bot.cards.card import Button, Buttons, Card, Code, Tone, quiet, text
from bot.errors import NotAllowed, Unavailable
from bot.model.request import NOT_SERVED
from bot.ports import CommandHint, Deduplicator

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
                    self._responder.respond_later(activity, parse_line(activity))
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
            self._responder.refuse_later(activity, NotAllowed(NOT_SERVED))
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
        lines = [hint.example or hint.name for hint in self._hints[:4]]
        buttons = Buttons(tuple(Button(line, line) for line in lines))
        blocks = (
            text(
                "It reports within minutes what is wasted, why, how many dollars, and what to do."
                " You can also ask:"
            ),
            *((buttons,) if lines else ()),
            quiet(
                "To have alerts sent here, an admin sets TRNBOT_ROUTE to ",
                Code(f"teams:{place.id}"),
            ),
        )
        self._responder.send_later(
            place, Card("Hello, trnbot watches your Trainium clusters", Tone.INFO, blocks)
        )
        if place.personal:
            self._responder.respond_later(activity, HOME)
