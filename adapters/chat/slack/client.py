"""Call Slack's Web API at its pace, explain its refusals, and keep tokens out of the log.

Slack limits each method by workspace, about one message a second and channel; `chat.postMessage` by
channel too. A 429 names the method and not which of the two limits it was: it closes the channel,
and the workspace when another channel is closed as well.

Source: docs.slack.dev, apis/web-api/rate-limits.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError, SlackRequestError
from slack_sdk.http_retry.builtin_async_handlers import (
    AsyncConnectionErrorRetryHandler,
    AsyncRateLimitErrorRetryHandler,
)
from slack_sdk.http_retry.response import HttpResponse
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook.async_client import AsyncWebhookClient

from adapters.chat.slack.markup import one_line
from bot.errors import Limited, Refused, Unanswered, Unavailable, redact
from bot.model.notification import Delays


class Pace:
    """Let the calls for one channel through in order, `interval_s` apart.

    Channels do not wait for each other.
    """

    def __init__(self, interval_s: float = 1.0, delays: Delays | None = None) -> None:
        self._interval_s = interval_s
        self._delays = delays or Delays()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._next_s: dict[str, float] = {}
        self._closed_s: dict[tuple[str, str], float] = {}
        """Until when a method is closed in a channel, or in the workspace ("")."""
        self._newest: Counter[tuple[str, str]] = Counter()

    @asynccontextmanager
    async def turn(self, channel: str, method: str) -> AsyncIterator[None]:
        """Wait for this channel's turn; raise `Limited` at once where Slack asked to wait."""
        loop, lock = asyncio.get_running_loop(), self._locks[channel]
        with self._delays.held(loop.time):
            await lock.acquire()
        try:
            self.check(channel, method)
            if (wait_s := self._next_s.get(channel, 0.0) - loop.time()) > 0:
                await self.wait(wait_s)
            try:
                yield
            finally:
                self._next_s[channel] = loop.time() + self._interval_s
        finally:
            lock.release()

    def check(self, channel: str, method: str) -> None:
        """Raise `Limited` where Slack asked for a wait that is not over."""
        wait_s = self.closed_s(channel, method)
        if wait_s > 0:
            raise Limited(
                f"Slack limits how fast the bot may post in {channel};"
                f" it will be retried in {wait_s:.0f} s.",
                wait_s,
            )

    def hold(self, channel: str, method: str, seconds: float) -> None:
        """Let nothing through by this method for so long, as Slack asked."""
        if seconds <= 0:
            return
        at_s = asyncio.get_running_loop().time()

        # A second channel that is closed at a time tells that the limit is the workspace's.
        closed = {
            place
            for (name, place), until in self._closed_s.items()
            if name == method and until > at_s
        }
        place = channel if method in BY_CHANNEL and not closed - {channel} else ""
        self._closed_s[method, place] = max(
            self._closed_s.get((method, place), 0.0), at_s + seconds
        )
        self._delays.seconds += seconds

    def closed_s(self, channel: str, method: str) -> float:
        """Return for how long a method is still closed in a channel, 0 where it is open."""
        until = max(self._closed_s.get((method, place), 0.0) for place in (channel, ""))
        return max(0.0, until - asyncio.get_running_loop().time())

    async def wait(self, seconds: float) -> None:
        """Wait for a limit to end, and count it."""
        with self._delays.held(asyncio.get_running_loop().time):
            await asyncio.sleep(seconds)

    def claim(self, channel: str, message: str) -> int:
        """Note that a newer state of a message is about to be sent, and return its number."""
        self._newest[channel, message] += 1
        return self._newest[channel, message]

    def is_newest(self, channel: str, message: str, number: int) -> bool:
        """Return whether nothing newer was claimed; an older state need not be sent any more."""
        return self._newest[channel, message] == number

    def release(self, channel: str, message: str, number: int) -> None:
        """Forget a message whose newest state was sent."""
        if self.is_newest(channel, message, number):
            del self._newest[channel, message]


BY_CHANNEL = frozenset({"chat.postMessage", "chat.postEphemeral"})
"""Methods that Slack limits by channel, beside the workspace's limit."""
BRIEF_S = 5.0
"""How long a person's answer may wait for a limit. An alert does not wait here.

Whoever delivers it comes again.
"""


def retry_after_s(headers: Mapping[str, Any]) -> float:
    """Return the seconds that Slack asks to wait, 1 where it does not say."""
    stated = next((value for name, value in headers.items() if name.lower() == "retry-after"), "1")
    first = stated[0] if isinstance(stated, list | tuple) and stated else stated
    return float(str(first)) if str(first).isdecimal() else 1.0


def is_limited(error: SlackApiError) -> bool:
    """Return whether Slack refused for its limits alone."""
    return getattr(error.response, "status_code", 0) == 429


def closed_s(error: SlackApiError) -> float:
    """Return for how long Slack takes no more of this, 0 where the failure is another."""
    return retry_after_s(error.response.headers) if is_limited(error) else 0.0


class RateLimitRetry(AsyncRateLimitErrorRetryHandler):
    """Try again after `Retry-After` seconds, up to `most` times.

    Not where that is longer than `BRIEF_S`.
    """

    def __init__(self, delays: Delays, most: int = 3) -> None:
        super().__init__(max_retry_count=most)
        self._delays = delays

    async def _can_retry_async(self, *, response: HttpResponse | None = None, **call: Any) -> bool:
        limited = await super()._can_retry_async(response=response, **call)
        return limited and response is not None and retry_after_s(response.headers) <= BRIEF_S

    async def prepare_for_next_attempt_async(self, **call: Any) -> None:
        """Wait, and count it."""
        with self._delays.held(asyncio.get_running_loop().time):
            await super().prepare_for_next_attempt_async(**call)


FAILURES = (SlackClientError, aiohttp.ClientError, TimeoutError, OSError)
"""Errors of a call that Slack refused or did not answer."""
log = logging.getLogger("trnbot.slack")


class Client(AsyncWebClient):
    """Be the SDK's client, which trips over a proxy's page in plain text.

    It tries again only the calls that surely never arrived, and waits as long as a 429 says.
    Without `delays` it does not wait: whoever delivers alerts does that, and an alert goes without
    its picture rather than later.
    """

    def __init__(self, token: str, api_url: str, delays: Delays | None) -> None:
        self._delays = delays
        super().__init__(
            token=token or None,
            base_url=f"{(api_url or AsyncWebClient.BASE_URL).rstrip('/')}/",
            logger=sdk_log,
            retry_handlers=[
                *([RateLimitRetry(delays)] if delays else []),
                AsyncConnectionErrorRetryHandler(
                    max_retry_count=2, error_types=[aiohttp.ClientConnectorError]
                ),
            ],
        )

    async def api_call(self, api_method: str, **arguments: Any) -> Any:
        """Call a method; raise `SlackRequestError` where the answer is none of Slack's."""
        try:
            return await super().api_call(api_method, **arguments)
        except (AttributeError, TypeError, ValueError) as error:
            raise SlackRequestError(
                f"What answered {api_method} is not Slack ({type(error).__name__})."
            ) from None

    async def send_response(self, response_url: str, body: dict[str, Any]) -> bool:
        """Answer a command or press by its response address; return whether Slack took it."""
        webhook = AsyncWebhookClient(
            response_url,
            logger=sdk_log,
            retry_handlers=[RateLimitRetry(self._delays or Delays(), 2)],
        )
        try:
            answer = await webhook.send_dict(body)
        except (*FAILURES, ValueError) as error:
            log.info("response address failed: %s", type(error).__name__)
            return False
        return answer.status_code == 200


_UNWANTED = ("`token` will be unused", "file-based InstallationStore", "Unhandled request")
"""Words of bolt's remarks on variables that are ours to read, and of those that show a payload."""
_LONGEST_LOGGED = 1_000


def loggable(text: str) -> str:
    """Return the beginning of `text` on one line, without secrets."""
    return redact(one_line(text[:_LONGEST_LOGGED]))


class Redacting(logging.Filter):
    """Rewrite each record before any handler sees it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact message and error.

        Drop what shows payloads, and bolt's remarks on variables that are ours to read.
        """
        if record.levelno <= logging.DEBUG:
            return False
        record.msg, record.args = loggable(record.getMessage()), None
        if record.exc_info and record.exc_info[1]:
            record.msg += (
                f" ({type(record.exc_info[1]).__name__}: {loggable(str(record.exc_info[1]))})"
            )
            record.exc_info = record.exc_text = None
        return not any(words in record.msg for words in _UNWANTED)


sdk_log = logging.getLogger("trnbot.slack.sdk")
"""The logger given to Slack's SDKs, which drops their debugging of payloads."""
sdk_log.addFilter(Redacting())


GONE = frozenset({"message_not_found", "cant_update_message", "edit_window_closed", "is_inactive"})
BAD_BLOCKS = frozenset({"invalid_blocks", "invalid_blocks_format", "invalid_attachments"})

_AGAIN = "reinstall the app in Slack and set SLACK_BOT_TOKEN to its new token."
_SENTENCES = {
    "channel_not_found": "Slack knows no channel {channel} that the bot can see;"
    " check the id and invite the bot with /invite.",
    "not_in_channel": "The bot is not in Slack channel {channel}; type /invite and its name there.",
    "is_archived": "Slack channel {channel} is archived; unarchive it or route to another.",
    "user_not_found": "Slack knows no person {channel}; check the id in their profile.",
    "no_such_subteam": "Slack knows no such user group; check the groups in TRNBOT_ADMINS.",
    "cannot_dm_bot": "Slack does not allow messages to {channel}, which is a bot.",
    "restricted_action": "A Slack admin has restricted posting in {channel};"
    " ask them to allow the bot.",
    "invalid_auth": f"Slack does not accept the token; {_AGAIN}",
    "not_authed": "Slack got no token; set SLACK_BOT_TOKEN.",
    "account_inactive": f"The Slack app was removed from the workspace; {_AGAIN}",
    "token_revoked": f"The Slack token was revoked; {_AGAIN}",
    "token_expired": f"The Slack token expired; {_AGAIN}",
    "missing_scope": "The Slack app lacks the scope '{needed}';"
    " update it from manifest/slack.yaml and reinstall it.",
    "not_allowed_token_type": "This is the wrong kind of Slack token;"
    " the bot token begins with xoxb-, the app token with xapp-.",
    "ratelimited": "Slack limits how fast the bot may post in {channel}; it will be retried later.",
    "msg_blocks_too_long": "Slack finds the message for {channel} too long.",
}


LASTING = frozenset(_SENTENCES) - {"ratelimited", "msg_blocks_too_long"}
"""Refusals that hold until a person does something."""
PASSING = frozenset(
    {
        "ratelimited",
        "internal_error",
        "fatal_error",
        "service_unavailable",
        "request_timeout",
        "unknown_error",
    }
)
"""Refusals that say nothing about what was asked."""


def code_of(error: SlackApiError) -> str:
    """Return Slack's error code, `unknown_error` when it sent none."""
    # Of a page in place of JSON, the SDK makes text, or the bare HTTP response.
    answer = getattr(error.response, "data", None)
    code = answer.get("error") if isinstance(answer, Mapping) else ""
    return code if isinstance(code, str) and re.fullmatch(r"\w{1,60}", code) else "unknown_error"


@asynccontextmanager
async def explained(channel: str = "") -> AsyncIterator[None]:
    """Raise `Unavailable` for every failure of a call to Slack.

    Its sentence names the refusal and the remedy, no address and no token.
    """
    try:
        yield
    except SlackApiError as error:
        place, code = channel or "there", code_of(error)
        if is_limited(error):
            sentence = _SENTENCES["ratelimited"].format(channel=place)
            raise Limited(sentence, closed_s(error)) from None

        sentence = _SENTENCES.get(code, "Slack refused with '{code}'.").format(
            channel=place,
            needed=str(error.response.get("needed") or "?") if code == "missing_scope" else "",
            code=code,
        )
        if code in LASTING:
            raise Refused(sentence) from None
        # Slack's own failures may come after it took the call.
        if code in PASSING - {"ratelimited"}:
            raise Unanswered(sentence) from None
        raise Unavailable(sentence) from None
    except aiohttp.ClientConnectorError as error:
        raise Unavailable(
            f"Slack cannot be reached ({type(error).__name__}); it is tried again later."
        ) from None
    except FAILURES as error:
        raise Unanswered(
            f"Slack did not answer ({type(error).__name__}); it is tried again later."
        ) from None


_PAGE, _MOST_PAGES = 200, 10
"""Large workspaces have thousands of channels: those beyond are named by their id."""


@dataclass(frozen=True)
class Channel:
    """Name a channel, and whether the bot is in it."""

    id: str
    name: str
    joined: bool


class SlackSetup:
    """Ask Slack what tokens open; every refusal is `Unavailable` with its remedy."""

    def __init__(self, api_url: str = "") -> None:
        self._api_url = api_url

    async def workspace(self, bot_token: str) -> str:
        """Return the name of the workspace that a bot token opens."""
        async with explained():
            answer = await self._client(bot_token).auth_test()
        return str(answer.get("team") or answer.get("team_id") or "Slack")

    async def check_app(self, app_token: str) -> None:
        """Open a connection's address by an app token, as a start does."""
        async with explained():
            await self._client("").apps_connections_open(app_token=app_token)

    async def channels(self, bot_token: str) -> list[Channel]:
        """Return the channels that can be seen: those that the bot is in first, then by name."""
        client, channels, cursor = self._client(bot_token), list[Channel](), ""
        for _ in range(_MOST_PAGES):
            async with explained():
                page = await client.conversations_list(
                    types="public_channel,private_channel",
                    exclude_archived=True,
                    limit=_PAGE,
                    cursor=cursor or None,
                )
            channels += [
                Channel(str(x["id"]), str(x.get("name", "")), bool(x.get("is_member")))
                for x in page.get("channels") or ()
            ]
            cursor = str((page.get("response_metadata") or {}).get("next_cursor") or "")
            if not cursor:
                break
        return sorted(channels, key=lambda channel: (not channel.joined, channel.name))

    def _client(self, token: str) -> Client:
        return Client(token, self._api_url, Delays())
