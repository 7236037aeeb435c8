"""The drivers of a change of cost name the planted cause first, and sum to the difference to the cent: on simulated accounts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.billing.bill import BillOptions, open_billing
from adapters.simulator.bill import BillForm, write_charges
from adapters.simulator.charges import Charge, charges
from adapters.simulator.fleet import build_fleet
from adapters.simulator.scenario import Kind, PlannedCluster, PlannedJob, Scenario
from adapters.store.memory import MemoryStore
from bot.answers.cost.why import (
    CostChange,
    _charged,
    _detail,
    change_card,
    change_of,
    moved_words,
    reason,
)
from bot.costs.drivers import DRIVEN_BY, Charged, Driver, DriverKind, drivers_of
from bot.knowledge import load_knowledge
from bot.model.spend import Filter, Money, Spend, Tally
from bot.model.window import Window
from tests.builders import ports_over

START, END = datetime(2026, 11, 17, tzinfo=UTC), datetime(2026, 11, 20, tzinfo=UTC)
FROM = datetime(2026, 11, 9, tzinfo=UTC)
WEEK = Window(FROM, FROM + timedelta(days=7))
SCENARIO = Scenario(
    "Four small clusters.",
    days=3,
    period_seconds=300,
    start=START,
    bill_days=21,
    clusters=(
        PlannedCluster(
            "llama",
            "trn1.32xlarge",
            "us-west-2",
            (PlannedJob("llama-8b", 8, market="savings-plan"),),
            "pretraining",
        ),
        PlannedCluster(
            "vision", "trn1n.32xlarge", "us-east-1", (PlannedJob("vit-2b", 6),), "vision"
        ),
        PlannedCluster(
            "serving",
            "inf2.48xlarge",
            "us-west-2",
            (PlannedJob("chat", 4, Kind.INFERENCE),),
            "serving",
        ),
        PlannedCluster(
            "lab", "trn1.32xlarge", "us-west-2", (PlannedJob("notebooks", 3, Kind.RESEARCH),), "lab"
        ),
    ),
)
Plant = Callable[[Sequence[Charge], Random], list[Charge]]
CLUSTER = "aws:eks:cluster-name"


def split(charge: Charge) -> tuple[Charge, ...]:
    """Cut a charge where the week begins."""
    if not charge.starts < FROM < charge.ends:
        return (charge,)
    return replace(charge, ends=FROM), replace(charge, starts=FROM)


def changed(
    every: Sequence[Charge],
    wanted: Callable[[Charge], bool],
    change: Callable[[Charge], Charge | None],
) -> list[Charge]:
    """Change from the week on what is wanted, or leave it out."""
    made = []
    for charge in every:
        for part in split(charge) if wanted(charge) else (charge,):
            new = change(part) if wanted(charge) and part.starts >= FROM else part
            made += [new] if new else []
    return made


def node_of(cluster: str) -> Callable[[Charge], bool]:
    return lambda one: bool(one.instance_type and one.resource and one.tags.get(CLUSTER) == cluster)


def dearer(every: Sequence[Charge], rng: Random) -> list[Charge]:
    factor = Decimal(str(round(rng.uniform(1.1, 1.6), 2)))
    return changed(every, node_of("vision"), lambda one: replace(one, rate=one.rate * factor))


def cheaper(every: Sequence[Charge], rng: Random) -> list[Charge]:
    factor = Decimal(str(round(rng.uniform(0.5, 0.9), 2)))
    return changed(every, node_of("serving"), lambda one: replace(one, rate=one.rate * factor))


def more_nodes(every: Sequence[Charge], rng: Random) -> list[Charge]:
    nodes = [one for one in every if node_of("vision")(one)][: rng.randint(1, 4)]
    return [
        *every,
        *(replace(one, starts=FROM, ends=END, resource=f"{one.resource}9") for one in nodes),
    ]


def fewer_nodes(every: Sequence[Charge], rng: Random) -> list[Charge]:
    gone = {
        one.resource for one in [x for x in every if node_of("serving")(x)][: rng.randint(1, 3)]
    }
    return changed(
        every, lambda one: one.resource in gone and bool(one.instance_type), lambda _: None
    )


def new_cluster(every: Sequence[Charge], _: Random) -> list[Charge]:
    nodes = [one for one in every if node_of("lab")(one)]
    return [
        *every,
        *(
            replace(x, starts=FROM, ends=END, resource=f"{x.resource}7", tags={CLUSTER: "probe"})
            for x in nodes
        ),
    ]


def ended_cluster(every: Sequence[Charge], _: Random) -> list[Charge]:
    return changed(every, lambda one: one.tags.get(CLUSTER) == "lab", lambda _: None)


def expired_plan(every: Sequence[Charge], _: Random) -> list[Charge]:
    def on_demand(one: Charge) -> Charge | None:
        return (
            None
            if one.kind == "SavingsPlanRecurringFee"
            else replace(one, kind="Usage", plan="", effective=Decimal(0))
        )

    return changed(every, lambda one: one.kind.startswith("SavingsPlan"), on_demand)


def fee(every: Sequence[Charge], rng: Random) -> list[Charge]:
    at = FROM + timedelta(days=rng.randint(1, 5), hours=rng.randint(0, 23))
    blank = next(one for one in every if one.kind == "Fee")
    amount = Decimal(rng.randint(5_000, 40_000))
    once = replace(
        blank, product="AWSMarketplace", usage_type="Setup", starts=at, ends=at + timedelta(hours=1)
    )
    return [
        *every,
        replace(once, step="1 hour", description="setup", units=amount, rate=Decimal(1)),
    ]


def loop(every: Sequence[Charge], rng: Random) -> list[Charge]:
    factor = rng.randint(2_000, 9_000)
    wanted = "Requests-Tier1"
    return changed(
        every,
        lambda one: one.usage_type.endswith(wanted) and one.tags.get(CLUSTER) == "serving",
        lambda one: replace(one, units=one.units * factor),
    )


def new_service(every: Sequence[Charge], rng: Random) -> list[Charge]:
    daily = next(one for one in every if one.usage_type.endswith("NatGateway-Bytes"))
    amount = Decimal(rng.randint(400, 2_000))
    days = [FROM + timedelta(days=n) for n in range(7)]
    return [
        *every,
        *(
            replace(
                daily,
                product="AmazonSageMaker",
                usage_type="Notebook",
                starts=x,
                ends=x + timedelta(days=1),
                units=Decimal(1),
                rate=amount,
            )
            for x in days
        ),
    ]


PLANTS: dict[Plant, tuple[DriverKind, str]] = {
    dearer: (DriverKind.PRICE, "trn1n.32xlarge"),
    cheaper: (DriverKind.PRICE, "inf2.48xlarge"),
    more_nodes: (DriverKind.HOURS, "vision"),
    fewer_nodes: (DriverKind.HOURS, "serving"),
    new_cluster: (DriverKind.NEW, "probe"),
    ended_cluster: (DriverKind.ENDED, "lab"),
    expired_plan: (DriverKind.COMMITMENT, "trn1.32xlarge"),
    fee: (DriverKind.FEE, "AWSMarketplace"),
    loop: (DriverKind.USAGE, "Requests-Tier1"),
    new_service: (DriverKind.NEW, "AmazonSageMaker"),
}


def uncredited(every: Sequence[Charge], _: Random) -> list[Charge]:
    return changed(every, lambda one: one.kind == "Credit", lambda _: None)


def moved(every: Sequence[Charge], _: Random) -> list[Charge]:
    def mumbai(one: Charge) -> Charge:
        place = {"region": "ap-south-1", "zone": "", "usage_type": f"APS3-{one.usage_type}"}
        return replace(one, rate=one.rate * Decimal("1.2"), **place)

    return changed(every, lambda one: one.tags.get(CLUSTER) == "vision", mumbai)


def account(folder: Path, plant: Plant, seed: int, form: BillForm = "cur2") -> CostChange:
    """Simulate an account with one planted cause, and ask why its cost changed."""
    fleet = build_fleet(SCENARIO, START, 3 * 1440, seed)
    write_charges(folder, plant(list(charges(SCENARIO, fleet)), Random(seed)), fleet, form)
    bill = open_billing(folder, BillOptions())
    change = change_of(ports_over(bill, MemoryStore(), knowledge=load_knowledge()), END, WEEK)
    assert change
    return change


@pytest.mark.parametrize("seed", [501, 502])
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_the_planted_cause_is_named_first_and_the_drivers_sum_to_the_cent(
    tmp_path: Path, plant: Plant, seed: int
) -> None:
    change = account(tmp_path, plant, seed)
    kind, named = PLANTS[plant]
    first = change.drivers[0]
    assert (first.kind, named in first.what) == (kind, True), change.drivers[:4]
    assert sum((one.net for one in change.drivers), Decimal(0)) == change.net
    assert sum((one.amortised for one in change.drivers), Decimal(0)) == change.amortised
    assert named in change_card(change).title


@pytest.mark.parametrize("plant", [uncredited, moved, expired_plan], ids=lambda x: x.__name__)
def test_every_form_of_a_bill_has_the_same_drivers(tmp_path: Path, plant: Plant) -> None:
    """They may name services otherwise; kinds and dollars are the same, to a cent of rounding."""
    told = [
        [(x.kind, x.net) for x in account(tmp_path / form, plant, 501, form).drivers]
        for form in ("cur2", "legacy", "focus1.2")
    ]
    for first, *others in zip(*told, strict=True):
        assert all(abs(net - first[1]) <= Decimal("0.01") for _, net in others)
        assert {kind for kind, _ in others} == {first[0]}


KEYS = st.fixed_dictionaries(
    {
        "service": st.sampled_from(["AmazonEC2", "AmazonS3", "ComputeSavingsPlans"]),
        "usage_type": st.sampled_from(
            ["USW2-BoxUsage:a", "APS3-BoxUsage:a", "USW2-Bytes", "Bytes"]
        ),
        "instance_type": st.sampled_from(["a", "b", ""]),
        "purchase": st.sampled_from(["on-demand", "spot", "savings-plan", "capacity-block", ""]),
        "line": st.sampled_from(["EC2", "commitment", ""]),
        "region": st.sampled_from(["us-west-2", "ap-south-1", ""]),
        "account": st.sampled_from(["1", "2"]),
        "cluster": st.sampled_from(["llama", "vision", ""]),
        "team": st.sampled_from(["x", "y", ""]),
    }
)
USD = st.decimals(-9_999, 9_999, places=4)


@st.composite
def bills(draw: st.DrawFn) -> list[Spend]:
    rows = []
    for key in draw(st.lists(KEYS, max_size=12, unique_by=lambda key: tuple(key.values()))):
        gross, discounts, credits, tax, amortised = (draw(USD) for _ in range(5))
        net = gross + discounts + credits + tax
        hours = draw(st.sampled_from([0.0, 0.25, 1.0, 168.0, 100 / 3]))
        rows.append(Spend(key, Money(gross, discounts, credits, tax, net, amortised), hours=hours))
    return rows


def test_all_that_an_account_costs_which_came_or_went_is_one_driver() -> None:
    def rows(account: str) -> list[Spend]:
        place = dict.fromkeys(DRIVEN_BY, "") | {"account": account, "region": "us-west-2"}
        return [
            Spend({**place, "service": service, "usage_type": usage}, money)
            for service, usage in (("AmazonS3", "Bytes"), ("AmazonEC2", "USW2-BoxUsage:a"))
            for money in [Money(gross=Decimal(50), net=Decimal(50), amortised=Decimal(50))]
        ]

    alone, both = rows("1"), rows("1") + rows("2")
    for then, now, usd in ((alone, both, 100), (both, alone, -100)):
        assert [(x.what, x.net) for x in drivers_of(then, now)] == [("account 2", usd)]


@given(bills(), bills(), st.sampled_from([(), (Filter("team", ("x",)),)]))
@settings(max_examples=100, deadline=None)
def test_the_drivers_of_any_two_bills_sum_to_their_difference(
    then: list[Spend], now: list[Spend], where: tuple[Filter, ...]
) -> None:
    drivers = drivers_of(then, now, {Charged("AmazonS3", "Bytes")}, where)
    for measure in ("net", "amortised"):
        before, after = (
            sum(
                (getattr(x.money, measure) for x in side if not where or x.key["team"] == "x"),
                Decimal(0),
            )
            for side in (then, now)
        )
        told = sum((getattr(driver, measure) for driver in drivers), Decimal(0))
        assert abs(told - (after - before)) < Decimal("1e-15")
    # Told the other way about, each is as much less.
    back = drivers_of(now, then, {Charged("AmazonS3", "Bytes")}, where)
    assert abs(sum(x.net for x in back) + sum(x.net for x in drivers)) < Decimal("1e-15")


def driver(kind: DriverKind, net: str = "5", **more: object) -> Driver:
    return Driver(kind, "trn1", Decimal(net), Decimal(net), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "costs", "up", "down"),
    [
        (DriverKind.HOURS, None, "more hours of trn1", "fewer hours of trn1"),
        (DriverKind.USAGE, None, "more trn1", "less trn1"),
        (DriverKind.PREPAID, None, "more paid ahead for trn1", "less paid ahead for trn1"),
        (DriverKind.CREDITS, (1, 2), "fewer credits", "more credits"),
        (DriverKind.CREDITS, (1, 0), "credits ended", "credits ended"),
        (DriverKind.CREDITS, (0, 1), "credits began", "credits began"),
        (DriverKind.DISCOUNTS, (1, 0), "discounts ended", "discounts ended"),
        (DriverKind.DISCOUNTS, (0, 1), "discounts began", "discounts began"),
        (DriverKind.DISCOUNTS, (1, 2), "trn1", "trn1"),
        (DriverKind.TAX, (1, 2), "tax", "tax"),
        (DriverKind.TAX, (0, 2), *["tax charged in only one of the two windows"] * 2),
        (DriverKind.TAX, (2, 0), *["tax charged in only one of the two windows"] * 2),
        (DriverKind.PRICE, None, "trn1", "trn1"),
        (DriverKind.COMMITMENT, None, "trn1", "trn1"),
    ],
)
def test_a_reason_says_whether_it_grew_began_or_ended(
    kind: DriverKind, costs: tuple[int, int] | None, up: str, down: str
) -> None:
    sides = costs and tuple(map(Decimal, costs))
    assert [reason(driver(kind, net, costs=sides)) for net in ("5", "-5")] == [up, down]
    # What moved amortised cost alone is told by that.
    assert reason(Driver(kind, "trn1", Decimal(0), Decimal(5), costs=sides)) == up  # type: ignore[arg-type]


def test_a_detail_is_of_what_is_known_of_a_driver() -> None:
    kinds, two = DriverKind, (Decimal(1), Decimal(2))
    hours = (24.0, 48.0)
    details = [
        _detail(driver(kinds.COMMITMENT, covered=(0.5, 0.25), hours=hours)),
        _detail(driver(kinds.TAX, shares=(Decimal("0.1"), Decimal("0.2")), costs=two)),
        _detail(driver(kinds.DISCOUNTS, shares=(Decimal("0.1"), Decimal("0.2")), costs=two)),
        _detail(driver(kinds.TAX, shares=(Decimal(0), Decimal("0.2")), costs=two)),
        _detail(driver(kinds.PRICE, rates=two, hours=hours)),
        _detail(driver(kinds.PURCHASE, rates=two, hours=hours)),
        _detail(driver(kinds.HOURS, rates=two, hours=hours)),
        _detail(driver(kinds.PRICE, hours=hours)),
        _detail(driver(kinds.MOVED, hours=hours, costs=two)),
        _detail(driver(kinds.MOVED, hours=hours)),
        _detail(driver(kinds.NEW)),
    ]
    assert details == [
        "50 % to 25 % of its hours under a commitment",
        "10.0 % to 20.0 % of gross less discounts",
        "10.0 % to 20.0 % of gross",
        "$1.00 to $2.00",
        "$1.0000 to $2.0000 an hour",
        "$1.0000 to $2.0000 an hour",
        "24 to 48 node-hours",
        "24 to 48 node-hours",
        "48 node-hours; $1.00 to $2.00",
        "24 to 48 node-hours",
        "",
    ]


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        ("100", "150", "Up $50.00 (50 %): new: trn1"),
        ("100", "50", "Down $50.00 (50 %): new: trn1"),
        ("0", "50", "Up $50.00: new: trn1"),
        ("50", "50", "Unchanged: new: trn1"),
        ("50", "50.004", "Unchanged: new: trn1"),
    ],
)
def test_a_move_is_up_down_or_none_and_named_by_its_first_driver(
    before: str, now: str, words: str
) -> None:
    span = Window(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 8, tzinfo=UTC))
    sides = [
        Tally(span, (), (), Money(gross=Decimal(x), net=Decimal(x), amortised=Decimal(x)))
        for x in (before, now)
    ]
    change = CostChange(
        span, *sides, (driver(DriverKind.NEW), driver(DriverKind.FEE)), (), True, ()
    )
    assert moved_words(change) == words
    assert moved_words(replace(change, drivers=())) == words.partition(":")[0]


@pytest.mark.parametrize(
    ("money", "hours", "credited"),
    [
        (Money(gross=Decimal(90)), 0.0, [False]),
        (Money(gross=Decimal(90)), 1.0, []),
        (Money(gross=Decimal(90), credits=Decimal(-9)), 1.0, [True]),
        (Money(gross=Decimal(-90), credits=Decimal(9)), 0.0, [False, True]),
        (Money(tax=Decimal(9)), 0.0, []),
    ],
)
def test_what_is_metered_by_the_hour_is_no_fee(
    money: Money, hours: float, credited: list[bool]
) -> None:
    row = Spend({"service": "AWSSupport", "usage_type": "Fee"}, money, hours=hours)
    assert list(_charged([row])) == [Charged("AWSSupport", "Fee", x) for x in credited]
