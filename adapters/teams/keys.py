"""Fetch the keys that sign Microsoft's tokens, without holding up the event loop.

botbuilder 4.17.1 downloads them by a blocking call without a timeout; its cache takes any object with an async `get`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import jwt

from bot.errors import Unavailable

_DAY_S = 86_400.0
_AGAIN_S = 300.0
_TIMEOUT = aiohttp.ClientTimeout(total=10)


@dataclass(frozen=True)
class SigningKey:
    """Hold one public key, and the channels it may speak for."""

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
