"""Decide whose requests are genuine.

By the token in the header before the body is read, and by the body's own words after.

Rules: learn.microsoft.com, "Authentication with the Bot Connector API", step 4; read 2026-11-22.
Neither SDK is asked: botbuilder 4.17.1 takes tokens without an expiry and the emulator's
everywhere, and downloads keys by a blocking call; microsoft-agents 1.9.0 checks no issuer unless
told to, and of the service no more than its host. PyJWT and `SigningKeys` do it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import jwt

from adapters.teams.activity import Activity
from adapters.teams.config import TeamsConfig
from bot.errors import Unavailable

log = logging.getLogger("trnbot.teams")

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
        if self.service_url is None:
            return True
        return self.service_url == activity.service_url and activity.channel_id in self.channels


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
        named = jwt.get_unverified_header(token)
        issuer = jwt.decode(token, options={"verify_signature": False}).get("iss")
        if named.get("alg") != "RS256":
            raise PermissionError("another algorithm")
        if issuer == self._config.cloud.issuer:
            key = await self._channel.get(str(named["kid"]))
            claims = self._checked(token, key, issuer)
            return Token(
                claims,
                str(claims["serviceurl"]),
                [name for name in key.endorsements if name == _CHANNEL],
            )
        if not (self._config.development and issuer in self._config.cloud.emulator_issuers):
            raise PermissionError("another issuer")
        claims = self._checked(token, await self._emulator.get(str(named["kid"])), issuer)
        if claims["appid" if claims.get("ver") == "1.0" else "azp"] != self._config.app_id:
            raise PermissionError("another app")
        return Token(claims)

    def _checked(self, token: str, key: SigningKey, issuer: str) -> Mapping[str, Any]:
        """Return the claims of a token that this key signed, for this app, by this issuer, for now."""
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
_TIMEOUT = aiohttp.ClientTimeout(total=10)


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
        self._url = url
        self._monotonic = monotonic
        self._keys: Mapping[str, SigningKey] = {}
        self._asked = float("-inf")
        self._lock = asyncio.Lock()

    async def get(self, key_id: str) -> SigningKey:
        """Return the key.

        Raise `PermissionError` for one Microsoft does not know, `Unavailable` when it cannot be
        asked.
        """
        if key_id in self._keys and self._monotonic() - self._asked <= _DAY_S:
            return self._keys[
                key_id
            ]  # a known key does not wait while an unknown one is looked for
        async with self._lock:
            age = self._monotonic() - self._asked
            if age > _DAY_S or (key_id not in self._keys and age > _AGAIN_S):
                self._keys = await self._download()
                self._asked = self._monotonic()
        if key_id not in self._keys:
            raise PermissionError("the token is signed with an unknown key")
        return self._keys[key_id]

    async def _download(self) -> Mapping[str, SigningKey]:
        try:
            async with aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=True) as session:
                configuration = await _json(session, self._url)
                documents = (await _json(session, str(configuration["jwks_uri"])))["keys"]
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
            raise Unavailable(
                f"Microsoft's signing keys could not be fetched ({type(error).__name__})."
            ) from error
        return {
            key["kid"]: _key(key) for key in documents if key.get("kty") == "RSA" and "kid" in key
        }


async def _json(session: aiohttp.ClientSession, url: str) -> Any:
    async with session.get(url, raise_for_status=True) as response:
        return await response.json(content_type=None)


def _key(document: Mapping[str, Any]) -> SigningKey:
    return SigningKey(
        jwt.PyJWK.from_dict(dict(document), algorithm="RS256").key, document.get("endorsements", [])
    )
