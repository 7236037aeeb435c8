"""Acting by press: what is prepared of real alerts, who has to press, and what is said of it afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from adapters.store.memory import MemoryStore
from bot.answers.plan.act import (
    ACTIONS,
    advance_due,
    advanced,
    person_of,
    refuse_same_person,
)
from bot.answers.plan.planner import sparing_tag
from bot.app import App
from bot.cards.card import Card
from bot.errors import NotAllowed, Refused, Unavailable
from bot.model.action import Action, ActionKind, ActionState, Progress
from bot.model.causes import Cause
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.model.request import Belonging, Request, Role, Standing, User
from bot.model.spend import Money, Spend, Tally
from bot.model.window import Window
from bot.ports import Ports
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource
from tests.answers.configuring import ADMIN, ANYONE, app, ask, buttons, refused
from tests.belonging import MEMBER
from tests.builders import NOON, ports_over, with_parts

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


async def bot_at(
    causes: OpenedSource, at: datetime, provider: Provider | None, second_usd: str = "0"
) -> tuple[App, dict[Cause, str]]:
    """Return a bot after one tick, and the ids of its alerts by cause."""
    bot = app(causes, MemoryStore(), actions=provider, second_usd=Decimal(second_usd))
    result = await bot.tick(at)
    assert result
    return bot, {alert.cause: alert.id for alert in result.outcome.alerts}


async def test_idle_nodes_are_prepared_rehearsed_and_stopped_by_one_press(
    causes: OpenedSource,
) -> None:
    provider = Provider(BEGUN, DONE)
    bot, alerts = await bot_at(causes, IDLE_AT, provider)
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
    # Pressed in no channel, it is answered to who pressed.
    pressed = ACTIONS.get(bot.ports.stores.documents, made["id"])
    assert pressed
    assert pressed.channel == ADMIN
    assert await advance_due(bot.ports, IDLE_AT + timedelta(minutes=5)) == ()
    listed = (await ask(bot, "act list", ANYONE, at=IDLE_AT)).data["actions"]
    assert [(x["state"], x["words"]) for x in listed] == [("worked", "All of it stopped.")]
    # A second press of the same button does nothing more.
    assert (await ask(bot, confirm, at=IDLE_AT)).data["action"]["state"] == "worked"
    assert len(provider.advanced) == 2


async def test_above_a_sum_a_second_admin_has_to_press_and_readers_never_may(
    causes: OpenedSource,
) -> None:
    provider = Provider(BEGUN)
    bot, alerts = await bot_at(causes, IDLE_AT, provider, "20000")
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


async def test_what_has_changed_or_is_old_is_not_done(causes: OpenedSource) -> None:
    provider = Provider()
    bot, alerts = await bot_at(causes, IDLE_AT, provider)
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
    causes: OpenedSource,
) -> None:
    bot, alerts = await bot_at(causes, FAULT_AT, Provider(), "20000")
    card = await ask(bot, f"act {alerts[Cause.HARDWARE_FAULT]}", at=FAULT_AT)
    made = card.data["action"]
    assert (made["kind"], made["saved_usd_per_hour"]) == ("cordon", 0)
    assert "two admins" not in str(card.blocks)

    bot, alerts = await bot_at(causes, VOLUMES_AT, Provider())
    storage = (await ask(bot, "storage", at=VOLUMES_AT)).data["storage"]
    volumes = {x["resource"]: x for x in storage if x["resource"].startswith("vol-")}
    card = await ask(bot, f"act delete {' '.join(volumes)}", at=VOLUMES_AT)
    hour = float(card.data["action"]["usd_per_hour"])
    month = sum(float(x["usd_per_month"]) for x in volumes.values())
    assert hour * 730 == pytest.approx(month, abs=0.5)
    system = next(x["resource"] for x in storage if x["resource"].startswith("fs-"))
    assert "the bot deletes none" in refused(await ask(bot, f"act delete {system}", at=VOLUMES_AT))


async def test_without_a_role_it_is_shown_and_cannot_be_pressed(causes: OpenedSource) -> None:
    bot, alerts = await bot_at(causes, IDLE_AT, None)
    card = await ask(bot, f"act {alerts[Cause.IDLE]}", at=IDLE_AT)
    assert "TRNBOT_ACT_ROLES" in str(card.blocks)
    assert not buttons(card)
    assert "Do it…" not in buttons(await ask(bot, f"alert {alerts[Cause.IDLE]}", at=IDLE_AT))
    ACTIONS.put(bot.ports.stores.documents, "x1", begun())
    assert "cannot change anything here" in refused(await ask(bot, "act confirm x1", at=IDLE_AT))

    acting, alerts = await bot_at(causes, IDLE_AT, Provider())
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


def follow(ports: Ports, action: Action) -> None:
    """Keep an action as a press does."""
    ACTIONS.put(ports.stores.documents, action.id, action)
    ports.stores.documents.put("actions_followed", action.id, {})


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
    follow(ports, begun(channel="chat:C1"))
    results = [await advance_due(ports, NOON + timedelta(minutes=n)) for n in (5, 10, 15, 20)]
    assert [len(failed) for failed in results] == [1, 1, 0, 0]
    assert [card.title for *_, card in channel.heard] == ["Stop i-1: worked"]


async def test_who_is_not_known_by_name_may_not_press(causes: OpenedSource) -> None:
    bot, _ = await bot_at(causes, IDLE_AT, Provider())
    ACTIONS.put(bot.ports.stores.documents, "x1", begun())
    for user in (User(ADMIN, "you"), User("web:token-cd", "cd", Role.ADMIN)):
        request = Request("act confirm x1", user, IDLE_AT, "chat", MEMBER)
        assert "known by name" in refused(await bot.answer(request))


async def test_it_is_said_where_it_was_pressed_whether_it_worked_and_once() -> None:
    channel = Channel()
    ports = ports_over(
        object(), MemoryStore(), actions=Provider(BEGUN, DONE), surfaces={"chat": channel}
    )
    action = begun(channel="chat:C1", thread="17", confirmed_by=("dana", "lee"))
    follow(ports, action)
    for minutes in (5, 10, 15):
        assert await advance_due(ports, NOON + timedelta(minutes=minutes)) == ()
    ((where, thread, card),) = channel.heard
    assert (where, thread, card.title) == ("C1", "17", "Stop i-1: worked")
    assert "Prepared by dana, pressed by dana and lee." in str(card.blocks)


@pytest.mark.parametrize(
    ("tags", "sparing"),
    [
        ({"keep": "true"}, "keep"),
        ({"Do Not Delete": ""}, "Do Not Delete"),
        ({"DoNotStop": "yes"}, "DoNotStop"),
        ({"retention": "Keep"}, "retention=Keep"),
        ({"keep": "false"}, ""),
        ({"keeper": "dana", "Name": "keep-alive"}, ""),
        ({"team": "llama"}, ""),
    ],
)
def test_a_tag_that_says_so_spares_a_thing(tags: dict[str, str], sparing: str) -> None:
    assert sparing_tag(tags, "keep, do-not-delete,do-not-stop,") == sparing


class Tagged:
    """Read a source whose volumes all have one tag more."""

    def __init__(self, source: Any, **tag: str) -> None:
        self.source, self.tag = source, tag

    def read(self, *when: Any) -> Any:
        reading = self.source.read(*when)
        inventory = reading.inventory
        volumes = tuple(replace(x, tags={**x.tags, **self.tag}) for x in inventory.volumes)
        return replace(reading, inventory=replace(inventory, volumes=volumes))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)


async def test_what_is_tagged_to_be_kept_or_stands_where_acting_is_off_is_left_alone(
    causes: OpenedSource,
) -> None:
    bot, _ = await bot_at(causes, VOLUMES_AT, Provider())
    storage = (await ask(bot, "storage", at=VOLUMES_AT)).data["storage"]
    volume = next(x["resource"] for x in storage if x["resource"].startswith("vol-"))
    prepared = await ask(bot, f"act delete {volume}", at=VOLUMES_AT)
    confirm = buttons(prepared)["Do it"].line

    # Tagged after it was prepared: the press weighs it again.
    kept = with_parts(bot.ports, source=Tagged(bot.ports.world.source, keep="yes"))
    bot.ports = kept
    assert "has the tag keep, so the bot leaves it alone" in refused(
        await ask(bot, confirm, at=VOLUMES_AT)
    )

    # Nor does it delete what Kubernetes would miss.
    claimed = Tagged(kept.world.source.source, CSIVolumeName="pvc-1")
    bot.ports = with_parts(bot.ports, source=claimed)
    assert "belongs to a Kubernetes volume claim (tag CSIVolumeName)" in refused(
        await ask(bot, confirm, at=VOLUMES_AT)
    )

    policy = settings_of({}).policy
    off = Policy({**policy.values, "acting.on": False}, policy.overrides)
    quiet = app(causes, MemoryStore(), off, actions=Provider())
    await quiet.tick(IDLE_AT)
    node = (await ask(quiet, "fleet lab", at=IDLE_AT)).data["nodes"][0]["instance"]
    assert "acting.on is off" in refused(await ask(quiet, f"act stop {node}", at=IDLE_AT))
    assert "acting.on is off" in refused(await ask(quiet, f"act cordon {node}", at=IDLE_AT))
    assert "acting.on is off" in refused(
        await ask(quiet, "act scale llama/llama-nodes nodes=1", at=IDLE_AT)
    )


class Reserved(Tagged):
    """Read a source whose nodes all stand in a reservation."""

    def read(self, *when: Any) -> Any:
        reading = self.source.read(*when)
        nodes = reading.inventory.instances
        held = {name: replace(node, reservation="cr-1") for name, node in nodes.items()}
        return replace(reading, inventory=replace(reading.inventory, instances=held))


async def test_to_stop_what_stands_in_a_reservation_saves_nothing(causes: OpenedSource) -> None:
    bot, alerts = await bot_at(causes, IDLE_AT, Provider())
    bot.ports = with_parts(bot.ports, source=Reserved(bot.ports.world.source))
    made = (await ask(bot, f"act {alerts[Cause.IDLE]}", at=IDLE_AT)).data["action"]
    assert (made["usd_per_hour"] > 0, made["saved_usd_per_hour"]) == (True, 0)


class Notebooks:
    """Bill a notebook of one name in each of two regions for a week."""

    def __init__(self, billing: Any) -> None:
        self.billing = billing

    def tally(self, window: Window, by: Sequence[str], *more: Any) -> Tally:
        if tuple(by) != ("resource",):
            return self.billing.tally(window, by, *more)
        rows = [
            Spend({"resource": arn}, Money(amortised=168 * Decimal(price)), hours=168.0)
            for region, price in (("us-west-2", "1.34"), ("eu-west-1", "2.00"))
            for arn in (f"arn:aws:sagemaker:{region}:111122223333:notebook-instance/trial",)
        ]
        return Tally(window, tuple(by), tuple(rows), Money())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.billing, name)


async def test_of_two_notebooks_of_one_name_the_region_tells_which(causes: OpenedSource) -> None:
    bot = app(causes, MemoryStore(), actions=Provider())
    bot.ports = with_parts(bot.ports, billing=Notebooks(bot.ports.world.billing))
    assert "names 2 such notebooks" in refused(await ask(bot, "act notebook trial", at=IDLE_AT))
    card = await ask(bot, "act notebook Trial region=us-west-2", at=IDLE_AT)
    made = card.data["action"]
    assert (made["kind"], made["usd_per_hour"]) == ("notebook", Decimal("1.34"))


DANA = "dana@example.com"


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        (("slack:U1", ""), ("slack:U1", ""), "You have pressed already"),
        (("slack:U1", ""), ("slack:U2", ""), ""),
        (("slack:U1", DANA), ("slack:U2", DANA), "You have pressed already"),
        (("slack:U1", DANA), ("web:dana@example.com", DANA), "You have pressed already"),
        (("slack:U1", DANA), ("web:mei@example.com", "mei@example.com"), ""),
        (("slack:U1", ""), ("web:mei@example.com", "mei@example.com"), "slack does not say"),
        (("web:mei@example.com", "mei@example.com"), ("slack:U1", ""), "slack does not say"),
        (("slack:U1", DANA), ("teams:29:1", ""), "teams does not say"),
    ],
)
def test_one_person_with_two_addresses_is_no_second_admin(
    first: tuple[str, str], second: tuple[str, str], sentence: str
) -> None:
    action = begun(pressed=(first[0],))
    action = replace(action, people=(person_of(action, User(first[0], email=first[1])),))
    person = person_of(action, User(second[0], email=second[1]))
    assert DANA not in str(action)
    if not sentence:
        refuse_same_person(action, second[0], person)
        return
    with pytest.raises(NotAllowed, match=sentence):
        refuse_same_person(action, second[0], person)


async def test_where_strangers_read_the_outcome_goes_to_who_pressed_alone(
    causes: OpenedSource,
) -> None:
    channel = Channel()
    bot, alerts = await bot_at(causes, IDLE_AT, Provider(BEGUN, DONE))
    bot.ports = with_parts(bot.ports, surfaces={"chat": channel})
    prepared = await ask(bot, f"act {alerts[Cause.IDLE]}", at=IDLE_AT)
    shared = Belonging("T1", Standing.MEMBER, shared=True)
    pressed = await bot.answer(
        Request(
            buttons(prepared)["Do it"].line,
            User(ADMIN, "dana"),
            IDLE_AT,
            "chat",
            shared,
            "chat:C1",
            "17",
        )
    )
    assert (pressed.data["action"]["state"], pressed.public) == ("under way", False)
    assert await advance_due(bot.ports, IDLE_AT + timedelta(minutes=5)) == ()
    # An admin hears of the channel that is nowhere as well, and alone.
    assert {(where, thread) for where, thread, _ in channel.heard} == {
        (ADMIN.partition(":")[2], "")
    }
    assert "worked" in channel.heard[-1][2].title


async def test_a_tick_reads_the_actions_that_are_open_and_no_other() -> None:
    store = MemoryStore()
    ports = ports_over(object(), store, actions=Provider(DONE))
    for number in range(20):
        over = replace(begun(answered=True), id=f"x{number:02}", state=ActionState.WORKED)
        ACTIONS.put(store, over.id, over)
    follow(ports, begun())
    assert await advance_due(ports, NOON + timedelta(minutes=5)) == ()
    assert store.newest("actions_followed", 10) == []
    # A name that a kill left behind, between the two writes of a press, is dropped.
    store.put("actions_followed", "x9", {})
    follow(ports, replace(begun(), id="x8", state=ActionState.PREPARED))
    assert await advance_due(ports, NOON + timedelta(minutes=10)) == ()
    assert store.newest("actions_followed", 10) == []


@pytest.mark.parametrize(
    ("pressed", "session"),
    [
        ((), "trnbot-x1234abcd-U1"),
        (("slack:T0456/U01DANA",), "trnbot-x1234abcd-slack.T0456.U01DANA"),
        (("web:dana@example.com", "slack:U2"), "trnbot-x1234abcd-web.dana@example.com+slack.U2"),
        (("teams:29:1" + "z" * 60,), "trnbot-x1234abcd-teams.29.1" + "z" * 37),
        (("web:jörg+ä",), "trnbot-x1234abcd-web.j.rg."),
    ],
)
def test_the_provider_notes_who_pressed(pressed: tuple[str, ...], session: str) -> None:
    named = replace(begun(pressed=pressed), id="x1234abcd").session
    assert (named, len(named) <= 64) == (session, True)


class Regrouped(Tagged):
    """Read a source whose idle nodes are a group that is to have one node, each with a tag more."""

    def read(self, *when: Any) -> Any:
        reading = self.source.read(*when)
        nodes = dict(reading.inventory.instances)
        for name, node in nodes.items():
            if node.labels.cluster == "lab":
                nodes[name] = replace(node, node_group="lab-nodes", tags={**node.tags, **self.tag})
        eks = tuple(
            replace(x, node_groups=tuple(replace(group, desired=1) for group in x.node_groups))
            for x in reading.inventory.eks
        )
        return replace(reading, inventory=replace(reading.inventory, instances=nodes, eks=eks))


async def test_a_group_is_not_made_smaller_than_what_runs_where_a_node_of_it_is_spared(
    causes: OpenedSource,
) -> None:
    """Auto Scaling has not ended the others yet, and would choose among them."""
    bot, _ = await bot_at(causes, IDLE_AT, Provider())
    source = bot.ports.world.source
    bot.ports = with_parts(bot.ports, source=Regrouped(source))
    line = "act scale lab/lab-nodes nodes=1"
    assert "4 nodes of lab/lab-nodes may work" in refused(await ask(bot, line, at=IDLE_AT))
    bot.ports = with_parts(bot.ports, source=Regrouped(source, keep="yes"))
    assert "has the tag keep" in refused(await ask(bot, line, at=IDLE_AT))
