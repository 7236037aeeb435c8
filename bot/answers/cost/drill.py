"""Write the lines that open a part of a cost answer: a row, a bar, a colour, another grouping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from bot.cards.card import Button
from bot.cards.lines import cost_line, window_line
from bot.model.spend import Filter, Spend, Tally
from bot.model.window import Window, month_of

TIMES = {"hour", "day", "month"}
DRILLS = ("service", "team", "instance_type", "purchase", "line", "cluster")
"""Groupings that are offered, in their order."""
_UNTYPABLE = set(',"“”„\n')


def others(tally: Tally, filters: Sequence[Filter]) -> list[str]:
    """Return the groupings that a part of this answer may be opened by."""
    taken = {*tally.by, *(each.dimension for each in filters)}
    return [name for name in DRILLS if name not in taken]


def part_line(tally: Tally, filters: Sequence[Filter], key: Mapping[str, str]) -> str:
    """Write the line that opens the part of an answer that has these values.

    "" where none can be typed.
    """
    times = [key[name] for name in key if name in TIMES]
    named = {name: value for name, value in key.items() if name not in TIMES}
    free = [name for name in others(tally, filters) if name not in named]
    if (named and not free) or any(set(value) & _UNTYPABLE for value in named.values()):
        return ""
    by = free[:1] if named else [name for name in tally.by if name not in TIMES] or free[:1]
    kept = [*filters, *(Filter(name, (value,)) for name, value in named.items())]
    return cost_line(window_line(span_of(times[0]) if times else tally.window), by, kept)


def span_of(at: str) -> Window:
    """Return the hour, day or month that a key of time names."""
    start = datetime.fromisoformat(at if len(at) > 7 else f"{at}-01").replace(tzinfo=UTC)
    if len(at) <= 7:
        return month_of(start)
    return Window(start, start + timedelta(hours=1 if "T" in at else 24))


def drill_buttons(tally: Tally, filters: Sequence[Filter], ranked: Sequence[Spend]) -> list[Button]:
    """Offer other groupings, and the largest row on its own."""
    window = window_line(tally.window)
    buttons = [
        Button(f"By {name.replace('_', ' ')}", cost_line(window, [name], filters))
        for name in others(tally, filters)[:3]
    ]
    first = next((row for row in ranked if tally.by and row.key[tally.by[0]]), None)
    line = part_line(tally, filters, {tally.by[0]: first.key[tally.by[0]]}) if first else ""
    return (
        [Button(f"Only {first.key[tally.by[0]][:40]}", line), *buttons]
        if first and line
        else buttons
    )
