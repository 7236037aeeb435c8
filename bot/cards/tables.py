"""Fold tables for surfaces with little room, and keep every row for those that have it."""

from __future__ import annotations

from dataclasses import replace

from bot.cards.card import Table

_EVERY = 300
"""Rows that a table keeps for a surface with room.

A page of more helps nobody, and is slow to load.
"""


def folded(table: Table, most: int, rest: str) -> Table:
    """Return the table with its first `most` rows shown, and `rest` in place of the others.

    Whole where they are no more.
    """
    if len(table.rows) <= most:
        return table
    return replace(
        table,
        rows=table.rows[:most],
        rest=rest,
        every=table.rows[:_EVERY],
        lines=table.lines[:_EVERY],
    )
