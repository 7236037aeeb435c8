"""Write lines that the grammar reads back: a form's answer, a window; the one place that quotes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from bot.model.spend import Filter
from bot.model.window import Window


def quote(value: str) -> str:
    """Return `value` so that the grammar of `bot.answers.line` reads it back as one word."""
    if value and not re.search(r"[\s\"'\\=]", value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def form_line(line: str, filled: Mapping[str, str]) -> str:
    """Return `line` with ` name=value` for every field that is filled."""
    return " ".join(
        [line, *(f"{name}={quote(value)}" for name, value in filled.items() if value != "")]
    )


def filter_line(pair: Filter) -> str:
    """Return a filter as it may be typed: `team=vision`, `team!=vision,research`, `team=` for none."""
    return f"{pair.dimension}{'!=' if pair.negated else '='}{quote(','.join(pair.values)) if any(pair.values) else ''}"


def cost_line(window: str, by: Sequence[str], filters: Sequence[Filter] = ()) -> str:
    """Return the line that asks for the cost of a window, by these dimensions, of the charges that pass the filters."""
    return " ".join(
        ["cost", window, *(["by", ",".join(by)] if by else []), *map(filter_line, filters)]
    )


def window_line(window: Window) -> str:
    """Return the window as it may be typed: `2026-11`, `2026-11-01..2026-11-07`, or two instants."""
    midnight = all(
        at == at.replace(hour=0, minute=0, second=0, microsecond=0)
        for at in (window.start, window.end)
    )
    if not midnight or window.length < timedelta(days=1):
        return f"{_instant(window.start)}..{_instant(window.end)}"
    last = window.end - timedelta(days=1)
    return (
        f"{window.start:%Y-%m-%d}..{last:%Y-%m-%d}"
        if last > window.start
        else f"{window.start:%Y-%m-%d}"
    )


def _instant(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M}" if not at.second else f"{at:%Y-%m-%dT%H:%M:%S}"


def spreadsheet(table: str) -> bytes:
    """Return the content of a CSV file; Excel reads UTF-8 by its mark."""
    return f"\ufeff{table}".encode()


def file_name(line: str, kind: str = "csv") -> str:
    """Return the name of a file with the answer to a line: `trnbot-cost-7d-by-team.csv`."""
    words = re.sub(r"[^\w.]+", "-", line, flags=re.ASCII).strip("-")
    return f"trnbot-{words[:80]}.{kind}"
