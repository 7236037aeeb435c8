import numpy as np
import pytest

from detectors.numbers import bridge, close_gaps, drop_singles, share_before, since_last, trailing


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
