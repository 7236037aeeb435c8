"""Hold what a replay of recorded time came to."""

from __future__ import annotations

from dataclasses import dataclass, field

from bot.model.alert import Alert, Notice
from bot.model.window import Window


@dataclass
class Replay:
    """Hold what a replay saw: every opening of every alert as it stood last, every notice, the ticks run."""

    window: Window
    ticks: int = 0
    alerts: dict[str, Alert] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
