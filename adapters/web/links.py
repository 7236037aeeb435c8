"""Name the pages of the console, the address of each line, and the controls above a cost answer."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from urllib.parse import quote

from bot.cards.card import Block, Buttons, Card
from bot.cards.lines import cost_line, visible, window_line
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
    tabs: tuple[tuple[str, str], ...] = ()
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
    return f"{DOWNLOAD}?line={quote(visible(line), safe='')}"


def address(line: str) -> str:
    """Return the address that opens a line.

    The page of its kind, else the one that shows any line's answer.
    """
    if alert := _ALERT.match(line):
        return f"/alert/{alert[1]}"
    return f"{page_of(line)}?line={quote(visible(line), safe='')}"


_WINDOWS = (
    ("24 hours", "24h"),
    ("7 days", "7d"),
    ("30 days", "30d"),
    ("This month", "mtd"),
    ("Last month", "last-month"),
)


@dataclass(frozen=True)
class Choice:
    """Hold one link: its words, the line that it opens, and whether that is the one shown."""

    words: str
    line: str
    chosen: bool = False


@dataclass(frozen=True)
class CostControls:
    """Hold the controls above a cost answer.

    `first` and `last` are the days of its window, `tail` the line's part after it.
    """

    windows: tuple[Choice, ...]
    groupings: tuple[Choice, ...]
    filters: tuple[Choice, ...]
    """Each opens the line without it."""
    first: date
    last: date
    tail: str
    offered: tuple[str, ...]
    """The lines of the groupings as the answer's own buttons write them, its window by its ends."""


def cost_controls(card: Card, line: str) -> CostControls | None:
    """Return the controls of an answer; None where it tells no window, such as a refusal's."""
    if "groupings" not in card.data:
        return None
    start, end = card.data["window"]["start"], card.data["window"]["end"]
    assert isinstance(start, datetime)
    assert isinstance(end, datetime)
    ends, by = window_line(Window(start, end)), tuple(card.data["by"])

    # The answer's data write a filter as people do: `team=a,b`, or `team!=a`.
    filters = []
    for words in card.data["filters"]:
        name, _, values = words.partition("=")
        filters.append(Filter(name.removesuffix("!"), tuple(values.split(",")), name.endswith("!")))

    window = next((name for _, name in _WINDOWS if cost_line(name, by, filters) == line), ends)
    groupings = [*card.data["groupings"]]
    groupings += [name for name in (*by, "day") if name not in groupings]
    return CostControls(
        windows=tuple(
            Choice(words, cost_line(name, by, filters), name == window) for words, name in _WINDOWS
        ),
        groupings=tuple(
            Choice(name.replace("_", " "), cost_line(window, (name,), filters), (name,) == by)
            for name in dict.fromkeys(groupings)
        ),
        filters=tuple(
            Choice(str(x), cost_line(window, by, [y for y in filters if y != x])) for x in filters
        ),
        first=start.date(),
        last=(end - timedelta(microseconds=1)).date(),
        tail=cost_line("", by, filters).removeprefix("cost "),
        offered=tuple(cost_line(ends, (name,), filters) for name in groupings),
    )


def between(first: str, last: str, tail: str) -> str:
    """Return the line of a window of days as the page's form sends it.

    Other words are left for the bot to refuse.
    """
    return f"cost {first}..{last}{tail}" if first != last else f"cost {first}{tail}"


def undoubled(card: Card, offered: Collection[str]) -> Card:
    """Return a card without the buttons whose lines the page offers by its own links."""
    blocks: list[Block] = []
    for block in card.blocks:
        if not isinstance(block, Buttons):
            blocks.append(block)
        elif buttons := tuple(x for x in block.buttons if x.line not in offered):
            blocks.append(replace(block, buttons=buttons))
    return replace(card, blocks=tuple(blocks))
