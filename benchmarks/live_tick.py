"""Time a tick's metrics of a live fleet against boto3 alone fetching and parsing the same answers.

`python -m benchmarks.live_tick [NODES]`: 16 node series each, five new minutes a tick, from a server in a process of its own.
Prints seconds and the ratio, and how much memory the process held at most.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import sys
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from typing import Any

import boto3

from adapters.aws.api.calls import Calls, Place
from adapters.aws.live.frame_buffer import FrameBuffer
from adapters.aws.live.poller import MetricPoller
from adapters.aws.metrics.time_grid import TimeGrid
from benchmarks.aws_bill import fleet

STEP = 300
NOON = 1_795_176_000
HOME = Place("us-west-2", account="111122223333")
TICKS = 3


class _Metrics(BaseHTTPRequestHandler):
    """Answer GetMetricData: one point a minute of every query."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        minutes = list(range(int(request["StartTime"]), int(request["EndTime"]), 60))
        values = [50.0 + minute % 7 for minute in range(len(minutes))]
        results = [
            {"Id": query["Id"], "Label": "x", "StatusCode": "Complete", "Timestamps": minutes, "Values": values}
            for query in request["MetricDataQueries"]
        ]
        body = json.dumps({"MetricDataResults": results, "Messages": []}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


def _serve(connection: Connection) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Metrics)
    connection.send(server.server_port)
    server.serve_forever()


def main() -> None:
    """Print the figures."""
    nodes = int(sys.argv[1]) if sys.argv[1:] else 2_000
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    server.start()
    os.environ |= {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{ours.recv()}", "AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "s"}
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
    print(f"{nodes} nodes x 16 series: a tick's metrics {best:.1f} s, boto3 alone {plain:.1f} s, ratio {best / plain:.2f}")
    print(f"memory at most {most:,.0f} MB")
    server.terminate()


def _plain(n_calls: int) -> float:
    """Return the seconds that boto3 takes, one call after the other, for as many queries of five points."""
    client = boto3.client("cloudwatch", region_name="us-west-2")
    metric = {"Namespace": "ContainerInsights", "MetricName": "node_neuroncore_utilization", "Dimensions": []}
    stat = {"Metric": metric, "Period": 60, "Stat": "Sum"}
    queries: Any = [{"Id": f"m{n}", "MetricStat": stat} for n in range(500)]
    began = time.perf_counter()
    for _ in range(n_calls):
        client.get_metric_data(MetricDataQueries=queries, StartTime=NOON, EndTime=NOON + STEP, ScanBy="TimestampAscending")
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
