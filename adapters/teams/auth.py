"""Decide whose requests are genuine and which tenants are served.

Tokens are checked by botbuilder's rules, and every failure is a refusal. botbuilder 4.17.1 downloads the signing keys by a
blocking call without a timeout; its cache takes any object with an async `get`, which `SigningKeys` is.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import jwt
from botbuilder.schema import Activity
from botframework.connector.auth import (
    AuthenticateRequestResult,
    BotFrameworkAuthentication,
    BotFrameworkAuthenticationFactory,
    ClaimsIdentity,
    ConnectorFactory,
    PasswordServiceClientCredentialFactory,
)
from botframework.connector.auth.jwt_token_extractor import JwtTokenExtractor

from adapters.teams.client import Connector, ConnectorClient
from adapters.teams.config import TeamsConfig
from bot.cards.card import Card, Tone, text
from bot.errors import Unavailable
from bot.ports import IdempotencyKeys, Tell

log = logging.getLogger("trnbot.teams")

UNKNOWN_TENANTS = "teams.strangers"
REFUSAL = Card(
    "This bot does not serve your organization",
    Tone.INFO,
    (text("Nothing was read or changed. Whoever operates the bot can list your tenant."),),
)


class Connectors(ConnectorFactory):  # type: ignore[misc]  # botbuilder ships no types
    """Make the connector of a service URL."""

    def __init__(self, client: ConnectorClient) -> None:
        self._client = client

    async def create(self, service_url: str, audience: str = "") -> Connector:  # noqa: ARG002  # botbuilder passes both
        """Return a connector."""
        return Connector(self._client, service_url)


class RequestAuthentication(BotFrameworkAuthentication):  # type: ignore[misc]  # botbuilder ships no types
    """Check requests; with an empty app id (development) nobody signs, and this machine alone is let in."""

    def __init__(self, config: TeamsConfig, client: ConnectorClient) -> None:
        cloud = config.cloud
        self._app_id = config.app_id
        self._client = client
        for url in (cloud.channel_keys, cloud.emulator_keys):
            JwtTokenExtractor.metadataCache[url] = SigningKeys(url)
        self._rules = BotFrameworkAuthenticationFactory.create(
            validate_authority=True,
            to_channel_from_bot_login_url=f"{cloud.login}/{cloud.home}",
            to_channel_from_bot_oauth_scope=cloud.scope,
            to_bot_from_channel_token_issuer=cloud.issuer,
            oauth_url=cloud.issuer,
            to_bot_from_channel_open_id_metadata_url=cloud.channel_keys,
            to_bot_from_emulator_open_id_metadata_url=cloud.emulator_keys,
            credential_factory=PasswordServiceClientCredentialFactory(config.app_id),
        )

    async def authenticate_request(self, activity: Activity, auth_header: str) -> AuthenticateRequestResult:
        """Return who sent an activity; raise `PermissionError` for a token that is not valid, `Unavailable` without keys."""
        try:
            result = await self._rules.authenticate_request(activity, auth_header if self._app_id else None)
        except Unavailable:
            raise
        except Exception as error:  # botbuilder and PyJWT raise a dozen kinds for a bad token, bare Exception among them
            log.warning("teams: a request was refused: %s", type(error).__name__)
            raise PermissionError("the request carries no valid token") from None
        result.connector_factory = Connectors(self._client)
        return result

    async def authenticate_streaming_request(
        self,
        auth_header: str,  # noqa: ARG002
        channel_id_header: str,  # noqa: ARG002
    ) -> AuthenticateRequestResult:
        """Refuse: nothing streams here."""
        raise PermissionError("streaming is not offered")

    def create_connector_factory(self, claims_identity: ClaimsIdentity) -> ConnectorFactory:  # noqa: ARG002
        """Return the factory for messages that the bot begins."""
        return Connectors(self._client)

    async def create_user_token_client(self, claims_identity: ClaimsIdentity) -> Any:  # noqa: ARG002
        """Return nothing: nobody signs in through the bot."""
        return None


_DAY_S = 86_400.0
_AGAIN_S = 300.0
_TIMEOUT = aiohttp.ClientTimeout(total=10)


@dataclass(frozen=True)
class SigningKey:
    """Hold one public key, and the channels it may sign for."""

    public_key: Any
    endorsements: Sequence[str]


class SigningKeys:
    """Keep the keys of one OpenID address for a day; an unknown key id asks again, at most every five minutes."""

    def __init__(self, url: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._monotonic = monotonic
        self._keys: Mapping[str, SigningKey] = {}
        self._asked = float("-inf")
        self._lock = asyncio.Lock()

    async def get(self, key_id: str | None) -> SigningKey:
        """Return the key; raise `PermissionError` for one Microsoft does not know, `Unavailable` when it cannot be asked."""
        async with self._lock:
            age = self._monotonic() - self._asked
            if age > _DAY_S or (key_id not in self._keys and age > _AGAIN_S):
                self._keys = await self._download()
                self._asked = self._monotonic()
        if key_id is None or key_id not in self._keys:
            raise PermissionError("the token is signed with an unknown key")
        return self._keys[key_id]

    async def _download(self) -> Mapping[str, SigningKey]:
        try:
            async with aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=True) as session:
                configuration = await _json(session, self._url)
                documents = (await _json(session, str(configuration["jwks_uri"])))["keys"]
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
            raise Unavailable(f"Microsoft's signing keys could not be fetched ({type(error).__name__}).") from error
        return {key["kid"]: _key(key) for key in documents if key.get("kty") == "RSA" and "kid" in key}


async def _json(session: aiohttp.ClientSession, url: str) -> Any:
    async with session.get(url, raise_for_status=True) as response:
        return await response.json(content_type=None)


def _key(document: Mapping[str, Any]) -> SigningKey:
    return SigningKey(jwt.PyJWK.from_dict(dict(document), algorithm="RS256").key, document.get("endorsements", []))


class Tenants:
    """Know which tenants are served; tell an admin once of each other one that writes, whichever process it wrote to."""

    def __init__(self, served: frozenset[str] | None, keys: IdempotencyKeys, tell: Tell) -> None:
        self._served, self._keys, self._tell = served, keys, tell

    def serves(self, body: Any) -> bool:
        """Return whether every tenant that an activity names is served; one that names none is not."""
        named = _tenants(body)
        return self._served is None or bool(named and named <= self._served)

    async def report_unknown(self, body: Any) -> None:
        """Tell an admin of an activity's unknown tenant when this is its first time."""
        unknown = sorted(_tenants(body) - (self._served or frozenset()))
        name = next((tenant for tenant in unknown if re.fullmatch(r"[\w-]{1,64}", tenant)), "of no name")
        if await asyncio.to_thread(self._keys.first, UNKNOWN_TENANTS, name):
            await self._tell(f"Teams tenant {name} wrote to the bot and was refused; TRNBOT_TEAMS_TENANTS lists who is served.")


def first_tenant(body: Any) -> str | None:
    """Return the tenant of an activity's conversation as it is written, which botbuilder's model misses."""
    return next(iter(sorted(_tenants(body))), None)


def _tenants(body: Any) -> frozenset[str]:
    """Return the tenants that an activity names."""
    data = body.get("channelData")
    tenant = data.get("tenant") if isinstance(data, dict) else None
    named = (body["conversation"].get("tenantId"), tenant.get("id") if isinstance(tenant, dict) else None)
    return frozenset(str(name) for name in named if name)
