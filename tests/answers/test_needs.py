"""Every command opens the parts of the world that it declares, and no other: one that is not declared fails when it is touched."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from adapters.store.memory import MemoryStore
from bot.__main__ import main
from bot.answers.all import ANSWERS
from bot.app import App
from bot.errors import TrnbotError
from bot.grammar.line import understand
from bot.grammar.registry import COMMANDS, Needs
from bot.grammar.turns import equal_of
from bot.model.request import Request, User
from bot.ports import Ports, StateUpdate
from bot.wiring.source import OpenedSource
from tests.answers.configuring import ADMIN, TINY, app, end
from tests.belonging import MEMBER
from tests.builders import alert, anomaly
from tests.cases import in_one_run
from tests.e2e.product import recording

assert ANSWERS
PARTS: Mapping[Needs, tuple[str, ...]] = {
    Needs.BILL: ("billing", "outlook"),
    Needs.METRICS: ("source", "prices"),
    Needs.DETECTOR: ("detect", "compiles"),
    Needs.STATE | Needs.DATABASE: ("alerts", "versions", "documents"),
    Needs.REPLAY: ("replays",),
}
PRODUCT = sorted(
    {made.name for made in COMMANDS.values() if made.handler.__module__.startswith("bot.")}
)
REFUSED = {"act confirm", "backtest", "baseline keep", "config import", "preflight", "scaling"}
"""Their examples name an action, a recording, a run or a file that is not there."""
EXAMPLES = sorted({line for name in PRODUCT for line in COMMANDS[name].examples})


class Part:
    """Notes each call of a part of the world, and fails where the part is closed."""

    def __init__(self, name: str, real: Any, calls: list[str], closed: bool) -> None:
        self.of = (name, real, calls, closed)

    def __getattr__(self, method: str) -> Any:
        name, real, calls, closed = self.of
        assert not closed, f"ports.{name} is not declared"
        calls.append(f"{name}.{method}")
        return getattr(real, method)

    def __call__(self, *given: Any) -> Any:
        return self.__getattr__("__call__")(*given)


def guarded(ports: Ports, opens: Needs, calls: list[str]) -> Ports:
    """Return ports of which only what is declared can be touched."""
    closed = {name: not opens & need for need, names in PARTS.items() for name in names}

    def with_parts(record: Any) -> Any:
        parts = {
            one.name: getattr(record, one.name) for one in fields(record) if one.name in closed
        }
        return replace(
            record, **{name: Part(name, real, calls, closed[name]) for name, real in parts.items()}
        )

    return replace(ports, world=with_parts(ports.world), stores=with_parts(ports.stores))


def calls_of(bot: App, line: str) -> list[str]:
    """Answer a line, and return the calls that it made; one that is refused made some too."""
    calls: list[str] = []
    at = end(bot)
    call = understand(line, at)
    ports = guarded(bot.ports, call.command.opens, calls)
    with contextlib.suppress(TrnbotError):
        asyncio.run(
            call.command.handler(
                ports,
                Request(line, User(ADMIN, "dana"), at, "chat", MEMBER, "chat:ops"),
                **call.arguments,
            )
        )
    return calls


class NoOne:
    """Fails whoever asks who asks."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"the answer depends on the person's {name}")


@pytest.fixture(scope="module")
def alerted(opened: OpenedSource) -> App:
    """Remember an alert that fires on the recording's cluster, so that examples find what they name."""
    bot = app(opened, MemoryStore())
    at = end(bot)
    firing = alert(
        anomaly(cluster=TINY.cluster, at=at - timedelta(hours=1)),
        name="a1b2c3d4e",
        opened=at - timedelta(hours=1),
    )
    bot.ports.stores.alerts.save(StateUpdate(alerts=[firing], ticked_at=at))
    return bot


@pytest.fixture(scope="module")
def calls(alerted: App) -> Callable[[str], list[str]]:
    """Return a way to answer an example over a cluster that there is, once for all tests."""
    return cache(lambda line: calls_of(alerted, line.replace("llama", TINY.cluster)))


@in_one_run
@pytest.mark.parametrize("line", EXAMPLES)
def test_an_answer_that_is_given_to_all_who_ask_at_once_depends_on_nobody(
    alerted: App, line: str
) -> None:
    line, at = line.replace("llama", TINY.cluster), end(alerted)
    request = Request(line, User(ADMIN, "dana"), at, "chat", MEMBER, "chat:ops")
    if equal_of(request) is None:
        pytest.skip("it is answered for its own person")
    call = understand(line, at)
    with contextlib.suppress(TrnbotError):
        asyncio.run(
            call.command.handler(alerted.ports, replace(request, user=NoOne()), **call.arguments)
        )  # type: ignore[arg-type]


@in_one_run
@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_touches_only_what_its_command_declares(
    calls: Callable[[str], list[str]], line: str
) -> None:
    calls(line)


@in_one_run
@pytest.mark.parametrize("name", sorted(set(PRODUCT) - REFUSED))
def test_a_command_needs_nothing_that_none_of_its_examples_touches(
    calls: Callable[[str], list[str]], name: str
) -> None:
    command = COMMANDS[name]
    touched = {call.partition(".")[0] for line in command.examples for call in calls(line)}
    for need, parts in PARTS.items():
        if command.needs & need:
            assert touched & set(parts), f"{name} declares {need}"


@pytest.mark.parametrize(
    "line",
    [
        "cost 2024-01-01..2024-02-01 by service",
        "cost 7d service=AmazonS3",
        "cost 2024-01-01..2024-02-01 by pod",
    ],
)
def test_cost_reads_no_metrics_that_its_answer_cannot_show(alerted: App, line: str) -> None:
    assert {call.partition(".")[0] for call in calls_of(alerted, line)} <= {"billing", "outlook"}


@pytest.mark.parametrize("line", ["cost 7d by team", "cost 7d by pod,team", "cost 7d"])
def test_cost_reads_the_metrics_once(alerted: App, line: str) -> None:
    assert calls_of(alerted, line).count("source.read") == 1


@pytest.mark.parametrize("line", ["wait", "help cost", "config show idle", "checklist llama"])
def test_a_line_about_no_source_makes_and_opens_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRNBOT_SOURCE", f"recording:{tmp_path}/there-is-none")
    assert main(line.split()) == 0
    assert not list(tmp_path.iterdir())


def test_a_line_that_only_reads_makes_no_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRNBOT_SOURCE", f"recording:{recording('tiny')}")
    assert main(["alerts"]) == 1  # no watch has looked, so nobody knows
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if path.parent.name != "opened"] == []  # nothing but copies


def test_a_checklist_ticked_in_a_terminal_stays_ticked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRNBOT_SOURCE", raising=False)
    assert main(["checklist", "done", "llama", "2"]) == 0
    capsys.readouterr()
    assert main(["checklist", "llama", "--json"]) == 0
    assert [
        step["number"]
        for step in json.loads(capsys.readouterr().out)["data"]["steps"]
        if step["done_by"]
    ] == [2]
