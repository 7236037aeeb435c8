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
        self._answers: dict[str, tuple[float, frozenset[str]]] = {}

    async def belongs(self, user: str, group: str) -> bool:
        """Return whether a person is in a user group (`S0123`) or one of `admins`.

        Raise `Unavailable` when Slack fails.
        """
        if _GROUP.fullmatch(group):
            return user in await self._fresh(group, lambda: self._members(group))
        if group == ADMINS:
            return user in await self._fresh(f"{ADMINS} {user}", lambda: self._admin(user))
        return False

    async def _fresh(
        self, key: str, ask: Callable[[], Awaitable[frozenset[str]]]
    ) -> frozenset[str]:
        asked_s, people = self._answers.get(key, (float("-inf"), frozenset[str]()))
        if self._monotonic() - asked_s > FRESH_S:
            async with explained():
                people = await ask()
            self._answers[key] = (self._monotonic(), people)
        return people

    async def _members(self, group: str) -> frozenset[str]:
        answer: Any = await self._client.usergroups_users_list(usergroup=group)
        return frozenset(map(str, answer.get("users") or ()))

    async def _admin(self, user: str) -> frozenset[str]:
        answer: Any = await self._client.users_info(user=user)
        profile = answer.get("user") or {}
        is_admin = (profile.get("is_admin") or profile.get("is_owner")) and not profile.get(
            "deleted"
        )
        return frozenset({user} if is_admin else ())
