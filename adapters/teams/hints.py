"""Order commands by what a newcomer tries first: Teams lists twelve, a greeting offers four."""

from __future__ import annotations

from collections.abc import Sequence

from bot.ports import CommandHint

_FIRST = ("alerts", "cost", "fleet", "idle", "why", "ack", "snooze", "forecast", "spot", "migrate", "help", "doctor")


def by_worth(hints: Sequence[CommandHint]) -> tuple[CommandHint, ...]:
    """Return the hints, those named here first, the others in their own order after them."""
    rank = {name: place for place, name in enumerate(_FIRST)}
    return tuple(sorted(hints, key=lambda hint: rank.get(hint.name, len(rank))))
