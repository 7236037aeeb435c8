"""A summary says before a launch fails that its quota leaves no room."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import permutations

import pytest

from bot.answers.about.digest import Week, digest_card
from bot.answers.about.summary import Part, Summary, summary_card, summary_data, summary_lines
from bot.answers.plan.capacity import (
    LOOKED,
    Demand,
    Ways,
    capacity_card,
    launch_verdict,
    quota_card,
    refused_of,
    refused_text,
    room_words,
    tight_quotas,
    use_of,
)
from bot.cards.card import Table, Tone
from bot.cards.words import PriceAge
from bot.knowledge import load_knowledge
from bot.model.fleet import Inventory, Market, Quota, Refusal, Scarcity
from bot.model.labels import Labels
from bot.model.notification import Coverage
from bot.model.window import Window
from bot.policy.schema import default_policy
from tests.builders import NOON, instance, price, reading

TYPES = load_knowledge().types()


def summary(vcpus: float) -> Summary:
    """Return a summary of four running nodes of 128 vCPU under a quota of so many."""
    inventory = reading().inventory
    kinds = {x.labels.instance_type for x in inventory.instances.values()}
    assert {TYPES[name].vcpus for name in kinds} == {128}
    quota = Quota("On-Demand Trn", "L-1", Labels(), ("trn",), Market.ON_DEMAND, vcpus, NOON)
    inventory = replace(inventory, quotas=(quota,), types=TYPES)
    return Summary(NOON, (), Coverage(), tight=tight_quotas(inventory))


@pytest.mark.parametrize(("vcpus", "tight"), [(512, True), (639, True), (640, False)])
def test_a_summary_warns_where_one_more_node_would_be_refused(vcpus: float, tight: bool) -> None:
    of = summary(vcpus)
    words = str(summary_card(of).blocks)
    assert (f"512 of {vcpus} vCPU of On-Demand Trn" in words) is tight
    assert ("the next launch would be refused" in words) is tight
    assert ("tight_quotas" in summary_data(of)) is tight


def test_a_digest_warns_as_the_summary_does() -> None:
    week = Window(NOON - timedelta(days=7), NOON)
    card = digest_card(Week(week, (), (), tight=summary(512).tight))
    assert "the next launch would be refused" in str(card.blocks)
    assert card.data["tight_quotas"]
    assert "refused" not in str(digest_card(Week(week, (), ())).blocks)


@pytest.mark.parametrize(
    ("nodes", "title"),
    [
        (3, "3 more trn1.32xlarge fit the quota of us-west-2"),
        (4, "4 more trn1.32xlarge would be refused: room for 3 in us-west-2"),
    ],
)
def test_whether_so_many_more_fit(nodes: int, title: str) -> None:
    """Four nodes of 128 vCPU run; spot has a quota of its own, which no on-demand node uses."""
    limits = ((Market.ON_DEMAND, 7 * 128 + 127), (Market.SPOT, 99_999))
    inventory = replace(reading().inventory, types=TYPES)
    quotas = [
        Quota("Trn", "L-1", Labels(region="us-west-2"), ("trn",), market, vcpus, NOON)
        for market, vcpus in limits
    ]
    uses = [use_of(quota, inventory, "trn1.32xlarge") for quota in quotas]
    assert quota_card(uses, "trn1.32xlarge", nodes).title == title


def test_the_money_of_a_summary_tells_no_quota() -> None:
    assert "refused" not in str(list(summary_lines(summary(512), Part.MONEY)))


def limit(name: str, vcpus: float, **labels: str) -> Quota:
    return Quota(name, f"L-{name}", Labels(**labels), ("trn",), Market.ON_DEMAND, vcpus, NOON)


def test_a_quota_counts_what_is_pending_or_runs_of_its_region_market_and_families() -> None:
    node = instance("i")
    kinds = {
        "small": {"labels": replace(node.labels, instance_type="trn1.2xlarge")},
        "large": {"labels": replace(node.labels, instance_type="trn2.48xlarge")},
        "new": {"labels": replace(node.labels, instance_type="trn9.48xlarge")},
        "pending": {"state": "pending"},
        "stopped": {"state": "stopped"},
        "spot": {"market": Market.SPOT},
        "east": {"labels": replace(node.labels, region="us-east-2")},
        "gpu": {"labels": replace(node.labels, instance_type="p5.48xlarge")},
    }
    found = {name: replace(node, **more) for name, more in kinds.items()}
    use = use_of(limit("Trn", 500, region="us-west-2"), Inventory(NOON, found, types=TYPES))
    # The largest use stands first, and what no table knows counts for nothing and is named.
    order = ("trn2.48xlarge", "trn1.32xlarge", "trn1.2xlarge", "trn9.48xlarge")
    assert use.running == tuple((name, 1) for name in order)
    assert use.unknown == ("trn9.48xlarge",)
    assert use.used == sum(TYPES[name].vcpus for name in order[:3])
    assert (use.free, use.share) == (500 - use.used, use.used / 500)
    assert replace(use, quota=limit("Trn", 0)).share == replace(use, quota=limit("T", 9)).free == 0


def test_tight_quotas_stand_with_the_most_used_first_and_say_how_many_more_there_are() -> None:
    nodes = {f"i{n}": instance(f"i{n}") for n in range(3)}
    nodes["e"] = replace(nodes["i0"], labels=replace(nodes["i0"].labels, region="us-east-2"))
    quotas = (
        limit("east", 128, region="us-east-2"),
        limit("b", 384, region="us-west-2"),
        limit("a", 384, region="us-west-2"),
        limit("roomy", 9_999, region="us-west-2"),
        limit("unused", 64, region="eu-north-1"),
    )
    for some in list(permutations(quotas))[::13]:
        tight = tight_quotas(Inventory(NOON, nodes, quotas=some, types=TYPES))
        assert [use.quota.name for use in tight] == ["a", "b", "east"]
    assert ", and by 2 more quotas" in str(room_words(tight))
    assert "384 of 384 vCPU of a run in us-west-2" in str(room_words(tight))
    assert "and by" not in str(room_words(tight[:1]))


def test_a_quota_of_types_that_no_table_knows_is_tight_from_nine_tenths_on() -> None:
    use = replace(use_of(limit("a", 1000), Inventory(NOON)), used=900)
    titles = [quota_card([replace(use, used=used)]).title for used in (0, 899, 900)]
    assert titles == ["Quotas leave room"] * 2 + ["1 quota leaves no room for one more node"]


def test_the_room_of_the_roomiest_region_is_named_and_every_region_that_fits() -> None:
    quotas = [
        limit(region, vcpus, region=region)
        for region, vcpus in (("us-west-2", 128), ("eu-north-1", 384), ("ap-south-1", 256))
    ]
    kind = "trn1.32xlarge"
    uses = [use_of(quota, Inventory(NOON, types=TYPES), kind) for quota in quotas]
    for some in permutations(uses):
        assert launch_verdict(some, kind, 2) == (
            Tone.GOOD,
            "2 more trn1.32xlarge fit the quota of ap-south-1, eu-north-1",
        )
        assert launch_verdict(some, kind, 4) == (
            Tone.WARNING,
            "4 more trn1.32xlarge would be refused: room for 3 in eu-north-1",
        )


def test_quotas_that_nothing_uses_are_folded_unless_they_are_of_the_chips_that_are_watched() -> (
    None
):
    used = replace(use_of(limit("used", 1000), Inventory(NOON)), used=100)
    chips = use_of(limit("chips", 1000), Inventory(NOON))
    other = replace(chips, quota=replace(chips.quota, name="other", families=("p",)))

    def names(*uses, kind=""):
        (table,) = (x for x in quota_card(uses, kind).blocks if isinstance(x, Table))
        return [row[0] for row in table.rows], table.rest

    folded = "and 1 more quotas without running instances"
    assert names(used, chips, other) == (["used", "chips"], folded)
    assert names(other) == (["other"], "")
    assert names(used, other, kind="p5.48xlarge") == (["used", "other"], "")


def refusal(name: str, at, zone: str = "us-west-2a", kind: str = "trn1.32xlarge") -> Refusal:
    return Refusal(name, at, Labels(region="us-west-2", zone=zone, instance_type=kind), False)


def test_refusals_of_the_type_alone_count_for_seven_days() -> None:
    refusals = (
        refusal("first", NOON - LOOKED),
        refusal("late", NOON - timedelta(hours=5)),
        refusal("old", NOON - LOOKED - timedelta(seconds=1)),
        refusal("other", NOON, kind="trn2.48xlarge"),
    )
    kind = "trn1.32xlarge"
    zones = refused_of(replace(reading(), refusals=refusals), kind) or ()
    (zone,) = zones
    assert (zone.refused, zone.first, zone.newest) == (2, NOON - LOOKED, refusals[1].at)
    assert "last 5 h ago" in str(refused_text(zones, kind, NOON))
    assert refused_of(replace(reading(), refusals=None), kind) is None
    assert refused_of(replace(reading(), refusals=()), kind) == ()
    assert "No request" in str(refused_text((), kind, NOON))


@pytest.mark.parametrize(
    ("spot", "words"), [(0, "a 4, last"), (3, "3 on spot"), (4, "all on spot")]
)
def test_how_many_of_the_refused_were_on_spot_is_said(spot: int, words: str) -> None:
    zone = Scarcity("trn1.32xlarge", "a", 4, spot, NOON, NOON)
    assert words in str(refused_text((zone,), "trn1.32xlarge", NOON))


def test_ways_to_capacity_stand_cheapest_first_and_the_title_quotes_the_cheapest_sure_one() -> None:
    block, listed, spot = (
        price(usd, market)
        for usd, market in (
            ("9.00", Market.CAPACITY_BLOCK),
            ("20.00", Market.ON_DEMAND),
            ("5.00", Market.SPOT),
        )
    )
    age = PriceAge.on(NOON, default_policy())

    def card(*prices, days=10, used="0.5"):
        ways = Ways(prices, None, NOON)
        return capacity_card(Demand("trn1.32xlarge", 2, days, Decimal(used)), ways, age)

    drawn = card(listed, spot, block)
    (table,) = (x for x in drawn.blocks if isinstance(x, Table))
    assert [row[1] for row in table.rows] == ["$5.00", "$9.00", "$20.00"]
    # An hour in use costs twice as much where half of the paid ones are used; spot bills those alone.
    assert [row[3] for row in table.rows] == ["$5.00", "$18.00", "$40.00"]
    assert drawn.title.endswith("from $4,320 (capacity block)")
    assert card(spot).title.endswith("from $1,200 (spot)")
    assert ["two in succession" in str(card(*x).blocks) for x in ([block], [listed])] == [
        False,
        False,
    ]
    long = [
        "two in succession" in str(card(*x, days=n).blocks)
        for x, n in (([block], 182), ([block], 183), ([listed], 183))
    ]
    assert long == [False, True, False]
