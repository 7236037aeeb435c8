"""Read metric streams from S3: each object once, the same as a recording of them, broken ones in part, late ones too."""

import gzip
import json
import tempfile
from datetime import timedelta
from functools import cache
from pathlib import Path

import duckdb
import pyarrow
import pytest
from pyarrow import parquet

from adapters.aws.files import Problems
from adapters.aws.metrics.lines import read_jsonl
from adapters.aws.metrics.parquet import read_parquet
from adapters.aws.metrics.points import Gatherer
from tests.aws_live.conftest import open_tiny
from tests.aws_live.same import differences
from tests.aws_live.serving import STREAM

FORMS = [
    pytest.param((form,), id=form, marks=marks)
    for form, marks in (("json", ()), ("gzip", pytest.mark.slow), ("parquet", ()))
]


@cache
def points_of(recording):
    """Return a database whose table `m` holds the points of a recording."""
    db = duckdb.connect()
    db.execute(
        f"CREATE TABLE m AS SELECT * FROM read_parquet('{recording}/metrics/**/*.parquet', union_by_name=true)"
    )
    return db


@cache
def body_of(recording, form, where):
    """Return an object of a stream that holds some points of a recording."""
    if form == "parquet":
        with tempfile.TemporaryDirectory() as folder:
            part = Path(folder) / "part.parquet"
            points_of(recording).execute(
                f"COPY (SELECT * FROM m WHERE {where}) TO '{part}' (FORMAT parquet)"
            )
            return part.read_bytes()

    names = (
        "account_id",
        "region",
        "namespace",
        "metric_name",
        "dimensions",
        "timestamp",
        "value",
        "unit",
    )
    rows = points_of(recording).execute(
        f'SELECT account_id, region, namespace, metric_name, to_json(dimensions), "timestamp", to_json(value), unit FROM m WHERE {where}'
    )
    lines = []
    for row in rows.fetchall():
        record = dict(zip(names, row, strict=True))
        record["dimensions"] = {
            k: v for k, v in json.loads(record["dimensions"]).items() if v is not None
        }
        record["value"] = json.loads(record["value"])
        lines.append(json.dumps(record))
    text = "".join(f"{line}\n" for line in lines).encode()
    return gzip.compress(text) if form == "gzip" else text


class Hose:
    """Write a recording's minutes as objects of a stream, as Firehose does, each four minutes after its time."""

    def __init__(self, world, tiny, form="json", layout="%Y/%m/%d/%H/"):
        self.world, self.form, self.layout = world, form, layout
        self.standin, self.recording = world.standin, tiny
        self.chosen = "TRUE"
        """Which points the stream carries, in SQL."""
        self.written = world.extent.start

    def write(self, until):
        """Write what has happened up to `until` into one object."""
        low, high = (int(x.timestamp() * 1000) for x in (self.written, until))
        where = f'{self.chosen} AND "timestamp" >= {low} AND "timestamp" < {high}'
        key = f"streams/us-west-2/{self.written:{self.layout}}metrics-1-{self.written:%Y-%m-%d-%H-%M-%S}-abc"
        body = body_of(self.recording, self.form, where)
        self.standin.objects[key] = (body, until + timedelta(minutes=1))
        self.written = until
        return key


@pytest.fixture
def hose(world, tiny, request):
    return Hose(world, tiny, *getattr(request, "param", ()))


def watch(world, hose, live, start, end):
    """Yield each tick's reading; an object is written right before it, and history read between ticks."""
    for now in world.ticks(start, end):
        hose.write(now - timedelta(minutes=1))
        if live.metrics.known():
            read_history(live, now)
        yield now, live.read(now)


def read_history(live, now):
    live.settle(now)
    live.metrics.backfill.join()


@pytest.mark.parametrize("hose", FORMS, indirect=True)
def test_a_stream_reads_as_the_recording_and_nothing_of_it_is_polled(world, tiny, hose):
    live, recorded = world.live(streams=[f"s3://{STREAM}/streams/us-west-2/"]), open_tiny(tiny)
    for now, reading in watch(world, hose, live, 0.25, 1):
        assert reading.gaps == ()
        assert differences(reading, recorded.read(now)) == []
    assert not world.standin.cloudwatch.served
    assert world.standin.called["s3:GetObject"] == len(world.standin.objects)
    assert live.problems() == ()


@pytest.mark.parametrize(
    "hose",
    [("json", layout) for layout in ("", "year=%Y/month=%m/day=%d/hour=%H/")],
    indirect=True,
    ids=["flat", "hive"],
)
def test_other_layouts_of_keys_are_read_too(world, tiny, hose):
    live, recorded = world.live(streams=[f"s3://{STREAM}/streams/us-west-2"]), open_tiny(tiny)
    *_, (now, reading) = watch(world, hose, live, 0.25, 0.5)
    assert differences(reading, recorded.read(now)) == []


@pytest.mark.slow
def test_a_restart_reads_the_last_hour_and_asks_for_what_is_older(world, tiny, hose):
    *_, (now, _) = watch(
        world, hose, world.live(streams=[f"s3://{STREAM}/streams/us-west-2/"]), 0.25, 3
    )
    before, objects = world.standin.called["s3:GetObject"], len(world.standin.objects)
    again = world.live(streams=[f"s3://{STREAM}/streams/us-west-2/"])
    again.read(now)
    assert world.standin.called["s3:GetObject"] - before in range(11, 15)
    assert objects > 30
    *_, (now, reading) = watch(world, hose, again, 3.1, 3.1)
    assert world.standin.called["cloudwatch:GetMetricData"] > 0
    theirs = open_tiny(tiny).read(now).frames["node"]
    assert reading.frames["node"].n_steps >= theirs.n_steps - 2


def test_a_late_object_is_read(world, tiny, hose):
    live, recorded = world.live(streams=[f"s3://{STREAM}/streams/us-west-2/"]), open_tiny(tiny)
    *_, _ = watch(world, hose, live, 0.25, 1)
    late = hose.write(world.now + timedelta(minutes=4))
    kept = world.standin.objects.pop(late)
    *_, _ = watch(world, hose, live, 1.25, 1.5)
    world.standin.objects[late] = kept[0], world.now
    *_, (now, reading) = watch(world, hose, live, 1.6, 1.6)
    assert differences(reading, recorded.read(now)) == []


def test_an_object_that_comes_twice_counts_once(world, tiny, hose):
    live, recorded = world.live(streams=[f"s3://{STREAM}/streams/us-west-2/"]), open_tiny(tiny)
    for now, reading in watch(world, hose, live, 0.25, 0.6):
        newest = max(world.standin.objects)
        world.standin.objects[f"{newest}-again"] = world.standin.objects[newest]
        assert differences(reading, recorded.read(now)) == []
    assert live.problems() == ()


def test_points_in_any_order_are_placed_in_their_minutes(world, tiny, hose):
    live, recorded = world.live(streams=[f"s3://{STREAM}/streams/us-west-2/"]), open_tiny(tiny)
    *_, (now, _) = watch(world, hose, live, 0.25, 0.5)
    # Half of the lines of each later object come in the next one, the newest first.
    held = []
    for now in world.ticks(0.6, 1):
        key = hose.write(now - timedelta(minutes=1))
        body, at = world.standin.objects[key]
        lines = body.splitlines(keepends=True)[::-1]
        world.standin.objects[key] = b"".join(held + lines[::2]), at
        held = lines[1::2]
        live.read(now)
    now = world.now = now + timedelta(minutes=2)
    world.standin.objects[f"{key}-rest"] = b"".join(held), now
    (later,) = world.ticks(1.1, 1.1)
    hose.write(later - timedelta(minutes=1))
    assert differences(live.read(later), recorded.read(later)) == []
    assert live.problems() == ()


def test_points_that_come_when_their_steps_are_settled_are_counted_and_said(world, tiny, hose):
    live, recorded = world.live(streams=[f"s3://{STREAM}/streams/us-west-2/"]), open_tiny(tiny)
    *_, _ = watch(world, hose, live, 0.25, 0.5)
    old = min(world.standin.objects)
    body = b"".join(
        line.replace(b'"max": ', b'"max": 9')
        for line in world.standin.objects[old][0].splitlines(keepends=True)
    )
    *_, _ = watch(world, hose, live, 0.6, 1.6)
    world.standin.objects[f"{max(world.standin.objects)}-late"] = body, world.now
    *_, (now, reading) = watch(world, hose, live, 1.7, 1.7)
    assert differences(reading, recorded.read(now)) == []
    (sentence,) = live.problems()
    assert sentence.endswith(
        "over an hour late since the start: they fill only steps of which nothing else told."
    )
    assert int(sentence.split()[0].replace(",", "")) > 100


def test_a_series_is_held_against_the_fleet_once_until_that_is_another(world, hose):
    live = world.live(streams=[f"s3://{STREAM}/streams/us-west-2/"])
    asked = []

    def none(listed):
        asked.append(len(list(listed)))
        return set()

    # What was met is forgotten after a day.
    reads = (1, none, 0.25), (1, none, 0.35), (2, set, 0.45), (2, none, 24.5)
    for scope, wanted, hours in reads:
        (now,) = world.ticks(hours, hours)
        hose.write(now - timedelta(minutes=1))
        new = live.streams.read(now, live.streams.stopwatch() + 60, wanted, scope)
        assert bool(new.points) == (wanted is set)
    assert len(asked) == 2


def test_a_host_that_comes_before_its_accelerator_is_read_where_ec2_tells_nothing(world, hose):
    world.standin.faults.denied = {"ec2:DescribeInstances", "cloudwatch:ListMetrics"}
    live = world.live(streams=[f"s3://{STREAM}/streams/us-west-2/"])
    for hours in (0.25, 0.35, 0.45):
        (now,) = world.ticks(hours, hours)
        key = hose.write(now - timedelta(minutes=1))
        body, at = world.standin.objects[key]
        lines = body.splitlines(keepends=True)
        hosts = [x for x in lines if b'"node_cpu_' in x]
        # Firehose cuts objects by their size: one may hold the metrics of hosts alone.
        world.standin.objects[key] = b"".join(hosts), at
        if hours > 0.25:
            world.standin.objects[f"{key}-2"] = b"".join(x for x in lines if x not in hosts), at
        live.read(now)
    assert hosts
    assert any(x.metric.startswith("node_cpu_") for x in live.metrics.book.series)


def test_what_is_ignored_may_have_any_dimensions(tmp_path):
    record = {"namespace": "AWS/Other", "metric_name": "x", "timestamp": 1_790_000_000_000}
    record |= {"value": {"count": 1, "sum": 1}, "dimensions": {"a": 1}, "account_id": 123}
    path, problems = tmp_path / "object", Problems()
    path.write_text(json.dumps(record))
    read_jsonl(path, path.name, Gatherer(), problems)
    assert problems.sentences() == ()


def test_threads_that_meet_a_series_at_once_both_number_it(tmp_path):
    """The second reads the same file while the first asks for the number."""

    class Shared(Gatherer):
        def number(self, *names):
            if not second.parts:
                read_parquet([(path, path.name)], second, Problems())
            return super().number(*names)

    path, number_of, sets = tmp_path / "x.parquet", {}, {}
    second, first = (kind(number_of=number_of, sets=sets) for kind in (Gatherer, Shared))
    value = {"max": 1.0, "min": 1.0, "sum": 1.0, "count": 1.0}
    names = {"ClusterName": "c", "InstanceId": "i-1", "NodeName": "n"}
    columns = {
        "account_id": ["1"], "region": ["us-west-2"], "namespace": ["ContainerInsights"],
        "metric_name": ["node_neuroncore_utilization"], "dimensions": [names],
        "timestamp": [1_790_000_000_000], "value": [value], "unit": ["Percent"],
    }  # fmt: skip
    parquet.write_table(pyarrow.table(columns), path)
    read_parquet([(path, path.name)], first, Problems())
    assert [len(x.series) for x in (*second.parts, *first.parts)] == [1, 1]


def test_a_stream_in_another_form_is_said_with_the_remedy(world, hose):
    live = world.live(streams=[f"s3://{STREAM}/streams/us-west-2/"])
    (now,) = world.ticks(0.25, 0.25)
    key = hose.write(now - timedelta(minutes=1))
    # OpenTelemetry's: the length of a message, then the message.
    world.standin.objects[key] = b"\x8a\x01\x0a\x87\x01\x0a\x12", now - timedelta(minutes=1)
    live.read(now)
    assert "choose JSON as the output format of the stream" in " ".join(live.problems())


@pytest.mark.parametrize(
    ("hose", "told"),
    [(("gzip",), "mid-line"), (("parquet",), "not Parquet that can be read")],
    indirect=["hose"],
)
def test_a_truncated_object_is_told_and_read_when_it_is_whole(world, tiny, hose, told):
    live, recorded = world.live(streams=[f"s3://{STREAM}/streams/us-west-2/"]), open_tiny(tiny)
    *_, _ = watch(world, hose, live, 0.25, 0.5)
    key = hose.write(world.now + timedelta(minutes=4))
    body, at = world.standin.objects[key]
    world.standin.objects[key] = body[: len(body) // 2], at
    (now,) = world.ticks(0.6, 0.6)
    live.read(now)
    assert any(key.rpartition("/")[2] in x and told in x for x in live.problems())
    world.standin.objects[key] = body, at
    *_, (now, reading) = watch(world, hose, live, 0.7, 0.7)
    assert differences(reading, recorded.read(now)) == []


def test_a_broken_object_gives_its_sound_part_and_is_told_once(world, tiny, hose):
    live = world.live(streams=[f"s3://{STREAM}/streams/us-west-2/"])
    *_, _ = watch(world, hose, live, 0.25, 0.5)
    key = hose.write(world.now + timedelta(minutes=4))
    body, at = world.standin.objects[key]
    world.standin.objects[key] = body[: len(body) // 2], at
    before = world.standin.called["s3:GetObject"]
    *_, (_, reading) = watch(world, hose, live, 0.6, 1.1)
    assert reading.frames["node"].things
    assert sum("metric stream" in x and key.rpartition("/")[2] in x for x in live.problems()) == 1
    assert world.standin.called["s3:GetObject"] - before == 7 + 3


def test_an_outage_of_the_bucket_is_a_gap_and_leaves_none(world, tiny, hose):
    live, recorded = world.live(streams=[f"s3://{STREAM}/streams/us-west-2/"]), open_tiny(tiny)
    *_, _ = watch(world, hose, live, 0.25, 0.5)
    world.standin.faults.denied = {"s3:ListBucket"}
    for _, reading in watch(world, hose, live, 0.6, 2.5):
        assert "s3:ListBucket" in " ".join(map(str, reading.gaps))
    world.standin.faults.denied = set()
    *_, (now, reading) = watch(world, hose, live, 2.6, 2.6)
    assert reading.gaps == ()
    assert differences(reading, recorded.read(now)) == []
    assert not world.standin.cloudwatch.served


def test_a_dead_stream_at_the_start_is_not_polled_instead(world, tiny, hose):
    live = world.live(streams=[f"s3://{STREAM}/streams/us-west-2/"])
    world.standin.faults.denied = {"s3:ListBucket"}
    *_, (_, reading) = watch(world, hose, live, 2, 2)
    assert "s3:ListBucket" in " ".join(map(str, reading.gaps))
    assert not world.standin.cloudwatch.served


def test_what_the_stream_lacks_is_polled(world, tiny, hose):
    hose.chosen = "namespace <> 'AWS/FSx'"
    live, recorded = world.live(streams=[f"s3://{STREAM}/streams/us-west-2/"]), open_tiny(tiny)
    *_, (now, reading) = watch(world, hose, live, 0.25, 0.75)
    assert differences(reading, recorded.read(now)) == []
    assert {
        json.loads(metric)["Namespace"] for _, metric, _, _ in world.standin.cloudwatch.served
    } == {"AWS/FSx"}
