"""Say on every surface what nobody can see: without credentials, with each permission denied, in silence, by an old bill."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from adapters.aws.api.operations import NO_ACTION, operations
from adapters.aws.live.source import Live
from adapters.chat.slack.render import message
from adapters.chat.teams.render import render as teams_card
from adapters.http import application
from adapters.store.open import open_store
from adapters.terminal.render import render as terminal_text
from bot.cards.card import Card, Tone
from bot.grammar.registry import Needs, commands_by_name
from bot.model.notification import Known
from bot.model.request import Request, User
from bot.settings.settings import read_settings
from bot.wiring.build import Database, Shown, running_bot
from bot.wiring.kept import Once
from bot.wiring.source import OpenedSource
from bot.wiring.terminal import exit_code
from tests.aws_live.conftest import World
from tests.aws_live.serving import ACCOUNT
from tests.aws_live.test_events import interruption
from tests.belonging import MEMBER

WEEK = timedelta(days=7)
WATCHED = ("alerts", "summary", "savings")
"""Lines about what the watch saw at its last tick."""
READ = ("idle", "fleet", "storage")
"""Lines that read the account anew."""
UNBILLED = ("quota", "carbon", "runs", "size", "inference", "suggestions")
"""Of these, lines that no bill tells of."""
TOLD_OTHERWISE = {"bedrock", "self"}
"""What needs metrics and is no answer about the fleet: prices, and the watch itself."""
CALM = re.compile(
    r"(Nothing is wrong|Nothing is wasting money now|No alert is open|No node is idle"
    r"|No storage is unused|Nothing saved|no open alert wastes anything|Quotas leave room"
    r"|nothing ran|No training run is reporting|No cluster fits on less|No suggestion"
    r"|Nothing to move to Inferentia2)"
    r"(?!( yet in 7 days)?, as far as could be read)"
)
EXPORT = {"TRNBOT_AWS_BILLING": "s3://billing-exports/billing"}
ATHENA = {"TRNBOT_AWS_ATHENA": "bills.cur"}
ROLE = "arn:aws:iam::444455556666:role/trnbot-reader"
QUEUE = f"https://sqs.us-west-2.amazonaws.com/{ACCOUNT}/trnbot-events"
UNASKED = {"sqs:GetQueueAttributes", "aps:GetLabels", "aps:QueryMetrics"}
"""What only `doctor` asks, or a workspace that no fleet of these tests reports to."""
SAMPLED = {"cloudwatch:GetMetricData", "ec2:DescribeVolumes", "eks:ListClusters", "s3:GetObject"}
ACTIONS = sorted({x.action for x in operations().values() if x.resource != NO_ACTION} - UNASKED)


class Late:
    """A bill whose rows are a week older than they say."""

    def __init__(self, bill: Any) -> None:
        self._bill = bill

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bill, name)

    def tally(self, *asked: Any) -> Any:
        tally = self._bill.tally(*asked)
        return replace(tally, billed_through=tally.billed_through - WEEK)

    def deltas(self, now: datetime, days: int) -> Any:
        read = self._bill.deltas(now, days)
        frames = {kind: replace(x, start=x.start - WEEK) for kind, x in read.frames.items()}
        return replace(read, frames=frames)


class Account(OpenedSource):
    """Open the parts of an account that is read as the test says."""

    def __init__(self, live: Live, given: Mapping[str, str], late: bool) -> None:
        settings = read_settings({"TRNBOT_SOURCE": "aws", **given})
        super().__init__("aws", settings)
        self.settings, self.account, bill = settings, Once(lambda: live), self.bill
        if late:
            self.bill = Once(lambda: Late(bill()))


@dataclass
class Seen:
    """Hold what each surface says of one tick."""

    health: Mapping[str, Any]
    cards: Mapping[str, Card]
    pages: Sequence[str]
    api: Mapping[str, Any]


@asynccontextmanager
async def serving(
    world: World, given: Mapping[str, str], late: bool = False, **read: Any
) -> AsyncIterator[Any]:
    """Serve an account; yield a function that runs a tick and asks every surface."""
    store = open_store("sqlite:///bot.db")
    account = Account(world.live(**read), given, late)
    shown = Shown(lambda: world.now)
    bot = running_bot(account.settings, Database(store, store), account, shown)
    bot.app.health.leads(300.0)

    async with TestClient(TestServer(application(bot.listeners))) as client:

        async def tick(lines: Sequence[str] = (*WATCHED, *READ, *UNBILLED, "cost")) -> Seen:
            await bot.app.tick(world.now)
            cards = {
                line: await bot.app.answer(
                    Request(line, User("slack:U1"), world.now, "slack", MEMBER)
                )
                for line in lines
            }
            return Seen(
                await (await client.get("/healthz")).json(),
                cards,
                [await (await client.get(path)).text() for path in ("/", "/now", "/alerts")],
                await (await client.get("/api/v1/alerts")).json(),
            )

        yield tick
    store.close()


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def everywhere(card: Card) -> Iterator[str]:
    """Yield what Slack, Teams and the terminal say of a card."""
    yield json.dumps(message(card).blocks, ensure_ascii=False)
    yield json.dumps(teams_card(card), ensure_ascii=False)
    yield " ".join(terminal_text(card, colour=False).split())  # lines break where a screen ends


def check_doubt(
    seen: Seen, known: Sequence[Known], *troubles: str, lines: Sequence[str] = (*READ, *UNBILLED)
) -> None:
    """Check that every surface knows no more than that, names the troubles, and calms nobody."""
    assert seen.health["known"] in known
    assert {seen.cards[line].data["known"] for line in WATCHED} == {seen.health["known"]}
    assert {seen.cards[line].data["known"] for line in lines} <= set(known)
    assert seen.api["data"]["known"] == seen.health["known"]

    for line in (*WATCHED, *lines):
        card = seen.cards[line]
        assert exit_code(card) == (card.data["known"] == Known.UNKNOWN), line
        for words in (card.data["because"], *everywhere(card)):
            assert all(trouble in words for trouble in troubles), (line, words)
            assert not CALM.search(words), (line, words)

    for words in (seen.health["because"], seen.api["data"]["because"], *seen.pages):
        assert all(trouble in words for trouble in troubles), words
        assert not CALM.search(words), words


def set_up(action: str) -> tuple[Mapping[str, str], Mapping[str, Any]]:
    """Return the settings and the account with which an action is asked."""
    given = {"athena": ATHENA, "ce": {}}.get(action.partition(":")[0], EXPORT)
    read: dict[str, Any] = {"logs": ["jobs"], "events": [QUEUE]}
    if action == "sts:AssumeRole":
        read = {"roles": ["self", ROLE]}
    return given, read


@pytest.mark.parametrize(
    "action",
    [
        pytest.param(action, marks=() if action in SAMPLED else pytest.mark.slow)
        for action in ACTIONS
    ],
)
async def test_every_surface_names_the_permission_that_is_denied(world: World, action: str) -> None:
    next(world.ticks(0.25, 0.25))
    world.standin.queue.put(interruption("i-1", world.now))
    world.standin.faults.denied = {action}
    given, read = set_up(action)
    async with serving(world, given, **read) as tick:
        seen = await tick()
        if action == "sqs:DeleteMessage":
            next(world.ticks(0.34, 0.34))
            seen = await tick()  # deleted once its tick is over, so the next one tells
    check_doubt(seen, (Known.PARTLY, Known.UNKNOWN), action)


async def test_every_surface_says_unknown_without_credentials(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    next(world.ticks(0.25, 0.25))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    async with serving(world, EXPORT) as tick:
        check_doubt(await tick(), (Known.UNKNOWN,), "without valid credentials")


async def test_every_surface_says_unknown_of_a_silent_source(world: World) -> None:
    next(world.ticks(0.25, 0.25))
    world.standin.cloudwatch.series = {}
    async with serving(world, EXPORT) as tick:
        check_doubt(await tick(), (Known.UNKNOWN,), "sent no metrics lately")


async def test_whatever_needs_metrics_says_that_none_were_read(world: World) -> None:
    next(world.ticks(0.25, 0.25))
    world.standin.faults.denied = {"cloudwatch:GetMetricData"}
    lines = [
        command.name
        for command in commands_by_name()
        if command.needs & Needs.METRICS and command.name not in TOLD_OTHERWISE
    ]
    async with serving(world, EXPORT) as tick:
        cards = (await tick(lines)).cards

    answered = {line: card for line, card in cards.items() if card.tone is not Tone.ERROR}
    assert {"goodput", "inference", "suggestions", "faults"} <= answered.keys()
    for line, card in answered.items():
        assert card.data.get("known") == Known.UNKNOWN, line
        assert "cloudwatch:GetMetricData" in card.data["because"], line
        assert exit_code(card) == 1, line
        assert card.tone is not Tone.GOOD, line


@pytest.mark.parametrize(
    ("given", "late", "trouble"),
    [
        (EXPORT, True, "The bill ends 8 days ago"),
        ({"TRNBOT_AWS_EXPLORER_CALLS": "0"}, False, "No billed day is seen yet"),
    ],
    ids=["a week old", "none"],
)
async def test_every_surface_doubts_an_old_bill(
    world: World, given: Mapping[str, str], late: bool, trouble: str
) -> None:
    next(world.ticks(0.25, 0.25))
    async with serving(world, given, late) as tick:
        seen = await tick()
    check_doubt(seen, (Known.PARTLY,), trouble, lines=READ)
    assert seen.cards["cost"].data.get("known") != Known.WHOLE


async def test_every_surface_is_calm_where_all_is_read(world: World) -> None:
    async with serving(world, EXPORT) as tick:
        for _ in world.ticks(2, 2.25):
            seen = await tick()
    known = [seen.health["known"], seen.api["data"]["known"]]
    known += [card.data["known"] for card in seen.cards.values()]
    assert set(known) == {Known.WHOLE}
