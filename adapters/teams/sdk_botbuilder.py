"""Carry activities by botbuilder 4.17, which Microsoft supported until 2025-12-31: the default."""

from __future__ import annotations

from typing import Any

from botbuilder.core import InvokeResponse, TurnContext
from botbuilder.integration.aiohttp import CloudAdapter
from botbuilder.schema import (
    Activity,
    ActivityTypes,
    Attachment,
    ChannelAccount,
    ConversationAccount,
    ConversationReference,
    ResourceResponse,
)
from botframework.connector.auth import AuthenticateRequestResult, BotFrameworkAuthentication, ClaimsIdentity, ConnectorFactory

from adapters.teams import activity as ours
from adapters.teams.client import Connector, ConnectorClient


class Botbuilder:
    """Take turns and send by botbuilder's `CloudAdapter`."""

    def __init__(self, client: ConnectorClient, app_id: str) -> None:
        self._app_id = app_id
        self._authentication = _Verified(client)
        self._adapter = CloudAdapter(self._authentication)

    async def take(self, activity: ours.Activity, handle: ours.Handle) -> ours.InvokeAnswer | None:
        """Let an activity be handled in a turn, and return the answer to a press."""

        async def turn(context: TurnContext) -> None:
            answer = await handle(activity)
            if answer is not None:
                response = InvokeResponse(status=answer.status, body=answer.body)
                await context.send_activity(Activity(type=ActivityTypes.invoke_response, value=response))

        trusted = self._authentication.trust(self._adapter.create_claims_identity(self._app_id))
        result = await self._adapter.process_activity(trusted, _incoming(activity), turn)
        return None if result is None else ours.InvokeAnswer(int(result.status), result.body)

    async def send(self, delivery: ours.Delivery) -> str:
        """Send or replace a message and return its id."""
        made = [delivery.replaces]

        async def turn(context: TurnContext) -> None:
            activity = _outgoing(delivery)
            if delivery.replaces:
                await self._adapter.update_activity(context, activity)
            else:
                made[0] = (await self._adapter.send_activities(context, [activity]))[0].id or ""

        await self._adapter.continue_conversation(_reference(delivery.reference), turn, self._app_id)
        return made[0]


class _Connectors(ConnectorFactory):  # type: ignore[misc]  # botbuilder ships no types
    """Make the connector of a service URL."""

    def __init__(self, client: ConnectorClient) -> None:
        self._client = client

    async def create(self, service_url: str, audience: str = "") -> Connector:  # noqa: ARG002  # botbuilder passes both
        """Return a connector."""
        return Connector(self._client, service_url, body=_body, made=ResourceResponse)


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

    async def authenticate_request(self, activity: Activity, auth_header: str) -> AuthenticateRequestResult:  # noqa: ARG002
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


def _incoming(activity: ours.Activity) -> Activity:
    """Return the part of an activity that a turn takes."""
    return Activity(
        type=activity.type,
        id=activity.id or None,
        name=activity.name or None,
        channel_id=activity.channel_id or None,
        service_url=activity.service_url,
        from_property=_account(activity.sender),
        recipient=_account(activity.recipient),
        conversation=_place(activity.conversation),
    )


def _outgoing(delivery: ours.Delivery) -> Activity:
    message, there = delivery.message, delivery.reference
    place = ConversationAccount(
        id=delivery.conversation,
        conversation_type=there.conversation.kind or None,
        tenant_id=there.conversation.tenant or None,
    )
    made = Activity(
        type=ActivityTypes.message if message.card is not None else ActivityTypes.typing,
        id=delivery.replaces or None,
        summary=message.summary or None,
        attachments=[Attachment(content_type=ours.CARD, content=message.card)] if message.card is not None else None,
        reply_to_id=delivery.reply_to or None,
        channel_id=there.channel_id or None,
        locale=there.locale or None,
        service_url=there.service_url,
        from_property=_account(there.bot),
        recipient=_account(there.user),
        conversation=place,
    )
    made.additional_properties = {ours.TARGETED: True} if delivery.targeted else {}
    return made


def _body(activity: Activity) -> dict[str, Any]:
    """Return an activity as the service takes it; botbuilder's models know no mark of one recipient, and misspell the tenant."""
    body: dict[str, Any] = activity.serialize()
    tenant = body["conversation"].pop("tenantID", "")
    body["conversation"] |= {"tenantId": tenant} if tenant else {}
    body.get("recipient", {}).update(activity.additional_properties)
    return body


def _reference(reference: ours.Reference) -> ConversationReference:
    return ConversationReference(
        user=_account(reference.user),
        bot=_account(reference.bot),
        conversation=_place(reference.conversation),
        channel_id=reference.channel_id or None,
        locale=reference.locale or None,
        service_url=reference.service_url,
    )


def _account(account: ours.Account) -> ChannelAccount:
    return ChannelAccount(
        id=account.id, name=account.name or None, aad_object_id=account.entra or None, role=account.role or None
    )


def _place(place: ours.Place) -> ConversationAccount:
    return ConversationAccount(
        id=place.id, conversation_type=place.kind or None, tenant_id=place.tenant or None, is_group=place.is_group
    )
