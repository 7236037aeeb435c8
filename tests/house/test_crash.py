"""Kill the process in the middle of its work, start it again: nothing is lost, nothing is said twice."""

from __future__ import annotations

import random
import signal
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.store.open import open_store
from bot import build
from bot.model.labels import Labels
from bot.model.window import EVER
from bot.replay import replay
from tests.e2e.product import Product, product, recording
from tests.e2e.slackserver import free_port

KILLS = 5
HANDOVER_S = 30


def ended(bot: Product, end: str) -> bool:
    return str(bot.health()["ticked_at"] or "") >= end


def kill_somewhere(folder: Path, port: int, environment: dict[str, str], dice: random.Random) -> None:
    """Start, and kill without warning after a random moment of ticking."""
    with product(folder, port, environment) as bot:
        time.sleep(dice.uniform(0.2, 1.2))
        bot.process.send_signal(signal.SIGKILL)
        bot.process.wait(timeout=10)


@pytest.mark.timeout(240)
def test_killed_and_restarted_it_ends_where_a_backtest_ends(tmp_path: Path, url: str) -> None:
    source, dice, port = f"recording:{recording('tiny')}", random.Random(7), free_port()
    environment = {"TRNBOT_SOURCE": source, "TRNBOT_SPEED": "5000", "TRNBOT_DATABASE_URL": url}
    for _ in range(KILLS):
        kill_somewhere(tmp_path, port, environment, dice)
    settings = build.settings_of({"source": source})
    truth = replay(build.Replays(settings, build.Opened(source, settings)).open(source, settings.policy), ("web:alerts",))
    last = max(alert.closed or alert.seen for alert in truth.alerts.values())
    with product(tmp_path, port, environment | {"TRNBOT_SPEED": "100000"}) as bot:
        deadline = time.monotonic() + 60
        while not ended(bot, f"{last:%Y-%m-%dT%H:%M}") and time.monotonic() < deadline:
            time.sleep(0.2)
    store = open_store(url)
    kept = store.history(EVER, Labels())
    assert {alert.id: (alert.opened, alert.closed, alert.waste) for alert in kept} == {
        alert.id: (alert.opened, alert.closed, alert.waste) for alert in truth.alerts.values()
    }
    messages = store.newest("web.messages", 100)
    firsts = [notice for notice in truth.notices if notice.reason.value == "FIRST"]
    assert len(messages) == len(firsts) > 0


@pytest.mark.timeout(240)
def test_another_replica_takes_over_and_says_nothing_twice(tmp_path: Path, postgres_url: str) -> None:
    source = f"recording:{recording('tiny')}"
    environment = {"TRNBOT_SOURCE": source, "TRNBOT_SPEED": "1200", "TRNBOT_DATABASE_URL": postgres_url}
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with (
        product(tmp_path / "one", free_port(), environment) as leader,
        product(tmp_path / "two", free_port(), environment) as other,
    ):
        wait_for(lambda: leader.health()["ticks"] >= 5)
        assert other.health()["ticks"] == 0
        assert answers(other)
        leader.process.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        wait_for(lambda: answers(other) and other.health()["ticks"] >= 1)
        assert time.monotonic() - killed < HANDOVER_S
        wait_for(lambda: str(other.health()["ticked_at"]) >= "2026-11-17T05:00")
    store = open_store(postgres_url)
    kept = store.history(EVER, Labels())
    assert [alert.cause.value for alert in kept] == ["idle"]
    assert len(store.newest("web.messages", 100)) == 1


def answers(bot: Product) -> bool:
    """Ask on its console as a page of it does; fail where it does not answer."""
    asked = urllib.request.Request(f"{bot.url}/ask", data=b"line=alerts", headers={"X-Trnbot": "console"})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        return bool(answer.status == 200)


def wait_for(look: Callable[[], bool], longest_s: float = 60) -> None:
    end = time.monotonic() + longest_s
    while not look():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.1)
