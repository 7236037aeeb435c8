"""How a model scales, by the runs that were measured: what more nodes are worth."""

from __future__ import annotations

from decimal import Decimal

import pytest

from bot.answers.runs.command import points_of, scaling_card, worth_at
from bot.app import App
from bot.cards.card import Chart
from bot.costs.training import Sample
from tests.answers.configuring import ask, end, refused


def run(nodes, a_node_hour, *, hours=10.0, usd="2.00", name="r"):
    node_hours = nodes * hours
    return Sample(name, (), (), tokens=a_node_hour * node_hours, nodes=nodes, node_hours=node_hours,
                  usd_per_billion_tokens=Decimal(usd))  # fmt: skip


def test_nodes_that_each_do_less_are_worth_fewer():
    points = points_of([run(16, 90.0), run(4, 100.0), run(64, 80.0)])
    assert [(x.nodes, x.efficiency, x.worth) for x in points] == [
        (4, 1.0, 4.0),
        (16, pytest.approx(0.9), pytest.approx(14.4)),
        (64, pytest.approx(0.8), pytest.approx(51.2)),
    ]
    assert points[1].tokens_per_hour == pytest.approx(16 * 90)


def test_runs_on_as_many_nodes_count_by_their_hours_and_tokens():
    (point,) = points_of([run(4, 100.0, hours=30), run(4.2, 60.0, hours=10, usd="4.00")])
    assert point.runs == 2
    hours = 4 * 30 + 4.2 * 10
    assert point.tokens_per_node_hour == pytest.approx((12_000 + 2_520) / hours)
    assert point.usd_per_billion_tokens == Decimal("2.35")  # (2 x 12,000 + 4 x 2,520) / 14,520


def test_a_power_law_is_found_again_and_goes_beyond():
    points = points_of([run(n, 100 * (n / 4) ** -0.1) for n in (4, 8, 32)])
    assert worth_at(points, 256) == pytest.approx(4 * 64**0.9)
    card = scaling_card("llama", "8 billion", points, 256)
    assert card.data["worth"] == pytest.approx(4 * 64**0.9, abs=0.01)
    assert "beyond what was measured" in str(card)
    assert "between what was measured" in str(scaling_card("llama", "8 billion", points, 16))
    (chart,) = card.each(Chart)
    assert chart.series[0].values == (100.0, 93.3, 81.2)
    assert chart.summary == "4 nodes are 100 %; 32 reach 81 %."


def test_two_numbers_of_nodes_tell_how_a_model_scales():
    card = scaling_card("llama", "8 billion", points_of([run(4, 100.0), run(8, 90.0)]), 0)
    assert [chart.series[0].values for chart in card.each(Chart)] == [(100.0, 90.0)]


def test_one_number_of_nodes_tells_nothing_of_scaling():
    card = scaling_card("llama", "8 billion", points_of([run(4, 100.0)]), 16)
    assert "not known" in str(card)
    assert card.data["worth"] is None


async def test_a_run_that_nobody_reports_is_refused(bot: App) -> None:
    assert "No run called 'nosuch'" in refused(await ask(bot, "scaling nosuch", at=end(bot)))
