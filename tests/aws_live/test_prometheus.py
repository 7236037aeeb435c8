"""Ask a real Prometheus: it answers the bot, and answers each of the bot's queries as the store in memory does."""

import json
import re
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import numpy as np
import pytest
import yaml

from adapters.aws.api.promql import PrometheusServer
from adapters.aws.metrics.points import standard
from adapters.aws.metrics.promql import (
    KEYS,
    NAMESPACE,
    Aggregate,
    Query,
    aggregates,
    naming,
    node_queries,
    one_of,
)
from bot.model.frame import MetricsSurface
from bot.model.window import Window
from tests.aws_live.cloudwatch import CloudWatch
from tests.aws_live.conftest import open_tiny
from tests.aws_live.exporter import ERRORS, EXPORTER, MEMORY, OTEL, Sampled, samples
from tests.aws_live.ordeal import Watched, told, watch
from tests.aws_live.promql import PromqlStore
from tests.aws_live.test_promql import assert_alike

RULES = Path(__file__).parents[2] / "deploy/prometheus/rules.yaml"
DIALECTS = {"otel": OTEL, "prometheus": EXPORTER}
pytestmark = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")),
    reason="no Prometheus on this machine (apt-get install prometheus)",
)


def plain(text):
    """Write label names as Prometheus before its third version takes them."""
    return re.sub(r'"(@[\w.]+|aws\.[\w.]+)"', lambda found: renamed(found[1]), text)


def renamed(label):
    return re.sub(r"\W", "_", label)


def openmetrics(every):
    by_name = sorted(every, key=lambda one: (one.name, sorted(one.labels.items())))
    for one in by_name:
        labels = ",".join(
            f'{renamed(name)}="{value}"' for name, value in sorted(one.labels.items())
        )
        yield from (
            f"{one.name}{{{labels}}} {value:.17g} {at:.0f}"
            for at, value in zip(one.times, one.values, strict=True)
        )
    yield "# EOF"


def made_blocks(folder, every):
    """Make blocks of samples by promtool."""
    folder.mkdir(exist_ok=True)
    (folder / "samples").write_text("\n".join(openmetrics(every)) + "\n")
    promtool("tsdb", "create-blocks-from", "openmetrics", "--quiet", "samples", "data", cwd=folder)


def promtool(*words, cwd):
    subprocess.run(["promtool", *map(str, words)], check=True, timeout=120, cwd=cwd)


@contextmanager
def prometheus(folder):
    """Serve the blocks of a folder, and yield the address."""
    (folder / "prometheus.yml").write_text("global: {}\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    options = [
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        "--log.level=error",
        "--storage.tsdb.retention.time=10y",
        f"--web.listen-address={address}",
    ]
    running = subprocess.Popen(["prometheus", *options])
    for _ in range(300):
        try:
            urlopen(f"http://{address}/-/ready", timeout=1).close()
            break
        except (URLError, OSError):
            time.sleep(0.1)
    yield f"http://{address}"
    running.terminate()
    running.wait(timeout=30)


@contextmanager
def with_rules(folder, data, address, window, rules="rules.yaml"):
    """Serve the same blocks, and what recording rules made of them; the file's name decides when in a minute they run."""
    folder.mkdir()
    (folder / rules).write_bytes(RULES.read_bytes())
    shutil.copytree(data, folder / "data", ignore=shutil.ignore_patterns("lock", "wal", "chunks_*"))
    times = [f"--start={window.start.timestamp():.0f}", f"--end={window.end.timestamp():.0f}"]
    promtool("tsdb", "create-blocks-from", "rules", *times, "--url", address, rules, cwd=folder)
    with prometheus(folder) as recorded:
        yield recorded


@pytest.fixture(scope="module", params=[pytest.param("otel", marks=pytest.mark.slow), "prometheus"])
def server(request, tiny, tmp_path_factory):
    """Serve what a node's exporter would have said, as blocks that promtool made."""
    folder = tmp_path_factory.mktemp("prometheus")
    every = list(samples(CloudWatch.of(tiny).series["us-west-2"], DIALECTS[request.param]))
    made_blocks(folder, every)
    with prometheus(folder) as address:
        yield request.param, address, PromqlStore(every), folder / "data"


def asked(surface, period):
    """Yield every query that the bot may ask, of all things of a kind."""
    names = naming(surface)
    for (space, metric, dimensions), targets in standard().shapes.items():
        kind = targets[0].kind
        if space == NAMESPACE and (kind, metric) in names.expressions and dimensions:
            by = [label for name in KEYS[kind] for label in names.labels[name]]
            for aggregate in aggregates(targets).values():
                where = one_of(
                    names.labels["InstanceId"][0], ["i-43e68be2231eabaca", "i-b8b2689368d8ceaae"]
                )
                yield Query(names.expressions[kind, metric], aggregate, by, where, period).text()


@pytest.mark.parametrize("period", [60, 300])
def test_every_query_is_answered_as_the_store_in_memory_does(server, world, period):
    surface, address, store, _ = server
    start = int(world.extent.start.timestamp()) + 3600 * 2
    times = {"start": start, "end": start + 60 * period, "step": period}
    answered = 0
    for text in asked(surface, period):
        before = store.samples
        ours = store.answer(
            "/api/v1/query_range",
            {"query": [text]} | {k: [str(v)] for k, v in times.items()},
            0,
            start + 86_400,
        )
        body = urlencode({"query": plain(text), **times, "stats": "all"}).encode()
        with urlopen(f"{address}/api/v1/query_range", data=body, timeout=30) as answer:
            theirs = json.load(answer)["data"]
        one, other = matrix(ours["data"]["result"]), matrix(theirs["result"])
        assert set(one) == set(other), text
        for labels, values in other.items():
            assert list(one[labels]) == list(values), text
            assert np.allclose(list(one[labels].values()), list(values.values()), rtol=1e-9), text
        looked_at = theirs["stats"]["samples"]["totalQueryableSamples"]
        assert store.samples - before == pytest.approx(looked_at, rel=0.02), text
        answered += bool(other)
    assert answered > 10


def matrix(result):
    return {
        frozenset((renamed(k), v) for k, v in one["metric"].items()): {
            float(at): float(value) for at, value in one["values"]
        }
        for one in result
    }


def test_the_bot_reads_it_as_it_reads_cloudwatch(server, world, tiny):
    surface, address, _, _ = server
    if surface == "otel":
        pytest.skip("Prometheus takes the OTel store's label names from its third version on")
    world.standin.publish("prometheus")
    live, recorded = (
        world.live(surface=MetricsSurface.PROMQL, server=PrometheusServer(address)),
        open_tiny(tiny),
    )
    for now in world.ticks(2, 2.25):
        reading = live.read(now)
        assert reading.gaps == ()
    metrics = [
        "neuroncore_utilization_ratio",
        "neuroncore_utilization_highest_ratio",
        "neuron_execution_errors_count",
    ]
    ours, theirs = reading.frames["node"], recorded.read(now).frames["node"]
    assert_alike(ours, theirs, metrics)


def by_rules(world, address):
    return world.live(surface=MetricsSurface.PROMQL, server=PrometheusServer(address))


FILES = [
    "rules.yaml",
    pytest.param("r.yaml", marks=pytest.mark.slow),
]
"""The name of the file decides at which second of a minute its rules are evaluated."""


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("server", ["prometheus"], indirect=True)
def test_rules_give_the_readings_of_the_series(server, world, tmp_path, file):
    _, address, _, data = server
    world.standin.publish("prometheus")
    begin = world.extent.start
    # They were installed when the fleet had run for half an hour: what is older is asked for by series.
    window = Window(begin + timedelta(hours=0.5), world.extent.end)
    with with_rules(tmp_path / "with", data, address, window, file) as recorded:
        plain, ruled = by_rules(world, address), by_rules(world, recorded)
        for now in world.ticks(1, 1.1):
            ours, theirs = ruled.read(now), plain.read(now)
            assert ours.gaps == theirs.gaps == ()
    book = ruled.metrics.book
    assert plain.metrics.book.recorded == {place: {} for place in book.recorded}
    (known,) = book.recorded.values()
    assert set(known.values()) == {3.0}
    ours, theirs = ours.frames["node"], theirs.frames["node"]
    assert ours.metrics == theirs.metrics
    assert ours.n_steps == theirs.n_steps >= 12
    for metric in theirs.metrics:
        assert np.array_equal(ours.of(metric), theirs.of(metric), equal_nan=True), metric


@pytest.mark.slow
@pytest.mark.parametrize("server", ["prometheus"], indirect=True)
def test_rules_give_the_alerts_of_the_series(server, world, tmp_path):
    _, address, _, data = server
    world.standin.publish("prometheus")
    begin = world.extent.start
    window = Window(begin + timedelta(hours=2.5), begin + timedelta(hours=4.5))
    with with_rules(tmp_path / "with", data, address, world.extent) as recorded:
        theirs, ours = (
            told(watch(Watched(world, by_rules(world, x), window), tmp_path / "no-bill"))
            for x in (address, recorded)
        )
    assert [cause.value for cause, *_ in theirs] == ["idle"]
    assert ours == theirs


def trn2(instance, begin):
    """Yield what the exporter of a trn2.48xlarge says for ten minutes: 64 cores, 16 devices."""
    times = begin + 15.0 + 60 * np.arange(10)

    def series(name, values=1.0, **labels):
        return Sampled(name, {"instance_id": instance, **labels}, times, np.full(10, values))

    yield series("neuron_hardware_info")
    yield series("neuron_runtime_memory_used_bytes", 7e9, memory_location="neuron_device")
    for core in range(64):
        yield series("neuroncore_utilization_ratio", core / 64, neuroncore=str(core))
        for name in MEMORY:
            yield series(f"neuroncore_memory_usage_{name}", 1e8, neuroncore=str(core))
    for kind in (*ERRORS, "generic"):
        yield replace(series("execution_errors_total", error_type=kind), values=2.0 * np.arange(10))
    yield series("execution_status_total", status_type="completed")
    yield series("execution_latency_seconds", 0.2, percentile="p50")
    for device in range(16):
        for kind in ("mem_ecc_corrected", "mem_ecc_uncorrected", "sram_ecc_uncorrected"):
            yield series(
                "hardware_ecc_events_total", neuron_device_index=str(device), event_type=kind
            )
    for kind in ("user", "system"):
        yield series("system_vcpu_usage_ratio", 0.1, usage_type=kind)
    yield series("system_memory_used_bytes", 1e11)
    yield series("system_memory_total_bytes", 2e12)


def test_rules_spare_more_than_sixteen_of_seventeen_points(tmp_path):
    begin = int(datetime(2026, 11, 17, tzinfo=UTC).timestamp())
    made_blocks(tmp_path / "plain", [*trn2("i-1", begin), *trn2("i-2", begin)])
    first = datetime.fromtimestamp(begin, UTC)
    window = Window(first, first + timedelta(minutes=12))
    by_series, by_rules = 0, 0
    with (
        prometheus(tmp_path / "plain") as address,
        with_rules(tmp_path / "with", tmp_path / "plain/data", address, window) as recorded,
    ):
        for name, query in node_queries().items():
            ruled = replace(query, record=name)
            one, points = looked_up(recorded, ruled, begin + 300)
            other, plain = looked_up(recorded, query, begin + 300)
            assert one == other, name
            assert len(one) == 2, name
            by_series, by_rules = by_series + plain, by_rules + points
            if query.aggregate is Aggregate.INCREASE:
                coarse = replace(query, period=300)
                ruled = replace(coarse, record=name)
                one, other = (looked_up(recorded, x, begin + 540)[0] for x in (ruled, coarse))
                assert one == pytest.approx(other), name
    assert by_rules == 2 * len(node_queries())
    assert by_series > 16 * by_rules


def looked_up(address, query, at):
    """Return the value of each node at a time, and how many samples the server looked at."""
    body = urlencode({"query": query.text(), "time": at + query.delay, "stats": "all"}).encode()
    with urlopen(f"{address}/api/v1/query", data=body, timeout=30) as answer:
        data = json.load(answer)["data"]
    values = {x["metric"]["instance_id"]: float(x["value"][1]) for x in data["result"]}
    return values, data["stats"]["samples"]["totalQueryableSamples"]


def test_a_rule_that_runs_at_the_whole_minute_tells_of_that_minute_alone():
    """Its next value stands a minute later, which is no longer looked at."""
    for name, query in node_queries().items():
        assert 59 < replace(query, record=name).delay < 60
        assert query.delay == 0


def test_promtool_takes_the_rules_and_their_values(tmp_path):
    shutil.copy(RULES, tmp_path / "rules.yaml")
    promtool("check", "rules", "--lint=all", "--lint-fatal", "rules.yaml", cwd=tmp_path)

    # Of two nodes one has a runtime with two cores, which ran into 3 errors in the third minute.
    series = {
        'neuroncore_utilization_ratio{instance_id="i-1",neuroncore="0"}': "0.25 0.5 0.5 0.5",
        'neuroncore_utilization_ratio{instance_id="i-1",neuroncore="1"}': "0.25 0.75 0.75 0.75",
        'execution_errors_total{instance_id="i-1",error_type="hardware"}': "5 5 7 7",
        'execution_errors_total{instance_id="i-1",error_type="model"}': "1 1 2 2",
        'neuron_hardware_info{instance_id="i-1"}': "1x3",
        'neuron_hardware_info{instance_id="i-2"}': "1x3",
    }
    expected = {
        "trnbot:neuroncore_utilization_ratio:avg": {"i-1": 0.625, "i-2": 0},
        "trnbot:neuroncore_utilization_ratio:max": {"i-1": 0.75, "i-2": 0},
        "trnbot:neuron_execution_errors_count:increase": {"i-1": 3},
        "trnbot:neuron_execution_errors_hardware_count:increase": {"i-1": 2},
    }
    checks = [
        {
            "expr": name,
            "eval_time": "2m",
            "exp_samples": [
                {"labels": f'{name}{{instance_id="{node}"}}', "value": value}
                for node, value in values.items()
            ],
        }
        for name, values in expected.items()
    ]
    test = {
        "interval": "1m",
        "input_series": [{"series": x, "values": y} for x, y in series.items()],
        "promql_expr_test": checks,
    }
    content = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(content))
    promtool("test", "rules", "test.yaml", cwd=tmp_path)
