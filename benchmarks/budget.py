"""Hold promises of messages against weeks they never saw: `python -m benchmarks.budget FOLDER`.

Each recording of two weeks is replayed once without a floor. The world leaves its first part
without incidents; of the rest, a floor is chosen on what the first half raised, and what it would
have sent in the second is held against the promise, and against the best floor that could have been
found afterwards. Without the world, it says so and measures nothing.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from benchmarks.worlds import WORLD, _run
from bot.model.policy import Policy
from bot.model.window import Window
from bot.watch.budget import FLOOR, Budget, Frontier, frontier
from bot.watch.preview import replay
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource, SourceReplays

MOST = (2, 3, 5, 8)
"""Messages a week that are promised at most."""
CALM = 0.3
"""The part of a recording in which `shared/world` begins no incident."""


@dataclass(frozen=True)
class Kept:
    """State the outcome of a promise in the time after it."""

    name: str
    most: int
    allowed: int
    """Messages that the promise allows in the time that followed."""
    promised: bool
    messages: int
    told_usd: Decimal
    best_usd: Decimal
    """What the best floor would have told of, among those that keep the promise."""

    @property
    def kept(self) -> bool:
        """Return whether the messages kept to the promise."""
        return self.messages <= self.allowed

    @property
    def near(self) -> bool:
        """Return whether it told of four fifths of what the best floor would have told of."""
        return float(self.told_usd) >= 0.8 * float(self.best_usd)


def halves_of(folder: Path) -> tuple[Frontier, Frontier]:
    """Return the frontiers of the halves of a recording in which incidents begin."""
    settings = settings_of({})
    source = f"recording:{folder}"
    free = Policy({**settings.policy.values, FLOOR: Decimal(0)}, settings.policy.overrides)
    ports = SourceReplays(settings, OpenedSource(source, settings)).open(source, free)
    replayed = replay(ports, ("default",))

    start = replayed.window.start + CALM * replayed.window.length
    middle, end = start + (replayed.window.end - start) / 2, replayed.window.end
    windows = Window(start, middle), Window(middle, end)
    first, second = (
        frontier(
            [a for a in replayed.alerts.values() if window.start <= a.opened < window.end],
            window,
            settings.policy,
        )
        for window in windows
    )
    return first, second


def promises(folder: Path) -> list[Kept]:
    """Return what came of each promise in one recording."""
    first, second = halves_of(folder)
    found = []
    for most in MOST:
        budget = Budget(float(most))
        point = first.chosen(budget)
        after = second.at(point.usd_per_hour)
        allowed = int(most * second.weeks)
        within = [x for x in second.points if x.messages <= allowed]
        best = within[-1].usd if within else Decimal(0)
        kept = first.kept(point, budget)
        found.append(Kept(folder.name, most, allowed, kept, after.messages, after.usd, best))
    return found


def line(x: Kept) -> str:
    """Return what came of one promise as a line."""
    unsure = "" if x.promised else " (no floor is sure to keep it)"
    return (
        f"{x.name:<14} at most {x.most} a week: {x.messages} of {x.allowed} sent{unsure},"
        f" ${x.told_usd:,.0f} told of, ${x.best_usd:,.0f} at best"
    )


def lines(found: Sequence[Kept]) -> Iterator[str]:
    """Yield a line for each number of messages: of all weeks, and of those with a sure promise."""
    for most in MOST:
        every = [x for x in found if x.most == most]
        promised = [x for x in every if x.promised]
        yield (
            f"at most {most}: of {len(every)} kept in {sum(x.kept for x in every)} and near the"
            f" best in {sum(x.near for x in every)}; of {len(promised)} that were sure kept in"
            f" {sum(x.kept for x in promised)} and near the best in"
            f" {sum(x.near for x in promised)}"
        )


def main() -> None:
    """Make the recordings that are missing, replay all and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs=2, default=(61, 70))
    parser.add_argument("--scenario", default="mixed")
    arguments = parser.parse_args()
    if not WORLD.is_dir():
        print(f"There is no world at {WORLD}: no week was made, and no promise was measured.")
        return
    folders = []
    for seed in range(arguments.seeds[0], arguments.seeds[1] + 1):
        folder = arguments.folder / f"{arguments.scenario}-{seed}"
        folders.append(folder)
        if not (folder / "labels.json").exists():
            options = ("--seed", seed, "--days", 14, "--scenario", arguments.scenario)
            _run(WORLD / "make_recording.py", *options, folder)
    found = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for some in pool.map(promises, folders):
            print("\n".join(map(line, some)), flush=True)
            found += some
    print("\n".join(lines(found)))


if __name__ == "__main__":
    main()
