"""Read what people type in Slack as a line of the bot's own grammar."""

from __future__ import annotations

import html
import re

_LINK = re.compile(r"<(?:https?://[^|>]*|mailto:[^|>]*|#\w+|!\w+)\|([^>]*)>")
_URL = re.compile(r"<((?:https?://|mailto:)[^|>]*)>")
_USER = re.compile(r"<@([UW]\w+)(?:\|[^>]*)?>")
_FIRST_USER = re.compile(r"^\s*<@[UW]\w+(?:\|[^>]*)?>[\s,:]*")
_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "\u00a0": " "})
_LONGEST_LINE = 3_000


def parse_line(text: str) -> str:
    """Return the line: Slack's escapes undone, typographic quotes and dashes as on a keyboard; `help` when empty."""
    plain = _USER.sub(r"slack:\1", _URL.sub(r"\1", _LINK.sub(r"\1", text)))
    plain = html.unescape(plain).translate(_QUOTES)
    plain = re.sub(r"(^|\s)[—–](?=[a-z])", r"\1--", plain)
    return " ".join(plain.split())[:_LONGEST_LINE] or "help"


def without_mention(text: str) -> str:
    """Return the text after the mention of the bot it begins with."""
    return _FIRST_USER.sub("", text)
