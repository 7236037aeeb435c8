"""Bedrock's tokens beside a cluster's hours: the arithmetic by hand, and what is not known."""

from __future__ import annotations

from decimal import Decimal

import pytest

from bot.answers.plan.bedrock import TokenCost, TokenOffer, bedrock_card
from bot.answers.plan.roadmap import managed_words
from bot.app import App
from bot.cards.card import Table
from bot.knowledge import load_knowledge
from bot.model.window import calendar_day
from tests.answers.configuring import ask
from tests.builders import NOON

LINE = "bedrock tiny model=llama-3.3-70b output=50"


async def test_the_load_from_which_a_cluster_pays_is_its_hour_over_the_price(bot: App) -> None:
    data = (await ask(bot, LINE)).data
    (row,) = data["models"]
    middle = (Decimal(row["usd_per_million_input"]) + Decimal(row["usd_per_million_output"])) / 2
    assert row["usd_per_million"] == middle
    tokens_per_hour = data["usd_per_hour"] / middle * 1_000_000
    assert row["breakeven_tokens_per_second"] == pytest.approx(
        float(tokens_per_hour) / 3600, rel=1e-3
    )
    assert row["source"]
    assert row["asof"].year >= 2026


@pytest.mark.parametrize(
    ("times", "cheaper"), [(2, "tiny is cheaper"), (0.5, "Bedrock is cheaper")]
)
async def test_a_load_above_it_is_cheaper_here(bot: App, times: float, cheaper: str) -> None:
    (row,) = (await ask(bot, LINE)).data["models"]
    load = round(row["breakeven_tokens_per_second"] * times)
    card = await ask(bot, f"{LINE} tokens={load}")
    assert cheaper in card.title
    assert card.data["usd_per_million"] == pytest.approx(row["usd_per_million"] / Decimal(times), abs=Decimal("0.01"))  # fmt: skip


def test_committed_hours_are_not_saved_by_leaving() -> None:
    (price, *_) = load_knowledge().claims().tokens
    here = TokenCost("llama", Decimal(800), committed=True, usd_per_million=Decimal(20))
    card = bedrock_card([TokenOffer(price, Decimal("0.25"), here)], (), NOON.date())
    assert card.title.endswith("Bedrock is cheaper once llama's commitment ends")
    assert "they are paid either way" in str(card)


async def test_sources_that_disagree_stand_in_rows_of_their_own(bot: App) -> None:
    card = await ask(bot, "bedrock model=llama-3.1-70b")
    assert len({row["source"] for row in card.data["models"]}) == 2
    table = next(block for block in card.blocks if isinstance(block, Table))
    assert len(table.rows) == 2
    assert len(table.columns) == 4, "no cluster, so no load from which it pays"


def test_a_price_stands_beside_what_sagemaker_asks_for_the_same_node() -> None:
    """The managed price is a row with source and date; a type without a row says nothing."""
    prices = load_knowledge().fallback_prices()
    managed = [x for x in prices if x.instance_type == "ml.trn1.32xlarge"]
    plain = [x for x in prices if x.instance_type == "trn1.32xlarge"]
    words = managed_words(managed, plain)
    assert "$24.73 an hour in us-east-1 for ml.trn1.32xlarge, 15 % more than EC2's $21.50" in words
    assert calendar_day(managed[0].asof) in words
    elsewhere = [x for x in plain if x.region != "us-east-1"]
    assert managed_words(managed, elsewhere) == managed_words([], plain) == ""
