"""What a run costs a unit: partial epochs, restarts, 500 interrupted instances, checkpoints, equal loss."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest

from bot.answers.runs.costed import Costed, sample
from bot.costs.training import Paid, Sample, compare, difference, run_cost, student_t
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.run import Run

START = datetime(2026, 11, 1, tzinfo=UTC)
STEP = timedelta(minutes=5)
HOUR = timedelta(hours=1)
METRICS = (
    "run_epoch_count",
    "run_step_count",
    "run_tokens_count",
    "run_loss",
    "run_checkpoint_age_seconds",
)
RUN = Run(Labels(cluster="llama", job="llama-8b"), START, START, parameters=8e9)


def series(hours: float, **lines) -> Frame:
    n = int(hours * 12)
    values = np.full((1, n, len(METRICS)), np.nan, dtype=np.float32)
    for name, line in lines.items():
        values[0, :, METRICS.index(name)] = line
    return Frame("run", (RUN.labels,), START, STEP, METRICS, values)


def ramp(n: int, each: float, first: float = 0.0):
    return first + np.arange(1, n + 1) * each


def paid(usd: str = "10", begun: float = -100, ended: float | None = None) -> Paid:
    return Paid(START + begun * HOUR, None if ended is None else START + ended * HOUR, Decimal(usd))


def test_an_epoch_is_allocated_dollars_over_finished_epochs_and_the_partial_one_stands_apart():
    # 4 nodes at $10, an epoch every 2 hours from epoch 3.0 on, seen for 9 hours: three begun and finished meanwhile, half of a fourth.
    found = run_cost(RUN, series(9, run_epoch_count=ramp(108, 1 / 24, 3.0)), [paid()] * 4)
    assert [x.number for x in found.epochs] == [5, 6, 7]
    assert found.usd_per_epoch == Decimal("80.00")
    assert found.hours_per_epoch == pytest.approx(2.0)
    assert found.partial_epoch == pytest.approx(0.5, abs=1e-4)
    assert found.partial_usd == Decimal("40.00")
    assert found.usd == Decimal("360.00")
    assert not found.whole


def test_how_far_an_epoch_is_is_not_known_of_a_trainer_that_counts_whole_ones():
    counted = np.floor(ramp(108, 1 / 24, 3.0))
    found = run_cost(RUN, series(9, run_epoch_count=counted), [paid()] * 4)
    assert found.epochs
    assert found.partial_epoch is None
    assert found.partial_usd > 0


def test_a_run_whose_nodes_have_no_price_costs_an_amount_that_nobody_knows():
    lines = {"run_epoch_count": ramp(108, 1 / 24, 3.0), "run_tokens_count": ramp(108, 1e6)}
    unpriced = replace(paid(), usd_per_hour=None)
    found = run_cost(RUN, series(9, **lines, run_loss=ramp(108, -0.01, 3)), [unpriced] * 4)
    assert (found.usd, found.partial_usd, found.usd_per_epoch) == (None, None, None)
    assert (found.usd_per_billion_tokens, found.usd_per_billion_parameters) == (None, None)
    assert [x.usd for x in found.epochs] == [None] * 3
    assert found.losses == ()
    assert found.nodes == pytest.approx(4)
    assert found.hours_per_epoch == pytest.approx(2.0)

    # Of some the price is known: they count, and so do the hours of all.
    partly = run_cost(RUN, series(9, **lines), [unpriced, paid(), paid()])
    assert partly.usd == Decimal("180.00")
    assert partly.nodes == pytest.approx(3)
    # What an hour was billed needs no price.
    billed = replace(unpriced, hourly={START: Decimal(7)})
    assert run_cost(RUN, series(9, **lines), [billed]).usd == Decimal("7.00")


def test_a_run_that_was_seen_to_begin_counts_its_first_epoch():
    line = np.r_[np.full(12, np.nan), ramp(60, 1 / 24)]
    found = run_cost(RUN, series(6, run_epoch_count=line), [paid()])
    assert found.whole
    assert [x.number for x in found.epochs] == [1, 2]
    assert sum(x.usd for x in found.epochs) + found.partial_usd == found.usd == Decimal("50.00")


def test_work_lost_and_repeated_makes_the_epoch_dearer():
    # Epoch 1 ends at 2 h; at 3 h the run falls back to 1.0 and repeats an hour: epoch 2 takes 3 h.
    line = np.r_[np.full(1, np.nan), ramp(36, 1 / 24), ramp(36, 1 / 24, 1.0)][:72]
    found = run_cost(RUN, series(6, run_epoch_count=line), [paid()])
    assert [round(x.hours, 2) for x in found.epochs] == [2.0, 3.0]
    assert [x.usd for x in found.epochs] == [Decimal("20.00"), Decimal("30.00")]


def test_five_hundred_instances_with_interruptions_cost_every_attempt_over_finished_epochs():
    rng = np.random.default_rng(500)
    nodes, total = [], Decimal(0)
    for _ in range(500):
        at = 0.0
        while at < 24:  # a reclaimed node comes back half an hour later
            lasts = min(float(rng.exponential(6)), 24 - at)
            nodes.append(paid("6.45", at, at + lasts))
            total += Decimal("6.45") * Decimal(str(lasts))
            at += lasts + 0.5
    line = np.r_[np.full(1, np.nan), ramp(287, 10 / 287)]
    whole = series(24, run_epoch_count=line)
    found = run_cost(RUN, whole, nodes)
    before = run_cost(RUN, replace(whole, values=whole.values[:, :1]), nodes)
    assert before is None
    first = sum(
        Decimal("6.45") * Decimal(str(max(0.0, min((x.ended_at - START) / HOUR, 1 / 12))))
        for x in nodes
        if x.started_at == START
    )
    assert len(nodes) > 1_000
    assert len(found.epochs) in (9, 10)
    assert sum(x.usd for x in found.epochs) + found.partial_usd == found.usd
    assert found.usd == pytest.approx(total - first, abs=Decimal("0.05")), "every attempt is paid"
    assert found.usd_per_epoch == pytest.approx(
        sum(x.usd for x in found.epochs) / len(found.epochs), abs=Decimal("0.01")
    )


def test_a_token_counts_once_and_the_size_is_per_billion():
    tokens = np.r_[ramp(36, 1e8), ramp(36, 1e8, 2.4e9)]  # falls back from 3.6 to 2.5 billion
    found = run_cost(RUN, series(6, run_tokens_count=tokens, run_step_count=tokens / 1e4), [paid()])
    assert found.usd == Decimal("60.00")
    assert found.usd_per_billion_tokens == Decimal("10.17")  # 60 / (6.0 - 0.1)
    assert found.usd_per_billion_parameters == Decimal("7.50")
    assert found.usd_per_epoch is None


def test_of_a_run_that_was_seen_to_begin_every_token_counts():
    tokens = np.r_[np.full(12, np.nan), ramp(60, 1e8)]
    found = run_cost(RUN, series(6, run_tokens_count=tokens), [paid()])
    assert found.whole
    assert found.tokens == pytest.approx(6e9)


def test_a_checkpoint_is_counted_once_and_a_restore_is_none():
    age = np.tile(np.arange(6) * 300.0, 12)
    step = ramp(72, 100.0)
    step[36:] -= 3_000  # the restart at 3 h restores the newest checkpoint
    found = run_cost(RUN, series(6, run_checkpoint_age_seconds=age, run_step_count=step), [paid()])
    assert found.checkpoints == 10
    assert found.usd_per_checkpoint == Decimal("6.00")


def test_nodes_count_from_their_start_to_their_end():
    found = run_cost(
        RUN, series(4, run_epoch_count=ramp(48, 0.1)), [paid("10", 1, 3), paid("20", -1, 2)]
    )
    assert found.usd == Decimal("60.00")
    assert found.nodes == pytest.approx(1.0)


def test_an_hour_that_was_billed_costs_its_bill_also_where_the_node_came_within_it():
    node = replace(paid("10", 0.5), hourly={START: Decimal(3), START + HOUR: Decimal(8)})
    found = run_cost(RUN, series(3, run_epoch_count=ramp(36, 0.1)), [node])
    assert found.usd == Decimal("21.00")  # 3 of half an hour, 8, and an hour at its price
    assert found.billed == pytest.approx(1.5 / 2.5)


def test_a_run_that_never_reported_has_no_cost():
    assert run_cost(RUN, series(1), [paid()]) is None


def test_a_side_of_a_comparison_has_its_tokens_an_epoch():
    found = run_cost(RUN, series(9, run_epoch_count=ramp(108, 1 / 24, 3.0)), [paid()])
    done = replace(found, run=replace(found.run, tokens=4e11, epochs=8.0))
    assert sample(Costed(done, (), "the project tag", ())).tokens_per_epoch == 5e10
    begun = replace(done, epochs=())
    assert sample(Costed(begun, (), "the project tag", ())).tokens_per_epoch is None


def side(name: str, usd, hours=None, losses=()) -> Sample:
    return Sample(
        name, tuple(Decimal(str(x)) for x in usd), tuple(hours or (1.0,) * len(usd)), losses=losses
    )


def test_fewer_than_three_epochs_say_nothing():
    found = compare(side("gpu", [10, 11]), side("trn", [7, 8, 9]))
    assert found.usd is None
    assert found.hours is None


def test_the_interval_is_welchs():
    # Worked by hand: means 30 and 20, variances 10 and 2.5 over 5 each: s² = 2.5, 5.88 degrees of freedom -> t(5) = 2.571.
    found = difference([26, 28, 30, 32, 34], [18, 19, 20, 21, 22])
    assert found.mean == -10
    assert (found.low, found.high) == (
        pytest.approx(-10 - 2.571 * 2.5**0.5),
        pytest.approx(-10 + 2.571 * 2.5**0.5),
    )
    assert found.sure
    assert not difference([10, 20, 30], [11, 21, 31]).sure


@pytest.mark.parametrize(
    ("freedom", "t"), [(1, 12.706), (5.9, 2.571), (24, 2.086), (25, 2.060), (1e6, 2.0)]
)
def test_student_t_is_taken_from_the_next_lower_row(freedom, t):
    assert student_t(freedom) == t


def test_an_equal_loss_is_compared_where_both_passed_it():
    gpu = side(
        "gpu",
        [],
        losses=((3.0, Decimal(0), 0.0), (2.5, Decimal(50), 5.0), (2.0, Decimal(100), 10.0)),
    )
    trn = side(
        "trn",
        [],
        losses=((2.8, Decimal(5), 1.0), (2.4, Decimal(30), 6.0), (2.1, Decimal(60), 12.0)),
    )
    found = compare(gpu, trn).equal_loss
    assert (found.high, found.low) == (2.8, 2.1)
    assert found.a == (Decimal(50), 5.0)
    assert found.b == (Decimal(55), 11.0)
    assert compare(gpu, side("trn", [])).equal_loss is None, "a missing loss is not comparable"


def test_the_lowest_loss_is_that_of_an_hour_not_of_a_lucky_reading():
    loss = np.full(48, 3.0)
    loss[24] = 1.0
    found = run_cost(RUN, series(4, run_loss=loss), [paid()])
    assert min(x[0] for x in found.losses) == pytest.approx((11 * 3 + 1) / 12)
