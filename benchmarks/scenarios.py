"""Grade the watch over simulated recordings.

Run: python -m benchmarks.scenarios --seeds 201-210 [--processes 2] [--folder DIR].

For each seed: `causes` (14 days, one incident or two of each cause), `calm` (14 days, five
clusters, nothing wrong), `compiles` (three days of compiles) and, for the first seeds, `storm` (64
nodes, one broken device). Each is replayed under the policies of `POLICIES` side by side: as it is,
with other rates of false alerts asked of the forest, without the forest, and with the forest alone.
With `--folder` recordings are kept and found again.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from adapters.simulator import generate
from bot.model.labels import Labels
from bot.model.notification import ReplayResult
from bot.model.policy import Policy
from bot.policy.file import applied
from bot.policy.schema import SETTINGS
from bot.watch.preview import ticking
from bot.watch.tick import grid
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource, SourceReplays

SCENARIOS = ("causes", "calm", "compiles", "storm")
STORMS = 3
ASKED = ("0.02", "0.1", "0.5")
"""False alerts a cluster and week that are asked of the forest; the second is the default."""
_FOREST = "odd"
_RULES = {name: "off" for name in SETTINGS if name.endswith(".on") and name != f"{_FOREST}.on"}
POLICIES: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "causes": {
        "as it is": {},
        "without the forest": {f"{_FOREST}.on": "off"},
        "the forest alone": _RULES,
    },
    "calm": {f"asked {rate}": {"odd.false_alerts_per_week": rate} for rate in ASKED},
    "compiles": {"as it is": {}},
    "storm": {"as it is": {}},
}


@dataclass(frozen=True)
class Run:
    """Hold the grade of one recording under one policy."""

    scenario: str
    seed: int
    policy: str
    grade: Mapping[str, Any]


def judge(task: tuple[str, int, str, bool]) -> list[Run]:
    """Replay one recording under its policies (or the plain one alone) and grade each."""
    scenario, seed, folder, plain = task
    path = Path(folder) / f"{scenario}{seed}"
    if not path.exists():
        generate(path, seed, scenario)
    settings = settings_of({})
    source = f"recording:{path}"
    chosen = (
        dict(list(POLICIES[scenario].items())[:1])
        if plain and scenario != "calm"
        else POLICIES[scenario]
    )
    if plain and scenario == "calm":
        chosen = {f"asked {ASKED[1]}": {}}
    replays = SourceReplays(settings, OpenedSource(source, settings))
    truth = replays.truth(source) or []
    runs = []
    for name, (result, clusters) in zip(
        chosen, _replayed(replays, settings.policy, list(chosen.values())), strict=True
    ):
        runs.append(Run(scenario, seed, name, replays.grade(result, truth, clusters)))
    return runs


def _replayed(
    replays: SourceReplays, base: Policy, changes: Sequence[Mapping[str, str]]
) -> list[tuple[ReplayResult, int]]:
    """Replay one source under several policies side by side.

    Return each result and the number of clusters.
    """
    ports = replays.again(
        [
            applied(base, [(Labels(), key, text) for key, text in change.items()])
            for change in changes
        ]
    )
    extent = ports[0].world.source.extent()
    assert extent is not None
    results = [ReplayResult(extent) for _ in ports]
    times = list(grid(extent.start, extent.end, ports[0].site.interval))
    for _ in zip(
        *(ticking(p, ("default",), times, s) for p, s in zip(ports, results, strict=True)),
        strict=True,
    ):
        pass
    clusters = len(
        [name for name in ports[0].world.source.read(extent.end).inventory.clusters() if name]
    )
    return [(result, clusters) for result in results]


def lines(runs: Sequence[Run]) -> Iterator[str]:
    """Yield the tables: by policy, then by cause under the plain one."""
    names = (
        ("incidents", 9),
        ("recall", 7),
        ("precision", 9),
        ("cause", 7),
        ("delay", 6),
        ("false", 6),
        ("first/incident", 14),
    )
    yield f"{'':<32}" + "".join(f" {name:>{width}}" for name, width in names)
    for scenario in SCENARIOS:
        for policy in dict.fromkeys(run.policy for run in runs if run.scenario == scenario):
            yield _total(
                scenario,
                policy,
                [run.grade for run in runs if (run.scenario, run.policy) == (scenario, policy)],
            )
    plain = [
        run.grade
        for run in runs
        if run.scenario in ("causes", "compiles") and run.policy == "as it is"
    ]
    yield from _by_cause(plain)
    for run in runs:
        for alert in run.grade["false"]:
            yield f"false: {run.scenario}{run.seed} ({run.policy}) {alert['key']} {alert['opened_at']}"


def _total(scenario: str, policy: str, grades: Sequence[Mapping[str, Any]]) -> str:
    """Return one line of sums over seeds; a share of nothing reads as `-`."""
    incidents, alerts = (
        sum(graded["incidents"] for graded in grades),
        sum(graded["alerts"] for graded in grades),
    )
    rows = [row for graded in grades for row in graded["by_cause"].values()]
    hits = sum(row["found"] for row in rows)
    false = sum(graded["false_alerts"] for graded in grades)
    right = sum(
        round((graded["cause_top1"] or 0) * sum(r["found"] for r in graded["by_cause"].values()))
        for graded in grades
    )
    delays = [
        graded["median_delay_minutes"]
        for graded in grades
        if graded["median_delay_minutes"] is not None
    ]
    firsts = sum((graded["messages_per_incident"] or 0) * graded["incidents"] for graded in grades)
    return (
        f"{scenario + ', ' + policy:<32} {incidents:>9} {_share(hits, incidents):>7} {_share(alerts - false, alerts):>9}"
        f" {_share(right, hits):>7} {median(delays) if delays else '-':>6} {false:>6} {_share(firsts, incidents):>14}"
    )


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.3f}" if whole else "-"


def _by_cause(grades: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield f"\n{'cause':<20} {'incidents':>9} {'told':>5} {'right':>6} {'median':>7} {'longest':>8}  (delay in minutes)"
    for cause in sorted({cause for grade in grades for cause in grade["by_cause"]}):
        rows = [grade["by_cause"][cause] for grade in grades if cause in grade["by_cause"]]
        delays = [delay for row in rows for delay in row["delays_minutes"]] or [float("nan")]
        counts = "".join(
            f"{sum(row[name] for row in rows):>{width}}"
            for name, width in (("incidents", 9), ("found", 6))
        )
        yield f"{cause:<20} {counts} {sum(row['cause_right'] for row in rows):>6} {median(delays):>7.0f} {max(delays):>8.0f}"


def seeds(text: str) -> list[int]:
    """Read `FIRST-LAST` or one number."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def main() -> None:
    """Grade the scenarios over the seeds that are asked for, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scenarios")
    parser.add_argument("--seeds", type=seeds, default=seeds("201-210"), help="FIRST-LAST")
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--folder", default="", help="where recordings are kept")
    parser.add_argument("--plain", action="store_true", help="the default policy alone")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as passing:
        folder = arguments.folder or passing
        tasks = [
            (name, seed)
            for name in arguments.scenarios
            for seed in (arguments.seeds[:STORMS] if name == "storm" else arguments.seeds)
        ]
        with get_context("spawn").Pool(arguments.processes) as pool:
            runs = [
                run
                for many in pool.imap(
                    judge, [(*task, folder, arguments.plain) for task in tasks], 1
                )
                for run in many
            ]
    print("\n".join(lines(runs)))


if __name__ == "__main__":
    main()
