"""Suggestions over a real recording: what is decided about them is kept, and Done is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from adapters.store.memory import MemoryStore
from bot.answers.about.digest import post_due
from bot.answers.plan.candidates import Look, _room, _volumes
from bot.answers.plan.suggestions import (
    _SHORTLISTS,
    VERDICTS,
    WEEKLY,
    Shortlist,
    Suggestions,
    SuggestionVerdict,
    Verdict,
    shortlist_blocks,
    shortlisted,
    suggestions_card,
    suggestions_of,
    weekly_card,
    weigh_daily,
)
from bot.app import App
from bot.cards.card import Card, Table
from bot.costs.suggestions import Suggestion, SuggestionKind
from bot.model.alert import Alert
from bot.model.causes import Cause
from bot.model.fleet import Inventory, Reservation, Volume
from bot.model.labels import Labels
from bot.model.notification import State
from bot.model.policy import Policy
from bot.model.reading import Reading
from bot.model.route import Routes
from bot.model.window import Window
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource
from tests.answers.configuring import app, ask, buttons, end, refused
from tests.builders import NOON, alert, anomaly, instance, ports_over, with_parts
from tests.house import fakes


@pytest.fixture(scope="module")
def listed(causes: OpenedSource) -> Sequence[Suggestion]:
    """Return what is suggested where nobody has decided yet, the dearest first."""
    bot = app(causes, MemoryStore())
    return suggestions_of(bot.ports, end(bot)).open


async def test_what_saves_less_than_the_setting_is_no_suggestion(
    causes: OpenedSource, listed: Sequence[Suggestion]
) -> None:
    amounts = [x.usd_per_month for x in listed]
    values = {**settings_of({}).policy.values, "advice.least_usd_per_month": amounts[1]}
    card = await ask(app(causes, MemoryStore(), Policy(values)), "suggestions")
    assert [x["usd_per_month"] for x in card.data["suggestions"]] == amounts[:2]


def suggested(bot: App, alerts: Sequence[Alert] = (), **inventory: Any) -> list[Suggestion]:
    """Return the suggestions about reservations and volumes of an inventory of four nodes on demand."""
    names = [f"i-{n}" for n in range(4)]
    nodes = {name: instance(name) for name in names}
    nodes |= {"i-0": replace(nodes["i-0"], reservation="cr-2")}
    seen = Reading(NOON, {}, Inventory(NOON, nodes, **inventory))
    ports = with_parts(bot.ports, alerts=Alerts(alerts))
    look = Look(ports, seen)
    return [*_room(look), *_volumes(look)]


class Alerts:
    def __init__(self, alerts: Sequence[Alert]) -> None:
        self._alerts = tuple(alerts)

    def load(self, _: datetime) -> Any:
        return SimpleNamespace(alerts=self._alerts)


def empty(n: int, zone: str = "") -> Reservation:
    labels = Labels(resource="cr-1", instance_type="trn1.32xlarge", region="us-west-2", zone=zone)
    return Reservation(labels, n, n, NOON, None)


def test_nodes_on_demand_fit_empty_places_of_their_zone(bot: App) -> None:
    (found,) = suggested(bot, reservations=(empty(2),))
    assert "2 trn1.32xlarge nodes" in found.todo
    # One of the four has a reservation of its own.
    (found,) = suggested(bot, reservations=(empty(8),))
    assert "3 trn1.32xlarge nodes" in found.todo
    assert suggested(bot, reservations=(empty(8, "us-west-2d"),)) == []
    assert suggested(bot, reservations=(replace(empty(8), available=0),)) == []


def test_of_a_reservation_that_an_alert_names_nothing_is_suggested(bot: App) -> None:
    told = alert(anomaly(Cause.UNUSED_CAPACITY, things=("cr-1",)))
    assert suggested(bot, [told], reservations=(empty(2),)) == []


def test_only_gp2_volumes_are_to_become_newer(bot: App) -> None:
    kinds = (("gp2", 500), ("gp3", 900), ("gp2", 250))
    volumes = tuple(
        Volume(Labels(resource=f"vol-{n}", region="us-east-1"), gib, kind, "in-use", NOON)
        for n, (kind, gib) in enumerate(kinds)
    )
    (found,) = suggested(bot, volumes=volumes)
    assert "750 GiB" in found.todo
    assert float(found.usd_per_month) == pytest.approx(750 * 0.02, rel=0.01)


async def test_a_fleet_that_works_gets_no_suggestion(opened: OpenedSource) -> None:
    card = await ask(app(opened, MemoryStore()), "suggestions")
    assert (card.title, card.data["suggestions"]) == ("No suggestion", [])


class Channel:
    """Implement `bot.ports.Surface` of one channel that keeps what it is sent by its key."""

    def __init__(self) -> None:
        self.sent: dict[str, Card] = {}

    async def posted(self, *_: str) -> dict[str, str]:
        return {key: key for key in self.sent}

    async def post(self, _: str, card: Card, key: str) -> str:
        self.sent[key] = card
        return key


@pytest.mark.timeout(400)
async def test_a_channel_gets_the_dearest_three_once_a_week_and_nothing_where_none_is_left(
    causes: OpenedSource, listed: Sequence[Suggestion]
) -> None:
    channel, routes = Channel(), Routes(suggestions=("chat:C1",), digest_at="sun 23:00 UTC")
    bot = app(causes, MemoryStore(), surfaces={"chat": channel}, routes=routes)
    at = end(bot)
    reading = bot.ports.world.source.read(at)
    for _ in range(2):
        assert await post_due(bot.ports, State(), reading, at) == ()
    (card,) = channel.sent.values()
    assert [row["id"] for row in card.data["suggestions"]] == [x.id for x in listed[:3]]

    quiet, later = Channel(), at + timedelta(days=6, hours=23)
    declined = app(causes, MemoryStore(), surfaces={"chat": quiet}, routes=routes)
    verdict = SuggestionVerdict(Verdict.DECLINED, "", Decimal(0), at, "", "", "")
    for suggestion in listed:
        VERDICTS.put(declined.ports.stores.documents, suggestion.id, verdict)
    assert await post_due(declined.ports, State(), reading, at) == ()
    assert not quiet.sent
    assert "no longer" not in refused(
        await ask(declined, "unsubscribe suggestions", at=later, surface="chat")
    )


def weighed(name: str, usd: str, low: str = "", high: str = "", **more: Any) -> Suggestion:
    made = Suggestion(
        SuggestionKind.STORAGE,
        name,
        f"delete {name}",
        Decimal(usd),
        Decimal(low or usd),
        Decimal(high or usd),
        Window(NOON - timedelta(days=7), NOON),
        "nobody wants it",
        "storage",
    )
    return replace(made, **more)


def verdict(usd: str = "10", kind: Verdict = Verdict.DONE) -> SuggestionVerdict:
    return SuggestionVerdict(kind, "delete it", Decimal(usd), NOON, "u", "dana")


def test_the_title_adds_up_what_saves_and_eight_are_listed() -> None:
    some = [weighed(f"v{n}", "10", "5", "20") for n in range(9)]
    stake = weighed("q", "99", kind=SuggestionKind.QUOTA)
    assert not stake.kind.saves
    card = suggestions_card(Suggestions([stake, *some], {}))
    assert card.data["usd_per_month"] == 90
    assert card.title.startswith("10 suggestions: about $90")
    assert "And 2 that save less." in str(card.blocks)
    assert "that save less" not in str(suggestions_card(Suggestions(some[:8], {})).blocks)
    assert suggestions_card(Suggestions([stake], {})).title == "1 suggestion"
    assert suggestions_card(Suggestions((), {})).title == "No suggestion"
    # Only those that are open count, and what one promised less what is left of it was saved.
    card = suggestions_card(Suggestions(some[:2], {some[0].id: verdict("12")}))
    assert (card.data["usd_per_month"], card.data["decided"][0]["saved_usd_per_month"]) == (10, 2)
    tables = [
        any(isinstance(block, Table) for block in suggestions_card(x).blocks)
        for x in (Suggestions(some, {}), Suggestions((), {some[0].id: verdict()}))
    ]
    assert tables == [False, True]


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        ("10", "10", "about $10.00 a month in all"),
        ("5", "10", "(as little as $5.00)"),
        ("10", "20", "(as much as $20.00)"),
        ("5", "20", "($5.00 to $20.00)"),
    ],
)
def test_how_far_a_saving_may_lie_is_said_on_the_side_on_which_it_may(
    low: str, high: str, words: str
) -> None:
    title = suggestions_card(Suggestions([weighed("v", "10", low, high)], {})).title
    assert title.endswith(words), title


def test_a_line_is_offered_to_do_it_where_the_bot_can_and_three_go_out_unasked() -> None:
    some = [weighed(f"v{n}", "10") for n in range(4)]
    assert "Do it…" not in buttons(suggestions_card(Suggestions(some, {})))
    acted = suggestions_card(Suggestions([replace(some[0], act="act delete v0")], {}))
    assert buttons(acted)["Do it…"].line == "act delete v0"
    weekly = weekly_card(Suggestions(some, {some[0].id: verdict()}))
    assert weekly
    assert [row["subject"] for row in weekly.data["suggestions"]] == ["v1", "v2", "v3"]
    assert len((weekly_card(Suggestions(some, {})) or weekly).data["suggestions"]) == WEEKLY
    assert weekly_card(Suggestions(some[:1], {some[0].id: verdict()})) is None
    assert shortlist_blocks(()) == []
    assert len(shortlist_blocks(some[:2])) == 3


def test_what_was_weighed_is_shown_for_two_days_and_weighed_anew_after_one() -> None:
    found = tuple(weighed(f"v{n}", str(20 - n)) for n in range(5))
    ports = ports_over(fakes.Fleet(), MemoryStore())
    documents, day = ports.stores.documents, timedelta(days=1)
    assert shortlisted(ports, NOON) == []

    _SHORTLISTS.put(documents, "newest", Shortlist(NOON, found))
    weigh_daily(ports, NOON + day - timedelta(seconds=1))
    ages = (timedelta(), 2 * day, 2 * day + timedelta(seconds=1), -timedelta(seconds=1))
    listed = [[x.subject for x in shortlisted(ports, NOON + age)] for age in ages]
    assert listed == [["v0", "v1", "v2"], ["v0", "v1", "v2"], [], []]
    VERDICTS.put(documents, found[1].id, verdict())
    assert [x.subject for x in shortlisted(ports, NOON)] == ["v0", "v2", "v3"]

    # A day later all is weighed anew, and this fleet has nothing to suggest.
    weigh_daily(ports, NOON + day)
    kept = _SHORTLISTS.get(documents, "newest")
    assert kept == Shortlist(NOON + day, ())
