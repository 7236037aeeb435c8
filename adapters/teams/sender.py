"""Build message activities from cards, and send or replace them in conversations."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from botbuilder.core import CloudAdapterBase, TurnContext
from botbuilder.schema import Activity, ActivityTypes, Attachment

from adapters.teams.conversations import TARGETED, Conversation
from adapters.teams.markup import bare, short
from adapters.teams.render import render
from bot.cards.card import Block, Button, Buttons, Card, Code, Text, Tone, quiet, text
from bot.ports import CommandHint, Draw


class Sender:
    """Continue conversations through botbuilder's adapter."""

    def __init__(self, adapter: CloudAdapterBase, app_id: str) -> None:
        self._adapter = adapter
        self._app_id = app_id

    async def say(self, where: Conversation, activity: Activity, thread: str = "") -> str:
        """Send a message, in a thread when one is named and the place has threads; return its id."""
        made: list[str] = []

        async def turn(context: TurnContext) -> None:
            self._address(activity, where, where.thread(thread))
            activity.reply_to_id = thread if where.threaded and thread else None
            made.extend([r.id or "" for r in await self._adapter.send_activities(context, [activity])])

        await self._adapter.continue_conversation(where.reference, turn, self._app_id)
        return made[0]

    async def replace(self, where: Conversation, message: str, activity: Activity) -> None:
        """Put an activity in the place of a message; raise `Gone` when the message is no longer there."""

        async def turn(context: TurnContext) -> None:
            self._address(activity, where, where.id)
            activity.id = message
            await self._adapter.update_activity(context, activity)

        await self._adapter.continue_conversation(where.reference, turn, self._app_id)

    def _address(self, activity: Activity, where: Conversation, conversation: str) -> None:
        """Write sender, receiver and place on the activity."""
        TurnContext.apply_conversation_reference(activity, where.reference)
        activity.additional_properties = {TARGETED: True} if where.targeted else {}
        activity.conversation = type(where.reference.conversation)(**_account(where, conversation))


def _account(where: Conversation, conversation: str) -> dict[str, object]:
    account = where.reference.conversation
    return {"id": conversation, "conversation_type": account.conversation_type, "tenant_id": account.tenant_id}


CARD = "application/vnd.microsoft.card.adaptive"
MESSAGE = "application/vnd.microsoft.activity.message"


async def message_activity(card: Card, draw: Draw, *, budget: int, stands: bool = False) -> Activity:
    """Return a message activity; drawing runs in a thread, for a picture takes its time."""
    content = await asyncio.to_thread(render, card, draw, budget=budget, stands=stands)
    return Activity(
        type=ActivityTypes.message,
        summary=short(bare(card.title), 200),
        attachments=[Attachment(content_type=CARD, content=content)],
    )


def typing_activity() -> Activity:
    """Return the sign that an answer is on its way."""
    return Activity(type=ActivityTypes.typing)


def invoke_answer(kind: str, value: Any) -> dict[str, Any]:
    """Return the body that answers an `Action.Execute`."""
    return {"statusCode": 200, "type": kind, "value": value}


def is_short(card: Card) -> bool:
    """Tell whether a card says everything in its words, so that one line can carry it."""
    return all(isinstance(block, Text) for block in card.blocks) and len(card.blocks) <= 1


def unshared(card: Card) -> Card:
    """Return the card without buttons that share it, for a place where everyone reads it."""
    return replace(card, blocks=tuple(block for block in map(_unshared, card.blocks) if block != Buttons(())))


def _unshared(block: Block) -> Block:
    if not isinstance(block, Buttons):
        return block
    return Buttons(tuple(button for button in block.buttons if not button.line.startswith("share ")))


def greeting(hints: tuple[CommandHint, ...], conversation: str) -> Card:
    """Say hello: what to type, and how alerts come here."""
    buttons = tuple(Button(hint.example or hint.name, hint.example or hint.name) for hint in hints[:4])
    return Card(
        "Hello, trnbot watches your Trainium clusters",
        Tone.INFO,
        (
            text("It says within minutes what is wasted, why, how many dollars, and what to do. Ask it anything it knows:"),
            *((Buttons(buttons),) if buttons else ()),
            quiet("To have alerts sent here, an admin sets TRNBOT_ROUTE to ", Code(f"teams:{conversation}")),
        ),
    )
