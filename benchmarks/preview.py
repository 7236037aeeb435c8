"""Measure a preview of fourteen days in one process: processor time by what a change touches.

Run: python -m benchmarks.preview [NODES [DAYS]] [--check] [--calm].

A synthetic fleet of clusters of 64 nodes, in which every day one job hangs for 25 minutes, one
works at 0.65 of its usual for three hours and the nodes of one are left idle for four, is replayed
under the usual policy alone, and beside it under a policy that differs in one setting. With --calm
nothing happens in it. With --check each policy is also replayed alone, and must find the same to
the byte.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from time import process_time
from typing import Any

import numpy as np

from benchmarks.long_work import CHANNELS, Fleet, replayed_here
from benchmarks.tick import DAY_STEPS, END, STEP, fleet
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.notification import ReplaySpan
from bot.model.policy import Policy
from bot.model.window import Window
from bot.policy.file import applied
from bot.policy.schema import default_policy
from bot.watch.preview import digest

CHANGES = {
    "nothing: one policy": None,
    "who is told": ("alert.least_usd_per_hour", "70"),
    "when a hang is raised": ("hung.for", "30m"),
    "from which drop on": ("starved.below", "70%"),
    "when a node is idle": ("idle.below", "10%"),
}
CLUSTER = 64
UTILIZATION, HIGHEST = "neuroncore_utilization_ratio", "neuroncore_utilization_highest_ratio"
LATENCY, SENT = "neuron_execution_latency_seconds", "efa_tx_bytes_per_second"
HELD = ("neuroncore_memory_used_bytes", "neuron_runtime_memory_used_bytes")


def troubled(frame: Frame) -> Frame:
    """Return the frame with three incidents a day, each in another cluster."""
    values, column = frame.values.copy(order="K"), {x: i for i, x in enumerate(frame.metrics)}
    work = [column[name] for name in (UTILIZATION, HIGHEST, SENT)]
    clusters = len(frame.things) // CLUSTER
    rng = np.random.default_rng(1)
    for midnight in range(0, frame.n_steps, DAY_STEPS):
        starts = midnight + rng.integers(0, DAY_STEPS - 48, 3)
        chosen = rng.choice(clusters, 3, replace=False) * CLUSTER
        hung, slow, idle = (
            (slice(first, first + CLUSTER), slice(start, start + steps))
            for first, start, steps in zip(chosen, starts, (5, 36, 48), strict=True)
        )
        for place in work:
            values[*hung, place] = values[*idle, place] = 0
            values[*slow, place] *= np.float32(0.65)
        values[*hung, column[LATENCY]] = values[*idle, column[LATENCY]] = np.nan
        values[*slow, column[LATENCY]] /= np.float32(0.65)
        for name in HELD:
            values[*idle, column[name]] = 0
    return replace(frame, values=values)


def main() -> None:
    """Print a row for each change."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", type=int, nargs="?", default=2_000)
    parser.add_argument("days", type=int, nargs="?", default=14)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--calm", action="store_true")
    parser.add_argument("--only", default="", help="a part of a change's words")
    given = parser.parse_args()
    frame, inventory = fleet(given.nodes, (given.days + 1) * DAY_STEPS)
    watched: Any = Fleet(frame if given.calm else troubled(frame), inventory)
    times = [END - i * STEP for i in reversed(range(given.days * DAY_STEPS))]
    span = ReplaySpan(Window(times[0], END), times, CHANNELS)

    print(f"{given.nodes:,} nodes, {given.days} days: what changes, processor seconds, alerts")
    for words, change in CHANGES.items():
        if given.only not in words:
            continue
        policies: list[Policy] = [default_policy()]
        if change:
            policies.append(applied(policies[0], [(Labels(), *change)]))
        started = process_time()
        results = replayed_here(watched, span, policies)
        took = process_time() - started
        alerts = ", ".join(f"{len(result.alerts)}" for result in results)
        print(f"{words:<24} {took:>8.1f}   {alerts}", *map(digest, results), flush=True)
        if given.check:
            alone = [replayed_here(watched, span, [policy])[0] for policy in policies]
            assert results == alone, "side by side something else is found"


if __name__ == "__main__":
    main()
