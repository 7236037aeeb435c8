"""Read from Slack's payloads the line that a person typed, and who asks from where."""

from __future__ import annotations

import re
from dataclasses import dataclass

from adapters.slack.forms import Origin
from adapters.slack.markup import Json, one_line
from bot.model.request import Belonging, Standing

_LINK = re.compile(r"<(?:https?://[^|<>]*|mailto:[^|<>]*|#\w+|!\w+)\|([^<>]*)>")
_URL = re.compile(r"<((?:https?://|mailto:)[^|<>]*)>")
_USER = re.compile(r"<@([UW]\w+)(?:\|[^<>]*)?>")
_FIRST_USER = re.compile(r"\s*<@[UW]\w+(?:\|[^<>]*)?>[\s,:]*")
_PICKED = re.compile(r"(?<![\w:/])slack:([UW][A-Z0-9]+)(?![\w/])")
_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "\u00a0": " "})
_LONGEST_LINE = 3_000
_LONGEST_TYPED = 4 * _LONGEST_LINE
"""Slack's escapes and addresses are longer than what they stand for.

No pattern sees more than this.
"""


@dataclass(frozen=True)
class Claim:
    """Hold what a payload says of who asks from where.

    `private` answers are shown to them alone unless the card is public.
    """

    user: str
    name: str = ""
    channel: str = ""
    thread: str = ""
    response_url: str = ""
    private: bool = True
    pressed_share: bool = False
    """The person pressed Share on a message only they see: it is taken away once it is shared."""
    team: str = ""
    """The workspace or organization of the person, where the payload names one."""
    shared: bool | None = None
    """The channel is shared with another organization, None where the payload does not say."""


@dataclass(frozen=True, kw_only=True)
class Requester(Claim):
    """Hold who asks from where, and how they belong."""

    belonging: Belonging
    address: str
    """The person's own: `slack:U01ALICE`, `slack:T0456/U01BOB`."""

    @property
    def stranger(self) -> bool:
        """Return whether the person belongs to no organization that is served, or nobody can tell."""
        return self.belonging.standing is Standing.STRANGER


def parse_line(text: str) -> str:
    """Return the line: Slack's escapes undone, typographic quotes and dashes as on a keyboard.

    `help` when empty.
    """
    plain = _USER.sub(r"slack:\1", _URL.sub(r"\1", _LINK.sub(r"\1", text[:_LONGEST_TYPED])))
    plain = plain.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").translate(_QUOTES)
    plain = re.sub(r"(^|\s)[—–](?=[a-z])", r"\1--", plain)
    return " ".join(plain.split())[:_LONGEST_LINE] or "help"


def with_workspace(line: str, prefix: str) -> str:
    """Return the line with each person who was mentioned or picked as one of the workspace whose addresses begin so."""
    return _PICKED.sub(rf"slack:{prefix}\1", line) if prefix else line


def without_mention(text: str) -> str:
    """Return the text after the mention of the bot it begins with."""
    first = _FIRST_USER.match(text[:_LONGEST_TYPED])
    return text[first.end() :] if first else text


def is_person(event: Json) -> bool:
    """Return whether a person wrote a message just now.

    Bots, edits and deletions carry a subtype or a bot's id.
    """
    return (
        bool(event.get("user"))
        and not event.get("bot_id")
        and event.get("subtype") in (None, "file_share")
    )


def parse_claim(body: Json, channel: str, *, thread: str = "", private: bool = True) -> Claim:
    """Return who asks by a command, press or modal."""
    user = body.get("user") or {}
    name = one_line(str(body.get("user_name") or user.get("username") or user.get("name") or ""))
    who = str(body.get("user_id") or user.get("id") or "")
    team = str(user.get("team_id") or body.get("team_id") or "")
    return Claim(who, name, channel, thread, body.get("response_url") or "", private, team=team)


def parse_presser(body: Json) -> Claim:
    """Return who pressed, in the thread where the button stands."""
    container, message = body.get("container") or {}, body.get("message") or {}
    channel = (body.get("channel") or {}).get("id") or container.get("channel_id", "")
    thread = container.get("thread_ts") or message.get("thread_ts", "")
    if view := body.get("view"):
        origin = parse_origin(view)
        channel, thread = origin.channel, origin.thread
    return parse_claim(body, channel, thread=thread)


def parse_author(body: Json, thread: str = "") -> Claim:
    """Return who caused an event: wrote a message, opened App Home."""
    event = body.get("event") or {}
    told = body.get("is_ext_shared_channel")
    return Claim(
        str(event.get("user") or ""),
        channel=str(event.get("channel") or ""),
        thread=thread,
        private=False,
        team=str(event.get("user_team") or event.get("source_team") or ""),
        shared=told if isinstance(told, bool) else None,
    )


def parse_origin(view: Json) -> Origin:
    """Return where a modal was opened; nowhere for App Home and for views of another time."""
    try:
        return Origin.load(view.get("private_metadata") or "{}")
    except (ValueError, TypeError):
        return Origin()
