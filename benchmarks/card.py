"""Write docs/card.md: how good, how fast and how expensive this version is, each figure with its command.

`python -m benchmarks.card [--quick] [--only SECTION...]`.

Every figure comes from the program that is named beside it, by the same functions. What lies beside
the repository and is not at hand is said to be so. A section that is not measured anew stays as it
is, with its date and commit.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from adapters.billing.bill import BillOptions
from adapters.simulator.generate import generate
from benchmarks import (
    aws_bill,
    backtest,
    billing,
    budget,
    goodput,
    months,
    quarter,
    restart,
    tick,
    worlds,
)
from benchmarks.bill_rows import BillSize, write_bill
from benchmarks.episodes import DATA, Grade, labelled_series, labelled_services
from benchmarks.invented import HELD_BACK, invented
from benchmarks.score import graded, nab
from tests.answers import test_plain_lines_later as lines
from tests.worlds.grade import graded as graded_world
from tests.worlds.recording import write
from tests.worlds.scenario import build

PAGE = Path(__file__).parents[1] / "docs" / "card.md"
QUIET_LOAD = 1.0
"""Load of the last minute a core, above which times are said to be those of a busy machine: what is
measured takes a core itself."""
NOT_AT_HAND = "not at hand"

Figure = TypeVar("Figure")


@dataclass(frozen=True)
class Sizes:
    """Say how much is measured."""

    seeds: int
    world_seeds: int
    tick_nodes: Sequence[int]
    backtest: str
    bill_rows: Sequence[int]
    months: int
    priced_nodes: Sequence[int]
    weeks: int
    interval: str


QUICK = Sizes(1, 1, (500,), "calm", (300_000,), 6, (20, 100, 500, 2_000), 5, "1h")
WHOLE = Sizes(
    4,
    4,
    (500, 2_000, 8_000),
    "wide",
    (1_000_000, 10_000_000),
    60,
    (20, 100, 500, 2_000, 10_000),
    13,
    "15m",
)


@dataclass(frozen=True)
class Row:
    """Hold one row: the subject, its figures, and the command that prints them."""

    subject: str
    figures: str
    command: str

    def line(self) -> str:
        """Return the row in Markdown."""
        return f"| {self.subject} | {self.figures} | `{self.command}` |"


def alone(work: Callable[..., Figure], *arguments: Any) -> tuple[Figure, int]:
    """Return the result of a process of its own, and the most memory that it held, in MiB."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(work, *arguments).result(), process.submit(most_mib).result()


def most_mib() -> int:
    """Return the most memory that this process held, in MiB.

    `getrusage` would count what the process held that started it.
    """
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def shown(share: float | None) -> str:
    """Return a share with two digits, a dash for none."""
    return "–" if share is None else f"{share:.2f}"


def fleets(sizes: Sizes) -> Iterator[Row]:
    """Yield false alerts and recall of both worlds, seed by seed from 1."""
    with tempfile.TemporaryDirectory() as name:
        for scenario in ("calm", "mixed"):
            for seed in range(1, sizes.seeds + 1):
                recording = Path(name) / f"{scenario}-{seed}"
                write(build(scenario, seed), recording)
                figures = graded_world(recording, worlds.backtested(recording))
                yield Row(
                    f"our invented fleet, {scenario}, seed {seed}",
                    fleet_figures(
                        figures["wrong"] + figures["false"],
                        figures["recall"],
                        figures["precision"],
                        figures["cause"],
                    ),
                    f"python -m tests.worlds {scenario} {seed} OUT; trnbot backtest OUT --json"
                    " > replay.json; python -m tests.worlds.grade OUT replay.json",
                )

        for scenario in ("calm", "waste", "mixed"):
            command = (
                f"python -m benchmarks.worlds --scenarios {scenario} --seeds 1-{sizes.world_seeds}"
            )
            subject = f"another hand's world, {scenario}, seeds 1-{sizes.world_seeds}"
            if not worlds.WORLD.is_dir():
                yield Row(subject, NOT_AT_HAND, command)
                continue
            grades = [
                worlds.grade(worlds.WORLD, Path(name), scenario, seed)
                for seed in range(1, sizes.world_seeds + 1)
            ]
            unfounded = sum(one.total("false") + one.total("wrong") for one in grades)
            shares = (
                mean([one.figures["overall"][share] for one in grades])
                for share in ("recall", "precision", "cause_top1")
            )
            yield Row(subject, fleet_figures(unfounded, *shares), command)


def fleet_figures(
    unfounded: int, recall: float | None, precision: float | None, cause: float | None
) -> str:
    """Return the figures of a fleet; where nothing is wrong, false alerts are all there is."""
    alerts = f"{unfounded} false or wrong"
    if recall is None:
        return alerts
    return f"{alerts}, recall {shown(recall)}, precision {shown(precision)}, cause {shown(cause)}"


def mean(shares: Sequence[float | None]) -> float | None:
    """Return the mean of the shares that are known."""
    known = [share for share in shares if share is not None]
    return fmean(known) if known else None


def series(_: Sizes) -> Iterator[Row]:
    """Yield the grades of `trnbot score`."""
    command = "python -m benchmarks.score"
    yield Row("invented series, held back", series_figures(graded(invented(HELD_BACK))), command)
    if not DATA.is_dir():
        yield Row("labeled series of others", NOT_AT_HAND, command)
        return
    one_metric = labelled_series()
    figures = f"{series_figures(graded(one_metric))}, NAB score {nab(one_metric)[0]:.1f}"
    yield Row(f"{len(one_metric)} labeled series of one metric", figures, command)
    many = labelled_services()
    yield Row(
        f"{len(many)} labeled services of many metrics", series_figures(graded(many)), command
    )


def series_figures(grade: Grade) -> str:
    """Return a grade in words."""
    return f"{grade.found} of {grade.windows} windows, {grade.false} false, F1 {grade.f1:.3f}"


def speed(sizes: Sizes) -> Iterator[Row]:
    """Yield time and memory of a tick, a backtest and the bill, each in a process of its own."""
    for nodes in sizes.tick_nodes:
        (taken, plain), memory = alone(tick_of, nodes)
        yield Row(
            f"a tick over {nodes:,} nodes x 16 metrics, 14 days",
            f"{taken.usual:.1f} ms, midnight {taken.midnight:.0f} ms, {memory:,} MiB at most;"
            f" features anew take {plain / taken.mean:.0f} times as long",
            f"python -m benchmarks.tick {nodes}",
        )

    most = max(sizes.tick_nodes)
    (from_columns, from_hours), memory = alone(restart.starts, most, 15)
    yield Row(
        f"start over {most:,} nodes x 16 metrics, to the first reading, 15 days kept",
        f"{from_columns:.1f} s of processors from columns, {from_hours:.1f} s from hours,"
        f" {memory:,} MiB at most",
        f"python -m benchmarks.restart {most}",
    )

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / sizes.backtest
        generate(folder, 5, sizes.backtest)
        (ready, ticked, ticks), memory = alone(backtest.backtest, folder)
        yield Row(
            f"backtest of `{sizes.backtest}`, {ticks:,} ticks",
            f"{ready.processor + ticked.processor:.1f} s of processors, {memory:,} MiB at most",
            f"trnbot simulate OUT --seed 5 --scenario {sizes.backtest};"
            " python -m benchmarks.backtest OUT",
        )

    for rows in sizes.bill_rows:
        with tempfile.TemporaryDirectory() as name:
            write_bill(Path(name) / "billing", BillSize.of(rows))
            for subject in ("first answer", "first answer after a restart"):
                (_, worked), memory = alone(bill_of, Path(name))
                yield Row(
                    f"bill of {rows:,} rows, {subject}",
                    f"{worked:.2f} s of processors, {memory:,} MiB at most",
                    f"python -m benchmarks.billing {rows}",
                )


def tick_of(nodes: int) -> tuple[tick.Ticks, float]:
    """Return the milliseconds of ticks, and of features computed anew."""
    longer, inventory = tick.fleet(nodes, tick.DAYS * tick.DAY_STEPS + tick.BEFORE)
    frame = longer.last(tick.DAYS * tick.DAY_STEPS * tick.STEP)
    return tick.ticks(longer, inventory), tick.milliseconds(tick.recomputed(frame), 3)


def bill_of(folder: Path) -> tuple[float, float]:
    """Return seconds of the first answer over a bill, and those of processors."""
    _, passed, worked = billing.first_answer(folder, BillOptions(cache=folder / "kept" / "bill"))
    return passed, worked


def money(sizes: Sizes) -> Iterator[Row]:
    """Yield how near forecasts are, classes of goodput to their labels, and a promise to its best."""
    seeds = months.HELD_BACK[: sizes.months]
    forecasts = months.asked_of_all(seeds)
    yield Row(
        f"month ends of {len(seeds)} invented accounts, asked on days 8, 15 and 22",
        " ".join(months.figures(forecasts).split()),
        f"python -m benchmarks.months --seeds {seeds[0]} {seeds[-1]}",
    )

    command, promise = "python -m benchmarks.budget --labels", "at most 3, following: "
    subject = "at most 3 messages a week, another hand's world"
    if not worlds.WORLD.is_dir():
        yield Row(subject, NOT_AT_HAND, command)
        return
    weeks = [budget.labelled(seed, "mixed") for seed in budget.SEEDS]
    (figures,) = (line for line in budget.lines(weeks) if line.startswith(promise))
    yield Row(subject, figures.removeprefix(promise), command)

    for seed in range(1, sizes.world_seeds + 1):
        with tempfile.TemporaryDirectory() as name:
            recording = goodput.recorded(worlds.WORLD, Path(name), "mixed", seed)
            held = goodput.compared(recording, worlds.WORLD, "mixed", seed)
        ratios = {kind: held.usd(kind) / usd for kind, usd in held.truth.items() if usd}
        yield Row(
            f"goodput for each labeled dollar, by class, mixed, seed {seed}",
            ", ".join(f"{kind.value} {ratio:.2f}" for kind, ratio in ratios.items()),
            f"python -m benchmarks.goodput --seeds {seed}-{seed}",
        )


def price(sizes: Sizes) -> Iterator[Row]:
    """Yield what the metrics of a live account cost a month, by list price."""
    for nodes in sizes.priced_nodes:
        metrics, calls, usd, _ = aws_bill.month_of(aws_bill.fleet(nodes), 5)
        yield Row(
            f"{nodes:,} nodes x {aws_bill.SERIES_A_NODE} series, a tick each 5 minutes",
            f"about ${usd:,.2f} a month: {metrics:,} metrics in {calls:,} calls",
            f"python -m benchmarks.aws_bill {nodes}",
        )


def words(_: Sizes) -> Iterator[Row]:
    """Yield how lines in plain words are read."""
    command = "python -m tests.answers.test_plain_lines_later"
    for subject, fates in (
        ("lines of a second hand", Counter(lines.fate(x["line"], x["wanted"]) for x in lines.ROWS)),
        ("lines of strangers, five languages", Counter(map(lines.reception, lines.STRANGERS))),
    ):
        counts = ", ".join(f"{name} {count}" for name, count in fates.most_common())
        yield Row(f"{fates.total()} {subject}", counts, command)


def _soaked(weeks: int, interval: str) -> quarter.Soaked:
    with tempfile.TemporaryDirectory(prefix="quarter-") as name, contextlib.chdir(name):
        return quarter.soak(Path(name), weeks, 60, interval)


def reliability(sizes: Sizes) -> Iterator[Row]:
    """Yield the outcome of weeks with restarts, deaths, redelivered bills and retention."""
    options = f"--weeks {sizes.weeks} --interval {sizes.interval}"
    # In a process of its own: memory that other sections left would count.
    with get_context("spawn").Pool(1) as pool:
        soaked = pool.apply(_soaked, (sizes.weeks, sizes.interval))
    yield Row(
        f"{len(soaked.weeks)} weeks of a small fleet, {soaked.deaths} deaths",
        f"{soaked.alerts} alerts; {soaked.verdict()}",
        f"python -m benchmarks.quarter {options}",
    )


SECTIONS: Mapping[str, Callable[[Sizes], Iterator[Row]]] = {
    "False alerts and recall": fleets,
    "Series": series,
    "Speed and memory": speed,
    "Money": money,
    "Price of running": price,
    "Plain words": words,
    "Reliability": reliability,
}


HEAD = """# Card

How good, how fast and how expensive this version is, on one page. `make card` writes it; each section says
when, of which commit and on which machine it was measured, each row names the command that prints
its figures. [Accuracy](accuracy.md) says more of the first section, [scoring](scoring.md) of the second.
"""


UNMEASURED = "Not measured yet;"


def commit() -> str:
    """Return the commit that is measured, and whether files were changed since."""
    described = ("git", "describe", "--always", "--dirty", "--exclude", "*")
    done = subprocess.run(described, check=True, cwd=PAGE.parent, capture_output=True, text=True)
    return done.stdout.strip()


def machine() -> str:
    """Return cores, memory and Python of this machine, and whether it has other work."""
    cores = os.cpu_count() or 1
    gib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    busy = os.getloadavg()[0] / cores
    work = "quiet"
    if busy > QUIET_LOAD:
        work = f"busy with other work (load {busy:.1f} a core), so its times are too long"
    return f"{cores} cores, {gib:.0f} GiB, Python {platform.python_version()}; {work}"


def section(title: str, sizes: Sizes) -> str:
    """Measure one section, and return it in Markdown."""
    kind = "small sizes (`make card QUICK=1`)" if sizes == QUICK else "whole sizes (`make card`)"
    state = machine()  # before the measurement itself is work
    rows = []
    for row in SECTIONS[title](sizes):
        rows.append(row.line())
        print(rows[-1], flush=True)
    measured = f"{datetime.now(UTC):%Y-%m-%d} at commit {commit()}, {kind}; machine: {state}."
    table = "\n".join(["| | figures | command |", "|---|---|---|", *rows])
    return f"Measured {measured}\n\n{table}\n"


def put(page: Path, title: str, measured: str) -> None:
    """Write a section into the page; those that were not measured anew stay as they are."""
    parts = page.read_text("utf-8").split("\n## ")[1:] if page.exists() else []
    sections = {name: text for name, _, text in (part.partition("\n\n") for part in parts)}
    sections[title] = measured
    for name in SECTIONS:
        sections.setdefault(
            name, f'{UNMEASURED} `python -m benchmarks.card --only "{name}"` does so.'
        )
    texts = [f"## {name}\n\n{sections[name].strip()}\n" for name in SECTIONS]
    page.write_text("\n".join([HEAD, *texts]), encoding="utf-8")


def main() -> None:
    """Write the sections, each as soon as it is measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.card")
    parser.add_argument("--quick", action="store_true", help="small sizes: minutes, not hours")
    parser.add_argument(
        "--only", nargs="+", default=list(SECTIONS), choices=SECTIONS, metavar="SECTION"
    )
    asked = parser.parse_args()
    for title in asked.only:
        put(PAGE, title, section(title, QUICK if asked.quick else WHOLE))


if __name__ == "__main__":
    main()
