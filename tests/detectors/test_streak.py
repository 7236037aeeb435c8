from datetime import timedelta

import numpy as np
import pytest

from detectors import numbers
from detectors.numbers import (
    bridge,
    close_gaps,
    drop_singles,
    lately,
    mean_where_read,
    newest_of,
    share_before,
    since_last,
    summed,
    sustained,
    trailing,
)


def mask(text):
    return np.array([[c == "x" for c in text]])


@pytest.mark.parametrize(
    ("holds", "unknown", "steps"),
    [
        ("..xx", "....", 2),
        ("xxxx", "....", 4),
        ("xx..", "....", 0),
        ("xx..", "..xx", 4),  # silence does not end a streak
        ("....", "xxxx", 0),  # nor does it begin one
        ("..xx", "xx..", 2),
        ("x.x.", "...x", 2),
    ],
)
def test_trailing_counts_steps_that_surely_hold(holds, unknown, steps):
    assert trailing(mask(holds), mask(unknown)).tolist() == [steps]


def test_a_window_without_steps_has_no_streak():
    assert trailing(np.zeros((3, 0), bool)).tolist() == [0, 0, 0]


@pytest.mark.parametrize(("holds", "ago"), [("...x", 0), ("x...", 3), ("....", 4)])
def test_since_last_says_how_long_ago(holds, ago):
    assert since_last(mask(holds)).tolist() == [ago]


def test_single_readings_neither_end_nor_begin():
    assert (close_gaps(mask("xx.xx")) == mask("xxxxx")).all()
    assert (drop_singles(mask("x..xx")) == mask("...xx")).all()


@pytest.mark.parametrize(
    ("holds", "gap", "bridged"),
    [
        ("x..x", ".x..", "xx.x"),
        ("x...", ".xxx", "xxxx"),
        (".x..", "x...", ".x.."),  # nothing is known of a gap before the first reading
        ("..x.", "xx.x", "..xx"),
    ],
)
def test_a_state_holds_in_the_gaps_that_follow_it(holds, gap, bridged):
    assert (bridge(mask(holds), mask(gap)) == mask(bridged)).all()


def test_share_before_a_streak_looks_at_known_steps_only():
    share = share_before(mask("xx..xx"), mask("xxx.xx"), np.array([2]), 4)
    assert share.tolist() == [pytest.approx(2 / 3)]


@pytest.mark.parametrize(
    ("holds", "steps", "expected"),
    [("x....", 2, "xxx.."), ("..x.x", 1, "..xxx"), ("x..", 9, "xxx"), ("..x", 0, "..x")],
)
def test_what_held_lately(holds, steps, expected):
    assert (lately(mask(holds), steps) == mask(expected)).all()


@pytest.mark.parametrize(
    ("holds", "steps", "expected"),
    [("xx.xxx.", 3, "...xxx."), ("xx.xxx.", 2, "xx.xxx."), ("xx", 2, "xx"), ("xx", 3, "..")],
)
def test_streaks_that_are_long_enough(holds, steps, expected):
    assert (sustained(mask(holds), steps) == mask(expected)).all()


def test_the_newest_steps_of_each_row():
    expected = np.concatenate([mask("..xx"), mask("...."), mask("xxxx")])
    assert (newest_of(4, np.array([2, 0, 7])) == expected).all()


def test_rows_are_added_up_where_they_belong():
    values = np.array([[1, 10], [2, 20], [4, 40]])
    assert summed(values, np.array([2, 0, 2]), 4).tolist() == [[2, 20], [0, 0], [5, 50], [0, 0]]
    assert summed(values[:0], np.array([], dtype=np.intp), 1).tolist() == [[0, 0]]


def test_a_mean_is_of_what_was_read():
    mean = mean_where_read(np.array([[1, np.nan, 4], [np.nan] * 3]), axis=1)
    assert mean.tolist() == [2.5, pytest.approx(np.nan, nan_ok=True)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (numbers.percent(0.204), "20 %"),
        (numbers.span(0.201, 0.203), "20 %"),
        (numbers.span(0.85, 0.95), "85-95 %"),
        (numbers.lasted(timedelta(seconds=4231)), "1 h 11 min"),
        (numbers.size(3.24 * 2**30), "3.2 GiB"),
        (numbers.size(10 * 2**30), "10 GiB"),
        (numbers.rate(320e9 / 8), "320 Gbps"),
        (numbers.rate(10e9 / 8), "10 Gbps"),
        (numbers.rate(1.94e9 / 8), "1.9 Gbps"),
        (numbers.rate(0.1e9 / 8), "0.1 Gbps"),
        (numbers.rate(2e6 / 8), "2 Mbps"),
        (numbers.volume_rate(1.9e9, 2e9), "1.9 of 2.0 GB/s"),
        (numbers.volume_rate(0.5e9, 1e9), "0.5 of 1.0 GB/s"),
        (numbers.volume_rate(90e6, 240e6), "90 of 240 MB/s"),
        (numbers.seconds(1.42), "1.4 s"),
        (numbers.seconds(0.1), "0.1 s"),
        (numbers.seconds(0.046), "46 ms"),
    ],
)
def test_numbers_are_read_as_people_write_them(words, expected):
    assert words == expected
