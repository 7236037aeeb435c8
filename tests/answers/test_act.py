"""Acting by press: what is prepared of real alerts, who has to press, and what is said of it afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from adapters.store.memory import MemoryStore
from bot.answers.plan.act import ACTIONS, advance_due, advanced
from bot.app import App
from bot.cards.card import Card
from bot.errors import Refused, Unavailable
from bot.model.action import Action, ActionKind, ActionState, Progress
from bot.model.causes import Cause
from bot.model.labels import Labels
from bot.model.request import Request, User
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource
from tests.answers.configuring import ADMIN, ANYONE, app, ask, buttons, refused
from tests.belonging import MEMBER
from tests.builders import NOON, ports_over
from tests.e2e.product import recording

SECOND = "chat:U3"
IDLE_AT = datetime(2026, 11, 6, 18, tzinfo=UTC)
FAULT_AT = datetime(2026, 11, 7, 6, tzinfo=UTC)
VOLUMES_AT = datetime(2026, 11, 14, 9, tzinfo=UTC)
pytestmark = pytest.mark.timeout(400)


class Provider:
    """Implement `bot.ports.Actions`: each step is one word of a script."""

    def __init__(self, *steps: Progress | Exception) -> None:
        self.steps, self.advanced = list(steps), list[Action]()

    def rehearse(self, action: Action) -> Sequence[str]:
        return [f"It would {action.kind} {', '.join(action.targets)}."]

    def advance(self, action: Action) -> Progress:
        self.advanced.append(action)
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step


BEGUN = Progress(ActionState.UNDER_WAY, "It was asked to.")
DONE = Progress(ActionState.WORKED, "All of it stopped.")


@pytest.fixture(scope="module")
def watched() -> OpenedSource:
    source = f"recording:{recording('causes')}"
    return OpenedSource(source, settings_of({"source": source}))


async def bot_at(
    watched: OpenedSource, at: datetime, provider: Provider | None, second_usd: str = "0"
) -> tuple[App, dict[Cause, str]]:
    """Return a bot after one tick, and the ids of its alerts by cause."""
    bot = app(watched, MemoryStore(), actions=provider, second_usd=Decimal(second_usd))
    result = await bot.tick(at)
    assert result
    return bot, {alert.cause: alert.id for alert in result.outcome.alerts}


async def test_idle_nodes_are_prepared_rehearsed_and_stopped_by_one_press(
    watched: OpenedSource,
) -> None:
    provider = Provider(BEGUN, DONE)
    bot, alerts = await bot_at(watched, IDLE_AT, provider)
    card = await ask(bot, f"act {alerts[Cause.IDLE]}", at=IDLE_AT)
    made = card.data["action"]
    assert (made["kind"], len(made["targets"]), made["state"]) == ("stop", 2, "prepared")
    assert "It would stop" in str(card.blocks)
    assert not provider.advanced
    # The price is the fleet's of the same nodes.
    fleet = (await ask(bot, "fleet lab", at=IDLE_AT)).data["nodes"]
    prices = [x["usd_per_hour"] for x in fleet if x["instance"] in made["targets"]]
    assert made["usd_per_hour"] == pytest.approx(sum(prices))

    confirm = buttons(card)["Do it"].line
    done = await ask(bot, confirm, at=IDLE_AT + timedelta(minutes=1))
    assert done.data["action"]["state"] == "under way"
    assert await advance_due(bot.ports, IDLE_AT + timedelta(minutes=5)) == ()
    listed = (await ask(bot, "act list", ANYONE, at=IDLE_AT)).data["actions"]
    assert [(x["state"], x["words"]) for x in listed] == [("worked", "All of it stopped.")]
    # A second press of the same button does nothing more.
    assert (await ask(bot, confirm, at=IDLE_AT)).data["action"]["state"] == "worked"
    assert len(provider.advanced) == 2


async def test_above_a_sum_a_second_admin_has_to_press_and_readers_never_may(
    watched: OpenedSource,
) -> None:
    provider = Provider(BEGUN)
    bot, alerts = await bot_at(watched, IDLE_AT, provider, "20000")
    card = await ask(bot, f"act {alerts[Cause.IDLE]}", at=IDLE_AT)
    confirm = buttons(card)["Do it"].line
    assert "admin" in refused(await ask(bot, confirm, ANYONE, at=IDLE_AT))
    first = await ask(bot, confirm, ADMIN, at=IDLE_AT)
    assert first.data["action"]["state"] == "waits for a second admin"
    assert "a second admin must press" in refused(await ask(bot, confirm, ADMIN, at=IDLE_AT))
    assert not provider.advanced
    # The second admin sees what the first one pressed for, before pressing.
    assert (first.public, "pressed by" in str(first.blocks)) == (True, True)
    shown = await ask(bot, f"act show {first.data['action']['id']}", SECOND, at=IDLE_AT)
    assert buttons(shown)["Do it"].line == confirm
    second = await ask(bot, confirm, SECOND, at=IDLE_AT)
    assert second.data["action"]["state"] == "under way"
    assert len(provider.advanced) == 1
    assert len(provider.advanced[0].pressed) == 2


async def test_what_has_changed_or_is_old_is_not_done(watched: OpenedSource) -> None:
    provider = Provider()
    bot, alerts = await bot_at(watched, IDLE_AT, provider)
    card = await ask(bot, f"act {alerts[Cause.IDLE]}", at=IDLE_AT)
    confirm, cancel = (buttons(card)[name].line for name in ("Do it", "Cancel"))
    later = IDLE_AT + timedelta(hours=2)
    assert "prepare it again" in refused(await ask(bot, confirm, at=later))
    # The nodes have work again by then: nothing is stopped, though it was prepared.
    kept = ACTIONS.get(bot.ports.stores.documents, card.data["action"]["id"])
    assert kept
    works = datetime(2026, 11, 7, 12, tzinfo=UTC)
    ACTIONS.put(bot.ports.stores.documents, kept.id, replace(kept, at=works))
    assert "is working, or may be" in refused(await ask(bot, confirm, at=works))
    assert (await ask(bot, cancel, at=works)).data["action"]["state"] == "cancelled"
    assert "cancelled already" in refused(await ask(bot, cancel, at=works))
    assert not provider.advanced


async def test_a_faulty_node_is_cordoned_and_only_old_volumes_are_deleted(
    watched: OpenedSource,
) -> None:
    bot, alerts = await bot_at(watched, FAULT_AT, Provider(), "20000")
    card = await ask(bot, f"act {alerts[Cause.HARDWARE_FAULT]}", at=FAULT_AT)
    made = card.data["action"]
    assert (made["kind"], made["saved_usd_per_hour"]) == ("cordon", 0)
    assert "two admins" not in str(card.blocks)

    bot, alerts = await bot_at(watched, VOLUMES_AT, Provider())
    storage = (await ask(bot, "storage", at=VOLUMES_AT)).data["storage"]
    volumes = {x["resource"]: x for x in storage if x["resource"].startswith("vol-")}
    card = await ask(bot, f"act delete {' '.join(volumes)}", at=VOLUMES_AT)
    hour = float(card.data["action"]["usd_per_hour"])
    month = sum(float(x["usd_per_month"]) for x in volumes.values())
    assert hour * 730 == pytest.approx(month, abs=0.5)
    system = next(x["resource"] for x in storage if x["resource"].startswith("fs-"))
    assert "the bot deletes none" in refused(await ask(bot, f"act delete {system}", at=VOLUMES_AT))


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("act stop i-0000", "No running node is called 'i-0000'"),
        ("act stop", "Name 1 to 100 things"),
        ("act explode i-0000", "is not a kind of action"),
        ("act scale lab/nothing nodes=4", "No EKS managed node group is called 'lab/nothing'"),
        ("act scale lab/lab-nodes region=eu-west-1", "No EKS managed node group"),
        ("act scale lab/lab-nodes lab/x nodes=2", "One node group is scaled at a time"),
        ("act scale lab/lab-nodes", "How many nodes?"),
        ("act scale lab/lab-nodes nodes=lots", "'lots' is not a number of nodes"),
        ("act scale llama/llama-nodes nodes=1", "may work"),
        ("act delete vol-0000", "is not an unused volume"),
        ("act notebook trial region=mars", "names no such notebooks"),
        ("act stop i-0000 speed=2", "knows nodes= and region="),
        ("act confirm x0000", "There is no action 'x0000'"),
        ("act nothing-like-it", "No alert of the last 15 days"),
    ],
)
async def test_what_makes_no_sense_is_refused_in_a_sentence(
    watched: OpenedSource, line: str, sentence: str
) -> None:
    bot = app(watched, MemoryStore(), actions=Provider())
    assert sentence in refused(await ask(bot, line))


async def test_without_a_role_it_is_shown_and_cannot_be_pressed(watched: OpenedSource) -> None:
    bot, alerts = await bot_at(watched, IDLE_AT, None)
    card = await ask(bot, f"act {alerts[Cause.IDLE]}", at=IDLE_AT)
    assert "TRNBOT_ACT_ROLES" in str(card.blocks)
    assert not buttons(card)
    assert "Do it…" not in buttons(await ask(bot, f"alert {alerts[Cause.IDLE]}", at=IDLE_AT))
    ACTIONS.put(bot.ports.stores.documents, "x1", begun())
    assert "cannot change anything here" in refused(await ask(bot, "act confirm x1", at=IDLE_AT))

    acting, alerts = await bot_at(watched, IDLE_AT, Provider())
    shown = buttons(await ask(acting, f"alert {alerts[Cause.IDLE]}", at=IDLE_AT))
    assert shown["Do it…"].line == f"act {alerts[Cause.IDLE]}"


def begun(**more: Any) -> Action:
    zero = Decimal(0)
    made = Action("x1", ActionKind.STOP, ("i-1",), Labels(), None, zero, zero, NOON, "U1", "dana")
    return replace(made, state=ActionState.UNDER_WAY, began_at=NOON, **more)


@pytest.mark.parametrize(
    ("step", "after", "state"),
    [
        (Refused("Refused."), timedelta(0), ActionState.FAILED),
        (Unavailable("Away."), timedelta(0), ActionState.UNDER_WAY),
        (Unavailable("Away."), timedelta(minutes=5), ActionState.UNDER_WAY),
        (Unavailable("Away."), timedelta(hours=2), ActionState.FAILED),
        (BEGUN, timedelta(minutes=59), ActionState.UNDER_WAY),
        (BEGUN, timedelta(minutes=61), ActionState.FAILED),
        (DONE, timedelta(minutes=30), ActionState.WORKED),
    ],
)
def test_a_refusal_fails_at_once_an_absence_is_waited_out_and_time_ends_all(
    step: Progress | Exception, after: timedelta, state: ActionState
) -> None:
    ports = ports_over(object(), MemoryStore(), actions=Provider(step))
    assert advanced(ports, begun(), NOON + after).state is state


def test_once_its_time_is_over_nothing_more_is_ordered() -> None:
    provider = Provider(DONE)
    ports = ports_over(object(), MemoryStore(), actions=provider)
    assert advanced(ports, begun(), NOON + timedelta(days=1)).state is ActionState.FAILED
    assert not provider.advanced


class Channel:
    """Implement `bot.ports.Surface` of one channel, which is away at first where so made."""

    def __init__(self, away: int = 0) -> None:
        self.heard: list[tuple[str, str, Card]] = []
        self.away = away

    async def posted(self, *_: str) -> dict[str, str]:
        if self.away:
            self.away -= 1
            raise Unavailable("The channel is away.")
        return {}

    async def post(self, channel: str, card: Card, key: str) -> str:
        self.heard.append((channel, "", card))
        return key

    async def reply(self, channel: str, message: str, card: Card, key: str) -> str:
        self.heard.append((channel, message, card))
        return key


async def test_a_channel_that_is_away_and_a_provider_that_breaks_lose_no_outcome() -> None:
    """Nor do they keep the tick, or the other actions, from going on."""
    channel = Channel(away=1)
    provider = Provider(ValueError("an answer that is no answer"), DONE)
    ports = ports_over(object(), MemoryStore(), actions=provider, surfaces={"chat": channel})
    ACTIONS.put(ports.stores.documents, "x1", begun(channel="chat:C1"))
    results = [await advance_due(ports, NOON + timedelta(minutes=n)) for n in (5, 10, 15, 20)]
    assert [len(failed) for failed in results] == [1, 1, 0, 0]
    assert [card.title for *_, card in channel.heard] == ["Stop i-1: worked"]


async def test_who_is_not_known_by_name_may_not_press(watched: OpenedSource) -> None:
    bot, _ = await bot_at(watched, IDLE_AT, Provider())
    ACTIONS.put(bot.ports.stores.documents, "x1", begun())
    request = Request("act confirm x1", User(ADMIN, "you"), IDLE_AT, "chat", MEMBER)
    assert "known by name" in refused(await bot.answer(request))


async def test_it_is_said_where_it_was_pressed_whether_it_worked_and_once() -> None:
    channel = Channel()
    ports = ports_over(
        object(), MemoryStore(), actions=Provider(BEGUN, DONE), surfaces={"chat": channel}
    )
    action = begun(channel="chat:C1", thread="17", confirmed_by=("dana", "lee"))
    ACTIONS.put(ports.stores.documents, action.id, action)
    for minutes in (5, 10, 15):
        assert await advance_due(ports, NOON + timedelta(minutes=minutes)) == ()
    ((where, thread, card),) = channel.heard
    assert (where, thread, card.title) == ("C1", "17", "Stop i-1: worked")
    assert "pressed by dana and lee" in str(card.blocks)
