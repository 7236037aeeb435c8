"""Write a form's answer as the line it stands for; the one place that quotes."""

from __future__ import annotations

import re
from collections.abc import Mapping


def quote(value: str) -> str:
    """Return `value` so that the grammar of `bot.commands.line` reads it back as one word."""
    if value and not re.search(r"[\s\"'\\=]", value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def form_line(line: str, filled: Mapping[str, str]) -> str:
    """Return `line` with ` name=value` for every field that is filled."""
    return " ".join([line, *(f"{name}={quote(value)}" for name, value in filled.items() if value != "")])
