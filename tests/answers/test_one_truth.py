"""Answers that compare types say one thing: the same price, region and speed in each of them."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from bot.cards.card import Table
from bot.model.fleet import Market
from tests.answers.advice_world import (
    ACCOUNT,
    CHIPS,
    CLAIMS,
    GPUS,
    OFFERED,
    RUNS,
    TYPES,
    World,
    ask,
    quote,
    words,
)

# tco p5 trn1


def test_tco_p5_trn1_takes_the_speed_of_the_accounts_own_runs() -> None:
    """36 against 60 million tokens a node-hour is 0.6x: a year of one p5 node is 8,760 / 0.6 hours of trn1."""
    card = ask(ACCOUNT, "tco p5.48xlarge trn1.32xlarge")
    old, new = card.data["options"]
    assert new["speed"] == pytest.approx(36 / 60)
    assert old["instances_usd"] == Decimal("55.04") * 8760
    assert new["instances_usd"] == Decimal("21.50") * 14600
    assert new["compiling_usd"] == Decimal("21.50") * 120
    assert new["engineering_usd"] == Decimal("33333.33")
    assert new["total_usd"] == Decimal("21.50") * 14720 + Decimal("33333.33")
    assert "as your own runs measured it" in words(card)
    assert "Not used, because your own runs measured it: 0.38x" in words(card)


def test_tco_p5_trn1_buys_both_in_one_region() -> None:
    listed = (
        quote("p5.48xlarge", "55.04", "us-east-2"),
        quote("trn1.32xlarge", "21.50", "us-west-2"),
    )
    for line in (
        "tco p5.48xlarge trn1.32xlarge",
        "tco p5.48xlarge trn1.32xlarge buy=capacity-block",
    ):
        regions = {
            x["region"] for x in ask(World(GPUS, CHIPS, quotes=listed), line).data["options"]
        }
        assert len(regions) == 1, line


def test_tco_p5_trn1_never_takes_tokyos_price_of_p5() -> None:
    """Tokyo's block of p5 is 37.76; in us-east-2, where trn2 is sold, it is 41.528."""
    old, new = ask(ACCOUNT, "tco p5.48xlarge trn2.48xlarge buy=capacity-block speed=1.5").data[
        "options"
    ]
    assert (old["region"], old["usd_per_hour"]) == ("us-east-2", Decimal("41.528"))
    assert (new["region"], new["usd_per_hour"]) == ("us-east-2", Decimal("36.10"))


def test_tco_says_where_no_region_sells_both() -> None:
    told = words(ask(ACCOUNT, "tco trn1.32xlarge trn2.48xlarge buy=savings-plan"))
    assert (
        "No savings-plan price of trn1.32xlarge is known; try buy=on-demand or capacity-block."
        in told
    )
    told = words(ask(ACCOUNT, "tco trn2.3xlarge trn2.48xlarge buy=capacity-block"))
    assert "Prices of two regions are not compared" in told
    assert "trn2.3xlarge in ap-southeast-4, sa-east-1; trn2.48xlarge in us-east-2" in told
    assert "Prices of two regions are not compared" in words(
        ask(ACCOUNT, "tco p5.48xlarge trn1.32xlarge region=eu-west-1")
    )


@pytest.mark.parametrize(
    ("line", "port"),
    [
        ("tco trn1.32xlarge trn2.48xlarge buy=capacity-block", Decimal(0)),
        ("tco trn1.32xlarge trn1n.32xlarge", Decimal(0)),
        ("tco trn1.32xlarge trn1n.32xlarge engineering_usd=500", Decimal(500)),
        ("tco p4d.24xlarge trn1.32xlarge", (Decimal(2) * 200_000 / 12).quantize(Decimal("0.01"))),
        ("tco p4d.24xlarge p5.48xlarge", Decimal(0)),
    ],
)
def test_tco_charges_no_port_from_neuron_to_neuron(line: str, port: Decimal) -> None:
    assert [x["engineering_usd"] for x in ask(ACCOUNT, line).data["options"]][1:] != []
    assert {x["engineering_usd"] for x in ask(ACCOUNT, line).data["options"][1:]} == {port}


@pytest.mark.parametrize(
    "line", ["p4d.24xlarge trn1.32xlarge", "trn1.32xlarge trn2.48xlarge buy=capacity-block"]
)
def test_tco_has_no_speed_that_no_source_states(line: str) -> None:
    """The median of 0.85, 1.15, 1.22 and 1.43 was 1.18: nobody said it."""
    old, new = (name.partition(".")[0] for name in line.split()[:2])
    stated = {x.factor for x in CLAIMS.speedups if (x.from_family, x.to_family) == (old, new)}
    peak = TYPES["trn1.32xlarge"].bf16_tflops / TYPES["p4d.24xlarge"].bf16_tflops
    shown = {x["speed"] for x in ask(ACCOUNT, f"tco {line}").data["options"][1:]}
    assert not [x for x in shown - stated if not math.isclose(x, peak)]
    assert len(shown) >= 3


def test_migrate_has_no_middle_that_no_source_states() -> None:
    card = ask(
        World(("old", "p4d.24xlarge", "us-east-1", 4, 0.9, 100.0)), "migrate old to trn1.32xlarge"
    )
    speed = card.data["speedup"]
    assert speed["mid"] in [x["factor"] for x in speed["voices"]]


def test_a_family_is_its_full_node() -> None:
    assert [x["instance_type"] for x in ask(ACCOUNT, "tco p5 trn1").data["options"]] == [
        "p5.48xlarge",
        "trn1.32xlarge",
    ]


def test_runs_of_another_model_or_type_are_no_speed() -> None:
    other = World(GPUS, CHIPS, runs=(RUNS[0], ("on-chips", "llama", 36e6, 7e9)))
    assert ask(other, "tco p5.48xlarge trn1.32xlarge").data["options"][1]["speed"] == pytest.approx(
        3040 / 7912
    )
    assert ask(ACCOUNT, "tco p5.48xlarge p4d.24xlarge").data["options"][1][
        "speed"
    ] == pytest.approx(2496 / 7912)


def test_runs_of_one_size_are_one_speed_and_a_shared_cluster_is_none() -> None:
    """Two runs share the GPUs: whose tokens are whose nobody knows. One more on chips of its own is summed with the first."""
    shared = World(GPUS, CHIPS, runs=(*RUNS, ("also-on-gpus", "gpus", 10e6, 70e9)))
    assert ask(shared, "tco p5 trn1").data["options"][1]["speed"] == pytest.approx(3040 / 7912)
    more = ("more", "trn1.32xlarge", "us-west-2", 4, 0.9, 100.0)
    summed = World(GPUS, CHIPS, more, runs=(*RUNS, ("more-on-chips", "more", 24e6, 70.2e9)))
    card = ask(summed, "tco p5 trn1")
    assert [x["speed"] for x in card.data["options"][1:]] == [pytest.approx((36 + 24) / 2 / 60)]
    assert "2 runs gained" in words(card)


# one price of trn2.48xlarge


def test_trn2_48xlarge_has_one_price_in_migrate_size_tco_and_capacity() -> None:
    """The cluster runs in us-west-2, where no trn2 is sold: migrate took the fallback of July there, size the offering."""
    migrate = ask(ACCOUNT, "migrate llama to trn2.48xlarge").data
    told = {
        "migrate": next(
            x["node_usd_per_hour"]
            for x in migrate["options"]
            if x["instance_type"] == "trn2.48xlarge"
        ),
        "tco": ask(ACCOUNT, "tco trn1 trn2 buy=capacity-block").data["options"][1]["usd_per_hour"],
        "capacity": ask(ACCOUNT, "capacity trn2.48xlarge").data["ways"][0]["usd_per_hour"],
    }
    size = ask(ACCOUNT, "size 70B")
    table = next(block for block in size.blocks if isinstance(block, Table))
    row = next(row for row in table.rows if row[0] == "trn2.48xlarge")
    assert row[3:] == ("$36.10", "Nov 17, 2026, capacity-block, us-east-2")
    assert told == dict.fromkeys(told, Decimal("36.10"))


def test_like_for_like_compares_both_types_in_one_region() -> None:
    """In us-east-2 a block of trn1 is 9.532 by the fallback: 36.10 / 9.532 / 4 to / 2."""
    quotes = (OFFERED, quote("trn1.32xlarge", "5.00", "us-west-2", Market.CAPACITY_BLOCK))
    there = ("moved", "trn1.32xlarge", "us-east-2", 4, 0.9, 400.0)
    alike = ask(World(CHIPS, there, quotes=quotes), "migrate llama")
    assert "both as capacity block in us-east-2" in words(alike)
    assert alike.data["verdict"]["best"] == pytest.approx(36.10 / 9.532 / 4, abs=1e-4)
    assert alike.data["verdict"]["worst"] == pytest.approx(36.10 / 9.532 / 2, abs=1e-4)

    # A block of a region that the account is not in is no offer to its fleet.
    away = ask(World(CHIPS, quotes=quotes), "migrate llama")
    assert (away.data["verdict"]["cheaper"], away.data["verdict"]["best"]) == (None, None)
    assert "Which costs less for the same work is not known" in words(away)
