"""Two weeks of a bill that differ in one thing: `why cost` names it first, with its dollars of net."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from adapters.billing.bill import BillOptions, open_billing
from adapters.store.memory import MemoryStore
from bot.answers.cost.why import CostChange, change_card, change_of
from bot.cards.card import Text, plain
from bot.costs.drivers import Driver, DriverKind
from bot.knowledge import load_knowledge
from bot.model.spend import Filter, Money, Tally
from bot.model.window import Window
from tests.billing.conftest import line, write_csv
from tests.builders import ports_over

Row = dict[str, Any]
Rows = Sequence[Row]
HOUR, DAY, WEEK = timedelta(hours=1), timedelta(days=1), timedelta(days=7)
BEFORE = datetime(2026, 11, 2, tzinfo=UTC)
NOW = BEFORE + WEEK
ASKED = Window(NOW, NOW + WEEK)
TYPES = {
    "trn1.32xlarge": Decimal("21.50"),
    "p5.48xlarge": Decimal("55.04"),
    "trn2.48xlarge": Decimal(0),
}
PLAN_USD = Decimal("13.545")
COST = "line_item_unblended_cost"


def usage(at: datetime, node: str, cluster: str, kind: str = "trn1.32xlarge", **more: Any) -> Row:
    """Return an hour of a node on demand."""
    region = more.pop("region", "us-west-2")
    cost = more.pop("cost", TYPES[kind])
    return line(
        at,
        str(cost),
        line_item_resource_id=node,
        line_item_usage_type=f"{more.pop('prefix', 'USW2-')}BoxUsage:{kind}",
        line_item_availability_zone=f"{region}b",
        product={"instance_type": kind, "region": region},
        resource_tags={"user_team": more.pop("team", cluster), "aws_eks_cluster_name": cluster},
        **more,
    )


def charge(at: datetime, service: str, usage_type: str, cost: str, **more: Any) -> Row:
    """Return a charge of a day that is no node's."""
    free = {
        "line_item_resource_id": "",
        "line_item_availability_zone": "",
        "line_item_operation": "",
        "line_item_line_item_description": usage_type,
        "pricing_term": "",
        "product": {"region": "us-west-2"},
        "resource_tags": {},
        "hours": 24,
    }
    return line(
        at,
        cost,
        line_item_product_code=service,
        line_item_usage_type=usage_type,
        **(free | more),
    )


def on_plan(row: Row) -> list[Row]:
    """Return an hour that a Savings Plan covers, its negation, and the fee of that hour."""
    at, cost = datetime.fromisoformat(row["line_item_usage_start_date"]), row[COST]
    covered = row | {
        "line_item_line_item_type": "SavingsPlanCoveredUsage",
        "savings_plan_savings_plan_effective_cost": str(PLAN_USD),
    }
    negation = row | {
        "line_item_line_item_type": "SavingsPlanNegation",
        COST: f"-{cost}",
        "line_item_resource_id": "",
        "resource_tags": {},
    }
    fee = charge(
        at,
        "ComputeSavingsPlans",
        "ComputeSP:1yrNoUpfront",
        str(PLAN_USD),
        kind="SavingsPlanRecurringFee",
        hours=1,
        savings_plan_total_commitment_to_date=str(PLAN_USD),
        savings_plan_used_commitment=str(PLAN_USD),
    )
    return [covered, negation, fee]


def week(start: datetime) -> Iterator[Row]:
    """Yield what is charged in a week where nothing changes."""
    for hour in range(7 * 24):
        at = start + hour * HOUR
        for n in range(4):
            yield usage(at, f"i-llama{n}", "llama")
        yield usage(
            at,
            "i-lab",
            "lab",
            cost="7.20",
            line_item_line_item_description="Spot",
            pricing_term="Spot",
        )
        yield from on_plan(usage(at, "i-search", "search"))
        # The vision nodes work by day.
        if at.hour < 12:
            for n in range(2):
                yield usage(at, f"i-vision{n}", "vision", "p5.48xlarge")
    tags = {"user_team": "llama", "aws_eks_cluster_name": "llama"}
    for day in range(7):
        at = start + day * DAY
        yield charge(at, "AmazonS3", "USW2-TimedStorage-ByteHrs", "310.00", resource_tags=tags)
        yield charge(
            at, "AmazonEC2", "USW2-DataTransfer-Regional-Bytes", "41.30", resource_tags=tags
        )
        yield charge(at, "AmazonEC2", "BoxUsage", "-1440.00", kind="Credit")


def cluster_of(row: Row) -> str:
    return str(row["resource_tags"].get("aws_eks_cluster_name", ""))


def without(rows: Rows, found: Callable[[Row], bool]) -> list[Row]:
    return [row for row in rows if not found(row)]


def changed(rows: Rows, found: Callable[[Row], bool], change: Callable[[Row], Row]) -> list[Row]:
    return [row | change(row) if found(row) else row for row in rows]


def is_credit(row: Row) -> bool:
    return bool(row["line_item_line_item_type"] == "Credit")


def is_node(cluster: str) -> Callable[[Row], bool]:
    return lambda row: cluster_of(row) == cluster and row["product"].get("instance_type")


def days(rows: Rows, *charges: Any, **more: Any) -> list[Row]:
    return [*rows, *(charge(NOW + n * DAY, *charges, **more) for n in range(7))]


def hours(rows: Rows, node: str, cluster: str, **more: Any) -> list[Row]:
    return [*rows, *(usage(NOW + n * HOUR, node, cluster, **more) for n in range(7 * 24))]


def uncredited(rows: Rows) -> list[Row]:
    return without(rows, is_credit)


def refund(rows: Rows) -> list[Row]:
    back = charge(NOW + 3 * DAY, "AmazonEC2", "USW2-BoxUsage:trn1.32xlarge", "-5120.75")
    return [*rows, back | {"line_item_line_item_type": "Refund"}]


def region_move(rows: Rows) -> list[Row]:
    """Return the nodes of llama, and its storage, at the prices of Mumbai."""

    def moved(row: Row) -> Row:
        cost = {COST: f"{Decimal(row[COST]) * Decimal('1.2'):.6f}"}
        place = {**row["product"], "region": "ap-south-1"}
        return {
            **cost,
            "product": place,
            "line_item_availability_zone": "",
            "line_item_usage_type": row["line_item_usage_type"].replace("USW2-", "APS3-"),
        }

    return changed(rows, lambda row: cluster_of(row) == "llama", moved)


def planned(rows: Rows) -> list[Row]:
    """Return every node of llama on a Savings Plan."""
    node = is_node("llama")
    return [part for row in rows for part in (on_plan(row) if node(row) else [row])]


def unplanned(rows: Rows) -> list[Row]:
    """Return the covered node on demand."""
    kept = without(
        rows,
        lambda row: (
            row["line_item_line_item_type"] in ("SavingsPlanNegation", "SavingsPlanRecurringFee")
        ),
    )
    return changed(
        kept,
        lambda row: row["line_item_line_item_type"] == "SavingsPlanCoveredUsage",
        lambda _: {
            "line_item_line_item_type": "Usage",
            "savings_plan_savings_plan_effective_cost": "",
        },
    )


def on_demand(rows: Rows) -> list[Row]:
    return changed(
        rows,
        is_node("lab"),
        lambda _: {
            COST: "21.50",
            "pricing_term": "OnDemand",
            "line_item_line_item_description": "On Demand",
        },
    )


def longer_hours(rows: Rows) -> list[Row]:
    late = [
        usage(at, f"i-vision{n}", "vision", "p5.48xlarge")
        for at in (NOW + hour * HOUR for hour in range(7 * 24))
        if 12 <= at.hour < 18
        for n in range(2)
    ]
    return [*rows, *late]


def new_account(rows: Rows) -> list[Row]:
    other = {"line_item_usage_account_id": "333333333333"}
    nodes = hours([], "i-new", "sandbox", **other)
    return [*rows, *nodes, *days([], "AmazonS3", "USW2-Requests-Tier1", "12.50", **other)]


def block(rows: Rows) -> list[Row]:
    fee = charge(
        NOW + 2 * DAY,
        "AmazonEC2",
        "USW2-CapacityBlockUsage:trn2.48xlarge",
        "88000.00",
        kind="Fee",
        hours=14 * 24,
        line_item_line_item_description="Capacity Block trn2.48xlarge",
        product={"instance_type": "trn2.48xlarge", "region": "us-west-2"},
    )
    return [*rows, fee]


def enterprise_discount(rows: Rows) -> list[Row]:
    return days(rows, "AmazonEC2", "USW2-BoxUsage:trn1.32xlarge", "-213.50", kind="EdpDiscount")


K = DriverKind
Change = Callable[[Rows], list[Row]]
CHANGES: dict[str, tuple[Change, DriverKind, str]] = {
    "credit ended": (uncredited, K.CREDITS, "credits ended"),
    "credit began": (uncredited, K.CREDITS, "credits began"),
    "refund": (refund, K.REFUND, "refund or one-off credit: AmazonEC2"),
    "tax rate": (list, K.TAX, "tax"),
    "region move": (region_move, K.MOVED, "llama from us-west-2 to ap-south-1"),
    "price change": (
        lambda rows: changed(rows, is_node("vision"), lambda _: {COST: "60.10"}),
        K.PRICE,
        "price of p5.48xlarge",
    ),
    "node joined": (lambda rows: hours(rows, "i-llama9", "llama"), K.HOURS, "more hours of llama"),
    "node left": (
        lambda rows: without(rows, lambda row: row["line_item_resource_id"] == "i-llama3"),
        K.HOURS,
        "fewer hours of llama",
    ),
    "spot to on-demand": (on_demand, K.PURCHASE, "spot to on-demand"),
    "on-demand to Savings Plan": (planned, K.COMMITMENT, "commitments for trn1.32xlarge"),
    "plan ended": (unplanned, K.COMMITMENT, "commitments for trn1.32xlarge"),
    "new service": (
        lambda rows: days(rows, "AmazonSageMaker", "USW2-Notebook", "420.00"),
        K.NEW,
        "new: AmazonSageMaker",
    ),
    "storage growth": (
        lambda rows: changed(
            rows,
            lambda row: "TimedStorage" in row["line_item_usage_type"],
            lambda _: {COST: "455.00"},
        ),
        K.USAGE,
        "more AmazonS3 USW2-TimedStorage-ByteHrs",
    ),
    "cross-zone transfer": (
        lambda rows: changed(
            rows,
            lambda row: "DataTransfer" in row["line_item_usage_type"],
            lambda _: {COST: "1200.00"},
        ),
        K.USAGE,
        "more AmazonEC2 USW2-DataTransfer-Regional-Bytes",
    ),
    "team moved": (
        lambda rows: changed(
            rows,
            is_node("vision"),
            lambda row: {"resource_tags": {**row["resource_tags"], "user_team": "search"}},
        ),
        K.MOVED,
        "vision from team vision to team search",
    ),
    "usage hours": (longer_hours, K.HOURS, "more hours of vision"),
    "new account": (new_account, K.NEW, "new: account 333333333333"),
    "support fee": (
        lambda rows: [
            *rows,
            charge(NOW, "AWSSupportBusiness", "Dollar", "4900.00", kind="Fee", hours=1),
        ],
        K.FEE,
        "one-off fee: AWSSupportBusiness",
    ),
    "Capacity Block bought": (block, K.NEW, "new: Capacity Block, trn2.48xlarge"),
    "EDP discount begun": (enterprise_discount, K.DISCOUNTS, "discounts began"),
}
BACKWARDS = {
    "new service": "ended: AmazonSageMaker",
    "new account": "ended: account 333333333333",
    "EDP discount begun": "discounts ended",
    "region move": "llama from ap-south-1 to us-west-2",
}
"""What is named where the week that was changed comes first."""


def taxed(rows: Rows, rate: str) -> list[Row]:
    """Return the rows with a tax a day on what they cost, credits aside."""
    sums: dict[str, Decimal] = {}
    for row in rows:
        if not is_credit(row):
            day = row["line_item_usage_start_date"][:10]
            sums[day] = sums.get(day, Decimal(0)) + Decimal(row[COST])
    rated = {day: usd * Decimal(rate) for day, usd in sums.items()}
    taxes = [
        charge(datetime.fromisoformat(f"{day}T00:00:00Z"), "AmazonEC2", "", str(usd), kind="Tax")
        for day, usd in rated.items()
    ]
    return [*rows, *taxes]


def net(rows: Rows, *, tax: bool) -> Decimal:
    kinds = (Decimal(x[COST]) for x in rows if (x["line_item_line_item_type"] == "Tax") is tax)
    return sum(kinds, Decimal(0))


def shifted(rows: Rows, by: timedelta) -> list[Row]:
    """Return the rows that much later."""
    names = ("line_item_usage_start_date", "line_item_usage_end_date")
    return [
        row
        | {name: f"{datetime.fromisoformat(row[name]) + by:%Y-%m-%dT%H:%M:%SZ}" for name in names}
        for row in rows
    ]


def answered(folder: Path, before: Rows, now: Rows, *where: Filter) -> CostChange:
    """Ask why the second of two weeks cost another amount, of a bill that goes on after both."""
    newest = usage(NOW + WEEK + 4 * DAY, "i-llama0", "llama")
    newest = dict.fromkeys(before[0], "") | newest
    write_csv(folder / "billing" / "bill.csv", [*before, *now, newest])
    with_bill = ports_over(
        open_billing(folder, BillOptions()), MemoryStore(), knowledge=load_knowledge()
    )
    change = change_of(with_bill, NOW + WEEK + 5 * DAY, ASKED, where)
    assert change
    assert sum((x.net for x in change.drivers), Decimal(0)) == change.net
    assert sum((x.amortised for x in change.drivers), Decimal(0)) == change.amortised
    return change


def test_there_are_twenty() -> None:
    assert len(CHANGES) == 20


@pytest.mark.parametrize("name", CHANGES)
def test_the_one_change_is_named_first_with_its_dollars_of_net(tmp_path: Path, name: str) -> None:
    change, kind, words = CHANGES[name]
    before, after = list(week(BEFORE)), change(list(week(NOW)))
    if name == "credit began":
        before, after = change(before), list(week(NOW))
    rates = ("0.05", "0.09") if name == "tax rate" else ("0.05", "0.05")
    old, new = taxed(before, rates[0]), taxed(after, rates[1])
    is_tax = name == "tax rate"
    expected = net(new, tax=is_tax) - net(old, tax=is_tax)

    answer = answered(tmp_path, old, new)
    first = answer.drivers[0]
    assert (first.kind, first.net) == (kind, expected), answer.drivers[:4]
    assert words in change_card(answer).title
    # Nothing but the tax on it has changed besides.
    assert {x.kind for x in answer.drivers[1:]} <= {K.TAX}, answer.drivers[1:]


@pytest.mark.parametrize("name", BACKWARDS)
def test_what_changes_back_is_named_too(tmp_path: Path, name: str) -> None:
    after, before = list(week(NOW)), shifted(CHANGES[name][0](list(week(NOW))), -WEEK)
    answer = answered(tmp_path, before, after)
    assert answer.drivers[0].net == net(after, tax=False) - net(before, tax=False)
    assert BACKWARDS[name] in change_card(answer).title


@pytest.mark.parametrize(("team", "sign"), [("vision", -1), ("search", 1)])
def test_a_team_that_was_tagged_anew_sees_where_its_cost_went(
    tmp_path: Path, team: str, sign: int
) -> None:
    """Of one team alone it is the whole of the change, of the account none."""
    before, after = list(week(BEFORE)), CHANGES["team moved"][0](list(week(NOW)))
    moved = net([x for x in after if is_node("vision")(x)], tax=False)
    first = answered(tmp_path, before, after, Filter("team", (team,))).drivers[0]
    assert (first.kind, first.net) == (K.MOVED, sign * moved)
    assert first.what == "vision from team vision to team search"


TOGETHER = [
    ("credit ended", "node joined"),
    ("price change", "EDP discount begun"),
    ("new account", "storage growth"),
    ("plan ended", "refund"),
    ("region move", "usage hours"),
    ("Capacity Block bought", "node left"),
]


@pytest.mark.parametrize("names", TOGETHER, ids=" and ".join)
def test_of_two_changes_each_has_its_own_dollars(tmp_path: Path, names: tuple[str, str]) -> None:
    before, now = list(week(BEFORE)), list(week(NOW))
    (first, kind_a, _), (second, kind_b, _) = (CHANGES[name] for name in names)
    alone = [net(change(now), tax=False) - net(now, tax=False) for change in (first, second)]
    found = answered(tmp_path, before, second(first(now))).drivers
    assert {(x.kind, x.net) for x in found} == set(zip((kind_a, kind_b), alone, strict=True))


def test_of_a_cluster_amortised_cost_tells_what_a_plan_changes(tmp_path: Path) -> None:
    """The invoice books a plan's fee to no cluster: by net alone its nodes would cost nothing."""
    before, after = list(week(BEFORE)), planned(list(week(NOW)))
    cluster = Filter("cluster", ("llama",))
    change = answered(tmp_path, before, after, cluster)
    saved = 4 * 7 * 24 * (PLAN_USD - TYPES["trn1.32xlarge"])
    assert (change.drivers[0].kind, change.drivers[0].amortised) == (K.COMMITMENT, saved)
    assert change_card(change).title.startswith("Down $5,346 amortised")


def test_a_tax_of_the_month_does_not_hide_what_drove_the_use(tmp_path: Path) -> None:
    """AWS charges tax once a month: a week that holds it is told what its use did as well."""
    before, after = list(week(BEFORE)), CHANGES["node joined"][0](list(week(NOW)))
    tax = charge(NOW, "AmazonEC2", "", "38000.00", kind="Tax")
    change = answered(tmp_path, before, [*after, tax])
    card = change_card(change)
    assert "tax charged in only one of the two windows" in card.title
    (said,) = (plain(x.spans) for x in card.blocks[:1] if isinstance(x, Text))
    assert "Amortised cost changed by +$3,612, most by more hours of llama" in said


def test_the_last_minutes_of_a_day_are_no_day_that_the_bill_lacks(tmp_path: Path) -> None:
    write_csv(tmp_path / "billing" / "bill.csv", [*week(BEFORE), *week(NOW)])
    with_bill = ports_over(
        open_billing(tmp_path, BillOptions()), MemoryStore(), knowledge=load_knowledge()
    )
    late = timedelta(minutes=-3)
    change = change_of(with_bill, NOW + WEEK, Window(NOW + late, NOW + WEEK + late))
    assert change
    assert change.then.window.start == BEFORE + late


def test_what_moved_amortised_cost_alone_is_no_smaller_change() -> None:
    drivers = [Driver(K.USAGE, f"thing {n}", Decimal(9 - n), Decimal(9 - n)) for n in range(8)]
    drivers.append(Driver(K.ENDED, "a block", Decimal(0), Decimal(-900)))
    nothing = Tally(ASKED, (), (), Money())
    drawn = change_card(CostChange(ASKED, nothing, nothing, tuple(drivers)))
    assert [x["what"] for x in drawn.data["drivers"]] == [
        *(f"thing {n}" for n in range(5)),
        "a block",
    ]
    assert [x["what"] for x in drawn.data["smaller"]] == ["thing 5", "thing 6", "thing 7"]


def test_nodes_that_move_in_the_middle_of_a_week_are_one_move(tmp_path: Path) -> None:
    before, now = list(week(BEFORE)), list(week(NOW))
    middle = f"{NOW + 3 * DAY:%Y-%m-%dT%H:%M:%SZ}"
    late = [x for x in now if x["line_item_usage_start_date"] >= middle]
    nodes = [x for x in region_move(late) if is_node("llama")(x)]
    others = [x for x in now if not (is_node("llama")(x) and x in late)]
    first = answered(tmp_path, before, [*others, *nodes]).drivers[0]
    assert first.kind is K.MOVED
    assert first.net == net([*others, *nodes], tax=False) - net(now, tax=False)


def discounted(row: Row, way: str) -> list[Row]:
    """Return a row of which a contract takes 7 %, as one of the three ways tells it."""
    kind, cost = row["line_item_line_item_type"], Decimal(row[COST])
    pays = kind in ("Usage", "SavingsPlanRecurringFee")
    rebate = -cost * Decimal("0.07") if pays else Decimal(0)
    if way == "map":
        return [row | {"discount": {"edp_discount": str(rebate)} if rebate else {}}]
    if way == "lines":
        kept = {"line_item_line_item_type": "EdpDiscount", COST: str(rebate)}
        return [row, row | kept | {"pricing_term": ""}] if rebate else [row]

    effective = row["savings_plan_savings_plan_effective_cost"]
    net_effective = str(Decimal(effective) * Decimal("0.93")) if effective else ""
    return [
        row
        | {
            "line_item_net_unblended_cost": str(cost + rebate),
            "savings_plan_net_savings_plan_effective_cost": net_effective,
        }
    ]


@pytest.mark.parametrize("way", ["lines", "net", "map"])
def test_a_contract_is_one_driver_however_the_export_tells_its_discount(
    tmp_path: Path, way: str
) -> None:
    """It takes 7 % off usage and off the plan's fee, and so off what the plan covers."""
    columns: Row = {
        "lines": {},
        "map": {"discount": {}},
        "net": {
            "line_item_net_unblended_cost": "",
            "savings_plan_net_savings_plan_effective_cost": "",
        },
    }[way]
    if way == "net":
        before = [
            row
            | {
                "line_item_net_unblended_cost": row[COST],
                "savings_plan_net_savings_plan_effective_cost": row[
                    "savings_plan_savings_plan_effective_cost"
                ],
            }
            for row in week(BEFORE)
        ]
    else:
        before = [columns | row for row in week(BEFORE)]
    after = [part for row in week(NOW) for part in discounted(columns | row, way)]
    payers = [
        Decimal(row[COST])
        for row in week(NOW)
        if row["line_item_line_item_type"] in ("Usage", "SavingsPlanRecurringFee")
    ]
    first, *others = answered(tmp_path, before, after).drivers
    assert first.kind is K.DISCOUNTS
    assert abs(first.net + sum(payers) * Decimal("0.07")) < Decimal("0.01")
    assert all(abs(x.net) < Decimal("0.01") for x in others), others
