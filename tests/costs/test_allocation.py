"""Whose money a shared node is, where the bill does not split it: from bill and metrics to the card."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest

from adapters.billing.bill import BillOptions, open_billing
from adapters.store.memory import MemoryStore
from bot.answers.cost.card import cost
from bot.cards.card import Table, Text, plain
from bot.costs.allocation import Allocation, Occupancy, changed, owned_rows, split_rows
from bot.errors import Unavailable
from bot.grammar.line import understand
from bot.knowledge import load_knowledge
from bot.model.fleet import Instance, Inventory, Launcher, LauncherKind
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import Reading
from bot.model.request import Request, User
from bot.model.spend import Derived, Filter, Money, Spend, Tally
from bot.model.window import Window
from tests.belonging import MEMBER
from tests.builders import ports_over
from tests.costs.split_rows import Readings, SplitRows

NOW = datetime(2026, 11, 20, tzinfo=UTC)
DAY = Window(NOW - timedelta(days=1), NOW)
HOURS = 24
KIND = "trn1.32xlarge"
COLUMNS = [
    "bill_payer_account_id", "line_item_line_item_type", "line_item_product_code", "line_item_usage_type",
    "line_item_operation", "line_item_resource_id", "line_item_usage_start_date", "line_item_usage_end_date",
    "line_item_usage_amount", "line_item_unblended_cost", "product", "resource_tags", "split_line_item_parent_resource_id",
    "split_line_item_split_cost", "split_line_item_unused_cost",
]  # fmt: skip


def billed(node, hours=range(HOURS), cost="21.50", team="", cluster="llama"):
    """Return a CUR row for each hour of a node."""
    tags = {"aws_eks_cluster_name": cluster} | ({"user_team": team} if team else {})
    for hour in hours:
        at = DAY.start + timedelta(hours=hour)
        yield ["1", "Usage", "AmazonEC2", f"BoxUsage:{KIND}", "RunInstances", node, *_span(at), "1", cost,
               json.dumps({"instance_type": KIND}), json.dumps(tags), "", "", ""]  # fmt: skip


def split(node, pod, hour=0, cost="10"):
    at = DAY.start + timedelta(hours=hour)
    return ["1", "Usage", "AmazonEKS", "USW2-EKS-EC2-vCPU-Hours", "EKSPod-EC2", f"arn:aws:eks:r:1:pod/llama/{pod}/uid",
            *_span(at), "1", "", "{}", "{}", node, cost, "0"]  # fmt: skip


def _span(at):
    return f"{at:%Y-%m-%dT%H:%M:%SZ}", f"{at + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"


def pod(name, namespace="nlp", job="", cluster="llama"):
    return Labels(cluster=cluster, namespace=namespace, pod=name, job=job)


class Seen:
    """A source that shows what it was given."""

    def __init__(self, reading=None):
        self.reading = reading

    def read(self, now):
        if self.reading is None:
            raise Unavailable("no metrics")
        return replace(self.reading, now=now)


def reading(pods, nodes, *, used=None, inventory=None, hours=HOURS):
    """Return hourly readings of pods and nodes: {labels: requested cores, or one by hour}, {node: offered, likewise}."""
    start = DAY.end - timedelta(hours=hours)

    def frame(kind, things, metrics, columns):
        values = np.stack(
            [
                np.array([np.broadcast_to(x, hours) for x in one], dtype=np.float32)
                for one in columns
            ],
            axis=2,
        )
        return Frame(kind, tuple(things), start, timedelta(hours=1), metrics, values)

    busy = [used.get(x.pod, np.nan) if used else np.nan for x in pods]
    frames = {
        "pod": frame("pod", pods, ("neuroncore_request_count", "neuroncore_utilization_ratio"), [pods.values(), busy]),
        "node": frame("node", [Labels(instance=x, cluster="llama", instance_type=KIND) for x in nodes],
                      ("neuroncore_limit_count",), [nodes.values()]),
    }  # fmt: skip
    return Reading(NOW, frames, inventory or Inventory())


@pytest.fixture(scope="module")
def bills(tmp_path_factory):
    """Return a function that opens the bill of some rows, once for all tests of the same."""
    opened = {}

    def bill(rows, **options):
        text = json.dumps(rows)
        if (text, *options) not in opened:
            folder = tmp_path_factory.mktemp("bill")
            (folder / "billing").mkdir()
            with (folder / "billing" / "bill.csv").open("w", newline="") as file:
                csv.writer(file).writerows([COLUMNS, *rows])
            opened[text, *options] = open_billing(folder, BillOptions(**options))
        return opened[text, *options]

    return bill


@pytest.fixture
def ports(bills):
    def made(rows, seen=None, **options):
        billing = bills(list(rows), **options)
        return ports_over(Seen(seen), MemoryStore(), billing=billing, knowledge=load_knowledge())

    return made


def asked(ports, by, *where):
    tally = Allocation(ports, NOW).tally(DAY, by.split(","), where)
    assert sum((row.money.net for row in tally.rows), Decimal(0)) == tally.total.net
    assert all(
        x.money.net == x.money.gross + x.money.discounts + x.money.credits + x.money.tax
        for x in tally.rows
    )
    split_anew(ports, tally, where)
    return tally


def split_anew(ports, tally, where):
    """Split the same rows by the arithmetic of receipts: each row, and its derived parts, to the cent."""
    rows = SplitRows(ports, Readings(ports, NOW), NOW)
    if not {*tally.by, *(x.dimension for x in where)} & {"pod", "namespace", "team"}:
        return
    for row in tally.rows:
        parts = rows.allocated({"start": DAY.start, "end": DAY.end}, tally.by, where, row.key)
        made = {name: sum((part[name] for part in parts), Decimal(0)) for name in parts[0]}
        derived = row.derived or Derived()
        stated = {"net": row.money.net, "amortised": row.money.amortised, "gross": row.money.gross}
        stated |= {"derived": derived.amortised, "unused": derived.unused, "idle": derived.idle}
        assert {name: float(made[name]) for name in stated} == pytest.approx(
            {x: float(y) for x, y in stated.items()}, abs=1e-4
        )


def amounts(tally):
    return {"/".join(row.key.values()): row.money.net for row in tally.rows}


def test_changes_stand_with_the_dearest_first_and_an_estimate_makes_its_row_one():
    def row(name, usd, *, estimated=False):
        return Spend({"pod": name}, Money(Decimal(usd), net=Decimal(usd)), estimated)

    whole = Tally(DAY, ("pod",), (row("a", 1), row("gone", 2)), Money())
    found = changed(whole, [row("a", 1, estimated=True), row("b", 5), row("gone", -2)], ())
    rows = [(x.key["pod"], x.money.net, x.estimated) for x in found.rows]
    assert rows == [("b", 5, False), ("a", 2, True)]


def test_of_a_cluster_its_pods_alone_share_the_hours_that_were_read():
    """In the second hour nobody knows who held what: that hour stays with its node."""
    held = np.zeros((2, HOURS))
    held[:, 0] = 4
    pods = (pod("a"), pod("v", cluster="vision"))
    known = Occupancy(DAY.start, DAY, pods, held, held, {}, {})
    assert known.of("llama").pods == pods[:1]
    rows = [
        Spend(
            {"cluster": "llama", "hour": f"{DAY.start + timedelta(hours=hour):%Y-%m-%dT%H:%M:%SZ}"}
            | dict.fromkeys(("pod", "namespace", "team"), ""),
            Money(Decimal(usd), net=Decimal(usd), amortised=Decimal(usd)),
            estimated=hour == 0,
        )
        for hour, usd in ((0, 10), (1, 7))
    ]
    changes = {x.key["pod"]: x for x in split_rows(rows, (), "hour", known) if x.money.net > 0}
    assert {name: x.money.net for name, x in changes.items()} == {"a": 10}

    held[:, 1] = 4
    later = {x.key["pod"]: x for x in split_rows(rows, (), "hour", known) if x.money.net > 0}
    assert (later["a"].money.net, later["a"].estimated) == (17, True)


def test_pods_and_the_idle_share_are_the_node(ports):
    here = ports(billed("i-1"), reading({pod("a"): 8, pod("b"): 16}, {"i-1": 32}))
    tally = asked(here, "pod")
    assert amounts(tally) == {"b": Decimal("258.00"), "a": Decimal("129.00"), "": Decimal("129.00")}
    (rest,) = (row for row in tally.rows if not row.key["pod"])
    assert rest.derived.idle == Decimal("129")
    assert tally.total.net == 24 * Decimal("21.50")


def test_sevenths_add_up_to_the_last_digit(ports):
    pods = {pod(name): 4 for name in "abcdefg"}
    tally = asked(ports(billed("i-1", cost="21.4999999991"), reading(pods, {"i-1": 28})), "pod")
    assert tally.total.net == 24 * Decimal("21.4999999991")
    assert set(amounts(tally)) == set("abcdefg")


def test_a_node_that_was_replaced_counts_once(ports):
    early, late = np.arange(HOURS) < 10, np.arange(HOURS) >= 10
    nodes = {"i-1": np.where(early, 32, np.nan), "i-2": np.where(late, 32, np.nan)}
    pods = {pod("a-0"): np.where(early, 32, np.nan), pod("a-1"): np.where(late, 32, np.nan)}
    here = ports(
        [*billed("i-1", range(10)), *billed("i-2", range(10, HOURS))], reading(pods, nodes)
    )
    assert amounts(asked(here, "pod")) == {"a-0": Decimal("215.00"), "a-1": Decimal("301.00")}
    assert amounts(asked(here, "resource")) == {"i-1": Decimal("215.00"), "i-2": Decimal("301.00")}
    assert amounts(asked(here, "namespace")) == {"nlp": Decimal("516.00")}


def test_a_pod_pays_only_while_it_is_there(ports):
    pods = {pod("a"): np.where(np.arange(HOURS) < 6, 32, np.nan)}
    tally = asked(ports(billed("i-1"), reading(pods, {"i-1": 32})), "pod")
    assert amounts(tally) == {"a": Decimal("129.00"), "": Decimal("387.00")}


def test_hours_that_were_not_read_are_nobodys_and_not_idle(ports):
    tally = asked(ports(billed("i-1"), reading({pod("a"): 32}, {"i-1": 32}, hours=12)), "pod")
    assert amounts(tally) == {"a": Decimal("258.00"), "": Decimal("258.00")}
    assert all(row.derived is None or not row.derived.idle for row in tally.rows)


def test_what_the_bill_splits_itself_stands(ports):
    here = ports([*billed("i-1"), split("i-1", "nlp/billed")], reading({pod("a"): 32}, {"i-1": 32}))
    assert amounts(asked(here, "pod")) == {
        "a": 23 * Decimal("21.50"),
        "": Decimal("11.50"),
        "billed": Decimal("10.00"),
    }


def test_a_bill_by_the_day_is_split_by_the_day(ports):
    pods = {pod("a"): np.where(np.arange(HOURS) < 6, 32, np.nan), pod("b"): 16}
    here = ports(
        billed("i-1", range(1), cost="480"), reading(pods, {"i-1": 64}), by_day=lambda: "Athena"
    )
    assert amounts(asked(here, "pod")) == {
        "": Decimal("300.00"),
        "b": Decimal("120.00"),
        "a": Decimal("60.00"),
    }


def test_cores_held_and_not_used_are_told(ports):
    here = ports(
        billed("i-1"), reading({pod("a"): 16, pod("b"): 16}, {"i-1": 32}, used={"a": 0.25})
    )
    unused = {
        row.key["pod"]: row.derived.unused for row in asked(here, "pod").rows if row.key["pod"]
    }
    assert unused == {"a": Decimal("193.5"), "b": 0}


def test_a_pod_without_a_team_has_a_derived_owner(ports):
    pods = {
        pod("a"): 8,
        pod("train-7f9c6d5b4-x2x9k", "default"): 8,
        pod("w-0", "default", job="sweep"): 16,
    }
    tally = asked(ports(billed("i-1"), reading(pods, {"i-1": 32})), "team")
    found = {row.key["team"]: row.derived.owners[0][1] for row in tally.rows}
    assert found == {"nlp": "namespace", "train": "job", "sweep": "job"}


def test_a_team_of_the_node_is_not_overruled(ports):
    here = ports(billed("i-1", team="search"), reading({pod("a"): 8}, {"i-1": 32}))
    assert amounts(asked(here, "team")) == {"search": Decimal("516.00")}
    assert amounts(asked(here, "team,namespace")) == {
        "search/": Decimal("387.00"),
        "search/nlp": Decimal("129.00"),
    }


def test_pods_of_the_bill_have_derived_owners_too(ports):
    here = ports([*billed("i-1", range(1)), split("i-1", "nlp/a")])
    assert amounts(asked(here, "team")) == {"": Decimal("11.50"), "nlp": Decimal("10.00")}


@pytest.mark.parametrize(("one", "net"), [(Filter("namespace", ("nlp",)), "387"), (Filter("namespace", ("nlp",), negated=True), "129"),
                                          (Filter("pod", ("a",)), "129"), (Filter("team", ("nlp",)), "387")])  # fmt: skip
def test_filters_hold_for_derived_owners(ports, one, net):
    here = ports(billed("i-1"), reading({pod("a"): 8, pod("b"): 16}, {"i-1": 32}))
    assert asked(here, "cluster", one).total.net == Decimal(net)


def test_without_metrics_the_bill_stands(ports):
    assert amounts(asked(ports(billed("i-1")), "namespace")) == {"": Decimal("516.00")}


async def test_the_card_and_its_data_say_what_is_derived(ports):
    nodes = {"i-1": Instance(Labels(instance="i-1", cluster="llama"), NOW, tags={}),
             "i-2": Instance(Labels(instance="i-2", cluster="llama", team="search"), NOW)}  # fmt: skip
    seen = reading({pod("a"): 16}, {"i-1": 32}, inventory=Inventory(NOW, nodes))
    words = "cost 2026-11-19 by team"
    card = await cost(
        ports(billed("i-1"), seen),
        Request(words, User("u"), NOW, "web", MEMBER),
        **understand(words, NOW).arguments,
    )
    (table,) = (block for block in card.blocks if isinstance(block, Table))
    assert {row[0] for row in table.rows} == {"nlp (derived)", "(no team)"}
    told = " ".join(plain(block.spans) for block in card.blocks if isinstance(block, Text))
    assert "split by the NeuronCores that pods requested" in told
    assert "$258 is for cores that no pod held" in told
    assert "(a hint): $258 search (team of 1 other node of llama: i-1)" in told
    (row,) = (row for row in card.data["rows"] if row["key"]["team"])
    assert row["derived"]["owners"] == [{"team": "nlp", "by": "namespace"}]
    assert row["derived"]["amortised_usd"] == row["amortised_usd"] == 258
    assert card.data["split"]["estimate"] is True
    assert card.data["owner_hints"][0]["owner"] == "search"


async def test_the_table_shows_what_each_pod_holds_and_does_not_use(ports):
    seen = reading({pod("a"): 16, pod("b"): 16}, {"i-1": 32}, used={"a": 0.25, "b": 1})
    words = "cost 2026-11-19 by pod"
    card = await cost(
        ports(billed("i-1"), seen),
        Request(words, User("u"), NOW, "web", MEMBER),
        **understand(words, NOW).arguments,
    )
    (table,) = (block for block in card.blocks if isinstance(block, Table))
    assert [column.name for column in table.columns] == [
        "pod",
        "net",
        "amortised",
        "share",
        "held, unused",
    ]
    assert table.rows == (("a", "$258", "$258", "50 %", "$194"), ("b", "$258", "$258", "50 %", ""))
    assert table.total == ("total", "$516", "$516", "100 %", "$194")


def hinted(ports, **more):
    """Return the one hint for an untagged node of a cluster that others name."""
    node = Instance(Labels(instance="i-1", cluster="llama"), NOW, **more)
    other = Instance(Labels(instance="i-2", cluster="other", team="ad-ranking"), NOW)
    here = ports(
        billed("i-1"),
        reading(
            {pod("a"): 0, pod("z", cluster="other"): 1},
            {"i-1": 32},
            inventory=Inventory(NOW, {"i-1": node, "i-2": other}),
        ),
    )
    (hint,) = Allocation(here, NOW).hints(DAY, ())
    return hint.owner, hint.by


class Counted:
    """Pass questions to a bill on, and count the rows that come back of each."""

    def __init__(self, billing):
        self.billing, self.rows = billing, []

    def tally(self, window, by, where=(), most=None):
        tally = self.billing.tally(window, by, where)
        self.rows.append(len(tally.rows))
        return tally


@pytest.mark.parametrize("teams", [("",), ("search",), ("", "search"), ("nlp",)])
@pytest.mark.parametrize("negated", [False, True])
def test_a_filter_by_team_reads_only_the_hours_of_nodes_whose_parts_it_may_keep(
    ports, teams, negated
):
    nodes = [*billed("i-1"), *billed("i-2", team="search"), *billed("i-3", team="ads")]
    here = ports(
        nodes,
        reading(
            {pod("a"): 16, pod("b", "i-2"): 8, pod("c", "i-3"): 4},
            {"i-1": 32, "i-2": 32, "i-3": 32},
        ),
    )
    counted = Counted(here.world.billing)
    counting = replace(here, world=replace(here.world, billing=counted))
    every = Allocation(here, NOW).tally(DAY, ("team", "namespace")).rows
    kept = (
        Allocation(counting, NOW)
        .tally(DAY, ("team", "namespace"), [Filter("team", teams, negated)])
        .rows
    )
    assert kept == tuple(row for row in every if (row.key["team"] in teams) is not negated)
    of = {"": 1, "search": 1, "ads": 1, "nlp": 0}
    passed = sum(n for team, n in of.items() if not team or (team in teams) is not negated)
    assert max(counted.rows) == passed * HOURS


def test_a_hint_says_by_what(ports):
    launcher = Launcher("dana", LauncherKind.PERSON, "RunInstances")
    assert hinted(ports, launched_by=launcher, owner="kim") == (
        "dana",
        "launched it (RunInstances)",
    )


def test_a_name_hints_at_a_team(ports):
    assert hinted(ports, tags={"Name": "ad-ranking-dev-3"}) == (
        "ad-ranking",
        "named ad-ranking-dev-3",
    )


def test_nobody_is_named_where_nothing_tells(ports):
    assert hinted(ports) == ("", "")


def test_each_kind_of_amount_is_split_and_a_young_one_stays_an_estimate(ports):
    node = list(billed("i-1"))
    kinds = [
        [*row[:1], kind, *row[2:9], usd, *row[10:]]
        for row in node
        for kind, usd in (("Tax", "2.15"), ("Credit", "-1.00"))
    ]
    tally = asked(ports([*node, *kinds], reading({pod("a"): 8}, {"i-1": 32})), "pod")
    (mine,) = (row for row in tally.rows if row.key["pod"] == "a")
    assert (mine.money.gross, mine.money.tax, mine.money.credits) == (
        Decimal("129.00"),
        Decimal("12.90"),
        Decimal("-6.00"),
    )
    assert (mine.money.net, mine.money.amortised) == (Decimal("135.90"), Decimal("129.00"))
    assert all(row.estimated for row in tally.rows), "the bill ends today"


def test_what_is_derived_of_an_owner_is_amortised_cost():
    money = Money(gross=Decimal(10), net=Decimal(10), amortised=Decimal(7))
    key = {"cluster": "llama", "namespace": "nlp", "pod": "train-0", "team": ""}
    less, more = owned_rows([Spend(key, money)])
    assert less.money == -money
    assert (more.key["team"], more.derived.amortised) == ("nlp", 7)
