"""Choose which of Microsoft's SDKs carries the activities; the rest of the adapter knows neither."""

from __future__ import annotations

from typing import Protocol

from adapters.teams.activity import Activity, Delivery, Handle, InvokeAnswer
from adapters.teams.client import ConnectorClient
from adapters.teams.config import TeamsSdk


class Sdk(Protocol):
    """Carry activities that are verified and read, and messages that are drawn.

    In by turns, out by the client.
    """

    async def take(self, activity: Activity, handle: Handle) -> InvokeAnswer | None:
        """Let an activity be handled in a turn, and return the answer to a press."""
        ...

    async def send(self, delivery: Delivery) -> str:
        """Send or replace a message and return its id.

        Raise `Gone` or `Unavailable` as the client does.
        """
        ...


def open_sdk(name: TeamsSdk, client: ConnectorClient, app_id: str) -> Sdk:
    """Return an SDK by its name; it alone is imported."""
    if name is TeamsSdk.AGENTS:
        from adapters.teams.sdk_agents import Agents

        return Agents(client, app_id)
    from adapters.teams.sdk_botbuilder import Botbuilder

    return Botbuilder(client, app_id)
