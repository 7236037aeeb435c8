"""Live through some hours of a process that serves, in process, and write down all that it says to anybody."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import sqlite3
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from adapters import timer
from bot.__main__ import main
from bot.watch.background import Background
from bot.wiring import serve
from bot.wiring import watch as wiring_watch
from bot.wiring.logs import LogFormatter
from bot.wiring.watch import LiveServer, WatchServer
from tests.aws_live.conftest import World
from tests.aws_live.test_connect import SocketSlack
from tests.wiring.shell import INDENT, clock_of, left_as_it_was

FIVE = timedelta(minutes=5)
HEALTH = ("ok", "problem", "known", "because", "open_alerts", "missed", "failures", "live", "speed")
"""What is told of `/healthz`."""
TABLES = {
    "alerts": ("cause", "cluster", "opened", "closed", "muted_by", "usd_per_hour", "usd_so_far"),
    "said": ("reason", "at", "message", "over", "pending"),
    "lines": ("sent",),
    "silences": ("by", "ends", "ended_at"),
    "decisions": ("alert", "doing", "by", "at", "note"),
    "attempts": ("by", "line", "refused"),
    "versions": ("by", "doing"),
    "ticks": ("at", "known"),
    "shelf": (),
}
"""The columns that a reader wants to see."""
PATIENCE_S = 60.0
STEP_S = 0.01


class Lines(logging.Handler):
    """Keep the lines of the log as a process writes them."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(LogFormatter("%(levelname)s %(name)s %(message)s"))
        self.lines = list[str]()

    def emit(self, record: logging.LogRecord) -> None:
        if record.name != "trnbot.slack.sdk":
            self.lines.append(self.format(record))


class Office(SocketSlack):
    """Slack with people who type and press."""

    def __init__(self) -> None:
        super().__init__()
        self.presses = False
        self.loop: asyncio.AbstractEventLoop | None = None
        self._events = 0

    async def serve(self, request: Any) -> Any:
        self.loop = asyncio.get_running_loop()
        return await super().serve(request)

    def types(self, user: str, line: str) -> None:
        """Mention the bot in the channel of the alerts."""
        self._events += 1
        event = {
            "type": "app_mention",
            "user": user,
            "text": f"<@U0BOT> {line}",
            "channel": "C02FIN",
            "ts": f"90{self._events}.1",
        }
        payload = {
            "type": "event_callback",
            "team_id": "T1",
            "api_app_id": "A1",
            "event_id": f"Ev{self._events}",
            "event": event,
        }
        self._send({"type": "events_api", "payload": payload})

    def presses_button(self, user: str, words: str) -> None:
        """Press the button of that name on the newest message that has one."""
        button, body = next(
            (element, body)
            for body in reversed(self.posted)
            for block in body["blocks"]
            for element in block.get("elements", ())
            if words in json.dumps(element.get("text", ""))
        )
        message = {"type": "message", "message_ts": "5.5", "channel_id": body["channel"]}
        payload = {
            "type": "block_actions",
            "trigger_id": "t1",
            "user": {"id": user, "name": user.lower(), "team_id": "T1"},
            "team": {"id": "T1"},
            "channel": {"id": body["channel"]},
            "message": {"ts": "5.5"},
            "container": message,
            "actions": [button | {"block_id": "b", "action_ts": "1.1"}],
            "response_url": f"{self.url}response",
        }
        self._send({"type": "interactive", "payload": payload})

    def _send(self, envelope: dict[str, Any]) -> None:
        self._events += 1
        sending = self.sockets[-1].send_json(envelope | {"envelope_id": f"e{self._events}"})
        assert self.loop
        asyncio.run_coroutine_threadsafe(sending, self.loop).result(PATIENCE_S)


class Day:
    """Hold a world, its office and the folder of a process, of which each entry of the journal tells what is new."""

    def __init__(self, world: World, office: Office, folder: Path) -> None:
        self.world, self.office, self.folder = world, office, folder
        self.journal, self.log, self.address = list[str](), Lines(), ""
        self._seconds = 0.0
        self._called, self._spoken, self._logged = Counter[str](), 0, 0
        self._rows = dict[tuple[str, str], dict[str, Any]]()
        self._watch: WatchServer | None = None
        self._ended: datetime | None = None
        """When the newest tick was due that has ended."""

    def lives(self, *script: tuple[str, Happening], words: Sequence[str] = ("serve",)) -> int:
        """Serve, let each thing of the script happen, end as by a signal, and return the exit code."""

        async def served(listeners: Any, port: Any, ready: Any, begun: Any) -> None:
            await self._served(listeners, port, (ready, begun), script)

        def anew(*_: Any) -> None:
            self.note("the process begins anew")

        with (
            left_as_it_was(),
            clock_of(self.world),
            _logged_to(self.log),
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setattr(serve, "serve", served)
            patch.setattr(timer, "LOOK_S", STEP_S)
            steady = partial(timer.SteadyClock, monotonic=lambda: self._seconds)
            patch.setattr(wiring_watch, "SteadyClock", steady)
            patch.setattr(os, "_exit", lambda code: self.note(f"exit {code}"))
            patch.setattr(os, "execv", anew)
            patch.setattr(logging, "shutdown", lambda: None)
            self.note("== trnbot " + " ".join(words))
            code = main(words)
        self._tell()
        return code

    def moves(self, folder: Path) -> None:
        """Go on in another folder, where nothing is stored yet."""
        folder.mkdir()
        os.chdir(folder)
        self.folder, self._rows = folder, {}

    def note(self, line: str) -> None:
        """Write a line of the journal."""
        self.journal.append(line)

    def passes(self, minutes: float) -> None:
        """Let time pass."""
        self._seconds += minutes * 60
        self.world.now += timedelta(minutes=minutes)

    async def hears(self, words: str) -> None:
        """Wait until the office was told so."""
        async with asyncio.timeout(PATIENCE_S):
            while not any(
                words in str(body.get("text")) for _, body in self.office.calls[self._spoken :]
            ):
                await asyncio.sleep(STEP_S)

    async def _served(
        self,
        listeners: Sequence[Any],
        port: Any,
        told: tuple[Callable[[str], None], Callable[[Any], None]],
        script: Sequence[tuple[str, Happening]],
    ) -> None:
        """Do as `adapters.http.serve` does, but let rounds and time pass as the script says."""
        ready, begun = told
        rounds = [x for x in listeners if isinstance(x, Background)]
        others = [x for x in listeners if not isinstance(x, Background)]
        (watch,) = (x for x in others if isinstance(x, WatchServer))
        self._ended = None
        self._watch = watch
        self._follow(watch)
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        await port.answer_by(listeners)
        self.address = port.address
        try:
            for listener in others:
                await listener.start()
                begun(listener)
            ready(port.address)
            await self._settled(watch, rounds)
            for title, happens in script:
                self.note(f"== {title}")
                if (waiting := happens(self)) is not None:
                    await waiting
                await self._settled(watch, rounds)
                if stop.is_set():
                    break
        finally:
            for listener in reversed(others):
                await listener.stop()
            await port.cleanup()

    def _follow(self, watch: Any) -> None:
        """Note when each tick of a watch has ended."""
        tick = watch.tick

        async def noted(at: Any) -> Any:
            try:
                return await tick(at)
            finally:
                self._ended = at

        watch.tick = noted

    async def _settled(self, watch: WatchServer, rounds: Sequence[Background]) -> None:
        """Wait until the tick that is due has ended, well or not, and all that follows it; tell what is new."""
        clock: Any = watch.clock  # type: ignore[attr-defined]  # both kinds have one
        health, is_live = watch.app.health, isinstance(watch, LiveServer)
        async with asyncio.timeout(PATIENCE_S):
            while not (self._ended == timer.grid_floor(clock(), FIVE) if is_live else health.ended):
                await asyncio.sleep(STEP_S)
        for thread in threading.enumerate():
            if thread.name == "history":
                await asyncio.to_thread(thread.join)
        for background in rounds:
            await background.work()
        await watch.app.settle()
        await asyncio.to_thread(self._tell)

    def _tell(self) -> None:
        """Write down what is new since it was told last."""
        self.note(f"-- {self._now():%H:%M}")
        for told in (self._asked, self._said, self._stored, self._logs, self._health):
            self.journal += [f"{INDENT}{line}" for line in told()]

    def _now(self) -> datetime:
        return self._ended if self._watch and self._watch.app.health.ended else self.world.now

    def _asked(self) -> Iterator[str]:
        called = Counter(self.world.standin.called)
        new, self._called = called - self._called, called
        if new:
            yield f"aws: {_counted(new)}"
        spans = sorted(self.world.standin.spans)
        self.world.standin.spans.clear()
        if spans:
            yield f"metrics of: {', '.join(f'{_hour(x)} to {_hour(y)}' for x, y in spans)}"

    def _said(self) -> Iterator[str]:
        calls, before = self.office.calls, self._spoken
        self._spoken = len(calls)
        others = Counter[str]()
        for method, body in calls[before:]:
            where = " ".join(str(body[x]) for x in ("channel", "ts", "thread_ts") if body.get(x))
            shown = " / ".join(str(body.get("text", "")).splitlines())
            if method.startswith("chat.") or method == "response":
                # What takes longer on one machine than on another is told so meanwhile.
                if "Working on it" not in shown:
                    yield f"slack: {method} {where}: {shown}"
            elif method not in ("apps.connections.open", "auth.test", "users.info"):
                others[method] += 1
        if others:
            yield f"slack, beside: {_counted(others)}"

    def _stored(self) -> Iterator[str]:
        rows = self._all_rows()
        ticks = [row for key, row in rows.items() if key[0] == "ticks" and key not in self._rows]
        if ticks:
            known = _counted(Counter(row["known"] for row in ticks))
            yield f"+ ticks {ticks[0]['at']} to {ticks[-1]['at']}: {known}"
        for key, row in rows.items():
            if key[0] == "ticks":
                continue
            before = self._rows.get(key)
            if before != row:
                new = row if before is None else {x: y for x, y in row.items() if before[x] != y}
                told = ", ".join(f"{name} {value}" for name, value in new.items() if value != "")
                sign = "+" if before is None else "~"
                yield f"{sign} {key[0]} {key[1]}{': ' if told else ''}{told}"
        gone = self._rows.keys() - rows.keys()
        yield from (f"- {table} {name}" for table, name in sorted(gone) if table != "ticks")
        self._rows = rows

    def _all_rows(self) -> dict[tuple[str, str], dict[str, Any]]:
        path = next((self.folder / ".trnbot").glob("*.db"), None)
        if path is None:
            return {}
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            database.row_factory = sqlite3.Row
            return {
                (table, _name(table, row)): {x: _told(row[x]) for x in columns}
                for table, columns in TABLES.items()
                for row in database.execute(f"SELECT * FROM {table} ORDER BY 1, 2")
                if not _name(table, row).startswith("slack.")
            }

    def _logs(self) -> Iterator[str]:
        before, self._logged = self._logged, len(self.log.lines)
        yield from (f"log: {line}" for line in self.log.lines[before:])

    def _health(self) -> Iterator[str]:
        with suppress(OSError):
            found = self.asked("healthz")
            told = {x: found[x] for x in HEALTH if found.get(x) not in (None, "", 0)}
            yield f"health: {', '.join(f'{name} {value}' for name, value in told.items())}"

    def asked(self, path: str) -> Any:
        """Return what the port answers, read as JSON where it is some."""
        try:
            with urllib.request.urlopen(f"{self.address}{path}", timeout=10) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            text = error.read()
        with suppress(ValueError):
            return json.loads(text)
        return text.decode()


Happening = Callable[[Day], Awaitable[None] | None]


def _hour(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M}"


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {n}" for name, n in sorted(counts.items()))


def _name(table: str, row: sqlite3.Row) -> str:
    match table:
        case "shelf":
            return f"{row['shelf']}/{row['key']}"
        case "said":
            return f"{row['id']} {row['channel']}"
        case "ticks" | "attempts" | "versions":
            return str(row["number"])
    return str(row["id"])


def _told(value: Any) -> str:
    """Return a value of a row; a time without its year and seconds."""
    text = "" if value is None else str(value)
    return re.sub(r"^2026-(\d\d-\d\d) (\d\d:\d\d):\d\d\.\d+$", r"\1 \2", text)


@contextmanager
def _logged_to(handler: logging.Handler) -> Iterator[None]:
    log = logging.getLogger("trnbot")
    level = log.level
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    yield
    log.removeHandler(handler)
    log.setLevel(level)
