"""Say how the sender of an activity belongs.

By the tenants that it names, and by the roster of its conversation.

Sources: learn.microsoft.com, "Get Teams specific context for your bot" (`tenantId` and `userRole`
of one member) and "Apps for shared and private channels" (tell guests and people of other tenants
apart); read 2026-11-22.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from adapters.chat.teams.activity import Activity
from adapters.chat.teams.client import ConnectorClient, Gone
from adapters.chat.teams.conversations import Conversation, Conversations, conversation_of
from bot.errors import NotAllowed, Unavailable
from bot.model.request import LOCAL, NOT_SERVED, Belonging, Standing
from bot.ports import IdempotencyKeys, Tell

UNKNOWN_TENANTS = "teams.strangers"
FRESH_S = 3600.0
"""For so long a person is not asked after again."""
STALE_S = 86_400.0
"""For so long a person who is known stays so while Microsoft does not answer."""
_KEPT = 5000
_ROSTERS = 5
"""Channels that are looked for a person in."""
_UNTOLD = "Microsoft Teams did not say which organization you belong to, so nothing was read or changed; try again in a minute."
_UNLISTED = "Microsoft Teams does not list you in this conversation, so nothing was read or changed; ask the bot in a personal chat."


class Tenants:
    """Know which tenants are served.

    Tell an admin once of each other one that writes, whichever process it wrote to.
    """

    def __init__(self, served: frozenset[str] | None, keys: IdempotencyKeys, tell: Tell) -> None:
        self._served, self._keys, self._tell = served, keys, tell

    def serves(self, named: frozenset[str]) -> bool:
        """Return whether every tenant that is named is served; where none is named, none is."""
        return bool(named) and (self._served is None or named <= self._served)

    async def report_unknown(self, named: frozenset[str]) -> None:
        """Tell an admin of an unknown tenant when this is its first time."""
        unknown = sorted(named - (self._served or frozenset()))
        name = next(
            (tenant for tenant in unknown if re.fullmatch(r"[\w-]{1,64}", tenant)), "of no name"
        )
        if await asyncio.to_thread(self._keys.first, UNKNOWN_TENANTS, name):
            await self._tell(
                f"Teams tenant {name} wrote to the bot and was refused; TRNBOT_TEAMS_TENANTS lists who is served."
            )


class Belongings:
    """Admit the people who belong and remember where they wrote.

    Whoever cannot be told is no member.
    """

    def __init__(
        self,
        conversations: Conversations,
        tenants: Tenants,
        client: ConnectorClient,
        *,
        signed: bool,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.conversations = conversations
        self._tenants, self._client, self._signed = tenants, client, signed
        self._people = Recent[Belonging](monotonic)
        self._open_chats = Recent[bool](monotonic)

    async def admit(self, activity: Activity) -> tuple[Conversation, Belonging]:
        """Return the place and how the sender belongs.

        Raise `NotAllowed` for a stranger, `Unavailable` where it is not told.
        """
        belonging = await self._of(activity)
        if belonging.standing is Standing.STRANGER:
            await self.conversations.open_to_others(conversation_of(activity).id)
            raise NotAllowed(NOT_SERVED)
        here = await self.conversations.learn(activity)
        return here, replace(belonging, shared=await self._is_shared(here))

    async def name(self, user: str) -> str:
        """Return the name of a person of a conversation that the bot is in, "" for a stranger or nobody; raise `Unavailable`."""
        near = await self.conversations.near(user)
        for here in dict.fromkeys((near, *(await self.conversations.channels())[:_ROSTERS])):
            try:
                member = await self._client.get(
                    here.reference.service_url, f"{_members(here)}/{quote(user, safe='')}"
                )
            except Gone:
                continue
            if not isinstance(member, Mapping) or (
                self._signed and self._read(member).standing is Standing.STRANGER
            ):
                return ""
            return str(member.get("name") or user)
        return "" if self._signed else user  # development: not every client lists people

    async def _of(self, activity: Activity) -> Belonging:
        """Return how the sender belongs, from memory for an hour."""
        if not self._signed:  # development: this machine alone is let in
            return LOCAL
        if not self._tenants.serves(activity.tenants):
            return Belonging("", Standing.STRANGER)
        user = activity.sender.id
        known = self._people.get(user, FRESH_S)
        return known or await self._asked(activity, user)

    async def _asked(self, activity: Activity, user: str) -> Belonging:
        """Ask the roster of the conversation for a person.

        While it does not answer, who was known stays so.
        """
        here = conversation_of(activity)
        path = f"{_members(here)}/{quote(user, safe='')}"
        try:
            member = await self._client.get(here.reference.service_url, path)
        except Gone:
            raise NotAllowed(_UNLISTED) from None
        except Unavailable:
            known = self._people.get(user, STALE_S)
            if known is None or known.standing is Standing.STRANGER:
                raise Unavailable(_UNTOLD) from None
            return known
        belonging = self._read(member, activity.sender.entra)
        self._people.put(user, belonging)
        if belonging.organization and not self._tenants.serves(frozenset({belonging.organization})):
            await self._tenants.report_unknown(frozenset({belonging.organization}))
        return belonging

    def _read(self, member: object, entra: str = "") -> Belonging:
        """Return how a member of a roster belongs.

        Whatever it does not clearly say makes a stranger.
        """
        if not isinstance(member, Mapping):
            return Belonging("", Standing.STRANGER)
        tenant, listed = str(member.get("tenantId") or ""), str(member.get("objectId") or "")
        elsewhere = bool(entra and listed) and entra.lower() != listed.lower()
        if elsewhere or not (tenant and self._tenants.serves(frozenset({tenant}))):
            return Belonging(tenant, Standing.STRANGER)
        return Belonging(tenant, _standing(member))

    async def _is_shared(self, here: Conversation) -> bool:
        """Return whether people of other organizations may read a place.

        Where that cannot be told, they may.
        """
        if here.personal or not self._signed:
            return False
        if here.threaded:
            return here.shared
        known = self._open_chats.get(here.id, FRESH_S)
        return await self._has_strangers(here) if known is None else known

    async def _has_strangers(self, here: Conversation) -> bool:
        try:
            members = await self._client.get(here.reference.service_url, _members(here))
        except Unavailable:
            return True
        listed = members if isinstance(members, list) else []
        shared = not listed or any(
            self._read(member).standing is Standing.STRANGER for member in listed
        )
        self._open_chats.put(here.id, shared)
        return shared


T = TypeVar("T")


class Recent(Generic[T]):
    """Keep values for a while, of which the last few thousand."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._kept: OrderedDict[str, tuple[float, T]] = OrderedDict()

    def get(self, key: str, age_s: float) -> T | None:
        """Return a value that is no older, None otherwise."""
        at_s, value = self._kept.get(key, (float("-inf"), None))
        return value if self._monotonic() - at_s <= age_s else None

    def put(self, key: str, value: T) -> None:
        """Keep a value, for the oldest one where there are too many."""
        self._kept.pop(key, None)
        self._kept[key] = (self._monotonic(), value)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)


def _members(here: Conversation) -> str:
    return f"/{quote(here.id, safe='')}/members"


def _standing(member: Mapping[str, Any]) -> Standing:
    """Return the standing of a person of a tenant that is served.

    An anonymous joiner of a meeting carries its tenant too.
    """
    role, name = (
        str(member.get("userRole") or "").lower(),
        str(member.get("userPrincipalName") or ""),
    )
    if role == "guest" or "#ext#" in name.lower():
        return Standing.GUEST
    return Standing.MEMBER if role == "user" or (not role and name) else Standing.STRANGER
