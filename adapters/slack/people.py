"""Tell who is in a user group, or an admin of the workspace; Slack is asked once in five minutes."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.client import explained

ADMINS = "admins"
"""Names the admins and owners of the workspace, where the id of a user group could stand."""
FRESH_S = 300.0
_GROUP = re.compile(r"S[A-Z0-9]+")
Monotonic = Callable[[], float]


class Members:
    """Ask one workspace who is in what, and remember the answer for `FRESH_S`."""

    def __init__(self, client: AsyncWebClient, monotonic: Monotonic = time.monotonic) -> None:
        self._client, self._monotonic = client, monotonic
        self._known: dict[str, tuple[float, frozenset[str]]] = {}

    async def belongs(self, user: str, group: str) -> bool:
        """Return whether a person is in a user group (`S0123`) or one of `admins`; raise `Unavailable` when Slack fails."""
        if _GROUP.fullmatch(group):
            return user in await self._fresh(group, lambda: self._members(group))
        if group == ADMINS:
            return user in await self._fresh(f"{ADMINS} {user}", lambda: self._admin(user))
        return False

    async def _fresh(self, key: str, ask: Callable[[], Awaitable[frozenset[str]]]) -> frozenset[str]:
        asked, found = self._known.get(key, (float("-inf"), frozenset[str]()))
        if self._monotonic() - asked > FRESH_S:
            async with explained():
                found = await ask()
            self._known[key] = (self._monotonic(), found)
        return found

    async def _members(self, group: str) -> frozenset[str]:
        answer: Any = await self._client.usergroups_users_list(usergroup=group)
        return frozenset(map(str, answer.get("users") or ()))

    async def _admin(self, user: str) -> frozenset[str]:
        answer: Any = await self._client.users_info(user=user)
        found = answer.get("user") or {}
        may = (found.get("is_admin") or found.get("is_owner")) and not found.get("deleted")
        return frozenset({user} if may else ())
