"""Hold the rate that is promised for rare stretches against the rate that is seen.

Run: python -m benchmarks.calibration recording:DIR ... [--plot FILE.svg].

Each recording must be without incidents. Every hour from the fifth day on those stretches of each
state are counted that became longer than their role shows once in N weeks. Nothing else that an
alert needs (a setting, a sign, dollars) is asked, so this is the promise alone. Beside it stand the
anomalies of each cause that begin, with all that their rules ask: what of the promise reaches
people, and what causes that promise nothing do.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import numpy as np

from bot.model.causes import CAUSES as TABLE
from bot.model.causes import About, Cause, Family
from bot.model.labels import Labels
from bot.policy.file import applied
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource
from detectors import Detector
from detectors.arrays import trailing
from detectors.jobs import roles_of
from detectors.nodes.drop import troubled, under
from detectors.nodes.idle import standing_still
from detectors.numbers import WEEK
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
OTHERS = "others, raised"
CAUSES: Mapping[str, tuple[Cause, ...]] = {
    "hung, raised": (Cause.HUNG,),
    "drops, raised": tuple(Cause(rule) for rule in Family.DROP.rules),
    OTHERS: tuple(
        cause
        for cause, facts in TABLE.items()
        if facts.about is About.NODES
        and cause is not Cause.HUNG
        and facts.family is not Family.DROP
    ),
}
"""Causes that promise something, and those about nodes that do not."""
WEEKS = (1, 2, 4, 8, 16)


@dataclass
class Tally:
    """Count the rare stretches of one state, by the weeks that are promised between two."""

    rare: dict[int, int] = field(default_factory=lambda: dict.fromkeys(WEEKS, 0))


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
    return len(np.unique(roles[nodes])) * (HOUR / WEEK)


def count(source: str, tallies: Mapping[str, Tally]) -> float:
    """Count the rare stretches of a recording, hour by hour; return the weeks of roles."""
    settings = settings_of({})
    edits = {n: [(Labels(), "alert.rare_weeks", str(n))] for n in WEEKS}
    policies = {n: applied(settings.policy, edit) for n, edit in edits.items()}
    opened, detector = OpenedSource(source, settings).metrics(), Detector()
    extent = opened.extent()
    assert extent is not None
    seen, now = 0.0, extent.start + LEAST
    before: dict[int, set[str]] = {}
    while now <= extent.end:
        reading = opened.read(now)
        for weeks, policy in policies.items():
            seen += count_hour(detector.view(reading, policy, ()), weeks, tallies) / len(WEEKS)
            anomalies = {x.key: x.cause for x in detector(reading, policy, ()).anomalies}
            new = [cause for key, cause in anomalies.items() if key not in before.get(weeks, ())]
            before[weeks] = set(anomalies)
            for name, causes in CAUSES.items():
                tallies[name].rare[weeks] += sum(cause in causes for cause in new)
        now += HOUR
    return seen


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
        "polyline.s3,circle.s3{stroke:#7b1fa2}text.s3{fill:#7b1fa2}polyline.s4,circle.s4{stroke:#00695c}"
        "text.s4{fill:#00695c}"
    )
    box = f'viewBox="0 0 {side} {side}" width="{side}" height="{side}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box}><style>{style}</style>'
    return "\n".join([head, *lines, "</svg>\n"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and draw it where `--plot` names a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--plot", type=Path)
    asked = parser.parse_args(arguments)
    tallies = {name: Tally() for name in (*STATES, *CAUSES)}
    with np.errstate(invalid="ignore", divide="ignore"):
        seen = sum(count(source, tallies) for source in asked.sources)
    print(f"{seen:.0f} weeks of roles; stretches longer than once in N weeks, promised and seen")
    print(f"{'N weeks':>8} {'promised':>9}" + "".join(f"{name:>16}" for name in tallies))
    for weeks in WEEKS:
        counts = "".join(f"{tally.rare[weeks]:>16}" for tally in tallies.values())
        print(f"{weeks:>8} {seen / weeks:>9.1f}{counts}")
    if asked.plot:
        promising = {name: tally for name, tally in tallies.items() if name != OTHERS}
        asked.plot.write_text(plot(seen, promising), encoding="utf-8")


if __name__ == "__main__":
    main()
