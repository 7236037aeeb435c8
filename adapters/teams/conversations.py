"""Remember where the bot may post: conversation references, and which message was posted with which key."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botbuilder.core import TurnContext
from botbuilder.schema import Activity, ChannelAccount, ConversationAccount, ConversationReference

from adapters.teams.client import TARGETED, split_thread
from adapters.teams.people import Person, TeamMembers
from bot.errors import Unavailable
from bot.model.codec import decode, encode
from bot.ports import DocumentStore

CONVERSATIONS = "teams.conversations"
MESSAGES = "teams.messages"
_LOOKED_AT = 200

_CHANNEL = "channel"
_PERSONAL = "personal"


@dataclass(frozen=True)
class Conversation:
    """Hold one place to post: a personal chat, a group chat, or a channel (whose threads share its id)."""

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
        """Return whether it is a chat of one person with the bot."""
        return self.kind == _PERSONAL

    @property
    def threaded(self) -> bool:
        """Return whether messages stand in threads, as in channels alone."""
        return self.kind == _CHANNEL

    @property
    def private(self) -> bool:
        """Return whether only one person reads it."""
        return self.personal or self.targeted

    def thread(self, message: str) -> str:
        """Return the conversation id of a message's thread; only channels have threads."""
        return f"{self.id};messageid={message}" if self.threaded and message else self.id


@dataclass(frozen=True)
class _ConversationDocument:
    """Hold a conversation as it is stored under its id."""

    reference: Mapping[str, Any]
    kind: str
    greeted: bool

    @staticmethod
    def of(conversation: Conversation) -> _ConversationDocument:
        """Return the document of a conversation."""
        return _ConversationDocument(conversation.reference.serialize(), conversation.kind, conversation.greeted)

    def conversation(self) -> Conversation:
        """Return the conversation."""
        return Conversation(ConversationReference().deserialize(dict(self.reference)), self.kind, self.greeted)


@dataclass(frozen=True)
class _PostedMessage:
    """Hold a message's id as it is stored under its conversation and key."""

    message: str


def conversation_of(activity: Activity) -> Conversation:
    """Return where an activity was said."""
    reference = TurnContext.get_conversation_reference(activity)
    reference.activity_id = None
    reference.conversation.id = split_thread(reference.conversation.id)[0]
    kind = activity.conversation.conversation_type or _PERSONAL
    return Conversation(reference, kind, targeted=activity.additional_properties.get(TARGETED) is True)


class Conversations:
    """Read and write conversations and message keys; the database may block, so each call runs in a thread."""

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents
        self.people = TeamMembers(documents)
        self._written: dict[str, _ConversationDocument] = {}

    async def remember(self, conversation: Conversation) -> None:
        """Write a conversation when anything about it changed."""
        document = _ConversationDocument.of(conversation)
        if self._written.get(conversation.id) != document:
            await asyncio.to_thread(self._documents.put, CONVERSATIONS, conversation.id, encode(document))
            self._written[conversation.id] = document

    async def forget(self, conversation: str) -> None:
        """Drop a conversation that the bot was removed from."""
        self._written.pop(conversation, None)
        await asyncio.to_thread(self._documents.drop, CONVERSATIONS, conversation)

    async def get(self, conversation: str) -> Conversation | None:
        """Return a conversation, or None."""
        document = await asyncio.to_thread(self._documents.get, CONVERSATIONS, split_thread(conversation)[0])
        return None if document is None else _read(document)

    async def reach(self, conversation: str) -> Conversation:
        """Return a conversation; raise `Unavailable` with the remedy."""
        reached = await self.get(conversation)
        if reached is None:
            raise _unknown(conversation)
        return reached

    async def meet(self, activity: Activity) -> None:
        """Remember of a person where they wrote, their chat with the bot, and who they are to Microsoft Entra."""
        user, here = str(activity.from_property.id), conversation_of(activity)
        before = await self.people.get(user)
        personal = here.id if here.personal else before.personal
        entra = str(activity.from_property.aad_object_id or "") or before.entra
        if (personal, entra) != (before.personal, before.entra):
            await self.people.keep(user, Person(personal, here.id, entra))

    async def near(self, user: str) -> Conversation:
        """Return a conversation whose service and tenant lead to a person: where they wrote, else any."""
        person = await self.people.get(user)
        conversation = await self.get(person.heard) if person.heard else None
        if conversation is None:
            newest = await asyncio.to_thread(self._documents.newest, CONVERSATIONS, 1)
            conversation = next((_read(document) for _, document in newest), None)
        if conversation is None:
            raise _unknown(user)
        return conversation

    async def keep_opened(self, user: str, conversation: str, near: Conversation) -> Conversation:
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
        opened = Conversation(reference, _PERSONAL, greeted=True)
        await self.remember(opened)
        person = await self.people.get(user)
        await self.people.keep(user, Person(conversation, person.heard or conversation, person.entra))
        return opened

    async def channels(self) -> list[Conversation]:
        """Return the channels that the bot is in, the last written first."""
        newest = await asyncio.to_thread(self._documents.newest, CONVERSATIONS, _LOOKED_AT)
        conversations = [_read(document) for _, document in newest]
        return [conversation for conversation in conversations if conversation.threaded]

    async def keep_message(self, conversation: str, key: str, message: str) -> None:
        """Remember which message carries a key."""
        await asyncio.to_thread(self._documents.put, MESSAGES, f"{conversation}|{key}", encode(_PostedMessage(message)))

    async def message(self, conversation: str, key: str) -> str:
        """Return the message that carries a key, "" for none."""
        document = await asyncio.to_thread(self._documents.get, MESSAGES, f"{conversation}|{key}")
        return decode(_PostedMessage, document).message if document else ""


def is_person(address: str) -> bool:
    """Return whether an address is a person's (`29:1x`), not a conversation's."""
    return address.startswith("29:")


def _unknown(address: str) -> Unavailable:
    return Unavailable(f"Teams has not introduced the bot to '{address[:80]}'; say hello to the bot there once.")


def _read(document: Mapping[str, Any]) -> Conversation:
    return decode(_ConversationDocument, document).conversation()
