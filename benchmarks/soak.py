"""Watch an account that misbehaves for hours of its time, and print how it fared: `python -m benchmarks.soak [HOURS] [SEED...]`.

Every kind of fault alone and all together, then outages of the whole endpoint. Each must leave no gap, open no alert that
was not there, miss none, and say each change of state once. Retries are the product's own, so this takes minutes a kind.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from adapters.simulator.generate import generate
from bot.model.window import Window
from tests.aws_live.conftest import World, open_tiny
from tests.aws_live.days import DAY
from tests.aws_live.faults import Faults
from tests.aws_live.ordeal import Lines, Watched, repeated, unlike, watch
from tests.aws_live.same import differences
from tests.aws_live.standin import StandIn

FIVE = timedelta(minutes=5)
SHARES: dict[str, dict[str, float]] = {
    "throttled 20 %, reset 5 %": {"throttled": 0.2, "reset": 0.05},
    "truncated 15 %": {"truncated": 0.15},
    "garbled and garbage 10 %": {"garbled": 0.05, "garbage": 0.05},
    "503 25 %": {"broken": 0.25},
    "pages 50 %": {"pages": 0.5},
    "all together": {"throttled": 0.2, "reset": 0.05, "truncated": 0.05, "broken": 0.05, "garbled": 0.03, "garbage": 0.03},
}
OUTAGES_HOURS = (0.5, 2.0, 8.0)


@dataclass(frozen=True)
class Trial:
    """Name what goes wrong, and do it at a time of the watch."""

    name: str
    hours: float
    spoil: Callable[[Faults, datetime, Window], None]


def trials(hours: float, seeds: list[int]) -> Iterator[Trial]:
    """Yield every kind of fault under every seed, then the outages."""
    for seed in seeds:
        for name, shares in SHARES.items():
            yield Trial(f"{name}, seed {seed}", hours, _shares(shares, seed))
    for length in OUTAGES_HOURS:
        yield Trial(f"outage of {length:g} h", length + 6, _outage(length))


def _shares(shares: dict[str, float], seed: int) -> Callable[[Faults, datetime, Window], None]:
    def spoil(faults: Faults, now: datetime, span: Window) -> None:
        faults.seed = seed
        for name, share in shares.items():
            setattr(faults, name, share if now < span.end - 2 * FIVE else 0.0)

    return spoil


def _outage(hours: float) -> Callable[[Faults, datetime, Window], None]:
    def spoil(faults: Faults, now: datetime, span: Window) -> None:
        begin = span.start + timedelta(hours=2.75)
        faults.dead = begin <= now < begin + timedelta(hours=hours)

    return spoil


def main() -> None:
    """Print a line for each trial."""
    hours, seeds = float((*sys.argv[1:2], 6.0)[0]), [int(x) for x in sys.argv[2:]] or [7]
    with tempfile.TemporaryDirectory(prefix="soak-") as made:
        folder = Path(made) / "day"
        generate(folder, 7, DAY)
        shutil.rmtree(folder / "neuron-monitor", ignore_errors=True)
        peace = {}
        for trial in trials(hours, seeds):
            if trial.hours not in peace:
                peace[trial.hours] = _watched(folder, Path(made), Trial("peace", trial.hours, lambda *_: None))[0]
            began = time.monotonic()
            seen, lines, failed, left = _watched(folder, Path(made), trial)
            wrong = [*unlike(seen, peace[trial.hours], FIVE, 3 * FIVE), *repeated(lines), *left]
            took = (time.monotonic() - began) / max(1, seen.ticks)
            print(f"{trial.name}: {seen.ticks} ticks of {took:.2f} s, {failed} calls spoilt, {len(seen.alerts)} alerts, "
                  f"{len(lines)} lines; {'; '.join(map(str, wrong)) or 'as undisturbed'}", flush=True)  # fmt: skip


def _watched(folder: Path, made: Path, trial: Trial):  # type: ignore[no-untyped-def]
    recording = open_tiny(folder)
    world = World(None, recording.extent(), recording.extent().start)  # type: ignore[arg-type] - set below
    world.standin = StandIn(folder, lambda: world.now)
    os.environ |= {"AWS_ENDPOINT_URL": world.standin.start(), "AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "s"}
    start = world.extent.start + timedelta(hours=1)
    span, live = Window(start, start + timedelta(hours=trial.hours)), world.live()
    with Lines() as lines:
        seen = watch(Watched(world, live, span, lambda now: trial.spoil(world.standin.faults, now, span)), made / "bill")
    world.now = span.end + 2 * FIVE
    reading = live.read(world.now)
    failed = world.standin.failed.total()
    left = [*reading.gaps, *differences(reading, recording.read(world.now))]
    world.standin.stop()
    return seen, lines.said, failed, [str(x)[:200] for x in left]


if __name__ == "__main__":
    main()
