"""Play worlds and print what the watch made of them: `python -m tests.habits calm 1 5 [KIND ...]`."""

from __future__ import annotations

import sys

from tests.habits.jobs import KINDS
from tests.habits.world import START, World, grade


def main(scenario: str, first: str, last: str, *kinds: str) -> None:
    """Print each false, wrong and missed one of the seeds, and the figures over all."""
    right = wrong = false = missed = 0
    weeks = 0.0
    for seed in range(int(first), int(last) + 1):
        world = World(seed, kinds=kinds or tuple(KINDS), planted=scenario == "mixed")
        graded = grade(world, world.alerts())
        for word, alerts in (("false", graded.false), ("wrong", graded.wrong)):
            for alert in alerts:
                day = (alert.opened - START).total_seconds() / 86400
                where = alert.anomaly.scope.cluster
                print(f"{seed} {word} {where} {alert.cause} day {day:.2f}: {alert.anomaly.why}")
        for incident in graded.missed:
            print(f"{seed} missed {incident.job} {incident.cause} minute {incident.start}")
        right, wrong = right + len(graded.right), wrong + len(graded.wrong)
        false, missed = false + len(graded.false), missed + len(graded.missed)
        weeks += graded.cluster_weeks
    print(f"right {right} wrong {wrong} false {false} missed {missed}: {false / weeks:.2f} a week")


if __name__ == "__main__":
    main(*sys.argv[1:])
