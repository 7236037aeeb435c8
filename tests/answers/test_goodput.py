"""Goodput as people ask for it: its classes sum to what `cost` says of the same nodes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest

from bot.answers.cost.goodput import (
    Goodput,
    class_shares,
    goodput_card,
    goodput_within,
    goodput_words,
)
from bot.app import App
from bot.cards.card import Chart, ChartKind, Tone
from bot.costs.goodput import GoodputRow, Work, grouped
from bot.costs.node_time import GoodputClass
from bot.model.frame import Frame
from bot.model.notification import Coverage
from bot.model.spend import Money, Tally
from bot.model.window import WEEK, Window
from bot.wiring.serve import GoodputRounds
from tests.answers.configuring import ask, buttons, end
from tests.builders import NOON, with_parts


@pytest.mark.parametrize("by", ["cluster", "team", "job", "node", "day", "instance_type,purchase"])
async def test_the_classes_of_all_rows_sum_to_what_cost_says(bot: App, by: str) -> None:
    at = end(bot) + timedelta(hours=36)
    card = await ask(bot, f"goodput 7d by {by}", at=at)
    assert card.tone is not Tone.ERROR, card
    kinds = (await ask(bot, "cost 7d by instance_type", at=at)).data["rows"]
    billed = sum(
        (
            row["amortised_usd"]
            for row in kinds
            if row["key"]["instance_type"].startswith(("trn", "inf"))
        ),
        Decimal(0),
    )
    committed = card.data["classes_usd"]["committed_unused"]
    rows = card.data["rows"]
    assert billed > 0
    assert card.data["total_usd"] - committed == billed
    assert sum(row["total_usd"] for row in rows) == card.data["total_usd"]
    for name, amount in card.data["classes_usd"].items():
        assert sum(row["classes_usd"][name] for row in rows) == amount
    assert 0 < card.data["goodput"] < 1


class Measured:
    """Publishes effective FLOPs beside what a source reads, at a tenth of a TFLOP per node."""

    def __init__(self, source):
        self._source = source

    def read(self, now):
        reading = self._source.read(now)
        nodes = reading.frame("node")
        flops = np.full_like(nodes.values[:, :, :1], 1e11)
        values = np.concatenate([nodes.values, flops], axis=-1)
        names = (*nodes.metrics, "neuroncore_effective_flops")
        measured = Frame("node", nodes.things, nodes.start, nodes.step, names, values)
        return replace(reading, frames={**reading.frames, "node": measured})


@pytest.mark.parametrize("by", [("cluster",), ("team", "job"), ("day",)])
def test_each_row_has_its_part_of_the_work(bot: App, by: tuple[str, ...]) -> None:
    ports = with_parts(bot.ports, source=Measured(bot.ports.world.source))
    reading = ports.world.source.read(end(bot))
    answer = goodput_within(ports, reading, Window(end(bot) - WEEK, end(bot)), by)
    assert answer.total.work.measured_usd > 0
    assert sum(row.work.measured_usd for row in answer.rows) == answer.total.work.measured_usd
    assert sum(row.work.pflop_days for row in answer.rows) == pytest.approx(
        answer.total.work.pflop_days
    )


async def test_a_flow_draws_the_same_dollars_by_row(bot: App) -> None:
    at = end(bot) + timedelta(hours=36)
    card = await ask(bot, "goodput 7d by team chart=flow", at=at)
    (chart,) = [block for block in card.blocks if isinstance(block, Chart)]
    assert chart.kind is ChartKind.FLOW
    assert len(chart.categories) == len(card.data["rows"])
    drawn = sum(value or 0.0 for series in chart.series for value in series.values)
    assert drawn == pytest.approx(float(card.data["total_usd"]))
    plain = await ask(bot, "goodput 7d by team", at=at)
    assert plain.data == card.data


async def test_every_button_asks_about_the_same_dollars(bot: App) -> None:
    at = end(bot) + timedelta(hours=36)
    whole = await ask(bot, "goodput 7d by node", at=at)
    node = whole.data["rows"][0]["key"]["node"]
    card = await ask(bot, f"goodput 7d by team resource={node}", at=at)
    assert 0 < card.data["total_usd"] < whole.data["total_usd"]
    lines = [x.line for x in buttons(card).values() if x.line.startswith("goodput")]
    assert len(lines) == 5
    for line in lines:
        assert (await ask(bot, line, at=at)).data["total_usd"] == card.data["total_usd"]


def days_of(n: int) -> list[GoodputRow]:
    first = datetime(2026, 11, 4, tzinfo=UTC)
    return [
        GoodputRow(
            {"day": f"{first + timedelta(days=i):%Y-%m-%d}"}, {GoodputClass.PRODUCTIVE: Decimal(10)}
        )
        for i in range(n)
    ]


def drawn(window: Window, days: list[GoodputRow], rows: Sequence[GoodputRow] = ()) -> Chart:
    """Return the chart of an answer; by rows it is their flow."""
    (total,) = grouped(rows or days, ())
    tally = Tally(window, (), (), Money())
    answer = Goodput(window, ("cluster",), [*rows], days, total, tally, window, Coverage())
    card = goodput_card(replace(answer, flows=bool(rows)))
    (chart,) = [block for block in card.blocks if isinstance(block, Chart)]
    return chart


@pytest.mark.parametrize(
    ("days", "bars", "partial"), [(21, 21, ()), (26, 4, (0,)), (25, 4, (0, 3))]
)
def test_a_long_window_is_stacked_by_week(days: int, bars: int, partial: tuple[int, ...]) -> None:
    first = datetime(2026, 11, 4, tzinfo=UTC)
    chart = drawn(Window(first, first + timedelta(days=days)), days_of(days))
    assert len(chart.categories) == bars
    assert chart.partial == partial
    assert sum(chart.series[0].values) == 10 * days  # type: ignore[arg-type]


@pytest.mark.parametrize(("hour", "partial"), [(0, ()), (6, (0,))])
def test_a_week_from_within_its_monday_is_partial(hour: int, partial: tuple[int, ...]) -> None:
    window = Window(datetime(2026, 11, 2, hour, tzinfo=UTC), datetime(2026, 11, 30, tzinfo=UTC))
    assert drawn(window, days_of(26)).partial == partial


def test_a_flow_of_a_single_row_draws_all_its_dollars() -> None:
    window = Window(datetime(2026, 11, 4, tzinfo=UTC), datetime(2026, 11, 5, tzinfo=UTC))
    row = GoodputRow({"cluster": "llama"}, {kind: Decimal(3) for kind in GoodputClass})
    values = [series.values[0] for series in drawn(window, [], [row]).series]
    assert sum(filter(None, values)) == 3 * len(GoodputClass)


def test_work_near_the_peak_is_said_where_effective_flops_are_published() -> None:
    work = Work(Decimal(80), Decimal("63.2"), Decimal("24.8"), 0.4)
    row = GoodputRow({"cluster": "llama"}, {GoodputClass.PRODUCTIVE: Decimal(100)}, work)
    window = Window(datetime(2026, 11, 4, tzinfo=UTC), datetime(2026, 11, 11, tzinfo=UTC))
    tally = Tally(window, (), (), Money())
    card = goodput_card(Goodput(window, ("cluster",), [row], [], row, tally, window, Coverage()))
    assert (
        "$80.00 was on nodes that publish effective FLOPs: 79 % busy, 31 % of the BF16 peak:"
        " an effective PFLOP-day costs $200" in str(card)
    )
    parts = card.data["work"]
    split = ("at_peak_usd", "below_peak_usd", "between_usd", "unmeasured_usd")
    assert sum(parts[name] for name in split) == card.data["classes_usd"]["productive"]
    assert card.data["rows"][0]["work"] == parts


async def test_a_filter_by_job_is_refused_with_what_to_write(bot: App) -> None:
    card = await ask(bot, "goodput 7d node=i-1")
    assert card.tone is Tone.ERROR
    assert "resource=i-0abc" in str(card)


async def test_a_window_before_the_bill_holds_nothing(bot: App) -> None:
    card = await ask(bot, "goodput 2020-01-01")
    assert "nothing was billed" in card.title
    assert card.data["rows"] == []


async def test_what_no_metric_tells_has_no_goodput(bot: App) -> None:
    card = await ask(bot, "goodput 7d")
    assert card.data["goodput"] is None
    assert card.title.startswith("Goodput not known · 7 days")
    assert "went into work" not in str(card.blocks[0])


def test_what_is_not_seen_is_neither_work_nor_lost() -> None:
    classes = {
        GoodputClass.PRODUCTIVE: Decimal(90),
        GoodputClass.IDLE: Decimal(10),
        GoodputClass.NOT_SEEN: Decimal(200),
    }
    assert GoodputRow({}, classes).goodput == 0.9
    assert goodput_words(GoodputRow({}, classes)) == (
        "90 % of the $100 for Neuron nodes that metrics cover went into work; most of the rest:"
        " idle ($10.00); $200 more was not seen."
    )
    del classes[GoodputClass.NOT_SEEN]
    assert goodput_words(GoodputRow({}, classes)).startswith("90 % of $100 for Neuron nodes")


def test_less_than_a_cent_is_no_row_and_no_sentence() -> None:
    trace = Decimal("0.002")
    total = GoodputRow(
        {},
        {
            GoodputClass.PRODUCTIVE: Decimal(100),
            GoodputClass.STARVED: trace,
            GoodputClass.NOT_SEEN: trace,
        },
    )
    assert goodput_words(total) == "over 99 % of $100 for Neuron nodes went into work."
    assert [x.kind for x in class_shares(total)] == [GoodputClass.PRODUCTIVE]


def test_a_little_work_is_not_written_as_none_nor_a_little_loss_as_nothing() -> None:
    little = {GoodputClass.PRODUCTIVE: Decimal(602), GoodputClass.IDLE: Decimal(190_000)}
    assert goodput_words(GoodputRow({}, little)).startswith("under 1 % of $190,602")
    most = {GoodputClass.PRODUCTIVE: Decimal(190_000), GoodputClass.IDLE: Decimal(602)}
    assert goodput_words(GoodputRow({}, most)).startswith("over 99 % of $190,602")


def test_unused_commitment_and_nodes_that_no_metric_covers_are_no_share_of_work() -> None:
    classes = {GoodputClass.NOT_SEEN: Decimal(250), GoodputClass.COMMITTED_UNUSED: Decimal(5)}
    assert goodput_words(GoodputRow({}, classes)) == (
        "not known; no metric covers $250 of the $255 for Neuron nodes."
    )


async def test_the_digest_says_the_goodput_of_its_week(bot: App) -> None:
    at = end(bot) + timedelta(hours=36)
    digest = await ask(bot, "digest", at=at)
    week = digest.data["window"]
    asked = await ask(bot, f"goodput {week.start:%Y-%m-%dT%H:%M}..{week.end:%Y-%m-%dT%H:%M}", at=at)
    for name in ("total_usd", "goodput", "classes_usd"):
        assert digest.data["goodput"][name] == asked.data[name]
    assert "into work" in str(digest)


async def test_metrics_say_the_goodput_of_seven_days_as_the_line_does(bot: App) -> None:
    at = end(bot)
    rounds = GoodputRounds(bot, lambda: at)
    await rounds.work()
    assert "trnbot_goodput_usd" not in bot.health.exposition()  # nothing was watched yet
    bot.health.leads(300)
    bot.health.ticks = 1
    await rounds.work()
    span = f"{at - timedelta(days=7):%Y-%m-%dT%H:%M}..{at:%Y-%m-%dT%H:%M}"
    classes = (await ask(bot, f"goodput {span}", at=at)).data["classes_usd"]
    written = dict(
        re.findall(r'trnbot_goodput_usd\{class="(\w+)"\} (\S+)', bot.health.exposition())
    )
    assert written
    for name, amount in written.items():
        assert Decimal(amount) == classes[name]


def test_a_commitment_that_nobody_used_says_nothing_of_nodes_that_no_metric_covers() -> None:
    unused = {GoodputClass.COMMITTED_UNUSED: Decimal(8)}
    assert GoodputRow({}, unused | {GoodputClass.NOT_SEEN: Decimal(200)}).goodput is None
    assert GoodputRow({}, unused).goodput == 0


def test_what_the_bill_gave_back_takes_no_time_and_no_share_passes_the_whole() -> None:
    given_back = {
        GoodputClass.PRODUCTIVE: Decimal(1000),
        GoodputClass.COMMITTED_UNUSED: Decimal(-30),
    }
    total = GoodputRow({}, given_back)
    assert total.goodput == 1
    assert [x.share for x in class_shares(total)] == [1, -0.03]

    tally = Tally(Window(NOON, NOON + WEEK), (), (), Money())
    answer = Goodput(tally.window, (), (), (), total, tally, tally.window, Coverage())
    card = goodput_card(answer)
    assert card.title.startswith("Goodput 100 % of $1,000 seen")
    assert card.data["total_usd"] == 970
    assert "into what kept the nodes from it; the bill gave back $30.00." in str(card)
