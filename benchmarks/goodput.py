"""Hold goodput against the labelled dollars of another hand's recordings, class by class.

Run: python -m benchmarks.goodput --seeds 3-8 [--scenarios mixed] [--world DIR] [--folder DIR].

Each recording is made, replayed once for its alerts, and asked for the goodput of seven whole days
that the bill knows; a label counts by the part of its time that lies in them. Checkpoints and
evaluations have no label: theirs are the dollars of the minutes in which the simulation had them.
Gaps between jobs and short compiles have none either: idle nodes and compiles are held against
their labels within the nodes and the time of these.

With `--sums` nothing is replayed: of all days of each recording, each cluster, team, node and day,
and the sum of all jobs, is held against what the bill says of it, to the cent.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from adapters.store.memory import MemoryStore
from benchmarks.scenarios import seeds
from benchmarks.worlds import SCENARIOS, WORLD
from bot.answers.cost.goodput import goodput_within
from bot.costs.goodput import GoodputRow, grouped, is_of_nodes
from bot.costs.losses import LOST_TO
from bot.costs.node_time import CLASSES, GoodputClass
from bot.model.causes import Cause
from bot.model.reading import Reading
from bot.model.window import WEEK, Window
from bot.ports import Ports, Stores
from bot.wiring.build import terminal_app
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource

MORE = {
    GoodputClass.IDLE: (GoodputClass.IDLE,),
    GoodputClass.COMPILING_FIRST: (
        GoodputClass.COMPILING_FIRST,
        GoodputClass.COMPILING_AGAIN,
        GoodputClass.COLD_CACHE,
    ),
}
"""Classes of which there is more than has labels, with all that counts as them within a label."""
VISIBLE = timedelta(minutes=5)
"""After which a point of five minutes stands in the frame."""
LATE = timedelta(days=1)
"""The bill of a recording lacks its newest hours."""


def recorded(world: Path, folder: Path, scenario: str, seed: int, days: int = 10) -> Path:
    """Return a recording of the world, made where it is not kept."""
    recording = folder / f"{scenario}-{seed}"
    if not (recording / "labels.json").exists():
        chosen = ("--seed", str(seed), "--days", str(days), "--scenario", scenario)
        made = [sys.executable, str(world / "make_recording.py"), *chosen, str(recording)]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
    return recording


def replayed(recording: Path) -> tuple[Ports, Reading, Window]:
    """Return a recording replayed to its end, and the newest seven days whose bill is whole."""
    source = f"recording:{recording}"
    app, _ = terminal_app(settings_of({"source": source}), source, None)
    extent = app.ports.world.source.extent()
    if extent is None:
        raise ValueError(f"{recording} holds no metrics")
    end = (extent.end - LATE).replace(hour=0, minute=0, second=0, microsecond=0)
    week = Window(max(extent.start, end - WEEK), end)
    return app.ports, app.ports.world.source.read(extent.end), week


def sums_of(recording: Path) -> str:
    """Return how far the classes of a whole recording lie from its bill, and what is not seen."""
    source = f"recording:{recording}"
    settings, store = settings_of({"source": source}), MemoryStore()
    ports = OpenedSource(source, settings).ports(
        Stores(store, store, store, store), settings.policy
    )
    extent = ports.world.source.extent()
    if extent is None:
        raise ValueError(f"{recording} holds no metrics")
    reading = ports.world.source.read(extent.end)

    names = ("cluster", "team", "node", "job")
    answer = goodput_within(ports, reading, extent, names)
    parts = {name: grouped(answer.rows, [name]) for name in names} | {"day": answer.days}
    if any(min(row.classes.values()) < 0 < row.usd for rows in parts.values() for row in rows):
        raise ValueError(f"{recording}: a class is below zero")

    # As `cost` has them: nodes and their reserved capacity, and commitments that nothing used.
    kinds, apart, billed = ("instance_type", "line", "usage_type"), Decimal(0), Decimal(0)
    for name, rows in parts.items():
        sums = {row.key[name]: row.usd for row in rows}

        # No bill names jobs: those of a window sum to it.
        by = {"node": "resource"}.get(name, name)
        truth: defaultdict[str, Decimal] = defaultdict(Decimal)
        for x in ports.world.billing.tally(extent, (*kinds, *([] if name == "job" else [by]))).rows:
            if is_of_nodes(x.key):
                truth[x.key.get(by, "")] += x.money.amortised
        billed = sum(truth.values(), Decimal(0))
        if name == "job":
            sums, truth = {"": sum(sums.values(), Decimal(0))}, defaultdict(Decimal, {"": billed})
        pairs = [(sums.get(key, Decimal(0)), truth[key]) for key in sums.keys() | truth.keys()]
        apart = max(apart, abs(answer.total.usd - billed), *(abs(a - b) for a, b in pairs))
    unseen = answer.total.of(GoodputClass.NOT_SEEN) / answer.total.usd
    return f"{recording.name}: ${billed:,.2f}, ${apart:.2f} apart, not seen {unseen:.2%}"


def labelled(
    labels: Sequence[Mapping[str, Any]], window: Window
) -> Iterator[tuple[GoodputClass, Decimal, Window, frozenset[str]]]:
    """Yield the class, the USD, the time and the nodes of labels as far as they lie in a window."""
    for label in labels:
        kind = LOST_TO.get(Cause(label["cause"]))
        span = Window(*(datetime.fromisoformat(label[end]) for end in ("start", "end")))
        inside = window.within(span)
        if kind and label["usd"] and inside.length > timedelta(0):
            share = Decimal(str(inside.length / span.length))
            usd = Decimal(str(label["usd"])) * share
            yield kind, usd, inside, frozenset(label["instances"])


def by_class(pairs: Iterable[tuple[GoodputClass, Decimal]]) -> dict[GoodputClass, Decimal]:
    """Return sums of USD by class."""
    sums: defaultdict[GoodputClass, Decimal] = defaultdict(Decimal)
    for kind, usd in pairs:
        sums[kind] += usd
    return dict(sums)


def told_within(
    ports: Ports, reading: Reading, labels: Sequence[Mapping[str, Any]], week: Window
) -> Iterator[tuple[GoodputClass, Decimal]]:
    """Yield of labels that lost all of their time the part that goodput gives to their class."""
    for kind, usd, span, nodes in labelled(labels, week):
        if kind in MORE:
            visible = Window(span.start + VISIBLE, span.end + VISIBLE)
            answer = goodput_within(ports, reading, visible, ("node",))
            rows = [x for x in answer.rows if x.key["node"].rpartition("/")[2] in nodes]
            whole = sum((x.usd - x.of(GoodputClass.NOT_SEEN) for x in rows), Decimal(0))
            part = sum((x.of(like) for x in rows for like in MORE[kind]), Decimal(0))
            yield kind, usd * part / whole


def paused_usd(world: Path, scenario: str, seed: int, window: Window) -> Decimal:
    """Return what the minutes of checkpoints and evaluations of a simulated fleet cost in a window.

    Those within an incident too.
    """
    sys.path.insert(0, str(world))
    fleet, _ = import_module("make_recording").simulate(seed, 10, scenario)
    _, usd_per_hour = import_module("billing").charge(fleet)
    pauses = [getattr(import_module("world"), name) for name in ("CKPT", "EVAL")]
    begin = datetime.fromisoformat(str(fleet.start)).replace(tzinfo=UTC)
    first, last = (int((x - begin) / timedelta(minutes=1)) for x in (window.start, window.end))
    minutes, total = np.arange(first, last), 0.0
    for cluster in fleet.clusters:
        for group in cluster.groups:
            block = np.ix_(group.nodes, minutes[np.isin(group.phase[first:last], pauses)])
            costs = usd_per_hour[cluster.name][block[0], block[1] // 60] / 60
            total += float((costs * cluster.a["alive"][block]).sum())
    return Decimal(repr(total))


@dataclass(frozen=True)
class Comparison:
    """Hold the goodput of a week beside its labels, by class."""

    week: Window
    total: GoodputRow
    truth: Mapping[GoodputClass, Decimal]
    within: Mapping[GoodputClass, Decimal]
    """USD within the labels of classes of which there is more than has labels."""

    def usd(self, kind: GoodputClass) -> Decimal:
        """Return the USD of a class that its labels are held against."""
        return self.within.get(kind, self.total.of(kind))


def compared(recording: Path, world: Path, scenario: str, seed: int) -> Comparison:
    """Return the goodput of a recording beside its labels; replays it."""
    ports, reading, week = replayed(recording)
    labels = json.loads((recording / "labels.json").read_text())
    truth = by_class(x[:2] for x in labelled(labels, week))
    truth[GoodputClass.CHECKPOINT_EVALUATION] = paused_usd(world, scenario, seed, week)
    total = goodput_within(ports, reading, week, ("cluster",)).total
    return Comparison(week, total, truth, by_class(told_within(ports, reading, labels, week)))


def main() -> None:
    """Print USD of goodput and of the labels by class, and their ratio, for each recording."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.goodput")
    parser.add_argument("--seeds", type=seeds, default=seeds("3-3"), help="FIRST-LAST")
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=["mixed"])
    parser.add_argument("--world", type=Path, default=WORLD)
    parser.add_argument("--folder", type=Path, help="where recordings are kept")
    parser.add_argument("--sums", action="store_true", help="hold classes against the bill alone")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as passing:
        for scenario in arguments.scenarios:
            for seed in arguments.seeds:
                folder = arguments.folder or Path(passing)
                recording = recorded(arguments.world, folder, scenario, seed)
                if arguments.sums:
                    print(sums_of(recording), flush=True)
                    continue
                held = compared(recording, arguments.world, scenario, seed)
                print(f"{scenario}-{seed}: {held.total.usd:,.2f} USD of {held.week}")
                for kind in CLASSES:
                    told, true = held.total.of(kind), held.truth.get(kind, Decimal(0))
                    ratio = f"{held.usd(kind) / true:9.3f}" if true else ""
                    print(f"  {kind.value:24}{told:12,.2f}{true:12,.2f}{ratio}")


if __name__ == "__main__":
    main()
