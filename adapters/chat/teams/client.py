"""Call the Bot Connector: sign in, send, reply, update; at its pace, with its retries."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol
from urllib.parse import quote

import aiohttp

from adapters.chat.config import Cloud
from adapters.chat.teams.activity import TARGETED, split_thread
from adapters.chat.teams.render import dumps
from bot.errors import Limited, Refused, Unanswered, Unavailable
from bot.model.notification import Delays
from bot.ports.work import permitted

_LIMITS = ((7, 1.0), (8, 2.0), (60, 30.0), (1800, 3600.0))
_KEPT = max(most for most, _ in _LIMITS)
BRIEF_S = 4.0
"""A longer wait is the caller's.

The message is given back, and whoever sends it does something else meanwhile.
"""

Monotonic = Callable[[], float]
Sleep = Callable[[float], Awaitable[object]]


def loop_time() -> float:
    """Return the running loop's own time, by which everything here waits."""
    return asyncio.get_running_loop().time()


class Pace:
    """Let one message through at a time, when every limit of its conversation has room."""

    def __init__(
        self,
        monotonic: Monotonic = loop_time,
        sleep: Sleep = asyncio.sleep,
        delays: Delays | None = None,
    ) -> None:
        self._monotonic, self._sleep = monotonic, sleep
        self._delays = delays or Delays()
        self._sent: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_KEPT))
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._closed_s: dict[str, float] = {}

    async def turn(self, conversation: str) -> None:
        """Return when a message may be sent, counting it as sent.

        Raise `Limited` where it must wait for long.
        """
        with self._delays.held(self._monotonic):
            async with self._locks[conversation]:
                while (wait := self._wait_s(conversation)) > 0:
                    if wait > BRIEF_S:
                        raise Limited(
                            "Teams limits how fast the bot may post there;"
                            f" it will be retried in {wait:.0f} s.",
                            wait,
                        )
                    await self._sleep(wait)
                self._sent[conversation].append(self._monotonic())

    def hold(self, conversation: str, seconds: float) -> None:
        """Let nothing through for so long, as Teams asked."""
        self._closed_s[conversation] = max(
            self._closed_s.get(conversation, 0.0), self._monotonic() + seconds
        )

    def _wait_s(self, conversation: str) -> float:
        """Return the seconds until one more message keeps every limit, none or less for now."""
        sent, closed_s = self._sent[conversation], self._closed_s.get(conversation, 0.0)
        limits = (sent[-most] + span for most, span in _LIMITS if len(sent) >= most)
        return max((closed_s, *limits)) - self._monotonic()


_AGAIN = frozenset({412, 429, 502, 504})
_MAYBE = frozenset({502, 504})
"""After these the message may have been taken."""
_TRIES = 4
_NEVER = -1
"""Stands for the status of a service that was not reached."""
_TIMEOUT = aiohttp.ClientTimeout(total=20)
_READ_S = 4.0
"""A press is given up after about 10 s, and its answer is yet to come."""


class Gone(Unavailable):
    """Report that a message or conversation is no longer there."""


class ConnectorClient:
    """Share one HTTP session, pace and sign-in among the connectors of every service URL."""

    def __init__(self, credentials: Credentials, allowed: Callable[[str], bool]) -> None:
        self._credentials, self._allowed = credentials, allowed
        self.delays = Delays()
        self._pace = Pace(delays=self.delays)
        self._session: aiohttp.ClientSession | None = None

    async def open(self, service_url: str, bot: str, user: str, tenant: str) -> str:
        """Open the chat of the bot with a person and return its id, the same whenever it is asked.

        Raise `Unavailable`.
        """
        body = {
            "bot": {"id": bot},
            "members": [{"id": user}],
            "isGroup": False,
            "tenantId": tenant,
            "channelData": {"tenant": {"id": tenant}},
        }
        opened = await self.call("POST", service_url, "", user, body)
        if not opened:
            raise Unavailable("Teams did not name the chat that it opened.")
        return opened

    async def call(
        self, method: str, service_url: str, path: str, conversation: str, body: Mapping[str, Any]
    ) -> str:
        """Call the connector until it takes it, as often and as late as it asks for.

        Return the id it answers; raise `Gone` for a 404, else `Unavailable`.
        """
        self._check(service_url)
        url, statuses = _url(service_url, path), list[int]()
        place, _ = split_thread(conversation)  # a channel's threads share its limits
        for attempt in range(_TRIES):
            try:
                await self._pace.turn(place)
            except Limited as limit:
                # One of the tries before may have been taken.
                raise (Unanswered(str(limit)) if _MAYBE.intersection(statuses) else limit) from None
            await permitted()
            status, wait, answer = await self._attempt(method, url, dumps(body))
            if 0 < status < 300:
                return str(answer.get("id") or "")
            if status not in _AGAIN | {_NEVER}:
                raise _refusal(status, answer)
            statuses.append(status)
            self._pace.hold(place, wait if wait is not None else 2.0**attempt)
        reason = f"HTTP {status}" if status > 0 else "it cannot be reached"
        raise (Unanswered if _MAYBE.intersection(statuses) else Unavailable)(
            f"Teams did not take the message after {_TRIES} tries ({reason})."
        )

    async def get(self, service_url: str, path: str) -> Any:
        """Read from the connector, once and soon, for somebody waits.

        Raise `Gone` for a 404, else `Unavailable`.
        """
        self._check(service_url)
        try:
            async with asyncio.timeout(_READ_S):
                # A session that is opened before may be closed while the token is fetched.
                headers = await self._credentials.header()
                async with self._opened().get(
                    _url(service_url, path), headers=headers, allow_redirects=False
                ) as response:
                    if response.status != 200:
                        raise _refusal(response.status, await _object(response))
                    return await response.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise Unavailable(f"Teams did not answer ({type(error).__name__}).") from None

    async def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _attempt(
        self, method: str, url: str, body: bytes
    ) -> tuple[int, float | None, Mapping[str, Any]]:
        """Return status, seconds to wait when told, and the answer."""
        headers = {
            "Content-Type": "application/json; charset=utf-8",
            **await self._credentials.header(),
        }
        try:
            async with self._opened().request(
                method, url, data=body, headers=headers, allow_redirects=False
            ) as response:
                return response.status, _retry_after(response.headers), await _object(response)
        except aiohttp.ClientConnectorError:
            return _NEVER, None, {}
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unanswered(
                f"Teams did not answer ({type(error).__name__}); the message may have arrived."
            ) from None

    def _check(self, service_url: str) -> None:
        """Raise `Unavailable` for an address that must not be shown the bot's token."""
        if not self._allowed(service_url):
            raise Unavailable(
                "The conversation's service address is none of Microsoft's; nothing was sent."
            )

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            # A message lost in a connection gone stale may have arrived, or not.
            self._session = aiohttp.ClientSession(
                timeout=_TIMEOUT, trust_env=True, connector=aiohttp.TCPConnector(force_close=True)
            )
        return self._session


class Connector:
    """Offer the calls that the adapters of both SDKs make, for one service URL.

    `body` and `made` speak the SDK's types.
    """

    def __init__(
        self,
        client: ConnectorClient,
        service_url: str,
        *,
        body: Callable[[Any], dict[str, Any]],
        made: Callable[[str], Any],
    ) -> None:
        self._client, self._service_url = client, service_url
        self._body, self._made = body, made

    @property
    def conversations(self) -> Connector:
        """Return itself: the SDKs ask for the operations under this name."""
        return self

    async def send_to_conversation(self, conversation: str, activity: Any) -> Any:
        """Add a message to the conversation."""
        return await self._send("POST", conversation, "", activity)

    async def reply_to_activity(self, conversation: str, message: str, activity: Any) -> Any:
        """Add a message under another."""
        return await self._send("POST", conversation, f"/{quote(message, safe='')}", activity)

    async def update_activity(self, conversation: str, message: str, activity: Any) -> Any:
        """Replace a message."""
        return await self._send("PUT", conversation, f"/{quote(message, safe='')}", activity)

    async def close(self) -> None:
        """Do nothing: the client is shared by every turn."""

    async def _send(self, method: str, conversation: str, path: str, activity: Any) -> Any:
        body = self._body(activity)
        if body.get("recipient", {}).get(TARGETED):
            path += "?isTargetedActivity=true"
        path = f"/{quote(conversation, safe='')}/activities{path}"
        return self._made(
            await self._client.call(method, self._service_url, path, conversation, body)
        )


def _url(service_url: str, path: str) -> str:
    return f"{service_url.rstrip('/')}/v3/conversations{path}"


_BOT_REFUSED = (
    "Teams refused the bot ({reason});"
    " is it still installed there, and are its id and password right?"
)
_REFUSALS: Mapping[int, tuple[type[Unavailable], str]] = {
    401: (Refused, _BOT_REFUSED),
    403: (Refused, _BOT_REFUSED),
    404: (Gone, "Teams no longer knows the message or conversation ({reason})."),
    413: (Unavailable, "Teams found the message too long ({reason})."),
}
"""The error and the sentence of each status that tells more than that it failed."""


def _refusal(status: int, answer: Mapping[str, Any]) -> Unavailable:
    """Return the error that explains a refusal in one sentence.

    Microsoft's text is only named by its code.
    """
    error = answer.get("error")
    code = str(error.get("code", ""))[:60] if isinstance(error, dict) else ""
    unnamed = Unanswered if status >= 500 else Unavailable, "Teams refused the message ({reason})."
    kind, sentence = _REFUSALS.get(status, unnamed)
    return kind(sentence.format(reason=f"HTTP {status} {code}".strip()))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    try:
        return max(0.0, float(headers["Retry-After"]))
    except (KeyError, ValueError):
        return None


async def _object(response: aiohttp.ClientResponse) -> Mapping[str, Any]:
    try:
        answer = await response.json(content_type=None)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


_EARLY_S = 300.0
_LOGIN_TIMEOUT = aiohttp.ClientTimeout(total=10)


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
        self,
        cloud: Cloud,
        app_id: str,
        password: str,
        tenant: str,
        monotonic: Callable[[], float] = time.monotonic,
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
        """Return token and seconds.

        The secret and Microsoft's words about it stay out of the error.
        """
        try:
            async with (
                aiohttp.ClientSession(timeout=_LOGIN_TIMEOUT, trust_env=True) as session,
                session.post(self._url, data=self._form) as response,
            ):
                answer = await response.json(content_type=None)
                return str(answer["access_token"]), float(answer["expires_in"])
        except (aiohttp.ClientError, TimeoutError, ValueError):
            raise Unavailable(
                "Microsoft's login could not be reached to sign the bot in."
            ) from None
        except (KeyError, TypeError):
            raise Unavailable(
                "Microsoft refused to sign the bot in;"
                " check MicrosoftAppId, MicrosoftAppPassword and MicrosoftAppTenantId."
            ) from None
