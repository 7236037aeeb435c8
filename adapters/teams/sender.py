"""Build message activities from cards, and send or replace them in conversations."""

from __future__ import annotations

import asyncio

from botbuilder.core import CloudAdapterBase, TurnContext
from botbuilder.schema import Activity, ActivityTypes, Attachment

from adapters.teams.client import TARGETED
from adapters.teams.conversations import Conversation
from adapters.teams.markup import bare, short
from adapters.teams.render import render
from bot.cards.card import Card
from bot.ports import Draw


class Sender:
    """Continue conversations through botbuilder's adapter."""

    def __init__(self, adapter: CloudAdapterBase, app_id: str) -> None:
        self._adapter = adapter
        self._app_id = app_id

    async def send(self, where: Conversation, activity: Activity, thread: str = "") -> str:
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
    """Return the sign of typing: that an answer is on its way."""
    return Activity(type=ActivityTypes.typing)
