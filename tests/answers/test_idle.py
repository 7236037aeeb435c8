"""What `idle` says of a node: state and use are of one window, and its advice waits for the rule."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import permutations

import numpy as np
import pytest

from adapters.store.memory import MemoryStore
from bot.answers.fleet.card import (
    NodeRow,
    Spread,
    fleet_card,
    fleet_heat,
    idle_card,
    no_nodes,
    node_table,
    spread_texts,
)
from bot.cards.card import Chart, Table, Tone
from bot.model.anomaly import Detection, NodeState
from bot.model.causes import Cause
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import Gap, Reading, Scattered
from bot.model.window import Window
from tests.answers.configuring import app, ask, buttons, opened_every
from tests.builders import NOON, anomaly, instance, nodes, price
from tests.house import fakes

DAY = datetime(2026, 11, 17, tzinfo=UTC)
"""From 03:05 on two of three nodes have no runtime; `idle.for` is half an hour."""


@pytest.mark.parametrize(
    ("minute", "advice"),
    [(20, "2 only for a moment so far: wait for an alert"), (45, "such a node can be stopped")],
    ids=["a moment", "as long as the rule waits"],
)
async def test_a_node_that_stands_for_a_moment_is_not_said_to_be_free(minute, advice):
    bot = app(opened_every("5m"), MemoryStore())
    card = await ask(bot, "idle", at=DAY.replace(hour=3, minute=minute))
    assert [node["utilization_ratio"] for node in card.data["nodes"]] == [0, 0]
    assert advice in str(card.blocks)


@pytest.mark.parametrize(
    ("cause", "free"), [(Cause.ODD, False), (Cause.MEMORY_PRESSURE, False), (Cause.IDLE, True)]
)
async def test_only_a_rule_of_what_is_kept_for_nothing_sets_a_node_free(cause, free):
    still = Detection((anomaly(cause),), dict.fromkeys(nodes(4), NodeState.IDLE))
    bot = fakes.app(lambda *_: still, fakes.Chat())
    card = await bot.answer(fakes.ask("idle"))
    assert ("such a node can be stopped" in str(card.blocks)) is free
    assert ("4 only for a moment so far" in str(card.blocks)) is not free


ZONES = (("us-west-2b", 2), ("us-west-2c", 1))


def row(name, usd="", used=None, state=NodeState.BUSY, cluster="llama", **more):
    """Return a running node; "" is a price that is not known."""
    return NodeRow(instance(name, cluster), state, used, price(usd) if usd else None, **more)


def tables(card):
    return [block for block in card.blocks if isinstance(block, Table)]


def test_nodes_stand_dearest_first_then_least_used_then_by_name_and_unread_ones_last():
    rows = [
        row("dear", "9", 0.9),
        row("low", "5", 0.1),
        row("a", "5", 0.5),
        row("b", "5", 0.5),
        row("silent", "5"),
        row("free"),
    ]
    names = [x.instance.id for x in rows]
    for some in list(permutations(rows))[::97]:
        table = node_table(some, apart=False)
        assert [x[0] for x in table.rows] == names
        assert table.lines == tuple(f"fleet {name}" for name in names)
    assert [x[3] for x in table.rows] == [
        "90 %",
        "10 %",
        "50 %",
        "50 %",
        "no reading",
        "no reading",
    ]
    assert table.rows[-1][-1] == "?"
    assert [
        "cluster" in [column.name for column in node_table(rows, apart=apart).columns]
        for apart in (True, False)
    ] == [True, False]


def test_nodes_share_a_row_where_they_are_many_and_alike_in_all_that_it_says():
    alike = [row(f"n{n}", "5", n / 10) for n in range(1, 4)]
    apart = [
        row("other-state", "5", 0.1, NodeState.STARVED),
        row("other-price", "6", 0.1),
        row("other-cluster", "5", 0.1, cluster="vision"),
        replace(row("other-type", "5", 0.1), instance=typed_as("other-type", "trn2.48xlarge")),
    ]
    six = node_table([*alike, *apart[:3]], apart=True)
    seven = node_table([*alike, *apart], apart=True)
    assert (len(six.rows), len(seven.rows)) == (6, 5)
    (shared,) = (x for x in seven.rows if x[0].startswith("3 nodes"))
    assert (shared[0], shared[4], shared[5]) == ("3 nodes, n1 …", "10-30 %", "$15.00")
    # The dearest row stands first: three for fifteen dollars before one for six.
    assert [x[0] for x in seven.rows][:2] == [shared[0], "other-price"]


def typed_as(name, kind):
    found = instance(name)
    return replace(found, labels=replace(found.labels, instance_type=kind))


def test_rows_beyond_fifteen_are_counted_by_their_nodes():
    rows = [row(f"n{n:02}", str(100 - n)) for n in range(17)]
    assert node_table(rows, apart=False).rest == "and 2 more nodes"
    assert len(node_table(rows, apart=False).rows) == 15
    twins = [*rows, row("twin", "84")]
    assert node_table(twins, apart=False).rest.startswith("and 2 more nodes")
    assert "more" not in node_table(rows[:15], apart=False).rest


def test_clusters_stand_dearest_first_then_by_name_and_the_chart_leaves_out_the_unpriced():
    rows = [
        row("a1", "1", 0.2, cluster="dear"),
        row("a2", "9", 0.4, NodeState.IDLE, cluster="dear"),
        row("b1", "5", 0.5, cluster="beta"),
        row("c1", "5", cluster="alpha"),
        row("d1", cluster="unpriced"),
        row("e1", "1", cluster=""),
    ]
    for some in list(permutations(rows))[::97]:
        card = fleet_card(some, "", Reading(NOON))
        (table,) = tables(card)
        assert [x[0] for x in table.rows] == ["dear", "alpha", "beta", "(no cluster)", "unpriced"]
        assert [x[3] for x in table.rows][:3] == ["30 %", "no reading", "50 %"]
        assert [x[4] for x in table.rows] == ["$10.00", "$5.00", "$5.00", "$1.00", "?"]
        assert list(table.lines) == [
            "fleet dear",
            "fleet alpha",
            "fleet beta",
            "",
            "fleet unpriced",
        ]
        (chart,) = (x for x in card.blocks if isinstance(x, Chart))
        assert chart.categories == ("dear", "alpha", "beta", "(no cluster)")
        amounts = {x.name: x.values for x in chart.series}
        assert amounts == {"busy": (1, 5, 5, 1), "no runtime": (9, 0, 0, 0)}
    assert card.data["usd_per_hour"] == 21
    assert "1 node without a known price" in str(card.blocks)
    assert "without a known price" not in str(fleet_card(rows[:3], "", Reading(NOON)).blocks)


def test_what_does_nothing_starves_or_is_silent_is_counted_apart_and_warns():
    def told(*states, **more):
        rows = [row(f"n{n}", "5", state=state) for n, state in enumerate(states)]
        card = fleet_card(rows, "", Reading(NOON), **more)
        return card.tone is Tone.WARNING, str(card.blocks[0])

    idle, held, starved = NodeState.IDLE, NodeState.LOADED_IDLE, NodeState.STARVED
    assert told(NodeState.BUSY)[0] is False
    for states, words in (
        ((idle,), "1 does nothing, at $5.00 an hour."),
        ((idle, held, starved), "2 do nothing, at $10.00 an hour; 1 waits for data, at $5.00"),
        ((starved, starved), "2 wait for data"),
        ((NodeState.NO_DATA,), "1 of 1 node sent no metrics lately."),
    ):
        warns, said = told(*states)
        assert warns, states
        assert words in said, states
    job = Scattered("llama", "pretrain", ZONES)
    assert told(NodeState.BUSY, spread=(Spread(job),))[0]


def test_idle_says_what_each_state_means_and_what_a_commitment_bills_all_the_same():
    def said(*rows, cluster="", unsure=0):
        return idle_card(rows, cluster, Reading(NOON), unsure)

    idle, held = row("a", "5", 0.0, NodeState.IDLE), row("b", "7", 0.0, NodeState.LOADED_IDLE)
    both = said(idle, held)
    assert both.title == "2 nodes do nothing: $12.00 an hour"
    assert (both.tone, both.data["usd_per_hour"]) == (Tone.WARNING, 12)
    assert ["“loaded, idle”" in str(x.blocks) for x in (both, said(idle), said(held))] == [
        True,
        False,
        True,
    ]
    assert ["can be stopped" in str(x.blocks) for x in (both, said(idle), said(held))] == [
        True,
        True,
        False,
    ]
    brief = said(replace(idle, free=False), replace(held, free=False))
    assert "1 only for a moment so far" in str(brief.blocks)
    assert ["may be compiling" in str(said(idle, unsure=n).blocks) for n in (0, 1)] == [False, True]
    assert buttons(said(idle, cluster="llama"))["Fleet"].line == "fleet llama"
    assert buttons(both)["Fleet"].line == "fleet"
    assert (
        "cluster" in str(tables(both)[0].columns),
        "cluster" in str(tables(said(idle, cluster="llama"))[0].columns),
    ) == (True, False)

    half = replace(price("8"), on_demand_share=Decimal("0.5"), lapses=date(2027, 1, 1))
    late = replace(half, lapses=date(2028, 1, 1))
    paid = said(replace(idle, price=half), replace(held, price=late))
    assert "$8.00" in str(paid.blocks)
    assert "2028" in str(paid.blocks)
    assert "commit" not in str(both.blocks)


def test_no_idle_node_is_good_news_only_where_the_fleet_was_seen():
    gap = (Gap("No metrics."),)
    calm, blind = (idle_card((), "x", Reading(NOON, gaps=some)) for some in ((), gap))
    assert (calm.title, calm.tone, blind.tone) == ("No node is idle in x", Tone.GOOD, Tone.WARNING)
    assert blind.data["gaps"] == ["No metrics."]
    silent = [row("n1", "5"), row("n2", "5", state=NodeState.NO_DATA)]
    parts = [idle_card(rows, "x", Reading(NOON)) for rows in (silent, silent[1:])]
    assert [card.title for card in parts] == [
        "No node is idle in x, as far as could be read",
        "Which nodes are idle is not known",
    ]
    assert [card.data["known"] for card in parts] == ["partly known", "unknown"]
    assert "1 of 2 nodes sent no metrics lately" in str(parts[0].blocks)
    empty, unread = (no_nodes(Reading(NOON, gaps=some)) for some in ((), gap))
    assert (empty.title, unread.tone) == ("No node is running", Tone.WARNING)
    assert ("gaps" in empty.data, "gaps" in unread.data) == (False, True)


def hours(**used):
    """Return the utilization of nodes by hour until noon; None is a gap, and each has a cluster of its name."""
    length = {len(values) for values in used.values()}.pop()
    things = tuple(Labels(cluster=name, instance=name) for name in used)
    values = np.array(list(used.values()), dtype=float)[:, :, None]
    hour = timedelta(hours=1)
    metrics = ("neuroncore_utilization_ratio", "gpu_utilization_ratio")
    both = np.concatenate([values, np.full_like(values, np.nan)], axis=2)
    return Frame("node", things, NOON - length * hour, hour, metrics, both)


def test_a_heat_map_is_of_the_last_day_of_those_that_were_read_and_names_the_least_used_first():
    nan = float("nan")
    frame = hours(a=[0.1] * 25 + [0.5], b=[0.2] * 25 + [0.3], gone=[nan] * 26, c=[0.4] * 25 + [nan])
    chart = fleet_heat(frame, ["a", "gone", "b", "c"])
    assert chart is not None
    assert [x.name for x in chart.series] == ["a", "b", "c"]
    assert {len(x.values) for x in chart.series} == {24}
    assert (chart.times[0], chart.times[-1]) == (
        NOON - timedelta(hours=24),
        NOON - timedelta(hours=1),
    )
    assert chart.series[0].values[-2:] == (10.0, 50.0)
    assert chart.series[2].values[-1] is None
    assert chart.summary.endswith("in the last hour: b 30 %, a 50 %.")
    assert [x.line for x in chart.series] == ["fleet a", "fleet b", "fleet c"]
    assert fleet_heat(frame, ["gone"]) is None
    assert fleet_heat(None, ["a"]) is None

    # What has no NeuronCores counts by its GPUs.
    gpus = replace(frame, values=frame.values[:, :, ::-1])
    assert fleet_heat(gpus, ["a"]).series[0].values == chart.series[0].values
    many = [f"n{n:02}" for n in range(13)]
    wide = hours(**{name: [0.5] for name in many})
    assert [len(fleet_heat(wide, many[:n], "instance").series) for n in (12, 13)] == [12, 12]
    cut = [
        "least used" in fleet_heat(wide, many[:n], by).title
        for n, by in ((12, "instance"), (13, "instance"), (13, "cluster"))
    ]
    assert cut == [False, True, False]


def test_three_scattered_jobs_are_told_and_the_others_counted():
    week = Window(NOON - timedelta(days=7), NOON)
    spreads = [
        Spread(Scattered("llama", "a", ZONES), Decimal(5), week, of_cluster=True),
        Spread(Scattered("", "b", ZONES), Decimal(0), week),
        Spread(Scattered("llama", "c", ZONES)),
        Spread(Scattered("llama", "d", ZONES)),
    ]
    told = [str(block) for block in spread_texts(spreads)]
    assert len(told) == 4
    assert ["Cross-zone" in x for x in told] == [True, True, False, False]
    assert ["of everything on the bill" in x for x in told] == [False, True, False, False]
    assert "1 more job" in told[3]
    assert len(list(spread_texts(spreads[:3]))) == 3
