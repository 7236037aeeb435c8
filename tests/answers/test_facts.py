"""Facts are dated, name what was read, and say on their card when they are old."""

from __future__ import annotations

import csv
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from importlib.resources import files

import botocore.session
import pytest

from bot.cards.card import Tone
from bot.knowledge import load_knowledge
from bot.model.fleet import Market
from bot.model.price import Basis
from tests.answers.advice_world import (
    ACCOUNT,
    CHIPS,
    CLAIMS,
    GPUS,
    OFFERED,
    TYPES,
    World,
    ask,
    quote,
    words,
)
from tests.builders import NOON
from tests.cases import in_one_run

ROOT = files("bot.knowledge")


def rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((ROOT / name).read_text(encoding="utf-8").splitlines()))


def test_the_newest_pue_is_of_2025() -> None:
    assert [(x.ratio, x.asof.year) for x in CLAIMS.pues] == [(1.14, 2025)]


def test_grid_factors_come_from_publishers_whose_figures_may_be_kept() -> None:
    grids = {x.region: x for x in CLAIMS.grids}
    assert {x.licence for x in CLAIMS.grids} == {"public domain", "CC BY 4.0"}
    assert all(x.read and x.counts for x in CLAIMS.grids)
    assert "Electricity Maps" not in (ROOT / "grids.csv").read_text(encoding="utf-8")
    assert not {"ca-central-1", "ca-west-1"} & set(
        grids
    )  # no figure of Quebec or Alberta was read: the card says so


def test_factors_of_the_usa_are_egrids_pounds_a_megawatt_hour() -> None:
    pounds = {"us-east-1": 596.3, "us-east-2": 916.1, "us-west-1": 430.0, "us-west-2": 635.3}
    found = {x.region: x for x in CLAIMS.grids if x.licence.startswith("public domain")}
    assert {region: x.kg_per_kwh for region, x in found.items()} == {
        region: round(lb * 0.45359237 / 1000, 3) for region, lb in pounds.items()
    }
    assert all(f" {lb} lb CO2e a MWh" in found[region].source for region, lb in pounds.items())


def test_regions_are_those_that_botocore_has_endpoints_of() -> None:
    session = botocore.session.get_session()
    partitions = ("aws", "aws-cn", "aws-us-gov", "aws-eusc")
    every = {
        (region, name)
        for name in partitions
        for region in session.get_available_regions("ec2", partition_name=name)
    }
    assert every <= {(row["region"], row["partition"]) for row in rows("regions.csv")}


# notes and speed-ups


def test_fifteen_days_are_sooner_not_of_work() -> None:
    told = words(ask(ACCOUNT, "roadmap"))
    assert "15 days sooner" in told
    assert "15 days of work" not in told


def test_no_case_of_trn1_and_no_hypothetical_stands_for_p5_to_trn2() -> None:
    assert not [x for x in CLAIMS.speedups if x.from_family.startswith("p5")]
    assert not any("20 % slower" in x.says for x in CLAIMS.speedups)
    assert ask(World(GPUS, quotes=(OFFERED,)), "migrate gpus").data["to"] == "trn2.48xlarge", (
        "savings are claimed for them"
    )


def test_a_digest_suggests_the_moves_that_the_account_itself_measured_and_paid_for() -> None:
    """What `migrate` praises by others' word alone is an answer, and is not volunteered."""
    hours = [
        quote(kind, usd, "us-east-2", basis=Basis.BILLED)
        for kind, usd in (("p5.48xlarge", "55.04"), ("trn2.48xlarge", "40.00"))
    ]
    frontier = ("frontier", "trn2.48xlarge", "us-east-2", 4, 0.9, 400.0)
    runs = (("on-gpus", "gpus", 40e6, 70e9), ("on-frontier", "frontier", 70e6, 70e9))
    digest = ask(World(GPUS, frontier, quotes=hours, runs=runs), "digest")
    (move,) = digest.data["suggested"]
    assert (move["kind"], move["subject"]) == ("another type", "gpus")
    assert 0 < move["low_usd"] <= move["usd_per_month"] <= move["high_usd"]
    assert "Move gpus to trn2.48xlarge: costs less" in words(digest)

    praised, alone = World(GPUS, quotes=(OFFERED,)), World(CHIPS, quotes=())
    assert ask(praised, "migrate gpus").tone is Tone.GOOD
    assert ask(alone, "migrate llama").tone is not Tone.GOOD
    assert ask(praised, "digest").data["suggested"] == []
    assert ask(alone, "digest").data["suggested"] == []


# facts


@in_one_run
@pytest.mark.parametrize(
    "name",
    sorted(x.name for x in ROOT.iterdir() if x.name.endswith(".csv") and x.name != "figures.csv"),
)
def test_each_row_says_what_was_read(name: str) -> None:
    for row in rows(name):
        assert "not read" not in row["source"], row
        assert "widely known" not in row["source"], row


def test_blocks_of_p5_p4d_and_p6_and_hours_of_g5_and_g6_have_prices() -> None:
    prices = load_knowledge().fallback_prices()
    blocks = {x.instance_type for x in prices if x.market is Market.CAPACITY_BLOCK}
    assert blocks >= {"p5.48xlarge", "p4d.24xlarge", "p6-b200.48xlarge"}
    demand = {x.instance_type: x.usd_per_hour for x in prices if x.market is Market.ON_DEMAND}
    assert {name for name in TYPES if name.startswith(("g5.", "g6."))} <= set(demand)
    assert (demand["g5.48xlarge"], demand["g6.xlarge"]) == (Decimal("16.288"), Decimal("0.8048"))


KINDS = [
    ("programmes", 180, "credits"),
    ("speedups", 365, "tco trn1 trn2 buy=capacity-block"),
    ("notes", 365, "roadmap"),
    ("packages", 365, "cuda flash-attn"),
    ("savings", 365, "migrate gpus to trn2.48xlarge"),
    ("conflicts", 365, "migrate gpus to trn2.48xlarge"),
    ("transfers", 365, "tco p5 trn1"),
    ("grids", 550, "carbon 1d"),
    ("pues", 550, "carbon 1d"),
    (
        "questions",
        730,
        "decide standard=yes stable=yes repeated=yes pytorch=yes spend=yes control_flow=no rl=no gnn=no moe=no cuda_only=no fastest=no on_aws=yes",
    ),
    ("chips", 730, "wait"),
    ("efforts", 730, "breakeven 20000"),
    ("powers", 1095, "carbon 1d"),
]


class Aged:
    """The facts of this installation, one kind of them as old as the test says."""

    def __init__(self, kind: str, days: int) -> None:
        self.real, self.kind, self.asof = load_knowledge(), kind, NOON.date() - timedelta(days=days)

    def __getattr__(self, name: str):
        return getattr(self.real, name)

    def claims(self):
        claims = self.real.claims()
        fresh = {
            name: tuple(replace(x, asof=NOON.date()) if hasattr(x, "asof") else x for x in facts)
            for name, facts in vars(claims).items()
        }
        return replace(
            claims,
            **fresh | {self.kind: tuple(replace(x, asof=self.asof) for x in fresh[self.kind])},
        )


@pytest.mark.parametrize(("kind", "days", "line"), KINDS, ids=[kind for kind, _, _ in KINDS])
def test_a_fact_older_than_its_kind_may_be_says_so_on_its_card(
    kind: str, days: int, line: str
) -> None:
    def told(age: int) -> str:
        return words(ask(ACCOUNT, line, knowledge=Aged(kind, age)))

    assert f"{days + 1} days old: check it" in told(days + 1)
    assert f"{days} days old: check it" not in told(days)


def test_prices_are_told_to_be_old_after_ninety_days() -> None:
    assert "121 days old: check it" in words(ask(World(GPUS), "tco p5 trn1 buy=capacity-block"))
    fresh = [
        quote(x, "30", "us-east-2", Market.CAPACITY_BLOCK) for x in ("p5.48xlarge", "trn1.32xlarge")
    ]
    assert "days old" not in words(ask(World(GPUS, quotes=fresh), "tco p5 trn1 buy=capacity-block"))


def test_the_same_question_gives_everybody_the_same_number() -> None:
    """G5: who asks changes no figure."""
    lines = (
        "tco p5 trn1",
        "size 70B",
        "size",
        "carbon 1d",
        "capacity trn2.48xlarge",
        "migrate llama",
    )
    for line in lines:
        assert ask(ACCOUNT, line, who="an-engineer").data == ask(ACCOUNT, line, who="finance").data
