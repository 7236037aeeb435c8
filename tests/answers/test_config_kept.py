"""What stays of a config message: history, forms, files, and what a restart and another replica find."""

from __future__ import annotations

from pathlib import Path

from adapters.store.open import open_store
from bot.app import App
from bot.cards.lines import form_line
from bot.wiring.source import OpenedSource
from tests.answers.configuring import (
    ADMIN,
    ANYONE,
    SET,
    app,
    ask,
    below,
    buttons,
    changed,
    form,
    refused,
)


async def test_history_tells_who_what_and_who_was_refused(bot: App) -> None:
    await changed(bot)
    await ask(bot, "config undo", ANYONE)
    card = await ask(bot, "config history", ANYONE)
    (version,) = card.data["versions"]
    assert (version["by"], version["doing"], version["shown"]["alerts"]) == (ADMIN, "set", [1, 1])
    assert "idle.below 5% → 15% for cluster=tiny" in repr(card.blocks)
    assert "'config undo' is for admins" in repr(card.blocks)
    one = await ask(bot, "config history 1")
    assert buttons(one)["Return to the version before it"].line == "config undo to=0"
    assert "There is no version 9" in refused(await ask(bot, "config history 9"))


async def test_a_form_submits_the_line_that_a_person_would_type(bot: App) -> None:
    asked = form(await ask(bot, "config"))
    assert [field.name for field in asked.fields] == ["rule", "cluster", "team", "account"]
    assert ("tiny", "tiny") in asked.fields[1].options
    shown = form(await ask(bot, form_line(asked.line, {"rule": "idle", "cluster": "tiny"})))
    values = {field.name: field.value for field in shown.fields}
    assert values == {
        "idle.on": "on",
        "idle.below": "5%",
        "idle.for": "30m",
        "idle.spared": "standby,spare,interactive,debug",
    }
    assert "Nothing would change" in refused(await ask(bot, form_line(shown.line, values)))
    line = form_line(
        shown.line,
        {
            **values,
            "idle.on": "true",
            "idle.below": "15%",
            "idle.for": "10m",
        },
    )
    assert (await ask(bot, line)).data["edits"] == (await ask(bot, SET)).data["edits"]


async def test_change_opens_the_form_with_what_was_tried(bot: App) -> None:
    line = "config set idle.below=15% idle.for=10m odd.false_alerts_per_week=0.5 cluster=tiny"
    card = await ask(bot, line)
    again = form(await ask(bot, buttons(card)["Change…"].line))
    # Without `odd.for`, which holds everywhere or nowhere.
    assert {f.name: f.value for f in again.fields} == {
        "idle.on": "on",
        "idle.below": "15%",
        "idle.for": "10m",
        "idle.spared": "standby,spare,interactive,debug",
        "odd.on": "on",
        "odd.false_alerts_per_week": "0.5",
    }
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
    assert {e["key"]: e["to"] for e in card.data["edits"]} == {
        "hung.on": "off",
        "idle.below": "7%",
        "idle.for": "30m",
    }
    assert (below(bot), bot.ports.policy.on("hung.on")) == (0.07, False)


async def test_a_restart_and_another_replica_keep_the_policy(
    opened: OpenedSource, url: str
) -> None:
    first, second = open_store(url), open_store(url)
    await changed(app(opened, first))
    assert below(app(opened, second)) == 0.15
    first.close()
    second.close()
    third = open_store(url)
    assert (below(app(opened, third)), third.attempts(1)[0].by) == (0.15, ADMIN)
    third.close()
