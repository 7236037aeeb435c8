"""Keep which workspaces installed the app, each with its bot token, in the bot's own database."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.errors import Refused
from bot.ports import Shelf

SHELF = "slack.installations"
_ADDRESS = re.compile(r"(T\w+)/(.+)", re.DOTALL)


@dataclass(frozen=True)
class Installation:
    """Hold one workspace's installation; its token shows in no text made of it."""

    team: str
    name: str
    token: str
    bot_user: str
    by: str
    at: datetime
    scopes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Name the workspace alone."""
        return f"Installation({self.team})"


class Installs:
    """Read and write installations; the shelf may block, so each call runs in a thread."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def keep(self, made: Installation) -> None:
        """Write an installation over the workspace's one before."""
        document = {"name": made.name, "token": made.token, "bot_user": made.bot_user, "by": made.by}
        document |= {"at": made.at.isoformat(), "scopes": " ".join(made.scopes)}
        await asyncio.to_thread(self._shelf.put, SHELF, made.team, document)

    async def of(self, team: str) -> Installation | None:
        """Return the installation of a workspace, None where there is none (any more)."""
        document = await asyncio.to_thread(self._shelf.get, SHELF, team)
        return None if document is None else _installation(team, document)

    async def forget(self, team: str) -> None:
        """Drop the token of a workspace that removed the app."""
        await asyncio.to_thread(self._shelf.drop, SHELF, team)


def _installation(team: str, document: Mapping[str, Any]) -> Installation:
    name, token, bot_user, by, scopes = (str(document.get(key, "")) for key in ("name", "token", "bot_user", "by", "scopes"))
    return Installation(team, name, token, bot_user, by, datetime.fromisoformat(str(document["at"])), tuple(scopes.split()))


def split_address(address: str, workspaces: Sequence[str]) -> tuple[str, str]:
    """Return workspace and channel of `T123/C02FIN`; the first of `workspaces` where none is named, "" for the only one.

    Raises `Refused` for a workspace that is not among them.
    """
    found = _ADDRESS.fullmatch(address)
    if not found:
        return (workspaces[0] if workspaces else ""), address
    if workspaces and found[1] not in workspaces:
        raise Refused(f"Slack workspace {found[1]} is not served; add it to TRNBOT_SLACK_WORKSPACES.")
    return found[1], found[2]
