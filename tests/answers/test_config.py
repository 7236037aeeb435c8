"""The config message over a real recording: preview, apply, undo, and who may."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from adapters.store.memory import MemoryStore
from adapters.store.open import open_store
from bot.app import App
from bot.cards.card import Tone
from bot.model.policy import Policy
from bot.watch.preview import replayed
from bot.watch.tick import grid
from bot.wiring.source import OpenedSource
from tests.answers.configuring import (
    ADMIN,
    ANYONE,
    SET,
    TINY,
    app,
    ask,
    below,
    buttons,
    changed,
    end,
    opened_every,
    refused,
)


async def test_a_preview_shows_both_sides_and_changes_nothing() -> None:
    bot = app(opened_every("10m"), MemoryStore())
    card = await ask(bot, SET)
    assert card.title == "Preview: the same 1 alert over 6 hours"
    assert card.data["delay_minutes"] == [30.0, 10.0]
    assert list(buttons(card)) == ["Apply", "Change…", "Cancel"]
    assert (below(bot), bot.ports.stores.versions.versions(1)) == (0.05, [])


def test_a_preview_replays_nothing_that_came_after_the_question(bot: App) -> None:
    until = end(bot) - timedelta(minutes=7)
    (result,) = replayed(bot.ports, [bot.ports.policy], until)
    extent = bot.ports.world.source.extent()
    assert extent
    times = grid(extent.start, until, bot.ports.site.interval)
    assert times[-1] > until
    assert result.ticks == len(times) - 1


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
        (
            "config set idle.below 70% no_data.for=1m",
            "idle.below lies between 0% and 50%; got '70%'. no_data.for lies between",
        ),
        (
            "config set idle.below 15% no_data.for=1m",
            "no_data.for lies between 5m and 1d; got '1m'",
        ),
        (
            "config set compiling.cpu 40% for 10m",
            "'compiling.for' is not a setting; did you mean 'compiling",
        ),
        ("config set idle.below=15% hung.on=off for 10m", "'for' belongs to one rule"),
        ("config set idle.below!=15%", "write idle.below=VALUE"),
        ("config set idle.below=15% cluster!=tiny", "'cluster!=' compares"),
        ("config set idle.below 15% team!=search", "'team!=' compares"),
        ("config set idle.below 5%", "Nothing would change"),
        (
            "config set idle.below 15% clutser=tiny",
            "'clutser' is neither a setting nor a scope; did you mean 'cluster'",
        ),
        (
            "config set alert.usual_days 7 cluster=tiny",
            "applies to everything at once; leave out cluster=tiny",
        ),
        ('config set idle.below "15%', "A quote is open"),
        ("config apply p0", "There is no preview 'p0'"),
        ("config undo", "There is nothing to undo"),
        ("config undo to=7", "There is no version 7"),
        ("config import [idle] below = '70%'", "The policy is not TOML"),
        ('config import idle.below = "70%"', "idle.below lies between 0% and 50%"),
        ("config import policy.toml", "Paths are for a terminal"),
    ],
)
async def test_a_wrong_message_is_refused_whole_and_kept(bot: App, line: str, words: str) -> None:
    before = bot.ports.policy
    assert words in refused(await ask(bot, line))
    assert bot.ports.policy == before
    (attempt,) = bot.ports.stores.versions.attempts(5)
    assert (attempt.by, attempt.line) == (ADMIN, line)
    assert words in attempt.refused


@pytest.mark.parametrize("prefix", ["", "trn ", "/trn ", "TRNBOT "])
async def test_an_attempt_is_kept_however_the_bot_was_called(bot: App, prefix: str) -> None:
    assert "is for admins" in refused(await ask(bot, f"{prefix}config undo", ANYONE))
    (attempt,) = bot.ports.stores.versions.attempts(5)
    assert (attempt.by, attempt.by_name, attempt.line) == (ANYONE, "dana", f"{prefix}config undo")


async def test_an_attempt_is_kept_up_to_a_length(bot: App) -> None:
    assert refused(await ask(bot, "config set idle.below " + "9" * 2_500))
    (attempt,) = bot.ports.stores.versions.attempts(5)
    assert len(attempt.line) == 1_500


async def test_only_admins_change_and_each_press_is_checked_and_kept(bot: App) -> None:
    name = (await ask(bot, SET)).data["preview"]
    for line in (
        SET,
        f"config apply {name}",
        f"config cancel {name}",
        "config undo",
        "config import [idle]",
    ):
        assert "is for admins" in refused(await ask(bot, line, ANYONE))
        assert bot.ports.stores.versions.attempts(1)[0].by == ANYONE
    assert "is for admins" in refused(await ask(bot, "config", ANYONE))
    assert (await ask(bot, "config show idle", ANYONE)).tone is Tone.INFO
    assert below(bot) == 0.05


async def test_applying_holds_once_and_says_who(bot: App) -> None:
    name = (await ask(bot, SET)).data["preview"]
    first, again = await ask(bot, f"config apply {name}"), await ask(bot, f"config apply {name}")
    assert (first.title, again.title) == ("Applied as version 1", "Applied before as version 1")
    assert (below(bot), len(bot.ports.stores.versions.versions(9))) == (0.15, 1)
    assert [(e["key"], e["from"], e["to"]) for e in first.data["edits"]] == [
        ("idle.below", "5%", "15%"),
        ("idle.for", "30m", "10m"),
    ]
    assert [attempt.refused for attempt in bot.ports.stores.versions.attempts(9)] == ["", "", ""]
    for scope, shown in (("", "5%"), (" tiny", "15%")):
        card = await ask(bot, f"config show idle{scope}")
        assert card.data["settings"]["idle.below"] == shown


async def test_of_two_previews_the_second_is_refused_when_the_first_was_applied(bot: App) -> None:
    one, other = await ask(bot, SET), await ask(bot, "config set hung off", "chat:U3")
    await ask(bot, f"config apply {one.data['preview']}")
    assert "Since that preview dana made version 1" in refused(
        await ask(bot, f"config apply {other.data['preview']}")
    )
    assert bot.ports.policy.on("hung.on")


async def test_two_replicas_that_apply_at_once_make_one_version(
    opened: OpenedSource, url: str
) -> None:
    stores = open_store(url), open_store(url)
    bots = [app(opened, store) for store in stores]
    names = [
        (await ask(bot, line)).data["preview"]
        for bot, line in zip(bots, (SET, "config set hung off"), strict=True)
    ]
    cards = await asyncio.gather(
        *(ask(bot, f"config apply {name}") for bot, name in zip(bots, names, strict=True))
    )
    assert sorted(card.tone for card in cards) == [Tone.ERROR, Tone.GOOD]
    assert bots[0].ports.policy == bots[1].ports.policy
    for store in stores:
        store.close()


async def test_a_cancelled_preview_cannot_be_applied(bot: App) -> None:
    name = (await ask(bot, SET)).data["preview"]
    assert (await ask(bot, f"config cancel {name}")).title == "Cancelled; nothing changed"
    assert f"There is no preview '{name}'" in refused(await ask(bot, f"config apply {name}"))


async def test_a_preview_is_void_when_the_settings_file_changed(
    bot: App, opened: OpenedSource
) -> None:
    name = (await ask(bot, SET)).data["preview"]
    base = Policy({**bot.ports.site.base.values, "idle.below": 0.07})
    later = app(opened, bot.ports.stores.alerts, base=base)
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
    assert bot.ports.stores.versions.versions(1)[0].overrides == ((TINY, "idle.for", "10m"),)


async def test_a_budget_shows_what_each_floor_would_have_sent(bot: App) -> None:
    card = await ask(bot, "config budget")
    assert card.title.startswith("Alert budget: 1 message in 6 hours covered 100 % of $")
    points = card.data["points"]
    assert [point["messages"] for point in points] == [0, 1]
    assert points[-1]["usd"] == card.data["current"]["usd"] > 0
    assert bot.ports.stores.versions.versions(1) == []


@pytest.mark.parametrize(
    ("promise", "words"),
    [
        ("at most 2 messages a week", "Only 6 hours are recorded"),
        ("at most 2 messages a week for tiny", "'for tiny' is not part of a budget; for example"),
        ("at most", "No number was given; for example: config budget"),
    ],
)
async def test_a_promise_that_cannot_be_weighed_is_refused(
    bot: App, promise: str, words: str
) -> None:
    assert words in refused(await ask(bot, f"config budget {promise}"))
    assert "is for admins" in refused(await ask(bot, f"config budget {promise}", ANYONE))
