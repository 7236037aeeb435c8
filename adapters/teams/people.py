"""Tell who owns a team, by Microsoft Graph (learn.microsoft.com, "List members of team", v1.0; read 2026-11-21)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import aiohttp

from adapters.teams.client import Credentials
from adapters.teams.conversations import Conversations
from bot.errors import Unavailable

FRESH_S = 300.0
_OWNERS = re.compile(r"owners:([0-9a-fA-F-]{36})")
_PAGES = 20
_TIMEOUT = aiohttp.ClientTimeout(total=10)
_HINT = "it needs the permission TeamMember.Read.Group of the app's package, or TeamMember.Read.All"


class Owners:
    """Ask Graph for the owners of a team, and remember them for `FRESH_S`."""

    def __init__(
        self, graph: str, credentials: Credentials, conversations: Conversations, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._graph, self._credentials, self._conversations, self._monotonic = graph, credentials, conversations, monotonic
        self._known: dict[str, tuple[float, frozenset[str]]] = {}

    async def belongs(self, user: str, group: str) -> bool:
        """Tell whether a person owns the team of `owners:TEAM-ID`; raise `Unavailable` when Graph does not tell."""
        found = _OWNERS.fullmatch(group)
        entra = (await self._conversations.person(user)).entra if found else ""
        return bool(found and entra) and entra.lower() in await self._owners(found[1].lower() if found else "")

    async def _owners(self, team: str) -> frozenset[str]:
        asked, found = self._known.get(team, (float("-inf"), frozenset[str]()))
        if self._monotonic() - asked > FRESH_S:
            found = await self._listed(team)
            self._known[team] = (self._monotonic(), found)
        return found

    async def _listed(self, team: str) -> frozenset[str]:
        url, owners = f"{self._graph}/v1.0/teams/{quote(team)}/members?$top=999", set[str]()
        headers = await self._credentials.header()
        try:
            async with aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=True) as session:
                for _ in range(_PAGES):
                    page = await _page(session, url, headers)
                    owners |= {str(one["userId"]).lower() for one in page["value"] if "owner" in one.get("roles", ())}
                    url = str(page.get("@odata.nextLink") or "")
                    if not url.startswith(f"{self._graph}/"):
                        break
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
            raise Unavailable(f"Microsoft Graph does not tell who owns the team ({type(error).__name__}); {_HINT}.") from None
        return frozenset(owners)


async def _page(session: aiohttp.ClientSession, url: str, headers: dict[str, str]) -> Any:
    async with session.get(url, headers=headers, raise_for_status=True, allow_redirects=False) as response:
        return await response.json(content_type=None)
