"""Specify a table once: its cells on a card, its numbers in `data` and CSV, and their sources.

UNUSED = Columns(
    Column("storage", lambda item: item.labels.resource, key="resource"),
    Column("GiB", lambda item: item.gib, COUNT, key="gib", source="provisioned size"),
    Column("$/month", lambda item: item.usd_per_month, USD, key="usd_per_month", total=True),
)
UNUSED.table(items, most=20), UNUSED.data(items), UNUSED.sources("storage")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Generic, TypeVar

from bot.cards.card import MISSING, Align, Heading, Table, folded
from bot.cards.words import percent
from bot.model.money import counted, usd
from bot.model.window import day, duration_text

Item = TypeVar("Item", contravariant=True)  # noqa: PLC0105 (a name for readers)


@dataclass(frozen=True)
class Unit:
    """State how values of one kind are written in a cell, and stored in `data`."""

    write: Callable[[Any], str]
    align: Align = Align.RIGHT
    store: Callable[[Any], Any] = lambda value: value


TEXT = Unit(str, Align.LEFT)
DAY = Unit(day, Align.LEFT)
DURATION = Unit(duration_text, Align.LEFT, timedelta.total_seconds)
"""A span of time, in seconds in `data`."""
NUMBER = Unit(str)
COUNT = Unit("{:,}".format)
HOURS = Unit("{:,.1f}".format, store=lambda hours: round(hours, 2))
"""Node-hours and pod-hours."""
MEGABYTES = Unit(lambda size: f"{size / 1e6:,.0f}")
"""Bytes, written in millions."""
SHARE = Unit(percent)
"""A ratio of 0 to 1, written in percent."""
TIMES = Unit("{:.2f}x".format)
"""A multiple, such as 1.50x."""
RATIO = Unit(SHARE.write, store=lambda ratio: round(ratio, 4))
"""A ratio, written in percent and kept to four digits."""
USD = Unit(usd)
USD_CENTS = Unit(partial(usd, digits=2))
"""USD to the cent, however large."""


@dataclass(frozen=True)
class Column(Generic[Item]):
    """Specify one number or word of each item: its heading, its value, its name in `data`.

    Without `name` it stands in `data` alone, without `key` on the card alone. A value of None, and
    an empty text, is drawn as `missing`.
    """

    name: str
    of: Callable[[Item], Any]
    unit: Unit = TEXT
    key: str = ""
    source: str = ""
    """How the number is made, as `receipt` says it."""
    total: bool = False
    """Added up in the row below the table."""
    missing: str = MISSING

    def cell(self, item: Item) -> str:
        """Return the value as the card shows it."""
        value = self.of(item)
        return self.missing if value is None or value == "" else self.unit.write(value)

    def datum(self, item: Item) -> Any:
        """Return the value as `data` has it."""
        value = self.of(item)
        return None if value is None else self.unit.store(value)

    def sum_of(self, items: Sequence[Item]) -> str:
        """Return the cell of the row of sums, "" of a column that is not added up."""
        if not self.total:
            return ""
        # What is not known of an item is left out of the sum: a part is told rather than none.
        values = [value for item in items if (value := self.of(item)) is not None]
        return self.unit.write(sum(values, Decimal(0))) if values else self.missing


def datum(key: str, of: Callable[[Item], Any], source: str = "", unit: Unit = TEXT) -> Column[Item]:
    """Specify a value that stands in `data` alone."""
    return Column("", of, unit, key, source)


class Columns(Generic[Item]):
    """Specify a table by its columns, in the order of the card."""

    def __init__(self, *columns: Column[Item]) -> None:
        self.columns = columns
        self.drawn = tuple(column for column in columns if column.name)
        self.headings = tuple(Heading(column.name, column.unit.align) for column in self.drawn)

    def table(
        self,
        items: Sequence[Item],
        *,
        most: int | None = None,
        rest: str = "and {:,} more",
        noun: str = "",
        total: str = "",
        caption: str = "",
        opens: Callable[[Item], str] | None = None,
    ) -> Table:
        """Draw the first `most` items; `rest` counts the others, `total` names the row of sums.

        Where they have a `noun` it names them in `rest`: `and 3 more alerts`. Where each item has a
        line that `opens` it, the others are kept for a surface with room.
        """
        sums = (total, *(column.sum_of(items) for column in self.drawn[1:])) if total else ()
        lines = tuple(opens(item) for item in items) if opens else ()
        # Rows that open something are all drawn: a page has room for those that a chat folds away.
        rows = tuple(self.row(item) for item in (items if opens else items[:most]))
        table = Table(self.headings, rows, sums, caption, lines=lines)
        hidden = len(items) - (len(items) if most is None else most)
        if most is None or hidden <= 0:
            return table
        note = f"and {counted(hidden, f'more {noun}')}" if noun else rest.format(hidden)
        return folded(table, most, note) if opens else replace(table, rest=note)

    def row(self, item: Item) -> tuple[str, ...]:
        """Return the cells of one item."""
        return tuple(column.cell(item) for column in self.drawn)

    def record(self, item: Item) -> dict[str, Any]:
        """Return the typed values of one item by key."""
        return {column.key: column.datum(item) for column in self.columns if column.key}

    def data(self, items: Sequence[Item]) -> list[dict[str, Any]]:
        """Return the typed values of every item by key: what `--json`, CSV and programs get."""
        return [self.record(item) for item in items]

    def pick(self, *names: str) -> Columns[Item]:
        """Return the columns of these keys, or of these headings, in this order."""
        columns = {column.name: column for column in self.drawn}
        columns |= {column.key: column for column in self.columns if column.key}
        return Columns(*(columns[name] for name in names))

    def sources(self, path: str) -> dict[str, str]:
        """Return how each number is made, by its path below `path` in an answer's data."""
        return {
            f"{path}/{column.key}": column.source
            for column in self.columns
            if column.key and column.source
        }
