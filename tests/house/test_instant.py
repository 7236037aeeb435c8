"""All numbers of a card are of one instant, and equal on console, Slack, Teams, terminal and API.

A story is played tick by tick, and a recording of every cause at random ticks. Between two ticks every surface is asked for
every alert, and what was sent is held against what was stored when it was sent.
"""

from __future__ import annotations

import html
import json
import random
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from adapters.chat.slack.render import message as slack
from adapters.chat.teams.render import ALERT_BYTES
from adapters.chat.teams.render import render as teams
from adapters.http import application
from adapters.store.memory import MemoryStore
from adapters.terminal.render import render as terminal
from adapters.web.html import PageRenderer
from adapters.web.surface import WebConfig, WebSurface
from adapters.web.views import Console
from bot.answers.about.document import csv_text
from bot.answers.all import ANSWERS
from bot.app import App
from bot.cards.card import Card, Chart, Table
from bot.cards.words import about, quantity
from bot.grammar.access import Access
from bot.grammar.line import effect_of, window_of
from bot.model.alert import Alert, leading
from bot.model.money import cents, usd
from bot.model.request import LOCAL, Manner, Request, User
from bot.model.window import duration_text
from bot.ports import Stores
from bot.settings.settings import read_settings
from bot.watch.tick import grid
from bot.wiring.programs import program_listeners
from bot.wiring.source import OpenedSource
from bot.wiring.surfaces import STORY_SHOWN
from tests.builders import NOON, with_parts
from tests.e2e.product import recording
from tests.house.fakes import Chat

assert ANSWERS
LATER = timedelta(minutes=2)
"""When surfaces are asked after a tick: what is of the question and what is of the tick differ by it."""
LATELY = timedelta(hours=2)
BEFORE = timedelta(hours=6)
"""How long the watch runs before the story begins: some alerts are open then."""
PAGES = PageRenderer(token="token", title="trnbot")
DOLLARS = re.compile(r"\$[\d,.]+\d (?:an hour|so far|by month end)")
SUMMED = re.compile(r"\$[\d,.]+\d an hour(?! stopped)")
ENDED = re.compile(r"Wasted (\$[\d,.]+\d) in ([\d,.]+ node-hours|[\dhdmin ]+?)[.;]")
_MARKS = re.compile(r"<[^>]*>|[*_`|]|\\n|\s+")

DRAWN = {
    "terminal": lambda card: terminal(card, 200),
    "Slack": lambda card: json.dumps(slack(card).blocks, ensure_ascii=False),
    "Teams": lambda card: json.dumps(teams(card, budget=ALERT_BYTES), ensure_ascii=False),
    "console": lambda card: str(PAGES.card(card)),
}


def words(drawn: str) -> str:
    """Return what a person reads, whatever markup it is drawn in."""
    return re.sub(r" +", " ", _MARKS.sub(" ", html.unescape(drawn))).replace(" .", ".")


def lasted(alert: Alert) -> str:
    """Return how long it lasted as of when it was seen last."""
    return duration_text(alert.seen - alert.anomaly.window.start)


def dollars(alert: Alert) -> dict[str, Decimal]:
    """Return the amounts of an alert as of when it was seen last; one that is over wastes no more."""
    if alert.waste is None:
        return {}
    waste = alert.waste
    per_hour, so_far, month_end = map(cents, (waste.per_hour, waste.so_far, waste.month_end))
    if alert.closed:
        return {"per_hour": Decimal(0), "so_far": so_far, "month_end": so_far}
    return {"per_hour": per_hour, "so_far": so_far, "month_end": month_end}


def said_of(alert: Alert) -> set[str]:
    """Return the amounts that a card of an open alert holds."""
    waste = alert.waste
    if not (alert.firing and waste and waste.per_hour):
        return set()
    amounts = {f"{usd(waste.per_hour)} an hour", f"{usd(waste.so_far)} so far"}
    if cents(waste.month_end) > cents(waste.so_far):
        amounts.add(f"{about(waste.month_end)} by month end")
    return amounts


def level_of(alert: Alert) -> set[str]:
    """Return the amounts of what was seen of an alert, and of what stopping it saves."""
    anomaly, saved = alert.anomaly, set[str]()
    if waste := alert.waste:
        saved = {f"{usd(waste.per_hour - waste.committed_per_hour)} an hour"}
    levels = (anomaly.value, *(anomaly.usual or ()))
    seen = [anomaly.why, *anomaly.evidence, *(quantity(level, anomaly.unit) for level in levels)]
    return saved | set(DOLLARS.findall(" ".join(seen)))


def sums_of(alerts: Sequence[Alert]) -> set[str]:
    """Return the amounts that a card of several alerts holds beside those of the first."""
    wastes = [alert.waste for alert in leading(alerts) if alert.firing and alert.waste]
    per_hour = sum((waste.per_hour for waste in wastes), Decimal(0))
    so_far = sum((waste.so_far for waste in wastes), Decimal(0))
    return {f"{usd(per_hour)} an hour", f"{usd(so_far)} so far"}


def wrong(drawn: str, alert: Alert, others: Sequence[Alert] = ()) -> list[str]:
    """Return what a drawn card says of an alert that is not of this instant of it."""
    read = words(drawn)
    found, due = set(DOLLARS.findall(read)), said_of(alert)
    allowed = due | level_of(alert) | (sums_of([alert, *others]) if others else set())
    mistakes = [f"{phrase!r} is not said" for phrase in sorted(due - found)]
    mistakes += [f"{phrase!r} is of another instant" for phrase in sorted(found - allowed)]
    if alert.closed:
        lost_hours = f"{sum(alert.anomaly.lost_hours):,.1f} node-hours"
        lengths = {lost_hours if alert.anomaly.lost_hours else lasted(alert)}
        ends = {(usd(alert.waste.so_far), x) for x in lengths} if alert.waste else set()
        mistakes += [f"{end} is no end of it" for end in set(ENDED.findall(read)) - ends]
    return mistakes


class DatedChat(Chat):
    """Remember of each message the tick that it was sent at."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOON
        self.sent: dict[str, datetime] = {}

    async def post(self, channel: str, card: Card, key: str) -> str:
        message = await super().post(channel, card, key)
        self.sent[message] = self.now
        return message

    async def edit(self, channel: str, message: str, card: Card, key: str) -> str:
        self.sent[message] = self.now
        return await super().edit(channel, message, card, key)


class Played:
    """Hold a bot over a recording, its surfaces, and its alerts as they were stored at each tick."""

    def __init__(self, scenario: str) -> None:
        settings = read_settings({"TRNBOT_SOURCE": f"recording:{recording(scenario)}"})
        self.store, self.chat, self.now = MemoryStore(), DatedChat(), NOON
        stores = Stores(self.store, self.store, self.store, self.store)
        ports = OpenedSource(settings.source, settings).ports(stores, settings.policy)
        surfaces: dict[str, Any] = {"chat": self.chat}
        ports = with_parts(ports, surfaces=surfaces)
        extent = ports.world.source.extent()
        assert extent
        self.ticks = grid(extent.start, extent.end, ports.site.interval)
        self.app = App(ports, ("web:alerts", "chat:ops"), Access(()), stopwatch=lambda: 0.0)
        console = Console(
            self.app.answer,
            lambda: self.now + LATER,
            self.app.health.facts,
            str,
            effect_of,
            window_of,
            csv_text,
        )
        self.web = surfaces["web"] = WebSurface(WebConfig(), console, self.store)
        self.stored: dict[datetime, Mapping[str, Alert]] = {}

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[TestClient[Any, Any]]:
        """Serve the console and the API."""

        async def newest() -> datetime:
            return self.now + LATER

        programs = program_listeners(self.app, newest, self.web.admitting, mcp=False)
        async with TestClient(TestServer(application([self.web, *programs]))) as client:
            yield client

    async def tick(self, now: datetime) -> None:
        self.now = self.chat.now = now
        await self.app.tick(now)
        alerts = self.store.load(now).alerts
        self.stored[now] = {alert.id: alert for alert in alerts}

    async def ask(self, line: str) -> Card:
        at = self.now + LATER
        return await self.app.answer(
            Request(line, User("chat:U1", "dana"), at, "chat", LOCAL, manner=Manner.VIEWED)
        )

    async def mistakes(self, client: TestClient[Any, Any]) -> list[str]:
        """Return what any surface says of an alert that is not of one instant."""
        return [
            *await self._listed(client),
            *await self._explained(),
            *await self._summed(),
            *self._sent(),
            *await self._channel(client),
        ]

    async def _listed(self, client: TestClient[Any, Any]) -> list[str]:
        """Return the mistakes of the lists of alerts that are open, and of a day, and of the API."""
        current, mistakes = self.stored[self.now], list[str]()
        for window in ("", " window=1d"):
            document = await (await client.get(f"/api/v1/alerts{window}")).json()
            records = {record["id"]: record for record in document["data"]["alerts"]}
            assert records.keys() >= {name for name, alert in current.items() if alert.firing}
            for name, record in records.items():
                waste = record["waste_usd"]
                due = dollars(current[name])
                got = waste and {key: Decimal(waste[key]) for key in due}
                mistakes += [f"API {name}: {got} for {due}"] if (got or {}) != due else []

            card = await self.ask(f"alerts{window}")
            rows = next((block.rows for block in card.blocks if isinstance(block, Table)), ())
            for record, row in zip(card.data["alerts"], rows, strict=False):
                alert = current[record["id"]]
                amounts = dollars(alert)
                cells = {usd(amounts[key]) for key in ("per_hour", "so_far") if amounts.get(key)}
                missing = (cells | {lasted(alert)}) - set(row)
                mistakes += [f"alerts {alert.id}: {row} without {x}" for x in sorted(missing)]
        return mistakes

    async def _explained(self) -> list[str]:
        """Return the mistakes of `why` and `alert`, as each surface draws them."""
        mistakes = []
        for alert in self.stored[self.now].values():
            if alert.closed and self.now - alert.closed > LATELY:
                continue
            for line in ("why", "alert"):
                card = await self.ask(f"{line} {alert.id}")
                for surface, draw in DRAWN.items():
                    name = f"{line} {alert.id} on {surface}"
                    mistakes += [f"{name}: {mistake}" for mistake in wrong(draw(card), alert)]
                charts = [block for block in card.blocks if isinstance(block, Chart)]
                late = [c.title for c in charts if alert.firing and max(c.times) > alert.seen]
                mistakes += [f"{line} {alert.id}: a curve after {alert.seen}: {c}" for c in late]
        return mistakes

    async def _summed(self) -> list[str]:
        """Return the mistakes of the answers that sum up what is open."""
        firing = [alert for alert in self.stored[self.now].values() if alert.firing]
        total = sum((a.usd_per_hour for a in firing if a.speaking), Decimal(0))
        allowed = {f"{usd(total)} an hour"}.union(*map(said_of, firing), *map(level_of, firing))
        mistakes = []
        for line in ("summary", "home", "digest"):
            read = words(terminal(await self.ask(line), 200))
            found = {x for x in SUMMED.findall(read) if x not in allowed}
            mistakes += [f"{line}: {x!r} is of no alert" for x in sorted(found)]
        return mistakes

    def _sent(self) -> list[str]:
        """Return the mistakes of the messages of Slack and Teams, each by the tick that sent it."""
        mistakes = []
        for message, card in self.chat.messages.items():
            stored = self.stored[self.chat.sent[message]]
            worst, *others = members(card, stored)
            for surface in ("Slack", "Teams"):
                found = wrong(DRAWN[surface](card), worst, others)
                mistakes += [f"{card.title} on {surface}: {mistake}" for mistake in found]
            current = self.stored[self.now].get(worst.id)
            if current and current.closed and card.title.startswith("FIRING"):
                mistakes.append(f"{card.title}: it is over since {current.closed}")
        return mistakes

    async def _channel(self, client: TestClient[Any, Any]) -> list[str]:
        """Return the mistakes of the console's channel: of what fires, it says what is stored now."""
        page = await (await client.get("/")).text()
        mistakes = []
        for row in re.findall(r"<li.*?</li>", page.partition('class="wasting"')[2], flags=re.S):
            alert = self.stored[self.now][re.findall(r'/alert/(\w+)"', row)[0]]
            amounts = dollars(alert)
            due = [lasted(alert)]
            if amounts:
                due += [f"{usd(amounts['per_hour'])} /h", f"{usd(amounts['so_far'])} so far"]
            missing = [x for x in due if x not in words(row)]
            mistakes += [f"strip {alert.id}: {words(row)} without {x}" for x in missing]
        entries = {
            entry.message: entry
            for entry in self.store.load(self.now).notification_log
            if entry.channel == "web:alerts"
        }
        for slot in re.findall(r'<section class="slot".*?</section>', page, flags=re.S):
            entry = entries.get(re.findall(r'id="([^"]+)"', slot)[0])
            if entry is None:
                continue
            current = [a for a in self.stored[self.now].values() if a.id in entry.alerts]
            article = slot.partition('<details class="thread"')[0]
            if any(alert.firing for alert in current):
                firing = [alert for alert in leading(current) if alert.firing]
                found = set(DOLLARS.findall(words(article)))
                allowed = sums_of(current).union(*map(said_of, firing), *map(level_of, firing))
                mistakes += [f"console {entry.alerts}: {x}" for x in sorted(found - allowed)]
                if not any(said_of(alert) <= found for alert in firing):
                    mistakes.append(f"console {entry.alerts}: {sorted(found)} are not of now")
            elif DOLLARS.findall(words(article)):
                mistakes.append(f"console {entry.alerts}: wastes still")
        return mistakes


def members(card: Card, stored: Mapping[str, Alert]) -> list[Alert]:
    """Return the alerts of a message, the one that it is drawn of first."""
    first = str(card.data["id"])
    names = [first, *(name for name in card.data.get("alerts", ()) if name != first)]
    return [stored[name] for name in names]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("every", [24, pytest.param(1, marks=pytest.mark.slow)])
async def test_every_frame_of_the_story_is_of_one_instant(every: int) -> None:
    played = Played("story")
    shown = [now for now in played.ticks if now >= played.ticks[-1] - STORY_SHOWN][::every]
    mistakes, looked = list[str](), 0
    async with played.serving() as client:
        for now in (now for now in played.ticks if now >= shown[0] - BEFORE):
            await played.tick(now)
            if now in shown:
                looked += len(played.stored[now])
                mistakes += [f"{now:%H:%M} {x}" for x in await played.mistakes(client)]
    assert looked
    assert not mistakes, "\n".join(mistakes[:20])


@pytest.mark.timeout(1800)
@pytest.mark.slow
async def test_200_random_ticks_are_of_one_instant() -> None:
    played = Played("causes")
    ticks = sorted(random.Random(26).sample(played.ticks[288:], 200))
    mistakes, looked = list[str](), 0
    async with played.serving() as client:
        for now in ticks:
            await played.tick(now)
            looked += sum(alert.firing for alert in played.stored[now].values())
            mistakes += [f"{now:%m-%d %H:%M} {x}" for x in await played.mistakes(client)]
    assert looked > 200
    assert not mistakes, "\n".join(mistakes[:20])
