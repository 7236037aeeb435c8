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

from adapters.chat.teams.activity import Account, Activity, Place, Reference, split_thread, text_of
from adapters.chat.teams.client import Credentials
from adapters.chat.work import Monotonic, Recent
from bot.errors import Unavailable
from bot.ports.stores import Documents, DocumentStore

FRESH_S = 300.0
_OWNERS = re.compile(r"owners:([0-9a-fA-F-]{36})")
_PAGES = 20
_TIMEOUT = aiohttp.ClientTimeout(total=10)
_HINT = "it needs the permission TeamMember.Read.Group of the app's package, or TeamMember.Read.All"


@dataclass(frozen=True)
class Person:
    """Hold the bot's knowledge of a person as it is stored under their id, "" where it lacks."""

    personal: str = ""
    """The chat of this person with the bot."""
    heard: str = ""
    """A conversation in which they wrote to the bot."""
    entra: str = ""
    """Their object id in Microsoft Entra."""


PEOPLE = Documents("teams.people", Person)


class Owners:
    """Ask Graph for the owners of a team, and remember them for `FRESH_S`.

    Source: learn.microsoft.com, "List members of team", v1.0; read 2026-11-21.
    """

    def __init__(
        self,
        graph: str,
        credentials: Credentials,
        person: Callable[[str], Awaitable[Person]],
        monotonic: Monotonic = time.monotonic,
    ) -> None:
        self._graph, self._credentials, self._person = graph, credentials, person
        self._teams = Recent[frozenset[str]](monotonic)

    async def belongs(self, user: str, group: str) -> bool:
        """Return whether a person owns the team of `owners:TEAM-ID`.

        Raise `Unavailable` when Graph does not tell.
        """
        matched = _OWNERS.fullmatch(group)
        entra = (await self._person(user)).entra if matched else ""
        if not (matched and entra):
            return False

        team = matched[1].lower()
        owners = await self._teams.of(team, FRESH_S, lambda: self._ask(team))
        return entra.lower() in owners

    async def _ask(self, team: str) -> frozenset[str]:
        url, owners = f"{self._graph}/v1.0/teams/{quote(team)}/members?$top=999", set[str]()
        headers = await self._credentials.header()
        try:
            async with aiohttp.ClientSession(
                timeout=_TIMEOUT, trust_env=True, raise_for_status=True
            ) as session:
                for _ in range(_PAGES):
                    async with session.get(url, headers=headers, allow_redirects=False) as response:
                        page: Any = await response.json(content_type=None)
                    owners |= {
                        str(member["userId"]).lower()
                        for member in page["value"]
                        if "owner" in member.get("roles", ())
                    }
                    url = str(page.get("@odata.nextLink") or "")
                    if not url.startswith(f"{self._graph}/"):
                        break
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
            raise Unavailable(
                "Microsoft Graph did not return the owners of the team"
                f" ({type(error).__name__}); {_HINT}."
            ) from None
        return frozenset(owners)


MESSAGES = "teams.messages"
"""The ids of messages, each under its conversation and key."""
_LOOKED_AT = 200
_REMEMBERED = 2_000
"""Messages of all conversations that are looked through for a key."""

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


CONVERSATIONS = Documents("teams.conversations", _ConversationDocument)


def conversation_of(activity: Activity) -> Conversation:
    """Return where an activity was said."""
    place = activity.conversation
    # Of unstated kind, those of several people begin with 19.
    guessed = _GROUP if place.is_group or place.id.startswith("19:") else _PERSONAL
    return Conversation(
        activity.reference,
        place.kind or guessed,
        targeted=activity.targeted,
        shared=activity.channel_type == "shared",
    )


class Conversations:
    """Read and write conversations and message keys.

    The database may block, so each call runs in a thread.
    """

    def __init__(self, documents: DocumentStore, open_chat: Open) -> None:
        self._documents, self._open = documents, open_chat
        self._written: dict[str, _ConversationDocument] = {}

    async def remember(self, conversation: Conversation) -> None:
        """Write a conversation when anything about it changed."""
        key, reference = conversation.id, conversation.reference.document()
        document = _ConversationDocument(
            reference, conversation.kind, conversation.greeted, conversation.shared
        )
        if self._written.get(key) != document:
            await asyncio.to_thread(CONVERSATIONS.put, self._documents, key, document)
            self._written[key] = document

    async def forget(self, conversation: str) -> None:
        """Drop a conversation that the bot was removed from."""
        self._written.pop(conversation, None)
        await asyncio.to_thread(CONVERSATIONS.drop, self._documents, conversation)

    async def get(self, conversation: str) -> Conversation | None:
        """Return a conversation, or None."""
        key, _ = split_thread(conversation)
        document = await asyncio.to_thread(CONVERSATIONS.get, self._documents, key)
        return None if document is None else _read(document)

    async def person(self, user: str) -> Person:
        """Return a person, nothing known of them when they never wrote."""
        return await asyncio.to_thread(PEOPLE.get, self._documents, user) or Person()

    async def reach(self, address: str) -> Conversation:
        """Return a conversation, or the chat with a person, opened where there is none yet.

        Raise `Unavailable`.
        """
        if not is_person(address):
            conversation = await self.get(address)
            if conversation is None:
                raise _unknown(address)
            return conversation

        person = await self.person(address)
        if person.personal and (chat := await self.get(person.personal)):
            return chat
        near = (await self.near(address)).reference
        tenant = near.conversation.tenant
        opened = await self._open(near.service_url, near.bot.id, address, tenant)

        # Another activity may have told more of the person meanwhile.
        place = Place(opened, _PERSONAL, tenant)
        reference = replace(near, conversation=place, user=Account(address), locale="")
        conversation = Conversation(reference, _PERSONAL, greeted=True)
        await self.remember(conversation)
        before = await self.person(address)
        await self._put(address, Person(opened, before.heard or opened, before.entra))
        return conversation

    async def learn(self, activity: Activity) -> Conversation:
        """Remember where a person who belongs wrote, and who they are.

        Return the place with all that is known of it.
        """
        place = conversation_of(activity)
        before = await self.get(place.id)
        if before is not None:
            kind = place.kind if activity.conversation.kind else before.kind
            shared = place.shared if activity.channel_type else before.shared
            place = replace(place, kind=kind, greeted=before.greeted, shared=shared)
        await self.remember(place)
        await self.meet(activity)
        return place

    async def open_to_others(self, conversation: str) -> None:
        """Remember of a channel that is known that people of other organizations are in it."""
        before = await self.get(conversation)
        if before is not None and before.threaded:
            await self.remember(replace(before, shared=True))

    async def meet(self, activity: Activity) -> None:
        """Remember of a person where they wrote, their chat with the bot, and their id in Entra."""
        user, place = activity.sender.id, conversation_of(activity)
        before = await self.person(user)
        personal = place.id if place.personal else before.personal
        entra = activity.sender.entra or before.entra
        if (personal, entra) != (before.personal, before.entra):
            await self._put(user, Person(personal, place.id, entra))

    async def _put(self, user: str, person: Person) -> None:
        await asyncio.to_thread(PEOPLE.put, self._documents, user, person)

    async def near(self, user: str) -> Conversation:
        """Return a conversation whose service and tenant lead to a person.

        Where they wrote, else any.
        """
        person = await self.person(user)
        conversation = await self.get(person.heard) if person.heard else None
        if conversation is None:
            conversation = next(iter(await self._newest(1)), None)
        if conversation is None:
            raise _unknown(user)
        return conversation

    async def channels(self) -> list[Conversation]:
        """Return the channels that the bot is in, the last written first."""
        newest = await self._newest(_LOOKED_AT)
        return [conversation for conversation in newest if conversation.threaded]

    async def _newest(self, most: int) -> list[Conversation]:
        newest = await asyncio.to_thread(CONVERSATIONS.newest, self._documents, most)
        return [_read(document) for _, document in newest]

    async def keep_message(self, conversation: str, key: str, message: str) -> None:
        """Remember which message carries a key."""
        await asyncio.to_thread(
            self._documents.put, MESSAGES, f"{conversation}|{key}", {"message": message}
        )

    async def messages(self, conversation: str) -> Mapping[str, str]:
        """Return the newest messages of a conversation by the keys that they carry."""
        newest = await asyncio.to_thread(self._documents.newest, MESSAGES, _REMEMBERED)
        places = ((*place.rpartition("|"), document) for place, document in newest)
        return {
            key: text_of(document, "message")
            for place, _, key, document in places
            if place == conversation
        }


def is_person(address: str) -> bool:
    """Return whether an address is a person's (`29:1x`), not a conversation's."""
    return address.startswith("29:")


def _unknown(address: str) -> Unavailable:
    return Unavailable(
        f"Teams has not introduced the bot to '{address[:80]}'; say hello to the bot there once."
    )


def _read(document: _ConversationDocument) -> Conversation:
    return Conversation(
        Reference.of(document.reference), document.kind, document.greeted, shared=document.shared
    )
