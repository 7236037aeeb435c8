"""Grade the watch over another hand's recordings.

Run: python -m benchmarks.worlds --seeds 1-4 [--world DIR] [--folder DIR].

The world is a folder beside the repository whose programs make recordings (`make_recording.py`) and
grade a backtest of them (`grade.py`); whoever wrote it saw no detector, and no detector was written
by it. For each seed and scenario: a recording of ten days, `trnbot backtest` over it, and the
world's own grade. With `--folder` recordings are kept and found again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks.scenarios import seeds

WORLD = Path("..") / "shared" / "world"
SCENARIOS = ("calm", "waste", "money", "mixed", "storm")
NEAR = 0.1
"""How far dollars may lie from the truth to count as right."""
MISSED = "not told"


@dataclass(frozen=True)
class Graded:
    """Hold the world's grade of one recording.

    Its figures, its incidents and the alerts that were wrong.
    """

    scenario: str
    seed: int
    figures: Mapping[str, Any]

    @property
    def incidents(self) -> list[dict[str, Any]]:
        """Return the labelled incidents, each with what was told of it."""
        return list(self.figures["incidents"])

    def total(self, name: str) -> int:
        """Return a count over the whole recording."""
        return int(self.figures["overall"][name])


def grade(world: Path, folder: Path, scenario: str, seed: int, days: int = 10) -> Graded:
    """Make a recording, replay the watch over it, and return the world's grade of what it told."""
    recording = folder / f"{scenario}-{seed}"
    if not (recording / "labels.json").exists():
        run_python(
            world / "make_recording.py",
            "--seed",
            seed,
            "--days",
            days,
            "--scenario",
            scenario,
            recording,
        )
    replay = backtested(recording)
    return Graded(
        scenario, seed, json.loads(run_python(world / "grade.py", recording, replay, "--details"))
    )


def backtested(recording: Path) -> Path:
    """Replay the watch over a recording, and return the file beside it that says what was told."""
    replay = recording.with_name(f"{recording.name}.backtest.json")
    replay.write_text(run_python("-m", "bot", "backtest", recording, "--json"))
    return replay


def run_python(*arguments: object) -> str:
    """Return what a program prints."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def lines(grades: Sequence[Graded]) -> Iterator[str]:
    """Yield the tables.

    By scenario, by cause, what was told of each cause, and every alert that was wrong.
    """
    head = ("labels", "recall", "precision", "cause", "false", "wrong", "messages", "dollars")
    yield f"{'':<10}" + "".join(f"{name:>10}" for name in head)
    for scenario in SCENARIOS:
        chosen = [one for one in grades if one.scenario == scenario]
        if chosen:
            yield _total(scenario, chosen)
    incidents = [incident for one in grades for incident in one.incidents]
    yield from _by_cause(incidents)
    yield from confusion(incidents)
    for one in grades:
        for alert in one.figures["bad_alerts"]:
            place = alert["labels"].get("cluster") or alert["labels"].get("resource", "")
            yield f"{alert['verdict']}: {one.scenario}-{one.seed} {alert['cause']} {place} {alert['opened_at']} {alert['why']}"


def _total(scenario: str, grades: Sequence[Graded]) -> str:
    """Return one line: means over the recordings, sums of what is counted."""
    shares = [
        _mean([one.figures["overall"][name] for one in grades])
        for name in ("recall", "precision", "cause_top1")
    ]
    incidents = [incident for one in grades for incident in one.incidents]
    firsts = [
        one["messages"] for graded in grades for one in graded.figures["messages"]["expected_one"]
    ]
    messages = "/".join(map(str, firsts)) or "-"
    return (
        f"{scenario:<10}{sum(one.total('labels') for one in grades):>10}"
        + "".join(f"{share:>10}" for share in shares)
        + f"{sum(one.total('false') for one in grades):>10}{sum(one.total('wrong') for one in grades):>10}"
        f"{messages:>10}{_near(incidents):>10}"
    )


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{fmean(known):.3f}" if known else "-"


def _near(incidents: Sequence[Mapping[str, Any]]) -> str:
    """Return how many incidents' dollars lie near the truth, of those where both sides have some."""
    ratios = [one["given"] / one["usd"] for one in incidents if one["usd"] and one["given"]]
    return f"{sum(abs(ratio - 1) <= NEAR for ratio in ratios)}/{len(ratios)}"


def _by_cause(incidents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    names = (
        ("labels", 8),
        ("told", 6),
        ("right", 7),
        ("median", 8),
        ("longest", 9),
        ("dollars", 9),
    )
    yield (
        f"\n{'cause':<20}"
        + "".join(f"{name:>{width}}" for name, width in names)
        + "  (minutes past the grace)"
    )
    for cause in sorted({one["cause"] for one in incidents}):
        rows = [one for one in incidents if one["cause"] == cause]
        late = [
            one["delay_min"] - (one["grace_min"] or 0)
            for one in rows
            if one["delay_min"] is not None
        ] or [float("nan")]
        yield (
            f"{cause:<20}{len(rows):>8}{sum(one['found'] for one in rows):>6}{sum(one['top1'] for one in rows):>7}"
            f"{median(late):>8.0f}{max(late):>9.0f}{_near(rows):>9}"
        )


def confusion(incidents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield for each true cause what the first right alert about it was called, the most frequent first."""
    yield f"\n{'true cause':<20}  told as"
    for cause in sorted({one["cause"] for one in incidents}):
        told = Counter(one["lead"] or MISSED for one in incidents if one["cause"] == cause)
        yield f"{cause:<20}  " + ", ".join(f"{name} {count}" for name, count in told.most_common())


def main() -> None:
    """Grade the scenarios over the seeds that are asked for, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.worlds")
    parser.add_argument("--seeds", type=seeds, default=seeds("1-4"), help="FIRST-LAST")
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--world", type=Path, default=WORLD)
    parser.add_argument("--days", type=int, default=10)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where recordings are kept")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as passing:
        folder = arguments.folder or Path(passing)
        tasks = [(scenario, seed) for seed in arguments.seeds for scenario in arguments.scenarios]
        with ThreadPoolExecutor(arguments.processes) as pool:
            grades = list(
                pool.map(
                    lambda task: grade(arguments.world, folder, task[0], task[1], arguments.days),
                    tasks,
                )
            )
    print("\n".join(lines(grades)))


if __name__ == "__main__":
    main()
