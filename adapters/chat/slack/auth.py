"""Tell what Slack signed, let workspaces install the app by OAuth 2.0, and keep their tokens.

Source: docs.slack.dev, authentication/installing-with-oauth and
authentication/verifying-requests-from-slack; read 2026-11-22.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from aiohttp import web
from slack_sdk.errors import SlackApiError
from slack_sdk.signature import SignatureVerifier
from slack_sdk.web.async_client import AsyncWebClient

from adapters.chat.config import INSTALLATIONS, REDIRECT_PATH, SlackConfig
from adapters.chat.manifest import SCOPES
from adapters.chat.slack.client import FAILURES, code_of, log
from adapters.chat.work import Refusal, body_of
from bot.errors import Refused
from bot.model.codec import decode
from bot.ports import DocumentStore, IdempotencyKeys

INSTALL_PATH = "/slack/install"
AUTHORIZE_URL = "https://slack.com/oauth/v2/authorize"
STATES = "slack.oauth"
_COOKIE = "trnbot_slack_state"
_LASTS_S = 600
LARGEST_BODY = 1_000_000
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_ADDRESS = re.compile(r"(T\w+)/(.+)", re.DOTALL)


@dataclass(frozen=True)
class Installation:
    """Hold one workspace's installation; its token shows in no text made of it."""

    team: str
    name: str
    token: str = field(repr=False)
    bot_user: str
    by: str
    at: datetime
    scopes: tuple[str, ...] = ()


class Installations:
    """Read and write installations; the database may block, so each call runs in a thread.

    One is stored under its workspace's id, its scopes between spaces.
    """

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents

    async def keep(self, installation: Installation) -> None:
        """Write an installation over the workspace's one before."""
        facts = {name: value for name, value in vars(installation).items() if name != "team"}
        facts |= {"at": installation.at.isoformat(), "scopes": " ".join(installation.scopes)}
        await asyncio.to_thread(self._documents.put, INSTALLATIONS, installation.team, facts)

    async def of(self, team: str) -> Installation | None:
        """Return the installation of a workspace, None where there is none (any more)."""
        document = await asyncio.to_thread(self._documents.get, INSTALLATIONS, team)
        if document is None:
            return None
        scopes = str(document.get("scopes") or "").split()
        return decode(Installation, {**document, "team": team, "scopes": scopes})

    async def forget(self, team: str) -> None:
        """Drop the token of a workspace that removed the app."""
        await asyncio.to_thread(self._documents.drop, INSTALLATIONS, team)


def split_address(address: str, workspaces: Sequence[str]) -> tuple[str, str]:
    """Return workspace and channel of `T123/C02FIN`.

    The first of `workspaces` where none is named, "" for the only one.

    Raises `Refused` for a workspace that is not among them.
    """
    matched = _ADDRESS.fullmatch(address)
    if not matched:
        return (workspaces[0] if workspaces else ""), address
    if workspaces and matched[1] not in workspaces:
        raise Refused(
            f"Slack workspace {matched[1]} is not served; add it to TRNBOT_SLACK_WORKSPACES."
        )
    return matched[1], matched[2]


def address_prefix(team: str, workspaces: Sequence[str]) -> str:
    """Return how addresses of a workspace begin.

    "" for the first of `workspaces`, `T123/` for others.
    """
    return "" if team in workspaces[:1] else f"{team}/"


async def signed_body(request: web.Request, secret: str) -> str:
    """Return the body of a request that Slack signed within five minutes.

    Raise `Refusal` before anything of it is parsed.
    """
    body = await body_of(request, LARGEST_BODY)
    # A time that is no number, signs that are no signature, bytes that are no text.
    with suppress(ValueError, TypeError, OverflowError):
        if SignatureVerifier(secret).is_valid_request(body, request.headers):
            return body.decode()
    raise Refusal(401, "Slack did not sign this request within the last five minutes.")


class InstallPages:
    """Serve the two pages of an installation.

    A state is made for one browser, used once and good for ten minutes.

    A state is signed and not kept, so that opening the page writes nothing.
    """

    def __init__(
        self,
        config: SlackConfig,
        client: AsyncWebClient,
        installs: Installations,
        keys: IdempotencyKeys,
    ) -> None:
        self._config, self._client, self._installs, self._keys = config, client, installs, keys

    def routes(self) -> Sequence[web.RouteDef]:
        """Return both pages."""
        return (web.get(INSTALL_PATH, self.begin), web.get(REDIRECT_PATH, self.finish))

    async def begin(self, _: web.Request) -> web.Response:
        """Send the person to Slack, to choose the workspace and to agree."""
        config = self._config
        state = self._signed(f"{secrets.token_urlsafe(24)}.{int(time.time()) + _LASTS_S}")
        query = {"client_id": config.client_id, "scope": ",".join(SCOPES), "state": state}
        query |= {"redirect_uri": config.redirect_uri} if config.redirect_uri else {}

        answer = web.Response(
            status=302, headers={**_HEADERS, "Location": f"{AUTHORIZE_URL}?{urlencode(query)}"}
        )
        answer.set_cookie(
            _COOKIE,
            state,
            max_age=_LASTS_S,
            httponly=True,
            secure=not config.public_url.startswith("http://"),
            samesite="Lax",
        )
        return answer

    async def finish(self, request: web.Request) -> web.Response:
        """Take the person back from Slack: check the state, fetch the token, keep it."""
        try:
            installation = await self._install(request)
        except Refusal as refusal:
            return _page(refusal.status, refusal.sentence)

        log.info("installed in Slack workspace %s", installation.team)
        name = installation.name or installation.team
        answer = _page(200, f"trnbot is installed in {name}. Type /trn help there.")
        answer.del_cookie(_COOKIE)
        return answer

    async def _install(self, request: web.Request) -> Installation:
        """Keep the installation that a request brings, and return it; raise `Refusal`."""
        # The answer must be one that this browser asked for, not used already, and not too old.
        state = request.query.get("state", "")
        nonce, _, _ = state.rpartition(".")
        genuine = (
            _same(state, request.cookies.get(_COOKIE, ""))
            and _same(state, self._signed(nonce))
            and int(nonce.rpartition(".")[2]) >= time.time()
        )
        if not (genuine and await asyncio.to_thread(self._keys.first, STATES, nonce)):
            raise Refusal(
                400,
                "This page was not asked for here, or too long ago;"
                " open the page to install again.",
            )
        if request.query.get("error"):
            raise Refusal(
                400,
                "Slack says that nothing was installed;"
                " open the page to install again when you want to.",
            )

        installation = await self._fetch(request.query.get("code", ""))
        if installation.team not in self._config.workspaces:
            await self._give_back(installation.token)
            raise Refusal(
                403,
                f"Slack workspace {installation.team} may not install this bot;"
                " its operator lists it first.",
            )
        await self._installs.keep(installation)
        return installation

    def _signed(self, nonce: str) -> str:
        signature = hmac.digest(self._config.client_secret.encode(), nonce.encode(), "sha256").hex()
        return f"{nonce}.{signature}"

    async def _fetch(self, code: str) -> Installation:
        """Return the installation that Slack grants for the code.

        Nothing of its answer goes into a sentence or a log.
        """
        config = self._config
        try:
            answer: Any = await self._client.oauth_v2_access(
                client_id=config.client_id,
                client_secret=config.client_secret,
                code=code,
                redirect_uri=config.redirect_uri or None,
            )
        except SlackApiError as error:
            raise Refusal(
                400,
                f"Slack refused the installation with '{code_of(error)}';"
                " open the page to install again.",
            ) from None
        except FAILURES:
            raise Refusal(
                502, "Slack cannot be reached; open the page to install again later."
            ) from None

        team, token = answer.get("team") or {}, str(answer.get("access_token") or "")
        if answer.get("is_enterprise_install"):
            await self._give_back(token)
            raise Refusal(
                400, "Install trnbot into one workspace, not into the whole organization."
            )
        if not (team.get("id") and token):
            raise Refusal(
                502,
                "Slack's answer names no workspace or holds no bot token;"
                " open the page to install again.",
            )
        return Installation(
            str(team["id"]),
            str(team.get("name") or ""),
            token,
            str(answer.get("bot_user_id") or ""),
            str((answer.get("authed_user") or {}).get("id") or ""),
            datetime.now(UTC),
            tuple(str(answer.get("scope") or "").split(",")),
        )

    async def _give_back(self, token: str) -> None:
        """Revoke a token that is not wanted."""
        try:
            await self._client.auth_revoke(token=token)
        except FAILURES as error:
            log.warning("a token that is not wanted was not revoked: %s", type(error).__name__)


def _same(left: str, right: str) -> bool:
    return hmac.compare_digest(left.encode(errors="replace"), right.encode(errors="replace"))


def _page(status: int, sentence: str) -> web.Response:
    return web.Response(status=status, text=f"{sentence}\n", headers=_HEADERS)
