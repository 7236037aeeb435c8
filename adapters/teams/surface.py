"""Join the parts of the bot on Microsoft Teams: one HTTP route in, the Bot Connector out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aiohttp import web

from adapters.teams.activity import Message
from adapters.teams.belonging import Belongings, Tenants
from adapters.teams.client import Anonymous, AppSecret, ConnectorClient, Credentials, Gone
from adapters.teams.config import TeamsConfig
from adapters.teams.conversations import Conversation, Conversations
from adapters.teams.listener import ActivityListener
from adapters.teams.people import Owners
from adapters.teams.receiver import ActivityReceiver
from adapters.teams.render import ALERT_BYTES
from adapters.teams.responder import Responder
from adapters.teams.sdk import open_sdk
from adapters.teams.sender import Sender, message_of
from bot.cards.card import Card
from bot.ports import ChatPorts, Deduplicator, Tell

PATH = "/api/messages"


class TeamsSurface:
    """Post and edit (`post`, `edit`, `reply`, `find`) and listen (`routes`, `start`, `stop`).

    The first message of a tenant that is not served is reported by `tell`.
    """

    def __init__(self, config: TeamsConfig, ports: ChatPorts, tell: Tell) -> None:
        self._config, self._draw = config, ports.draw
        self._client = ConnectorClient(_bot_credentials(config), config.serves)
        self.delays = self._client.delays
        self._conversations = Conversations(ports.documents, self._client.open)
        self._owners = Owners(
            config.cloud.graph, _graph_credentials(config), self._conversations.people
        )
        tenants = Tenants(config.served_tenants, ports.keys, tell)
        belongings = self._belongings = Belongings(
            self._conversations, tenants, self._client, signed=bool(config.app_id)
        )
        sdk = open_sdk(config.sdk, self._client, config.app_id)
        self._sender = Sender(sdk)
        self._responder = Responder(ports, belongings, self._sender, config.answer_timeout_s)
        seen = Deduplicator(ports.keys, "teams.seen")
        self._listener = ActivityListener(belongings, self._responder, ports.hints, seen)
        self._receiver = ActivityReceiver(config, tenants, self._listener, sdk)

    async def belongs(self, user: str, group: str) -> bool:
        """Return whether a person owns the team that `owners:TEAM-ID` names.

        Raise `Unavailable` when Microsoft does not tell.
        """
        return await self._owners.belongs(user, group)

    async def name(self, user: str) -> str:
        """Return the name of a person who reads where the bot is, by their id of Teams or of Microsoft Entra; "" for nobody."""
        return await self._belongings.name(user)

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the one route Teams calls."""
        return [web.post(PATH, self._receiver.receive)]

    async def start(self) -> None:
        """Do nothing: Teams calls."""

    async def stop(self) -> None:
        """Finish the answers under way and close the connection."""
        await self._responder.drain()
        await self._client.close()

    async def post(self, channel: str, card: Card, key: str) -> str:
        """Send a new message and return its id; raise `Unavailable` where the bot is not known."""
        where = await self._reach(channel)
        posted = await self._sender.send(where, await self._message(card))
        if key:
            await self._conversations.keep_message(where.id, key, posted)
        return posted

    async def edit(self, channel: str, message: str, card: Card, key: str) -> str:
        """Replace a message; post it fresh when it was deleted."""
        where = await self._reach(channel)
        try:
            await self._sender.replace(where, message, await self._message(card))
        except Gone:
            return await self.post(channel, card, key)
        return message

    async def reply(self, channel: str, message: str, card: Card, key: str) -> str:
        """Add to a message's thread and return the line's id.

        In a chat without threads, add to the chat.
        """
        where = await self._reach(channel)
        line = await self._sender.send(where, await self._message(card), message)
        if key:
            await self._conversations.keep_message(where.id, key, line)
        return line

    async def find(self, channel: str, key: str, thread: str = "") -> str:  # noqa: ARG002 - keys are kept by conversation
        """Return the message or the line posted with `key`.

        From memory, for Teams lets a bot read no history.
        """
        return await self._conversations.message((await self._reach(channel)).id, key)

    async def _reach(self, address: str) -> Conversation:
        return await self._conversations.reach(address)

    async def _message(self, card: Card) -> Message:
        return await message_of(card, self._draw, budget=ALERT_BYTES, stands=True)


def _bot_credentials(config: TeamsConfig) -> Credentials:
    """Return the credentials for the Bot Connector, none in development."""
    return (
        AppSecret(config.cloud, config.app_id, config.app_password, config.tenant_id)
        if config.app_id
        else Anonymous()
    )


def _graph_credentials(config: TeamsConfig) -> Credentials:
    """Return the credentials for Microsoft Graph, which needs the tenant to sign in at."""
    if not config.tenant_id:
        return Anonymous()
    graph = replace(config.cloud, scope=config.cloud.graph)
    return AppSecret(graph, config.app_id, config.app_password, config.tenant_id)
