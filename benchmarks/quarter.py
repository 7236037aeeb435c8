"""Live through a simulated quarter at speed, and hold it against one that was left in peace.

`python -m benchmarks.quarter [--minutes M] [--weeks W] [--interval 15m]`.

The bot itself (the watch, SQLite, the bill on disk) watches a small simulated fleet in which
something goes wrong every few hours. It is closed and opened anew twice a week, and dies each week
between a message and the note of it; each day months of its bill are delivered again; what ended is
kept for no longer than the settings allow at least. Each week one line says how much memory,
database and cache take, how many alerts there are, and how many messages were sent. Then the same
ticks are run once more, uninterrupted, and both are compared.

It ends with 1 where memory after the first week grows by more than 5 %, where the database outgrows
the size that it had when retention began to bite, the cache the files that it may hold, and where an alert or a message
is lost or doubled.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import gc
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from adapters.simulator.generate import generate
from adapters.simulator.scenario import PlannedCluster, PlannedIncident, PlannedJob, Scenario
from adapters.store.memory import KEEP_CLOSED
from adapters.store.open import open_store
from adapters.store.sql import SqlStore
from bot.app import App
from bot.grammar.access import Access
from bot.model.causes import Cause
from bot.model.reading import HISTORY
from bot.model.window import DAY, WEEK
from bot.settings.settings import Settings, read_settings
from bot.watch.tick import grid
from bot.wiring.build import stores_in
from bot.wiring.environment import share_heaps
from bot.wiring.kept import _MOST_FILES
from bot.wiring.serve import retention_of
from bot.wiring.source import OpenedSource, size_of
from tests.builders import with_parts
from tests.house.fakes import Crash, ask
from tests.house.test_kill import FileChat, Fuse, expire

QUARTER_WEEKS = 13
PERIOD_SECONDS = 900
MOST_MEMORY, MOST_DISK = 1.05, 1.10
"""How many times the size it had in the first settled week something may take later."""
RETENTION = KEEP_CLOSED
"""How long alerts that ended are kept: the shortest that the product knows."""
SETTLED = RETENTION + WEEK
"""Once retention has dropped for a week, database and cache grow no more."""
CHANNELS = ("chat:ops",)
QUESTIONS = ("alerts", "cost 7d by cluster", "fleet", "suggestions")
PRUNED = timedelta(hours=6)
RESTARTED = timedelta(days=3, hours=13)
KEPT = Path(".trnbot")


def quarter(weeks: int) -> Scenario:
    """Return a fleet of two clusters for so many weeks after a history of two.

    Every nine hours something goes wrong, now here, now there.
    """
    days = weeks * 7 + HISTORY / DAY
    faults = (
        (Cause.STARVED, "llama", (0, 8), 0.2, 1.5),
        (Cause.IDLE, "lab", (1, 3), 0.0, 3.0),
        (Cause.HARDWARE_FAULT, "llama", (5, 6), 0.0, 1.5),
        (Cause.ALLOCATED_UNUSED, "lab", (0, 1), 0.0, 4.0),
        (Cause.EXECUTION_ERRORS, "llama", (2, 3), 7.0, 1.5),
    )
    incidents = []
    for number, hour in enumerate(range(int(HISTORY / DAY) * 24, int(days * 24), 9)):
        cause, cluster, nodes, level, hours = faults[number % len(faults)]
        incidents.append(
            PlannedIncident(cause, cluster, hour, hours, JOBS[cluster].name, nodes, level)
        )
    clusters = tuple(
        PlannedCluster(name, "trn1.32xlarge", "us-west-2", (job,), team=name, project=job.name)
        for name, job in JOBS.items()
    )
    return Scenario(
        "A quarter of a small fleet.", days, PERIOD_SECONDS, clusters, tuple(incidents), 35
    )


JOBS = {
    "llama": PlannedJob("llama-8b", 8, market="savings-plan", run_hours=400),
    "lab": PlannedJob("notebooks", 4, usual=0.7, memory=0.4, efa=0, eval_hours=0, run_hours=400),
}


class Death(Fuse):
    """Die once after the next message that was posted, before anything notes it."""

    armed = False

    def step(self, name: str) -> None:
        """Raise `Crash` where it is armed."""
        if self.armed and name == "after post":
            self.armed = False
            raise Crash


@dataclass
class Life:
    """Run the bot over a recording on a database; it can be closed and opened anew at any tick."""

    settings: Settings
    url: str
    folder: Path
    alerts: dict[str, tuple[str, datetime, datetime | None]] = field(default_factory=dict)
    """Key, opening and end of every alert that a tick told of, by its id."""
    death: Death = field(default_factory=Death)
    crashes: int = 0

    def open(self) -> None:
        """Open store, source and bill anew, as a new process does."""
        self.store: SqlStore = open_store(self.url)
        opened = OpenedSource(self.settings.source, self.settings)
        self.chat = FileChat(self.folder / "chat.jsonl", self.death)
        ports = with_parts(
            opened.ports(stores_in(self.store), self.settings.policy),
            surfaces={"chat": self.chat},
            channels=CHANNELS,
        )
        self.app = App(ports, CHANNELS, Access(), time.monotonic)

    def close(self) -> None:
        """End every connection and forget the rest."""
        self.store.close()
        del self.app, self.store

    async def tick(self, now: datetime) -> None:
        """Run one tick; who died in it starts again, and runs it once more."""
        try:
            result = await self.app.tick(now)
        except Crash:
            self.crashes += 1
            self.close()
            expire(self.url)
            self.open()
            result = await self.app.tick(now)
        assert result
        for alert in result.outcome.alerts:
            self.alerts[alert.id] = (alert.key, alert.opened, alert.closed)


@dataclass(frozen=True)
class WeekSeen:
    """Hold the sizes at the end of a week."""

    week: int
    memory_mib: float
    database: int
    cache: int
    largest: int
    """Bytes of the largest file of the cache."""
    n_open: int
    n_closed: int
    messages: int

    def line(self) -> str:
        """Return the week as a row of the table."""
        mib = (self.memory_mib, self.database / 2**20, self.cache / 2**20)
        sizes = "".join(f"{size:>11.1f}" for size in mib)
        return f"{self.week:>4}{sizes}{self.n_open:>8}{self.n_closed:>8}{self.messages:>10}"


HEAD = f"{'week':>4}{'memory MiB':>11}{'db MiB':>11}{'cache MiB':>11}{'open':>8}{'closed':>8}{'messages':>10}"


def memory_mib() -> float:
    """Return the memory that this process holds now."""
    gc.collect()
    # What was freed may lie with the allocator, which is no growth.
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def seen(life: Life, week: int) -> WeekSeen:
    """Return the sizes of a life now."""
    files = life.folder.glob("trnbot.db*")
    ends = [closed for _, _, closed in life.alerts.values()]
    return WeekSeen(
        week,
        memory_mib(),
        sum(path.stat().st_size for path in files),
        size_of(KEPT),
        max((path.stat().st_size for path in KEPT.rglob("*") if path.is_file()), default=0),
        ends.count(None),
        len(ends) - ends.count(None),
        len(life.chat.log()),
    )


def redeliver(recording: Path, day: int) -> None:
    """Write files of the bill anew with the same rows, as AWS does with every month still open."""
    files = sorted(path for path in (recording / "billing").rglob("*") if path.is_file())
    path = files[day % len(files)]
    draft = path.with_name(f".{path.name}.new")
    draft.write_bytes(path.read_bytes())
    draft.rename(path)


async def disturbed(
    life: Life, recording: Path, times: Sequence[datetime], until: Callable[[], bool]
) -> list[WeekSeen]:
    """Run the ticks with all that may happen to a bot, and return each week, until time is up."""
    start, weeks = times[0], []
    retention = retention_of(life.settings, life.store)
    for now in times:
        passed = now - start
        if passed and not passed % RESTARTED:
            life.close()
            life.open()
            retention = retention_of(life.settings, life.store)
        life.death.armed |= passed % WEEK == 2 * DAY
        crashes = life.crashes
        await life.tick(now)
        if life.crashes > crashes:
            retention = retention_of(life.settings, life.store)
        if not passed % PRUNED:
            await retention.work()
        if not passed % DAY:
            redeliver(recording, passed // DAY)
            await life.app.run(ask(QUESTIONS[passed // DAY % len(QUESTIONS)], at=now))
        if passed and not passed % WEEK:
            weeks.append(seen(life, passed // WEEK))
            print(weeks[-1].line(), flush=True)
            if until():
                break
    return weeks


async def in_peace(life: Life, times: Sequence[datetime]) -> None:
    """Run the ticks in one go."""
    for now in times:
        await life.tick(now)


def outgrown(weeks: Sequence[WeekSeen]) -> Iterator[str]:
    """Yield a sentence for each size that is not bounded."""
    settled = [x for x in weeks if x.week * WEEK >= SETTLED]
    if len(settled) < 2:
        yield f"{len(weeks)} weeks are too few to see whether retention bounds anything."
        return
    for name, most, sizes, since in (
        ("memory", MOST_MEMORY, [x.memory_mib for x in weeks], 1),
        ("the database", MOST_DISK, [x.database for x in settled], settled[0].week),
    ):
        growth = max(sizes) / sizes[0]
        if growth > most:
            yield f"{name} grew by {growth - 1:.1%} after week {since}."

    # A restart after a bill came anew leaves one more file, until the oldest make room.
    room = MOST_DISK * _MOST_FILES * weeks[0].largest
    if (most_cache := max(x.cache for x in weeks)) > room:
        yield f"the cache took {most_cache / room:.1f} times the room of {_MOST_FILES} files."


def differing(life: Life, truth: Life) -> Iterator[str]:
    """Yield a sentence for each alert or message that was lost, doubled or is another."""
    for alert in sorted(life.alerts.items() ^ truth.alerts.items()):
        whose = "undisturbed" if alert in truth.alerts.items() else "disturbed"
        yield f"alert only in the {whose} run: {alert}"

    ours, theirs = sent(life), sent(truth)
    for message in sorted(ours.keys() | theirs.keys()):
        if ours[message] != theirs[message]:
            yield f"sent {ours[message]} times, not {theirs[message]}: {message}"


def sent(life: Life) -> Counter[tuple[str, str, str]]:
    """Return how often each message was sent; of its edits the last one counts."""
    log = life.chat.log()
    last = {entry["message"]: entry["title"] for entry in log if entry["doing"] != "reply"}
    posts = [("post", entry["message"], "") for entry in log if entry["doing"] == "post"]
    replies = [
        ("reply", entry["message"], entry["title"]) for entry in log if entry["doing"] == "reply"
    ]
    return Counter([*posts, *replies, *(("last", *edit) for edit in last.items())])


def opened_life(recording: Path, folder: Path, interval: str) -> Life:
    """Return a bot over a recording, opened."""
    folder.mkdir()
    settings = read_settings(
        {
            "TRNBOT_SOURCE": f"recording:{recording}",
            "TRNBOT_INTERVAL": interval,
            "TRNBOT_RETENTION": "1d",
            "TRNBOT_KEEP_ALERTS": f"{RETENTION // DAY}d",
        }
    )
    life = Life(settings, f"sqlite:///{folder}/trnbot.db", folder)
    life.open()
    return life


@dataclass(frozen=True)
class Soaked:
    """Hold the outcome: each week, how often the bot died, its alerts, and all that is wrong."""

    weeks: Sequence[WeekSeen]
    deaths: int
    alerts: int
    wrong: Sequence[str]

    def verdict(self) -> str:
        """Return what is wrong, a sentence each."""
        return " ".join(self.wrong) or "bounded, and nothing was lost or doubled"


def soak(folder: Path, weeks: int, minutes: float, interval: str) -> Soaked:
    """Live through the weeks in `folder`; half of the time is for each run."""
    share_heaps()  # as the process that serves does
    recording = folder / "quarter"
    generate(recording, 7, quarter(weeks))
    # Monitors of two nodes are half of all bytes, and say nothing that the metrics do not.
    shutil.rmtree(recording / "neuron-monitor", ignore_errors=True)
    life = opened_life(recording, folder / "disturbed", interval)
    extent = life.app.ports.world.source.extent()
    assert extent
    start = extent.start + HISTORY
    times = grid(start, start + weeks * WEEK, life.settings["interval"])

    print(HEAD, flush=True)
    deadline = time.monotonic() + minutes * 30
    found = asyncio.run(disturbed(life, recording, times, lambda: time.monotonic() > deadline))
    life.close()

    truth = opened_life(recording, folder / "peace", interval)
    asyncio.run(in_peace(truth, [now for now in times if now <= start + len(found) * WEEK]))
    truth.close()
    print(f"{len(found)} of {weeks} weeks, {life.crashes} deaths, {len(life.alerts)} alerts")
    wrong = [*outgrown(found), *differing(life, truth)]
    return Soaked(found, life.crashes, len(life.alerts), wrong)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print each week and all that is wrong; return 1 where something is."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quarter")
    parser.add_argument("--minutes", type=float, default=60, help="stop the weeks after half of it")
    parser.add_argument("--weeks", type=int, default=QUARTER_WEEKS)
    parser.add_argument("--interval", default="15m", help="time from tick to tick")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="quarter-") as name, contextlib.chdir(name):
        soaked = soak(Path(name), asked.weeks, asked.minutes, asked.interval)
    print("\n".join(soaked.wrong) or soaked.verdict())
    return int(bool(soaked.wrong))


if __name__ == "__main__":
    sys.exit(main())
