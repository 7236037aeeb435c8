"""Speak and answer in each workspace by its own token, at its own pace."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.auth import Installations, split_address
from adapters.slack.people import Members
from adapters.slack.responder import Responder
from adapters.slack.sender import Sender
from bot.cards.card import Card, Mention
from bot.errors import Refused

_OTHERS = re.compile(r"slack:(T\w+/)?\w+")


@dataclass(frozen=True)
class Workspace:
    """Hold what speaks in one workspace."""

    token: str
    prefix: str
    """What tells its addresses from those of the first workspace: "" or `T123/`."""
    client: AsyncWebClient
    sender: Sender
    desk: Responder
    members: Members

    def __repr__(self) -> str:
        """Show no token."""
        return f"Workspace({self.prefix})"

    def own(self, card: Card) -> Card:
        """Return the card without pings of people of other workspaces: an id may mean somebody else here."""
        return replace(card, mentions=tuple(one for one in card.mentions if self._knows(one)))

    def _knows(self, one: Mention) -> bool:
        found = _OTHERS.fullmatch(one.user)
        return found is None or (found[1] or "") == self.prefix


Make = Callable[[str, str], Workspace]
"""Make a workspace of a bot token and the prefix of its addresses: "" for the first, `T123/` for others."""


class Workspaces:
    """Find the workspace of an address or a request: the only one of a token, or those that installed the app.

    `served` lists the workspaces that may install, the first of them the one that addresses without a workspace mean.
    """

    def __init__(self, make: Make, *, token: str = "", installs: Installations | None = None, served: Sequence[str] = ()) -> None:
        self._make, self._installs, self._served = make, installs, tuple(served)
        self._made: dict[str, Workspace] = {"": make(token, "")} if installs is None else {}

    async def of(self, team: str) -> Workspace:
        """Return a workspace; raise `Refused` where it did not install the app, or is not served."""
        if self._installs is None:
            return self._made[""]
        kept = await self._installs.of(team) if team in self._served else None
        if kept is None:
            self._made.pop(team, None)
            raise Refused(f"The app is not installed in Slack workspace {team}; open /slack/install of this bot there.")
        made = self._made.get(team)
        if made is None or made.token != kept.token:
            prefix = "" if team == self._served[0] else f"{team}/"
            made = self._made[team] = self._make(kept.token, prefix)
        return made

    async def at(self, address: str) -> tuple[Workspace, str]:
        """Return the workspace and the bare channel of an address such as `C02FIN` or `T123/C02FIN`."""
        team, channel = split_address(address, self._served)
        return await self.of(team), channel

    def opened(self) -> Sequence[Workspace]:
        """Return the workspaces that were spoken in or heard since the start."""
        return tuple(self._made.values())
