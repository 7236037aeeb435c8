"""Each dollar of Neuron nodes in one class: steps by what a node did, dollars as the bill has them."""

import pickle
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from adapters.store.memory import MemoryStore
from bot.answers.cost.goodput import Goodput, _with_hours, goodput_card, goodput_rows
from bot.answers.runs.command import runs as listed_runs
from bot.costs.goodput import (
    GoodputRow,
    Split,
    goodput_of,
    grouped,
    is_of_nodes,
    repriced,
    run_goodput,
)
from bot.costs.losses import lose, spread
from bot.costs.node_time import CLASSES, NO_JOB, GoodputClass, NodeTime
from bot.costs.training import Paid, run_cost
from bot.errors import Unavailable
from bot.knowledge import load_knowledge
from bot.model.alert import WastedHours
from bot.model.anomaly import Detection
from bot.model.causes import Cause
from bot.model.frame import Frame, runs_of
from bot.model.labels import Labels
from bot.model.notification import Coverage, StateUpdate
from bot.model.request import Request, User
from bot.model.run import Claim, Compile, Ending, Run, Sign
from bot.model.spend import Filter, Money, Spend, Tally
from bot.model.window import Window
from tests.answers.advice_world import World
from tests.belonging import MEMBER
from tests.builders import FIVE, NOON, alert, anomaly, ports_over, waste

START = NOON.replace(hour=0)
METRICS = ("neuroncore_utilization_ratio", "neuron_runtime_memory_used_bytes")
HOUR = Window(START, START + 12 * FIVE)
NODE = Labels(cluster="llama", instance="i-llama000", instance_type="trn1.32xlarge")
LLAMA_8B = Labels(cluster="llama", job="llama-8b")
LLAMA = {LLAMA_8B: Claim(Sign.LABEL, frozenset({"i-llama000"}))}


def frame(levels, held=None):
    """One node; a level of None is a step without a reading."""
    used = np.array([np.nan if x is None else x for x in levels])
    memory = np.full(len(levels), 1e9) if held is None else np.array(held, float)
    memory = np.where(np.isnan(used), np.nan, memory)
    values = np.stack([used, memory], axis=-1)[None].astype(np.float32)
    return Frame("node", (NODE,), START, FIVE, METRICS, values)


def time_of(levels, held=None):
    return NodeTime(frame(levels, held), np.array([0.05]))


def shares(time, kind):
    return time.of_class(kind, (0, slice(None))).astype(float).round(2).tolist()


def classes(time):
    """Each step's class that holds most of it."""
    of_class = np.array([shares(time, kind) for kind in CLASSES])
    return [CLASSES[code].value for code in of_class.argmax(axis=0)]


def paid(amortised="24.00", *, hours=1.0, **key):
    named = {"day": "2026-11-20", "resource": "i-llama000", "instance_type": "trn1.32xlarge"}
    named |= {"usage_type": "BoxUsage:trn1.32xlarge", "line": "EC2", "purchase": "on-demand"}
    named |= {"cluster": "llama"} | key
    return Spend(named, Money(amortised=Decimal(amortised)), hours=hours)


def test_a_pause_amid_a_job_is_wanted_and_what_ends_a_job_is_not():
    assert classes(time_of([0.9, 0.0, 0.0, 0.9, 0.0])) == [
        "productive",
        "checkpoint_evaluation",
        "checkpoint_evaluation",
        "productive",
        "allocated_unused",
    ]


def test_without_a_runtime_a_node_is_idle_and_starts_from_when_one_is_loaded():
    held = [1, 0, 0, 1, 1]
    assert classes(time_of([0.9, 0.0, 0.0, 0.0, 0.9], held)) == [
        "productive",
        "idle",
        "idle",
        "starting",
        "productive",
    ]


def test_a_restart_begins_with_the_end_of_the_runtime_before_it():
    found = classes(time_of([0.9, 0.0, 0.0, 0.0, 0.9], [1, 1, 0, 1, 1]))
    assert found == ["productive", "starting", "idle", "starting", "productive"]


def test_a_node_starts_from_its_launch_and_is_not_seen_before():
    held = [0, 0, 0, 1]
    found = classes(time_of([None, 0.0, 0.0, 0.9], held))
    assert found == ["not_seen", "starting", "starting", "productive"]


def test_compiles_count_where_nothing_executes_and_a_second_one_is_again():
    time = time_of([0.0, 0.9, 0.0, 0.9])
    cluster = Labels(cluster="llama")
    time.compile(
        Compile("i-llama000", cluster, Window(START + n * FIVE, START + (n + 1) * FIVE), ending)
        for n, ending in ((0, Ending.USED), (1, Ending.USED), (2, Ending.USED))
    )
    assert classes(time) == ["compiling_first", "productive", "compiling_again", "productive"]


def test_a_compile_takes_its_part_of_the_steps_in_which_it_begins_and_ends():
    levels = [0.0, 0.0, 0.0, 0.0, 0.2, 0.8]
    held = [0, 0, 0, 0, 4e8, 1e9]
    cpu = [0.1, 0.7, 0.9, 0.9, 0.5, 0.2]
    nodes = frame(levels, held)
    values = np.concatenate([nodes.values, np.float32([cpu])[:, :, None]], axis=2)
    busy = replace(nodes, metrics=(*METRICS, "host_cpu_utilization_ratio"), values=values)
    time = NodeTime(busy, np.array([0.05]))
    window = Window(START + FIVE, START + 4 * FIVE)
    time.compile([Compile("i-llama000", Labels(cluster="llama"), window, Ending.USED)])
    lose(time, [])
    assert shares(time, GoodputClass.COMPILING_FIRST) == [0, 0.75, 1, 1, 0.6, 0]
    assert shares(time, GoodputClass.STARTING) == [0, 0.25, 0, 0, 0, 0]
    assert shares(time, GoodputClass.PRODUCTIVE) == [0, 0, 0, 0, 0.4, 1]


def test_a_compile_has_its_steps_whole_where_no_metric_tells_its_ends():
    time = time_of([0.0, 0.0, 0.9, 0.9], held=[np.nan] * 4)
    window = Window(START, START + 2 * FIVE)
    time.compile([Compile("i-llama000", Labels(cluster="llama"), window, Ending.USED)])
    lose(time, [])
    assert shares(time, GoodputClass.COMPILING_FIRST) == [1, 1, 0, 0]


def test_a_compile_that_goes_on_has_all_steps_up_to_now():
    time = time_of([0.0, 0.0, 0.0], held=[0, 0, 0])
    window = Window(START, START + 3 * FIVE)
    time.compile([Compile("i-llama000", Labels(cluster="llama"), window, Ending.GOING)])
    lose(time, [])
    assert shares(time, GoodputClass.COMPILING_FIRST) == [1, 1, 1]


def test_what_a_cut_off_compile_left_nothing_of_is_compiled_for_the_first_time():
    time = time_of([0.0, 0.0, 0.0, 0.9])
    cluster = Labels(cluster="llama")
    endings = (Ending.CUT, Ending.USED, Ending.USED)
    time.compile(
        Compile("i-llama000", cluster, Window(START + n * FIVE, START + (n + 1) * FIVE), ending)
        for n, ending in enumerate(endings)
    )
    assert classes(time) == ["compiling_first", "compiling_first", "compiling_again", "productive"]


def test_the_hours_that_an_alert_lost_are_its_causes_however_busy_the_node_looked():
    time = time_of([0.9] * 12)
    found = anomaly(Cause.STRAGGLER, n=1, usual=(0.9, 0.9))
    found = replace(found, window=Window(START, START + 6 * FIVE))
    hours = (WastedHours(Decimal(20), Decimal("0.25")),)
    lose(time, [alert(found, seen=found.window.end, waste=replace(waste(), hours=hours))])
    split = time.hours(slice(0, 12))[0]
    assert split[CLASSES.index(GoodputClass.STRAGGLER)] == pytest.approx(0.25)
    assert split[CLASSES.index(GoodputClass.PRODUCTIVE)] == pytest.approx(0.75)


def test_a_drop_is_lost_in_proportion_and_no_step_loses_more_than_itself():
    missing, work = np.array([[0.0, 0.5, 1.0]]), np.ones((1, 3))
    assert spread(missing, work, 1.5).tolist() == [[0.0, 0.5, 1.0]]
    assert spread(missing, work, 9.0).sum() == pytest.approx(3.0)
    half = spread(missing, np.array([[1.0, 1.0, 0.5]]), 1.5)
    assert half.sum() == pytest.approx(1.5)
    assert half[0, 2] == 0.5, "the other half was a pause"


def test_stretches_are_unbroken():
    marked = np.array([True, False, True, True])
    _, begins, ends = runs_of(marked[None])
    assert list(zip(begins, ends, strict=True)) == [(0, 1), (2, 4)]


def runs(steps):
    thing = Labels(cluster="llama", job="llama-8b")
    values = np.array(steps, np.float32)[None, :, None]
    return Frame("run", (thing,), START, FIVE, ("run_step_count",), values)


def test_a_restart_throws_away_what_was_done_since_its_checkpoint():
    time = time_of([0.9] * 6)
    time.run(runs([100, 200, 300, 400, 200, 300]), LLAMA)
    lost = ["productive", "productive", "lost", "lost", "productive", "productive"]
    assert classes(time) == lost


def test_busy_nodes_whose_run_makes_no_step_evaluate():
    time = time_of([0.9] * 4)
    time.run(runs([100, 100, 200, 300]), {})
    assert classes(time) == ["productive", "checkpoint_evaluation", "productive", "productive"]


def counted(paces):
    """The counts of a run that makes so many steps in each step of time."""
    return runs(np.cumsum([1000, *paces[1:]]))


def test_a_checkpoint_within_a_step_takes_the_part_in_which_the_run_made_none():
    time = time_of([0.9, 0.9, 0.2, 0.9] * 9)
    time.run(counted([100, 100, 20, 100] * 9), LLAMA)
    assert shares(time, GoodputClass.CHECKPOINT_EVALUATION) == [0.0, 0.0, 0.8, 0.0] * 9
    assert shares(time, GoodputClass.PRODUCTIVE) == [1.0, 1.0, 0.2, 1.0] * 9


def test_a_pace_that_scatters_evenly_about_its_usual_is_no_pause():
    time = time_of([0.9] * 48)
    time.run(counted([100, 85, 100, 115] * 12), LLAMA)
    assert not any(shares(time, GoodputClass.CHECKPOINT_EVALUATION))


def test_a_job_that_goes_on_slower_from_an_hour_on_does_not_pause():
    time = time_of([0.9] * 96)
    time.run(counted([100] * 48 + [60] * 48), LLAMA)
    assert not any(shares(time, GoodputClass.CHECKPOINT_EVALUATION))


def test_a_pause_amid_a_fault_is_a_pause_and_the_fault_has_its_share_of_the_other_part():
    """For an hour a job does half of its usual; a checkpoint takes three fifths of one step of it."""
    time = time_of([0.8] * 36 + [0.4] * 6 + [0.16] + [0.4] * 5 + [0.8] * 36)
    time.run(counted([100] * 36 + [50] * 6 + [20] + [50] * 5 + [100] * 36), LLAMA)
    window = Window(START + 36 * FIVE, START + 48 * FIVE)
    found = replace(anomaly(Cause.STARVED, n=1, usual=(0.8, 0.8)), window=window)
    lost = WastedHours(Decimal(20), Decimal((11 * 0.5 + 0.4 * 0.5) / 12))
    lose(time, [alert(found, seen=window.end, waste=replace(waste(), hours=(lost,)))])

    kinds = (GoodputClass.STARVED, GoodputClass.CHECKPOINT_EVALUATION, GoodputClass.PRODUCTIVE)
    at_checkpoint, at_drop = ([shares(time, kind)[n] for kind in kinds] for n in (42, 40))
    assert at_checkpoint == pytest.approx([0.2, 0.6, 0.2], abs=0.05)
    assert at_drop == pytest.approx([0.5, 0.0, 0.5], abs=0.05)
    assert sum(shares(time, GoodputClass.CHECKPOINT_EVALUATION)) == pytest.approx(0.6)


def test_what_paused_did_no_operations():
    time = working([0.8] * 24, [760.0] * 24)
    time.run(counted([100] * 12 + [50] + [100] * 11), LLAMA)
    assert time.work_hours(slice(12, 13))[0, 0] == pytest.approx(0.5 / 12)


def test_every_dollar_of_a_row_is_kept_and_what_was_not_read_is_not_seen():
    time = time_of([0.9] * 3 + [0.0] * 3)
    rows = [paid("10.01"), paid("0.03", line="commitment", resource="", instance_type="")]
    rows.append(paid("7.77", usage_type="UnusedBox:trn1.32xlarge", resource="cr-1", hours=0.0))
    (row,) = goodput_of(rows, Split(time, HOUR), ["cluster"])
    assert row.usd == Decimal("17.81")
    assert row.classes[GoodputClass.COMMITTED_UNUSED] == Decimal("7.80")
    assert row.classes[GoodputClass.NOT_SEEN] == Decimal("5.005000")
    assert grouped([row], ())[0].classes == row.classes


def test_of_a_day_only_the_part_that_is_asked_for_counts():
    time, half = time_of([0.9] * 6 + [0.0] * 6), Window(START, START + 6 * FIVE)
    (row,) = goodput_of([paid(hours=0.5)], Split(time, half), ["cluster"])
    assert row.classes == {GoodputClass.PRODUCTIVE: Decimal("24.000000")}


def test_a_row_that_cost_nothing_is_in_the_data_and_not_on_the_card():
    costs = {"search": "24.00", "ads": "12.00", "": "0.001"}
    rows = [
        GoodputRow({"team": team}, {GoodputClass.PRODUCTIVE: Decimal(usd)})
        for team, usd in costs.items()
    ]
    (total,) = grouped(rows, ())
    tally = Tally(HOUR, (), (), Money(), billed_through=NOON)
    card = goodput_card(Goodput(HOUR, ("team",), rows, [], total, tally, HOUR, Coverage()))
    assert len(card.data["rows"]) == 3
    assert "(no team)" not in str(card.blocks)
    assert "ads" in str(card.blocks)


def test_a_day_is_split_by_job_where_asked():
    time = time_of([0.9] * 12)
    time.run(runs([1, 2, 3, 4, 5, 6] + [np.nan] * 6), LLAMA)
    found = goodput_of([paid()], Split(time, HOUR, by_job=True), ["job"])
    assert {row.key["job"]: row.usd for row in found} == {
        "llama-8b": Decimal("12.000000"),
        "": Decimal("12.000000"),
    }


def test_a_row_that_names_no_node_is_split_as_the_nodes_of_its_cluster():
    (row,) = goodput_of([paid(resource="")], Split(time_of([0.9] * 12), HOUR), ["cluster"])
    assert row.goodput == 1.0


@pytest.mark.parametrize(
    ("line", "usage", "of_nodes"),
    [
        ("EC2", "BoxUsage", True),
        ("commitment", "EC2SP:trn1.1yrNoUpfront", True),
        ("commitment", "EC2SP:m5.1yrNoUpfront", False),
        ("commitment", "ComputeSP:1yrNoUpfront", True),
    ],
)
def test_a_plan_for_another_family_is_not_of_neuron_nodes(line, usage, of_nodes):
    key = {"line": line, "usage_type": usage, "instance_type": "trn1.32xlarge"}
    assert is_of_nodes(key) is of_nodes


def test_days_are_those_of_the_bill():
    (row,) = goodput_of([paid(day="2026-11-25")], Split(time_of([0.9] * 12), HOUR), ["cluster"])
    assert row.classes == {GoodputClass.NOT_SEEN: Decimal("24.00")}


def working(levels, flops):
    """One node at these levels and effective TFLOPs; None is a step without a reading of them."""
    plain = frame(levels)
    rates = np.array([np.nan if x is None else x * 1e12 for x in flops], np.float32)
    values = np.concatenate([plain.values, rates[None, :, None]], axis=-1)
    names = (*METRICS, "neuroncore_effective_flops")
    nodes = Frame("node", plain.things, START, FIVE, names, values)
    return NodeTime(nodes, np.array([0.05]), np.array([3040e12]))


def test_work_is_split_by_how_near_to_the_peak_it_came():
    time = working([0.8] * 9 + [0.0] * 3, [760.0] * 6 + [None] * 3 + [0.0] * 3)
    (row,) = goodput_of([paid()], Split(time, HOUR), ["cluster"])
    work = row.work
    assert row.classes[GoodputClass.PRODUCTIVE] == Decimal("18.000000")
    assert (work.measured_usd, work.busy_usd, work.at_peak_usd) == (
        Decimal("12.000000"),
        Decimal("9.600000"),
        Decimal("3.000000"),
    )
    assert (work.busy, work.of_peak) == (0.8, 0.25)
    assert work.pflop_days == pytest.approx(0.760 * 0.5 / 24)
    assert work.usd_per_pflop_day == Decimal("757.89")
    assert sum(row.classes.values()) == Decimal("24.00")


def test_the_operations_of_a_day_are_those_of_the_job_that_did_them():
    time = working([0.8] * 12, [760.0] * 6 + [1520.0] * 6)
    steps = np.array([[1, 2, 3, 4, 5, 6] + [np.nan] * 6, [np.nan] * 6 + [1, 2, 3, 4, 5, 6]])
    both = (LLAMA_8B, replace(LLAMA_8B, job="vision"))
    values = steps.astype(np.float32)[:, :, None]
    claims = dict.fromkeys(both, LLAMA[LLAMA_8B])
    time.run(Frame("run", both, START, FIVE, ("run_step_count",), values), claims)
    found = goodput_of([paid()], Split(time, HOUR, by_job=True), ["job"])
    of_job = {row.key["job"]: row.work for row in found}
    assert {job: work.of_peak for job, work in of_job.items()} == {"llama-8b": 0.25, "vision": 0.5}
    assert of_job["llama-8b"].pflop_days == pytest.approx(0.760 * 0.5 / 24)


def test_a_day_of_two_charges_does_its_operations_once():
    time = working([0.8] * 12, [760.0] * 12)
    halves = [paid("12.00", hours=0.5), paid("6.00", hours=0.5, usage_type="SpotUsage:x")]
    (row,) = goodput_of(halves, Split(time, HOUR), ["cluster"])
    assert row.work.pflop_days == pytest.approx(0.760 / 24)
    assert row.work.measured_usd == Decimal("18.000000")


def test_without_effective_flops_no_work_is_measured():
    (row,) = goodput_of([paid()], Split(time_of([0.9] * 12), HOUR), ["cluster"])
    assert row.work.busy is row.work.of_peak is row.work.usd_per_pflop_day is None


def test_every_start_that_a_cold_cache_alert_counts_is_cold_and_no_start_before_it():
    time = time_of([0.0, 0.9, 0.0, 0.0, 0.9, 0.9, 0.0, 0.0, 0.9, 0.9, 0.9, 0.9])
    cluster = Labels(cluster="llama")
    time.compile(
        Compile("i-llama000", cluster, Window(START + a * FIVE, START + b * FIVE), Ending.USED)
        for a, b in ((0, 1), (2, 4), (6, 8))
    )
    found = replace(
        anomaly(Cause.COLD_CACHE, n=1), window=Window(START + 6 * FIVE, START + 8 * FIVE)
    )
    hours = (WastedHours(Decimal(20), Decimal(4) / Decimal(12)),)
    lose(time, [alert(found, seen=START + 9 * FIVE, waste=replace(waste(), hours=hours))])
    split = time.hours(slice(0, 12))[0] * 12
    assert split[CLASSES.index(GoodputClass.COMPILING_FIRST)] == pytest.approx(1)
    assert split[CLASSES.index(GoodputClass.COLD_CACHE)] == pytest.approx(4)
    assert split[CLASSES.index(GoodputClass.PRODUCTIVE)] == pytest.approx(7)


def test_what_a_cold_cache_took_beside_its_compiles_is_lost_where_the_node_waited():
    time = time_of([0.9, 0.0, 0.0, 0.0, 0.0, 0.9, 0.9])
    window = Window(START + FIVE, START + 3 * FIVE)
    time.compile([Compile("i-llama000", Labels(cluster="llama"), window, Ending.USED)])
    found = replace(anomaly(Cause.COLD_CACHE, n=1), window=Window(START + FIVE, START + 5 * FIVE))
    hours = (WastedHours(Decimal(20), Decimal(4) / Decimal(12)),)
    lose(time, [alert(found, seen=found.window.end, waste=replace(waste(), hours=hours))])
    assert shares(time, GoodputClass.COLD_CACHE) == [0, 1, 1, 1, 1, 0, 0]


def test_a_loss_goes_on_right_beside_its_alert_while_nodes_that_work_are_as_slow():
    levels = [0.8] * 20 + [0.4] * 8 + [0.0] * 2 + [0.8] * 6
    time = time_of(levels)
    found = anomaly(Cause.HARDWARE_FAULT, n=1, usual=(0.0, 0.0), unit="count")
    found = replace(found, window=Window(START + 21 * FIVE, START + 26 * FIVE))
    hours = (WastedHours(Decimal(20), Decimal("2.5") / Decimal(12)),)
    lose(time, [alert(found, seen=found.window.end, waste=replace(waste(), hours=hours))])
    lost = time.hours(slice(0, 36))[0][CLASSES.index(GoodputClass.ERRORS_HARDWARE)] * 12
    assert lost == pytest.approx(4.0)  # a half of all eight steps, the restart apart
    assert not time.share[0, :20].any()
    assert not time.share[0, 28:].any()


@pytest.mark.parametrize(
    ("after", "job", "share"),
    [(0.8, 0, 1 / 2), (0.7, 0, 7 / 15), (0.4, 1, 1 / 2), (0.0, 0, 1 / 2), (0.7, NO_JOB, 7 / 15)],
    ids=["as before", "at another level", "another job", "nothing", "beside a second run"],
)
def test_what_a_fault_took_is_held_against_the_work_of_its_job_before_and_after(after, job, share):
    levels = [0.8] * 20 + [0.4] * 8 + [0.2] * 3 + [0.4] * 11 + [0.2] * 2 + [after] * 20
    time = time_of(levels)
    time.run(counted([100] * 20 + [50] * 8 + [0] * 3 + [50] * 11 + [25] * 2 + [100] * 20), LLAMA)
    time.jobs[:, 44:] = job
    found = anomaly(Cause.HARDWARE_FAULT, n=1, usual=(0.0, 0.0), unit="count")
    found = replace(found, window=Window(START + 20 * FIVE, START + 44 * FIVE))
    lose(time, [alert(found, seen=found.window.end, waste=waste())])
    lost = time.hours(slice(0, 64))[0][CLASSES.index(GoodputClass.ERRORS_HARDWARE)] * 12
    # Nineteen steps, and two halves that a checkpoint paused; in the evaluation nothing.
    assert lost == pytest.approx(20 * share, abs=0.1)


@pytest.mark.parametrize(("level", "lost"), [(0.8, 0.0), (0.78, 0.0), (0.4, 6.0)])
def test_full_memory_took_what_the_work_fell_by_and_not_what_a_checkpoint_did(level, lost):
    """The alert's own hours are those of the checkpoint, and its usual is that of the memory."""
    time = time_of([0.8] * 36 + [level] * 6 + [level / 4] + [level] * 5 + [0.8] * 36)
    time.run(counted([100] * 42 + [25] + [100] * 41), LLAMA)
    found = anomaly(Cause.MEMORY_PRESSURE, n=1, usual=(0.5, 0.6), unit="ratio")
    found = replace(found, window=Window(START + 36 * FIVE, START + 48 * FIVE))
    hours = (WastedHours(Decimal(20), Decimal("0.75") / 12),)
    lose(time, [alert(found, seen=found.window.end, waste=replace(waste(), hours=hours))])
    took = sum(shares(time, GoodputClass.ERRORS_HARDWARE))
    assert took == pytest.approx(lost * 11.25 / 12, abs=0.01)
    assert shares(time, GoodputClass.CHECKPOINT_EVALUATION)[42] == pytest.approx(0.75)


def test_a_slow_hour_is_the_faults_and_its_checkpoint_a_pause():
    time = time_of([0.8] * 36 + [0.4] * 6 + [0.1] + [0.4] * 5 + [0.8] * 36)
    time.run(counted([100] * 36 + [50] * 6 + [12.5] + [50] * 5 + [100] * 36), LLAMA)
    found = anomaly(Cause.HARDWARE_FAULT, n=1, usual=(0.0, 0.0), unit="count")
    found = replace(found, window=Window(START + 36 * FIVE, START + 48 * FIVE))
    lose(time, [alert(found, seen=found.window.end, waste=waste())])
    assert sum(shares(time, GoodputClass.ERRORS_HARDWARE)) == pytest.approx(11.25 / 2, abs=0.01)
    assert sum(shares(time, GoodputClass.CHECKPOINT_EVALUATION)) == pytest.approx(0.75)


def test_a_node_that_is_gone_after_its_fault_lowers_no_usual_work_of_the_others():
    levels = [0.8] * 20 + [0.4] * 9
    stays, goes = frame([*levels, *[0.8] * 20]), frame([*levels, *[None] * 20])
    things = tuple(replace(NODE, instance=name) for name in ("i-1", "i-2", "i-gone"))
    values = np.concatenate([stays.values, stays.values, goes.values])
    time = NodeTime(replace(stays, things=things, values=values), np.full(3, 0.05))
    found = anomaly(Cause.HARDWARE_FAULT, n=3, usual=(0.0, 0.0), unit="count")
    span = Window(START + 20 * FIVE, START + 29 * FIVE)
    found = replace(found, things=tuple(time.rows), window=span)
    lose(time, [alert(found, seen=span.end, waste=waste())])
    lost = time.hours(slice(0, 49))[:, CLASSES.index(GoodputClass.ERRORS_HARDWARE)] * 12
    assert lost == pytest.approx([4.5, 4.5, 4.5])


def test_a_node_that_starts_amid_a_fault_loses_no_work_to_it():
    struck, starts = frame([0.8] * 20 + [0.4] * 9 + [0.8] * 20), frame([None] * 22 + [0.9] * 27)
    things = tuple(replace(NODE, instance=name) for name in ("i-struck", "i-starts"))
    values = np.concatenate([struck.values, starts.values])
    time = NodeTime(replace(struck, things=things, values=values), np.full(2, 0.05))
    found = anomaly(Cause.HARDWARE_FAULT, n=2, usual=(0.0, 0.0), unit="count")
    span = Window(START + 20 * FIVE, START + 29 * FIVE)
    found = replace(found, things=tuple(time.rows), window=span)
    lose(time, [alert(found, seen=span.end, waste=waste())])
    lost = time.hours(slice(0, 49))[:, CLASSES.index(GoodputClass.ERRORS_HARDWARE)] * 12
    assert lost == pytest.approx([4.5, 0.0])


def test_a_runs_dollars_are_split_as_its_nodes_time_and_its_hours_are_counted_without_a_node_too():
    time = time_of([0.9] * 6 + [0.0] * 3 + [None] * 3)
    launched = START - 12 * FIVE
    node = Paid(launched, START + 9 * FIVE, Decimal("24.00"))
    started = Run(Labels(cluster="llama", job="llama-8b"), START, START + 12 * FIVE)
    cost = run_cost(started, runs(list(range(12))), [node])
    found = run_goodput(time, cost, {"i-llama000": node})
    assert sum(found.row.classes.values()) == cost.usd == Decimal("18.00")
    assert found.row.goodput == pytest.approx(6 / 9)
    assert found.ettr == pytest.approx(6 / 12)


def test_of_a_run_whose_nodes_no_metric_knows_nothing_is_known():
    node = Paid(START, None, Decimal("24.00"))
    started = Run(Labels(cluster="llama", job="llama-8b"), START, START + 12 * FIVE)
    cost = run_cost(started, runs(list(range(12))), [node])
    found = run_goodput(time_of([0.9] * 12), cost, {"i-elsewhere": node})
    assert found.row.classes == {GoodputClass.NOT_SEEN: cost.usd}
    assert found.row.goodput is found.ettr is None


def split_beside(time, cause, first, lost):
    """Return the steps of each class where an alert from step `first` on says that `lost` steps were lost."""
    found = anomaly(cause, n=1, usual=(0.9, 0.9), unit="ratio")
    found = replace(found, window=Window(START + first * FIVE, START + 12 * FIVE))
    hours = (WastedHours(Decimal(20), Decimal(lost) / Decimal(12)),)
    lose(time, [alert(found, seen=found.window.end, waste=replace(waste(), hours=hours))])
    return dict(zip(CLASSES, time.hours(slice(0, 12))[0] * 12, strict=True))


def test_a_stretch_without_work_goes_whole_to_the_cause_that_took_most_of_it():
    time = time_of([0.9] * 6 + [0.0] * 6, [1] * 11 + [0])
    split = split_beside(time, Cause.HUNG, 7, 4)
    assert split[GoodputClass.HUNG] == pytest.approx(6)
    assert split[GoodputClass.PRODUCTIVE] == pytest.approx(6)


def test_memory_that_is_full_loses_what_its_alert_says():
    split = split_beside(time_of([0.9] * 6 + [0.6] * 6), Cause.MEMORY_PRESSURE, 6, 2)
    assert split[GoodputClass.ERRORS_HARDWARE] == pytest.approx(2)


def hour_of(n, amortised, hours=1.0, **key):
    return paid(amortised, hours=hours, **{"hour": f"2026-11-20T{n:02d}:00:00Z"} | key)


def test_an_hour_pays_for_what_was_done_in_it():
    time = time_of([0.9] * 12 + [0.0] * 12, [1] * 12 + [0] * 12)
    billed = Window(START, START + 24 * FIVE)
    rows = [hour_of(0, "5.00", usage_type="SpotUsage:x"), hour_of(1, "20.00")]
    (row,) = goodput_of(rows, Split(time, billed), ["cluster"])
    assert row.classes == {GoodputClass.PRODUCTIVE: 5, GoodputClass.IDLE: 20}


class Elsewhere:
    """Does each part in a copy, as another machine does."""

    def each(self, _work, _size, do, parts, /):
        self.sent = [pickle.dumps((do, part)) for part in parts()]
        return [do(*part) for do, part in map(pickle.loads, self.sent)]


@pytest.mark.parametrize("by_job", [False, True])
def test_days_split_elsewhere_are_those_split_here_though_prices_changed_within_them(by_job):
    time = time_of(([0.9] * 12 + [0.0] * 12) * 24, ([1] * 12 + [0] * 12) * 24)
    run = Frame("run", (LLAMA_8B,), START, FIVE, ("running",), np.ones((1, 576, 1)))
    time.run(run, LLAMA)
    billed = Window(START + 6 * FIVE, START + 500 * FIVE)
    rows = [
        *(hour_of(n, f"{n}.333333", usage_type="SpotUsage:x" if n % 2 else "x") for n in range(24)),
        hour_of(0, "7.77", day="2026-11-21", hour="2026-11-21T00:00:00Z"),
        paid("100.01", hours=24.0, day="2026-11-21", resource=""),
        paid("3.33", hours=24.0, resource="i-unknown"),
        paid(
            "5.01", hours=0.0, resource="", line="commitment", usage_type="ComputeSP:1yrNoUpfront"
        ),
    ]
    by = ["cluster", *["job"] * by_job, "day"]
    split, workers = Split(time, billed, by_job=by_job), Elsewhere()
    ports = ports_over(None, None, workers=workers)
    there, here = goodput_rows(ports, rows, split, by), goodput_of(rows, split, by)
    assert len(workers.sent) == 2
    assert repr(there) == repr(here)
    assert sum(row.usd for row in there) == sum(row.money.amortised for row in rows)
    assert not any(b"NodeTime" in sent for sent in workers.sent), "the metrics went along"


class HourlyBill:
    """Has rows by the hour, and keeps how it was asked for them."""

    def __init__(self, rows, error=None):
        self._rows, self._error = rows, error

    def tally(self, window, by, where):
        if self._error:
            raise self._error
        self.asked = by, where
        return Tally(window, by, self._rows, Money())


def test_only_nodes_of_changed_prices_are_asked_for_by_the_hour():
    day = [paid("5.00"), paid("20.00", usage_type="SpotUsage:x"), paid("7.00", resource="i-other")]
    tally = Tally(HOUR, ("day", "resource"), tuple(day), Money())
    hours = (hour_of(0, "20.00", usage_type="SpotUsage:x"), hour_of(1, "5.00"))
    condition, node = Filter("team", ("nlp",)), Filter("resource", ("i-llama000",))

    bill = HourlyBill(hours)
    assert _with_hours(bill, tally, (condition,)) == [day[2], *hours]
    assert bill.asked == (("day", "resource", "hour"), (condition, node))
    # A bill by the day has rows of more than an hour, and some have too many rows.
    by_the_day = HourlyBill((*hours, replace(hours[0], hours=24.0)))
    assert _with_hours(by_the_day, tally, ()) == tally.rows
    assert _with_hours(HourlyBill((), Unavailable("Too many.")), tally, ()) == tally.rows
    calm = replace(tally, rows=(day[0], day[2]))
    assert _with_hours(bill, calm, ()) == calm.rows


def test_a_node_that_was_charged_in_two_ways_on_one_day_is_repriced():
    other = paid(resource="i-other")
    spot = paid(usage_type="SpotUsage:x", purchase="spot")
    plan = {**other.key, "purchase": "savings-plan"}
    next_day = replace(other, key={**plan, "day": "2026-11-21"})
    assert repriced([paid(), other, next_day]) == set()
    assert repriced([paid(), spot, other, next_day]) == {"i-llama000"}
    assert repriced([other, replace(other, key=plan)]) == {"i-other"}


def dropped(time, first, last, *, cause=Cause.NETWORK_BOUND, hours="1", node="i-llama000"):
    """An alert about one node from step `first` to before `last` that says it lost so many hours."""
    found = anomaly(cause, n=1, usual=(0.8, 0.8), unit="ratio")
    found = replace(found, things=(node,), window=Window(START + first * FIVE, START + last * FIVE))
    lost = WastedHours(Decimal(20), Decimal(hours))
    return alert(found, seen=found.window.end, waste=replace(waste(), hours=(lost,)))


def test_a_slower_pace_loses_from_its_fall_to_its_recovery_whatever_its_alert_covers():
    """The alert ends an hour late, when it is sure; within, a checkpoint paused a step in part."""
    levels = [0.8] * 36 + [0.6] + [0.4] * 6 + [0.1] + [0.4] * 29 + [0.7] + [0.8] * 48
    time = time_of(levels)
    paces = [100] * 36 + [75] + [50] * 6 + [12.5] + [50] * 29 + [87.5] + [100] * 48
    time.run(counted(paces), LLAMA)
    lose(time, [dropped(time, 37, 85, hours="3")])
    network = shares(time, GoodputClass.NETWORK)
    assert network[36:44] == pytest.approx([0.25, *[0.5] * 6, 0.125], abs=0.01)
    # Half of 35 steps and of the quarter of one, and the part of the first; that of the last, in
    # which the run made seven eighths of its steps, is a pause.
    assert sum(network) == pytest.approx(35.25 / 2 + 0.25, abs=0.05)
    assert shares(time, GoodputClass.CHECKPOINT_EVALUATION)[43] == pytest.approx(0.75)


@pytest.mark.parametrize(("first", "last"), [(50, 64), (48, 54), (26, 30)])
def test_what_an_alert_saw_late_counts_from_the_fall_to_the_recovery(first, last):
    time = time_of([0.8] * 24 + [0.4] * 36 + [0.8] * 24)
    lose(time, [dropped(time, first, last, hours="0.75")])
    assert sum(shares(time, GoodputClass.NETWORK)) == pytest.approx(18.0, abs=0.1)
    assert shares(time, GoodputClass.NETWORK)[24:60] == [0.5] * 36


def test_an_alert_before_which_nothing_fell_loses_the_hours_that_it_says():
    time = time_of([0.4] * 84)
    lose(time, [dropped(time, 54, 72, hours="0.75")])
    assert sum(shares(time, GoodputClass.NETWORK)) == pytest.approx(9.0, abs=0.1)


def test_of_two_alerts_about_one_fall_the_first_has_it():
    time = time_of([0.8] * 36 + [0.4] * 36 + [0.8] * 24)
    echo = dropped(time, 60, 76, cause=Cause.STARVED, hours="0.5")
    lose(time, [echo, dropped(time, 36, 72, cause=Cause.ALLOCATED_UNUSED)])
    assert sum(shares(time, GoodputClass.ALLOCATED_UNUSED)) == pytest.approx(18.0)
    assert not any(shares(time, GoodputClass.STARVED))


def test_a_restart_after_a_fault_is_none_of_it():
    """The job crashes amid a step, starts again and warms up; only then does its alert end."""
    levels = [0.8] * 36 + [0.4] * 12 + [0.2, 0.0, 0.0] + [0.3, 0.5] + [0.8] * 24
    time = time_of(levels, [1] * 48 + [1, 0, 0] + [1] * 26)
    lose(time, [dropped(time, 36, 56)])
    network = shares(time, GoodputClass.NETWORK)
    assert network[36:49] == pytest.approx([0.5] * 12 + [0.25])
    assert not any(network[49:])


def test_nodes_work_for_the_run_with_which_they_rise_and_fall():
    """Two runs in one cluster save at different times; a third node serves and moves by itself."""
    saves = [np.tile([1.0] * n + [0.2] + [1.0] * (11 - n), 8) for n in (3, 8)]
    levels = [0.8 * saves[0], 0.6 * saves[1], 0.5 + 0.1 * np.sin(np.arange(96) / 7)]
    things = tuple(replace(NODE, instance=f"i-{n}") for n in range(3))
    values = np.stack([np.array(levels), np.full((3, 96), 1e9)], axis=-1).astype(np.float32)
    time = NodeTime(Frame("node", things, START, FIVE, METRICS, values), np.full(3, 0.05))
    jobs = tuple(replace(LLAMA_8B, job=f"job-{n}") for n in range(2))
    counts = np.cumsum(np.array(saves) * 100, axis=1)[:, :, None].astype(np.float32)
    time.run(Frame("run", jobs, START, FIVE, ("run_step_count",), counts), {})
    assert [np.unique(jobs).tolist() for jobs in time.jobs] == [[0], [1], [NO_JOB]]
    assert shares(time, GoodputClass.CHECKPOINT_EVALUATION)[15] == 0.8


def test_what_another_alert_explains_is_lost_to_that():
    time = time_of([0.8] * 36 + [0.4] * 24 + [0.8] * 24)
    source = dropped(time, 36, 60, cause=Cause.NETWORK_BOUND, hours="0")
    effect = replace(dropped(time, 36, 60, cause=Cause.STARVED), muted_by=source.effect_mark)
    lose(time, [effect, source])
    assert sum(shares(time, GoodputClass.NETWORK)) == pytest.approx(12.0)
    assert not any(shares(time, GoodputClass.STARVED))


@pytest.mark.parametrize(
    ("job", "ends", "steps"),
    [(0, False, 12), (1, False, 0), (NO_JOB, False, 0), (0, True, 0)],
    ids=["named by no alert", "another job", "unknown job", "ends amid it"],
)
def test_what_falls_with_its_job_is_lost_to_the_alert_of_the_others(job, ends, steps):
    levels = [0.8] * 36 + [0.4] * 24 + [0.8] * 24
    named, unnamed = frame(levels), frame(levels[:40] + [0.0] * 44 if ends else levels)
    things = tuple(replace(NODE, instance=name) for name in ("i-named", "i-unnamed"))
    both = np.concatenate([named.values, unnamed.values])
    time = NodeTime(replace(named, things=things, values=both), np.full(2, 0.05))
    time.jobs[0], time.jobs[1] = 0, job
    lose(time, [dropped(time, 36, 60, cause=Cause.STARVED, node="i-named")])
    starved = time.hours(slice(0, 84))[1][CLASSES.index(GoodputClass.STARVED)] * 12
    assert starved == pytest.approx(steps)


def test_a_pace_that_wavers_is_measured_by_its_mean():
    time = time_of([0.8] * 36 + [0.1, 0.3] * 18 + [0.8] * 36)
    lose(time, [dropped(time, 36, 72, cause=Cause.STARVED, hours="2.2")])
    assert sum(shares(time, GoodputClass.STARVED)) == pytest.approx(0.75 * 36, rel=0.01)


@pytest.mark.parametrize(
    ("falls", "job", "kind", "steps"),
    [
        (36, 0, GoodputClass.ERRORS_HARDWARE, 24),
        (45, 0, GoodputClass.STARVED, 15),
        (36, 1, GoodputClass.STARVED, 24),
    ],
    ids=["with it", "later", "another job"],
)
def test_a_drop_of_the_job_of_a_broken_node_that_falls_with_it_is_the_faults(
    falls, job, kind, steps
):
    broken, waits = (frame([0.8] * n + [0.4] * (60 - n) + [0.8] * 24) for n in (36, falls))
    things = tuple(replace(NODE, instance=name) for name in ("i-broken", "i-waits"))
    values = np.concatenate([broken.values, waits.values])
    time = NodeTime(replace(broken, things=things, values=values), np.full(2, 0.05))
    time.jobs[0], time.jobs[1] = 0, job
    fault = dropped(time, 37, 60, cause=Cause.HARDWARE_FAULT, node="i-broken")
    drop = dropped(time, falls, 61, cause=Cause.STARVED, node="i-waits")
    lose(time, [drop, fault])
    lost = time.hours(slice(0, 84))[1] * 12
    assert lost[CLASSES.index(kind)] == pytest.approx(steps / 2)


def test_a_node_that_stands_still_lowers_no_pace_of_the_others_and_is_lost_to_what_explains_it():
    """Three nodes slow down with their job, and one of them stops."""
    slow = [0.8] * 36 + [0.4] * 24 + [0.8] * 24
    things = tuple(replace(NODE, instance=f"i-{n}") for n in range(3))
    levels = (slow, slow, [*slow[:40], *[0.0] * 16, *slow[56:]])
    values = np.concatenate([frame(x).values for x in levels])
    time = NodeTime(replace(frame(slow), things=things, values=values), np.full(3, 0.05))
    drop = dropped(time, 36, 60, node="i-0")
    drop = replace(drop, anomaly=replace(drop.anomaly, things=("i-0", "i-1", "i-2")))
    stop = dropped(time, 40, 56, cause=Cause.HUNG, node="i-2", hours="1.34")
    lose(time, [drop, replace(stop, muted_by=drop.effect_mark)])
    lost = time.hours(slice(0, 84))[:, CLASSES.index(GoodputClass.NETWORK)] * 12
    assert lost.tolist() == pytest.approx([12, 12, 16 + 8 / 2])


@pytest.mark.parametrize(("kept", "pauses"), [(True, 1), (False, 0)], ids=["kept", "thrown away"])
def test_a_pace_that_wavers_pauses_as_before_unless_it_is_thrown_away(kept, pauses):
    """A job saves in a quarter of every fourth step; what is thrown away was not saved."""
    saves = np.tile([1.0, 1.0, 1.0, 0.75], 9)
    wavers = np.tile([0.125, 0.375], 18)
    paces = np.concatenate([saves, wavers, saves, saves])
    time = time_of((0.8 * paces).tolist())
    counts = np.cumsum(100 * paces)
    counts[72:] -= 0 if kept else counts[71] - counts[35]
    time.run(runs(counts), LLAMA)
    lose(time, [dropped(time, 36, 72, cause=Cause.STARVED)])
    starved = sum(shares(time, GoodputClass.STARVED))
    assert starved == pytest.approx(27 - 36 / 16 * pauses, rel=0.02)


def test_a_step_in_which_work_ends_or_begins_is_no_pause():
    """A job ends a fifth into a step and begins again amid another one."""
    held = [1] * 37 + [0] * 5 + [1] * 38
    time = time_of([0.8] * 36 + [0.16] + [0.0] * 6 + [0.4] + [0.8] * 36, held)
    things = tuple(replace(LLAMA_8B, job=f"job-{n}") for n in range(2))
    steps = np.tile(np.arange(80.0)[:, None], (2, 1, 1))
    time.run(Frame("run", things, START, FIVE, ("run_step_count",), steps), {})
    lose(time, [])
    assert not any(shares(time, GoodputClass.CHECKPOINT_EVALUATION))
    assert shares(time, GoodputClass.IDLE)[36:42] == [0.8, *[1.0] * 5]
    assert shares(time, GoodputClass.STARTING)[42:44] == [1.0, 0.5]


@pytest.mark.parametrize(("pace", "paused"), [(30, 0.0), (0, 1.0)])
def test_what_lasts_longer_than_a_checkpoint_pauses_only_where_it_makes_no_step(pace, paused):
    time = time_of([0.9] * 96)
    time.run(counted([100] * 48 + [pace] * 6 + [100] * 42), LLAMA)
    assert shares(time, GoodputClass.CHECKPOINT_EVALUATION)[48:54] == [paused] * 6


def test_a_pause_is_held_against_the_hour_right_beside_it():
    """A job went on at half of its pace for hours, and saves after that as it did before."""
    time = time_of([0.9] * 96)
    time.run(counted([100] * 36 + [50] * 36 + [100] * 18 + [60] + [100] * 5), LLAMA)
    assert shares(time, GoodputClass.CHECKPOINT_EVALUATION)[90] == pytest.approx(0.4)


def test_nodes_that_stand_still_after_a_fault_lose_what_its_alert_says():
    time = time_of([0.8] * 20 + [0.0] * 14)
    found = anomaly(Cause.HARDWARE_FAULT, n=1, usual=(0.0, 0.0), unit="count")
    found = replace(found, window=Window(START + 20 * FIVE, START + 26 * FIVE))
    hours = (WastedHours(Decimal(20), Decimal("0.5")),)
    lose(time, [alert(found, seen=found.window.end, waste=replace(waste(), hours=hours))])
    lost = time.hours(slice(0, 34))[0][CLASSES.index(GoodputClass.ERRORS_HARDWARE)]
    assert lost == pytest.approx(0.5)


def test_a_start_of_another_job_between_cold_ones_stays_what_it_was():
    time = time_of(([0.0] + [0.9] * 13) * 3, [1e9] * 14 + [4e9] * 14 + [1e9] * 14)
    cluster = Labels(cluster="llama")
    time.compile(
        Compile(
            "i-llama000", cluster, Window(START + n * FIVE, START + (n + 1) * FIVE), Ending.USED
        )
        for n in (0, 14, 28)
    )
    found = replace(
        anomaly(Cause.COLD_CACHE, n=1), window=Window(START + 28 * FIVE, START + 29 * FIVE)
    )
    hours = (WastedHours(Decimal(20), Decimal(2) / Decimal(12)),)
    lose(time, [alert(found, seen=START + 29 * FIVE, waste=replace(waste(), hours=hours))])
    found = [classes(time)[n] for n in (0, 14, 28)]
    assert found == ["cold_cache", "compiling_again", "cold_cache"]


def test_a_start_of_another_run_is_not_cold_though_it_holds_the_same_memory():
    def twice(one, things):
        return replace(one, things=things, values=np.repeat(one.values, 2, axis=0))

    nodes = (NODE, replace(NODE, instance="i-llama001"))
    jobs = tuple(Labels(cluster="llama", job=job) for job in ("llama-8b-r7", "vit-r1"))
    time = NodeTime(twice(frame(([0.0] + [0.9] * 13) * 3), nodes), np.array([0.05, 0.05]))
    claims = {
        job: Claim(Sign.LABEL, frozenset({node.instance}))
        for job, node in zip(jobs, nodes, strict=True)
    }
    time.run(twice(runs(np.arange(42.0) * 9), jobs), claims)
    starts = ((0, "i-llama000"), (14, "i-llama001"), (28, "i-llama000"))
    time.compile(
        Compile(
            name,
            Labels(cluster="llama"),
            Window(START + n * FIVE, START + (n + 1) * FIVE),
            Ending.USED,
        )
        for n, name in starts
    )
    found = replace(
        anomaly(Cause.COLD_CACHE, n=1), window=Window(START + 28 * FIVE, START + 29 * FIVE)
    )
    hours = (WastedHours(Decimal(20), Decimal(2) / Decimal(12)),)
    lose(time, [alert(found, seen=START + 29 * FIVE, waste=replace(waste(), hours=hours))])
    assert [classes(time)[n] for n in (0, 28)] == ["cold_cache", "cold_cache"]
    assert time.base[1, 14] == CLASSES.index(GoodputClass.COMPILING_FIRST)


def test_what_stands_still_between_two_runs_loses_all_its_time_but_for_a_checkpoint():
    def lost(stood):
        time = time_of([0.9] * 6 + [0.02] * stood + [0.9] * 6)
        window = Window(START + 6 * FIVE, START + (6 + stood) * FIVE)
        found = replace(anomaly(Cause.ALLOCATED_UNUSED, n=1, usual=(0.9, 0.9)), window=window)
        hours = (WastedHours(Decimal(20), Decimal("0.9") * stood / 12),)
        lose(time, [alert(found, seen=window.end, waste=replace(waste(), hours=hours))])
        return sum(shares(time, GoodputClass.ALLOCATED_UNUSED))

    assert lost(12) == pytest.approx(12)
    assert lost(2) == pytest.approx(1.8)


async def test_a_run_lost_what_an_alert_took_that_ended_before_the_newest_run_began():
    """`runs` reads alerts from its oldest run on, and one that ended before every run takes nothing."""
    places = [(name, "trn1.32xlarge", "us-west-2", 1, 0.9, 40.0) for name in ("east", "west")]
    world = World(*places, runs=[("old", "east", 1e6, 8e9), ("new", "west", 1e6, 8e9)])
    counts, begin = world.reading.frames["run"].values, world.reading.frames["run"].start
    counts[0, :48], counts[1, :144] = np.nan, np.nan
    store = MemoryStore()
    for name, first in (("before", 12), ("amid", 96)):
        span = Window(begin + first * FIVE, begin + (first + 12) * FIVE)
        found = replace(anomaly(n=1), things=("i-east0",), window=span)
        took = replace(waste(), hours=(WastedHours(Decimal(20), Decimal("0.5")),))
        over = alert(
            found, name=name, opened=span.start, seen=span.end, closed=span.end, waste=took
        )
        store.save(StateUpdate(alerts=[over]))

    parts = {"detect": lambda *_: Detection(), "compiles": lambda *_: ()}
    ports = ports_over(world, store, knowledge=load_knowledge(), **parts)
    request = Request("runs", User("u"), NOON, "slack", MEMBER)
    card = await listed_runs(ports, request, "", storage=True)
    (old, new) = sorted(card.data["runs"], key=lambda run: run["run"] != "old")
    # Half an hour of the twenty since its first report.
    assert float(old["classes_usd"]["starved"] / old["usd"]) == pytest.approx(0.5 / 20, rel=0.01)
    assert set(new["classes_usd"]) == {"productive"}
