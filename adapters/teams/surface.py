"""Be the bot on Microsoft Teams: one HTTP route in, the Bot Connector out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from aiohttp import web
from botbuilder.integration.aiohttp import CloudAdapter
from botbuilder.schema import Activity

from adapters.teams.auth import RequestAuthentication, UnknownTenants
from adapters.teams.client import Anonymous, AppSecret, ConnectorClient, Gone
from adapters.teams.config import PUBLIC, Cloud, is_loopback, on_loopback
from adapters.teams.conversations import TARGETED, Conversation, Conversations, is_person
from adapters.teams.listener import PATIENCE_S, Listener
from adapters.teams.manifest import by_worth
from adapters.teams.people import Owners
from adapters.teams.render import ALERT_BYTES, dumps
from adapters.teams.sender import Sender, message_activity
from bot.cards.card import Card
from bot.errors import Unavailable, WrongInput
from bot.ports import Answer, Clock, CommandHint, DocumentStore, Draw, IdempotencyKeys, Tell
from bot.ports.seen import Deduplicator

log = logging.getLogger("trnbot.teams")

PATH = "/api/messages"


class _Refused(Exception):
    """Refuse a request before it is read any further."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


class TeamsSurface:
    """Speak (`post`, `edit`, `reply`, `find`) and listen (`routes`, `start`, `stop`).

    An empty `app_id` means that nobody signs: allowed with `development` alone, and then for this machine alone.
    `tenants` are those served besides `tenant_id`, `*` for every one; another's message gets a refusal and no data, and the
    first of a tenant is told by `tell`.
    """

    def __init__(
        self,
        *,
        app_id: str,
        app_password: str,
        tenant_id: str,
        development: bool,
        answer: Answer,
        clock: Clock,
        draw: Draw,
        shelf: DocumentStore,
        hints: Sequence[CommandHint],
        turnstile: IdempotencyKeys,
        tell: Tell,
        tenants: Sequence[str] = (),
        cloud: Cloud = PUBLIC,
        patience_s: float = PATIENCE_S,
    ) -> None:
        _check(app_id, app_password, development)
        self._open = not app_id
        self._conversations = Conversations(shelf)
        listed = frozenset(t for t in (tenant_id, *tenants) if t)
        self._tenants = listed if app_id and "*" not in listed else None
        asks = AppSecret(replace(cloud, scope=cloud.graph), app_id, app_password, tenant_id) if tenant_id else Anonymous()
        self._owners = Owners(cloud.graph, asks, self._conversations)
        self._strangers = UnknownTenants(turnstile, tell)
        credentials = AppSecret(cloud, app_id, app_password, tenant_id) if app_id else Anonymous()
        self._wire = ConnectorClient(credentials, cloud.serves if app_id else on_loopback)
        self.delays = self._wire.delays
        self._serves = cloud.serves if app_id else on_loopback
        self._adapter = CloudAdapter(RequestAuthentication(cloud, app_id, self._wire))
        self._voice = Sender(self._adapter, app_id)
        self._draw = draw
        seen = Deduplicator(turnstile, "teams.seen")
        self._listener = Listener(answer, clock, draw, self._conversations, self._voice, by_worth(hints), seen, patience_s)

    async def belongs(self, user: str, group: str) -> bool:
        """Tell whether a person owns the team that `owners:TEAM-ID` names; raise `Unavailable` when Microsoft does not tell."""
        return await self._owners.belongs(user, group)

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the one route Teams calls."""
        return [web.post(PATH, self._hear)]

    async def start(self) -> None:
        """Do nothing: Teams calls."""

    async def stop(self) -> None:
        """Finish the answers under way and close the connection."""
        await self._listener.drain()
        await self._wire.close()

    async def post(self, channel: str, card: Card, key: str) -> str:
        """Send a new message and return its id; raise `Unavailable` where the bot is not known."""
        where = await self._reach(channel)
        made = await self._voice.say(where, await self._notice(card))
        if key:
            await self._conversations.note(where.id, key, made)
        return made

    async def edit(self, channel: str, message: str, card: Card, key: str) -> str:
        """Replace a message; post it fresh when it was deleted."""
        where = await self._reach(channel)
        try:
            await self._voice.replace(where, message, await self._notice(card))
        except Gone:
            return await self.post(channel, card, key)
        return message

    async def reply(self, channel: str, message: str, card: Card) -> None:
        """Add to a message's thread; in a chat without threads, to the chat."""
        where = await self._reach(channel)
        await self._voice.say(where, await self._notice(card), message)

    async def find(self, channel: str, key: str) -> str:
        """Return the message posted with `key`: from memory, for Teams lets a bot read no history."""
        return await self._conversations.message((await self._reach(channel)).id, key)

    async def _reach(self, address: str) -> Conversation:
        """Return a conversation, or the chat with a person, opened where there is none yet; raise `Unavailable`."""
        if not is_person(address):
            return await self._conversations.reach(address)
        person = await self._conversations.person(address)
        if person.personal and (known := await self._conversations.known(person.personal)):
            return known
        near = await self._conversations.near(address)
        tenant = str(near.reference.conversation.tenant_id or "")
        made = await self._wire.open(near.reference.service_url, near.reference.bot.id, address, tenant)
        return await self._conversations.opened(address, made, near)

    async def _notice(self, card: Card) -> Activity:
        return await message_activity(card, self._draw, budget=ALERT_BYTES, stands=True)

    async def _hear(self, request: web.Request) -> web.Response:
        """Take one activity: 400 for garbage, 401 for a bad token, 403 for a stranger, 503 without signing keys."""
        try:
            body, activity = await self._read(request)
            trusted = await self._adapter.bot_framework_authentication.authenticate_request(
                activity, request.headers.get("Authorization", "")
            )
            self._admit(activity)
            if not self._known_tenant(body):
                return await self._refuse(body, activity)
        except _Refused as refused:
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
        if self._open and not (is_loopback(request.remote or "") and on_loopback(f"http://{request.host}")):
            raise _Refused(403, "Without an app id only this machine may call.")
        if request.content_type != "application/json":
            raise _Refused(415, "Send an activity as application/json.")
        try:
            body = await request.json()
            activity = Activity().deserialize(body)
            activity.additional_properties = {TARGETED: body["recipient"].get(TARGETED)}
        except Exception:  # msrest raises whatever a wrong type trips it into
            raise _Refused(400, "The body is no activity.") from None
        if not (activity.type and activity.conversation and activity.conversation.id and activity.recipient):
            raise _Refused(400, "The activity lacks its type, conversation or recipient.")
        activity.conversation.tenant_id = next(iter(sorted(_tenants(body))), None)  # botbuilder's model misses it
        return body, activity

    async def _refuse(self, body: Any, activity: Activity) -> web.Response:
        """Tell a person of another tenant, in words without data, that nobody there is served."""
        await self._strangers.meet(_tenants(body) - (self._tenants or frozenset()))
        if activity.type == "message":
            self._listener.refuse(activity)
        return web.Response(status=403, text="This tenant is not served.")

    def _known_tenant(self, body: Any) -> bool:
        named = _tenants(body)
        return self._tenants is None or bool(named and named <= self._tenants)

    def _admit(self, activity: Activity) -> None:
        """Refuse people without an id, and conversations that would be answered elsewhere."""
        if not self._serves(str(activity.service_url or "")):
            raise _Refused(403, "The service address is none of Microsoft's.")
        if not (activity.from_property and activity.from_property.id):
            raise _Refused(400, "The activity names no sender.")


def _check(app_id: str, app_password: str, development: bool) -> None:
    if not app_id and not development:
        raise WrongInput("MicrosoftAppId is empty; set it, or TRNBOT_TEAMS_DEVELOPMENT=1 to play on this machine.")
    if app_id and not app_password:
        raise WrongInput("MicrosoftAppPassword is empty; set the secret of the app named by MicrosoftAppId.")


def _tenants(body: Any) -> frozenset[str]:
    """Return the tenants an activity names (as written: botbuilder's model misses the conversation's)."""
    data = body.get("channelData")
    tenant = data.get("tenant") if isinstance(data, dict) else None
    named = (body["conversation"].get("tenantId"), tenant.get("id") if isinstance(tenant, dict) else None)
    return frozenset(str(name) for name in named if name)
