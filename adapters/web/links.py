"""Name the pages of the console, the address of each line, and the controls above a cost answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any
from urllib.parse import quote

from bot.cards.card import Buttons, Card
from bot.cards.lines import cost_line, window_line
from bot.model.spend import Filter
from bot.model.window import Window

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


_WINDOWS = (
    ("24 hours", "24h"),
    ("7 days", "7d"),
    ("30 days", "30d"),
    ("This month", "mtd"),
    ("Last month", "last-month"),
)
_DAY = "day"


@dataclass(frozen=True)
class Choice:
    """Hold one link: its words, the line that it opens, and whether that is the one shown."""

    words: str
    line: str
    chosen: bool = False


@dataclass(frozen=True)
class CostControls:
    """Hold the controls above a cost answer.

    `first` and `last` are the days of its window, `rest` the line's part after it.
    """

    windows: tuple[Choice, ...]
    groupings: tuple[Choice, ...]
    filters: tuple[Choice, ...]
    """Each opens the line without it."""
    first: date
    last: date
    rest: str
    offered: tuple[str, ...]
    """The lines of the groupings as the answer's own buttons write them, its window by its ends."""


def cost_controls(card: Card, line: str) -> CostControls | None:
    """Return the controls of an answer; None where it tells no window, such as a refusal's."""
    if "groupings" not in card.data:
        return None
    window, by = _window(card.data["window"]), tuple(card.data["by"])
    filters = tuple(_filter(words) for words in card.data["filters"])
    named = next(
        (name for _, name in _WINDOWS if cost_line(name, by, filters) == line), window_line(window)
    )
    groupings = [
        *card.data["groupings"],
        *(name for name in (*by, _DAY) if name not in card.data["groupings"]),
    ]
    return CostControls(
        tuple(
            Choice(words, cost_line(name, by, filters), name == named) for words, name in _WINDOWS
        ),
        tuple(
            Choice(name.replace("_", " "), cost_line(named, (name,), filters), (name,) == by)
            for name in dict.fromkeys(groupings)
        ),
        tuple(
            Choice(str(x), cost_line(named, by, [y for y in filters if y != x])) for x in filters
        ),
        window.start.date(),
        (window.end - timedelta(microseconds=1)).date(),
        cost_line("", by, filters).removeprefix("cost "),
        tuple(cost_line(window_line(window), (name,), filters) for name in groupings),
    )


def between(first: str, last: str, rest: str) -> str:
    """Return the line of a window of days as the page's form sends it.

    Other words are left for the bot to refuse.
    """
    return f"cost {first}..{last}{rest}" if first != last else f"cost {first}{rest}"


def offered_by(controls: CostControls | None) -> Sequence[str]:
    """Return the lines that the controls offer."""
    return controls.offered if controls else ()


def undoubled(card: Card, offered: Sequence[str]) -> Card:
    """Return a card without the buttons whose lines the page offers already, by its tabs, its rows or its controls."""
    rows = [
        replace(
            block, buttons=tuple(button for button in block.buttons if button.line not in offered)
        )
        if isinstance(block, Buttons)
        else block
        for block in card.blocks
    ]
    return replace(
        card,
        blocks=tuple(block for block in rows if not isinstance(block, Buttons) or block.buttons),
    )


def _window(ends: Mapping[str, Any]) -> Window:
    start, end = ends["start"], ends["end"]
    assert isinstance(start, datetime)
    assert isinstance(end, datetime)
    return Window(start, end)


def _filter(words: str) -> Filter:
    """Read a filter back as an answer's data write it."""
    name, _, values = words.partition("=")
    return Filter(name.removesuffix("!"), tuple(values.split(",")), name.endswith("!"))
