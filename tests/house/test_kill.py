"""Kill the process at every step of the watch and of a button's work, start it again: as if nothing had happened.

Each kill is a process of its own that ends by `os._exit` at its n-th step, on a real database and a chat in a file; then another
goes on where it stopped. `make test` kills once each database, `make test-all` at a sample that holds every kind of step;
KILLS=all kills at every step.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from adapters.store.open import open_store, read_address
from bot.app import App
from bot.cards.card import Card
from bot.grammar.access import Access
from bot.model.alert import Alert
from bot.model.anomaly import Detection
from bot.model.causes import Cause, Severity
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.model.reading import Reading
from bot.model.window import EVER
from bot.watch.track import alert_id
from tests.builders import FIVE, NOON, anomaly, with_parts
from tests.house.fakes import Script, app, ask

KILLED = 9
ROOT = Path(__file__).parents[2]
EVERY_STEP = os.environ.get("KILLS") == "all"
USD = {"llama": 900, "bert": 50, "moe": 70}
CHANNELS = ("chat:ops", "chat:lead")
TABLES = "alerts, said, lines, silences, decisions, ticks, versions, attempts, shelf"


@dataclass
class Fuse:
    """Count steps, and end the process at one of them without a word."""

    at: int = 0
    steps: list[str] | None = None
    count: int = 0

    def step(self, name: str) -> None:
        self.count += 1
        if self.steps is not None:
            self.steps.append(name)
        if self.count == self.at:
            os._exit(KILLED)


class Fused:
    """Stand for a port, with a step before and after every call."""

    def __init__(self, port: Any, fuse: Fuse, names: Sequence[str]) -> None:
        self._port, self._fuse, self._names = port, fuse, names

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._port, name)
        return self._stepping(name, call) if name in self._names else call

    def _stepping(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def stepping(*args: Any) -> Any:
            self._fuse.step(f"before {name}")
            done = call(*args)
            self._fuse.step(f"after {name}")
            return done

        return stepping


class FileChat:
    """Keep what was said in a file that outlives the process; find it by its key."""

    def __init__(self, path: Path, fuse: Fuse) -> None:
        self.path, self.fuse = path, fuse

    def log(self) -> list[dict[str, str]]:
        return (
            [json.loads(line) for line in self.path.read_text().splitlines()]
            if self.path.exists()
            else []
        )

    def _write(self, doing: str, **said: str) -> None:
        self.fuse.step(f"before {doing}")
        with self.path.open("a") as file:
            file.write(json.dumps({"doing": doing, **said}) + "\n")
        self.fuse.step(f"after {doing}")

    async def post(self, channel: str, card: Card, key: str) -> str:
        message = f"{channel}-{key}"
        self._write("post", message=message, channel=channel, key=key, title=card.title)
        return message

    async def edit(self, channel: str, message: str, card: Card, key: str) -> str:
        self._write("edit", message=message, title=card.title)
        return message

    async def reply(self, channel: str, message: str, card: Card, key: str) -> str:
        self._write("reply", message=message, key=key, title=card.title)
        return f"{message}-{key}"

    async def posted(self, channel: str, thread: str = "") -> dict[str, str]:
        self.fuse.step("before posted")
        doing, place = ("reply", thread) if thread else ("post", channel)
        return {
            one["key"]: one["message"] if doing == "post" else one["key"]
            for one in self.log()
            if one["doing"] == doing and one["message"].startswith(place)
        }


class Incidents(Script):
    """Detects three incidents by the clock alone: one flaps, one is critical, one ends early."""

    def __call__(self, reading: Reading, policy: Policy, known: Sequence[Alert]) -> Detection:
        minute = (reading.now - NOON) / timedelta(minutes=1)
        firing = {
            "llama": minute < 15 or minute == 35,
            "bert": 5 <= minute < 20,
            "moe": minute < 10,
        }
        return Detection(tuple(self.one(name, reading.now) for name, on in firing.items() if on))

    def one(self, cluster: str, now: datetime) -> Any:
        severity = Severity.CRITICAL if cluster == "bert" else Severity.WARNING
        usd = Decimal(USD[cluster])
        return anomaly(
            Cause.HUNG,
            cluster=cluster,
            at=now,
            usd_per_hour=usd,
            wasted_shares=(),
            severity=severity,
        )


LLAMA = alert_id("hung/cluster=llama", NOON)
MOE = alert_id("hung/cluster=moe", NOON)
LINES = {1: f"ack {LLAMA}", 2: f"snooze {MOE} 10m ceiling=500", 3: f"unack {LLAMA}"}
"""What people press after some ticks."""
TICKS = 12


def bot_of(url: str, folder: Path, fuse: Fuse) -> tuple[App, Any, FileChat]:
    store, chat = open_store(url), FileChat(folder / "chat.jsonl", fuse)
    made = app(Incidents(), chat, Fused(store, fuse, ("load", "save", "put", "drop")))  # type: ignore[arg-type]
    ports = with_parts(
        made.ports,
        source=Fused(made.ports.world.source, fuse, ("read",)),
        detect=Fused(made.ports.world.detect, fuse, ("__call__",)).__call__,
    )
    made = App(ports, CHANNELS, Access(), stopwatch=lambda: 0.0)
    return made, store, chat


async def work(url: str, folder: Path, fuse: Fuse) -> None:
    """Tick and answer from where the database and the people are; who got no answer presses again."""
    made, store, _ = bot_of(url, folder, fuse)
    ticked = store.load(NOON).ticked_at
    answers = folder / "answers"
    answered = answers.read_text().split() if answers.exists() else []
    for i in range(TICKS):
        at = NOON + i * FIVE
        if ticked is None or at > ticked:
            await made.tick(at)
        if i in LINES and str(i) not in answered:
            fuse.step("before button")
            await made.run(ask(LINES[i], at=at + timedelta(minutes=1)))
            fuse.step("after button")
            with answers.open("a") as file:
                file.write(f"{i}\n")
    store.close()


class Nursery:
    """Fork children from a process that holds no connection and no thread, as forking from this one is not safe."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", "from tests.house.test_kill import nurse; nurse()"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )

    def run(self, url: str, folder: Path, at: int) -> int:
        """Work in a child that is killed at its `at`-th step, 0 = never; return its exit code."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([url, str(folder), at]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(10)


def nurse() -> None:
    """Fork a child for each line that comes in, and say how it ended."""
    for line in sys.stdin:
        url, folder, at = json.loads(line)
        child = os.fork()
        if not child:
            one_life(url, Path(folder), at)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def one_life(url: str, folder: Path, at: int) -> None:
    try:
        asyncio.run(work(url, folder, Fuse(at)))
    except BaseException:
        (folder / "error").write_text(traceback.format_exc())
        os._exit(1)
    os._exit(0)


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


def state(url: str, folder: Path) -> dict[str, Any]:
    """Return everything that a person could tell apart afterwards, thread lines aside."""
    store, log = open_store(url), FileChat(folder / "chat.jsonl", Fuse()).log()
    memory = store.load(NOON + TICKS * FIVE)
    last = {one["message"]: one["title"] for one in log if one["doing"] != "reply"}
    found = {
        "alerts": store.history(EVER, Labels()),
        "decisions": [store.decisions(alert.id) for alert in memory.alerts],
        "silences": memory.silences,
        "said": {(one.channel, one.id): one for one in memory.notification_log},
        "ticked_at": memory.ticked_at,
        "messages": last,
        "posts": sorted(one["message"] for one in log if one["doing"] == "post"),
    }
    store.close()
    return found


def threads(folder: Path) -> Counter[tuple[str, str]]:
    log = FileChat(folder / "chat.jsonl", Fuse()).log()
    return Counter((one["message"], one["title"]) for one in log if one["doing"] == "reply")


def sample(steps: Sequence[str], most: int | None) -> list[int]:
    """Return the steps to be killed at: all, the first and the middle of every kind, or as few of the middle as asked for."""
    if most is not None:
        return list(range(len(steps) // 2, len(steps) // 2 + most))
    if EVERY_STEP:
        return list(range(1, len(steps) + 1))
    kinds: dict[str, list[int]] = {}
    for number, name in enumerate(steps, 1):
        kinds.setdefault(name, []).append(number)
    return sorted({found[i] for found in kinds.values() for i in (0, len(found) // 2)})


def emptied(url: str, template: Path | None, tmp_path: Path) -> None:
    """Begin with an empty database that has its tables already."""
    if template:
        for old in tmp_path.glob("now.db*"):
            old.unlink()
        shutil.copy(template, tmp_path / "now.db")
        return
    engine = create_engine(
        url.replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool
    )
    with engine.begin() as connection:
        connection.execute(text(f"TRUNCATE {TABLES} RESTART IDENTITY"))


def expire(url: str) -> None:
    """Let the leases of a killed process run out now, not seconds later."""
    engine = create_engine(read_address(url), poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM leases"))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("most", [1, pytest.param(None, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_killed_anywhere_it_ends_as_if_nothing_had_happened(
    kind: str, most: int | None, tmp_path: Path, request: pytest.FixtureRequest, nursery: Nursery
) -> None:
    template = tmp_path / "template.db" if kind == "sqlite" else None
    url = f"sqlite:///{tmp_path}/now.db" if template else request.getfixturevalue("postgres_url")
    open_store(f"sqlite:///{template}" if template else url).close()
    emptied(url, template, tmp_path)
    (whole := tmp_path / "whole").mkdir()
    fuse = Fuse(steps=[])
    asyncio.run(work(url, whole, fuse))
    truth, told = state(url, whole), threads(whole)
    assert [len(truth["alerts"]), len(truth["posts"])] == [3, 6]
    assert {title[:4] for title in truth["messages"].values()} == {"OVER"}
    kills = sample(fuse.steps or (), most)
    for at in kills:
        emptied(url, template, tmp_path)
        (folder := tmp_path / f"{at}").mkdir()
        name = f"killed at step {at}, {(fuse.steps or [''])[at - 1]}"
        assert nursery.run(url, folder, at) == KILLED, name
        expire(url)
        assert nursery.run(url, folder, 0) == 0, (
            f"{name}: {(folder / 'error').read_text() if (folder / 'error').exists() else ''}"
        )
        assert state(url, folder) == truth, name
        doubled, lost = threads(folder) - told, told - threads(folder)
        assert (doubled.total(), lost.total()) == (0, 0), f"{name}: {doubled} {lost}"
    print(f"{kind}: {len(kills)} kills at {len(fuse.steps or ())} steps")
