"""An alert is assigned to a person: shown everywhere, told once, taken back; what is typed stays text."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from adapters.store.memory import MemoryStore
from adapters.web.live import standing
from bot.app import App
from bot.cards.card import Button, Buttons, Card, FieldKind, Form, Mention, Table, Text, plain
from bot.errors import Unavailable
from bot.grammar.access import Access
from bot.model.request import Belonging, Standing
from bot.model.route import Routes
from tests.builders import NOON, anomaly, ports_over
from tests.house.fakes import Chat, Fleet, Script, ask

MINUTE = timedelta(minutes=1)


class Rooms(Chat):
    """Remembers which line stands in which channel's thread, and whom it pings."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, str, tuple[Mention, ...]]] = []
        self.silent = False

    async def reply(self, channel: str, message: str, card: Card, key: str) -> str:
        self.lines.append((channel, card.title, card.mentions))
        return await super().reply(channel, message, card, key)

    async def belongs(self, user: str, group: str) -> bool:
        return False

    async def name(self, user: str) -> str:
        if self.silent:
            raise Unavailable("the chat is away")
        return {"U1": "dana", "U2": "bob"}.get(user, "")


class Installed:
    """Hold a bot that one alert fires in, told to two channels."""

    def __init__(self, routes: Routes | None = None) -> None:
        self.chat, self.minute = Rooms(), 0
        fired = Script(*[anomaly()] * 100)
        ports = ports_over(Fleet(), MemoryStore(), detect=fired, surfaces={"chat": self.chat})  # type: ignore[arg-type]
        site = replace(ports.site, people={"chat": self.chat}, routes=routes or ports.site.routes)
        self.app = App(
            replace(ports, site=site), ("chat:fin", "chat:ops"), Access(), stopwatch=lambda: 0.0
        )

    async def __aenter__(self) -> Installed:
        await self.app.tick(NOON)
        (self.alert,) = self.stored()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave nothing behind."""

    def stored(self) -> Any:
        return self.app.ports.stores.alerts.load(NOON + self.minute * MINUTE).alerts

    async def types(self, line: str, **about: Any) -> Card:
        self.minute += 1
        asked = ask(line.replace("ID", self.alert.id), at=NOON + self.minute * MINUTE)
        return await self.app.answer(replace(asked, **about))

    def pinged(self) -> list[tuple[str, str]]:
        return [(channel, one.user) for channel, _, mentions in self.chat.lines for one in mentions]


def words(card: Card) -> str:
    return "\n".join(
        [card.title, *(plain(block.spans) for block in card.blocks if isinstance(block, Text))]
    )


def undo(card: Card) -> str:
    return next(
        b.line
        for row in card.blocks
        if isinstance(row, Buttons)
        for b in row.buttons
        if b.text == "Undo"
    )


async def test_who_is_assigned_stands_on_the_message_and_is_mentioned_in_one_thread_alone() -> None:
    async with Installed() as bot:
        card = await bot.types("assign ID chat:U2")
        assert card.title == "Assigned to bob"
        assert all(
            "Assigned to bob by dana" in words(message) for message in bot.chat.messages.values()
        )
        assert [title for _, title, _ in bot.chat.lines] == ["Assigned to bob by dana"] * 2
        assert bot.pinged() == [("fin", "chat:U2")]
        assert not any(message.mentions for message in bot.chat.messages.values())
        await bot.types("ack ID looking")
        await bot.types("snooze ID 1h")
        assert bot.pinged() == [("fin", "chat:U2")]


async def test_alerts_strip_timeline_and_json_say_who_has_it() -> None:
    async with Installed() as bot:
        await bot.types("assign ID chat:U2 before the standup")
        listed = await bot.types("alerts")
        (table,) = [block for block in listed.blocks if isinstance(block, Table)]
        assert table.rows[0][-1] == "assigned to bob"
        assert listed.data["alerts"][0]["assigned_to"] == "bob"
        assert standing(listed, Card("")).rows[0].holder == "assigned to bob"
        story = await bot.types("timeline ID")
        (told,) = [event for event in story.data["events"] if event["kind"] == "decided"]
        assert (told["words"], told["by"]) == ("Assigned to bob: before the standup", "dana")
        assert "Assigned to bob by dana" in words(await bot.types("why ID"))


async def test_undo_takes_it_back_and_of_a_second_one_leads_to_the_first() -> None:
    async with Installed() as bot:
        first = await bot.types("assign ID chat:U2")
        second = await bot.types("assign ID me")
        assert undo(second) == f"assign {bot.alert.id} chat:U2"
        await bot.types(undo(second))
        assert bot.stored()[0].assigned.whom == "bob"
        back = await bot.types(undo(first))
        assert back.title == "No longer assigned to bob"
        assert bot.stored()[0].assigned is None
        assert bot.chat.threads[-1] == "No longer assigned to bob by dana"
        await bot.types(undo(back))
        assert bot.stored()[0].assigned.whom == "bob"


async def test_whoever_takes_it_themselves_is_not_pinged_for_it() -> None:
    async with Installed() as bot:
        assert (await bot.types("assign ID me")).title == "Assigned to you"
        assert bot.chat.threads[0] == "Assigned to dana"
        assert bot.pinged() == []


@pytest.mark.parametrize("line", ["assign chat:U2", "assign @chat:U2 please", "assign bob"])
async def test_in_the_alerts_thread_no_alert_is_named(line: str) -> None:
    async with Installed() as bot:
        thread = next(
            entry.message
            for entry in bot.app.ports.stores.alerts.load(NOON).notification_log
            if entry.channel == "chat:ops"
        )
        await bot.types(line, thread=thread)
        assert bot.stored()[0].assigned.whom == "bob"
        assert bot.stored()[0].assigned.note == ("please" if "please" in line else "")


async def test_without_a_person_a_form_asks_and_offers_those_who_decided_before() -> None:
    async with Installed() as bot:
        await bot.types("assign ID chat:U2")
        card = await bot.types("assign ID")
        (form,) = [block for block in card.blocks if isinstance(block, Form)]
        assert (form.line, form.fields[0].kind) == (f"assign {bot.alert.id}", FieldKind.PERSON)
        assert form.fields[0].options == (("me", "dana (you)"), ("chat:U2", "bob"))
        assert (
            Button("Take it back", f"unassign {bot.alert.id}")
            in next(b for b in card.blocks if isinstance(b, Buttons)).buttons
        )
        await bot.types(f"{form.line} person=me")
        assert bot.stored()[0].assigned.assignee == "chat:U1"


async def test_a_name_without_an_address_is_kept_and_said_to_reach_nobody() -> None:
    async with Installed() as bot:
        card = await bot.types("assign ID Ada Lovelace")
        assert "No address of Ada Lovelace is known, so nobody is mentioned." in words(card)
        assert bot.chat.threads[0] == "Assigned to Ada Lovelace by dana"
        assert bot.pinged() == []


async def test_an_owners_name_in_the_settings_leads_to_the_person() -> None:
    async with Installed(Routes(owners={"search": ("chat:U2",)})) as bot:
        await bot.types("assign ID search")
        assert bot.pinged() == [("fin", "chat:U2")]


@pytest.mark.parametrize("text", ["<!channel>", "@channel", "<@U2>", "&lt;!here&gt; now"])
async def test_what_is_typed_is_text_and_pings_nobody(text: str) -> None:
    async with Installed() as bot:
        await bot.types(f"assign ID {text}")
        assert bot.pinged() == []


async def test_while_the_platform_does_not_answer_an_address_is_taken_as_it_is() -> None:
    async with Installed() as bot:
        bot.chat.silent = True
        await bot.types("assign ID chat:U2")
        assert bot.stored()[0].assigned.whom == "chat:U2"


async def test_guests_and_links_assign_nothing_as_they_acknowledge_nothing() -> None:
    async with Installed() as bot:
        guest = Belonging("T1", Standing.GUEST)
        for line in ("ack ID", "assign ID me"):
            assert "does not answer guests" in words(await bot.types(line, belonging=guest))
        assert bot.stored()[0].assignment is None


async def test_an_alert_that_nobody_assigned_keeps_the_fingerprint_of_earlier_versions() -> None:
    async with Installed() as bot:
        (entry, *_) = bot.app.ports.stores.alerts.load(NOON).notification_log
        assert entry.digest == "4f53cda18c2baa0c"


async def test_undo_leads_back_to_a_name_of_several_words() -> None:
    async with Installed() as bot:
        await bot.types("assign ID Ada Lovelace")
        await bot.types(undo(await bot.types("assign ID me")))
        assert bot.stored()[0].assigned.whom == "Ada Lovelace"


async def test_while_the_clock_stands_a_second_assignment_is_not_said_to_be_open_again() -> None:
    async with Installed() as bot:
        for line in ("assign ID Ada", "assign ID me"):
            bot.minute = 0
            await bot.types(line)
        assert bot.chat.threads == ["Assigned to Ada by dana"] * 2 + ["Assigned to dana"] * 2
