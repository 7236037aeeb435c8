"""A database that trnbot 0.1.0 wrote opens; every feature reads what it keeps there, and the watch goes on with the same messages.

`v0_1_0.sql` was written by the code of 0.1.0: its own watch over an hour (12:00 to 13:00), its own commands, its own surfaces.
The process ended in the last tick, after Slack took a message and before that was written down.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from adapters.chat.slack.auth import STATES, Installation, Installations
from adapters.chat.slack.client import Pace
from adapters.chat.slack.pictures import ChartUploader
from adapters.chat.teams.belonging import Tenants
from adapters.chat.teams.conversations import Conversations, Person
from adapters.store.open import HEAD, open_store
from adapters.store.sql import SqlStore
from adapters.web.messages import Messages
from adapters.web.surface import WebConfig, WebSurface
from adapters.web.views import Console
from bot.answers.about.digest import DIGEST, due, wanted
from bot.answers.runs.costed import parities, side
from bot.app import App
from bot.cards.card import (
    Align,
    Button,
    Buttons,
    ButtonStyle,
    Card,
    Chart,
    ChartKind,
    Code,
    Facts,
    Field,
    FieldKind,
    Form,
    Heading,
    Link,
    Mention,
    Series,
    Strong,
    Style,
    Table,
    Text,
    Tone,
    When,
)
from bot.costs.reconcile import reconciled
from bot.costs.training import Sample
from bot.grammar.access import Access
from bot.model.alert import DecisionKind as Deciding
from bot.model.alert import Pattern, Waste
from bot.model.anomaly import Anomaly, Detection
from bot.model.causes import Cause, Severity
from bot.model.labels import Labels
from bot.model.notification import Reason
from bot.model.policy import Attempt, Edit, VersionKind
from bot.model.route import Route, Routes
from bot.model.spend import Money, Spend, Tally
from bot.model.window import Window
from bot.ports import Deduplicator, Ports
from bot.settings.routes import subscriptions
from bot.watch.deliver import Delivered
from bot.watch.health import watch_channels
from bot.watch.preview import kept_draft
from tests.builders import FIVE, NOON, anomaly, with_parts
from tests.house.fakes import Script, app, ask

WRITTEN = Path(__file__).with_name("v0_1_0.sql")
WRITTEN_SHA256 = "9c1cd5d235c47d658aa7fc9ad3cc7dbbc68d3d1b04c083464e2294c3b009300a"
LAST = NOON + timedelta(hours=1)
"""The tick in which the process of 0.1.0 ended."""
LATER = LAST + FIVE
DECIDED = NOON + timedelta(minutes=2)
LLAMA = Labels(cluster="llama")
STARVED, ERRORS, IDLE, UNUSED, HUNG = (
    "a97bff1d34",
    "a4c3975885",
    "a25b090134",
    "a5951babfa",
    "a11fa81e79",
)
WEB = {
    STARVED: "m20261120120000-2265b1f5", ERRORS: "m20261120120000-d8f16adf", IDLE: "m20261120120000-c386bbc4",
    UNUSED: "m20261120120000-414c343c", HUNG: "m20261120130000-a6cecc1b",
}  # fmt: skip
SLACK = {
    STARVED: "1795176000.000000", ERRORS: "1795176000.000001", IDLE: "1795176000.000002", UNUSED: "1795176000.000003", HUNG: "",
}  # fmt: skip
"""What was written down; Slack holds a message of the hung job all the same."""
UNWRITTEN = {"n5af9e0b7b9e": "1795179600.000004"}
CHANNELS = ("web:alerts", "slack:C02FIN")
CHART = Chart(
    ChartKind.LINE, "Utilization", "%", (Series("i-1", (90.0, 20.0)),), (NOON, NOON + FIVE)
)
EVERY_BLOCK = Card(
    "Everything a message can hold",
    Tone.GOOD,
    (
        Text(
            ("plain ", Strong("bold"), Code("ls"), When(NOON), Mention("slack:U1", "dana"), Link("AWS", "https://aws.amazon.com")),
            Style.QUIET,
        ),
        Facts((("Nodes", "4"), ("Waste", "$60.00"))),
        Table((Heading("cluster"), Heading("USD", Align.RIGHT)), (("llama", "60.00"),), ("total", "60.00"), "By cluster", "and 2 more"),
        Chart(
            ChartKind.LINE, "Utilization", "%", (Series("i-1", (90.0, None), Tone.WARNING),), (NOON, NOON + FIVE), (), (85.0, 95.0),
            Window(NOON, NOON + FIVE), "It fell.",
        ),
        Buttons((Button("Acknowledge", "ack a1", ButtonStyle.PRIMARY, True),)),
        Form("Snooze", "snooze a1", (Field("length", "How long", FieldKind.CHOICE, "1h", (("1h", "1 hour"),), "a hint", True),), "Go"),
    ),
    mentions=(Mention("slack:U1", "dana"),),
    public=True,
)  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Restore the database as a file."""
    path = tmp_path / "trnbot.db"
    with sqlite3.connect(path) as database:
        database.executescript(WRITTEN.read_text(encoding="utf-8"))
    database.close()
    return path


@pytest.fixture
def store(file: Path) -> Iterator[SqlStore]:
    opened = open_store(f"sqlite:///{file}")
    yield opened
    opened.close()


class Slack:
    """Holds the messages that 0.1.0 left in the channel, and notes which are posted and edited."""

    def __init__(self) -> None:
        self.held = dict(UNWRITTEN)
        self.titles: list[str] = []
        self.edited: dict[str, Card] = {}

    async def post(self, channel: str, card: Card, key: str) -> str:
        self.titles.append(card.title)
        return f"new.{len(self.titles)}"

    async def edit(self, channel: str, message: str, card: Card, key: str) -> str:
        self.edited[message] = card
        return message

    async def reply(self, channel: str, message: str, card: Card, key: str) -> str:
        """Take the line of the thread."""
        return f"line.{key}"

    async def posted(self, channel: str, thread: str = "") -> dict[str, str]:
        return self.held


class Bill:
    """A bill of $100 a day, final up to midnight before the fixture's day."""

    def tally(
        self, window: Window, by: Sequence[str], where: object = (), most: int | None = None
    ) -> Tally:
        days = (window.end - window.start).days if by else 0
        money = Money(Decimal(100), net=Decimal(100), amortised=Decimal(100))
        rows = tuple(
            Spend({"day": f"{window.start + timedelta(days=n):%Y-%m-%d}"}, money)
            for n in range(days)
        )
        return Tally(window, tuple(by), rows, Money(), "USD", NOON.replace(hour=0), ("CUR 2.0",))


def found_at(now: datetime, *, starved: bool = True) -> list[Anomaly]:
    """Return what the detector of 0.1.0 found in its last tick, as of `now`."""
    idle = anomaly(
        Cause.IDLE,
        n=2,
        cluster="lab",
        at=now,
        value=0.0,
        why="Idle for 30 minutes.",
        wasted_shares=(1.0, 1.0),
    )
    unused = anomaly(
        Cause.ALLOCATED_UNUSED,
        n=1,
        cluster="serving",
        at=now,
        value=0.0,
        why="Nothing executes.",
        wasted_shares=(1.0,),
    )
    hung = anomaly(
        Cause.HUNG,
        n=2,
        cluster="frontier",
        at=now,
        value=0.0,
        why="Memory is held.",
        wasted_shares=(1.0, 1.0),
    )
    return [*([anomaly(at=now)] if starved else []), idle, unused, hung]


def ports_of(store: SqlStore, **surfaces: Any) -> Ports:
    made = app(Script(), None, store).ports  # type: ignore[arg-type] - the surfaces are given below
    return with_parts(
        made,
        surfaces=surfaces,
        channels=CHANNELS,
        routes=Routes(digest=("web:alerts",), digest_at="fri 09:00"),
    )


def bot_of(store: SqlStore, slack: Slack, now: datetime, *, starved: bool = True) -> App:
    console = Console(
        answer=None, effect=None, window=None, csv=None, clock=lambda: now, health=dict, metrics=str
    )  # type: ignore[arg-type]
    web = WebSurface(WebConfig(), console, store)
    detect = lambda *_: Detection(tuple(found_at(now, starved=starved)))  # noqa: E731
    return App(
        with_parts(ports_of(store, web=web, slack=slack), detect=detect),
        CHANNELS,
        Access(("slack:U1",)),
        stopwatch=lambda: 0.0,
    )


def messages_of(store: SqlStore, channel: str, now: datetime = LATER) -> dict[str, str]:
    """Return which message each alert has in a channel."""
    return {
        alert: one.message
        for one in store.load(now).notification_log
        if one.channel == channel
        for alert in one.alerts
    }


def test_the_database_is_as_0_1_0_wrote_it() -> None:
    assert hashlib.sha256(WRITTEN.read_bytes()).hexdigest() == WRITTEN_SHA256


def test_it_opens_and_has_the_newest_tables(store: SqlStore, file: Path) -> None:
    with sqlite3.connect(file) as database:
        assert database.execute("SELECT version_num FROM alembic_version").fetchall() == [(HEAD,)]
    database.close()


def test_its_alerts_are_all_there(store: SqlStore) -> None:
    memory = store.load(LAST)
    assert memory.ticked_at == LAST - FIVE
    alerts = {alert.id: alert for alert in memory.alerts}
    assert {name: (a.cause, a.opened, a.closed, a.muted_by) for name, a in alerts.items()} == {
        STARVED: (Cause.STARVED, NOON, None, ""),
        ERRORS: (Cause.EXECUTION_ERRORS, NOON, NOON + 6 * FIVE, ""),
        IDLE: (Cause.IDLE, NOON, None, "silence:me961bd8d9"),
        UNUSED: (Cause.ALLOCATED_UNUSED, NOON, None, "silence:s30c5d3940"),
        HUNG: (Cause.HUNG, LAST, None, ""),
    }
    starved = alerts[STARVED]
    assert starved.key == "starved/cluster=llama"
    assert (starved.seen, starved.severity, starved.things_at_peak) == (LAST, Severity.WARNING, 4)
    assert starved.anomaly == replace(anomaly(at=LAST), window=starved.anomaly.window)
    assert isinstance(starved.waste, Waste)
    assert (starved.waste.per_hour, starved.waste.so_far) == (Decimal("60.00"), Decimal(70))
    assert starved.peak is not None
    assert starved.acknowledged is not None
    assert (starved.acknowledged.who, starved.acknowledged.note) == (
        "dana",
        "looking at the loader",
    )
    ended = store.history(Window(NOON, LAST), Labels(cluster="vision"))
    assert [(alert.id, alert.firing) for alert in ended] == [(ERRORS, False)]


def test_what_people_decided_is_all_there(store: SqlStore) -> None:
    decisions = store.decisions(STARVED, ERRORS, IDLE)
    assert {one.alert: (one.doing, one.by, one.at) for one in decisions} == {
        STARVED: (Deciding.ACKNOWLEDGE, "slack:U1", DECIDED),
        ERRORS: (Deciding.USEFUL, "slack:U2", DECIDED),
        IDLE: (Deciding.NOT_AN_ANOMALY, "slack:U1", DECIDED),
    }
    pattern, snooze = store.load(LAST).silences
    assert pattern.pattern == Pattern("idle", Labels(cluster="lab"), "ratio", -0.05, 0.05, None)
    assert (pattern.id, pattern.ends) == ("me961bd8d9", DECIDED + timedelta(days=30))
    assert (snooze.alert, snooze.ceiling_usd, snooze.reason, snooze.ends) == (
        UNUSED, Decimal(500), "migration", DECIDED + timedelta(hours=6),
    )  # fmt: skip


def test_what_channels_were_told_is_all_there(store: SqlStore) -> None:
    said = store.load(LAST).notification_log
    assert {channel: messages_of(store, channel, LAST) for channel in CHANNELS} == {
        "web:alerts": WEB,
        "slack:C02FIN": SLACK,
    }
    assert {one.reason for one in said} == {Reason.FIRST, Reason.DECIDED, Reason.OVER}
    (first,) = [one for one in said if one.alerts == (STARVED,) and one.channel == "slack:C02FIN"]
    assert (first.id, first.things, first.usd_per_hour, first.over) == (
        "ndb5a1a24c5c",
        4,
        Decimal("60.00"),
        False,
    )


def test_the_policy_stands_with_its_history(store: SqlStore) -> None:
    (version,) = store.versions(9)
    assert (version.number, version.by, version.doing, version.preview) == (
        1,
        "slack:U1",
        VersionKind.SET,
        "pd8736d9e",
    )
    assert version.edits == (Edit(LLAMA, "starved.below", "75%", "60%"),)
    assert version.overrides == ((LLAMA, "starved.below", "60%"),)
    assert version.shown["alerts"] == [3, 3]
    assert ports_of(store).policy.at(LLAMA).number("starved.below") == pytest.approx(0.6)
    attempts = store.attempts(9)
    assert [attempt.line for attempt in attempts] == [
        "config undo", "config set idle.below nonsense", "config set idle.below 15% cluster=lab", "config apply pd8736d9e",
        "config set starved.below 60% cluster=llama",
    ]  # fmt: skip
    at = DECIDED + timedelta(minutes=1, seconds=20)
    refusal = "'config undo' is for admins (slack:U1), and you are slack:U2."
    assert attempts[0] == Attempt(at, "slack:U2", "dana", "config undo", refusal)


async def _subscriptions(store: SqlStore) -> None:
    assert subscriptions(store, "web:lab") == (
        Route(("web:lab",), LLAMA, severity="critical", by="slack:U1"),
    )


async def _digest_subscriptions(store: SqlStore) -> None:
    assert {to: one.at for to, one in wanted(DIGEST, ports_of(store)).items()} == {
        "web:alerts": "fri 09:00",
        "slack:C02FIN": "mon 09:00 Europe/Berlin",
    }


async def _digests(store: SqlStore) -> None:
    assert due(DIGEST, ports_of(store), LATER) == []
    (monday,) = due(DIGEST, ports_of(store), datetime(2026, 11, 23, 8, tzinfo=UTC))
    assert monday.channel == "slack:C02FIN"


async def _baselines(store: SqlStore) -> None:
    losses = ((2.5, Decimal(300), 1.5), (2.1, Decimal(1200), 6.0))
    usd = (Decimal("910.50"), Decimal("905.25"), Decimal("899.00"))
    kept = Sample(
        "before-port", usd, (5.1, 5.0, 4.9), 1.2e9, Decimal("751.20"), losses, ("p5.48xlarge",)
    )
    assert side(ports_of(store), (), "before-port") == kept
    assert (await bot_of(store, Slack(), LATER).answer(ask("baselines"))).data == {
        "baselines": ["before-port"]
    }


async def _migrations(store: SqlStore) -> None:
    assert parities(ports_of(store), LATER) == (("llama-8b", None),)
    card = await bot_of(store, Slack(), LATER).answer(ask("migration close llama-8b"))
    assert card.title == "Migration llama-8b is closed"


async def _checklists(store: SqlStore) -> None:
    card = await bot_of(store, Slack(), LATER).answer(ask("checklist llama"))
    assert card.title == "Migration llama: 2 of 5 steps done"
    assert "dana" in repr(card.blocks)


async def _previews(store: SqlStore) -> None:
    draft = kept_draft(ports_of(store), "p0e298f73")
    assert (draft.over, draft.doing, draft.by) == (1, VersionKind.SET, "slack:U1")
    assert draft.edits == (Edit(Labels(cluster="lab"), "idle.below", "5%", "15%"),)
    card = await bot_of(store, Slack(), LATER).answer(
        ask("config apply p0e298f73", user="slack:U1")
    )
    assert card.title == "Applied as version 2"
    assert [version.number for version in store.versions(9)] == [2, 1]


async def _estimates(store: SqlStore) -> None:
    (month,) = reconciled(Bill(), store, Window(NOON, LAST), LAST)  # type: ignore[arg-type] - of the port, what is asked
    estimate = month.estimate
    assert estimate is not None
    assert (estimate.at, estimate.remembered) == (NOON, True)
    assert round(estimate.forecast, 2) == Decimal("3031.93")
    assert (round(estimate.low, 2), round(estimate.high, 2)) == (
        Decimal("3026.33"),
        Decimal("3037.53"),
    )


async def _troubles(store: SqlStore) -> None:
    told: list[str] = []

    async def tell(sentence: str) -> None:
        told.append(sentence)

    (one, *_) = store.load(LAST).notification_log
    await watch_channels(Delivered((replace(one, channel="slack:C0GONE"),), ()), store, LATER, tell)
    assert told == ["Messages reach slack:C0GONE again."]


def _conversations(store: SqlStore) -> Conversations:
    async def opened(*_: str) -> str:
        raise AssertionError("all of these chats are known")

    return Conversations(store, opened)


async def _teams_conversations(store: SqlStore) -> None:
    channel = await _conversations(store).reach("19:ops@thread.tacv2;messageid=1")
    assert (channel.id, channel.threaded, channel.greeted) == ("19:ops@thread.tacv2", True, True)
    assert channel.reference.service_url == "https://smba.trafficmanager.net/emea/"
    assert channel.reference.bot.id == "28:bot"
    assert [one.id for one in await _conversations(store).channels()] == ["19:ops@thread.tacv2"]
    chat = await _conversations(store).reach("a:dana")
    assert (chat.personal, chat.greeted) == (True, False)


async def _teams_people(store: SqlStore) -> None:
    dana = Person("a:dana", "a:dana", "00000000-0000-0000-0000-0000000000d1")
    assert await _conversations(store).person("29:1dana") == dana
    assert (await _conversations(store).near("29:1dana")).id == "a:dana"


async def _teams_messages(store: SqlStore) -> None:
    messages = await _conversations(store).messages("19:ops@thread.tacv2")
    assert messages["n1"] == "1700000000042"


async def _teams_unknown_tenants(store: SqlStore) -> None:
    told: list[str] = []

    async def tell(sentence: str) -> None:
        told.append(sentence)

    await Tenants(frozenset(["T1"]), store, tell).report_unknown(frozenset({"t-unknown"}))
    assert told == []


async def _teams_seen(store: SqlStore) -> None:
    assert await Deduplicator(store, "teams.seen").again("19:ops|7")


async def _slack_seen(store: SqlStore) -> None:
    assert await Deduplicator(store, "slack.seen").again("Ev01")


async def _slack_states(store: SqlStore) -> None:
    assert not store.first(STATES, "nonce-1.1763640000")


async def _slack_installations(store: SqlStore) -> None:
    at = LAST - timedelta(minutes=3)
    kept = Installation(
        "T1", "Example Inc.", "xoxb-invented", "B1", "U1", at, ("chat:write", "commands")
    )
    assert await Installations(store).of("T1") == kept


async def _slack_charts(store: SqlStore) -> None:
    uploaded: list[str] = []

    class Client:
        async def files_upload_v2(self, **_: Any) -> Mapping[str, Any]:
            uploaded.append("F0NEW")
            return {"files": [{"id": "F0NEW"}]}

    uploader = ChartUploader(Client(), lambda _: b"png", store, Pace())  # type: ignore[arg-type] - of the client, what is called
    files = await uploader.upload(Card("x", blocks=(CHART,)), "n1")
    # A chart's fingerprint may change with a release: it is uploaded once more then, and the message shows it all the same.
    assert (files, uploaded) in (({0: "F0ABC"}, []), ({0: "F0NEW"}, ["F0NEW"]))


async def _web_messages(store: SqlStore) -> None:
    messages = Messages(store, lambda: LATER)
    shown = {message.id: message for message in (await messages.back_from("alerts"))[1]}
    assert set(WEB.values()) <= set(shown)
    starved = shown[WEB[STARVED]]
    assert (starved.key, starved.at, starved.card.tone) == ("ne6b9a748d4a", NOON, Tone.WARNING)
    assert starved.card.title == "FIRING 12 min · starved · llama, 4 x trn1.32xlarge, us-west-2"
    assert starved.replies
    (digest,) = [message for name, message in shown.items() if name not in WEB.values()]
    assert digest.card.title.startswith("The week to Nov 20, 09:00 UTC")
    (every,) = (await messages.back_from("lab"))[1]
    assert every.card == EVERY_BLOCK


READERS: Mapping[str, Callable[[SqlStore], Awaitable[None]]] = {
    "baselines": _baselines,
    "checklists": _checklists,
    "digest.subscriptions": _digest_subscriptions,
    "digests": _digests,
    "estimates": _estimates,
    "migrations": _migrations,
    "previews": _previews,
    "slack-pictures": _slack_charts,
    "slack.installations": _slack_installations,
    "slack.oauth": _slack_states,
    "slack.seen": _slack_seen,
    "subscriptions": _subscriptions,
    "teams.conversations": _teams_conversations,
    "teams.messages": _teams_messages,
    "teams.people": _teams_people,
    "teams.seen": _teams_seen,
    "teams.strangers": _teams_unknown_tenants,
    "troubles": _troubles,
    "web.messages": _web_messages,
}


@pytest.mark.parametrize("shelf", READERS)
async def test_the_feature_that_owns_a_document_reads_it(store: SqlStore, shelf: str) -> None:
    await READERS[shelf](store)


def test_every_kind_of_document_is_read_here(file: Path) -> None:
    with sqlite3.connect(file) as database:
        shelves = {shelf for (shelf,) in database.execute("SELECT DISTINCT shelf FROM shelf")}
    database.close()
    assert shelves == set(READERS)


async def test_the_watch_goes_on_with_the_same_alerts_and_messages(store: SqlStore) -> None:
    slack = Slack()
    bot = bot_of(store, slack, LATER)
    look = await bot.tick(LATER)
    assert look is not None
    assert {alert.id for alert in look.outcome.alerts if alert.firing} == {
        STARVED,
        IDLE,
        UNUSED,
        HUNG,
    }
    assert slack.titles == []
    assert messages_of(store, "web:alerts") == WEB
    assert messages_of(store, "slack:C02FIN") == SLACK | {HUNG: UNWRITTEN["n5af9e0b7b9e"]}
    assert (
        len(store.newest("web.messages", 99)) == len(WEB) + 2
    )  # the digest, and a message with every block
    memory = store.load(LATER)
    alerts = {alert.id: alert for alert in memory.alerts}
    assert memory.ticked_at == LATER
    assert (alerts[STARVED].opened, alerts[STARVED].seen) == (NOON, LATER)
    assert alerts[STARVED].acknowledged is not None
    assert (alerts[IDLE].muted_by, alerts[UNUSED].muted_by) == (
        "silence:me961bd8d9",
        "silence:s30c5d3940",
    )
    assert alerts[STARVED].waste is not None
    assert alerts[STARVED].waste.so_far == Decimal(75)


async def test_an_alert_of_before_ends_in_its_own_message(store: SqlStore) -> None:
    slack = Slack()
    for n in range(1, 7):
        now = LAST + n * FIVE
        await bot_of(store, slack, now, starved=n < 2).tick(now)
    assert slack.titles == []
    assert slack.edited[SLACK[STARVED]].tone is Tone.OVER
    shown = await Messages(store, lambda: LATER).get(WEB[STARVED])
    assert shown is not None
    assert shown.card.tone is Tone.OVER
    assert (
        shown.card.title
        == "OVER after 1 h 15 min · cost $75.00 · starved, llama · acknowledged by dana after 2 min"
    )
    (closed,) = [alert for alert in store.load(now).alerts if alert.id == STARVED]
    assert not closed.firing


async def test_people_decide_about_an_alert_of_before(store: SqlStore) -> None:
    slack = Slack()
    bot = bot_of(store, slack, LATER)
    await bot.tick(LATER)
    card = await bot.answer(ask(f"unack {STARVED}", user="slack:U1", at=LATER))
    assert card.tone is Tone.GOOD
    listed = await bot.answer(ask("silences", at=LATER))
    assert {row["id"] for row in listed.data["silences"]} == {"me961bd8d9", "s30c5d3940"}
    assert slack.titles == []
    assert SLACK[STARVED] in slack.edited


def test_what_is_old_is_pruned_from_it(store: SqlStore) -> None:
    assert (
        store.prune({"slack.seen": timedelta(0), "teams.messages": timedelta(0)}, timedelta(days=1))
        == 2
    )
    assert store.get("teams.conversations", "a:dana") is not None
