"""Offer the windows, groupings and filters of a cost answer, each as a link that opens the line it stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any

from bot.cards.card import Buttons, Card
from bot.cards.lines import cost_line, window_line
from bot.model.spend import Filter
from bot.model.window import Window

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
