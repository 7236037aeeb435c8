"""Sizes, a year's cost, and footprints, against figures worked by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from bot.answers.fleet.carbon import Carbon, Factors, carbon_card
from bot.answers.plan.fit import ClusterUse
from bot.answers.plan.sizing import (
    HEADROOM,
    Leaner,
    fewer_nodes,
    fits,
    right_size_card,
    serving_size,
    smallest,
    training_gib,
)
from bot.answers.plan.tco import Work, total
from bot.costs.pricing import listed_price
from bot.knowledge import load_knowledge
from bot.model.fleet import Market
from bot.model.price import Basis
from bot.model.window import Window
from tests.builders import NOON, price

TYPES = load_knowledge().types()
TRN1, TRN2 = TYPES["trn1.32xlarge"], TYPES["trn2.48xlarge"]


def test_a_year_is_the_sum_of_four_lines():
    route = replace(load_knowledge().claims().transfer("internet"), usd_per_gb=Decimal("0.09"))
    work = Work(4, Decimal(500), 12, Decimal(1000), Decimal(10), route)
    stays = total(work, price("20.00"), 1.0, False, Decimal(0))
    moves = total(work, price("10.00"), 0.8, True, Decimal(50_000))
    assert (stays.instances, stays.egress, stays.compiling, stays.engineering) == (
        480_000,
        1_080,
        0,
        0,
    )
    assert (moves.instances, moves.egress, moves.compiling, moves.engineering) == (
        300_000,
        1_080,
        1_200,
        50_000,
    )
    assert moves.hours == 30_000, "slower takes more hours"
    assert moves.total == Decimal("352280.00")


@pytest.mark.parametrize("bill", ["0.01", "1.00", "1000.00", "99999.99"])
def test_the_arithmetic_holds_from_cents_to_ten_million(bill):
    route = load_knowledge().claims().transfer("internet")
    work = Work(100, Decimal(100), 1, Decimal(0), Decimal(0), route)
    assert total(work, price(bill), 1.0, False, Decimal(0)).total == Decimal(bill) * 10_000


def test_prices_of_the_region_then_the_best_founded_count():
    here, there, own = price("3", region="us-east-1"), price("2"), price("1", basis=Basis.BILLED)
    assert listed_price([here, there, own], Market.ON_DEMAND, "us-east-1") is here
    assert listed_price([there, own], Market.ON_DEMAND, "us-east-1") is own
    assert listed_price([there], Market.CAPACITY_BLOCK, "us-east-1") is None


def test_seven_billion_parameters_need_130_gib():
    assert training_gib(7e9) == pytest.approx(7e9 * 16 * 1.25 / 2**30)
    nodes = {x.type.name: x.nodes for x in fits(7e9, TYPES.values())}
    assert nodes == {"trn1.32xlarge": 1, "trn1n.32xlarge": 1, "trn2.48xlarge": 1}, (
        "one chip is too small, four nodes too many"
    )


def test_a_smaller_size_must_hold_the_memory_peak_and_the_work():
    one = TYPES["trn1.2xlarge"]
    assert smallest(use(peak_gib=25.0, utilization=0.05), (one, TRN1)) == one
    assert smallest(use(peak_gib=30.0, utilization=0.05), (one,)) is None, (
        "30 of 32 GiB leave no headroom"
    )
    assert smallest(use(peak_gib=25.0, utilization=0.10), (one,)) is None, (
        "a tenth of 16 chips is more than one chip"
    )


def test_serving_moves_from_trn1_and_trn2_but_never_from_trn3():
    for peak, used, name in ((20.0, 0.05, "inf2.xlarge"), (200.0, 0.3, "inf2.48xlarge")):
        assert serving_size(use(peak_gib=peak, utilization=used), TYPES.values()).name == name
    trn3 = replace(TRN2, name="trn3.48xlarge", family="trn3")
    assert serving_size(use(type=trn3), TYPES.values()) is None


def test_a_footprint_is_the_formula_and_unknown_stays_unknown():
    claims = load_knowledge().claims()
    found = Factors.stated(claims, 500, 0.143).of(TRN1, "us-west-2", 2_688)
    assert found.kwh == pytest.approx(2_688 * 16 * 500 * 1.14 / 1000)
    assert found.kg == pytest.approx(2_688 * 16 * 500 * 1.14 / 1000 * 0.143)
    assert found.spread == 0
    estimated = Factors.stated(claims).of(TRN1, "us-west-2", 1)
    assert estimated.watts * (1 - estimated.spread) == pytest.approx(90)
    assert estimated.watts * (1 + estimated.spread) == pytest.approx(175)
    unknown = replace(Factors.stated(claims), powers={}).of(TRN1, "us-west-2", 1)
    assert (unknown.kwh, unknown.kg) == (None, None)
    window = Window(NOON - timedelta(days=1), NOON)
    card = carbon_card(Carbon([found, unknown], window, Factors.stated(claims), {}, NOON.date()))
    assert card.title.endswith("for 2,688 of 2,689 node-hours; the rest is not known")
    assert "give a measured figure" in str(card.blocks)
    nowhere = Factors.stated(claims).of(TYPES["p5.48xlarge"], "eu-nowhere-1", 1)
    assert nowhere.kwh == pytest.approx(8 * 700 * 1.14 / 1000)
    assert nowhere.kg is None


def use(**more) -> ClusterUse:
    found = ClusterUse("c", TRN1, 10, "us-west-2", price("20"), 0.36, 0.0, 100.0, True, False)
    return replace(found, **more)


def test_a_size_is_filled_to_the_headroom_and_no_further():
    one = TYPES["trn1.2xlarge"]
    most = one.accelerator_memory_gib * HEADROOM
    busy = one.bf16_tflops * HEADROOM / TRN1.bf16_tflops
    for peak, used, holds in (
        (most, 0.01, True),
        (most + 0.1, 0.01, False),
        (1.0, busy - 1e-9, True),
        (1.0, busy + 1e-6, False),
    ):
        fits = smallest(use(peak_gib=peak, utilization=used), (TRN1, one))
        assert (fits is one) is holds, (peak, used)


def test_fewer_nodes_hold_the_larger_of_work_and_memory_with_headroom():
    assert fewer_nodes(use()) == 4, "3.6 nodes of work, filled to nine tenths"
    assert fewer_nodes(use(utilization=0.361)) == 5
    assert fewer_nodes(use(peak_gib=TRN1.accelerator_memory_gib * 0.72)) == 8
    assert fewer_nodes(use(utilization=0.0, peak_gib=0.0)) == 1
    assert fewer_nodes(use(type=TYPES["trn2u.48xlarge"])) == 4, "by the UltraServer of four"
    assert fewer_nodes(use(type=TYPES["trn2u.48xlarge"], utilization=0.37)) == 8
    assert [fewer_nodes(use(utilization=x)) for x in (0.81, 0.811, 1.0)] == [9, None, None]
    assert use(utilization=None).unread
    assert [use(spread=x).busiest for x in (0.1, 0.9, None)] == [pytest.approx(0.56), 1.0, 0.36]


def test_that_jobs_must_be_packed_is_said_of_fewer_nodes_alone():
    fewer = Leaner(use(), TRN1, 4, price("20"))
    small = Leaner(use(), TYPES["trn1.2xlarge"], 10, price("1.34"))
    said = [
        "can be packed" in str(right_size_card(some).blocks)
        for some in ((fewer,), (small,), (small, fewer), (Leaner(use()),))
    ]
    assert said == [True, False, True, False]
    assert right_size_card([Leaner(use())]).title == "No cluster fits on less"
