"""Ask for what was not read, and for nothing twice but a hole, once."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from adapters.aws.api.operations import Place
from adapters.aws.live.poller import MetricPoller
from adapters.aws.live.requests import LATE_SECONDS, Watermark
from adapters.aws.metrics.points import MetricSeries

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


class Late:
    """A CloudWatch that has but the first three minutes of what it is asked for, and says so."""

    spent = False

    def clock(self) -> datetime:
        return datetime.fromtimestamp(NOON, UTC)

    def pages(self, *_, MetricDataQueries, StartTime, **__):  # noqa: N803 (AWS's names)
        times = [StartTime + timedelta(minutes=m) for m in range(3)]
        part = {"Timestamps": times, "Values": [1.0] * 3, "StatusCode": "PartialData"}
        yield {"MetricDataResults": [{"Id": x["Id"], **part} for x in MetricDataQueries]}


def series_of(instance):
    dimensions = (("ClusterName", "c"), ("InstanceId", instance), ("NodeName", "n"))
    names = tuple(name for name, _ in dimensions)
    return MetricSeries("ContainerInsights", "node_neuroncore_utilization", names, dimensions)


def test_only_what_a_place_lists_now_is_read_on():
    poller, west, east = (
        MetricPoller(Late(), 0, lambda: 0.0),
        Place("us-west-2"),
        Place("us-east-1"),
    )
    poller.enter(west, [series_of("i"), series_of("gone")], NOON)
    poller.enter(east, [series_of("far")], NOON)
    poller.enter(west, [series_of("i")], NOON + 300)
    active = [poller.book.series[number] for number in sorted(poller.book.active)]
    assert active == [series_of("i"), series_of("far")]


def test_what_an_answer_held_back_is_not_read():
    poller, place = MetricPoller(Late(), 0, lambda: 0.0), Place("us-west-2")
    series = series_of("i")
    assert poller.book.catalogue.targets_of(series)
    poller.enter(place, [series], NOON - 3600)

    new = poller.read(NOON, 60.0)
    assert new.unread == {0}
    assert sum(len(part.series) for part in new.points) == 3
    begin = int(new.points[0].seconds[0])
    assert poller.book.marks[0].start == begin + 3 * 60, "the next request begins behind them"
