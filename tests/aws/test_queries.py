"""Each query that a store is asked, as text: a reader of PromQL can tell whether it means what it should."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from adapters.aws.metrics.points import Statistic, standard
from adapters.aws.metrics.promql import (
    KEYS,
    NAMESPACE,
    Aggregate,
    Query,
    aggregates,
    naming,
    node_queries,
    one_of,
    present,
    quoted,
    record_of,
)
from tests.goldens import check

GOLDEN = Path(__file__).with_name("goldens") / "queries.txt"


def in_order(shape: tuple[tuple[str, str, frozenset[str]], object]) -> tuple[str, str, list[str]]:
    (space, metric, dimensions), _ = shape
    return space, metric, sorted(dimensions)


def asked(surface: str) -> Iterator[str]:
    """Yield every query about every kind of thing, over a minute and over five."""
    names, seen = naming(surface), set()
    for (space, metric, _), targets in sorted(standard().shapes.items(), key=in_order):
        kind = targets[0].kind
        if space != NAMESPACE or (kind, metric) not in names.expressions or (kind, metric) in seen:
            continue
        seen.add((kind, metric))
        expression = names.expressions[kind, metric]
        yield f"{kind} {metric}, x {expression.scale:g}: {expression.selectors()}"
        by = [label for name in KEYS[kind] for label in names.labels[name]]
        for statistic, aggregate in aggregates(targets).items():
            for period in (60, 300):
                query = Query(expression, aggregate, by, one_of(by[0], ["i-1"]), period)
                samples = query.samples(dict.fromkeys(expression.selectors(), 10.0), 15.0)
                yield f"  {statistic} of {period} s, {samples:g} samples: {query.text()}"


def recorded() -> Iterator[str]:
    """Yield the rules that record queries, and how a recorded series is read."""
    for name, query in node_queries().items():
        yield f"{name}: {query.rule()}"
        for period in (60, 300):
            read = Query(query.expression, query.aggregate, query.by, present("job"), period, name)
            yield f"  {read.samples({name: 3.0}, 15.0):g} samples, {read.delay:g} s late: {read.text()}"


def test_queries_are_what_they_were_last_seen_to_be() -> None:
    parts = [*asked("otel"), "", *asked("prometheus"), "", *recorded()]
    check(GOLDEN, "".join(f"{line}\n" for line in parts))


def test_names_and_values_are_written_so_that_promql_reads_them_back() -> None:
    assert quoted("instance_id") == "instance_id"
    assert quoted("@resource.host.id") == '"@resource.host.id"'
    assert one_of("host", ["i-2", "i-1", 'a"b\\c', "a.b"]) == r'host=~"a\"b\\\\c|a\\.b|i-1|i-2"'
    assert record_of("m", Aggregate.MEAN) == "trnbot:m:avg"


def test_a_value_is_found_under_the_likeliest_of_its_labels() -> None:
    names = naming("otel")
    told = {"neuron_device_index": "3", "@datapoint.aws.neuron.core": "5", "@resource.host.id": ""}
    assert names.value(told, "NeuronDevice") == "device3"
    assert names.value(told | {"aws.neuron.device": "1"}, "NeuronDevice") == "device1"
    assert names.value(told, "NeuronCore") == "core5"
    assert names.value(told, "InstanceId") == ""


def test_each_statistic_has_its_aggregates() -> None:
    target = next(iter(standard().shapes.values()))[0]
    asked = {
        statistic.name: {
            name: str(x) for name, x in aggregates([replace(target, statistic=statistic)]).items()
        }
        for statistic in Statistic
    }
    assert asked == {
        "LEVEL": {"Sum": "avg"},
        "TOTAL": {"Sum": "sum"},
        "RATE": {"Sum": "increase"},
        "EVENTS": {"Sum": "increase"},
        "LARGEST": {"Maximum": "max"},
        "LAST": {"Maximum": "max"},
    }
