"""Remember the people who wrote to the bot, and ask Microsoft Graph who owns a team.

Source: learn.microsoft.com, "List members of team", v1.0; read 2026-11-21.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import aiohttp

from adapters.teams.client import Credentials
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
