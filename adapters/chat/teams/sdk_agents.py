"""Carry activities by the Microsoft 365 Agents SDK 1.9, botbuilder's successor.

The optional extra `agents`.
"""

from __future__ import annotations

from typing import Any

from microsoft_agents.activity import Activity, ConversationReference, ResourceResponse
from microsoft_agents.hosting.aiohttp import CloudAdapter
from microsoft_agents.hosting.core import ClaimsIdentity, TurnContext

from adapters.chat.teams import activity as ours
from adapters.chat.teams.client import Connector, ConnectorClient


class Agents:
    """Take turns and send by the SDK's `CloudAdapter`."""

    def __init__(self, client: ConnectorClient, app_id: str) -> None:
        self._app_id = app_id
        self._adapter = CloudAdapter(channel_service_client_factory=_Clients(client))
        self._adapter.on_turn_error = (
            None  # the SDK's own prints the failure, and posts its text to the conversation
        )

    async def take(self, activity: ours.Activity, handle: ours.Handle) -> ours.InvokeAnswer | None:
        """Let an activity be handled in a turn, and return the answer to a press."""
        answers: list[ours.InvokeAnswer | None] = []

        async def turn(_: TurnContext) -> None:
            answers.append(await handle(activity))

        await self._adapter.process_activity(
            self._adapter.create_claims_identity(self._app_id),
            Activity.model_validate(activity.document()),
            turn,
        )
        return answers[0]

    async def send(self, delivery: ours.Delivery) -> str:
        """Send or replace a message and return its id."""
        sent = [delivery.replaces]

        async def turn(context: TurnContext) -> None:
            activity = Activity.model_validate(delivery.document())
            if delivery.replaces:
                await self._adapter.update_activity(context, activity)
            else:
                sent[0] = (await self._adapter.send_activities(context, [activity]))[0].id or ""

        reference = ConversationReference.model_validate(delivery.reference.document())
        await self._adapter.continue_conversation(
            self._app_id, reference.get_continuation_activity(), turn
        )
        return sent[0]


class _Clients:
    """Give the SDK's adapter the connectors of verified requests, in place of its own."""

    def __init__(self, client: ConnectorClient) -> None:
        self._client = client

    async def create_connector_client(
        self,
        context: TurnContext | None,  # noqa: ARG002  # the SDK passes all of these
        claims_identity: ClaimsIdentity,  # noqa: ARG002
        service_url: str,
        *_: Any,
        **__: Any,
    ) -> Any:
        """Return the connector of a service URL; it names no id for a sign of typing."""
        return Connector(
            self._client,
            service_url,
            body=_body,
            made=lambda message: ResourceResponse(id=message) if message else ResourceResponse(),
        )

    async def create_user_token_client(self, *_: Any, **__: Any) -> Any:
        """Return a client of no tokens: nobody signs in through the bot."""
        return _NoTokens()


class _NoTokens:
    """Stand where the SDK closes a client after each turn."""

    async def close(self) -> None:
        """Do nothing."""


def _body(activity: Activity) -> dict[str, Any]:
    """Return an activity as the service takes it: the adapter sets the id of a new one to None."""
    document = activity.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return {name: value for name, value in document.items() if value is not None}
