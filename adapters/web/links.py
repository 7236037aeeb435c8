"""Tell at which address of the console a line is answered."""

from __future__ import annotations

import re
from urllib.parse import quote

_OWN = {
    **{"alerts": "/alerts", "fleet": "/fleet", "idle": "/fleet", "cost": "/cost", "savings": "/saved", "help": "/help"},
    **dict.fromkeys(("config", "routes", "silences", "feedback", "doctor", "self", "about"), "/settings"),
}
"""The pages that show more than one line's answer, by the line's first word."""
DOWNLOAD = "/download"
_ALERT = re.compile(r"alert ([\w-]+)\Z")


def page_of(line: str) -> str:
    """Return the path of the page that shows answers to lines of this kind."""
    return _OWN.get(line.split(" ", 1)[0], "/ask")


def download(line: str) -> str:
    """Return the address that gives the table of a line's answer as a file."""
    return f"{DOWNLOAD}?line={quote(line)}"


def address(line: str) -> str:
    """Return the address that opens a line: the page of its kind, else the one that shows any line's answer."""
    if alert := _ALERT.match(line):
        return f"/alert/{alert[1]}"
    return f"{page_of(line)}?line={quote(line)}"
