"""Answers that weigh a fleet against an alternative say one verdict: whichever is asked, and however the work is measured."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from bot.answers.runs.card import compare_card
from bot.cards.card import Card, Tone
from bot.costs.training import Sample, compare, equal_loss
from bot.costs.verdict import Verdict, like_for_like, measured_speed
from bot.model.claims import ClaimKind, SpeedUp
from bot.model.fleet import Market
from bot.model.price import AccountRates, Basis, Price
from tests.answers.advice_world import STEPS, World, ask, quote, words
from tests.builders import NOON, price

TODAY = NOON.date()
FITS = (
    "standard=yes stable=yes repeated=yes pytorch=yes spend=yes on_aws=yes"
    " control_flow=no rl=no gnn=no moe=no cuda_only=no fastest=no"
)
POOR = (
    "standard=no stable=no repeated=no pytorch=no spend=no on_aws=no"
    " control_flow=yes rl=yes gnn=yes moe=yes cuda_only=yes fastest=yes"
)
KINDS = {
    "gpus": ("p5.48xlarge", "us-east-2"),
    "old-gpus": ("p4d.24xlarge", "us-east-2"),
    "llama": ("trn1.32xlarge", "us-west-2"),
    "vision": ("trn1n.32xlarge", "us-east-1"),
    "frontier": ("trn2.48xlarge", "us-east-2"),
}
PAIRS = [
    (a, b)
    for a in KINDS
    for b in ("gpus", "llama", "frontier", "vision")
    if a != b and (a, b) not in (("old-gpus", "vision"), ("frontier", "vision"), ("vision", "gpus"))
]
QUOTES = (
    quote("trn2.48xlarge", "36.10", "us-east-2", Market.CAPACITY_BLOCK, Basis.CAPACITY_BLOCK),
    quote("p5.48xlarge", "13.95", "us-east-2", Market.SPOT, Basis.SPOT),
)


def account(gained: dict[str, float], lost: dict[str, float] | None = None) -> World:
    """Return clusters of four nodes that train one model: tokens a node-hour, and loss an hour where it is told."""
    clusters = [(name, kind, region, 4, 0.9, 100.0) for name, (kind, region) in KINDS.items()]
    runs = [(f"on-{name}", name, rate, 70e9) for name, rate in gained.items()]
    world = World(*clusters, quotes=QUOTES, runs=runs)
    if lost and (frame := world.reading.frame("run")):
        hours = np.arange(STEPS) / 12
        values = [3.0 - lost[x.cluster] * hours for x in frame.things]
        both = np.concatenate([frame.values, np.array(values)[:, :, None]], axis=2)
        frames = {
            **world.reading.frames,
            "run": replace(frame, metrics=(*frame.metrics, "run_loss"), values=both),
        }
        world.reading = replace(world.reading, frames=frames)
    return world


TOKENS = dict.fromkeys(KINDS, 40e6) | {"gpus": 60e6, "frontier": 70e6, "old-gpus": 15e6}
WORLDS = {
    "nothing measured": account({}),
    "tokens": account(TOKENS),
    "loss against tokens": account(
        TOKENS,
        {"gpus": 0.04, "old-gpus": 0.03, "llama": 0.006, "vision": 0.01, "frontier": 0.01},
    ),
}


def test_there_are_twelve_pairs_and_more() -> None:
    assert len(PAIRS) >= 12


@pytest.mark.parametrize("measured", WORLDS)
@pytest.mark.parametrize(("fleet", "other"), PAIRS)
def test_tco_migrate_decide_compare_and_wait_say_one_verdict(
    fleet: str, other: str, measured: str
) -> None:
    world, old, new = WORLDS[measured], KINDS[fleet][0], KINDS[other][0]
    cards = {"migrate": ask(world, f"migrate {fleet} to {new}"), "wait": ask(world, "wait")}
    tco = ask(world, f"tco {old} {new}")
    told = cards["migrate"].data.get("verdict")
    if told is None:
        assert "No source compares" in words(cards["migrate"]), "refused alike"
        assert "No source compares" in words(tco)
        return

    if "verdict" in tco.data:
        cards["tco"] = tco
        # The verdict is of hours, the totals of more: each share is called what it is of.
        totals = [Decimal(x["total_usd"]) for x in tco.data["options"]]
        shares = [totals[0] / x if told["cheaper"] == old else x / totals[0] for x in totals[1:]]
        ends = dict.fromkeys(f"{share * 100:.0f}" for share in (min(shares), max(shares)))
        assert f"cost {'-'.join(ends)} % of" in words(tco)
        assert "That is for the hours alone" in words(tco)
    else:
        # Nothing is bought alike: no verdict, and no total either.
        assert told["cheaper"] is None
        assert "options" not in tco.data
    if measured != "nothing measured":
        cards["compare"] = ask(world, f"compare on-{fleet} on-{other}")
    said = {name: card.data["verdict"]["cheaper"] for name, card in cards.items()}

    # Of runs the sides are called by their names, and the next chip has no price.
    runs = {f"on-{fleet}": old, f"on-{other}": new}
    if "compare" in said:
        said["compare"] = runs.get(said["compare"] or "")
    assert said.pop("wait") is None
    assert "is not known: Trainium3 has no price" in words(cards["wait"])
    assert len(set(said.values())) == 1, said

    # What is drawn is the verdict's own sentence, wherever it is.
    for name in said.keys() - {"compare"}:
        assert told["says"] in words(cards[name]), name
    if "compare" in cards:
        sentence = cards["compare"].data["verdict"]["says"]
        for run, kind in runs.items():
            sentence = sentence.replace(run, kind)
        assert sentence == told["says"]
        expected = "measured to equal loss" if "loss" in measured else "measured"
        assert told["yardstick"] in (expected, None)

    neuron = {old.startswith("trn"), new.startswith("trn")}
    if len(neuron) == 2 and told["cheaper"]:
        wins = "trainium" if told["cheaper"].startswith("trn") else "gpu"
        for answers in (FITS, POOR):
            card = ask(world, f"decide {fleet} to={new} {answers}")
            assert told["says"] in words(card)
            if measured != "nothing measured":
                assert card.data["choice"] == wins, card.title
            else:
                assert card.data["choice"] in (wins, "measure"), card.title


class BilledWorld(World):
    """An account whose bill holds hours of both types; a share of those of the GPUs is committed."""

    committed = Decimal(0)

    def rates(self, _now):
        gpu = replace(
            billed("p5.48xlarge", "55.04", "us-east-2"), on_demand_share=1 - self.committed
        )
        return AccountRates(by_type=(gpu, billed("trn2.48xlarge", "20.00", "us-east-2")))


@pytest.mark.parametrize(
    ("committed", "usd_per_month"), [("0", "31691.73"), ("0.1", "23655.89"), ("0.5", None)]
)
def test_a_move_saves_nothing_of_what_commitments_go_on_to_bill(committed, usd_per_month) -> None:
    """Two nodes at $55.04 for 730 hours, of which a move saves 39.4 %, less the committed part."""
    clusters = [(name, *KINDS[name], 2, 0.9, 100.0) for name in ("gpus", "frontier")]
    world = BilledWorld(*clusters, runs=[("a", "gpus", 60e6, 70e9), ("b", "frontier", 36e6, 70e9)])
    world.committed = Decimal(committed)
    card = ask(world, "suggestions")
    expected = [("another type", Decimal(usd_per_month))] if usd_per_month else []
    assert [(x["kind"], x["usd_per_month"]) for x in card.data["suggestions"]] == expected
    if expected and committed != "0":
        shown = ask(world, f"suggestions show {card.data['suggestions'][0]['id']}")
        assert "of it committed, billed either way: $8,035.84" in words(shown)


def test_a_cluster_costs_the_sum_of_its_nodes_in_every_answer() -> None:
    """One of four nodes is billed at half; what most of them cost is no price of all."""

    class Uneven(World):
        def rates(self, _now):
            rates = [billed("trn1.32xlarge", usd, "us-west-2") for usd in ("10.00", "20.00")]
            nodes = {f"i-llama{n}": (rates[n > 0],) for n in range(4)}
            return AccountRates(by_instance=nodes)

    world = Uneven(("llama", "trn1.32xlarge", "us-west-2", 4, 0.9, 400.0), quotes=QUOTES)
    for line in ("migrate llama to trn2.48xlarge", "bedrock llama"):
        assert ask(world, line).data["usd_per_hour"] == 70, line


@pytest.mark.parametrize(
    ("fleet", "to"),
    [("llama", "trn2.48xlarge"), ("llama", "inf2.48xlarge"), ("gpus", "p4d.24xlarge")],
)
def test_decide_weighs_no_chip_against_another_of_its_kind(fleet, to) -> None:
    """A fleet of Trainium asked about Inferentia was told to stay on the GPUs that it has not."""
    card = ask(WORLDS["tokens"], f"decide {fleet} to={to} {POOR}")
    assert card.tone is Tone.ERROR
    assert f"{fleet} runs on {KINDS[fleet][0]}" in words(card)
    assert f"the same kind as {to}; 'migrate' compares" in words(card)


def test_a_type_without_a_price_costs_nothing_in_no_answer() -> None:
    clusters = [(name, kind, "us-east-2", 4, 0.9, 100.0) for name, kind in
                (("ultra", "trn2u.48xlarge"), ("frontier", "trn2.48xlarge"))]  # fmt: skip
    runs = [(f"on-{name}", name, 40e6, 70e9) for name, *_ in clusters]
    world = World(*clusters, quotes=QUOTES, runs=runs)
    lines = ("runs", "runs on-ultra", "compare on-ultra on-frontier", "migrate ultra to trn2.48xlarge",
             "migrate frontier to trn2u.48xlarge")  # fmt: skip
    for line in lines:
        card = ask(world, line)
        assert "$0.00" not in words(card), line
        assert "price" in words(card), line
        assert (card.data.get("verdict") or {}).get("cheaper") is None, line
    compared = ask(world, "compare on-ultra on-frontier").data["verdict"]
    assert "no price of both" in compared["says"]
    listed = ask(world, "runs").data["runs"]
    assert [x["usd"] is None for x in listed] == [False, True]
    assert [x["nodes"] for x in listed] == [4, 4]


def test_dollars_to_equal_loss_decide_over_dollars_a_token() -> None:
    """By tokens trn1 costs 59 % of p5; to equal loss it takes 6.7 times the node-hours."""
    by_tokens = ask(WORLDS["tokens"], "tco p5.48xlarge trn1.32xlarge")
    by_loss = ask(WORLDS["loss against tokens"], "tco p5.48xlarge trn1.32xlarge")
    assert by_tokens.data["verdict"]["cheaper"] == "trn1.32xlarge"
    assert "in dollars a token" in words(by_tokens)
    assert by_loss.data["verdict"]["cheaper"] == "p5.48xlarge"
    assert "in dollars to equal loss" in words(by_loss)


def test_what_is_paid_once_is_said_beside_the_verdict() -> None:
    card = ask(WORLDS["tokens"], "tco p5.48xlarge trn1.32xlarge hours=10")
    assert card.data["verdict"]["cheaper"] == "trn1.32xlarge"
    assert "does not pay for what porting and compiling" in words(card)


def test_models_of_two_sizes_have_no_verdict() -> None:
    small, large = (
        Sample(name, (), (), types=("trn1.32xlarge",), parameters=size, nodes=1.0, node_hours=9.0)
        for name, size in (("small", 7e9), ("large", 70e9))
    )
    world = account({"gpus": 60e6})
    world.reading = replace(
        world.reading,
        runs=tuple(replace(x, parameters=7e9) for x in world.reading.runs),
    )
    assert Verdict("a", "b").cheaper is None
    assert measured_speed(small, large, ("trn1", "trn1"), TODAY) is None
    both = account({"gpus": 60e6, "llama": 40e6})
    first, second = both.reading.runs
    both.reading = replace(both.reading, runs=(first, replace(second, parameters=7e9)))
    assert "they train models of different sizes" in words(ask(both, "compare on-gpus on-llama"))


def test_a_loss_that_took_less_than_an_hour_is_not_measured() -> None:
    """A loss is a mean of an hour: two that met for twelve minutes say nothing of a cost."""
    fast = ((2.517, Decimal(0), 0.0), (2.516, Decimal(217), 0.2))
    slow = ((2.517, Decimal(0), 0.0), (2.516, Decimal(92), 0.4))
    a, b = (Sample(name, (), (), losses=losses) for name, losses in (("a", fast), ("b", slow)))
    assert equal_loss(a, b) is None
    assert compare(a, b).equal_loss is None


def test_a_verdict_names_a_side_that_is_cheaper_at_every_speed_and_not_as_dear() -> None:
    def speed(factor: float) -> SpeedUp:
        return SpeedUp("a", "b", factor, ClaimKind.MEASURED, "", source="", asof=TODAY)

    listed, own = quote("a", "10", "us-west-2"), billed("b", "10", "us-west-2")
    for factors, cheaper in (((1.0, 2.0), None), ((1.1, 2.0), "b"), ((0.5, 1.0), None), ((0.5, 0.9), "a")):  # fmt: skip
        found = Verdict("a", "b", tuple(map(speed, factors)), (listed, own))
        assert (found.cheaper, found.proven) == (cheaper, False)
    assert Verdict("a", "b", (speed(1.0),), (own, own)).proven


def test_of_pairs_bought_alike_the_one_of_most_hours_counts_then_the_cheapest() -> None:
    def pair(hours: float, usd: str, region: str) -> list[Price]:
        return [replace(billed(x, usd, region), hours=hours) for x in "ab"]

    many, few = pair(9.0, "30", "us-west-2"), pair(1.0, "20", "us-east-1")
    for first, second in ((many, few), (few, many)):
        quotes = [[x[n] for x in (first, second)] for n in (0, 1)]
        assert like_for_like(*quotes, ()) == tuple(many)
    cheap, dear = pair(9.0, "20", "us-west-2"), pair(9.0, "30", "us-east-1")
    quotes = [[x[n] for x in (dear, cheap)] for n in (0, 1)]
    assert like_for_like(*quotes, ()) == tuple(cheap)


def billed(kind: str, usd: str, region: str, market: Market = Market.ON_DEMAND):
    return replace(quote(kind, usd, region, market, Basis.BILLED), hours=100.0)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # Never spot against on-demand, though spot is the cheaper.
        (
            [quote("a", "20", "us-west-2")],
            [quote("b", "9", "us-west-2", Market.SPOT), quote("b", "30", "us-west-2")],
            ("20", "30"),
        ),
        ([quote("a", "20", "us-west-2")], [quote("b", "9", "us-west-2", Market.SPOT)], None),
        # Two bills of two regions before two lists of July of one.
        (
            [billed("a", "19", "us-west-2"), quote("a", "20", "us-east-1", basis=Basis.FALLBACK)],
            [billed("b", "50", "us-east-2"), quote("b", "55", "us-east-1", basis=Basis.FALLBACK)],
            ("19", "50"),
        ),
        # Of bills of two regions the one of more hours, though the other is cheaper.
        (
            [billed("a", "19", "us-east-1"), replace(billed("a", "9", "us-east-2"), hours=1.0)],
            [billed("b", "50", "us-east-1"), replace(billed("b", "5", "us-east-2"), hours=1.0)],
            ("19", "50"),
        ),
        # A block of Mumbai is no offer to a fleet in Oregon.
        (
            [quote("a", "9", "ap-south-1", Market.CAPACITY_BLOCK)],
            [quote("b", "30", "ap-south-1", Market.CAPACITY_BLOCK)],
            None,
        ),
        # Lists of two regions say more of the regions than of the types.
        ([quote("a", "20", "us-west-2")], [quote("b", "30", "us-east-2")], None),
    ],
)
def test_hours_are_compared_like_for_like(old, new, expected) -> None:
    found = like_for_like(old, new, {"us-west-2"})
    if expected is None:
        assert found is None
    else:
        assert tuple(str(x.usd_per_hour) for x in found) == expected


def test_the_yardstick_is_the_surest_of_the_speeds() -> None:
    gpu = Sample("gpu", (), (), types=("p5",), tokens=6e9, nodes=1.0, node_hours=100.0)
    chip = replace(gpu, name="chip", types=("trn1",), tokens=3e9)
    speed = measured_speed(gpu, chip, ("p5", "trn1"), TODAY)
    assert (speed.kind, speed.factor) == (ClaimKind.MEASURED, 0.5)
    down = ((3.0, Decimal(0), 0.0), (2.0, Decimal(9), 10.0))
    slow = ((3.0, Decimal(0), 0.0), (2.0, Decimal(9), 40.0))
    speed = measured_speed(
        replace(gpu, losses=down), replace(chip, losses=slow), ("p5", "trn1"), TODAY
    )
    assert (speed.kind, speed.factor) == (ClaimKind.EQUAL_LOSS, 0.25)


def test_only_a_measured_speed_at_billed_prices_is_proven() -> None:
    """What is claimed or listed answers a question; it is nothing to suggest unasked."""
    sides = [
        Sample(name, (), (), tokens=rate, node_hours=10) for name, rate in (("a", 1e9), ("b", 2e9))
    ]
    speed = measured_speed(*sides, ("trn1", "trn2"), TODAY)
    assert speed is not None
    billed, listed = (
        quote("trn2.48xlarge", "20.00", "us-east-2", Market.ON_DEMAND, basis)
        for basis in (Basis.BILLED, Basis.LISTED)
    )
    assert Verdict("a", "b", (speed,), (billed, billed)).proven
    assert not Verdict("a", "b", (speed,), (billed, listed)).proven
    claimed = replace(speed, kind=ClaimKind.CLAIM)
    assert not Verdict("a", "b", (claimed,), (billed, billed)).proven
    assert not Verdict("a", "b", (speed,)).proven


def test_a_verdict_on_epochs_that_differ_by_chance_alone_says_so_in_its_title() -> None:
    def card(*usd: int) -> Card:
        old = Sample("a", tuple(map(Decimal, (100, 110, 90))), (1.0, 1.1, 0.9))
        new = Sample("b", tuple(map(Decimal, usd)), (1.0, 1.1, 0.9))
        speed = SpeedUp(
            "trn1", "trn1", 0.98, ClaimKind.MEASURED, "a test", source="own runs", asof=NOON.date()
        )
        verdict = Verdict("a", "b", (speed,), (price(), price()))
        return compare_card(compare(old, new), verdict)

    assert card(101, 112, 92).title == (
        "a to b: costs more, 102 % of the cost for the same work, which may be noise"
    )
    assert "noise" not in card(300, 310, 290).title
