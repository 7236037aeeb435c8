"""Suggestions over a real recording: what is decided about them is kept, and Done is measured."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from adapters.store.memory import MemoryStore
from bot.answers.plan.suggestions import VERDICTS, Suggestions, Verdict
from bot.model.policy import Policy
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource
from tests.answers.configuring import ANYONE, app, ask, buttons, refused
from tests.e2e.product import recording


@pytest.fixture(scope="module")
def wasteful() -> OpenedSource:
    source = f"recording:{recording('causes')}"
    return OpenedSource(source, settings_of({"source": source}))


@pytest.mark.timeout(400)
async def test_each_suggestion_is_decided_about_once_and_can_be_taken_back(
    wasteful: OpenedSource,
) -> None:
    bot = app(wasteful, MemoryStore())
    card = await ask(bot, "suggestions", ANYONE)
    listed = card.data["suggestions"]
    amounts = [row["usd_per_month"] for row in listed]
    assert amounts == sorted(amounts, reverse=True)
    assert sum(amounts) == card.data["usd_per_month"]
    assert {"a commitment", "unused storage"} <= {row["kind"] for row in listed}
    assert list(buttons(card)) == ["Calculate", "Try", "Done", "Not again"]

    # Every step is shown, and the amount is that of the list.
    for row in listed[-1:]:
        shown = (await ask(bot, f"suggestions show {row['id']}", ANYONE)).data["suggestion"]
        assert shown["usd_per_month"] == row["usd_per_month"]
        assert shown["steps"]
        assert row["low_usd"] <= row["usd_per_month"] <= row["high_usd"]

    # One is declined with a reason, one done: neither comes again.
    first, second = listed[0]["id"], listed[1]["id"]
    await ask(bot, f"suggestions decline {first} we move in May", ANYONE)
    await ask(bot, f"suggestions done {second}", ANYONE)
    card = await ask(bot, "suggestions", ANYONE)
    assert [row["id"] for row in card.data["suggestions"]] == [row["id"] for row in listed[2:]]
    decided = {row["id"]: row for row in card.data["decided"]}
    assert (decided[first]["verdict"], decided[first]["note"]) == ("declined", "we move in May")
    # All of it can still be had, so nothing was saved yet.
    assert decided[second]["saved_usd_per_month"] == 0

    await ask(bot, f"suggestions reopen {first}", ANYONE)
    card = await ask(bot, "suggestions", ANYONE)
    assert [row["id"] for row in card.data["suggestions"]] == [
        first,
        *(row["id"] for row in listed[2:]),
    ]
    assert "Nobody decided about" in refused(await ask(bot, f"suggestions reopen {first}", ANYONE))
    assert "There is no suggestion 's0' now" in refused(
        await ask(bot, "suggestions show s0", ANYONE)
    )

    # Once it suggests less, the difference is what was saved.
    kept = VERDICTS.get(bot.ports.stores.documents, second)
    assert kept
    assert kept.verdict is Verdict.DONE
    gone = Suggestions((), {second: kept})
    assert gone.saved(second) == listed[1]["usd_per_month"]
    dearer = replace(kept, usd_per_month=kept.usd_per_month + Decimal(100))
    assert Suggestions((), {second: dearer}).saved(second) == listed[1]["usd_per_month"] + 100


async def test_what_saves_less_than_the_setting_is_no_suggestion(wasteful: OpenedSource) -> None:
    bot = app(wasteful, MemoryStore())
    amounts = [x["usd_per_month"] for x in (await ask(bot, "suggestions")).data["suggestions"]]
    values = {**bot.ports.policy.values, "advice.least_usd_per_month": amounts[1]}
    card = await ask(app(wasteful, MemoryStore(), Policy(values)), "suggestions")
    assert [x["usd_per_month"] for x in card.data["suggestions"]] == amounts[:2]


async def test_a_fleet_that_works_gets_no_suggestion(opened: OpenedSource) -> None:
    card = await ask(app(opened, MemoryStore()), "suggestions")
    assert (card.title, card.data["suggestions"]) == ("No suggestion", [])
