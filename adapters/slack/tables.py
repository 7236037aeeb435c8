"""Draw a table as monospaced text, or as a list where a phone would break its lines.

Slack's own `table` block is not used: a message may hold only one (`only_one_table_allowed`, read
2026-11-21), where some answers have three, and what stands in its place in a client that does not
know it is not documented.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from adapters.slack import markup
from bot.cards.card import Align, Heading, Table

_WIDEST = {1: 90, 2: 64, 3: 48}
_WIDEST_OF_MANY = 60
_PHONE = 46  # monospaced signs of a line that a phone shows before it breaks one, and the columns with it


def table_text(table: Table, most: int) -> str:
    """Return caption and a code block of up to `most` characters.

    Rows that do not fit are counted in its last line.
    """
    caption = markup.strong(markup.cut(table.caption, 200))
    head, *rows, total = _lines(table)
    if _width(head.partition("\n")[2]) > _PHONE and any((*table.rows, table.total)):
        return _list(table, caption, most)
    room = most - markup.size(caption) - markup.size(head) - markup.size(total) - 80
    fitting: list[str] = []
    for row in rows:
        room -= markup.size(row) + 1
        if room < 0:
            break
        fitting.append(row)
    more = f"… and {len(rows) - len(fitting):,} more rows" if len(fitting) < len(rows) else ""
    body = "\n".join(line for line in (head, *fitting, more, total) if line)
    return "\n".join(
        part
        for part in (caption, f"```\n{markup.cut(body, most - markup.size(caption) - 10)}\n```")
        if part
    )


def total_line(table: Table) -> str:
    """Return the total in one line, each figure after its column's name."""
    return _point(table.total, table.columns).removeprefix("• ")


def _lines(table: Table) -> list[str]:
    """Return header, every row and the total ("" without one), aligned and escaped."""
    columns = table.columns
    cells = [
        _row(row, len(columns)) for row in ([c.name for c in columns], *table.rows, table.total)
    ]
    widths = [max(_width(row[n]) for row in cells) for n in range(len(columns))]
    lines = [_line(row, columns, widths) for row in cells]
    ruler = "─" * (sum(widths) + 2 * (len(widths) - 1))
    lines[0] += f"\n{ruler}"
    lines[-1] = f"{ruler}\n{lines[-1]}" if table.total else ""
    return lines


def _list(table: Table, caption: str, most: int) -> str:
    """Return a point for each row: its first cell bold, the others after their column's name."""
    points = [_point(row, table.columns) for row in table.rows if row]
    total = _point(table.total, table.columns) if table.total else ""
    total = total if markup.size(total) <= most // 3 else "…"  # no real one is longer
    fitting: list[str] = []
    room = most - markup.size(caption) - markup.size(total) - 80
    for point in points:
        room -= markup.size(point) + 1
        if room < 0:
            break
        fitting.append(point)
    more = f"… and {len(points) - len(fitting):,} more rows" if len(fitting) < len(points) else ""
    return "\n".join(part for part in (caption, *fitting, more, total) if part)


def _point(row: Sequence[str], columns: Sequence[Heading]) -> str:
    first, *cells = [markup.cut(markup.one_line(cell), _WIDEST[1]) for cell in row[: len(columns)]]
    names = [
        "" if _needs_no_name(n, columns) else f"{markup.cut(markup.one_line(c.name), 40)} "
        for n, c in enumerate(columns[1:])
    ]
    facts = [f"{name}{cell}" for name, cell in zip(names, cells, strict=False) if cell]
    return f"• {markup.strong(first)}: {markup.escape(' · '.join(facts))}".rstrip()


def _needs_no_name(n: int, columns: Sequence[Heading]) -> bool:
    """Return whether a cell needs no name: the only one after the first, or words right behind it."""
    return len(columns) == 2 or (n == 0 and columns[1].align is Align.LEFT)


def _row(row: Sequence[str], n: int) -> list[str]:
    """Return exactly `n` cells of one line each."""
    widest = _WIDEST.get(n, _WIDEST_OF_MANY)
    cells = [markup.cut(markup.one_line(cell), widest) for cell in row[:n]]
    return cells + [""] * (n - len(cells))


def _line(row: Sequence[str], columns: Sequence[Heading], widths: Sequence[int]) -> str:
    cells = [
        _pad(cell, column.align, width)
        for cell, column, width in zip(row, columns, widths, strict=True)
    ]
    return markup.escape_controls("  ".join(cells).rstrip()).replace(
        "`", "ˋ"
    )  # three graves would end the block


def _pad(cell: str, align: Align, width: int) -> str:
    space = " " * (width - _width(cell))
    return space + cell if align is Align.RIGHT else cell + space


def _width(text: str) -> int:
    """Return the columns a monospaced font takes: two for the wide signs of East Asia."""
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)
