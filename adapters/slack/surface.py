"""Put the parts together: one Slack app that listens and speaks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from aiohttp import web
from slack_bolt.adapter.aiohttp import to_aiohttp_response, to_bolt_request
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult

from adapters.slack.auth import Installations, InstallPages, OAuthApp
from adapters.slack.charts import ChartUploader
from adapters.slack.client import explained, open_client, sdk_logger
from adapters.slack.listener import Listener, Tasks
from adapters.slack.pace import Pace
from adapters.slack.people import Members
from adapters.slack.responder import Responder
from adapters.slack.sender import Sender
from adapters.slack.workspaces import Workspace, Workspaces
from bot.cards.card import Card
from bot.errors import Refused, WrongInput
from bot.model.delays import Delays
from bot.ports import Answer, Clock, CommandHint, DocumentStore, Draw, IdempotencyKeys
from bot.ports.seen import Deduplicator

EVENTS_PATH = "/slack/events"
_log = logging.getLogger("trnbot.slack")


class SlackSurface:
    """Be `bot.ports.Surface` and `bot.ports.Listener` for one workspace, or for those that install the app by OAuth.

    With an app token it connects out (Socket Mode, no public address needed); without one it serves signed HTTP.
    With a client id instead of a bot token, `workspaces` may install; an address without a workspace means the first of them.
    Raises `WrongInput` when neither way is possible.
    """

    def __init__(
        self,
        *,
        bot_token: str,
        app_token: str,
        signing_secret: str,
        api_url: str,
        answer: Answer,
        clock: Clock,
        draw: Draw,
        shelf: DocumentStore,
        turnstile: IdempotencyKeys,
        hints: Sequence[CommandHint],
        client_id: str = "",
        client_secret: str = "",
        workspaces: Sequence[str] = (),
        public_url: str = "",
        interval_s: float = 1.0,
    ) -> None:
        _check(bot_token, client_id, app_token, signing_secret)
        self.delays = Delays()
        self._app_token, self._public_url, self._api_url = app_token, public_url, api_url
        self._parts = (draw, shelf, answer, clock, interval_s)
        self._installs = Installations(shelf) if client_id else None
        self._workspaces = Workspaces(self._open, token=bot_token, installs=self._installs, served=workspaces)
        self._tasks = Tasks()
        self._app = self._bolt(signing_secret)
        self._socket: AsyncSocketModeHandler | None = None
        Listener(self._workspaces.of, hints, Deduplicator(turnstile, "slack.seen"), self._tasks, self._installs).register(
            self._app
        )
        self._installing: Sequence[Any] = ()
        if self._installs:
            oauth = OAuthApp(client_id, client_secret, public_url, tuple(workspaces))
            self._installing = InstallPages(oauth, open_client("", api_url, self.delays), self._installs, turnstile).routes()

    def _open(self, token: str, prefix: str) -> Workspace:
        """Return what speaks in one workspace."""
        draw, shelf, answer, clock, interval_s = self._parts
        client = open_client(token, self._api_url, self.delays)
        pace = Pace(interval_s, self.delays)
        pictures = ChartUploader(open_client(token, self._api_url, None), draw, shelf, pace)
        sender = Sender(client, pictures, pace, patience_s=interval_s)
        desk = Responder(client, sender, pictures, answer, clock, self.delays, prefix, patience_s=interval_s / 2)
        return Workspace(token, prefix, client, sender, desk, Members(client))

    def _bolt(self, signing_secret: str) -> AsyncApp:
        """Return bolt's app; of several workspaces, it asks for the token of each request's own."""
        common: dict[str, Any] = {"signing_secret": signing_secret, "logger": sdk_logger(), "name": "trnbot"}
        if self._installs is None:
            return AsyncApp(client=self._workspaces.opened()[0].client, **common)

        async def authorize(enterprise_id: str | None, team_id: str | None) -> Any:  # bolt takes no method for this
            try:
                found = await self._workspaces.of(team_id or "")
            except Refused:
                return None
            return AuthorizeResult(enterprise_id=enterprise_id, team_id=team_id, bot_token=found.token)

        sentence = "trnbot is not installed in this workspace; ask its operator for the address to install it."
        client = open_client("", self._api_url, self.delays)
        return AsyncApp(client=client, authorize=authorize, user_facing_authorize_error_message=sentence, **common)

    async def post(self, channel: str, card: Card, key: str) -> str:
        """Send a new message and return its timestamp; `key` travels as metadata and as a block id."""
        there, place = await self._workspaces.at(channel)
        return await there.sender.post(place, there.own(card), key)

    async def edit(self, channel: str, message: str, card: Card, key: str) -> str:
        """Replace a message; returns a new timestamp when the old one was deleted and it was posted fresh."""
        there, place = await self._workspaces.at(channel)
        return await there.sender.edit(place, message, there.own(card), key)

    async def reply(self, channel: str, message: str, card: Card) -> None:
        """Add to the message's thread."""
        there, place = await self._workspaces.at(channel)
        await there.sender.post(place, there.own(card), thread=message)

    async def find(self, channel: str, key: str) -> str:
        """Return the message posted with `key` among the channel's last few hundred, else ""."""
        there, place = await self._workspaces.at(channel)
        return await there.sender.find(place, key)

    async def belongs(self, user: str, group: str) -> bool:
        """Tell whether a person is in a user group (`S0123`, `T2/S0123`) of their own workspace, or one of its `admins`."""
        (home, _, person), (there, _, name) = user.rpartition("/"), group.rpartition("/")
        if home != there or not person.startswith(("U", "W")):
            return False
        return await (await self._workspaces.at(user))[0].members.belongs(person, name)

    def routes(self) -> Sequence[Any]:
        """Return the signed events route (none in Socket Mode) and the pages of an installation (none of a bot token)."""
        return [*([] if self._app_token else [web.post(EVENTS_PATH, self._serve)]), *self._installing]

    async def start(self) -> None:
        """Connect by Socket Mode; raise `Unavailable` when Slack refuses. Over HTTP there is nothing to connect."""
        if not self._app_token:
            where = (
                f"{self._public_url.rstrip('/')}{EVENTS_PATH}" if self._public_url else f"a public address ending {EVENTS_PATH}"
            )
            _log.info("Slack must reach %s; set SLACK_APP_TOKEN to need no public address", where)
            return
        self._socket = AsyncSocketModeHandler(self._app, self._app_token, logger=sdk_logger())
        async with explained():
            await self._app.client.apps_connections_open(app_token=self._app_token)  # connect() below retries refusals for ever
            await self._socket.client.connect()  # type: ignore[no-untyped-call]  # slack_sdk has no types here

    async def stop(self) -> None:
        """Stop listening, then finish the answers under way."""
        if self._socket is not None:
            await self._socket.client.close()  # type: ignore[no-untyped-call]  # slack_sdk has no types here
            self._socket = None
        await self._tasks.drain()

    async def _serve(self, request: web.Request) -> web.Response:
        """Hand one HTTP request to bolt, which checks signature and age."""
        try:
            return await to_aiohttp_response(await self._app.async_dispatch(await to_bolt_request(request)))
        except (ValueError, TypeError, AttributeError, LookupError) as error:  # bolt reads what is no payload of Slack so
            _log.info("not a request of Slack: %s", type(error).__name__)
            return web.Response(status=400, text="This is not a request of Slack.")


def _check(bot_token: str, client_id: str, app_token: str, signing_secret: str) -> None:
    if not client_id and not bot_token.startswith("xox"):
        raise WrongInput("SLACK_BOT_TOKEN is missing or no bot token; copy it from the app's page, it begins with xoxb-.")
    if app_token and not app_token.startswith("xapp-"):
        raise WrongInput("SLACK_APP_TOKEN is no app token; it begins with xapp- and needs the scope connections:write.")
    if not app_token and not signing_secret:
        raise WrongInput("Set SLACK_APP_TOKEN for Socket Mode, or SLACK_SIGNING_SECRET to serve Slack's requests over HTTP.")
