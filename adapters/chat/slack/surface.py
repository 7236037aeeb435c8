"""Join the parts of the Slack app: it listens to people, and posts and edits messages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web
from slack_bolt.adapter.aiohttp import to_aiohttp_response
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp, AsyncBoltRequest
from slack_bolt.authorization import AuthorizeResult

from adapters.chat.config import SlackConfig
from adapters.chat.slack.auth import Installations, InstallPages, signed_body
from adapters.chat.slack.belonging import Belongings, Members
from adapters.chat.slack.client import Client, Pace, explained, log, sdk_log
from adapters.chat.slack.listener import EventListener, Workspace, Workspaces
from adapters.chat.slack.pictures import ChartUploader
from adapters.chat.slack.responder import Responder
from adapters.chat.slack.sender import Sender
from adapters.chat.work import Refusal
from bot.cards.card import Card
from bot.errors import Refused
from bot.model.notification import Delays
from bot.ports import ChatPorts, Deduplicator

EVENTS_PATH = "/slack/events"


class SlackSurface:
    """Implement `bot.ports.Surface` and `bot.ports.Listener`, for one workspace or for many.

    With an app token it connects out (Socket Mode, no public address needed); without one it serves
    signed HTTP. With a client id instead of a bot token, the workspaces of the configuration may
    install the app by OAuth.
    """

    def __init__(self, config: SlackConfig, ports: ChatPorts) -> None:
        self.delays = Delays()
        self._config, self._ports = config, ports
        self._installs = Installations(ports.documents) if config.client_id else None
        self._workspaces = Workspaces(
            self._open, token=config.bot_token, installs=self._installs, served=config.workspaces
        )
        self._app = self._bolt()
        self._socket: AsyncSocketModeHandler | None = None
        self._answering: asyncio.Task[None] | None = None
        self._listener = EventListener(
            self._workspaces.of, ports, Deduplicator(ports.keys, "slack.seen"), self._installs
        )
        self._listener.register(self._app)

    def _open(self, token: str, team: str, prefix: str) -> Workspace:
        """Return the parts that post and answer in one workspace."""
        config, ports = self._config, self._ports
        client, pace = self._client(token), Pace(config.interval_s, self.delays)

        # Whoever sends waits: an alert's delivery not at all.
        sending = Client(token, config.api_url, None)
        charts = ChartUploader(sending, ports.draw, ports.documents, pace)
        sender = Sender(sending, charts, pace, upload_delay_s=config.interval_s)

        responder = Responder(
            client,
            sender,
            ports,
            prefix,
            modal_delay_s=config.interval_s / 2,
            public_url=config.public_url,
        )
        belongings = Belongings(sending, team, prefix, config.workspaces)
        return Workspace(token, prefix, client, sender, responder, Members(client), belongings)

    def _client(self, token: str = "") -> Client:
        return Client(token, self._config.api_url, self.delays)

    def _bolt(self) -> AsyncApp:
        """Return bolt's app; of several workspaces, it asks for the token of each request's own."""
        common: dict[str, Any] = {
            "signing_secret": self._config.signing_secret,
            "logger": sdk_log,
            "name": "trnbot",
            # `_serve` verifies before bolt parses, and logs no body.
            "request_verification_enabled": False,
            "user_facing_authorize_error_message": "trnbot is not installed in this workspace,"
            " or not any more; ask its operator to install it.",
        }
        if self._installs is None:
            return AsyncApp(client=self._workspaces.opened()[0].client, **common)

        # Bolt takes no method for this.
        async def authorize(enterprise_id: str | None, team_id: str | None) -> Any:
            try:
                workspace = await self._workspaces.of(team_id or "")
            except Refused:
                return None
            return AuthorizeResult(
                enterprise_id=enterprise_id, team_id=team_id, bot_token=workspace.token
            )

        return AsyncApp(
            client=self._client(),
            authorize=authorize,
            **common,
        )

    async def post(self, channel: str, card: Card, key: str) -> str:
        """Send a new message and return its timestamp.

        `key` travels as metadata and as a block id.
        """
        workspace, place = await self._workspaces.at(channel)
        sent = await workspace.sender.post(place, workspace.localized(card), key)
        self._listener.tasks.spawn(workspace.belongings.warn_of_readers(place))
        return sent

    async def edit(self, channel: str, message: str, card: Card, key: str) -> str:
        """Replace a message.

        Returns a new timestamp when the old one was deleted and it was posted fresh.
        """
        workspace, place = await self._workspaces.at(channel)
        return await workspace.sender.edit(place, message, workspace.localized(card), key)

    async def reply(self, channel: str, message: str, card: Card, key: str) -> str:
        """Add to the message's thread and return the line's timestamp.

        `key` travels with it as with a message.
        """
        workspace, place = await self._workspaces.at(channel)
        return await workspace.sender.post(place, workspace.localized(card), key, thread=message)

    async def posted(self, channel: str, thread: str = "") -> Mapping[str, str]:
        """Return the last few hundred messages, or lines in `thread`, by their keys."""
        workspace, place = await self._workspaces.at(channel)
        return await workspace.sender.posted(place, thread)

    async def belongs(self, user: str, group: str) -> bool:
        """Return whether a person is in a group of their own workspace.

        A user group (`S0123`, `T2/S0123`), or its `admins`.
        """
        (home, _, person), (workspace, _, name) = user.rpartition("/"), group.rpartition("/")
        if home != workspace or not person.startswith(("U", "W")):
            return False
        return await (await self._workspaces.at(user))[0].members.belongs(person, name)

    async def name(self, user: str) -> str:
        """Return the name of a person who belongs to a workspace (`U0123`, `T2/U0123`), else ""."""
        workspace, person = await self._workspaces.at(user)
        return await workspace.belongings.name(person)

    def routes(self) -> Sequence[Any]:
        """Return the route of signed events and the pages of an installation.

        None of events in Socket Mode, no pages with a bot token.
        """
        events = [] if self._config.app_token else [web.post(EVENTS_PATH, self._serve)]
        if self._installs is None:
            return events
        pages = InstallPages(self._config, self._client(), self._installs, self._ports.keys)
        return [*events, *pages.routes()]

    async def start(self) -> None:
        """Connect by Socket Mode; raise `Unavailable` when Slack refuses.

        Over HTTP there is nothing to connect.
        """
        if self._answering is None:
            self._answering = asyncio.create_task(self._listener.answer_left())
        app_token, base = self._config.app_token, self._config.public_url.rstrip("/")
        if not app_token:
            where = f"{base}{EVENTS_PATH}" if base else f"a public address ending {EVENTS_PATH}"
            log.info("Slack must reach %s; set SLACK_APP_TOKEN to need no public address", where)
            return

        self._socket = AsyncSocketModeHandler(self._app, app_token, logger=sdk_log)
        async with explained():
            # connect() below retries refusals for ever.
            await self._app.client.apps_connections_open(app_token=app_token)
            await self._socket.client.connect()  # type: ignore[no-untyped-call]  # has no types

    async def stop(self) -> None:
        """Stop listening, then finish the answers under way."""
        if self._answering is not None:
            self._answering.cancel()
        if self._socket is not None:
            await self._socket.client.close()  # type: ignore[no-untyped-call]  # has no types
            self._socket = None
        await self._listener.tasks.drain()

    async def _serve(self, request: web.Request) -> web.Response:
        """Hand one HTTP request to bolt, once signature and age are checked.

        Of a refused one, nothing is logged but why.
        """
        try:
            body = await signed_body(request, self._config.signing_secret)
            # The other headers are not signed.
            signed = AsyncBoltRequest(body=body, headers={"content-type": request.content_type})
            return await to_aiohttp_response(await self._app.async_dispatch(signed))
        except Refusal as refusal:
            log.warning("a request to %s was refused: %s", EVENTS_PATH, refusal)
            return web.Response(status=refusal.status, text=refusal.sentence)
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
            # Bolt reads what is no payload so.
            log.warning("not a request of Slack: %s", type(error).__name__)
            return web.Response(status=400, text="This is not a request of Slack.")
