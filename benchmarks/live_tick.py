"""Time a tick's metrics of a live fleet against boto3 alone fetching and parsing the same answers.

`python -m benchmarks.live_tick [NODES]`: 16 node series each, five new minutes a tick, from a
server in a process of its own. Prints seconds and the ratio, and how much memory the process held
at most.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from datetime import UTC, datetime
from typing import Any

import boto3

from adapters.aws.api.calls import Calls
from adapters.aws.api.operations import Place
from adapters.aws.live.frame_buffer import FrameBuffer
from adapters.aws.live.poller import MetricPoller
from adapters.aws.metrics.batch import TimeGrid
from benchmarks.aws_bill import fleet
from benchmarks.metric_server import served

STEP = 300
NOON = 1_795_176_000
HOME = Place("us-west-2", account="111122223333")
TICKS = 3


def answer(asked: dict[str, Any]) -> bytes:
    """Return one point a minute of every query."""
    minutes = list(range(int(asked["StartTime"]), int(asked["EndTime"]), 60))
    values = [50.0 + minute % 7 for minute in range(len(minutes))]
    results = [
        {
            "Id": query["Id"],
            "Label": "x",
            "StatusCode": "Complete",
            "Timestamps": minutes,
            "Values": values,
        }
        for query in asked["MetricDataQueries"]
    ]
    return json.dumps({"MetricDataResults": results, "Messages": []}).encode()


def main() -> None:
    """Print the figures."""
    with served(answer):
        _measure(int(sys.argv[1]) if sys.argv[1:] else 2_000)


def _measure(nodes: int) -> None:
    calls = Calls(lambda: datetime.fromtimestamp(NOON, UTC))
    poll = MetricPoller(calls, STEP, time.monotonic)
    poll.enter(HOME, fleet(nodes), NOON - STEP)
    buffer = FrameBuffer(TimeGrid(STEP, 60), 15 * 86_400, poll.book.series, poll.book.catalogue)
    for number in poll.book.active:
        poll.book.marks[number].since = NOON - STEP
    spent = []
    for now in range(NOON, NOON + TICKS * STEP, STEP):
        began = time.perf_counter()
        buffer.absorb(poll.read(now - 60, time.monotonic() + 900), now // STEP, lambda _: {})
        spent.append(time.perf_counter() - began)
    plain = _plain(calls.meter.today().calls["cloudwatch:GetMetricData"] // TICKS)
    best, most = min(spent), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{nodes} nodes x 16 series: a tick's metrics {best:.1f} s, boto3 alone {plain:.1f} s, ratio {best / plain:.2f}"
    )
    print(f"memory at most {most:,.0f} MB")


def _plain(n_calls: int) -> float:
    """Return the seconds that boto3 takes, one call after the other, for as many queries of five points."""
    client = boto3.client("cloudwatch", region_name="us-west-2")
    metric = {
        "Namespace": "ContainerInsights",
        "MetricName": "node_neuroncore_utilization",
        "Dimensions": [],
    }
    stat = {"Metric": metric, "Period": 60, "Stat": "Sum"}
    queries: Any = [{"Id": f"m{n}", "MetricStat": stat} for n in range(500)]
    began = time.perf_counter()
    for _ in range(n_calls):
        client.get_metric_data(
            MetricDataQueries=queries,
            StartTime=NOON,
            EndTime=NOON + STEP,
            ScanBy="TimestampAscending",
        )
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
