"""Say in one sentence what Slack refused and what to do about it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError

from bot.errors import Refused, Unanswered, Unavailable

GONE = frozenset({"message_not_found", "cant_update_message", "edit_window_closed", "is_inactive"})
BAD_BLOCKS = frozenset({"invalid_blocks", "invalid_blocks_format", "invalid_attachments"})

_AGAIN = "reinstall the app in Slack and set SLACK_BOT_TOKEN to its new token."
_SENTENCES = {
    "channel_not_found": "Slack knows no channel {channel} that the bot can see; check the id and invite the bot with /invite.",
    "not_in_channel": "The bot is not in Slack channel {channel}; type /invite and its name there.",
    "is_archived": "Slack channel {channel} is archived; unarchive it or route to another.",
    "user_not_found": "Slack knows no person {channel}; check the id in their profile.",
    "no_such_subteam": "Slack knows no such user group; check the groups in TRNBOT_ADMINS.",
    "cannot_dm_bot": "Slack lets no bot write to {channel}, which is a bot.",
    "restricted_action": "A Slack admin keeps the bot from posting in {channel}; ask them to allow it.",
    "invalid_auth": f"Slack does not accept the token; {_AGAIN}",
    "not_authed": "Slack got no token; set SLACK_BOT_TOKEN.",
    "account_inactive": f"The Slack app was removed from the workspace; {_AGAIN}",
    "token_revoked": f"The Slack token was revoked; {_AGAIN}",
    "token_expired": f"The Slack token expired; {_AGAIN}",
    "missing_scope": "The Slack app lacks the scope '{needed}'; update it from manifest/slack.yaml and reinstall it.",
    "not_allowed_token_type": "This is the wrong kind of Slack token; the bot token begins with xoxb-, the app token with xapp-.",
    "ratelimited": "Slack limits how fast the bot may speak in {channel}; it is tried again later.",
    "msg_blocks_too_long": "Slack finds the message for {channel} too long.",
}


LASTING = frozenset(_SENTENCES) - {"ratelimited", "msg_blocks_too_long"}
"""Refusals that hold until a person does something."""
PASSING = frozenset({"ratelimited", "internal_error", "fatal_error", "service_unavailable", "request_timeout", "unknown_error"})
"""Refusals that say nothing about what was asked."""


def code_of(error: SlackApiError) -> str:
    """Return Slack's error code, `unknown_error` when it sent none."""
    answer = getattr(error.response, "data", None)  # of a page in place of JSON, the SDK makes text, or the bare HTTP response
    found = answer.get("error") if isinstance(answer, Mapping) else ""
    return found if isinstance(found, str) and re.fullmatch(r"\w{1,60}", found) else "unknown_error"


def sentence(error: SlackApiError, channel: str = "") -> str:
    """Return what Slack refused, and what to do."""
    code = code_of(error)
    needed = str(error.response.get("needed") or "?") if code == "missing_scope" else ""
    known = _SENTENCES.get(code, "Slack refused with '{code}'.")
    return known.format(channel=channel or "there", needed=needed, code=code)


@asynccontextmanager
async def explained(channel: str = "") -> AsyncIterator[None]:
    """Raise `Unavailable` for every failure of a call to Slack; no address and no token in its sentence."""
    try:
        yield
    except SlackApiError as error:
        raise _kind(code_of(error))(sentence(error, channel)) from None
    except aiohttp.ClientConnectorError as error:
        raise Unavailable(f"Slack cannot be reached ({type(error).__name__}); it is tried again later.") from None
    except (aiohttp.ClientError, SlackClientError, TimeoutError, OSError) as error:
        raise Unanswered(f"Slack did not answer ({type(error).__name__}); it is tried again later.") from None


def _kind(code: str) -> type[Unavailable]:
    """Return what a code means: Slack's own failures may come after it did what was asked."""
    if code in LASTING:
        return Refused
    return Unanswered if code in PASSING - {"ratelimited"} else Unavailable
