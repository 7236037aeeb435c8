"""Join the parts of the bot on Microsoft Teams: one HTTP route in, the Bot Connector out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from aiohttp import web
from botbuilder.integration.aiohttp import CloudAdapter
from botbuilder.schema import Activity

from adapters.teams.auth import RequestAuthentication, Tenants, first_tenant
from adapters.teams.client import TARGETED, Anonymous, AppSecret, ConnectorClient, Credentials, Gone
from adapters.teams.config import TeamsConfig, is_loopback, on_loopback
from adapters.teams.conversations import Conversation, Conversations, is_person
from adapters.teams.listener import ActivityListener
from adapters.teams.people import Owners
from adapters.teams.render import ALERT_BYTES, dumps
from adapters.teams.responder import Responder
from adapters.teams.sender import Sender, message_activity
from bot.cards.card import Card
from bot.errors import Unavailable
from bot.ports import ChatPorts, Deduplicator, Tell

log = logging.getLogger("trnbot.teams")

PATH = "/api/messages"


class _BadRequest(Exception):
    """Refuse a request before it is read any further."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


class TeamsSurface:
    """Post and edit (`post`, `edit`, `reply`, `find`) and listen (`routes`, `start`, `stop`).

    The first message of a tenant that is not served is reported by `tell`.
    """

    def __init__(self, config: TeamsConfig, ports: ChatPorts, tell: Tell) -> None:
        self._config, self._draw = config, ports.draw
        self._conversations = Conversations(ports.documents)
        self._tenants = Tenants(config.served_tenants, ports.keys, tell)
        self._owners = Owners(config.cloud.graph, _graph_credentials(config), self._conversations.people)
        self._client = ConnectorClient(_bot_credentials(config), config.serves)
        self.delays = self._client.delays
        self._adapter = CloudAdapter(RequestAuthentication(config, self._client))
        self._sender = Sender(self._adapter, config.app_id)
        self._responder = Responder(ports, self._conversations, self._sender, config.answer_timeout_s)
        self._listener = ActivityListener(
            self._conversations, self._responder, ports.hints, Deduplicator(ports.keys, "teams.seen")
        )

    async def belongs(self, user: str, group: str) -> bool:
        """Return whether a person owns the team that `owners:TEAM-ID` names; raise `Unavailable` when Microsoft does not tell."""
        return await self._owners.belongs(user, group)

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the one route Teams calls."""
        return [web.post(PATH, self._receive)]

    async def start(self) -> None:
        """Do nothing: Teams calls."""

    async def stop(self) -> None:
        """Finish the answers under way and close the connection."""
        await self._responder.drain()
        await self._client.close()

    async def post(self, channel: str, card: Card, key: str) -> str:
        """Send a new message and return its id; raise `Unavailable` where the bot is not known."""
        where = await self._reach(channel)
        posted = await self._sender.send(where, await self._activity(card))
        if key:
            await self._conversations.keep_message(where.id, key, posted)
        return posted

    async def edit(self, channel: str, message: str, card: Card, key: str) -> str:
        """Replace a message; post it fresh when it was deleted."""
        where = await self._reach(channel)
        try:
            await self._sender.replace(where, message, await self._activity(card))
        except Gone:
            return await self.post(channel, card, key)
        return message

    async def reply(self, channel: str, message: str, card: Card) -> None:
        """Add to a message's thread; in a chat without threads, to the chat."""
        where = await self._reach(channel)
        await self._sender.send(where, await self._activity(card), message)

    async def find(self, channel: str, key: str) -> str:
        """Return the message posted with `key`: from memory, for Teams lets a bot read no history."""
        return await self._conversations.message((await self._reach(channel)).id, key)

    async def _reach(self, address: str) -> Conversation:
        """Return a conversation, or the chat with a person, opened where there is none yet; raise `Unavailable`."""
        if not is_person(address):
            return await self._conversations.reach(address)
        person = await self._conversations.people.get(address)
        if person.personal and (chat := await self._conversations.get(person.personal)):
            return chat
        near = await self._conversations.near(address)
        tenant = str(near.reference.conversation.tenant_id or "")
        opened = await self._client.open(near.reference.service_url, near.reference.bot.id, address, tenant)
        return await self._conversations.keep_opened(address, opened, near)

    async def _activity(self, card: Card) -> Activity:
        return await message_activity(card, self._draw, budget=ALERT_BYTES, stands=True)

    async def _receive(self, request: web.Request) -> web.Response:
        """Take one activity: 400 for garbage, 401 for a bad token, 403 for a stranger, 503 without signing keys."""
        try:
            body, activity = await self._read(request)
            trusted = await self._adapter.bot_framework_authentication.authenticate_request(
                activity, request.headers.get("Authorization", "")
            )
            self._check_origin(activity)
            if not self._tenants.serves(body):
                return await self._refuse(body, activity)
        except _BadRequest as refused:
            return web.Response(status=refused.status, text=refused.why)
        except PermissionError:
            return web.Response(status=401, text="The request carries no valid token.")
        except Unavailable as error:
            log.warning("teams: %s", error)
            return web.Response(status=503, text="The signing keys could not be fetched; try again.")
        result = await self._adapter.process_activity(trusted, activity, self._listener.on_turn)
        if result is None:
            return web.Response(status=200)
        return web.Response(status=int(result.status), body=dumps(result.body), content_type="application/json")

    async def _read(self, request: web.Request) -> tuple[Any, Activity]:
        if not self._config.app_id and not (is_loopback(request.remote or "") and on_loopback(f"http://{request.host}")):
            raise _BadRequest(403, "Without an app id only this machine may call.")
        if request.content_type != "application/json":
            raise _BadRequest(415, "Send an activity as application/json.")
        try:
            body = await request.json()
            activity = Activity().deserialize(body)
            activity.additional_properties = {TARGETED: body["recipient"].get(TARGETED)}
        except Exception:  # msrest raises whatever a wrong type trips it into
            raise _BadRequest(400, "The body is no activity.") from None
        if not (activity.type and activity.conversation and activity.conversation.id and activity.recipient):
            raise _BadRequest(400, "The activity lacks its type, conversation or recipient.")
        activity.conversation.tenant_id = first_tenant(body)
        return body, activity

    async def _refuse(self, body: Any, activity: Activity) -> web.Response:
        """Answer a person of an unknown tenant, in words without data, that nobody there is served."""
        await self._tenants.report_unknown(body)
        if activity.type == "message":
            self._listener.refuse(activity)
        return web.Response(status=403, text="This tenant is not served.")

    def _check_origin(self, activity: Activity) -> None:
        """Refuse people without an id, and conversations that would be answered elsewhere."""
        if not self._config.serves(str(activity.service_url or "")):
            raise _BadRequest(403, "The service address is none of Microsoft's.")
        if not (activity.from_property and activity.from_property.id):
            raise _BadRequest(400, "The activity names no sender.")


def _bot_credentials(config: TeamsConfig) -> Credentials:
    """Return the credentials for the Bot Connector, none in development."""
    return AppSecret(config.cloud, config.app_id, config.app_password, config.tenant_id) if config.app_id else Anonymous()


def _graph_credentials(config: TeamsConfig) -> Credentials:
    """Return the credentials for Microsoft Graph, which needs the tenant to sign in at."""
    if not config.tenant_id:
        return Anonymous()
    graph = replace(config.cloud, scope=config.cloud.graph)
    return AppSecret(graph, config.app_id, config.app_password, config.tenant_id)
