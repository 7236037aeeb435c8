"""Which size holds a model or a cluster, how a node fits it, and what it emits, against figures worked by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from bot.model.fleet import Inventory
from tests.answers.advice_world import (
    ACCOUNT,
    CHIPS,
    GPUS,
    OFFERED,
    RUNS,
    TYPES,
    World,
    ask,
    words,
)
from tests.builders import NOON

DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("size", "title", "advised", "nodes"),
    [
        ("1B", "1 billion parameters: 1 x trn1.2xlarge holds them", "trn1.2xlarge", 1),
        ("7B", "7 billion parameters: 1 x trn1.32xlarge holds them", "trn1.32xlarge", 1),
        ("70B", "70 billion parameters: 1 x trn2.48xlarge holds them", "trn2.48xlarge", 1),
        (
            "100B",
            "100 billion parameters: 1 UltraServer (4 x trn2u.48xlarge) holds them",
            "trn2u.48xlarge",
            4,
        ),
        (
            "1T",
            "1 trillion parameters: 4 UltraServers (16 x trn2u.48xlarge) hold them",
            "trn2u.48xlarge",
            16,
        ),
    ],
)
def test_size_70b_and_1t_say_what_their_own_notes_recommend(
    size: str, title: str, advised: str, nodes: int
) -> None:
    """20 bytes a parameter: 1 T need 18,626 GiB, and an UltraServer of 64 chips has 6,144."""
    card = ask(ACCOUNT, f"size {size}")
    assert card.title == title
    assert (card.data["fits"][0]["instance_type"], card.data["fits"][0]["nodes"]) == (
        advised,
        nodes,
    )


def test_ultraservers_are_sold_whole_and_single_chips_are_not_joined() -> None:
    for size in ("7B", "70B", "100B", "1T", "3T"):
        for fit in ask(ACCOUNT, f"size {size}").data["fits"]:
            assert fit["nodes"] % TYPES[fit["instance_type"]].sold_in == 0
            assert TYPES[fit["instance_type"]].chips > 1 or fit["nodes"] == 1


def test_size_advises_fewer_nodes_of_a_cluster_that_is_23_percent_busy() -> None:
    """F6: 10 nodes at 23 % of compute and 60 of 512 GiB fit on 10 x 0.23 / 0.9 = 2.6, so 3; 7 x $21.50 x 730 are saved."""
    world = World(("lazy", "trn1.32xlarge", "us-east-1", 10, 0.23, 60.0))
    (found,) = ask(world, "size lazy").data["clusters"]
    assert (found["fits"], found["fits_nodes"]) == ("trn1.32xlarge", 3)
    assert found["saves_usd_per_month"] == Decimal("21.50") * 7 * 730
    (full,) = ask(World(("full", "trn1.32xlarge", "us-east-1", 10, 0.23, 460.0)), "size full").data[
        "clusters"
    ]
    assert full["fits_nodes"] is None, "460 of 512 GiB on each: fewer nodes do not hold them"


def test_size_counts_the_nodes_that_run() -> None:
    world = World(("lazy", "trn1.32xlarge", "us-east-1", 10, 0.23, 60.0))
    nodes = dict(world.reading.inventory.instances)
    for name in ("i-lazy0", "i-lazy1"):
        nodes[name] = replace(nodes[name], state="terminated", ended_at=NOON - DAY)
    world.reading = replace(world.reading, inventory=Inventory(NOON, nodes))
    (found,) = ask(world, "size lazy").data["clusters"]
    assert found["nodes"] == 8


# migrate: fit, precision, first compile


def test_migrate_fits_by_memory_bandwidth_precision_and_share_of_matmuls() -> None:
    """F2: trn2 has 10700 / 3040 of the peak, 46.4 / 12.8 TB/s; FP8 makes 70 % of a step 20800 / 10700 times as fast."""
    card = ask(
        World(CHIPS, quotes=(OFFERED,)), "migrate llama to trn2.48xlarge precision=bf16 matmul=70"
    )
    fit, (bound,) = card.data["fit"], card.data["fit"]["by_matmul"]
    assert fit["memory_bandwidth_ratio"] == pytest.approx(46.4 / 12.8)
    assert bound["speedup"] == pytest.approx(1 / (0.7 * 3040 / 10700 + 0.3 * 12.8 / 46.4))
    assert bound["fp8_gain_most"] == pytest.approx(1 / (0.3 + 0.7 * 10700 / 20800))
    assert "FP8 suits it" in words(card)
    assert "verify that the loss still converges" in words(card)
    assert "matmul is a share of 0 to 100 percent" in words(
        ask(World(CHIPS), "migrate llama matmul=170")
    )
    already = ask(
        World(CHIPS, quotes=(OFFERED,)), "migrate llama to trn2.48xlarge precision=fp8"
    ).data["fit"]["by_matmul"]
    assert {x["fp8_gain_most"] for x in already} == {None}


def test_migrate_prices_the_first_compile_on_the_cheapest_node_of_the_chip() -> None:
    """F14: a trn2.3xlarge costs $2.24 an hour in a Capacity Block, the trn2.48xlarge $36.10."""
    card = ask(World(CHIPS, quotes=(OFFERED,)), "migrate llama to trn2.48xlarge")
    assert (
        "compile on one trn2.3xlarge (neuron_parallel_compile: $2.24 an hour, capacity block in"
        in words(card)
    )
    assert "121 days old" in words(card)


def test_migrate_takes_the_speed_of_the_accounts_own_runs() -> None:
    card = ask(ACCOUNT, "migrate gpus to trn1.32xlarge")
    assert card.data["speedup"]["voices"][0]["kind"] == "measured"
    assert card.data["speedup"]["mid"] == pytest.approx(0.6)
    assert "-" not in card.title.partition("for ")[2].partition(" %")[0], "one speed is no range"


# carbon


def test_carbon_says_in_its_title_how_sure_it_is() -> None:
    """2 of 6 nodes have their maker's watts: 48 node-hours x 8 x 700 W x 1.14 x 0.416 kg a kWh."""
    card = ask(ACCOUNT, "carbon 1d")
    kg = 48 * 8 * 700 / 1000 * 1.14 * 0.416
    guessed = sum(x["kg"] for x in card.data["rows"] if x["instance_type"].startswith("trn1"))
    assert card.data["kg"] == pytest.approx(kg + guessed)
    low, high = kg + guessed * 90 / 132.5, kg + guessed * 175 / 132.5
    assert card.title.endswith(f"{low:,.0f} to {high:,.0f} kg CO2e, an estimate")
    assert "Trainium1: 90 to 175 W (unverified estimates of third parties" in words(card)
    assert "the Sustainability service estimates emissions" in words(card)
    whole = ask(World(GPUS), "carbon 1d")
    assert whole.title.endswith(f"about {kg:,.0f} kg CO2e, an estimate")


def test_carbon_is_asked_for_one_training_run() -> None:
    """K1: 24 hours of 2 nodes."""
    card = ask(ACCOUNT, "carbon run=on-gpus")
    assert card.data["kg"] == pytest.approx(2 * 24 * 8 * 700 / 1000 * 1.14 * 0.416)
    assert "No run called 'nope'" in words(ask(ACCOUNT, "carbon run=nope"))


def test_carbon_of_a_run_is_of_its_own_clusters_region() -> None:
    """A run does not tell its region, and another cluster of the same type stands on a cleaner grid."""
    north = ("north", "p5.48xlarge", "eu-north-1", 1, 0.9, 100.0)
    card = ask(World(north, GPUS, runs=RUNS[:1]), "carbon run=on-gpus")
    assert [row["region"] for row in card.data["rows"]] == ["us-east-2"]
    both, caution = ask(World(north, GPUS), "carbon 1d"), "compare regions only within one measure"
    assert caution in words(both), "one grid counts its direct emissions, the other its life cycle"
    assert caution not in words(card)
    assert "eu-north-1: 0.041 kg a kWh" in words(both)
    assert "eu-north-1" not in words(card)
    assert "Trainium1:" not in words(both), "no power is cited of a chip that did not run"


def test_carbon_compares_chips_by_cited_watts() -> None:
    """K2: 700 W for 989 TFLOPS against 500 W for the 667 that Neuron documents, not 10700 / 16."""
    card = ask(World(GPUS, ("big", "trn2.48xlarge", "us-east-2", 1, 0.5, 1.0)), "carbon 1d")
    assert "H100 | 700 W | 989 | 0.71 W" in words(card)
    assert "Trainium2 | 500 W | 667 | 0.75 W" in words(card)
