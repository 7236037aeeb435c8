"""Say in words what every chat says of a card."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def short(text: str, most: int) -> str:
    """Return at most `most` characters, the last of them an ellipsis where something was cut."""
    return text if len(text) <= most else text[: most - 1] + "…"
