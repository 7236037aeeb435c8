"""Kill the process in the middle of its work, start it again: nothing is lost, nothing is said twice."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import random
import re
import signal
import threading
import time
import urllib.request
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from aiohttp import web
from sqlalchemy import create_engine, text

from adapters.store.open import open_store, read_address
from bot.model.labels import Labels
from bot.model.window import EVER
from bot.watch.preview import replay
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource, SourceReplays
from tests.e2e.product import Product, product, recording
from tests.e2e.slackserver import BOT_TOKEN, FINANCE, SECRET, free_port
from tests.storm.faults import Faults
from tests.storm.slackside import SlackSide

HANDOVER_S = 30
EVERY_KILL = os.environ.get("KILLS") == "all"
AT_LENGTH = pytest.mark.skipif(not EVERY_KILL, reason="takes ten minutes; KILLS=all tries it")
END = datetime(2026, 11, 17, 5, tzinfo=UTC)
"""By then the recording's one incident is over."""


def ended(bot: Product, end: str) -> bool:
    return str(bot.health()["ticked_at"] or "") >= end


def kill_somewhere(
    folder: Path, port: int, environment: dict[str, str], dice: random.Random
) -> None:
    """Start, and kill without warning after a random moment of ticking."""
    with product(folder, port, environment) as bot:
        time.sleep(dice.uniform(0.2, 1.2))
        bot.process.send_signal(signal.SIGKILL)
        bot.process.wait(timeout=10)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kills", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_killed_and_restarted_it_ends_where_a_backtest_ends(
    tmp_path: Path, url: str, kills: int
) -> None:
    source, dice, port = f"recording:{recording('tiny')}", random.Random(7), free_port()
    environment = {"TRNBOT_SOURCE": source, "TRNBOT_SPEED": "5000", "TRNBOT_DATABASE_URL": url}
    for _ in range(kills):
        kill_somewhere(tmp_path, port, environment, dice)
    settings = settings_of({"source": source})
    truth = replay(
        SourceReplays(settings, OpenedSource(source, settings)).open(source, settings.policy),
        ("web:alerts",),
    )
    last = max(alert.closed or alert.seen for alert in truth.alerts.values())
    with product(tmp_path, port, environment | {"TRNBOT_SPEED": "100000"}) as bot:
        deadline = time.monotonic() + 60
        while not ended(bot, f"{last:%Y-%m-%dT%H:%M}") and time.monotonic() < deadline:
            time.sleep(0.2)
    for line in re.findall(
        r"The tick of .* failed.*", bot.log.read_text()
    ):  # the next tick mends it; why it came is worth knowing
        warnings.warn(line, stacklevel=1)
    store = open_store(url)
    kept = store.history(EVER, Labels())
    assert {alert.id: (alert.opened, alert.closed, alert.waste) for alert in kept} == {
        alert.id: (alert.opened, alert.closed, alert.waste) for alert in truth.alerts.values()
    }
    messages = store.newest("web.messages", 100)
    firsts = [notice for notice in truth.notifications if notice.reason.value == "FIRST"]
    assert len(messages) == len(firsts) > 0


@contextmanager
def slack_side(faults: Faults | None = None) -> Iterator[SlackSide]:
    """Be Slack's Web API on loopback, in a thread of its own."""
    loop, side = asyncio.new_event_loop(), SlackSide(faults or Faults(0, 0, 0))
    runner = web.AppRunner(made := web.Application(), access_log=None, shutdown_timeout=1)
    made.add_routes(side.routes())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    port = free_port()

    async def start() -> None:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()

    asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    side.url = f"http://127.0.0.1:{port}"
    yield side
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@contextmanager
def nobody_leads(url: str) -> Iterator[None]:
    """Have the lead, in PostgreSQL, for as long as this lasts."""
    engine = create_engine(read_address(url))
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE leases SET holder = 'x', epoch = epoch + 1, expires = now() + '1 day'")
        )
    yield
    with engine.begin() as connection:
        connection.execute(text("UPDATE leases SET expires = now()"))
    engine.dispose()


def press(bot: Product, side: SlackSide, value: str) -> None:
    """Press a button as Slack tells of it, signed; fail where it is not acknowledged within the three seconds that Slack waits."""
    action = {
        "type": "button",
        "action_id": "line:0",
        "block_id": "b",
        "value": value,
        "action_ts": "1.1",
    }
    ts = side.heads(FINANCE)[0]["ts"]
    payload = {
        "type": "block_actions",
        "actions": [action],
        "team": {"id": "T1"},
        "user": {"id": "U1", "username": "dana"},
    }
    payload |= {
        "channel": {"id": FINANCE},
        "container": {"type": "message", "message_ts": ts},
        "message": {"ts": ts},
    }
    payload |= {
        "trigger_id": f"{value}-{bot.process.pid}",
        "response_url": f"{side.url}/api/response",
    }
    body, stamp = urlencode({"payload": json.dumps(payload)}), str(int(time.time()))
    signed = hmac.new(SECRET.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()
    headers = {"X-Slack-Signature": f"v0={signed}", "X-Slack-Request-Timestamp": stamp}
    with urllib.request.urlopen(
        urllib.request.Request(f"{bot.url}/slack/events", body.encode(), headers), timeout=3
    ) as answer:
        assert answer.status == 200


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_another_replica_takes_over_and_buttons_are_answered_meanwhile(
    tmp_path: Path, postgres_url: str
) -> None:
    environment = {
        "TRNBOT_SOURCE": f"recording:{recording('tiny')}",
        "TRNBOT_SPEED": "900",
        "TRNBOT_DATABASE_URL": postgres_url,
    }
    environment |= {
        "SLACK_BOT_TOKEN": BOT_TOKEN,
        "SLACK_SIGNING_SECRET": SECRET,
        "TRNBOT_ROUTE": f"slack:{FINANCE}",
    }
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with (
        slack_side() as side,
        product(
            tmp_path / "one", free_port(), environment | {"SLACK_API_URL": f"{side.url}/api/"}
        ) as leader,
        product(
            tmp_path / "two", free_port(), environment | {"SLACK_API_URL": f"{side.url}/api/"}
        ) as other,
    ):
        wait_for(lambda: leader.health()["ticks"] > 0)
        assert other.health()["ticks"] == 0
        wait_for(lambda: bool(side.heads(FINANCE)))
        ticks = leader.health()["ticks"]
        wait_for(lambda: leader.health()["ticks"] > ticks)
        last = str(leader.health()["ticked_at"])
        leader.process.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        with nobody_leads(postgres_url):
            wait_for(
                lambda: str(other.health()["now"]) >= last
            )  # recorded time: what a replica knows of it is what was ticked
            press(other, side, found(side, r"ack a\w+"))
            wait_for(lambda: "cknowledged by" in shown(side))
            assert answers(other)
            assert other.health()["ticks"] == 0
        wait_for(lambda: answers(other) and other.health()["ticks"] >= 1)
        assert time.monotonic() - killed < HANDOVER_S
        wait_for(lambda: str(other.health()["ticked_at"]) >= "2026-11-17T05:00")
    store = open_store(postgres_url)
    assert [alert.cause.value for alert in store.history(EVER, Labels())] == ["idle"]
    assert len(store.newest("web.messages", 100)) == 1
    assert "OVER after" in shown(side)
    assert "acknowledged by dana" in shown(side)


def shown(side: SlackSide) -> str:
    """Return the one message of the channel."""
    (message,) = side.heads(FINANCE)
    return str(message)


def found(side: SlackSide, pattern: str) -> str:
    words: Any = re.search(pattern, shown(side))
    return str(words[0])


OF_A_PAGE = {"X-Trnbot": "console", "Sec-Fetch-Site": "same-origin"}


def answers(bot: Product) -> bool:
    """Ask on its console as a page of it does; fail where it does not answer."""
    asked = urllib.request.Request(f"{bot.url}/ask", data=b"line=alerts", headers=OF_A_PAGE)
    with urllib.request.urlopen(asked, timeout=10) as answer:
        return bool(answer.status == 200)


def wait_for(look: Callable[[], bool], longest_s: float = 60) -> None:
    end = time.monotonic() + longest_s
    while not look():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


KILLS = 100
"""Kills from outside the process, by KILLS=all; `make test` tries a few on SQLite."""
RECORDED_S = 4 * 3600
"""From the first tick of the recording to the end of its incident, and a little more."""
LONGEST_LIFE_S = 3.0
FAILING = ("429", "500", "reset", "done, then 500", "done, then reset")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [2, pytest.param(KILLS, marks=[pytest.mark.slow, AT_LENGTH])])
def test_killed_from_outside_at_random_all_is_said_once_on_sqlite(
    tmp_path: Path, kills: int
) -> None:
    url = f"sqlite:///{tmp_path}/trnbot.db"
    assert _played(tmp_path / "killed", url, kills, 1) == _played(
        tmp_path / "whole", f"{url}.whole", 0, 1
    )


@pytest.mark.slow
@AT_LENGTH
@pytest.mark.timeout(1800)
def test_killed_from_outside_at_random_two_replicas_say_all_once(
    tmp_path: Path, postgres_url: str
) -> None:
    whole = _played(tmp_path / "whole", f"sqlite:///{tmp_path}/whole.db", 0, 1)
    assert _played(tmp_path / "killed", postgres_url, KILLS, 2) == whole


def _played(folder: Path, url: str, kills: int, replicas: int) -> dict[str, Any]:
    """Play a recording to its end with so many kills, and return what people and the database hold of it."""
    dice = random.Random(11)
    speed = min(300.0, max(150.0, RECORDED_S / (max(1, kills) * LONGEST_LIFE_S / 2)))
    environment = {
        "TRNBOT_SOURCE": f"recording:{recording('tiny')}",
        "TRNBOT_SPEED": f"{speed:.0f}",
        "TRNBOT_DATABASE_URL": url,
    }
    environment |= {
        "SLACK_BOT_TOKEN": BOT_TOKEN,
        "SLACK_SIGNING_SECRET": SECRET,
        "TRNBOT_ROUTE": f"slack:{FINANCE}",
    }
    faults = Faults(5, 0, float("inf"), FAILING, 0.95) if kills else None
    with slack_side(faults) as side, ExitStack() as stack:
        environment["SLACK_API_URL"] = f"{side.url}/api/"
        start = partial(_replica, stack, folder, environment)
        running = [start(n) for n in range(replicas)]
        for kill in range(kills):
            _live(dice.uniform(0.05, LONGEST_LIFE_S), side, running, url)
            victim = kill % replicas
            running[victim].process.send_signal(signal.SIGKILL)
            running[victim].process.wait(timeout=10)
            running[victim] = start(victim)
        wait_for(lambda: _press_once(side, running, url) and _settled(url), 300)
        assert not side.door.hasty
        return _held(side, url)


def _replica(stack: ExitStack, folder: Path, environment: dict[str, str], number: int) -> Product:
    (place := folder / f"{number}").mkdir(parents=True, exist_ok=True)
    return stack.enter_context(product(place, free_port(), environment))


def _live(seconds: float, side: SlackSide, running: list[Product], url: str) -> None:
    """Let the replicas work, and press as soon as there is a button: the incident lasts for seconds only."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        _press_once(side, running, url)
        time.sleep(min(0.1, left))


def _press_once(side: SlackSide, running: list[Product], url: str) -> bool:
    """Acknowledge the incident as soon as its message stands there, until the message shows it; return whether it does.

    A press that a kill swallowed before it was kept is pressed again, as a person would; one that was kept is not.
    """
    heads = side.heads(FINANCE)
    if (
        heads
        and "cknowledged by" not in str(heads[0])
        and (button := re.search(r"\back a\w+", str(heads[0])))
    ):
        for bot in running if not _kept(url, button[0].removeprefix("ack ")) else ():
            with suppress(OSError, AssertionError):
                press(bot, side, button[0])
                break
    return bool(heads) and "cknowledged by" in str(heads[0])


def _kept(url: str, alert: str) -> bool:
    store = open_store(url)
    try:
        return bool(store.decisions(alert))
    finally:
        store.close()


def _settled(url: str) -> bool:
    """Return whether the incident is over and everything about it was sent."""
    store = open_store(url)
    state = store.load(END)
    store.close()
    return (
        (str(state.ticked_at or "") >= f"{END}")
        and not state.lines
        and not any(e.pending for e in state.notification_log)
    )


def _held(side: SlackSide, url: str) -> dict[str, Any]:
    """Return messages and lines by their keys, and alerts with their acknowledgements, but for the times of people's presses."""
    store = open_store(url)
    alerts = store.history(EVER, Labels())
    held = {
        "alerts": {one.id: (one.opened, one.closed, one.waste) for one in alerts},
        "acknowledged": {
            one.id: [(d.doing, d.by) for d in store.decisions(one.id)] for one in alerts
        },
        "messages": Counter(
            str(m["metadata"]["event_payload"]["key"]) for m in side.heads(FINANCE)
        ),
        "shown": {re.sub(r" after .* ·", "", str(m["text"])) for m in side.heads(FINANCE)},
        "lines": [_bare(m) for m in side.messages[FINANCE].values() if "thread_ts" in m],
    }
    store.close()
    return held


def _bare(line: dict[str, Any]) -> tuple[str, str]:
    """Return of a line whose message it belongs to and why it was said; the acknowledgement's own id differs by run."""
    notification, _, reason, _ = str(line["metadata"]["event_payload"]["key"]).split("-")
    return notification, reason
