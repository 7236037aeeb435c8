"""Make the small objects of Block Kit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adapters.slack import mrkdwn

Json = dict[str, Any]


def plain_text(text: str, most: int) -> Json:
    """Return a plain_text object, where Slack reads no markup; no emoji names either."""
    return {"type": "plain_text", "text": mrkdwn.cut(mrkdwn.line(text), most) or "-", "emoji": False}


def markup(text: str) -> Json:
    """Return a mrkdwn object whose plain text Slack leaves alone: no addresses or #names become links."""
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def section(text: str) -> Json:
    """Return a section of mrkdwn."""
    return {"type": "section", "text": markup(text)}


def context(texts: Sequence[str]) -> Json:
    """Return a context block, small and grey."""
    return {"type": "context", "elements": [markup(text) for text in texts]}
