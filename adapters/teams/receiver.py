"""Take one request of Teams.

Verify its token before a byte of the body is read, then read, bind and admit it.
"""

from __future__ import annotations

import asyncio
import logging

from aiohttp import web

from adapters.teams.activity import Activity
from adapters.teams.auth import Token, TokenVerifier
from adapters.teams.belonging import Tenants
from adapters.teams.config import TeamsConfig, is_loopback, on_loopback
from adapters.teams.listener import ActivityListener
from adapters.teams.parser import parse_activity
from adapters.teams.render import dumps
from adapters.teams.sdk import Sdk
from bot.errors import Unavailable, WrongInput

log = logging.getLogger("trnbot.teams")

BODY_BYTES = 256 * 1024
"""Teams sends messages of up to 100 kB."""
_READ_S = 10.0


class _BadRequest(Exception):
    """Refuse a request before it is read any further."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


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
            token = await self._verified(request)
            activity = parse_activity(await _body(request))
            self._check(token, activity)
        except _BadRequest as refused:
            return web.Response(status=refused.status, text=refused.why)
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

    async def _verified(self, request: web.Request) -> Token:
        """Return the token; without an app id, let in this machine alone."""
        if not self._config.app_id and not (
            is_loopback(request.remote or "") and on_loopback(f"http://{request.host}")
        ):
            raise _BadRequest(403, "Without an app id only this machine may call.")
        return await self._verifier.verify(request.headers.get("Authorization", ""))

    def _check(self, token: Token, activity: Activity) -> None:
        """Refuse an activity that the token was not written for, and one that would be answered elsewhere."""
        if not token.covers(activity):
            raise PermissionError
        if not self._config.serves(activity.service_url):
            raise _BadRequest(403, "The service address is none of Microsoft's.")

    async def _take(self, activity: Activity) -> web.Response:
        if self._config.app_id and not self._tenants.serves(activity.tenants):
            await self._tenants.report_unknown(activity.tenants)
            refusal = self._listener.refuse(activity)
            if refusal is None:
                return web.Response(status=403, text="This tenant is not served.")
            return web.Response(body=dumps(refusal), content_type="application/json")
        answer = await self._sdk.take(activity, self._listener.handle)
        if answer is None:
            return web.Response(status=200)
        return web.Response(
            status=answer.status, body=dumps(answer.body), content_type="application/json"
        )


async def _body(request: web.Request) -> bytes:
    """Return a body of at most `BODY_BYTES`, by the header and by count, that arrives soon."""
    if request.content_type != "application/json":
        raise _BadRequest(415, "Send an activity as application/json.")
    body = bytearray()
    try:
        async with asyncio.timeout(_READ_S):
            while (request.content_length or 0) <= BODY_BYTES and len(body) <= BODY_BYTES:
                chunk = await request.content.readany()
                if not chunk:
                    return bytes(body)
                body += chunk
    except TimeoutError:
        raise _BadRequest(408, "The body did not arrive in time.") from None
    raise _BadRequest(413, f"An activity has at most {BODY_BYTES // 1024} kB.")
