"""The config message over a real recording: preview, apply, undo, history, who may, and what is kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.store.memory import MemoryStore
from adapters.store.open import open_store
from bot import build
from bot.app import App
from bot.cards.card import Button, Buttons, Card, Form, Tone
from bot.cards.lines import form_line
from bot.model.alert import Alert
from bot.model.anomaly import Detection
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.model.reading import Reading
from bot.model.replay import Replay
from bot.model.request import Request, User
from bot.model.window import Window
from bot.policy.compare import digest
from bot.ports import Ports
from bot.replay import ticking
from bot.watch import grid
from tests.e2e.product import recording

ADMIN, ANYONE = "chat:U1", "chat:U2"
TINY = Labels(cluster="tiny")
SET = "config set idle.below 15% for 10m cluster=tiny"


@pytest.fixture(scope="module")
def opened() -> build.Opened:
    source = f"recording:{recording('tiny')}"
    return build.Opened(source, build.settings_of({"source": source}))


@pytest.fixture
def bot(opened: build.Opened) -> App:
    return app(opened, MemoryStore())


def app(opened: build.Opened, store: Any, **more: Any) -> App:
    ports = replace(opened.ports(store, build.settings_of({}).policy, store), **more)
    return App(ports, ports.channels, (ADMIN, "chat:U3"), time.monotonic)


def end(bot: App) -> datetime:
    extent = bot.ports.source.extent()
    assert extent
    return extent.end


async def ask(bot: App, line: str, user: str = ADMIN, **more: Any) -> Card:
    return await bot.answer(Request(line, User(user, "dana"), more.get("at") or end(bot), more.get("surface", "chat")))


async def changed(bot: App, line: str = SET, user: str = ADMIN) -> Card:
    """Preview and apply."""
    seen = await ask(bot, line, user)
    assert seen.tone is not Tone.ERROR, seen
    return await ask(bot, f"config apply {seen.data['preview']}", user)


def refused(card: Card) -> str:
    assert card.tone is Tone.ERROR, card
    return str(card.data["error"])


def buttons(card: Card) -> dict[str, Button]:
    return {b.text: b for block in card.blocks if isinstance(block, Buttons) for b in block.buttons}


def form(card: Card) -> Form:
    return next(block for block in card.blocks if isinstance(block, Form))


def below(bot: App) -> float:
    return bot.ports.policy.at(TINY).number("idle.below")


async def test_a_preview_shows_both_sides_and_changes_nothing(bot: App) -> None:
    card = await ask(bot, SET)
    assert card.title == "Preview: the same 1 alert over 6 hours"
    assert card.data["delay_minutes"] == [30.0, 10.0]
    assert list(buttons(card)) == ["Apply", "Change…", "Cancel"]
    assert (below(bot), bot.ports.versions.versions(1)) == (0.05, [])


async def test_a_preview_says_what_disappears_and_what_it_cost(bot: App) -> None:
    card = await ask(bot, "config set idle off")
    assert card.title == "Preview: 0 alerts instead of 1 over 6 hours"
    assert [alert["cause"] for alert in card.data["disappear"]] == ["idle"]
    assert card.data["missed_usd"] == card.data["waste_usd"][0] != "0.00"


@pytest.mark.parametrize(
    "line",
    [
        "config set idle.below=15% idle.for=10m cluster=tiny",
        "config set idle.below 15% idle.for=10m --cluster tiny",
        "config set cluster tiny idle.below=0.15 for=10m",
        "/trn config set idle.below 15% cluster=tiny for 10m",
    ],
)
async def test_one_change_many_ways_to_write_it(bot: App, line: str) -> None:
    assert (await ask(bot, line)).data["edits"] == (await ask(bot, SET)).data["edits"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("config set", "'config set' needs a setting and its value"),
        ("config set idle.below", "'idle.below' needs a value after it"),
        ("config set idle.bellow 15%", "did you mean 'idle.below'"),
        ("config set idle.below 70% no_data.for=1m", "idle.below lies between 0% and 50%; got '70%'. no_data.for lies between"),
        ("config set idle.below 15% no_data.for=1m", "no_data.for lies between 5m and 1d; got '1m'"),
        ("config set compiling.cpu 40% for 10m", "'compiling.for' is not a setting; did you mean 'compiling"),
        ("config set idle.below=15% hung.on=off for 10m", "'for' belongs to one rule"),
        ("config set idle.below!=15%", "write idle.below=VALUE"),
        ("config set idle.below 5%", "Nothing would change"),
        ("config set idle.below 15% clutser=tiny", "'clutser' is neither a setting nor a scope; did you mean 'cluster'"),
        ("config set alert.usual_days 7 cluster=tiny", "holds for everything at once; leave out cluster=tiny"),
        ('config set idle.below "15%', "A quote is open"),
        ("config apply p0", "There is no preview 'p0'"),
        ("config undo", "There is nothing to undo"),
        ("config undo to=7", "There is no version 7"),
        ("config import [idle] below = '70%'", "The policy is not TOML"),
        ('config import idle.below = "70%"', "idle.below lies between 0% and 50%"),
        ("config import policy.toml", "files are read in a terminal"),
    ],
)
async def test_a_wrong_message_is_refused_whole_and_kept(bot: App, line: str, words: str) -> None:
    before = bot.ports.policy
    assert words in refused(await ask(bot, line))
    assert bot.ports.policy == before
    (attempt,) = bot.ports.versions.attempts(5)
    assert (attempt.by, attempt.line) == (ADMIN, line)
    assert words in attempt.refused


async def test_only_admins_change_and_each_press_is_checked_and_kept(bot: App) -> None:
    name = (await ask(bot, SET)).data["preview"]
    for line in (SET, f"config apply {name}", f"config cancel {name}", "config undo", "config import [idle]"):
        assert "is for admins" in refused(await ask(bot, line, ANYONE))
        assert bot.ports.versions.attempts(1)[0].by == ANYONE
    assert "is for admins" in refused(await ask(bot, "config", ANYONE))
    assert (await ask(bot, "config show idle", ANYONE)).tone is Tone.INFO
    assert below(bot) == 0.05


async def test_applying_holds_once_and_says_who(bot: App) -> None:
    name = (await ask(bot, SET)).data["preview"]
    first, again = await ask(bot, f"config apply {name}"), await ask(bot, f"config apply {name}")
    assert (first.title, again.title) == ("Applied as version 1", "Applied before as version 1")
    assert (below(bot), len(bot.ports.versions.versions(9))) == (0.15, 1)
    assert [(e["key"], e["from"], e["to"]) for e in first.data["edits"]] == [
        ("idle.below", "5%", "15%"),
        ("idle.for", "30m", "10m"),
    ]
    assert [attempt.refused for attempt in bot.ports.versions.attempts(9)] == ["", "", ""]


async def test_of_two_previews_the_second_is_refused_when_the_first_was_applied(bot: App) -> None:
    one, other = await ask(bot, SET), await ask(bot, "config set hung off", "chat:U3")
    await ask(bot, f"config apply {one.data['preview']}")
    assert "Since that preview dana made version 1" in refused(await ask(bot, f"config apply {other.data['preview']}"))
    assert bot.ports.policy.on("hung.on")


async def test_two_replicas_that_apply_at_once_make_one_version(opened: build.Opened, url: str) -> None:
    stores = open_store(url), open_store(url)
    bots = [app(opened, store) for store in stores]
    names = [(await ask(bot, line)).data["preview"] for bot, line in zip(bots, (SET, "config set hung off"), strict=True)]
    cards = await asyncio.gather(*(ask(bot, f"config apply {name}") for bot, name in zip(bots, names, strict=True)))
    assert sorted(card.tone for card in cards) == [Tone.ERROR, Tone.GOOD]
    assert bots[0].ports.policy == bots[1].ports.policy
    for store in stores:
        store.close()


async def test_a_cancelled_preview_cannot_be_applied(bot: App) -> None:
    name = (await ask(bot, SET)).data["preview"]
    assert (await ask(bot, f"config cancel {name}")).title == "Cancelled; nothing changed"
    assert f"There is no preview '{name}'" in refused(await ask(bot, f"config apply {name}"))


async def test_a_preview_is_void_when_the_settings_file_changed(bot: App, opened: build.Opened) -> None:
    name = (await ask(bot, SET)).data["preview"]
    base = Policy({**bot.ports.base.values, "idle.below": 0.07})
    later = app(opened, bot.ports.store, base=base)
    assert "the settings file has changed" in refused(await ask(later, f"config apply {name}"))


async def test_undo_goes_back_step_by_step(bot: App) -> None:
    for share in ("10%", "15%", "20%"):
        await changed(bot, f"config set idle.below {share} cluster=tiny")
    seen = []
    for _ in range(3):
        await ask(bot, "config undo")
        seen.append(below(bot))
    assert seen == [0.15, 0.10, 0.05]
    assert "nothing to undo" in refused(await ask(bot, "config undo"))
    assert (await ask(bot, "config undo to=3")).title == "Undone as version 7: back at version 3"
    assert below(bot) == 0.20
    await ask(bot, "config undo")
    assert below(bot) == 0.15


async def test_a_change_after_an_undo_is_undone_to_where_it_began(bot: App) -> None:
    await changed(bot, "config set idle.below 10% cluster=tiny")
    await ask(bot, "config undo")
    await changed(bot, "config set idle.below 20% cluster=tiny")
    await ask(bot, "config undo")
    assert below(bot) == 0.05
    assert "nothing to undo" in refused(await ask(bot, "config undo"))


async def test_default_takes_a_change_back(bot: App) -> None:
    await changed(bot)
    card = await changed(bot, "config set idle.below=default cluster=tiny")
    assert [(e["from"], e["to"]) for e in card.data["edits"]] == [("15%", "5%")]
    assert bot.ports.versions.versions(1)[0].overrides == ((TINY, "idle.for", "10m"),)


async def test_history_tells_who_what_and_who_was_refused(bot: App) -> None:
    await changed(bot)
    await ask(bot, "config undo", ANYONE)
    card = await ask(bot, "config history", ANYONE)
    (version,) = card.data["versions"]
    assert (version["by"], version["doing"], version["shown"]["alerts"]) == (ADMIN, "set", [1, 1])
    assert "idle.below 5% → 15% for cluster=tiny" in repr(card.blocks)
    assert "'config undo' is for admins" in repr(card.blocks)
    one = await ask(bot, "config history 1")
    assert buttons(one)["Go back to before it"].line == "config undo to=0"
    assert "There is no version 9" in refused(await ask(bot, "config history 9"))


async def test_a_form_submits_the_line_that_a_person_would_type(bot: App) -> None:
    asked = form(await ask(bot, "config"))
    assert [field.name for field in asked.fields] == ["rule", "cluster", "team", "account"]
    assert ("tiny", "tiny") in asked.fields[1].options
    shown = form(await ask(bot, form_line(asked.line, {"rule": "idle", "cluster": "tiny"})))
    values = {field.name: field.value for field in shown.fields}
    assert values == {"idle.on": "on", "idle.below": "5%", "idle.for": "30m"}
    assert "Nothing would change" in refused(await ask(bot, form_line(shown.line, values)))
    line = form_line(shown.line, {**values, "idle.on": "true", "idle.below": "15%", "idle.for": "10m"})
    assert (await ask(bot, line)).data["edits"] == (await ask(bot, SET)).data["edits"]


async def test_change_opens_the_form_with_what_was_tried(bot: App) -> None:
    card = await ask(bot, SET)
    again = form(await ask(bot, buttons(card)["Change…"].line))
    assert {f.name: f.value for f in again.fields} == {"idle.on": "on", "idle.below": "15%", "idle.for": "10m"}
    assert again.line == "config set cluster=tiny"


async def test_a_scope_that_nothing_carries_is_said(bot: App) -> None:
    card = await ask(bot, "config set idle.below 15% cluster=tinny")
    assert "Nothing runs under cluster=tinny now; did you mean 'tiny'?" in repr(card.blocks)


async def test_a_policy_goes_out_and_comes_back_as_toml(bot: App, tmp_path: Path) -> None:
    await changed(bot)
    before = bot.ports.policy
    file = tmp_path / "my policy.toml"
    file.write_text((await ask(bot, "config export")).data["toml"])
    await ask(bot, "config undo")
    seen = await ask(bot, f'config import "{file}"', surface="terminal")
    await ask(bot, f"config apply {seen.data['preview']}")
    assert bot.ports.policy == before


async def test_a_pasted_policy_is_tried_whole(bot: App) -> None:
    await changed(bot)
    pasted = 'config import ```toml\n[hung]\non = false\n\n[[override]]\ncluster = “tiny”\n"idle.below" = “7%”\n```'
    card = await changed(bot, pasted)
    assert {e["key"]: e["to"] for e in card.data["edits"]} == {"hung.on": "off", "idle.below": "7%", "idle.for": "30m"}
    assert (below(bot), bot.ports.policy.on("hung.on")) == (0.07, False)


async def test_a_restart_and_another_replica_keep_the_policy(opened: build.Opened, url: str) -> None:
    first, second = open_store(url), open_store(url)
    await changed(app(opened, first))
    assert below(app(opened, second)) == 0.15
    first.close()
    second.close()
    third = open_store(url)
    assert (below(app(opened, third)), third.attempts(1)[0].by) == (0.15, ADMIN)
    third.close()


class Spy:
    """Remembers the policy of each tick."""

    def __init__(self) -> None:
        self.below: list[float] = []

    def __call__(self, reading: Reading, policy: Policy, known: Sequence[Alert]) -> Detection:
        self.below.append(policy.at(TINY).number("idle.below"))
        return Detection(())


async def test_the_running_watch_takes_the_newest_policy_at_its_next_tick(opened: build.Opened) -> None:
    spy = Spy()
    bot = app(opened, MemoryStore(), detect=spy)
    await bot.tick(end(bot) - timedelta(minutes=10))
    await changed(bot)
    await bot.tick(end(bot))
    assert spy.below == [0.05, 0.15]


async def test_a_preview_sees_nothing_past_the_time_it_was_asked_at(bot: App) -> None:
    at = end(bot) - timedelta(hours=3)
    card = await ask(bot, SET, at=at)
    assert (card.data["alerts"], card.data["end"]) == ([0, 0], at.isoformat())
    early = await ask(bot, SET, at=at - timedelta(days=1))
    assert "Nothing is recorded in the 14 days before" in refused(early)


def rerun(ports: Ports, window: Window) -> Iterator[Replay]:
    """Replay the policy in force anew, as the running watch would have run it."""
    (fresh,) = ports.replays.again([ports.policy])
    seen = Replay(window)
    times = [now for now in grid(window.start, window.end, ports.interval) if now <= window.end]
    for _ in ticking(fresh, ports.channels, times, seen):
        pass
    yield seen


SHARES, TIMES = st.integers(0, 50).map(lambda n: f"{n}%"), st.integers(2, 90).map(lambda n: f"{n}m")
PAIRS = st.fixed_dictionaries(
    {},
    optional={
        "idle.below": SHARES,
        "idle.for": TIMES,
        "idle.on": st.sampled_from(["on", "off"]),
        "allocated_unused.for": TIMES,
        "hung.for": TIMES,
        "compiling.grace": TIMES,
        "alert.least_usd_per_hour": st.integers(0, 60).map(str),
    },
).filter(bool)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=PAIRS, scope=st.sampled_from(["", " cluster=tiny", " cluster=other", " team=search"]))
async def test_applying_gives_exactly_what_was_previewed(opened: build.Opened, pairs: dict[str, str], scope: str) -> None:
    bot = app(opened, MemoryStore())
    seen = await ask(bot, "config set " + " ".join(f"{k}={v}" for k, v in pairs.items()) + scope)
    if "Nothing would change" in str(seen.data.get("error")):
        return
    await ask(bot, f"config apply {seen.data['preview']}")
    extent = bot.ports.source.extent()
    assert extent
    (again,) = rerun(bot.ports, extent)
    assert digest(again) == seen.data["digest"]
    assert len({a.id for n in again.notices for a in n.alerts}) == seen.data["alerts"][1]


VOCABULARY = """set apply IMPORT undo change cancel history show export for 30m idle idle.below 15% idle.below=15% cluster=
cluster=tiny = to=-1 to=0 default [idle] p1 999999999999 != ``` \u201c \u202e"""
WORDS = st.sampled_from(VOCABULARY.split())


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(WORDS | st.text(max_size=6), max_size=6))
async def test_no_line_breaks_it_or_changes_the_policy(opened: build.Opened, words: list[str]) -> None:
    bot = app(opened, MemoryStore())
    card = await ask(bot, " ".join(["config", *words]), at=end(bot) - timedelta(days=2))
    assert "Something went wrong" not in str(card.data.get("error"))
    assert (bot.ports.policy, bot.ports.versions.versions(1)) == (bot.ports.base, [])
