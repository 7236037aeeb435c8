"""Choose which commands to show where there is room for few."""

from __future__ import annotations

from collections.abc import Sequence

from bot.ports import CommandHint

_FIRST = ("cost", "fleet", "alerts", "why", "forecast", "spot", "help")


def usage_hint(hints: Sequence[CommandHint], most: int = 100) -> str:
    """Return the examples that fit into `most` characters: what people ask most, then other questions."""
    ranked = sorted((h for h in hints if not h.changes or h.name in _FIRST), key=_rank)
    shown = ""
    for example in (hint.example or hint.name for hint in ranked):
        if len(longer := f"{shown} | {example}" if shown else example) > most:
            break
        shown = longer
    return shown or "help"


def _rank(hint: CommandHint) -> tuple[int, str]:
    return (_FIRST.index(hint.name) if hint.name in _FIRST else len(_FIRST), hint.name)
