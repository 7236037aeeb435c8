from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.cards import charts as axis
from bot.cards.card import Chart, ChartKind, Series

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9))
def test_ticks_enclose_the_values_and_are_few(low, length):
    marks = axis.ticks(low, low + length)
    assert 2 <= len(marks) <= 5
    slack = length * 1e-6
    assert marks[0] <= low + slack
    assert marks[-1] >= low + length - slack


@given(st.integers(1, 60 * 24 * 400))
def test_time_ticks_lie_within_and_are_few(minutes):
    start, end = NOON, NOON + timedelta(minutes=minutes)
    found = axis.time_ticks(start, end)
    assert len(found) <= 7
    assert all(start <= at <= end for at, _ in found)


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (223_401.4990368, "$", "$223,402"),
        (20.0, "%", "20 %"),
        (1083.4, "$", "$1,083"),
        (1083.4, "$/h", "$1,083/h"),
        (4.5, "$", "$4.50"),
        (-12.0, "$", "-$12"),
        (3.25, "GB/s", "3.2 GB/s"),
        (0.056, "", "0.06"),
    ],
)
def test_figures_read_as_people_say_them(value, unit, words):
    assert axis.figure(value, unit) == words


@pytest.mark.parametrize(
    ("value", "unit", "words"), [(12_000, "$", "$12k"), (1.5e6, "", "1.5M"), (40, "%", "40 %")]
)
def test_tick_labels_are_short(value, unit, words):
    assert axis.tick_label(value, unit) == words


def test_percent_axis_ends_at_a_hundred_and_stacks_add_up():
    percent = Chart(ChartKind.LINE, "", "%", (Series("a", (20.0, None, float("nan"))),))
    stacked = Chart(
        ChartKind.BAR, "", "$", (Series("a", (5.0,)), Series("b", (7.0,)), Series("c", (-2.0,)))
    )
    assert axis.extent(percent) == (0.0, 100.0)
    assert axis.extent(stacked) == (-2.0, 12.0)


def test_newest_skips_gaps_and_nan():
    assert axis.newest((1.0, 2.0, None, float("nan"))) == (1, 2.0)
    assert axis.newest((None,)) is None


@pytest.mark.parametrize("most", [6, 9, 30])
def test_shortened_labels_fit(most):
    assert len(axis.shorten("llama-70b-pretraining-production", most)) <= most
