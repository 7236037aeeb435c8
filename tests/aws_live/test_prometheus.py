"""Ask a real Prometheus: it answers the bot, and answers each of the bot's queries as the store in memory does."""

import json
import re
import shutil
import socket
import subprocess
import time
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import numpy as np
import pytest

from adapters.aws.api.promql import PrometheusServer
from adapters.aws.metrics.points import standard
from adapters.aws.metrics.promql import KEYS, NAMESPACE, Query, aggregates, naming, one_of
from bot.model.frame import MetricsSurface
from tests.aws_live.cloudwatch import CloudWatch
from tests.aws_live.conftest import open_tiny
from tests.aws_live.exporter import EXPORTER, OTEL, samples
from tests.aws_live.promql import PromqlStore
from tests.aws_live.test_promql import assert_alike

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


@pytest.fixture(scope="module", params=["otel", "prometheus"])
def server(request, tiny, tmp_path_factory):
    """Serve what a node's exporter would have said, as blocks that promtool made."""
    folder = tmp_path_factory.mktemp("prometheus")
    every = list(samples(CloudWatch.of(tiny).series["us-west-2"], DIALECTS[request.param]))
    (folder / "samples").write_text("\n".join(openmetrics(every)) + "\n")
    (folder / "prometheus.yml").write_text("global: {}\n")
    making = [
        "promtool",
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        "--quiet",
        folder / "samples",
        folder / "data",
    ]
    subprocess.run(making, check=True, timeout=120)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    options = [
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        "--log.level=error",
    ]
    running = subprocess.Popen(
        [
            "prometheus",
            *options,
            "--storage.tsdb.retention.time=10y",
            f"--web.listen-address={address}",
        ]
    )
    for _ in range(300):
        try:
            urlopen(f"http://{address}/-/ready", timeout=1).close()
            break
        except (URLError, OSError):
            time.sleep(0.1)
    yield request.param, f"http://{address}", PromqlStore(every)
    running.terminate()
    running.wait(timeout=30)


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
    surface, address, store = server
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
    surface, address, _ = server
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
