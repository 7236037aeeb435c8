"""What moving a cluster to another instance type would cost: the arithmetic, over the knowledge as it is."""

from dataclasses import replace
from decimal import Decimal

import pytest

from bot.answers.plan.comparison import (
    break_even_hours,
    compare,
    default_target,
    doubts,
    refusals,
)
from bot.answers.plan.fit import fp8_gain
from bot.costs.verdict import Verdict, like_for_like, stated_speeds
from bot.errors import WrongInput
from bot.model.anomaly import NodeState
from bot.model.causes import Cause
from bot.model.claims import ClaimKind
from bot.model.fleet import Market
from bot.model.price import Basis
from tests.answers.standing import CLAIMS, FALLBACK, P5, TRN1, TRN2, TYPES, price, standing, told
from tests.builders import quoted


def migration(quotes=FALLBACK, **changes):
    now = standing(**changes)
    speeds = stated_speeds(now.type, TRN2, TYPES, CLAIMS)
    sides = ([x for x in quotes if x.instance_type == kind.name] for kind in (now.type, TRN2))
    prices = like_for_like(*sides, {now.region})
    verdict = Verdict(now.type.name, TRN2.name, speeds, prices)
    return compare(now, TRN2, quoted(quotes), CLAIMS, verdict)


def factors(old, new):
    return Verdict(old.name, new.name, stated_speeds(old, new, TYPES, CLAIMS)).factors


def test_the_range_of_speeds_holds_every_voice_with_its_source():
    assert factors(TRN1, TRN2) == (2.0, 3.4, 4.0)
    assert all(speed.source for speed in stated_speeds(TRN1, TRN2, TYPES, CLAIMS))


def test_gpus_are_compared_by_cases_and_the_peak():
    found = stated_speeds(TYPES["p4d.24xlarge"], TRN1, TYPES, CLAIMS)
    assert factors(TYPES["p4d.24xlarge"], TRN1)[::2] == (0.85, 1.43)
    assert [speed.kind for speed in found].count(ClaimKind.PEAK) == 1
    assert [speed.kind for speed in stated_speeds(P5, TRN2, TYPES, CLAIMS)] == [ClaimKind.PEAK], (
        "no case is of these two"
    )


def test_a_smaller_node_does_its_share():
    one_chip, full = TYPES["trn1.2xlarge"], factors(TRN1, TRN2)
    assert factors(one_chip, TYPES["trn2.3xlarge"]) == full
    assert factors(one_chip, TRN2)[1] == pytest.approx(16 * full[1])


def test_of_types_that_no_source_compares_no_speed_is_stated():
    assert stated_speeds(TYPES["g5.xlarge"], TRN2, TYPES, CLAIMS) == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("trn1.32xlarge", "trn2.48xlarge"),
        ("trn1.2xlarge", "trn2.3xlarge"),
        ("p4d.24xlarge", "trn1.32xlarge"),
        ("p5.48xlarge", "trn2.48xlarge"),
    ],
)
def test_the_target_left_out_is_what_sources_compare(old, new):
    found = default_target(TYPES[old], TYPES, CLAIMS)
    assert found.chips == TYPES[new].chips
    assert found.family == TYPES[new].family


def test_a_type_without_voices_needs_a_target():
    with pytest.raises(WrongInput, match="No source compares g6 with another family"):
        default_target(TYPES["g6.xlarge"], TYPES, CLAIMS)


def test_the_same_work_costs_price_over_speed():
    option = migration().moves()[0]
    assert option.price.market is Market.CAPACITY_BLOCK
    assert [x.nodes for x in option.scenarios] == [32, 19, 16]
    assert option.scenarios[0].usd_per_hour == 32 * Decimal("35.7608")
    assert option.worst == pytest.approx(35.7608 / 21.50 / 2)
    assert option.best == pytest.approx(35.7608 / 21.50 / 4)


def test_the_advice_flips_with_how_the_hour_is_bought():
    found = migration()
    stay = found.stays()[0]
    assert (stay.price.market, stay.price.usd_per_hour) == (Market.CAPACITY_BLOCK, Decimal("9.532"))
    assert stay.middle < found.moves()[0].middle


def test_like_for_like_tells_what_the_chip_alone_changes():
    alike = migration().verdict
    assert {x.market for x in alike.prices} == {Market.CAPACITY_BLOCK}
    assert alike.ratios == pytest.approx((35.7608 / 9.532 / 4, 35.7608 / 9.532 / 2))
    dear = [x for x in FALLBACK if x.instance_type == "trn2.48xlarge"]
    assert migration(dear).verdict.ratios is None


def test_each_way_to_buy_is_quoted_once_from_what_it_rests_on_best():
    quotes = [
        price("30", "trn2.48xlarge", Market.CAPACITY_BLOCK, Basis.CAPACITY_BLOCK),
        price("14.56", "trn2.48xlarge", Market.SPOT, Basis.SPOT),
        price("20", "trn2.48xlarge", Market.SAVINGS_PLAN, Basis.BILLED),
        *FALLBACK,
    ]
    found = {x.price.market: x.price.usd_per_hour for x in migration(quotes).moves()}
    assert found == {
        Market.CAPACITY_BLOCK: 30,
        Market.SPOT: Decimal("14.56"),
        Market.SAVINGS_PLAN: 20,
    }


def test_a_price_of_another_region_is_said_to_be_elsewhere():
    found = migration(region="us-west-2")
    assert found.moves()[0].price.region == "us-east-2"
    assert any(
        "no known price in us-west-2, only in us-east-2" in words for words in found.cautions
    )


def test_without_a_price_of_the_target_the_cost_is_not_compared():
    found = migration([])
    assert found.options == ()
    assert any("No price of trn2.48xlarge" in words for words in found.cautions)


def test_commitments_and_less_memory_are_cautioned():
    found = migration(
        price=price(market=Market.SAVINGS_PLAN), type=replace(TRN1, accelerator_memory_gib=5000)
    )
    assert any("committed" in words for words in found.cautions)
    assert any("less accelerator memory" in words for words in found.cautions)


def test_vendor_texts_that_contradict_aws_come_along():
    assert any("$38.50" in x.vendor_says for x in migration().conflicts)


@pytest.mark.parametrize(("relative", "hours"), [(0.5, 40_000 / 688), (1.0, None), (1.3, None)])
def test_a_port_pays_only_when_something_is_saved(relative, hours):
    assert break_even_hours(Decimal(40_000), standing(), relative) == (
        hours and pytest.approx(hours)
    )


def test_fp8_is_bound_by_its_peak():
    assert fp8_gain(TRN2) == pytest.approx(1.94, abs=0.01)
    assert fp8_gain(TRN1) == 1
    assert fp8_gain(TYPES["p4d.24xlarge"]) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alerts": (told(Cause.STARVED),)}, "a faster chip would wait longer"),
        ({"alerts": (told(Cause.IDLE),)}, "stopping nodes saves more"),
        ({"alerts": (told(Cause.NETWORK_BOUND),)}, "the network limits it"),
        (
            {"states": {NodeState.IDLE: 40, NodeState.BUSY: 24}},
            "only 24 of 64 nodes work now (40 no runtime, 24 busy)",
        ),
        ({"utilization": None}, "no utilization was read"),
        ({"price": None}, "no price of trn1.32xlarge"),
    ],
)
def test_a_cluster_that_does_not_work_is_refused(changes, words):
    assert words in " ".join(refusals(standing(**changes)))


def test_a_busy_cluster_is_not_refused():
    assert refusals(standing()) == ()
    assert refusals(standing(states={NodeState.BUSY: 2, NodeState.IDLE: 2})) == ()
    assert refusals(standing(alerts=(told(Cause.SPEND_JUMP), told(Cause.IDLE, things=3)))) == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"utilization": 0.42}, "Utilization was 42 % over 24 hours, under 60 %"),
        ({"alerts": (told(Cause.IDLE, things=3),)}, "3 of 64 nodes are idle"),
        ({"other_types": ("c7i.large",)}, "also runs c7i.large"),
    ],
)
def test_what_speaks_against_is_said(changes, words):
    assert words in " ".join(doubts(standing(**changes), 0.6))


def test_an_alert_of_half_of_the_nodes_forbids_a_move_and_one_of_fewer_is_a_doubt():
    for things, forbids in ((32, True), (31, False)):
        now = standing(alerts=(told(Cause.IDLE, things=things),))
        assert (bool(refusals(now)), bool(doubts(now, 0.6))) == (forbids, not forbids), things
    # What an alert says of the nodes is not said again by their states.
    still = {"states": {NodeState.IDLE: 64}}
    assert len(refusals(standing(**still))) == 1
    assert len(refusals(standing(alerts=(told(Cause.IDLE),), **still))) == 1
    assert doubts(standing(utilization=0.6), 0.6) == doubts(standing(), 0.6) == ()


def test_the_ways_to_buy_stand_cheapest_first_and_to_stay_is_another_way_of_here():
    here, away = "us-east-2", "us-west-2"
    quotes = [
        price("21.50"),
        price("15.00", market=Market.SPOT),
        price("9.00", market=Market.CAPACITY_BLOCK, region=away),
        price("40.00", TRN2.name, Market.SPOT, region=away),
        price("60.00", TRN2.name),
    ]
    for some in (quotes, quotes[::-1]):
        found = migration(some)
        assert [x.middle for x in found.options] == sorted(x.middle for x in found.options)
        stays = [(x.price.market, x.price.region) for x in found.options if x.stays]
        assert stays == [(Market.SPOT, here)]

    def cautions(*some, **changes):
        return " ".join(migration(some, **changes).cautions)

    assert "no known price in us-east-2, only in us-west-2" in cautions(*quotes[:4])
    assert "no known price in" not in cautions(*quotes)
    assert "No price of trn2.48xlarge is known" in cautions(*quotes[:3])
    for market, committed in (
        (Market.SAVINGS_PLAN, True),
        (Market.RESERVED, True),
        (Market.ON_DEMAND, False),
    ):
        said = cautions(*quotes, price=price("21.50", market=market))
        assert ("Today's hours are committed" in said) is committed


def test_a_cluster_that_is_bought_in_two_ways_is_named_by_both_and_may_stay_in_either():
    mean = price("14.24", market=Market.SAVINGS_PLAN)
    plan = price("13.01", market=Market.SAVINGS_PLAN)
    bought = {Market.SAVINGS_PLAN: 53, Market.ON_DEMAND: 9}
    found = migration(
        quotes=[plan, price("35.76", TRN2.name)], nodes=62, price=mean, markets=bought
    )
    (stay,) = [option for option in found.options if option.stays]
    assert stay.middle == pytest.approx(13.01 / 14.24)
    assert any("The hours of 53 nodes are committed" in words for words in found.cautions)
