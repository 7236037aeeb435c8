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
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from adapters.chat.teams.activity import Activity
from adapters.chat.teams.client import ConnectorClient, Gone
from adapters.chat.teams.conversations import Conversation, Conversations, conversation_of
from adapters.chat.work import Monotonic, Recent
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
_UNTOLD = (
    "Microsoft Teams did not say which organization you belong to, so nothing was read or changed;"
    " try again in a minute."
)
_UNLISTED = (
    "Microsoft Teams does not list you in this conversation, so nothing was read or changed;"
    " ask the bot in a personal chat."
)


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
                f"Teams tenant {name} wrote to the bot and was refused;"
                " TRNBOT_TEAMS_TENANTS lists who is served."
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
        monotonic: Monotonic = time.monotonic,
    ) -> None:
        self.conversations = conversations
        self._tenants, self._client, self._signed = tenants, client, signed
        self._people = Recent[Belonging](monotonic, _KEPT)
        self._emails = Recent[str](monotonic, _KEPT)
        self._open_chats = Recent[bool](monotonic, _KEPT)

    async def admit(self, activity: Activity) -> tuple[Conversation, Belonging]:
        """Return the place and how the sender belongs.

        Raise `NotAllowed` for a stranger, `Unavailable` where it is not told.
        """
        belonging = await self._judge(activity)
        if belonging.standing is Standing.STRANGER:
            await self.conversations.open_to_others(conversation_of(activity).id)
            raise NotAllowed(NOT_SERVED)
        place = await self.conversations.learn(activity)
        return place, replace(belonging, shared=await self._is_shared(place))

    def email(self, user: str) -> str:
        """Return the e-mail address of a person who was admitted, "" where it was not told."""
        return self._emails.get(user) or ""

    async def name(self, user: str) -> str:
        """Return the name of a person of a conversation that the bot is in.

        "" for a stranger or nobody. Raise `Unavailable`.
        """
        near = await self.conversations.near(user)
        for place in dict.fromkeys((near, *(await self.conversations.channels())[:_ROSTERS])):
            try:
                member = await self._roster(place, user)
            except Gone:
                continue
            stranger = self._read(member).standing is Standing.STRANGER
            return "" if self._signed and stranger else str(member.get("name") or user)
        return "" if self._signed else user  # development: not every client lists people

    async def _judge(self, activity: Activity) -> Belonging:
        """Return how the sender belongs, from memory for an hour, else by the roster.

        While that does not answer, who was known stays so.
        """
        if not self._signed:  # development: this machine alone is let in
            return LOCAL
        if not self._tenants.serves(activity.tenants):
            return Belonging("", Standing.STRANGER)
        user, place = activity.sender.id, conversation_of(activity)
        if fresh := self._people.get(user, FRESH_S):
            return fresh

        try:
            member = await self._roster(place, user)
        except Gone:
            raise NotAllowed(_UNLISTED) from None
        except Unavailable:
            stale = self._people.get(user, STALE_S)
            if stale is None or stale.standing is Standing.STRANGER:
                raise Unavailable(_UNTOLD) from None
            return stale

        belonging = self._read(member, activity.sender.entra)
        self._people.put(user, belonging)
        self._emails.put(user, _email_of(member))
        organization = frozenset({belonging.organization} - {""})
        if organization and not self._tenants.serves(organization):
            await self._tenants.report_unknown(organization)
        return belonging

    def _read(self, member: object, entra: str = "") -> Belonging:
        """Return how a member of a roster belongs.

        Whatever it does not clearly say makes a stranger.
        """
        if not isinstance(member, Mapping):
            return Belonging("", Standing.STRANGER)
        tenant, listed, role, name = (
            str(member.get(key) or "")
            for key in ("tenantId", "objectId", "userRole", "userPrincipalName")
        )
        elsewhere = bool(entra and listed) and entra.lower() != listed.lower()
        if elsewhere or not (tenant and self._tenants.serves(frozenset({tenant}))):
            return Belonging(tenant, Standing.STRANGER)

        # An anonymous joiner of a meeting carries its tenant too.
        if role.lower() == "guest" or "#ext#" in name.lower():
            return Belonging(tenant, Standing.GUEST)
        is_member = role.lower() == "user" or (not role and name)
        return Belonging(tenant, Standing.MEMBER if is_member else Standing.STRANGER)

    async def _is_shared(self, place: Conversation) -> bool:
        """Return whether people of other organizations may read a place.

        Where that cannot be told, they may.
        """
        if place.personal or not self._signed:
            return False
        if place.threaded:
            return place.shared

        async def ask() -> bool:
            members = await self._roster(place)
            listed = members if isinstance(members, list) else []
            return not listed or Standing.STRANGER in {self._read(x).standing for x in listed}

        try:
            return await self._open_chats.of(place.id, FRESH_S, ask)
        except Unavailable:
            return True

    async def _roster(self, place: Conversation, user: str = "") -> Any:
        """Return the members of a place, or the one of this id, {} for what is none."""
        path = f"/{quote(place.id, safe='')}/members"
        path += f"/{quote(user, safe='')}" if user else ""
        members = await self._client.get(place.reference.service_url, path)
        return members if isinstance(members, Mapping) or not user else {}


def _email_of(member: Mapping[str, Any]) -> str:
    """Return the e-mail address that a roster tells of a member, in small letters.

    An organization of Entra names people by an address too, which a guest's is not.
    """
    email = str(member.get("email") or member.get("userPrincipalName") or "").lower()
    return "" if "#ext#" in email else email
