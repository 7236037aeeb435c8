"""Get the token that the bot shows when it speaks: OAuth 2.0 client credentials, kept until shortly before its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

import aiohttp

from adapters.teams.cloud import Cloud
from bot.errors import Unavailable

_EARLY_S = 300.0
_TIMEOUT = aiohttp.ClientTimeout(total=10)


class Credentials(Protocol):
    """Authorise a request to the connector."""

    async def header(self) -> dict[str, str]:
        """Return the headers to add."""
        ...


class Anonymous:
    """Authorise nothing: the development client on this machine asks for no token."""

    async def header(self) -> dict[str, str]:
        """Return no header."""
        return {}


class AppSecret:
    """Sign in with the app's id and password."""

    def __init__(
        self, cloud: Cloud, app_id: str, password: str, tenant: str, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._url = f"{cloud.login}/{tenant or cloud.home}/oauth2/v2.0/token"
        self._form = {
            "grant_type": "client_credentials",
            "client_id": app_id,
            "client_secret": password,
            "scope": f"{cloud.scope}/.default",
        }
        self._monotonic = monotonic
        self._token = ""
        self._until = float("-inf")
        self._lock = asyncio.Lock()

    async def header(self) -> dict[str, str]:
        """Return the bearer header; raise `Unavailable` when Microsoft does not sign the app in."""
        async with self._lock:
            if self._monotonic() >= self._until:
                self._token, lasts_s = await self._sign_in()
                self._until = self._monotonic() + max(0.0, lasts_s - _EARLY_S)
        return {"Authorization": f"Bearer {self._token}"}

    async def _sign_in(self) -> tuple[str, float]:
        """Return token and seconds; the secret and Microsoft's words about it stay out of the error."""
        try:
            async with (
                aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=True) as session,
                session.post(self._url, data=self._form) as response,
            ):
                answer = await response.json(content_type=None)
                return str(answer["access_token"]), float(answer["expires_in"])
        except (aiohttp.ClientError, TimeoutError, ValueError):
            raise Unavailable("Microsoft's login could not be reached to sign the bot in.") from None
        except (KeyError, TypeError):
            raise Unavailable(
                "Microsoft refused to sign the bot in; check MicrosoftAppId, MicrosoftAppPassword and MicrosoftAppTenantId."
            ) from None
