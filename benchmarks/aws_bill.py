"""Print the cost of a fleet's metrics, from the requests that the live source really makes.

`python -m benchmarks.aws_bill [NODES]`: 16 node series each, one hour of ticks planned, compared
with polling every minute at the same one-minute resolution, and with a metric stream. Of more than
2,000 nodes the requests of 2,000 are counted and multiplied.
"""

from __future__ import annotations

import sys
import time
from decimal import Decimal
from fractions import Fraction

import numpy as np

from adapters.aws.api.operations import Place, price_of
from adapters.aws.live.requests import RequestScope, SeriesBook, plan_requests
from adapters.aws.metrics.points import MetricSeries, standard

SERIES_A_NODE = 16
HOURS_A_MONTH = 730
NAMES = ("ClusterName", "InstanceId", "NodeName")


def fleet(nodes: int) -> list[MetricSeries]:
    """Return the first 16 node metrics of the catalogue for each node."""
    wanted = [
        (namespace, metric)
        for (namespace, metric, names), targets in standard().shapes.items()
        if names == frozenset(NAMES) and any(target.kind == "node" for target in targets)
    ][:SERIES_A_NODE]
    named = [
        (("ClusterName", f"c{i // 64}"), ("InstanceId", f"i-{i:05d}"), ("NodeName", f"n{i}"))
        for i in range(nodes)
    ]
    return [
        MetricSeries(namespace, metric, NAMES, pairs, "us-west-2", "111122223333")
        for pairs in named
        for namespace, metric in wanted
    ]


def requested(series: list[MetricSeries], every_minutes: int) -> tuple[int, int, float]:
    """Return metrics requested and calls in one hour of ticks, and seconds to plan a tick.

    Every point comes in time.
    """
    book = SeriesBook()
    numbers = book.enter(series, 0)
    place, metrics, calls = Place("us-west-2"), 0, 0
    began = time.perf_counter()
    for minute in range(every_minutes, 61, every_minutes):
        end = minute * 60
        for ask in plan_requests(book, numbers, place, RequestScope(end)):
            metrics, calls = metrics + len(ask.numbers), calls + 1
            for number in ask.numbers:
                book.marks[number].answered(end, np.arange(ask.start, end, 60))
    return metrics, calls, (time.perf_counter() - began) / (60 // every_minutes)


def month_of(series: list[MetricSeries], every_minutes: int) -> tuple[int, int, Decimal, float]:
    """Return a month's metrics requested, calls and USD, and seconds to plan a tick."""
    metrics, calls, seconds = requested(series, every_minutes)
    asked = metrics * HOURS_A_MONTH
    usd = price_of("cloudwatch", "get_metric_data", asked)
    return asked, calls * HOURS_A_MONTH, usd, seconds


MOST_PLANNED = 2_000
STREAMED = (SERIES_A_NODE, 30, 30 + 7 * 64)
"""Series a node of a stream: those that are read, some more, all of 64 cores by seven names."""
LINE_BYTES = 360
"""Of a point as a line of a stream (`benchmarks.stream`)."""


def streamed_usd(series: int) -> Decimal:
    """Return USD a month of a metric stream that brings so many series a minute, to S3."""
    updates = series * 60 * HOURS_A_MONTH
    gigabytes = Decimal(updates) * LINE_BYTES / 10**9
    return price_of("cloudwatch", "metric_stream", updates) + price_of(
        "firehose", "put_record_batch", round(gigabytes)
    )


def main() -> None:
    """Print the comparison."""
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    planned = min(nodes, MOST_PLANNED)
    series, times = fleet(planned), Fraction(nodes, planned)
    print(
        f"{nodes} nodes x {SERIES_A_NODE} series, one-minute points, a month of {HOURS_A_MONTH} hours"
    )
    month: dict[int, int] = {}
    for every in (1, 5):
        asked, calls, _, seconds = month_of(series, every)
        month[every] = round(asked * times)
        usd = price_of("cloudwatch", "get_metric_data", month[every])
        print(
            f"every {every} min: {month[every]:>15,} metrics requested, {round(calls * times):>11,} calls,"
            f" ${usd:>9,.0f}; {seconds:.2f} s to plan a tick of {planned}"
        )
    print(f"{month[1] / month[5]:.2f} times fewer")
    for each in STREAMED:
        print(f"a metric stream of {each:>3} series a node: ${streamed_usd(nodes * each):>11,.0f}")


if __name__ == "__main__":
    main()
