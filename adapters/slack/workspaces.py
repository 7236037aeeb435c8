"""Post and answer in each workspace by its own token, at its own pace."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from adapters.slack.auth import Installations, address_prefix, split_address
from adapters.slack.belonging import Belongings
from adapters.slack.client import Client
from adapters.slack.people import Members
from adapters.slack.responder import Responder
from adapters.slack.sender import Sender
from bot.cards.card import Card, Mention
from bot.errors import Refused

_ADDRESS = re.compile(r"slack:(T\w+/)?\w+")


@dataclass(frozen=True)
class Workspace:
    """Hold the parts that post and answer in one workspace."""

    token: str
    prefix: str
    """Tells its addresses from those of the first workspace: "" or `T123/`."""
    client: Client
    sender: Sender
    responder: Responder
    members: Members
    belongings: Belongings

    def __repr__(self) -> str:
        """Show no token."""
        return f"Workspace({self.prefix})"

    def own(self, card: Card) -> Card:
        """Return the card without pings of people of other workspaces.

        An id may mean somebody else here.
        """
        return replace(card, mentions=tuple(one for one in card.mentions if self._knows(one)))

    def _knows(self, one: Mention) -> bool:
        address = _ADDRESS.fullmatch(one.user)
        return address is None or (address[1] or "") == self.prefix


OpenWorkspace = Callable[[str, str, str], Workspace]
"""Open a workspace of a bot token, its id ("" for the only one) and the prefix of its addresses.

"" for the first, or `T123/`.
"""


class Workspaces:
    """Find the workspace of an address or a request.

    The only one of a token, or those that installed the app.

    `served` lists the workspaces that may install, the first of them the one that addresses without
    a workspace mean.
    """

    def __init__(
        self,
        open_workspace: OpenWorkspace,
        *,
        token: str = "",
        installs: Installations | None = None,
        served: Sequence[str] = (),
    ) -> None:
        self._open, self._installs, self._served = open_workspace, installs, tuple(served)
        self._opened: dict[str, Workspace] = (
            {"": open_workspace(token, "", "")} if installs is None else {}
        )

    async def of(self, team: str) -> Workspace:
        """Return a workspace; raise `Refused` where it did not install the app, or is not served."""
        if self._installs is None:
            return self._opened[""]
        installation = await self._installs.of(team) if team in self._served else None
        if installation is None:
            self._opened.pop(team, None)
            raise Refused(
                f"The app is not installed in Slack workspace {team}; open /slack/install of this bot there."
            )
        workspace = self._opened.get(team)
        if workspace is None or workspace.token != installation.token:
            workspace = self._opened[team] = self._open(
                installation.token, team, address_prefix(team, self._served)
            )
        return workspace

    async def at(self, address: str) -> tuple[Workspace, str]:
        """Return the workspace and the bare channel of an address such as `C02FIN` or `T123/C02FIN`."""
        team, channel = split_address(address, self._served)
        return await self.of(team), channel

    def opened(self) -> Sequence[Workspace]:
        """Return the workspaces that were posted to or heard from since the start."""
        return tuple(self._opened.values())
