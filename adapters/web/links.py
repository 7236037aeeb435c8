"""Name the pages of the console, and tell at which address a line is answered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

SETTINGS = (
    ("Policy", "config show"),
    ("Change", "config"),
    ("History", "config history"),
    ("Routes and owners", "routes"),
    ("Silences", "silences"),
    ("Judgements", "feedback"),
    ("Health", "doctor"),
    ("Watch", "self"),
    ("About", "about"),
)
"""Words and line of each part of the settings."""


@dataclass(frozen=True)
class Rail:
    """Name a page, the line that it shows the answer of, and lines that people ask next."""

    name: str
    icon: str
    line: str = ""
    more: tuple[tuple[str, str], ...] = ()
    """Words and line of each tab."""
    heading: str = ""
    """Begins a part of the rail."""


PAGES: Mapping[str, Rail] = {
    "/alerts": Rail(
        "Open", "alerts", "alerts", (("Open", "alerts"), ("Last 7 days", "alerts window=7d"))
    ),
    "/fleet": Rail("Fleet", "fleet", "fleet", (("Clusters", "fleet"), ("Idle nodes", "idle"))),
    "/cost": Rail("Cost", "cost", "cost 7d by team", heading="Money"),
    "/saved": Rail("Saved", "saved", "savings", (("30 days", "savings"), ("7 days", "savings 7d"))),
    "/ask": Rail("Ask", "ask", heading="More"),
    "/settings": Rail("Settings", "settings", "config show", SETTINGS),
    "/help": Rail("Help", "help", "help all"),
}
"""The pages of the rail beside the channel, by path."""
_OWN = {
    **{
        "alerts": "/alerts",
        "fleet": "/fleet",
        "idle": "/fleet",
        "cost": "/cost",
        "savings": "/saved",
        "help": "/help",
    },
    **dict.fromkeys(
        ("config", "routes", "silences", "feedback", "doctor", "self", "about"), "/settings"
    ),
}
"""The pages that show more than one line's answer, by the line's first word."""
DOWNLOAD = "/download"
_ALERT = re.compile(r"alert ([\w-]+)\Z")


def page_of(line: str) -> str:
    """Return the path of the page that shows answers to lines of this kind."""
    return _OWN.get(line.split(" ", 1)[0], "/ask")


def download(line: str) -> str:
    """Return the address that gives the table of a line's answer as a file."""
    return f"{DOWNLOAD}?line={quote(line, safe='')}"


def address(line: str) -> str:
    """Return the address that opens a line.

    The page of its kind, else the one that shows any line's answer.
    """
    if alert := _ALERT.match(line):
        return f"/alert/{alert[1]}"
    return f"{page_of(line)}?line={quote(line, safe='')}"
