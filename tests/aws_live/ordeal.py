"""Let a watch look at a live account that misbehaves, and tell how it fared beside one that was left in peace."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from bot.model.alert import Alert
from bot.model.notification import ReplayResult
from bot.model.reading import Gap
from bot.model.window import Window
from bot.ports import Ports, Prices
from bot.settings.settings import read_settings
from bot.watch.preview import replay
from bot.wiring.source import OpenedSource, memory_stores
from tests.builders import with_parts

CHANNELS = ("web:alerts",)


@dataclass
class Watched:
    """Let a replay watch a live source: the world's time moves with each tick, and `before` may spoil or mend the world."""

    world: Any
    live: Any
    window: Window
    before: Callable[[datetime], None] = lambda _: None
    gaps: dict[datetime, tuple[Gap, ...]] = field(default_factory=dict)

    def read(self, now: datetime) -> Any:
        self.world.now = now
        self.before(now)
        reading = self.live.read(now)
        self.gaps[now] = reading.gaps
        return reading

    def extent(self) -> Window:
        return self.window

    def problems(self) -> Sequence[str]:
        return tuple(self.live.problems())


class Lines(logging.Handler):
    """Keep what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())

    def __enter__(self) -> Lines:
        log = logging.getLogger("trnbot.aws")
        self._level = log.level
        log.setLevel(logging.INFO)
        log.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        log = logging.getLogger("trnbot.aws")
        log.removeHandler(self)
        log.setLevel(self._level)


def ports_of(folder: Path, **more: Any) -> Ports:
    settings = read_settings({"TRNBOT_SOURCE": f"recording:{folder}"})
    made = OpenedSource(settings.source, settings).ports(memory_stores(), settings.policy)
    return with_parts(made, **more)


def watch(watched: Watched, empty: Path, prices: Prices | None = None) -> ReplayResult:
    """Return what the watch saw; `empty` is a folder without a bill, the source quotes prices where nobody else does."""
    empty.mkdir(exist_ok=True)
    return replay(ports_of(empty, source=watched, prices=prices or watched.live), CHANNELS)


def told(seen: ReplayResult) -> list[tuple[Any, ...]]:
    return [
        (a.anomaly.cause, a.anomaly.things, a.opened, a.closed, a.waste)
        for a in seen.alerts.values()
    ]


def unlike(
    ours: ReplayResult, theirs: ReplayResult, late: timedelta, later: timedelta
) -> list[str]:
    """Return how the alerts of a disturbed watch differ: opened up to `late` and closed up to `later` after the others' is alike."""
    found = (
        []
        if len(ours.alerts) == len(theirs.alerts)
        else [f"{len(ours.alerts)} alerts in place of {len(theirs.alerts)}"]
    )
    for one, other in zip(ours.alerts.values(), theirs.alerts.values(), strict=False):
        name = f"{other.anomaly.cause} of {other.opened:%H:%M}"
        if one.key != other.key:
            found.append(f"{one.anomaly.cause} of {one.opened:%H:%M} in place of {name}")
        elif not timedelta(0) <= one.opened - other.opened <= late:
            found.append(f"{name} opened {one.opened - other.opened} late")
        else:
            found += _ends(name, one, other, later)
    return found


def _ends(name: str, one: Alert, other: Alert, later: timedelta) -> list[str]:
    if one.closed is None or other.closed is None:
        return (
            []
            if one.closed == other.closed
            else [f"{name} closed at {one.closed}, not {other.closed}"]
        )
    return (
        []
        if timedelta(0) <= one.closed - other.closed <= later
        else [f"{name} closed {one.closed - other.closed} late"]
    )


def repeated(lines: Sequence[str]) -> list[str]:
    """Return the lines that say again what the line before about the same part said."""
    last: dict[str, bool] = {}
    found = []
    for line in lines:
        part = " ".join(line.split()[1:]).partition(" is ")[0].partition(" has recovered")[0]
        well = "has recovered" in line
        if last.get(part, True) == well:
            found.append(line)
        last[part] = well
    return found
