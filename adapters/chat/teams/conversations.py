"""Remember where the bot may post and who wrote to it, and ask Microsoft Graph who owns a team."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import aiohttp

from adapters.chat.teams.activity import Account, Activity, Place, Reference, split_thread
from adapters.chat.teams.client import Credentials
from bot.errors import Unavailable
from bot.model.codec import decode, encode
from bot.ports import DocumentStore

PEOPLE = "teams.people"
FRESH_S = 300.0
_OWNERS = re.compile(r"owners:([0-9a-fA-F-]{36})")
_PAGES = 20
_TIMEOUT = aiohttp.ClientTimeout(total=10)
_HINT = "it needs the permission TeamMember.Read.Group of the app's package, or TeamMember.Read.All"


@dataclass(frozen=True)
class Person:
    """Hold the bot's knowledge of a person as it is stored under their id: "" for a fact it lacks."""

    personal: str = ""
    """The chat of this person with the bot."""
    heard: str = ""
    """A conversation in which they wrote to the bot."""
    entra: str = ""
    """Their object id in Microsoft Entra."""


class TeamMembers:
    """Read and write people; the database may block, so each call runs in a thread."""

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents

    async def get(self, user: str) -> Person:
        """Return a person, nothing known of them when they never wrote."""
        document = await asyncio.to_thread(self._documents.get, PEOPLE, user)
        return decode(Person, document or {})

    async def keep(self, user: str, person: Person) -> None:
        """Write a person over the one before."""
        await asyncio.to_thread(self._documents.put, PEOPLE, user, encode(person))


class Owners:
    """Ask Graph for the owners of a team, and remember them for `FRESH_S`."""

    def __init__(
        self,
        graph: str,
        credentials: Credentials,
        people: TeamMembers,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._graph, self._credentials, self._people, self._monotonic = (
            graph,
            credentials,
            people,
            monotonic,
        )
        self._remembered: dict[str, tuple[float, frozenset[str]]] = {}

    async def belongs(self, user: str, group: str) -> bool:
        """Return whether a person owns the team of `owners:TEAM-ID`.

        Raise `Unavailable` when Graph does not tell.
        """
        team = _OWNERS.fullmatch(group)
        entra = (await self._people.get(user)).entra if team else ""
        return bool(team and entra) and entra.lower() in await self._owners(
            team[1].lower() if team else ""
        )

    async def _owners(self, team: str) -> frozenset[str]:
        asked_s, owners = self._remembered.get(team, (float("-inf"), frozenset[str]()))
        if self._monotonic() - asked_s > FRESH_S:
            owners = await self._list_owners(team)
            self._remembered[team] = (self._monotonic(), owners)
        return owners

    async def _list_owners(self, team: str) -> frozenset[str]:
        url, owners = f"{self._graph}/v1.0/teams/{quote(team)}/members?$top=999", set[str]()
        headers = await self._credentials.header()
        try:
            async with aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=True) as session:
                for _ in range(_PAGES):
                    page = await _page(session, url, headers)
                    owners |= {
                        str(one["userId"]).lower()
                        for one in page["value"]
                        if "owner" in one.get("roles", ())
                    }
                    url = str(page.get("@odata.nextLink") or "")
                    if not url.startswith(f"{self._graph}/"):
                        break
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
            raise Unavailable(
                f"Microsoft Graph did not return the owners of the team ({type(error).__name__}); {_HINT}."
            ) from None
        return frozenset(owners)


async def _page(session: aiohttp.ClientSession, url: str, headers: dict[str, str]) -> Any:
    async with session.get(
        url, headers=headers, raise_for_status=True, allow_redirects=False
    ) as response:
        return await response.json(content_type=None)


CONVERSATIONS = "teams.conversations"
MESSAGES = "teams.messages"
_LOOKED_AT = 200

_CHANNEL = "channel"
_GROUP = "groupChat"
_PERSONAL = "personal"

Open = Callable[[str, str, str, str], Awaitable[str]]
"""Open the chat of the bot with a person: service URL, bot, person and tenant to the chat's id."""


@dataclass(frozen=True)
class Conversation:
    """Hold one place to post.

    A personal chat, a group chat, or a channel (whose threads share its id).
    """

    reference: Reference
    kind: str
    greeted: bool = False
    targeted: bool = False
    """Only one person of the place sees what is said here (the answer to a slash command)."""
    shared: bool = False
    """It is a channel that people of other organizations may be in."""

    @property
    def id(self) -> str:
        """Return the id without a thread."""
        return self.reference.conversation.id

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
    shared: bool = False

    @staticmethod
    def of(conversation: Conversation) -> _ConversationDocument:
        """Return the document of a conversation."""
        reference = conversation.reference.document()
        return _ConversationDocument(
            reference, conversation.kind, conversation.greeted, conversation.shared
        )

    def conversation(self) -> Conversation:
        """Return the conversation."""
        return Conversation(
            Reference.of(self.reference), self.kind, self.greeted, shared=self.shared
        )


@dataclass(frozen=True)
class _PostedMessage:
    """Hold a message's id as it is stored under its conversation and key."""

    message: str


def conversation_of(activity: Activity) -> Conversation:
    """Return where an activity was said."""
    kind = activity.conversation.kind or (
        _GROUP if _looks_shared(activity.conversation) else _PERSONAL
    )
    return Conversation(
        activity.reference,
        kind,
        targeted=activity.targeted,
        shared=activity.channel_type == "shared",
    )


def _looks_shared(place: Place) -> bool:
    """Return whether a conversation of unstated kind is one of several people.

    Theirs begin with 19.
    """
    return bool(place.is_group) or place.id.startswith("19:")


class Conversations:
    """Read and write conversations and message keys.

    The database may block, so each call runs in a thread.
    """

    def __init__(self, documents: DocumentStore, open_chat: Open | None = None) -> None:
        self._documents, self._open = documents, open_chat
        self.people = TeamMembers(documents)
        self._written: dict[str, _ConversationDocument] = {}

    async def remember(self, conversation: Conversation) -> None:
        """Write a conversation when anything about it changed."""
        document = _ConversationDocument.of(conversation)
        if self._written.get(conversation.id) != document:
            await asyncio.to_thread(
                self._documents.put, CONVERSATIONS, conversation.id, encode(document)
            )
            self._written[conversation.id] = document

    async def forget(self, conversation: str) -> None:
        """Drop a conversation that the bot was removed from."""
        self._written.pop(conversation, None)
        await asyncio.to_thread(self._documents.drop, CONVERSATIONS, conversation)

    async def get(self, conversation: str) -> Conversation | None:
        """Return a conversation, or None."""
        document = await asyncio.to_thread(
            self._documents.get, CONVERSATIONS, split_thread(conversation)[0]
        )
        return None if document is None else _read(document)

    async def reach(self, address: str) -> Conversation:
        """Return a conversation, or the chat with a person, opened where there is none yet.

        Raise `Unavailable`.
        """
        if is_person(address):
            return await self._chat(address)
        reached = await self.get(address)
        if reached is None:
            raise _unknown(address)
        return reached

    async def _chat(self, user: str) -> Conversation:
        person = await self.people.get(user)
        if person.personal and (chat := await self.get(person.personal)):
            return chat
        near = await self.near(user)
        if self._open is None:
            raise _unknown(user)
        there = near.reference
        opened = await self._open(there.service_url, there.bot.id, user, there.conversation.tenant)
        return await self.keep_opened(user, opened, near)

    async def learn(self, activity: Activity) -> Conversation:
        """Remember where a person who belongs wrote, and who they are.

        Return the place with all that is known of it.
        """
        here = conversation_of(activity)
        before = await self.get(here.id)
        if before is not None:
            kind = here.kind if activity.conversation.kind else before.kind
            shared = here.shared if activity.channel_type else before.shared
            here = replace(here, kind=kind, greeted=before.greeted, shared=shared)
        await self.remember(here)
        await self.meet(activity)
        return here

    async def open_to_others(self, conversation: str) -> None:
        """Remember of a channel that is known that people of other organizations are in it."""
        before = await self.get(conversation)
        if before is not None and before.threaded:
            await self.remember(replace(before, shared=True))

    async def meet(self, activity: Activity) -> None:
        """Remember of a person where they wrote, their chat with the bot, and who they are to Microsoft Entra."""
        user, here = activity.sender.id, conversation_of(activity)
        before = await self.people.get(user)
        personal = here.id if here.personal else before.personal
        entra = activity.sender.entra or before.entra
        if (personal, entra) != (before.personal, before.entra):
            await self.people.keep(user, Person(personal, here.id, entra))

    async def near(self, user: str) -> Conversation:
        """Return a conversation whose service and tenant lead to a person.

        Where they wrote, else any.
        """
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
        chat = Place(conversation, _PERSONAL, there.conversation.tenant)
        reference = Reference(chat, there.service_url, there.bot, Account(user), there.channel_id)
        opened = Conversation(reference, _PERSONAL, greeted=True)
        await self.remember(opened)
        person = await self.people.get(user)
        await self.people.keep(
            user, Person(conversation, person.heard or conversation, person.entra)
        )
        return opened

    async def channels(self) -> list[Conversation]:
        """Return the channels that the bot is in, the last written first."""
        newest = await asyncio.to_thread(self._documents.newest, CONVERSATIONS, _LOOKED_AT)
        conversations = [_read(document) for _, document in newest]
        return [conversation for conversation in conversations if conversation.threaded]

    async def keep_message(self, conversation: str, key: str, message: str) -> None:
        """Remember which message carries a key."""
        await asyncio.to_thread(
            self._documents.put, MESSAGES, f"{conversation}|{key}", encode(_PostedMessage(message))
        )

    async def message(self, conversation: str, key: str) -> str:
        """Return the message that carries a key, "" for none."""
        document = await asyncio.to_thread(self._documents.get, MESSAGES, f"{conversation}|{key}")
        return decode(_PostedMessage, document).message if document else ""


def is_person(address: str) -> bool:
    """Return whether an address is a person's (`29:1x`), not a conversation's."""
    return address.startswith("29:")


def _unknown(address: str) -> Unavailable:
    return Unavailable(
        f"Teams has not introduced the bot to '{address[:80]}'; say hello to the bot there once."
    )


def _read(document: Mapping[str, Any]) -> Conversation:
    return decode(_ConversationDocument, document).conversation()
