"""Goodput as people ask for it: its classes sum to what `cost` says of the same nodes."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

import pytest

from bot.answers.cost.goodput import goodput_words
from bot.app import App
from bot.cards.card import Tone
from bot.costs.goodput import GoodputClass, GoodputRow
from bot.wiring.serve import GoodputRounds
from tests.answers.configuring import ask, end


@pytest.mark.parametrize("by", ["cluster", "team", "job", "node", "day", "instance_type,purchase"])
async def test_the_classes_of_all_rows_sum_to_what_cost_says(bot: App, by: str) -> None:
    at = end(bot) + timedelta(hours=36)
    card = await ask(bot, f"goodput 7d by {by}", at=at)
    assert card.tone is not Tone.ERROR, card
    kinds = (await ask(bot, "cost 7d by instance_type", at=at)).data["rows"]
    billed = sum(
        (
            row["amortised_usd"]
            for row in kinds
            if row["key"]["instance_type"].startswith(("trn", "inf"))
        ),
        Decimal(0),
    )
    committed = card.data["classes_usd"]["committed_unused"]
    rows = card.data["rows"]
    assert billed > 0
    assert card.data["total_usd"] - committed == billed
    assert sum(row["total_usd"] for row in rows) == card.data["total_usd"]
    for name, amount in card.data["classes_usd"].items():
        assert sum(row["classes_usd"][name] for row in rows) == amount
    assert 0 < card.data["goodput"] < 1


async def test_a_filter_by_job_is_refused_with_what_to_write(bot: App) -> None:
    card = await ask(bot, "goodput 7d node=i-1")
    assert card.tone is Tone.ERROR
    assert "resource=i-0abc" in str(card)


async def test_a_window_before_the_bill_holds_nothing(bot: App) -> None:
    card = await ask(bot, "goodput 2020-01-01")
    assert "nothing was billed" in card.title
    assert card.data["rows"] == []


async def test_what_no_metric_tells_has_no_goodput(bot: App) -> None:
    card = await ask(bot, "goodput 7d")
    assert card.data["goodput"] is None
    assert card.title.startswith("Goodput not known of $")


def test_what_is_not_seen_is_neither_work_nor_lost() -> None:
    classes = {
        GoodputClass.PRODUCTIVE: Decimal(90),
        GoodputClass.IDLE: Decimal(10),
        GoodputClass.NOT_SEEN: Decimal(200),
    }
    assert GoodputRow({}, classes).goodput == 0.9
    assert goodput_words(GoodputRow({}, classes)) == (
        "90 % of the $100 for Neuron nodes that metrics cover went into work, and most of the"
        " rest on"
        " idle ($10.00); $200 more was not seen."
    )
    del classes[GoodputClass.NOT_SEEN]
    assert goodput_words(GoodputRow({}, classes)).startswith("90 % of $100 for Neuron nodes")


async def test_the_digest_says_the_goodput_of_its_week(bot: App) -> None:
    at = end(bot) + timedelta(hours=36)
    digest = await ask(bot, "digest", at=at)
    week = digest.data["window"]
    asked = await ask(bot, f"goodput {week.start:%Y-%m-%dT%H:%M}..{week.end:%Y-%m-%dT%H:%M}", at=at)
    for name in ("total_usd", "goodput", "classes_usd"):
        assert digest.data["goodput"][name] == asked.data[name]
    assert "into work" in str(digest)


async def test_metrics_say_the_goodput_of_seven_days_as_the_line_does(bot: App) -> None:
    at = end(bot)
    rounds = GoodputRounds(bot, lambda: at)
    await rounds.work()
    assert "trnbot_goodput_usd" not in bot.health.exposition()  # nothing was watched yet
    bot.health.leads(300)
    bot.health.ticks = 1
    await rounds.work()
    span = f"{at - timedelta(days=7):%Y-%m-%dT%H:%M}..{at:%Y-%m-%dT%H:%M}"
    classes = (await ask(bot, f"goodput {span}", at=at)).data["classes_usd"]
    written = dict(
        re.findall(r'trnbot_goodput_usd\{class="(\w+)"\} (\S+)', bot.health.exposition())
    )
    assert written
    for name, amount in written.items():
        assert Decimal(amount) == classes[name]
