"""Compiles in dollars: what all of them cost, what was for nothing, and what one node for all would have spared."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import numpy as np
import pytest

from adapters.store.memory import MemoryStore
from bot.answers.fleet.compiling import CompileNote, compile_blocks, compile_text, log_blocks
from bot.cards.card import Text, plain
from bot.costs.compiling import CacheMiss, batches, bill_of, compiling_within, ledger, sharing
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.run import Compile, CompileMark, Ending, Mark
from bot.model.spend import Filter
from bot.model.window import Window
from tests.builders import NOON, ports_over, reading
from tests.house.fakes import Fleet

HOUR = timedelta(hours=1)


def compile_(name="i-1", start=0.0, hours=1.0, ending=Ending.USED, cluster="llama"):
    begun = NOON + start * HOUR
    return Compile(name, Labels(cluster=cluster), Window(begun, begun + hours * HOUR), ending)


def twenty(_):
    return Decimal(20)


def nobody_knows(_):
    return None


def test_workers_that_compile_the_same_minutes_could_have_spared_all_but_the_slowest():
    (one,) = batches([compile_(), compile_("i-2", 0.1, 0.5), compile_("i-3", 0.2, 0.75)], twenty)
    assert (one.nodes, one.usd, one.spared_usd) == (3, Decimal("45.00"), Decimal("25.00"))


def test_other_clusters_other_minutes_and_other_ends_are_other_compiles():
    found = [
        compile_(),
        compile_(start=2),
        compile_("i-2", ending=Ending.CUT),
        compile_("i-9", cluster="vision"),
    ]
    assert [x.nodes for x in batches(found, twenty)] == [1, 1, 1, 1]
    assert sum(x.spared_usd for x in batches(found, twenty)) == 0


def test_only_the_part_within_the_window_counts():
    bill = bill_of(
        [compile_(start=-0.5), compile_("i-2", 1.5, ending=Ending.CUT)],
        Window(NOON, NOON + 2 * HOUR),
        twenty,
    )
    assert (bill.compiles, bill.node_hours, bill.usd, bill.cut_usd) == (
        2,
        1.0,
        Decimal("20.00"),
        Decimal("10.00"),
    )


def test_a_price_that_nobody_knows_is_no_zero():
    bill = bill_of([compile_()], Window(NOON, NOON + HOUR), nobody_knows)
    assert (bill.compiles, bill.usd, bill.unpriced) == (1, 0, 1)
    assert "1 node without a known price" in words([compile_text(bill)])
    (note,) = (
        CompileNote(one, HOUR, 4) for one in batches([compile_(ending=Ending.GOING)], nobody_knows)
    )
    assert "not known (no price)" in words(compile_blocks([note], NOON + HOUR))


def words(blocks):
    return "\n".join(plain(block.spans) for block in blocks if isinstance(block, Text))


def said(n, ending=Ending.GOING, after=0.5):
    made = [
        CompileNote(one, HOUR, 4)
        for one in batches(
            [compile_(f"i-{k}", ending=ending, hours=after) for k in range(n)], twenty
        )
    ]
    return words(compile_blocks(made, NOON + after * HOUR))


def test_a_compile_that_goes_on_says_so_its_cost_and_not_to_cancel_it():
    text = said(1)
    assert "i-0 of llama is compiling for 30 min" in text
    assert "est. cost so far $10.00. Do not cancel" in text
    assert "Within its grace of 1 h" in text
    assert "Next time" not in text
    assert "Past its grace of 1 h" in said(1, after=1.5)


def test_several_nodes_are_advised_to_share_and_many_to_compile_on_one_first():
    assert "neuron_parallel_compile" not in said(3)
    assert "NEURON_COMPILE_CACHE_URL; --cache_dir in NEURON_CC_FLAGS overrides it" in said(3)
    assert "compile on one node first (neuron_parallel_compile)" in said(4)
    assert "about $30.00 of it would have been saved" in said(4)


def test_a_compile_that_was_cut_off_is_money_lost():
    assert "A compile on 2 nodes of llama was cut off" in said(2, Ending.CUT)
    assert "est. $20.00 wasted, nothing executed" in said(2, Ending.CUT)
    assert said(2, Ending.USED) == ""


def test_more_compiles_than_fit_are_counted():
    many = [compile_(f"i-{k}", cluster=f"c{k}", ending=Ending.GOING) for k in range(6)]
    assert "And 2 more compiles." in words(
        compile_blocks([CompileNote(x, HOUR, 4) for x in batches(many, twenty)], NOON)
    )


def logged(*marks, notes=()):
    return words(log_blocks([CompileMark(NOON, name, mark) for name, mark in marks], notes))


def test_what_the_log_complains_of_is_said_with_what_to_do():
    assert "2 nodes skip a graph that is cached as failed" in logged(
        ("i-1", Mark.SKIPPED), ("i-2", Mark.SKIPPED)
    )
    assert "--retry_failed_compilation" in logged(("i-1", Mark.SKIPPED))
    assert "i-1 waits for another process" in logged(("i-1", Mark.WAITING), ("i-1", Mark.WAITING))
    assert logged(("i-1", Mark.BEGUN)) == ""


def test_waiting_is_no_complaint_while_another_node_compiles():
    going = [CompileNote(one, HOUR, 4) for one in batches([compile_(ending=Ending.GOING)], twenty)]
    assert logged(("i-1", Mark.WAITING), notes=going) == ""


@pytest.mark.parametrize(
    ("modules", "shared"),
    [(("M1", "M1", "M1"), 3), (("M1", "M1", "M2"), 2), (("M1", "M2", "M3"), 0)],
)
def test_the_log_knows_who_compiles_the_same_graph(modules, shared):
    made = [compile_(f"i-{k}", ending=Ending.GOING) for k in range(3)]
    (batch,) = batches(made, twenty)
    marks = [CompileMark(NOON, f"i-{k}", Mark.BEGUN, module) for k, module in enumerate(modules)]
    assert sharing(batch, [*marks, CompileMark(NOON, "i-9", Mark.BEGUN, "M3")]) == shared
    text = words(compile_blocks([CompileNote(batch, HOUR, 4, shared)], NOON + HOUR))
    assert ("According to the log," in text) is bool(shared)


def test_a_cache_that_went_cold_is_said_with_its_likely_cause():
    (batch,) = batches([compile_(ending=Ending.GOING)], twenty)
    text = words(compile_blocks([CompileNote(batch, HOUR, 4, again=True)], NOON + HOUR))
    assert "the cache missed, probably because the batch size" in text


def test_of_a_bill_only_what_was_cut_off_is_lost():
    bill = bill_of(
        [compile_(), compile_("i-2", ending=Ending.CUT, hours=0.25)],
        Window(NOON, NOON + HOUR),
        twenty,
    )
    assert (bill.usd, bill.cut_usd) == (Decimal("25.00"), Decimal("5.00"))


def test_a_compile_that_begins_when_another_ends_is_one_of_its_own():
    assert [x.nodes for x in batches([compile_(), compile_("i-2", 1.0)], twenty)] == [1, 1]
    assert [x.nodes for x in batches([compile_(), compile_("i-2", 0.99)], twenty)] == [2]


@pytest.mark.parametrize(
    ("filters", "nodes"),
    [
        ((), 2),
        ((Filter("cluster", ("llama",)),), 1),
        ((Filter("cluster", ("llama",), True),), 0),
        ((Filter("cluster", ("vision",), True),), 1),
        ((Filter("cluster", ("vision",)),), 0),
        ((Filter("service", ("AmazonEC2",)),), 0),
    ],
)
def test_a_filter_leaves_out_compiles_of_nodes_that_nobody_knows(filters, nodes):
    mine = [compile_("i-llama000"), compile_("i-gone", cluster="vision")]
    ports = ports_over(Fleet(), MemoryStore(), compiles=lambda *_: mine)
    frame = Frame("node", (), NOON, HOUR, (), np.zeros((0, 1, 0)))
    seen = replace(reading(NOON + HOUR, n=1), frames={"node": frame})
    bill = compiling_within(ports, seen, Window(NOON, NOON + HOUR), filters)
    assert (bill.compiles if bill else 0) == nodes


def starts_of(*graphs, alerted=False, endings=(Ending.USED,) * 9):
    """One start after another, each of (nodes, graph); "" is a start that no log names."""
    compiles, marks = [], []
    for n, (names, graph) in enumerate(graphs):
        for name in names:
            compiles.append(compile_(name, start=3.0 * n, ending=endings[n]))
            if graph:
                at = NOON + (3 * n + 0.1) * HOUR
                marks.append(CompileMark(at, name, Mark.BEGUN, f"MODULE_{graph}"))
    entries = ledger(batches(compiles, twenty), marks, lambda _: alerted)
    return [entry.miss for entry in entries[::-1]], [entry.spared_usd for entry in entries[::-1]]


@pytest.mark.parametrize(
    ("second", "miss", "spared"),
    [
        ((["i-1"], "7+aa"), CacheMiss.NOT_KEPT, 20),
        ((["i-2"], "7+aa"), CacheMiss.NOT_SHARED, 20),
        ((["i-1"], "7+bb"), CacheMiss.FLAGS, 0),
        ((["i-1"], "8+aa"), CacheMiss.GRAPH, 0),
        ((["i-1"], ""), CacheMiss.UNKNOWN, 0),
        ((["i-1", "i-2"], "8+aa"), CacheMiss.GRAPH, 20),
    ],
)
def test_the_log_tells_which_part_of_the_key_a_start_missed(second, miss, spared):
    misses, usd = starts_of((["i-1"], "7+aa"), second)
    assert misses == [CacheMiss.FIRST, miss]
    assert usd[1] == spared


def test_without_a_log_only_an_alert_knows_that_a_cache_is_cold():
    plain_start = (["i-1"], "")
    assert starts_of(plain_start, plain_start)[0] == [CacheMiss.FIRST, CacheMiss.UNKNOWN]
    assert starts_of(plain_start, alerted=True) == ([CacheMiss.COLD], [20])


def test_a_compile_that_was_cut_off_left_nothing_to_be_found():
    cut = starts_of((["i-1"], "7+aa"), (["i-1"], "7+aa"), endings=(Ending.CUT, Ending.USED))
    assert cut[0] == [CacheMiss.FIRST, CacheMiss.FIRST]


def test_four_compiles_that_go_on_and_four_that_were_cut_off_are_told_and_the_others_counted():
    def told(going, cut):
        made = [
            compile_(f"i-{n}", cluster=f"c{n}", ending=Ending.GOING if n < going else Ending.CUT)
            for n in range(going + cut)
        ]
        notes = [CompileNote(x, HOUR, 4) for x in batches(made, twenty)]
        lines = words(compile_blocks(notes, NOON))
        return lines.count("was cut off"), "more compile" in lines, "2 more compiles" in lines

    assert told(4, 4) == (4, False, False)
    assert told(5, 4) == (4, True, False)
    assert told(4, 5) == (4, True, False)
    assert told(5, 5) == (4, True, True)
    assert told(5, 0) == (0, True, False)


def test_a_part_of_a_bill_for_compiling_is_said_where_there_is_one():
    bill = bill_of([compile_()], Window(NOON - timedelta(days=1), NOON + timedelta(days=1)), twenty)
    parts = ("cut off before", "the others would have saved", "without a known price")
    given = [
        {},
        {"cut_usd": Decimal(1)},
        {"spared_usd": Decimal(1)},
        {"unpriced": 1},
    ]
    bare = replace(bill, cut_usd=Decimal(0), spared_usd=Decimal(0), unpriced=0)
    found = [plain(compile_text(replace(bare, **some)).spans) for some in given]
    assert [[part in x for part in parts] for x in found] == [
        [False, False, False],
        [True, False, False],
        [False, True, False],
        [False, False, True],
    ]
