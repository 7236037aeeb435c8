"""Count the processor seconds that a minute of a metric stream takes, beside JSON decoding alone.

`python -m benchmarks.stream [NODES [MINUTES]]`: 30 metrics of each node a minute, as Firehose
writes them (JSON, gzip, Parquet), read from a folder in place of a bucket. Prints seconds a minute
of data, scaled up to 32,000 nodes, the ratio to the decoder alone in the same run, and memory.
"""

from __future__ import annotations

import gzip
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copyfile
from typing import Any, cast

import duckdb
import orjson

from adapters.aws.api.calls import Calls
from adapters.aws.api.operations import Place
from adapters.aws.files import Problems
from adapters.aws.live.discovery import PlaceFleet, worth_reading
from adapters.aws.live.frame_buffer import FrameBuffer
from adapters.aws.live.requests import SeriesBook
from adapters.aws.live.stream import FIRST, S3Lister, Streams
from adapters.aws.metrics.batch import TimeGrid
from adapters.aws.metrics.points import MetricSeries, standard
from adapters.aws.metrics.promql import NAMESPACE as PROMQL
from benchmarks.aws_bill import NAMES

NODES, METRICS = 32_000, 30
NOON = 1_795_176_000
RECORDS = 50_000
"""Of an object: some 16 MB of JSON, as Firehose buffers it."""
PLACE = Place("us-west-2", account="111122223333")


def fleet(nodes: int) -> list[MetricSeries]:
    """Return the metrics of each node that a stream brings: the agent's and EC2's."""
    named = [
        {"ClusterName": f"c{i // 64}", "InstanceId": f"i-{i:017x}", "NodeName": f"ip-10-{i}.ec2"}
        for i in range(nodes)
    ]
    wanted = [
        (namespace, metric, tuple(sorted(names)))
        for namespace, metric, names in standard().shapes
        if namespace != PROMQL and names in (frozenset(NAMES), {"InstanceId"})
    ][:METRICS]
    return [
        MetricSeries(
            *shape, tuple((name, each[name]) for name in shape[2]), PLACE.region, PLACE.account
        )
        for each in named
        for shape in wanted
    ]


@dataclass
class Folder:
    """Stand for the calls of a bucket: its objects are files."""

    root: Path
    now: datetime

    def pages(self, *_: Any, **asked: Any) -> Iterator[dict[str, Any]]:
        """Yield the objects behind a key."""
        yield {
            "Contents": [
                {"Key": path.name, "Size": path.stat().st_size, "LastModified": self.now}
                for path in sorted(self.root.iterdir())
                if path.name > asked.get("StartAfter", "")
            ]
        }

    def call(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Return that there are no folders."""
        return {}

    def download(self, _: Place, __: str, key: str, path: Path, *___: Any, **____: Any) -> None:
        """Put an object where it is read."""
        copyfile(self.root / key, path)


def records(series: list[MetricSeries], minute: int) -> Iterator[bytes]:
    """Yield a minute of each series as a line of a metric stream."""
    for number, x in enumerate(series):
        value = 50.0 + (number + minute) % 40
        yield orjson.dumps(
            {
                "metric_stream_name": "trnbot",
                "account_id": x.account,
                "region": x.region,
                "namespace": x.namespace,
                "metric_name": x.metric,
                "dimensions": dict(x.dimensions),
                "timestamp": (NOON + 60 * minute) * 1000,
                "value": {"max": value, "min": value, "sum": 64 * value, "count": 64.0},
                "unit": "Percent",
            }
        )


Write = Callable[[list[bytes], Path], None]


def _json(lines: list[bytes], path: Path) -> None:
    path.write_bytes(b"\n".join(lines) + b"\n")


def _gzip(lines: list[bytes], path: Path) -> None:
    path.write_bytes(gzip.compress(b"\n".join(lines) + b"\n", 1))


def _parquet(lines: list[bytes], path: Path) -> None:
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        _json(lines, Path(file.name))
        duckdb.execute(f"COPY (FROM '{file.name}') TO '{path}' (FORMAT parquet)")


def main() -> None:
    """Print the figures of each form."""
    nodes, minutes = (int(x) for x in [*sys.argv[1:3], *["2000", "5"][len(sys.argv) - 1 :]])
    series = fleet(nodes)
    print(f"{nodes:,} nodes x {METRICS} metrics, {minutes} minutes")
    for write in (_json, _gzip, _parquet):
        with tempfile.TemporaryDirectory(prefix="stream-") as folder:
            _measure(write, series, minutes, Path(folder))
    print(f"memory at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")


def _measure(write: Write, series: list[MetricSeries], minutes: int, folder: Path) -> None:
    book, problems = SeriesBook(), Problems()
    objects = Folder(folder, datetime.fromtimestamp(NOON, UTC))
    calls = cast(Calls, objects)
    lister = S3Lister(calls, "s3://bucket/", PLACE, FIRST)
    streams = Streams(calls, [lister], book, problems, time.monotonic)
    instances = frozenset(dict(x.dimensions)["InstanceId"] for x in series)
    place_fleet = PlaceFleet(instances, frozenset())
    buffer = FrameBuffer(TimeGrid(300, 60), 6 * 3600, book.series)

    spent, decoded, absorbed, points = [], [], 0.0, 0
    for minute in range(minutes):
        lines = list(records(series, minute))
        for first in range(0, len(lines), RECORDS):
            name = f"{minute:04}-{first:09}"
            write(lines[first : first + RECORDS], folder / name)
        objects.now = datetime.fromtimestamp(NOON, UTC) + timedelta(minutes=minute + 3)
        began = time.process_time()
        new = streams.read(
            objects.now,
            time.monotonic() + 3600,
            lambda listed: worth_reading(listed, place_fleet, book.catalogue),
            minute == minutes - 1,
        )
        spent.append(time.process_time() - began)
        points += sum(len(x.series) for x in new.points)

        began = time.process_time()
        for line in lines:
            orjson.loads(line)
        decoded.append(time.process_time() - began)
        if minute == minutes - 1:
            began = time.process_time()
            buffer.absorb(new, (NOON + 60 * minute) // 300 + 1, lambda _: {})
            absorbed = time.process_time() - began
    assert points == len(series) * minutes, (points, problems.sentences())
    best, plain = min(spent), min(decoded)
    scale = NODES * METRICS / len(series)
    print(
        f"{write.__name__.strip('_'):>8}: {best:.2f} s a minute of data (the first {spent[0]:.2f} s,"
        f" when the fleet changed {spent[-1]:.2f} s), decoding JSON alone {plain:.2f} s, ratio"
        f" {best / plain:.1f}; at {NODES:,} nodes {best * scale:.0f} s of 60; absorbing by a tick"
        f" {absorbed:.2f} s"
    )


if __name__ == "__main__":
    main()
