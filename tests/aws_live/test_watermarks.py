"""Ask for what was not read, and for nothing twice but a hole, once."""

import numpy as np
import pytest

from adapters.aws.live.requests import LATE_SECONDS, Watermark

NOON = 1_800_000_000


def minutes(*which: int) -> np.ndarray:
    return np.array([NOON + 60 * m for m in which], dtype=np.int64)


def test_the_next_request_begins_behind_the_newest_point():
    mark = Watermark(NOON)
    mark.answered(NOON + 300, minutes(0, 1, 2, 3, 4))
    assert mark.start == NOON + 300


def test_a_silent_series_is_asked_for_a_quarter_of_an_hour_again():
    mark = Watermark(NOON)
    mark.answered(NOON + 3600, minutes())
    assert mark.start == NOON + 3600 - LATE_SECONDS


def test_what_nobody_answered_is_asked_for_again():
    mark = Watermark(NOON)
    mark.answered(NOON + 300, minutes(0, 1, 2, 3, 4))
    assert mark.start == NOON + 300, "two ticks later too"


def test_a_hole_is_asked_for_once_more_when_it_is_ten_minutes_old():
    mark, starts = Watermark(NOON), []
    for tick in range(1, 7):
        starts.append((mark.start - NOON) // 60)
        new = [m for m in range(5 * tick - 5, 5 * tick) if m != 3]
        mark.answered(NOON + 300 * tick, minutes(*new))
    assert starts == [0, 5, 10, 3, 20, 25]


@pytest.mark.parametrize("step", [5, 15])
def test_a_series_of_longer_periods_has_no_holes(step):
    mark = Watermark(NOON)
    mark.answered(NOON + 3600, minutes(*range(0, 60, step)))
    assert mark.hole == 0
