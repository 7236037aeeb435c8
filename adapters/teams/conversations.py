"""Remember where the bot may speak: conversation references, and which message was posted with which key."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botbuilder.core import TurnContext
from botbuilder.schema import Activity, ChannelAccount, ConversationAccount, ConversationReference

from bot.errors import Unavailable
from bot.ports import DocumentStore

CONVERSATIONS = "teams.conversations"
MESSAGES = "teams.messages"
PEOPLE = "teams.people"
TARGETED = "isTargeted"
"""The mark of a message that one person alone sees, on the way in (by its recipient) and out."""
_LOOKED_AT = 200

_CHANNEL = "channel"
_PERSONAL = "personal"


@dataclass(frozen=True)
class Conversation:
    """Hold one place to speak: a personal chat, a group chat, or a channel (whose threads share its id)."""

    reference: ConversationReference
    kind: str
    greeted: bool = False
    targeted: bool = False
    """Only one person of the place sees what is said here (the answer to a slash command)."""

    @property
    def id(self) -> str:
        """Return the id without a thread."""
        return str(self.reference.conversation.id)

    @property
    def personal(self) -> bool:
        """Tell whether it is a chat of one person with the bot."""
        return self.kind == _PERSONAL

    @property
    def threaded(self) -> bool:
        """Tell whether messages stand in threads, as in channels alone."""
        return self.kind == _CHANNEL

    @property
    def private(self) -> bool:
        """Tell whether only one person reads it."""
        return self.personal or self.targeted

    def thread(self, message: str) -> str:
        """Return the conversation id of a message's thread; only channels have threads."""
        return f"{self.id};messageid={message}" if self.threaded and message else self.id


@dataclass(frozen=True)
class Person:
    """Hold what the bot knows of a person: "" for what it does not."""

    id: str
    personal: str = ""
    """The chat of this person with the bot."""
    heard: str = ""
    """A conversation in which they spoke to the bot."""
    entra: str = ""
    """Their object id in Microsoft Entra."""


def conversation_of(activity: Activity) -> Conversation:
    """Return where an activity was said."""
    reference = TurnContext.get_conversation_reference(activity)
    reference.activity_id = None
    reference.conversation.id = split_thread(reference.conversation.id)[0]
    kind = activity.conversation.conversation_type or _PERSONAL
    return Conversation(reference, kind, targeted=activity.additional_properties.get(TARGETED) is True)


def split_thread(conversation: str) -> tuple[str, str]:
    """Return a conversation's id and the thread's first message, "" outside a thread."""
    base, _, message = conversation.partition(";messageid=")
    return base, message


class Conversations:
    """Keep both on the shelf; the shelf may block, so each call runs in a thread."""

    def __init__(self, shelf: DocumentStore) -> None:
        self._shelf = shelf
        self._written: dict[str, dict[str, Any]] = {}

    async def remember(self, conversation: Conversation) -> None:
        """Write a conversation when anything about it changed."""
        document = _document(conversation)
        if self._written.get(conversation.id) != document:
            await asyncio.to_thread(self._shelf.put, CONVERSATIONS, conversation.id, document)
            self._written[conversation.id] = document

    async def forget(self, conversation: str) -> None:
        """Drop a conversation that the bot was removed from."""
        self._written.pop(conversation, None)
        await asyncio.to_thread(self._shelf.drop, CONVERSATIONS, conversation)

    async def known(self, conversation: str) -> Conversation | None:
        """Return a conversation, or None."""
        document = await asyncio.to_thread(self._shelf.get, CONVERSATIONS, split_thread(conversation)[0])
        return None if document is None else _conversation(document)

    async def reach(self, conversation: str) -> Conversation:
        """Return a conversation; raise `Unavailable` with what to do."""
        found = await self.known(conversation)
        if found is None:
            raise _unknown(conversation)
        return found

    async def meet(self, activity: Activity) -> None:
        """Remember of a person where they were heard, their chat with the bot, and who they are to Microsoft Entra."""
        user, here = str(activity.from_property.id), conversation_of(activity)
        known = await self.person(user)
        personal = here.id if here.personal else known.personal
        entra = str(activity.from_property.aad_object_id or "") or known.entra
        met = Person(user, personal, here.id, entra)
        if (met.personal, met.entra) != (known.personal, known.entra):
            await asyncio.to_thread(self._shelf.put, PEOPLE, user, {"personal": personal, "heard": here.id, "entra": entra})

    async def person(self, user: str) -> Person:
        """Return what is known of a person, nothing but their id when they were never heard."""
        document = await asyncio.to_thread(self._shelf.get, PEOPLE, user) or {}
        return Person(user, *(str(document.get(name, "")) for name in ("personal", "heard", "entra")))

    async def near(self, user: str) -> Conversation:
        """Return a conversation whose service and tenant lead to a person: where they were heard, else any."""
        person = await self.person(user)
        found = await self.known(person.heard) if person.heard else None
        if found is None:
            newest = await asyncio.to_thread(self._shelf.newest, CONVERSATIONS, 1)
            found = next((_conversation(document) for _, document in newest), None)
        if found is None:
            raise _unknown(user)
        return found

    async def opened(self, user: str, conversation: str, near: Conversation) -> Conversation:
        """Keep the chat that was opened with a person, and return it."""
        there = near.reference
        account = ConversationAccount(id=conversation, conversation_type=_PERSONAL, tenant_id=there.conversation.tenant_id)
        reference = ConversationReference(
            user=ChannelAccount(id=user),
            bot=there.bot,
            conversation=account,
            channel_id=there.channel_id,
            service_url=there.service_url,
        )
        made = Conversation(reference, _PERSONAL, greeted=True)
        await self.remember(made)
        person = await self.person(user)
        document = {"personal": conversation, "heard": person.heard or conversation, "entra": person.entra}
        await asyncio.to_thread(self._shelf.put, PEOPLE, user, document)
        return made

    async def channels(self) -> list[Conversation]:
        """Return the channels that the bot is in, the last heard first."""
        newest = await asyncio.to_thread(self._shelf.newest, CONVERSATIONS, _LOOKED_AT)
        return [_conversation(document) for _, document in newest if document["kind"] == _CHANNEL]

    async def note(self, conversation: str, key: str, message: str) -> None:
        """Remember which message carries a key."""
        await asyncio.to_thread(self._shelf.put, MESSAGES, f"{conversation}|{key}", {"message": message})

    async def message(self, conversation: str, key: str) -> str:
        """Return the message that carries a key, "" for none."""
        document = await asyncio.to_thread(self._shelf.get, MESSAGES, f"{conversation}|{key}")
        return str(document["message"]) if document else ""


def is_person(address: str) -> bool:
    """Tell whether an address is a person's (`29:1x`), not a conversation's."""
    return address.startswith("29:")


def _unknown(address: str) -> Unavailable:
    return Unavailable(f"Teams has not introduced the bot to '{address[:80]}'; say hello to the bot there once.")


def _conversation(document: Mapping[str, Any]) -> Conversation:
    reference = ConversationReference().deserialize(dict(document["reference"]))
    return Conversation(reference, str(document["kind"]), bool(document["greeted"]))


def _document(conversation: Conversation) -> dict[str, Any]:
    reference = conversation.reference.serialize()
    return {"reference": reference, "kind": conversation.kind, "greeted": conversation.greeted}
