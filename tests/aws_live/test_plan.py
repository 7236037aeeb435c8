"""Every series is asked for once, from where it was read to, in calls of one page; every answer is taken as far as it is whole."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import numpy as np
import orjson
import pytest

from adapters.aws.api.operations import Place
from adapters.aws.live import requests
from adapters.aws.live.record import _lines
from adapters.aws.live.requests import (
    MOST_POINTS,
    MOST_QUERIES,
    RequestScope,
    SeriesBook,
    SeriesValues,
    Watermark,
    fetch_metric_data,
    plan_requests,
    statistics_of,
)
from adapters.aws.metrics.points import MetricSeries
from adapters.aws.metrics.promql import NAMESPACE as PROMQL
from tests.cases import in_one_run

HERE = Place("us-west-2", account="111122223333")
START = 1_795_132_800


def series(number: int, namespace: str = "N", metric: str = "m") -> MetricSeries:
    return MetricSeries(
        namespace, metric, ("Id",), (("Id", f"{number:04}"),), HERE.region, HERE.account
    )


@in_one_run
@pytest.mark.parametrize("step", [60, 300])
@pytest.mark.parametrize("late", [0, 60, 240, 480])
@pytest.mark.parametrize("minute", range(60, 65))
def test_a_point_that_comes_after_its_successors_is_read_and_little_is_asked_for_twice(
    step: int, late: int, minute: int
) -> None:
    """A series of minutes, one of which comes late, read every minute or every five."""
    visible = {START + 60 * n: START + 60 * (n + 1) for n in range(120)}
    visible[START + 60 * minute] += late
    mark, read, asked = Watermark(START + 600), set[int](), []
    for now in range(START + 660, START + 60 * 121, step):
        start = mark.start
        assert START + 600 <= start < now
        asked.append(now - start)
        times = sorted(at for at, seen in visible.items() if start <= at < now and seen <= now)
        read.update(times)
        mark.answered(now, np.array(times, dtype=np.int64))
    assert {at for at in visible if START + 600 <= at < now - 60} - read == set()
    assert sum(length > step + 60 for length in asked) <= 1


@in_one_run
@pytest.mark.parametrize(
    ("mark", "start"),
    [
        (Watermark(100), 100),
        (Watermark(100, asked=5_000), 4_100),
        (Watermark(100, asked=5_000, newest=4_800), 4_860),
        (Watermark(100, asked=9_000, newest=4_800), 8_100),
        (Watermark(100, asked=5_000, newest=4_900, hole=4_460), 4_460),
        (Watermark(100, asked=5_000, newest=4_900, hole=4_461), 4_960),
    ],
)
def test_the_next_request_begins_before_all_that_may_come(mark: Watermark, start: int) -> None:
    assert mark.start == start


def book_of(*found: MetricSeries) -> SeriesBook:
    book = SeriesBook()
    book.enter(found, START)
    return book


def test_a_series_has_one_number_and_is_known_once_it_was_asked_for() -> None:
    book = book_of(series(1), series(2))
    assert book.enter([series(3), series(1)], START + 60) == [0, 2]
    assert [mark.since for mark in book.marks] == [START, START, START + 60]
    assert book.newest(series(9)) is book.newest(series(1)) is None
    book.marks[0].answered(START + 600, np.array([START], dtype=np.int64))
    assert book.newest(series(1)) == START
    resumed = SeriesBook()
    resumed.resume(book.series, START + 900)
    assert resumed.numbers == book.numbers
    assert {mark.start for mark in resumed.marks} == {START + 900}


@in_one_run
@pytest.mark.parametrize("most", [MOST_QUERIES, 7])
@pytest.mark.parametrize("length", [60, 3600, 30 * 86_400])
def test_each_series_is_asked_for_once_in_calls_of_one_page(most: int, length: int) -> None:
    book = book_of(*map(series, range(1_100)))
    for number, mark in enumerate(book.marks):
        mark.since = START - 60 * (number % 3)
    scope = RequestScope(
        START + length, since=START - 60, most_queries=most, statistics=("Sum", "Maximum")
    )
    planned = list(plan_requests(book, range(1_100), HERE, scope))
    assert Counter(n for request in planned for n in request.numbers) == Counter(range(1_100))
    for request in planned:
        assert len(request.numbers) == len(request.statistics) > 0
        assert sum(map(len, request.statistics)) <= most
        assert request.points <= MOST_POINTS
        assert {max(START - 60, book.marks[n].since) for n in request.numbers} == {request.start}
    starts = [request.start for request in planned]
    assert starts == sorted(starts, reverse=True)


def test_what_is_read_to_the_end_is_not_asked_for_and_a_span_is_as_it_is_given() -> None:
    book = book_of(series(1), series(2))
    book.marks[1].since = START + 600
    assert [x.numbers for x in plan_requests(book, [0, 1], HERE, RequestScope(START + 600))] == [
        (0,)
    ]
    (past,) = plan_requests(book, [0, 1], HERE, RequestScope(START + 600, START - 600, period=300))
    assert (past.numbers, past.start, past.end, past.period) == (
        (0, 1),
        START - 600,
        START + 600,
        300,
    )
    assert requests._points(START, START + 600, 300) == 2
    assert requests._points(START + 1, START + 601, 300) == 3


def test_by_promql_one_metric_of_one_kind_is_asked_for_of_some_hundred_things(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "MOST_SERIES", 3)
    found = [series(n, PROMQL, metric) for n in range(4) for metric in ("a", "b")]
    book = book_of(*found)
    planned = list(plan_requests(book, range(8), HERE, RequestScope(START + 60)))
    assert sorted(len(x.numbers) for x in planned) == [1, 1, 3, 3]
    assert all(len({book.series[n].metric for n in x.numbers}) == 1 for x in planned)
    assert all(x.statistics == () for x in planned)


class Pages:
    """Answers by pages, and remembers what was asked."""

    def __init__(self, *pages: list[dict[str, Any]]) -> None:
        self.answer, self.given = pages, dict[str, Any]()

    def pages(self, place: Place, service: str, operation: str, **given: Any) -> Any:
        self.given = given
        yield from ({"MetricDataResults": page} for page in self.answer)


def result(name: str, minutes: list[int], values: list[float], status: str = "") -> dict[str, Any]:
    stamps = [datetime.fromtimestamp(START + 60 * minute, UTC) for minute in minutes]
    return {"Id": name, "Timestamps": stamps, "Values": values} | (
        {"StatusCode": status} if status else {}
    )


def test_an_answer_is_joined_from_its_pages_and_taken_as_far_as_it_is_whole() -> None:
    book = book_of(*map(series, range(6)))
    statistics = ("Sum", "Maximum")
    scope = RequestScope(START + 600, START, statistics=statistics)
    (request,) = plan_requests(book, range(6), HERE, scope)
    calls = Pages(
        [
            result("m0_sum", [0, 1], [1.0, 2.0], "PartialData"),
            result("m0_maximum", [0, 1, 2], [5.0, 6.0, 7.0]),
            result("m1_sum", [0, 1], [1.0, 2.0]),
            result("m1_maximum", [0, 1, 2], [5.0, 6.0, 7.0]),
            result("m2_sum", [0], [1.0], "InternalError"),
            result("m2_maximum", [0], [1.0]),
            result("m3_sum", [0, 1], [1.0]),
            result("m3_maximum", [0, 1], [1.0, 2.0]),
            result("m4_sum", [0], [1.0]),
            result("m5_sum", [0, 0], [1.0, 9.0], "PartialData"),
            result("m5_maximum", [0], [1.0]),
        ],
        [result("m0_sum", [2], [3.0], "Complete"), result("m5_sum", [1], [4.0], "PartialData")],
    )
    answers = {x.number: x for x in fetch_metric_data(calls, book, request)}  # type: ignore[arg-type]
    assert sorted(answers) == [0, 1, 5]
    minutes = {n: ((x.times - START) // 60).tolist() for n, x in answers.items()}
    assert minutes == {0: [0, 1, 2], 1: [0, 1], 5: [0]}
    assert {n: x.whole for n, x in answers.items()} == {0: True, 1: False, 5: False}
    assert answers[0].sets["Sum"].tolist() == [1.0, 2.0, 3.0]
    assert answers[1].sets["Maximum"].tolist() == [5.0, 6.0]
    assert answers[5].sets["Sum"].tolist() == [1.0]
    given = calls.given
    assert (given["units"], given["ScanBy"]) == (6, "TimestampAscending")
    assert [x.timestamp() for x in (given["StartTime"], given["EndTime"])] == [START, START + 600]
    assert len(given["MetricDataQueries"]) == 12
    assert given["MetricDataQueries"][0]["MetricStat"] == {
        "Metric": {
            "Namespace": "N",
            "MetricName": "m",
            "Dimensions": [{"Name": "Id", "Value": "0000"}],
        },
        "Period": 60,
        "Stat": "Sum",
    }


@in_one_run
@pytest.mark.parametrize(
    ("sets", "point"),
    [
        ({"SampleCount": [4.0], "Sum": [2.0], "Maximum": [1.0]}, (4.0, 2.0, 1.0)),
        ({"Sum": [2.0]}, (1.0, 2.0, None)),
        ({"Maximum": [3.0]}, (1.0, 3.0, 3.0)),
    ],
)
def test_a_statistic_that_nobody_needs_is_inferred(
    sets: dict[str, list[float]], point: tuple[float | None, ...]
) -> None:
    columns = {name: np.array(values) for name, values in sets.items()}
    points = SeriesValues(7, np.array([START]), columns, whole=True).points()
    read = [float(x[0]) for x in (points.count, points.total, points.peak)]
    assert [None if np.isnan(x) else x for x in read] == list(point)
    assert points.series.tolist() == [7]


def test_statistics_come_in_one_order() -> None:
    book = SeriesBook()
    for targets in book.catalogue.shapes.values():
        found = statistics_of(targets)
        assert found
        assert found == tuple(x for x in requests.ALL if x in found)


def test_a_point_is_recorded_as_cloudwatch_streams_write_it() -> None:
    sets = {"SampleCount": [4.0], "Sum": [2.0], "Maximum": [1.0], "Minimum": [0.25]}
    columns = {name: np.array(values) for name, values in sets.items()}
    (line,) = _lines(SeriesValues(7, np.array([START]), columns, whole=True), series(1))
    assert orjson.loads(line) == {
        "account_id": HERE.account,
        "region": HERE.region,
        "namespace": "N",
        "metric_name": "m",
        "dimensions": {"Id": "0001"},
        "timestamp": START * 1000,
        "value": {"count": 4.0, "sum": 2.0, "max": 1.0, "min": 0.25},
        "unit": "None",
    }
