"""Watch an account that misbehaves for hours of its time, and print how it fared.

`python -m benchmarks.soak [HOURS] [SEED...]`.

`python -m benchmarks.soak record` watches a whole day, records it, and compares the backtest of the
recording with the watch. `python -m benchmarks.soak ends RECORDING [DAYS]` serves days of a
recording in which nodes come and go, and counts ghosts: nodes that the watch takes for running
though their place was described without them, and silence told of one that had ended.

Every kind of fault alone and all together, then outages of the whole endpoint. Each must leave no
gap, open no alert that was not there, miss none, and say each change of state once. Retries are the
product's own, so this takes minutes a kind.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import zip_longest
from pathlib import Path

import numpy as np

from adapters.aws.live.record import record
from adapters.aws.live.source import Live
from adapters.simulator.generate import generate
from bot.model.causes import Cause
from bot.model.notification import ReplayResult
from bot.model.reading import Reading
from bot.model.window import Window
from bot.settings.settings import read_settings
from bot.watch.preview import replay, ticking
from bot.watch.tick import drill_targets, grid
from bot.wiring.source import OpenedSource, memory_stores
from tests.aws_live.conftest import World, open_tiny
from tests.aws_live.days import DAY
from tests.aws_live.faults import Faults
from tests.aws_live.ordeal import CHANNELS, Lines, Watched, ports_of, repeated, told, unlike, watch
from tests.aws_live.same import differences
from tests.aws_live.standin import StandIn

FIVE = timedelta(minutes=5)
SHARES: dict[str, dict[str, float]] = {
    "throttled 20 %, reset 5 %": {"throttled": 0.2, "reset": 0.05},
    "truncated 15 %": {"truncated": 0.15},
    "garbled and garbage 10 %": {"garbled": 0.05, "garbage": 0.05},
    "503 25 %": {"broken": 0.25},
    "pages 50 %": {"pages": 0.5},
    "all together": {
        "throttled": 0.2,
        "reset": 0.05,
        "truncated": 0.05,
        "broken": 0.05,
        "garbled": 0.03,
        "garbage": 0.03,
    },
}
OUTAGES_HOURS = (0.5, 2.0, 8.0)


@dataclass(frozen=True)
class Trial:
    """Name a fault, and the function that causes it at a time of the watch."""

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
    if sys.argv[1:2] == ["ends"]:
        _ends(Path(sys.argv[2]).resolve(), float(sys.argv[3]) if sys.argv[3:] else 7.0)
        return
    recorded = sys.argv[1:2] == ["record"]
    hours, seeds = (
        float(sys.argv[1]) if sys.argv[1:2] and not recorded else 6.0,
        [int(x) for x in sys.argv[2:]] or [7],
    )
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch:
        folder = Path(scratch) / "day"
        generate(folder, 7, DAY)
        shutil.rmtree(folder / "neuron-monitor", ignore_errors=True)
        if recorded:
            _record(folder, Path(scratch))
            return
        peace: dict[float, ReplayResult] = {}
        for trial in trials(hours, seeds):
            if trial.hours not in peace:
                peace[trial.hours] = _watched(
                    folder, Path(scratch), Trial("peace", trial.hours, lambda *_: None)
                ).result
            began = time.monotonic()
            fared = _watched(folder, Path(scratch), trial)
            alike = (
                _doubled(fared.result)
                if "outage" in trial.name
                else unlike(fared.result, peace[trial.hours], FIVE, 3 * FIVE)
            )
            wrong = [*alike, *repeated(fared.lines), *fared.left]
            took = (time.monotonic() - began) / max(1, fared.result.ticks)
            print(
                f"{trial.name}: {fared.result.ticks} ticks of {took:.2f} s, {fared.failed} calls spoilt, "
                f"{len(fared.result.alerts)} alerts, {len(fared.lines)} lines; {'; '.join(wrong) or 'as undisturbed'}",
                flush=True,
            )


@dataclass(frozen=True)
class Fared:
    """Hold the result of a watch.

    Its replay, the logged lines, how many calls failed, and the gaps that are left.
    """

    result: ReplayResult
    lines: list[str]
    failed: int
    left: list[str]


def _world(folder: Path) -> World:
    extent = open_tiny(folder).extent()
    world = World(StandIn(folder, lambda: world.now), extent, extent.start)
    os.environ |= {
        "AWS_ENDPOINT_URL": world.standin.start(),
        "AWS_ACCESS_KEY_ID": "A",
        "AWS_SECRET_ACCESS_KEY": "s",
    }
    return world


def _watched(folder: Path, scratch: Path, trial: Trial) -> Fared:
    world, recording = _world(folder), open_tiny(folder)
    start = world.extent.start + timedelta(hours=1)
    span, live = Window(start, start + timedelta(hours=trial.hours)), world.live()
    with Lines() as lines:
        result = watch(
            Watched(world, live, span, lambda now: trial.spoil(world.standin.faults, now, span)),
            scratch / "bill",
        )
    world.now = span.end + 2 * FIVE
    reading, theirs = live.read(world.now), recording.read(world.now)
    holes = (
        _holes(reading, theirs)
        if "outage" in trial.name
        else [str(x)[:200] for x in differences(reading, theirs)]
    )
    failed = world.standin.failed.total()
    world.standin.stop()
    return Fared(result, lines.said, failed, [*map(str, reading.gaps), *holes])


def _holes(ours: Reading, theirs: Reading) -> list[str]:
    """Return where steps are missing.

    Those that came late at five minutes need not be the same to the last digit.
    """
    holes = []
    for kind in set(ours.frames) & set(theirs.frames) - {"core", "run"}:
        own, known_good = ours.frames[kind].values, theirs.frames[kind].values
        missing = (
            int((np.isnan(own) & ~np.isnan(known_good)).any(axis=(0, 2)).sum())
            if own.shape == known_good.shape
            else -1
        )
        holes += [f"{kind}: {missing} steps with holes"] if missing else []
    return holes


def _doubled(result: ReplayResult) -> list[str]:
    """Return the faults that an outage must not cause: false silence, and one alert opened twice."""
    keys = [alert.key for alert in result.alerts.values()]
    silent = [
        f"{alert.key} of {alert.opened:%H:%M}"
        for alert in result.alerts.values()
        if alert.cause is Cause.NO_DATA
    ]
    return [*silent, *(f"{key} opened twice" for key in {x for x in keys if keys.count(x) > 1})]


def _record(folder: Path, scratch: Path) -> None:
    """Watch a day with a closer look at suspicious nodes, record it, and print how its backtest differs."""
    world = _world(folder)
    live = world.live(journal=scratch / "journal")
    span = Window(world.extent.start + timedelta(hours=0.25), world.extent.end)
    (scratch / "bill").mkdir()
    ports, before = (
        ports_of(scratch / "bill", source=Watched(world, live, span), prices=live),
        ReplayResult(span),
    )
    for now in ticking(ports, CHANNELS, grid(span.start, span.end, FIVE), before):
        live.drill(
            drill_targets([alert for alert in before.alerts.values() if not alert.closed]), now
        )
    done = record(
        world.live(journal=scratch / "journal"), scratch / "made", world.extent.start, span.end
    )
    after = replay(ports_of(scratch / "made"), CHANNELS)
    wrong = [
        f"{line} <> {other}"
        for line, other in zip_longest(told(before), told(after))
        if line != other
    ]
    print(
        f"recorded day: {before.ticks} ticks, {done.points} points, {len(before.alerts)} alerts; {wrong or 'as watched'}"
    )
    closer = [(a.anomaly.cause, b.anomaly.evidence) for a, b in zip(before.alerts.values(), after.alerts.values(), strict=False)
              if a.anomaly.evidence != b.anomaly.evidence]  # fmt: skip
    print(f"evidence that differs: {closer or 'none'}")
    world.standin.stop()


@dataclass
class Ghosts:
    """Count the nodes that a live source takes for running though AWS no longer names them, tick by tick."""

    live: Live
    standin: StandIn
    seen: dict[str, datetime] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)

    def read(self, now: datetime) -> Reading:
        """Read, and note each ghost once."""
        reading = self.live.read(now)
        named = {
            x: state
            for place in self.live.places()
            for x, state in _named(self.standin, place.region).items()
        }
        for instance in reading.inventory.instances.values():
            state = named.get(instance.id, "gone")
            if state in _OVER:
                self.ended.add(instance.id)
                if instance.running:
                    self.seen.setdefault(instance.id, now)
        return reading

    def problems(self) -> Sequence[str]:
        """Return the source's."""
        return self.live.problems()


_OVER = frozenset({"gone", "terminated", "stopped", "shutting-down", "stopping"})


def _named(standin: StandIn, region: str) -> dict[str, str]:
    """Return the state of each instance that EC2 names at the world's time."""
    answer = standin.answer("ec2", "DescribeInstances", region, "", {})
    every = [instance for group in answer["Reservations"] for instance in group["Instances"]]
    return {one["InstanceId"]: one["State"]["Name"] for one in every}


def _ends(folder: Path, days: float) -> None:
    """Watch days of a recording through its stand-in, and print the ghosts and the silence told of nodes that had ended."""
    settings = read_settings({"TRNBOT_SOURCE": f"recording:{folder}"})
    recording = (
        OpenedSource(settings.source, settings).ports(memory_stores(), settings.policy).world.source
    )
    extent = recording.extent()
    assert extent
    world = World(StandIn(folder, lambda: world.now), extent, extent.start)
    os.environ |= {
        "AWS_ENDPOINT_URL": world.standin.start(),
        "AWS_ACCESS_KEY_ID": "A",
        "AWS_SECRET_ACCESS_KEY": "s",
    }
    live = world.live(regions=sorted(world.standin.cloudwatch.series))
    ghosts = Ghosts(live, world.standin)
    start = extent.start + timedelta(hours=1)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch:
        watched = Watched(
            world, ghosts, Window(start, min(extent.end, start + timedelta(days=days)))
        )
        result = watch(watched, Path(scratch) / "bill", live)
    silent = [alert for alert in result.alerts.values() if alert.cause is Cause.NO_DATA]
    false = [alert for alert in silent if ghosts.ended & set(alert.anomaly.things)]
    late = {name: f"{at:%d %H:%M}" for name, at in ghosts.seen.items()}
    print(
        f"{folder.name}: {result.ticks} ticks of {(time.monotonic() - began) / max(1, result.ticks):.2f} s, "
        f"{len(ghosts.ended)} nodes ended, {len(late)} ghosts {late or ''}, "
        f"{len(silent)} times no_data, {len(false)} of nodes that had ended; {len(result.alerts)} alerts"
    )
    world.standin.stop()


if __name__ == "__main__":
    main()
