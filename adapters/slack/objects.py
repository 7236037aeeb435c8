"""Make the small objects of Block Kit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from adapters.slack import mrkdwn

Json = dict[str, Any]
_OURS = re.compile(r"<[^>]*>")
_LINKED = re.compile(r"://|www\.|mailto:|[#@]\w|\w\.[^\W\d_]{2}")


def plain_text(text: str, most: int) -> Json:
    """Return a plain_text object, where Slack reads no markup; no emoji names either."""
    return {"type": "plain_text", "text": mrkdwn.cut(mrkdwn.line(text), most) or "-", "emoji": False}


def markup(text: str) -> Json:
    """Return a mrkdwn object; where the text holds an address or a name Slack would link by itself, `verbatim` keeps it text.

    Only there, because some clients and renderers take `verbatim` to mean that nothing at all is formatted.
    """
    drawn: Json = {"type": "mrkdwn", "text": text}
    return {**drawn, "verbatim": True} if _LINKED.search(_OURS.sub("", text)) else drawn


def section(text: str) -> Json:
    """Return a section of mrkdwn."""
    return {"type": "section", "text": markup(text)}


def context(texts: Sequence[str]) -> Json:
    """Return a context block, small and grey."""
    return {"type": "context", "elements": [markup(text) for text in texts]}
