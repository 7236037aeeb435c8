"""Join the parts of the bot on Teams, and take its requests once their tokens are verified.

By the token in the header before the body is read, and by the body's own words after.

Rules: learn.microsoft.com, "Authentication with the Bot Connector API", step 4; read 2026-11-22.
Neither SDK is asked: botbuilder 4.17.1 takes tokens without an expiry and the emulator's
everywhere, and downloads keys by a blocking call; microsoft-agents 1.9.0 checks no issuer unless
told to, and of the service no more than its host. PyJWT and `SigningKeys` do it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jwt
from aiohttp import ClientError, ClientSession, ClientTimeout, web

from adapters.chat.config import TeamsConfig, is_loopback, on_loopback
from adapters.chat.teams.activity import Activity, Message, parse_activity
from adapters.chat.teams.belonging import Belongings, Tenants
from adapters.chat.teams.client import Anonymous, AppSecret, ConnectorClient, Gone
from adapters.chat.teams.conversations import Conversations, Owners
from adapters.chat.teams.render import ALERT_BYTES, dumps
from adapters.chat.teams.responder import (
    ActivityListener,
    Responder,
    Sdk,
    log,
    message_of,
    open_sdk,
    send,
)
from adapters.chat.work import Refusal, body_of
from bot.cards.card import Card
from bot.errors import Unavailable, WrongInput
from bot.ports import ChatPorts, Deduplicator, Tell

_SKEW_S = 300
"""How far Microsoft's clock and this one may differ."""
_REQUIRED = ["exp", "iss", "aud"]
_LONGEST = 8000
_CHANNEL = "msteams"


@dataclass(frozen=True)
class Token:
    """Hold the claims of a valid token.

    `service_url` is None where nobody signs, as in development without an app id.
    """

    claims: Mapping[str, Any]
    service_url: str | None = None
    channels: Sequence[str] = ()
    """The channels that its key may sign for."""

    def covers(self, activity: Activity) -> bool:
        """Return whether the token was written for this activity.

        For its service, and for its channel.
        """
        return self.service_url is None or (
            self.service_url == activity.service_url and activity.channel_id in self.channels
        )


class TokenVerifier:
    """Verify the tokens of the Bot Connector, and in development those of the emulator.

    Without an app id nobody signs.
    """

    def __init__(self, config: TeamsConfig) -> None:
        self._config = config
        self._channel = SigningKeys(config.cloud.channel_keys)
        self._emulator = SigningKeys(config.cloud.emulator_keys)

    async def verify(self, header: str) -> Token:
        """Return the token of an `Authorization` header.

        Raise `PermissionError` for a bad one, `Unavailable` without keys.
        """
        if not self._config.app_id:
            return Token({})
        try:
            return await self._verified(header)
        except Unavailable:
            raise
        except Exception as error:  # PyJWT and its decoders raise many kinds for garbage
            log.warning("teams: a request was refused: %s", type(error).__name__)
            raise PermissionError("the request carries no valid token") from None

    async def _verified(self, header: str) -> Token:
        scheme, _, token = header.partition(" ")
        if scheme != "Bearer" or not 0 < len(token) <= _LONGEST:
            raise PermissionError("no bearer token")
        head = jwt.get_unverified_header(token)
        issuer = jwt.decode(token, options={"verify_signature": False}).get("iss")
        if head.get("alg") != "RS256":
            raise PermissionError("another algorithm")

        config = self._config
        if issuer == config.cloud.issuer:
            key = await self._channel.get(str(head["kid"]))
            claims = self._checked(token, key, issuer)
            channels = [name for name in key.endorsements if name == _CHANNEL]
            return Token(claims, str(claims["serviceurl"]), channels)

        if not (config.development and issuer in config.cloud.emulator_issuers):
            raise PermissionError("another issuer")
        claims = self._checked(token, await self._emulator.get(str(head["kid"])), issuer)
        if claims["appid" if claims.get("ver") == "1.0" else "azp"] != config.app_id:
            raise PermissionError("another app")
        return Token(claims)

    def _checked(self, token: str, key: SigningKey, issuer: str) -> Mapping[str, Any]:
        """Return the claims of a token that this key signed, for this app, by this issuer."""
        return dict(
            jwt.decode(
                token,
                key.public_key,
                algorithms=["RS256"],
                audience=self._config.app_id,
                issuer=issuer,
                leeway=_SKEW_S,
                options={"require": _REQUIRED, "strict_aud": True},
            )
        )


_DAY_S = 86_400.0
_AGAIN_S = 300.0
_TIMEOUT = ClientTimeout(total=10)


@dataclass(frozen=True)
class SigningKey:
    """Hold one public key, and the channels it may sign for."""

    public_key: Any
    endorsements: Sequence[str]


class SigningKeys:
    """Keep the keys of one OpenID address for a day.

    An unknown key id asks again, at most every five minutes.
    """

    def __init__(self, url: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._url, self._monotonic = url, monotonic
        self._keys: Mapping[str, SigningKey] = {}
        self._fetched_s = float("-inf")
        self._lock = asyncio.Lock()

    async def get(self, key_id: str) -> SigningKey:
        """Return the key.

        Raise `PermissionError` for one Microsoft does not know, `Unavailable` when it cannot be
        asked.
        """
        # A known key does not wait while an unknown one is looked for.
        if key_id in self._keys and self._monotonic() - self._fetched_s <= _DAY_S:
            return self._keys[key_id]
        async with self._lock:
            age = self._monotonic() - self._fetched_s
            if age > _DAY_S or (key_id not in self._keys and age > _AGAIN_S):
                self._keys = await self._download()
                self._fetched_s = self._monotonic()
        if key_id not in self._keys:
            raise PermissionError("the token is signed with an unknown key")
        return self._keys[key_id]

    async def _download(self) -> Mapping[str, SigningKey]:
        try:
            async with ClientSession(timeout=_TIMEOUT, trust_env=True) as session:
                configuration = await _json(session, self._url)
                documents = (await _json(session, str(configuration["jwks_uri"])))["keys"]
        except (ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
            raise Unavailable(
                f"Microsoft's signing keys could not be fetched ({type(error).__name__})."
            ) from error
        return {
            document["kid"]: SigningKey(
                jwt.PyJWK.from_dict(dict(document), algorithm="RS256").key,
                document.get("endorsements", []),
            )
            for document in documents
            if document.get("kty") == "RSA" and "kid" in document
        }


async def _json(session: ClientSession, url: str) -> Any:
    async with session.get(url, raise_for_status=True) as response:
        return await response.json(content_type=None)


BODY_BYTES = 256 * 1024
"""Teams sends messages of up to 100 kB."""


class ActivityReceiver:
    """Answer the one route that Teams calls, and hand genuine activities to the listener."""

    def __init__(
        self, config: TeamsConfig, tenants: Tenants, listener: ActivityListener, sdk: Sdk
    ) -> None:
        self._config, self._tenants = config, tenants
        self._listener, self._sdk = listener, sdk
        self._verifier = TokenVerifier(config)

    async def receive(self, request: web.Request) -> web.Response:
        """Take one activity.

        401 for a bad token, 400 for garbage, 403 for a stranger, 503 without signing keys.
        """
        try:
            activity = await self._verified(request)
        except Refusal as refusal:
            return web.Response(status=refusal.status, text=refusal.sentence)
        except WrongInput as error:
            return web.Response(status=400, text=str(error))
        except PermissionError:
            return web.Response(status=401, text="The request carries no valid token.")
        except Unavailable as error:
            log.warning("teams: %s", error)
            return web.Response(
                status=503, text="The signing keys could not be fetched; try again."
            )
        return await self._take(activity)

    async def _take(self, activity: Activity) -> web.Response:
        if self._config.app_id and not self._tenants.serves(activity.tenants):
            await self._tenants.report_unknown(activity.tenants)
            refused = self._listener.refuse(activity)
            if refused is None:
                return web.Response(status=403, text="This tenant is not served.")
            return web.Response(body=dumps(refused), content_type="application/json")

        answer = await self._sdk.take(activity, self._listener.handle)
        if answer is None:
            return web.Response(status=200)
        return web.Response(
            status=answer.status, body=dumps(answer.body), content_type="application/json"
        )

    async def _verified(self, request: web.Request) -> Activity:
        """Return the activity of a request whose token was written for it.

        The token is verified before a byte of the body is read.
        """
        if not self._config.app_id and not (
            is_loopback(request.remote or "") and on_loopback(f"http://{request.host}")
        ):
            raise Refusal(403, "Without an app id only this machine may call.")
        token = await self._verifier.verify(request.headers.get("Authorization", ""))
        if request.content_type != "application/json":
            raise Refusal(415, "Send an activity as application/json.")
        activity = parse_activity(await body_of(request, BODY_BYTES))
        if not token.covers(activity):
            raise PermissionError
        if not self._config.serves(activity.service_url):
            raise Refusal(403, "The service address is none of Microsoft's.")
        return activity


PATH = "/api/messages"


class TeamsSurface:
    """Post and edit (`post`, `edit`, `reply`, `find`) and listen (`routes`, `start`, `stop`).

    The first message of a tenant that is not served is reported by `tell`.
    """

    def __init__(self, config: TeamsConfig, ports: ChatPorts, tell: Tell) -> None:
        self._draw = ports.draw
        secret = AppSecret(config.cloud, config.app_id, config.app_password, config.tenant_id)
        self._client = ConnectorClient(secret if config.app_id else Anonymous(), config.serves)
        self.delays = self._client.delays
        self._conversations = Conversations(ports.documents, self._client.open)

        # Microsoft Graph needs the tenant to sign in at.
        graph = replace(config.cloud, scope=config.cloud.graph)
        secret = AppSecret(graph, config.app_id, config.app_password, config.tenant_id)
        credentials = secret if config.tenant_id else Anonymous()
        self._owners = Owners(config.cloud.graph, credentials, self._conversations.person)

        tenants = Tenants(config.served_tenants, ports.keys, tell)
        self._belongings = Belongings(
            self._conversations, tenants, self._client, signed=bool(config.app_id)
        )
        self._sdk = open_sdk(config.sdk, self._client, config.app_id)
        self._responder = Responder(ports, self._belongings, self._sdk, config.answer_timeout_s)
        self._listener = ActivityListener(
            self._belongings, self._responder, ports.hints, Deduplicator(ports.keys, "teams.seen")
        )
        self._receiver = ActivityReceiver(config, tenants, self._listener, self._sdk)

    async def belongs(self, user: str, group: str) -> bool:
        """Return whether a person owns the team that `owners:TEAM-ID` names.

        Raise `Unavailable` when Microsoft does not tell.
        """
        return await self._owners.belongs(user, group)

    async def name(self, user: str) -> str:
        """Return the name of a person who reads where the bot is, "" for nobody.

        By their id of Teams or of Microsoft Entra.
        """
        return await self._belongings.name(user)

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the one route Teams calls."""
        return [web.post(PATH, self._receiver.receive)]

    async def start(self) -> None:
        """Do nothing: Teams calls."""

    async def stop(self) -> None:
        """Finish the answers under way and close the connection."""
        await self._responder.tasks.drain()
        await self._client.close()

    async def post(self, channel: str, card: Card, key: str) -> str:
        """Send a new message and return its id; raise `Unavailable` where the bot is not known."""
        return await self.reply(channel, "", card, key)

    async def edit(self, channel: str, message: str, card: Card, key: str) -> str:
        """Replace a message; post it fresh when it was deleted."""
        where = await self._conversations.reach(channel)
        try:
            await send(self._sdk, where, await self._message(card), replaces=message)
        except Gone:
            return await self.post(channel, card, key)
        return message

    async def reply(self, channel: str, message: str, card: Card, key: str) -> str:
        """Add to a message's thread and return the line's id.

        In a chat without threads, add to the chat.
        """
        where = await self._conversations.reach(channel)
        line = await send(self._sdk, where, await self._message(card), message)
        if key:
            await self._conversations.keep_message(where.id, key, line)
        return line

    async def posted(self, channel: str, thread: str = "") -> Mapping[str, str]:  # noqa: ARG002
        """Return the messages and lines of a conversation by their keys.

        From memory, for Teams lets a bot read no history.
        """
        where = await self._conversations.reach(channel)
        return await self._conversations.messages(where.id)

    async def _message(self, card: Card) -> Message:
        return await message_of(card, self._draw, budget=ALERT_BYTES, stands=True)
