"""Hold the rate that is promised for rare stretches against the rate that is seen.

Run: python -m benchmarks.calibration recording:DIR ... [--plot FILE.svg | --causes].

Each recording must be without incidents. Every hour from the fifth day on those stretches of each
state are counted that became longer than their role shows once in N weeks. Nothing else that an
alert needs (a setting, a sign, dollars) is asked, so this is the promise alone.

With `--causes` the alerts of each cause that people were told are held against the same promise
instead, and against none where a cause has plain limits. They are read of the replay beside each
recording, `DIR.backtest.json`, which `benchmarks.worlds --folder` leaves there.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import factorial
from pathlib import Path

import numpy as np

from bot.model.causes import CAUSES, Cause, Family
from bot.model.labels import Labels
from bot.policy.file import applied
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource
from detectors import Detector
from detectors.jobs import roles_of
from detectors.nodes.drop_cause import troubled
from detectors.nodes.idle import standing_still
from detectors.nodes.shortfall import under
from detectors.numbers import DAY, WEEK, Mask, trailing
from detectors.usual import MEMORY
from detectors.view import State, View

HOUR = timedelta(hours=1)
LEAST = timedelta(days=4)
"""How much of a recording is only learnt from."""
STATES: Mapping[str, State] = {
    "hung": standing_still,
    "starved": under,
    "signs of a drop": troubled,
}
RARE = ((Cause.HUNG,), tuple(map(Cause, Family.DROP.rules)))
"""Causes that promise one false alert a role in `alert.rare_weeks`; those of a drop share it."""
SURE = 0.95
"""How sure the bound of a rate is."""
WEEKS = (1, 2, 4, 8, 16)


@dataclass
class Tally:
    """Count the rare stretches of one state, by the weeks that are promised between two."""

    rare: dict[int, int] = field(default_factory=lambda: dict.fromkeys(WEEKS, 0))


def roles_in(view: View, nodes: Mask) -> int:
    """Return how many roles the chosen nodes have."""
    return len(np.unique(roles_of(view.roster, view.usual_of(MEMORY))[nodes]))


def count_hour(view: View, weeks: int, tallies: Mapping[str, Tally]) -> float:
    """Count the stretches that became rare within the newest hour; return the weeks of roles."""
    hour = view.window.steps(HOUR)
    nodes = view.eligible & view.usual.own & (view.held[:, -1] > 0)
    roles = roles_of(view.roster, view.usual_of(MEMORY))
    for name, state in STATES.items():
        seen = view.stretches(state, nodes)
        lasts = trailing(state(view), view.gap)
        lasts[lasts == view.window.n_steps] = 0  # it did not begin within what is looked at
        longer = nodes & (seen.count > 0) & (lasts > seen.rare) & (lasts - hour <= seen.rare)
        tallies[name].rare[weeks] += len(np.unique(roles[longer]))
    return roles_in(view, nodes) * (HOUR / WEEK)


def count(source: str, tallies: Mapping[str, Tally]) -> float:
    """Count the rare stretches of a recording, hour by hour; return the weeks of roles."""
    settings = settings_of({})
    edits = {n: [(Labels(), "alert.rare_weeks", str(n))] for n in WEEKS}
    policies = {n: applied(settings.policy, edit) for n, edit in edits.items()}
    opened, detector = OpenedSource(source, settings).metrics(), Detector()
    extent = opened.extent()
    assert extent is not None
    seen, now = 0.0, extent.start + LEAST
    while now <= extent.end:
        reading = opened.read(now)
        for weeks, policy in policies.items():
            seen += count_hour(detector.view(reading, policy, ()), weeks, tallies) / len(WEEKS)
        now += HOUR
    return seen


@dataclass
class Told:
    """Count what people were told in replays without incidents, and how long those were.

    The weeks are those of roles and of clusters, the alerts those that nothing muted.
    """

    roles: float = 0.0
    clusters: float = 0.0
    alerts: Counter[Cause] = field(default_factory=Counter)

    def add(self, source: str) -> None:
        """Add a recording and the replay beside it."""
        folder = Path(source.removeprefix("recording:"))
        replay = json.loads(folder.with_name(f"{folder.name}.backtest.json").read_text())
        start, end = (datetime.fromisoformat(replay[name]) for name in ("start", "end"))
        self.alerts.update(Cause(x["cause"]) for x in replay["alerts"] if not x["muted_by"])

        settings, detector = settings_of({}), Detector()
        opened = OpenedSource(source, settings).metrics()
        now = start
        while (now := now + DAY) <= end:
            view = detector.view(opened.read(now), settings.policy, ())
            self.roles += roles_in(view, view.eligible & (view.held[:, -1] > 0)) * (DAY / WEEK)
            self.clusters += len(np.unique(view.roster.scope[view.eligible])) * (DAY / WEEK)

    def rows(self) -> Iterator[str]:
        """Yield a row of a table for each promise, then for all causes without any."""
        policy = settings_of({}).policy
        yield "| cause | promised | told | at most |"
        yield "|---|---|---|---|"
        for causes in RARE:
            yield self._row(causes, f"{self.roles / policy.number('alert.rare_weeks'):.1f}")
        odd = policy.number("odd.false_alerts_per_week")
        yield self._row((Cause.ODD,), f"{self.clusters * odd:.1f}")
        promising = {Cause.ODD, *(cause for causes in RARE for cause in causes)}
        others = [cause for cause in CAUSES if cause not in promising]
        for cause in sorted(self.alerts.keys() & set(others)):
            yield self._row((cause,), "–")
        silent = tuple(cause for cause in others if not self.alerts[cause])
        yield self._row(silent, "–", f"each of {len(silent)} other causes")

    def _row(self, causes: Sequence[Cause], promised: str, name: str = "") -> str:
        """Return a row: what causes promised, what was told, and the most that may be behind it."""
        told = sum(self.alerts[cause] for cause in causes)
        names = name or ", ".join(f"`{cause}`" for cause in causes)
        return f"| {names} | {promised} | {told} | {most_behind(told):.1f} |"


def most_behind(seen: int) -> float:
    """Return the highest mean of a Poisson count that still shows `seen` or fewer once in twenty."""
    means = np.arange(0, 10 * (seen + 1), 0.01)
    terms = (np.exp(-means) * means**k / factorial(k) for k in range(seen + 1))
    return float(means[sum(terms) >= 1 - SURE].max())


def plot(weeks_seen: float, tallies: Mapping[str, Tally]) -> str:
    """Draw promised against seen, each a year of a role, on logarithmic axes."""
    side, margin, low, high = 360, 56, 0.5, 100.0

    def at(rate: float) -> float:
        share = np.log(max(rate, low) / low) / np.log(high / low)
        return float(margin + share * (side - 2 * margin))

    lines = [
        f'<line x1="{margin}" y1="{side - margin}" x2="{side - margin}" y2="{margin}" class="even"/>',
        f'<text x="{side / 2}" y="{side - 14}" text-anchor="middle">promised a role and year</text>',
        f'<text x="{margin}" y="{margin - 20}">seen a role and year</text>',
    ]
    for rate in (1, 10, 100):
        lines.append(
            f'<text x="{at(rate)}" y="{side - margin + 18}" text-anchor="middle">{rate}</text>'
        )
        lines.append(
            f'<text x="{margin - 8}" y="{side - at(rate) + 4}" text-anchor="end">{rate}</text>'
        )
    for shape, (name, tally) in enumerate(tallies.items()):
        rates = [(52 / weeks, 52 * count / weeks_seen) for weeks, count in tally.rare.items()]
        points = [(at(promised), side - at(seen)) for promised, seen in rates]
        path = " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
        lines.append(f'<polyline points="{path}" class="s{shape}"/>')
        lines += [f'<circle cx="{x:.0f}" cy="{y:.0f}" r="4" class="s{shape}"/>' for x, y in points]
        lines.append(
            f'<text x="{margin + 12}" y="{margin + 14 + 18 * shape}" class="s{shape}">{name}</text>'
        )
    style = (
        "svg{background:#fff;font:13px system-ui,sans-serif}line.even{stroke:#999;stroke-dasharray:4}"
        "polyline{fill:none;stroke-width:2}polyline.s0,circle.s0{stroke:#b3261e}text.s0{fill:#b3261e}"
        "polyline.s1,circle.s1{stroke:#1b5e9e}text.s1{fill:#1b5e9e}"
        "polyline.s2,circle.s2{stroke:#6b6b00}text.s2{fill:#6b6b00}circle{fill:#fff;stroke-width:2}"
    )
    box = f'viewBox="0 0 {side} {side}" width="{side}" height="{side}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box}><style>{style}</style>'
    return "\n".join([head, *lines, "</svg>\n"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and draw it where `--plot` names a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--causes", action="store_true", help="by cause, of what was told")
    asked = parser.parse_args(arguments)
    if asked.causes:
        told = Told()
        with np.errstate(invalid="ignore", divide="ignore"):
            for source in asked.sources:
                told.add(source)
        print(f"{told.clusters:.1f} weeks of clusters, {told.roles:.1f} of roles")
        print("\n".join(told.rows()))
        return

    tallies = {name: Tally() for name in STATES}
    with np.errstate(invalid="ignore", divide="ignore"):
        seen = sum(count(source, tallies) for source in asked.sources)
    print(f"{seen:.0f} weeks of roles; stretches longer than once in N weeks, promised and seen")
    print(f"{'N weeks':>8} {'promised':>9}" + "".join(f"{name:>16}" for name in tallies))
    for weeks in WEEKS:
        counts = "".join(f"{tally.rare[weeks]:>16}" for tally in tallies.values())
        print(f"{weeks:>8} {seen / weeks:>9.1f}{counts}")
    if asked.plot:
        asked.plot.write_text(plot(seen, tallies), encoding="utf-8")


if __name__ == "__main__":
    main()
