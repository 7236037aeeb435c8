"""Which price an hour has: the account's own blended rate, then lists, then the dated fallback."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from bot.costs.pricing import choose, storage_price
from bot.model.fleet import Market
from bot.model.price import Basis, Price, StoragePrice
from tests.builders import price

BILLED = Basis.BILLED
PLAN = replace(price("14.00", Market.SAVINGS_PLAN, BILLED), hours=300.0)
LIST_HOURS = replace(price("22.00", Market.ON_DEMAND, BILLED), hours=100.0)
SPOT = replace(price("3.00", Market.SPOT, BILLED), hours=50.0)


@pytest.mark.parametrize(
    ("sentence", "quotes", "market", "usd"),
    [
        ("commitments and list price are one rate, by hours", [PLAN, LIST_HOURS], Market.ON_DEMAND, "16.00"),
        ("spot hours stay out of it", [PLAN, SPOT], Market.ON_DEMAND, "14.00"),
        ("a spot instance has the spot rate", [PLAN, SPOT], Market.SPOT, "3.00"),
        (
            "without a bill the price list counts",
            [price("21.50"), price("9.00", basis=Basis.FALLBACK)],
            Market.ON_DEMAND,
            "21.50",
        ),
        (
            "an offering on another market is the last to count",
            [price("9.53", Market.CAPACITY_BLOCK), price("30", basis=Basis.FALLBACK)],
            Market.ON_DEMAND,
            "30",
        ),
        ("but counts when nothing else is known", [price("9.53", Market.CAPACITY_BLOCK)], Market.ON_DEMAND, "9.53"),
        (
            "a region's own quote wins over a surer one of another",
            [replace(LIST_HOURS, region="us-east-1"), price("21.50")],
            Market.ON_DEMAND,
            "21.50",
        ),
    ],
)
def test_the_price_of_an_hour(sentence: str, quotes: list[Price], market: Market, usd: str) -> None:
    found = choose(quotes, market, "us-west-2")
    assert found is not None
    assert found.usd_per_hour == Decimal(usd), sentence


def test_nobody_knows() -> None:
    assert choose([], Market.ON_DEMAND) is None


def test_storage_costs_its_kind_and_size() -> None:
    listed = [StoragePrice("ebs:gp3", "us-east-1", Decimal("0.08"), "a list", date(2026, 11, 20))]
    found = storage_price("ebs:gp3", 7300, "us-west-2", listed)
    assert found is not None
    assert (found.usd_per_hour, found.basis, found.region) == (Decimal("0.8"), Basis.FALLBACK, "us-east-1")
    assert storage_price("ebs:st1", 7300, "us-west-2", listed) is None
