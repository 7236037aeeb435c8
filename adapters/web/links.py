"""Name the pages of the console, the address of each line, and the controls above an answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import count
from urllib.parse import quote, urlencode

from bot.cards.card import EVERY, MISSING, Align, Card, Table
from bot.cards.lines import cost_line, visible, window_line
from bot.model.request import LineWindow
from bot.model.spend import Filter
from bot.model.window import Window

SETTINGS = (
    ("Policy", "config show"),
    ("Change", "config"),
    ("History", "config history"),
    ("Routes and owners", "routes"),
    ("Silences", "silences"),
    ("Judgments", "feedback"),
    ("Health", "doctor"),
    ("Watch", "self"),
    ("About", "about"),
)
"""Words and line of each part of the settings."""
HOME = "/"
"""The path of the channel of alerts; among lines it stands for that page."""
ALERTS = (
    ("Messages", HOME),
    ("Open now", "alerts"),
    ("Summary", "summary"),
    ("Suggestions", "suggestions"),
)
"""Words and line of each view of the alerts and of what follows from them."""


@dataclass(frozen=True)
class Page:
    """Name a page, the line that it shows the answer of, and lines that people ask next."""

    name: str
    icon: str = ""
    """Its sign in the rail; without one it is a view of the page `of`."""
    line: str = ""
    tabs: tuple[tuple[str, str], ...] = ()
    """Words and line of each tab."""
    heading: str = ""
    """Begins a part of the rail."""
    of: str = ""


PAGES: Mapping[str, Page] = {
    "/alerts": Page("Alerts", line="alerts", tabs=ALERTS, of=HOME),
    "/fleet": Page("Fleet", "fleet", "fleet", (("Clusters", "fleet"), ("Idle nodes", "idle"))),
    "/cost": Page("Cost", "cost", "cost 7d by team", heading="Money"),
    "/saved": Page("Saved", "saved", "savings"),
    "/ask": Page("Ask", "ask", heading="More"),
    "/settings": Page("Settings", "settings", "config show", SETTINGS),
    "/help": Page("Help", "help", "help all"),
}
"""The pages beside the channel of alerts, by path."""
_OWN = {
    line.split()[0]: path
    for path, page in PAGES.items()
    for line in (page.line, *(tabbed for _, tabbed in page.tabs))
    if line not in ("", HOME)
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
    if line == HOME:
        return HOME
    if alert := _ALERT.match(line):
        return f"/alert/{alert[1]}"
    return f"{page_of(line)}?line={quote(visible(line), safe='')}"


WINDOWS = (
    ("24 hours", "24h"),
    ("7 days", "7d"),
    ("30 days", "30d"),
    ("This month", "mtd"),
    ("Last month", "last-month"),
)
"""Words of each window that is offered, and how it is typed."""


@dataclass(frozen=True)
class Choice:
    """Hold one link: its words, the line that it opens, and whether that is the one shown."""

    words: str
    line: str
    chosen: bool = False


@dataclass(frozen=True)
class Controls:
    """Hold the controls above an answer that is of a window of time, and those of a cost.

    `first` and `last` are the days of its window, None where it names none.
    """

    windows: tuple[Choice, ...]
    first: date | None
    last: date | None
    groupings: tuple[Choice, ...] = ()
    filters: tuple[Choice, ...] = ()
    """Each opens the line without it."""
    offered: tuple[str, ...] = ()
    """The lines of the groupings as the answer's own buttons write them, its window by its ends."""


def controls_of(card: Card, current: LineWindow, now: datetime) -> Controls:
    """Return the controls of an answer to a line over the window `current`."""
    chosen = [name for _, name in WINDOWS if Window.parse(name, now) == current.window]
    windows = tuple(Choice(words, current.over(name), name in chosen) for words, name in WINDOWS)
    first = last = None
    if current.window:
        first = current.window.start.date()
        last = (current.window.end - timedelta(microseconds=1)).date()
    if "groupings" not in card.data:
        return Controls(windows, first, last)

    # The answer's data write a filter as people do: `team=a,b`, or `team!=a`.
    filters = [
        Filter(name.removesuffix("!"), tuple(values.split(",")), name.endswith("!"))
        for name, _, values in (words.partition("=") for words in card.data["filters"])
    ]

    by = tuple(card.data["by"])
    ends = window_line(Window(card.data["window"]["start"], card.data["window"]["end"]))
    window = chosen[0] if chosen else ends
    names = dict.fromkeys([*card.data["groupings"], *by, "day"])
    return Controls(
        windows,
        first,
        last,
        groupings=tuple(
            Choice(name.replace("_", " "), cost_line(window, (name,), filters), (name,) == by)
            for name in names
        ),
        filters=tuple(
            Choice(str(x), cost_line(window, by, [y for y in filters if y != x])) for x in filters
        ),
        offered=tuple(cost_line(ends, (name,), filters) for name in names),
    )


def span(first: str, last: str) -> str:
    """Return the words of a window of days as a page's form sends it.

    Other words are left for the bot to refuse.
    """
    return f"{first}..{last}" if first != last else first


ROWS = 100
"""Rows of a table that a page shows at once."""
_SPAN = re.compile(r"(\d+(?:\.\d+)?) (d|h|min|s|w)\b")
_SECONDS = {"s": 1, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_NUMBER = re.compile(r"[~≈+]?(-?)\$?(\d[\d,]*(?:\.\d+)?)(?!\d*-\d)")
_UNKNOWN = ("", MISSING, "?")
_BEYOND = f"Only the first {EVERY:,} rows are here; add a filter to the line, or take its CSV file."


@dataclass(frozen=True)
class TablePage(Table):
    """Hold the rows of a long table that an address asks for, sorted and filtered as it says."""

    name: str = ""
    """Where the address leads to within the page."""
    fitting: int = 0
    """Rows that fit the filter, of `of`."""
    of: int = 0
    first: int = 0
    sorts: tuple[tuple[str, str], ...] = ()
    """For each column the address that sorts by it, and how it is sorted now, "" if it is not."""
    before: str = ""
    after: str = ""
    filter: tuple[str, str] = ("", "")
    """Name and value of the filter in the address."""
    fields: tuple[tuple[str, str], ...] = ()
    """What else the address holds."""


def paged(card: Card, path: str, query: Mapping[str, str]) -> Card:
    """Return a card with each long table as the page of it that an address asks for."""
    place = count(1)
    blocks = (
        _table_page(block, next(place), path, query) if isinstance(block, Table) else block
        for block in card.blocks
    )
    return replace(card, blocks=tuple(blocks))


def _table_page(table: Table, place: int, path: str, query: Mapping[str, str]) -> Table:
    """Return the page of the table at a place of a card, the table itself where it is short."""
    every = table.every or table.rows
    if len(every) <= ROWS:
        return table

    # The second table of a page has `sort.2` for `sort`, and so on.
    sort, sought, start = (
        name if place == 1 else f"{name}.{place}" for name in ("sort", "filter", "from")
    )
    words = query.get(sought, "").lower().split()
    opened = zip(every, (*table.lines, *[""] * len(every)), strict=False)
    rows = [x for x in opened if all(word in " ".join(x[0]).lower() for word in words)]

    # What is not known stands last, whichever end is first.
    names, by = [column.name for column in table.columns], query.get(sort, "")
    if (name := by.removeprefix("-")) in names:
        at = names.index(name)
        sorted_rows = [x for x in rows if x[0][at] not in _UNKNOWN]
        sorted_rows.sort(key=lambda x: _worth(x[0][at]), reverse=by.startswith("-"))
        rows = [*sorted_rows, *(x for x in rows if x[0][at] in _UNKNOWN)]

    number = query.get(start, "")
    first = int(number) - 1 if re.fullmatch(r"[1-9]\d{0,5}", number) else 0
    first = first - first % ROWS if first < len(rows) else 0

    def to(**changes: str) -> str:
        filled = urlencode({k: v for k, v in {**query, **changes}.items() if v}, quote_via=quote)
        return f"{path}?{filled}#table-{place}"

    sorts = []
    for column in table.columns:
        state = {column.name: "ascending", f"-{column.name}": "descending"}.get(by, "")
        # Of numbers the largest come first, and the next press turns the order.
        down = state == "ascending" if state else column.align is Align.RIGHT
        sorts.append((to(**{sort: f"{'-' if down else ''}{column.name}", start: ""}), state))

    page = rows[first : first + ROWS]
    return TablePage(
        **{name: getattr(table, name) for name in ("columns", "caption")},
        total=() if words else table.total,  # it is of every row, and would seem that of the filter
        rows=tuple(row for row, _ in page),
        lines=tuple(line for _, line in page),
        rest=_BEYOND if len(every) == EVERY else "",
        name=f"table-{place}",
        fitting=len(rows),
        of=len(every),
        first=first,
        sorts=tuple(sorts),
        before=to(**{start: str(first - ROWS + 1) if first > ROWS else ""}) if first else "",
        after=to(**{start: str(first + ROWS + 1)}) if first + ROWS < len(rows) else "",
        filter=(sought, query.get(sought, "")),
        fields=tuple((k, v) for k, v in query.items() if v and k not in (sought, start)),
    )


def _worth(cell: str) -> tuple[bool, float, str]:
    """Return the key that sorts a cell: its seconds or its number, then its words.

    Words without a number come last; numbers within words are in their order, as `node-9`, `node-10`.
    """
    words = re.sub(r"\d+", lambda digits: digits[0].zfill(20), cell.lower())
    spans = _SPAN.findall(cell)
    if spans and not _SPAN.sub("", cell).strip():
        return False, sum(float(length) * _SECONDS[unit] for length, unit in spans), words
    if number := _NUMBER.match(cell):
        return False, float(f"{number[1]}{number[2].replace(',', '')}"), words
    return True, 0.0, words
