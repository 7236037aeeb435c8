"""One price of a node's hour: in `fleet`, `idle`, `runs` and alerts it adds up to what `cost` says of the node, to the cent."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.billing.bill import BillOptions, open_billing
from adapters.store.memory import MemoryStore
from bot.answers.fleet.command import fleet, idle
from bot.answers.runs.card import run_data
from bot.answers.runs.costed import costed_runs
from bot.costs.pricing import Pricing
from bot.knowledge import load_knowledge
from bot.model.anomaly import Detection, NodeState
from bot.model.fleet import Instance, Inventory, Market, Reservation
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.price import AccountRates, Basis, Whose
from bot.model.reading import Reading
from bot.model.request import Request, User
from bot.model.run import Run
from bot.model.spend import Filter
from bot.model.window import Window
from bot.ports import Ports
from bot.watch.track import value
from tests.belonging import MEMBER
from tests.billing.conftest import line, write_csv
from tests.builders import NOON, alert, anomaly, ports_over, price
from tests.house.fakes import Fleet

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
WEEK = Window(NOON.replace(hour=0) - 8 * DAY, NOON.replace(hour=0) - DAY)
"""The hours that the rates of `NOON` are of, with a bill that comes a day late."""
HALF_CENT = Decimal("0.0051")
ON_DEMAND, PLAN, SPOT = Decimal("21.50"), Decimal("13.545"), Decimal("6.7331")
BLOCK_FEE, BLOCK_DAYS, BLOCK_NODES = Decimal("96124.57"), 30, 4
BLOCK = Reservation(
    Labels(resource="cr-0ab", instance_type="trn1.32xlarge", region="us-west-2"), BLOCK_NODES, 0, WEEK.start - 5 * DAY,
    WEEK.start + (BLOCK_DAYS - 5) * DAY, Market.CAPACITY_BLOCK,
)  # fmt: skip


@dataclass(frozen=True)
class Node:
    """Say how a node is bought, and between which hours of the week before its first and after its last it runs."""

    name: str
    market: str
    begins: int
    ends: int
    covered: int = 0
    """Of a node of a Savings Plan: every so many hours one is on demand."""

    @property
    def launched(self) -> datetime:
        return WEEK.start + self.begins * HOUR + 30 * timedelta(minutes=1)

    @property
    def ended(self) -> datetime:
        return WEEK.start + self.ends * HOUR

    def amount(self, hour: int) -> Decimal:
        return Decimal("0.5") if hour == self.begins else Decimal(1)

    def usd(self, hour: int) -> Decimal:
        """Return the cost of an hour by its own market, worked out without the bot."""
        if self.market == "capacity-block":
            return BLOCK_FEE / BLOCK_DAYS / 24 / BLOCK_NODES
        if self.market == "spot":
            return SPOT
        return (
            PLAN
            if self.market == "savings-plan" and (not self.covered or hour % self.covered)
            else ON_DEMAND
        )

    def cost(self, window: Window = WEEK) -> Decimal:
        hours = (
            h
            for h in range(self.begins, self.ends)
            if window.start <= WEEK.start + h * HOUR < window.end
        )
        return sum((self.usd(h) * self.amount(h) for h in hours), Decimal(0))

    def rows(self) -> list[dict[str, object]]:
        return [self._row(hour) for hour in range(self.begins, self.ends)]

    def _row(self, hour: int) -> dict[str, object]:
        amount, usd = self.amount(hour), self.usd(hour)
        more: dict[str, object] = {
            "line_item_resource_id": self.name,
            "line_item_usage_amount": str(amount),
        }
        kind = "Usage"
        if self.market == "capacity-block":
            usd, more["line_item_line_item_description"] = (
                Decimal(0),
                "$0.00 per Capacity Block trn1.32xlarge Instance Hour",
            )
        if self.market == "spot":
            more["line_item_usage_type"] = "USW2-SpotUsage:trn1.32xlarge"
        if usd == PLAN:
            kind, more["savings_plan_savings_plan_effective_cost"] = (
                "SavingsPlanCoveredUsage",
                str(PLAN * amount),
            )
            usd = ON_DEMAND
        return line(WEEK.start + hour * HOUR, str(usd * amount), kind, **more)

    @property
    def instance(self) -> Instance:
        market = {"spot": Market.SPOT, "capacity-block": Market.CAPACITY_BLOCK}.get(
            self.market, Market.ON_DEMAND
        )
        labels = Labels(
            cluster="llama", instance=self.name, instance_type="trn1.32xlarge", region="us-west-2"
        )
        return Instance(labels, self.launched, market=market)


def fee() -> dict[str, object]:
    return line(BLOCK.starts_at - HOUR, str(BLOCK_FEE), "Fee", line_item_usage_type="USW2-CapacityBlock:trn1.32xlarge",
                line_item_resource_id="arn:aws:ec2:us-west-2:2:capacity-reservation/cr-0ab")  # fmt: skip


@st.composite
def accounts(draw: st.DrawFn) -> tuple[Node, ...]:
    """Return accounts whose nodes are bought in every way, and come and go."""
    blocks, nodes = 0, []
    for n in range(draw(st.integers(2, 6))):
        market = draw(st.sampled_from(["on-demand", "savings-plan", "spot", "capacity-block"]))
        blocks += market == "capacity-block"
        begins = draw(st.integers(-30, 120))
        ends = draw(st.one_of(st.just(168), st.integers(begins + 2, 168)))
        covered = draw(st.integers(0, 5)) if market == "savings-plan" else 0
        if blocks <= BLOCK_NODES and ends > 1:
            nodes.append(Node(f"i-{n}", market, begins, ends, covered))
    return tuple(nodes) or (Node("i-0", "on-demand", 0, 168),)


class World(Fleet):
    """A fleet of these nodes, all idle, with a run over some of their hours."""

    def __init__(self, nodes: Sequence[Node], span: Window = WEEK) -> None:
        self.inventory = Inventory(
            NOON, {x.name: x.instance if x.ends >= 168 else ended(x) for x in nodes}
        )
        self.span = span

    def read(self, now: datetime) -> Reading:
        labels, n = Labels(cluster="llama", job="sft"), (now - self.span.start) // HOUR
        values = np.full((1, n, 1), np.nan, dtype=np.float32)
        values[0, : (self.span.end - self.span.start) // HOUR, 0] = 1
        run = Frame("run", (labels,), self.span.start, HOUR, ("run_epoch_count",), values)
        return Reading(
            now, {"run": run}, self.inventory, (Run(labels, self.span.start, self.span.end),)
        )


def ended(node: Node) -> Instance:
    return replace(node.instance, state="terminated", ended_at=node.ended)


def ports_of(folder: str, nodes: Sequence[Node], span: Window = WEEK) -> Ports:
    write_csv(
        Path(folder) / "billing" / "bill.csv",
        [fee(), *(row for node in nodes for row in node.rows())],
    )
    billing = open_billing(Path(folder), BillOptions(blocks=lambda: (BLOCK,)))
    states = {node.name: NodeState.IDLE for node in nodes}
    world = World(nodes, span)
    return ports_over(
        world, MemoryStore(), billing=billing, knowledge=load_knowledge(), detect=lambda *_: Detection(states=states)
    )  # fmt: skip


def billed(ports: Ports, window: Window = WEEK) -> dict[str, Decimal]:
    """Return what `cost by resource` says of the hours of each node."""
    rows = ports.world.billing.tally(window, ("resource",), [Filter("line", ("EC2",))]).rows
    return {row.key["resource"]: row.money.amortised for row in rows}


@settings(max_examples=15, deadline=None)
@given(accounts())
async def test_node_hours_times_the_one_price_are_the_cost_of_every_node(
    nodes: tuple[Node, ...],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ports, request = (
            ports_of(folder, nodes),
            Request("fleet", User("web:me"), NOON, "web", MEMBER),
        )
        cost, pricing = billed(ports), Pricing(ports).at(NOON)
        cards = [await fleet(ports, request, ""), await idle(ports, request, "")]
        shown = [
            {row["instance"]: row["usd_per_hour"] for row in card.data["nodes"]} for card in cards
        ]
        for node in nodes:
            hours = sum((node.amount(h) for h in range(max(0, node.begins), node.ends)), Decimal(0))
            if not hours:
                continue
            assert abs(cost[node.name] - node.cost()) < HALF_CENT, (
                "the bill against arithmetic of its own"
            )
            price_of = pricing.instance(node.instance)
            assert price_of is not None
            assert (price_of.basis, price_of.whose) == (Basis.BILLED, Whose.OWN)
            for usd_per_hour in (
                price_of.usd_per_hour,
                *(one[node.name] for one in shown if node.name in one),
            ):
                assert abs(usd_per_hour * hours - cost[node.name]) < HALF_CENT
            onset = max(WEEK.start, node.launched)
            still = anomaly(
                n=1,
                at=onset,
                things=(node.name,),
                wasted_shares=(1.0,),
                window=Window(onset, onset + HOUR),
            )
            until = onset + float(hours) * HOUR
            wasted = value(alert(still, seen=until), None, lambda _, p=price_of: p, until).waste
            assert wasted is not None
            assert abs(wasted.so_far - cost[node.name]) < HALF_CENT
        assert all(set(one) == {node.name for node in nodes if node.ends >= 168} for one in shown)
        [run] = costed_runs(ports, NOON)
        assert abs(run.cost.usd - sum(cost.values(), Decimal(0))) < HALF_CENT * len(nodes)
        ports.world.billing.close()  # type: ignore[attr-defined]


@settings(max_examples=8, deadline=None)
@given(accounts(), st.integers(0, 100), st.integers(1, 60))
def test_a_run_costs_what_its_hours_were_billed_at(
    nodes: tuple[Node, ...], first: int, length: int
) -> None:
    span = Window(WEEK.start + first * HOUR, WEEK.start + (first + length) * HOUR)
    with tempfile.TemporaryDirectory() as folder:
        ports = ports_of(folder, nodes, span)
        true = sum((node.cost(span) for node in nodes), Decimal(0))
        [run] = costed_runs(ports, NOON)
        ports.world.billing.close()  # type: ignore[attr-defined]
    assert abs(run.cost.usd - true) < HALF_CENT


async def test_a_node_of_cluster_lab_costs_what_its_own_bill_says() -> None:
    """On demand at $21.50 beside a plan's nodes at $13.545: an hour is $21.50 in `fleet` and `idle`, and the card says whose."""
    nodes = [
        Node("i-lab", "on-demand", -30, 168),
        *(Node(f"i-{n}", "savings-plan", -30, 168) for n in range(5)),
    ]
    with tempfile.TemporaryDirectory() as folder:
        ports, request = (
            ports_of(folder, nodes),
            Request("idle", User("web:me"), NOON, "web", MEMBER),
        )
        for card in (await fleet(ports, request, "llama"), await idle(ports, request, "llama")):
            rows = {row["instance"]: row for row in card.data["nodes"]}
            assert rows["i-lab"]["usd_per_hour"] == ON_DEMAND
            assert rows["i-0"]["usd_per_hour"] == PLAN
            assert {row["basis"] for row in rows.values()} == {"billed, own hours"}
        ports.world.billing.close()  # type: ignore[attr-defined]


class Jobs(World):
    """Two runs that no tag ties to nodes, one after the other."""

    def read(self, now: datetime) -> Reading:
        names = [Labels(cluster="llama", job=job) for job in ("first", "second")]
        values = np.full((2, 168, 1), np.nan, dtype=np.float32)
        values[0, :72, 0], values[1, 72:168, 0] = 1, np.linspace(0, 0.4, 96)
        run = Frame("run", tuple(names), WEEK.start, HOUR, ("run_epoch_count",), values)
        return Reading(
            now, {"run": run}, self.inventory, tuple(Run(x, WEEK.start, WEEK.end) for x in names)
        )


def two_runs(folder: str) -> tuple[Ports, Sequence[Node]]:
    # The plan began after three days: by the newest price the first run would look too cheap.
    nodes = [
        Node("i-a", "savings-plan", -30, 168),
        Node("i-b", "spot", -30, 168),
        Node("i-c", "savings-plan", -30, 168, 2),
    ]
    ports = ports_of(folder, nodes)
    world = Jobs(nodes)
    return replace(ports, world=replace(ports.world, source=world)), nodes


def test_runs_are_divided_by_those_that_go_on_at_the_time() -> None:
    """A run that is over takes nothing from the next: each has the whole cluster while it goes on, at its hours' own price."""
    with tempfile.TemporaryDirectory() as folder:
        ports, nodes = two_runs(folder)
        usd = {run.name: run.cost.usd for run in costed_runs(ports, NOON)}
        by = {run.by for run in costed_runs(ports, NOON)}
        ports.world.billing.close()  # type: ignore[attr-defined]
    assert list(usd.values()) == sorted(usd.values(), reverse=True), "the dearest first"
    three = WEEK.start + 72 * HOUR
    for name, span in (("first", Window(WEEK.start, three)), ("second", Window(three, WEEK.end))):
        assert abs(usd[name] - sum((node.cost(span) for node in nodes), Decimal(0))) < HALF_CENT
    assert by == {"the whole cluster"}


def test_runs_as_json_hold_no_truth_of_numpy() -> None:
    with tempfile.TemporaryDirectory() as folder:
        ports, _ = two_runs(folder)
        data = [run_data(run.cost) for run in costed_runs(ports, NOON)]
        ports.world.billing.close()  # type: ignore[attr-defined]
    assert [type(row["whole"]) for row in data] == [bool, bool]
    assert b'"whole":true' in orjson.dumps([{"whole": row["whole"]} for row in data])


RESERVED = Reservation(
    Labels(resource="cr-1", instance_type="trn1.32xlarge", region="us-west-2"), 8, 2, NOON - 20 * DAY, None
)  # fmt: skip


class Held(Fleet):
    """An account where most hours of a type are covered by a plan, and one reservation stands partly empty."""

    empty: tuple[object, ...] = ()
    fee = replace(price("9.50", Market.CAPACITY_BLOCK, Basis.BILLED), hours=500.0)

    def rates(self, _: datetime) -> AccountRates:
        plan = replace(price("13.545", Market.SAVINGS_PLAN, Basis.BILLED), hours=900.0)
        listed = replace(price("21.50", Market.ON_DEMAND, Basis.BILLED), hours=100.0)
        return AccountRates(
            (plan, listed, self.fee), by_reservation={"cr-1": self.empty} if self.empty else {}
        )  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("market", "empty", "usd"),
    [
        (Market.RESERVED, (), "172.00"),
        (
            Market.RESERVED,
            (replace(price("20.00", Market.ON_DEMAND, Basis.BILLED), hours=40.0),),
            "160.00",
        ),
        (Market.CAPACITY_BLOCK, (), "76.00"),
    ],
    ids=["on demand, as no plan took it", "what its own lines say", "the share of the fee"],
)
def test_an_unused_reservation_costs_what_its_own_lines_say(
    market: Market, empty: tuple[object, ...], usd: str
) -> None:
    """Eight places: never the mean of the type's on-demand and Savings Plan hours, which is $14.34."""
    account = Held()
    account.empty = empty
    held = replace(RESERVED, market=market)
    found = Pricing(ports_over(account, None)).at(NOON)(
        "cr-1", Inventory(NOON, reservations=(held,))
    )
    assert found is not None
    assert found.usd_per_hour == Decimal(usd)


def test_an_empty_place_is_told_apart_from_an_instance(tmp_path: Path) -> None:
    rows = Node("i-1", "savings-plan", 0, 168).rows()
    rows += [line(WEEK.start + h * HOUR, "43.00", line_item_usage_type="USW2-UnusedBox:trn1.32xlarge", line_item_usage_amount="2",
                  line_item_resource_id="arn:aws:ec2:us-west-2:2:capacity-reservation/cr-1") for h in range(168)]  # fmt: skip
    write_csv(tmp_path / "billing" / "bill.csv", rows)
    bill = open_billing(tmp_path)
    rates = bill.rates(NOON)
    bill.close()
    assert [(x.market, x.usd_per_hour) for x in rates.by_reservation["cr-1"]] == [
        (Market.ON_DEMAND, ON_DEMAND)
    ]
    assert [(x.market, x.usd_per_hour) for x in rates.by_type] == [(Market.SAVINGS_PLAN, PLAN)]
    assert set(rates.by_instance) == {"i-1"}
