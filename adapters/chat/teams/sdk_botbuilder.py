"""Carry activities by botbuilder 4.17, which Microsoft supported until 2025-12-31: the default."""

from __future__ import annotations

from typing import Any

from botbuilder.core import TurnContext
from botbuilder.integration.aiohttp import CloudAdapter
from botbuilder.schema import Activity, Attachment, ConversationReference, ResourceResponse
from botframework.connector.auth import (
    AuthenticateRequestResult,
    BotFrameworkAuthentication,
    ClaimsIdentity,
    ConnectorFactory,
)

from adapters.chat.teams import activity as ours
from adapters.chat.teams.client import Connector, ConnectorClient


class Botbuilder:
    """Take turns and send by botbuilder's `CloudAdapter`."""

    def __init__(self, client: ConnectorClient, app_id: str) -> None:
        self._app_id = app_id
        self._authentication = _Verified(client)
        self._adapter = CloudAdapter(self._authentication)

    async def take(self, activity: ours.Activity, handle: ours.Handle) -> ours.InvokeAnswer | None:
        """Let an activity be handled in a turn, and return the answer to a press."""
        answers: list[ours.InvokeAnswer | None] = []

        async def turn(_: TurnContext) -> None:
            answers.append(await handle(activity))

        await self._adapter.process_activity(
            self._authentication.trust(self._adapter.create_claims_identity(self._app_id)),
            Activity().deserialize(activity.document()),
            turn,
        )
        return answers[0]

    async def send(self, delivery: ours.Delivery) -> str:
        """Send or replace a message and return its id."""
        sent = [delivery.replaces]

        async def turn(context: TurnContext) -> None:
            # Its card goes as it is.
            document = delivery.document()
            attachments = document.pop("attachments", ())
            activity = Activity().deserialize(document)
            activity.attachments = [
                Attachment(content_type=item["contentType"], content=item["content"])
                for item in attachments
            ] or None
            if delivery.replaces:
                await self._adapter.update_activity(context, activity)
            else:
                sent[0] = (await self._adapter.send_activities(context, [activity]))[0].id or ""

        await self._adapter.continue_conversation(
            ConversationReference().deserialize(delivery.reference.document()), turn, self._app_id
        )
        return sent[0]


class _Connectors(ConnectorFactory):  # type: ignore[misc]  # botbuilder ships no types
    """Make the connector of a service URL."""

    def __init__(self, client: ConnectorClient) -> None:
        self._client = client

    async def create(self, service_url: str, audience: str = "") -> Connector:  # noqa: ARG002
        """Return a connector."""
        return Connector(
            self._client, service_url, body=_body, made=lambda message: ResourceResponse(id=message)
        )


class _Verified(BotFrameworkAuthentication):  # type: ignore[misc]  # botbuilder ships no types
    """Give botbuilder's adapter the connectors of verified requests; it verifies none itself."""

    def __init__(self, client: ConnectorClient) -> None:
        self._client = client

    def trust(self, identity: ClaimsIdentity) -> AuthenticateRequestResult:
        """Return an identity as the adapter takes it."""
        result = AuthenticateRequestResult()
        result.claims_identity = identity
        result.connector_factory = _Connectors(self._client)
        return result

    async def authenticate_request(
        self,
        activity: Activity,  # noqa: ARG002
        auth_header: str,  # noqa: ARG002
    ) -> AuthenticateRequestResult:
        """Refuse: `TokenVerifier` comes first."""
        raise PermissionError("the request was not verified")

    async def authenticate_streaming_request(
        self,
        auth_header: str,  # noqa: ARG002
        channel_id_header: str,  # noqa: ARG002
    ) -> AuthenticateRequestResult:
        """Refuse: nothing streams here."""
        raise PermissionError("streaming is not offered")

    def create_connector_factory(self, claims_identity: ClaimsIdentity) -> ConnectorFactory:  # noqa: ARG002
        """Return the factory for messages that the bot begins."""
        return _Connectors(self._client)

    async def create_user_token_client(self, claims_identity: ClaimsIdentity) -> Any:  # noqa: ARG002
        """Return nothing: nobody signs in through the bot."""
        return None


def _body(activity: Activity) -> dict[str, Any]:
    """Return an activity as the service takes it, with the names that botbuilder's models lack.

    `isTargeted`, `tenantId`.

    Its card goes as it came: botbuilder takes 60 ms to copy one of 70 kB, in which nothing else
    runs.
    """
    cards, activity.attachments = activity.attachments, None
    body: dict[str, Any] = activity.serialize()
    if cards:
        body["attachments"] = [
            {"contentType": card.content_type, "content": card.content} for card in cards
        ]
    for part, model in (("recipient", activity.recipient), ("conversation", activity.conversation)):
        body[part] = body.get(part, {}) | dict((model and model.additional_properties) or {})
    return body
