"""Measure how time and memory grow with nodes, bill rows and askers, and draw it.

Run: python -m benchmarks.growth SUBJECT SIZE... [--points FILE.csv] [--plot FILE.svg]

SUBJECT is `nodes` (a tick of the watch, one that learns at midnight, memory), `rows` (the first
answer of a bill, memory) or `askers` (of a bill of 100,000 rows: an answer while so many ask). Each
size has a process of its own. Times are those of processors, which other work of the machine hardly
changes: how long people wait, benchmarks.billing says on a quiet one. FILE.csv holds the points of
every subject; those that are measured anew replace the old ones.
"""

from __future__ import annotations

import argparse
import csv
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import NamedTuple

from adapters.billing.bill import BillOptions
from benchmarks import billing, tick
from benchmarks.bill_rows import BillSize, write_bill
from benchmarks.card import alone, bill_of
from bot.model.spend import Filter

ASKED_ROWS = 100_000
SIDE, MARGIN = 300, 52


class Point(NamedTuple):
    """Hold one figure of one size."""

    subject: str
    size: int
    figure: str
    unit: str
    value: float


def nodes(size: int) -> Iterator[Point]:
    """Yield the processor time of ticks over so many nodes, and the memory of their process."""
    taken, memory = alone(ticks_of, size)
    yield Point("nodes", size, "tick", "ms", taken.usual)
    yield Point("nodes", size, "midnight", "ms", taken.midnight)
    yield Point("nodes", size, "memory", "MiB", memory)


def ticks_of(size: int) -> tick.Ticks:
    """Return the times of an hour of ticks over so many nodes with 14 days behind them."""
    return tick.ticks(*tick.fleet(size, tick.DAYS * tick.DAY_STEPS + tick.BEFORE))


def rows(size: int) -> Iterator[Point]:
    """Yield the processor time of the first answer over so many rows, and the memory it took."""
    with tempfile.TemporaryDirectory() as name:
        write_bill(Path(name) / "billing", BillSize.of(size))
        for figure in ("first answer", "after a restart"):
            (_, worked), memory = alone(bill_of, Path(name))
            yield Point("rows", size, figure, "s", worked)
            if figure == "first answer":
                yield Point("rows", size, "memory", "MiB", memory)


def askers(size: int) -> Iterator[Point]:
    """Yield the processor time of an answer while so many people ask, and the memory it took."""
    with tempfile.TemporaryDirectory() as name:
        write_bill(Path(name) / "billing", BillSize.of(ASKED_ROWS))
        took, memory = alone(answer_of, Path(name), size)
    yield Point("askers", size, "an answer", "ms", took)
    yield Point("askers", size, "memory", "MiB", memory)


def answer_of(folder: Path, size: int) -> float:
    """Return the milliseconds of processors that an answer takes while so many people ask."""
    bill, _, _ = billing.first_answer(folder, BillOptions(cache=folder / "kept" / "bill"))
    numbers = count()

    def ask(nth: int) -> None:
        # A condition that every charge fulfils: no answer may be one that was kept.
        nowhere = Filter("region", (f"nowhere-{next(numbers)}",), negated=True)
        _, window, by, _ = billing.QUESTIONS[nth % len(billing.QUESTIONS)]
        bill.tally(window, by, [nowhere], billing.PAGE)

    answers = size * billing.EACH
    began = time.process_time()
    with ThreadPoolExecutor(size) as people:
        list(people.map(ask, range(answers)))
    return 1000 * (time.process_time() - began) / answers


SUBJECTS = {"nodes": nodes, "rows": rows, "askers": askers}


def plot(points: Sequence[Point]) -> str:
    """Draw each figure as a multiple of that of the smallest size, a panel a subject.

    The grey line grows as the size does.
    """
    panels = [
        _panel(subject, [x for x in points if x.subject == subject], place * SIDE)
        for place, subject in enumerate(SUBJECTS)
    ]
    style = (
        "svg{background:#fff;font:12px system-ui,sans-serif}line{stroke:#999;stroke-dasharray:4}"
        "polyline{fill:none;stroke-width:2}circle{stroke-width:2;fill:#fff}"
        ".s0{stroke:#b3261e}text.s0{stroke:none;fill:#b3261e}"
        ".s1{stroke:#1b5e9e}text.s1{stroke:none;fill:#1b5e9e}"
        ".s2{stroke:#6b6b00}text.s2{stroke:none;fill:#6b6b00}"
    )
    width = len(SUBJECTS) * SIDE
    box = f'viewBox="0 0 {width} {SIDE}" width="{width}" height="{SIDE}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box}><style>{style}</style>'
    return "\n".join([head, *(line for panel in panels for line in panel), "</svg>\n"])


def _panel(subject: str, points: Sequence[Point], left: int) -> Iterator[str]:
    """Yield the lines of one panel, its axes logarithmic."""
    if not points:
        return
    first = min(x.size for x in points)
    most = max(x.size for x in points) / first

    def at(x: float, y: float) -> tuple[float, float]:
        span, scale = SIDE - 2 * MARGIN, math.log(most)
        return (
            left + MARGIN + span * math.log(x) / scale,
            SIDE - MARGIN - span * min(1.0, max(-0.1, math.log(y) / scale)),
        )

    (x1, y1), (x2, y2) = at(1, 1), at(most, most)
    yield f'<line x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}"/>'
    for size in sorted({x.size for x in points}):
        x, y = at(size / first, 1)
        yield f'<text x="{x:.0f}" y="{y + 20:.0f}" text-anchor="middle">{size:,}</text>'
        x, y = at(1, size / first)
        yield f'<text x="{x - 10:.0f}" y="{y + 4:.0f}" text-anchor="end">{size // first}x</text>'
    yield f'<text x="{left + SIDE / 2:.0f}" y="{SIDE - 12}" text-anchor="middle">{subject}</text>'
    for shape, figure in enumerate(dict.fromkeys(x.figure for x in points)):
        of_figure = sorted((x.size, x.value, x.unit) for x in points if x.figure == figure)
        places = [at(size / first, value / of_figure[0][1]) for size, value, _ in of_figure]
        path = " ".join(f"{x:.0f},{y:.0f}" for x, y in places)
        yield f'<polyline points="{path}" class="s{shape}"/>'
        yield from (
            f'<circle cx="{x:.0f}" cy="{y:.0f}" r="3" class="s{shape}"/>' for x, y in places
        )
        size, value, unit = of_figure[-1]
        words = f"{figure}, {value:{',.0f' if value >= 100 else '.3g'}} {unit} at {size:,}"
        yield f'<text x="{left + MARGIN + 8}" y="{18 + 16 * shape}" class="s{shape}">{words}</text>'


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure a subject at some sizes, print it, and keep and draw what is known of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subject", choices=SUBJECTS)
    parser.add_argument("sizes", nargs="*", type=int)
    parser.add_argument("--points", type=Path)
    parser.add_argument("--plot", type=Path)
    asked = parser.parse_args(arguments)
    known: list[Point] = []
    if asked.points and asked.points.exists():
        with asked.points.open(encoding="utf-8", newline="") as file:
            for subject, size, figure, unit, value in list(csv.reader(file))[1:]:
                known.append(Point(subject, int(size), figure, unit, float(value)))

    for size in asked.sizes:
        measured = [p._replace(value=round(p.value, 3)) for p in SUBJECTS[asked.subject](size)]
        for point in measured:
            print(
                f"{size:>12,} {point.subject:<7} {point.figure:<16} {point.value:>12,.3f} {point.unit}",
                flush=True,
            )
        anew = {point[:3] for point in measured}
        known = [point for point in known if point[:3] not in anew] + measured
        if asked.points:
            with asked.points.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([Point._fields, *sorted(known)])
    if asked.plot:
        asked.plot.write_text(plot(sorted(known)), encoding="utf-8")


if __name__ == "__main__":
    main()
