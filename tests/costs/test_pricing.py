"""Which price an hour has: the account's own blended rate, then lists, then the dated fallback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from bot.costs.pricing import (
    Offers,
    Pricing,
    billed_hours,
    billed_rate,
    choose,
    listed_price,
    storage_price,
)
from bot.model.fleet import Inventory, Market, Reservation, Volume
from bot.model.labels import Labels
from bot.model.price import AccountRates, Basis, Price, StoragePrice
from bot.model.spend import Filter, Money, Spend, Tally
from bot.model.window import Window
from tests.builders import NOON, inventory, ports_over, price
from tests.house.fakes import Fleet

BILLED = Basis.BILLED
PLAN = replace(price("14.00", Market.SAVINGS_PLAN, BILLED), hours=300.0)
LIST_HOURS = replace(price("22.00", Market.ON_DEMAND, BILLED), hours=100.0)
SPOT = replace(price("3.00", Market.SPOT, BILLED), hours=50.0)


@pytest.mark.parametrize(
    ("sentence", "quotes", "market", "usd"),
    [
        (
            "commitments and list price are one rate, by hours",
            [PLAN, LIST_HOURS],
            Market.ON_DEMAND,
            "16.00",
        ),
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
        (
            "but counts when nothing else is known",
            [price("9.53", Market.CAPACITY_BLOCK)],
            Market.ON_DEMAND,
            "9.53",
        ),
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


def test_a_quote_of_no_region_counts_before_that_of_another() -> None:
    other, anywhere = (replace(price("20"), region=region) for region in ("us-east-1", ""))
    assert choose([other, anywhere], Market.ON_DEMAND, "us-west-2") == anywhere
    assert choose([other, anywhere], Market.ON_DEMAND) == other


def test_nobody_knows() -> None:
    assert choose([], Market.ON_DEMAND) is None


def test_storage_costs_its_kind_and_size() -> None:
    listed = [StoragePrice("ebs:gp3", "us-east-1", Decimal("0.08"), "a list", date(2026, 11, 20))]
    found = storage_price("ebs:gp3", 7300, "us-west-2", listed)
    assert found is not None
    assert (found.usd_per_hour, found.basis, found.region) == (
        Decimal("0.8"),
        Basis.FALLBACK,
        "us-east-1",
    )
    assert storage_price("ebs:st1", 7300, "us-west-2", listed) is None
    here = replace(listed[0], region="us-west-2")
    both = storage_price("ebs:gp3", 7300, "us-west-2", [*listed, here])
    assert both
    assert both.region == "us-west-2"


def test_a_blended_rate_is_named_after_most_of_its_hours() -> None:
    found = choose([LIST_HOURS, PLAN], Market.ON_DEMAND, "us-west-2")
    assert found is not None
    assert (found.market, found.hours) == (Market.SAVINGS_PLAN, 400.0)


def test_of_equal_quotes_the_newest_counts() -> None:
    old, new = (
        replace(price(usd), asof=date(2026, 11, day)) for usd, day in (("20", 1), ("21", 19))
    )
    for quotes in ([old, new], [new, old]):
        assert choose(quotes, Market.ON_DEMAND, "us-west-2") == new


class Account(Fleet):
    """A bill whose rates and lines change from day to day, and a list price for every kind of storage."""

    asked = 0

    def rates(self, now: datetime) -> AccountRates:
        return AccountRates((replace(price(str(now.day), basis=BILLED), hours=24.0),))

    def tally(
        self,
        window: Window,
        by: Sequence[str],
        where: Sequence[Filter] = (),
        most: int | None = None,
    ) -> Tally:
        self.asked += 1
        money = Money(net=Decimal(1), amortised=Decimal(168 * window.end.day))
        return Tally(
            window,
            ("resource",),
            (Spend({"resource": "arn:aws:ec2:r:1:volume/vol-1"}, money),),
            money,
        )

    def quotes(self, *_: Any) -> Sequence[Price]:
        return (
            Price(
                "ebs:gp3",
                Decimal("0.001"),
                Market.ON_DEMAND,
                Basis.LISTED,
                "us-west-2",
                date(2026, 11, 20),
                "a list",
            ),
        )


def volume(made: datetime) -> Inventory:
    return Inventory(
        NOON,
        volumes=(
            Volume(Labels(resource="vol-1", region="us-west-2"), 500, "gp3", "available", made),
        ),
    )


def test_a_day_keeps_its_prices_and_the_next_has_its_own() -> None:
    account = Account()
    pricing, kept, nodes = (
        Pricing(ports_over(account, None)),
        volume(NOON - timedelta(days=90)),
        inventory(("i-1",)),
    )
    for day in (20, 21):
        for hour in (0, 11):
            at = pricing.at(datetime(2026, 11, day, hour, tzinfo=UTC))
            node, disk = at("i-1", nodes), at("vol-1", kept)
            assert node is not None
            assert disk is not None
            assert (node.usd_per_hour, disk.usd_per_hour) == (day, day - 2), (
                "amortised, by a week that ended two days before"
            )
    assert account.asked == 2


@pytest.mark.parametrize(
    ("days", "basis"), [(9, Basis.BILLED), (8, Basis.LISTED), (1, Basis.LISTED)]
)
def test_a_volume_younger_than_the_billed_week_has_its_list_price(days: int, basis: Basis) -> None:
    made = NOON.replace(hour=0) - timedelta(days=days)
    found = Pricing(ports_over(Account(), None)).at(NOON)("vol-1", volume(made))
    assert found is not None
    assert (found.basis, found.usd_per_hour) == (
        basis,
        Decimal(18) if basis is Basis.BILLED else Decimal("0.5"),
    )


def test_an_hour_of_a_hyperpod_node_has_ec2s_price_before_its_own_was_billed() -> None:
    class Unlisted(Account):
        def quotes(self, *_: Any) -> Sequence[Price]:
            return ()

    node = inventory(("i-1",)).instances["i-1"]
    pod = replace(node.labels, instance="i-2", instance_type=f"ml.{node.labels.instance_type}")
    pricing = Pricing(ports_over(Unlisted(), None)).at(NOON)
    hardware, found = pricing.instance(node), pricing.instance(replace(node, labels=pod))
    assert found is not None
    assert hardware is not None
    assert found.usd_per_hour == hardware.usd_per_hour
    assert "EC2's price of trn1.32xlarge" in found.source


def test_a_reservation_costs_all_of_its_instances() -> None:
    labels = Labels(resource="cr-1", instance_type="trn1.32xlarge", region="us-west-2")
    reserved = Inventory(NOON, reservations=(Reservation(labels, 4, 1, NOON, None),))
    found = Pricing(ports_over(Account(), None)).at(NOON)("cr-1", reserved)
    assert found is not None
    assert found.usd_per_hour == 4 * 20


PLANNED, LISTED = (
    replace(price(usd, market, BILLED), hours=100.0)
    for usd, market in (
        ("12.60", Market.SAVINGS_PLAN),
        ("21.50", Market.ON_DEMAND),
    )
)


class Bill(Fleet):
    """A bill in which a Savings Plan covers one cluster and half the hours of one instance of another."""

    def rates(self, now: datetime) -> AccountRates:
        return AccountRates(
            by_type=(replace(PLANNED, hours=300.0), LISTED),
            by_cluster={"llama": (PLANNED,), "lab": (LISTED,)},
            by_instance={"i-1": (PLANNED,), "i-2": (LISTED,), "i-3": (PLANNED, LISTED)},
        )


@pytest.mark.parametrize(
    ("sentence", "name", "cluster", "usd"),
    [
        ("a covered node costs what its lines say", "i-1", "lab", "12.60"),
        ("one at list price too", "i-2", "llama", "21.50"),
        ("hours of both kinds are one rate", "i-3", "lab", "17.05"),
        ("a node without lines costs what its cluster's do", "i-9", "lab", "21.50"),
        (
            "one of a cluster that the bill does not name costs what its type does",
            "i-9",
            "new",
            "14.825",
        ),
    ],
)
def test_one_node_has_one_price_and_it_is_what_the_bill_says(
    sentence: str, name: str, cluster: str, usd: str
) -> None:
    nodes = inventory((name,), cluster=cluster)
    found = Pricing(ports_over(Bill(), None)).at(NOON)(name, nodes)
    assert found is not None
    assert found.usd_per_hour == Decimal(usd), sentence


def test_a_mean_is_named_after_the_price_that_most_of_the_nodes_have() -> None:
    nodes = inventory(("i-1", "i-8", "i-9"), cluster="lab").instances.values()
    found = Pricing(ports_over(Bill(), None)).at(NOON).mean(nodes)
    assert found is not None
    assert found.usd_per_hour == Decimal("18.533333"), "12.60 and twice 21.50"
    assert found.market is Market.ON_DEMAND


def test_a_clusters_rate_is_that_of_hours_bought_alike() -> None:
    node = inventory(("i-9",)).instances["i-9"]
    rates = AccountRates(by_cluster={"llama": (SPOT, PLANNED)})
    for market, usd in ((Market.ON_DEMAND, "12.60"), (Market.SPOT, "3.00")):
        found = billed_rate(rates, replace(node, market=market))
        assert found
        assert found.usd_per_hour == Decimal(usd)


def test_of_lists_the_newest_counts_then_the_cheapest_and_of_no_other_region_where_it_is() -> None:
    old, new, cheap = (
        replace(price(usd), asof=date(2026, 11, day))
        for usd, day in (("5", 1), ("21", 19), ("20", 19))
    )
    for quotes in ([old, new, cheap], [cheap, new, old]):
        assert listed_price(quotes, Market.ON_DEMAND, "us-west-2") == cheap
    offers = Offers(Pricing(ports_over(Account(), None)))
    there = replace(price("9"), region="us-east-1")
    offers.quotes = lambda _: [old, there]
    assert offers.here("trn1.32xlarge", Market.ON_DEMAND, "us-east-1") == there
    assert offers.here("trn1.32xlarge", Market.ON_DEMAND, "eu-west-1") is None


def test_one_type_has_a_price_for_each_region() -> None:
    class Regions(Account):
        def rates(self, now: datetime) -> AccountRates:
            return AccountRates()

        def quotes(self, instance_type: str, region: str, *_: Any) -> Sequence[Price]:
            return [price({"us-west-2": "20", "us-east-1": "30"}[region], region=region)]

    node = inventory(("i-1",)).instances["i-1"]
    east = replace(node, labels=replace(node.labels, instance="i-2", region="us-east-1"))
    pricing = Pricing(ports_over(Regions(), None)).at(NOON)
    found = [pricing.instance(x) for x in (node, east)]
    assert [x and x.usd_per_hour for x in found] == [20, 30]


def test_a_cluster_is_priced_by_the_mean_of_its_nodes() -> None:
    pricing, nodes = (
        Pricing(ports_over(Bill(), None)).at(NOON),
        inventory(("i-1", "i-2", "i-3", "i-4"), cluster="lab"),
    )
    mean = pricing.mean(nodes.instances.values())
    assert mean is not None
    assert (
        mean.usd_per_hour
        == (Decimal("12.60") + Decimal("21.50") + Decimal("17.05") + Decimal("21.50")) / 4
    )
    assert pricing.mean(()) is None


class Hours:
    """A bill of three hours, one of them charged at nothing, and of what is no node."""

    def tally(self, window: Window, by: Sequence[str], where: Sequence[Filter] = ()) -> Tally:
        assert (tuple(by), window.start) == (("resource", "hour"), NOON)
        assert where == [Filter("instance_type", ("inf2.xlarge", "trn1.32xlarge"))]
        rows = [
            Spend({"resource": name, "hour": hour}, Money(amortised=Decimal(usd)), hours=1.0)
            for name, hour, usd in (
                ("arn:aws:ec2:us-west-2:1:instance/i-1", "2026-11-20T12:00:00+00:00", "21.50"),
                ("i-1", "2026-11-20T13:00:00+00:00", "0"),
                ("i-2", "2026-11-20T13:00:00+00:00", "0.76"),
                ("vol-1", "2026-11-20T13:00:00+00:00", "1"),
            )
        ]
        return Tally(window, tuple(by), tuple(rows), Money())


def test_an_hour_that_was_charged_at_nothing_has_its_price_elsewhere() -> None:
    window = Window(NOON + timedelta(minutes=20), NOON + timedelta(hours=2))
    types = {"i-2": "inf2.xlarge", "i-1": "trn1.32xlarge", "i-3": "trn1.32xlarge"}
    found = billed_hours(Hours(), types, window)
    assert {x: {hour: y.usd for hour, y in hours.items()} for x, hours in found.items()} == {
        "i-1": {NOON: Decimal("21.50")},
        "i-2": {NOON + timedelta(hours=1): Decimal("0.76")},
    }
