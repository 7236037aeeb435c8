"""Find and read the series of a place by PromQL.

CloudWatch's OTel store, or a Prometheus server.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from adapters.aws.api.calls import Calls, limit_of
from adapters.aws.api.operations import Place, call_price
from adapters.aws.api.promql import OTEL
from adapters.aws.live.requests import (
    MOST_SERIES,
    MetricRequest,
    SeriesBook,
    SeriesValues,
    fetch_metric_data,
)
from adapters.aws.metrics.points import DETAILS, Catalogue, MetricSeries
from adapters.aws.metrics.promql import (
    COARSE_SECONDS,
    KEYS,
    NAMESPACE,
    RECORDS,
    Aggregate,
    Naming,
    Query,
    SampleCounts,
    aggregates,
    naming,
    node_queries,
    one_of,
    present,
    record_of,
)
from bot.errors import Unavailable
from bot.model.frame import Doubles

MOST_SECONDS = limit_of(OTEL, "query_range", "seconds")
"""How long a range is asked for: Prometheus answers with 11,000 points of a series at most."""
_RECENT_SECONDS = 3 * 3600
_COUNTED_EVERY_SECONDS = 24 * 3600
_NODES_OF_PODS = 50
"""Nodes whose pods are asked for at a time."""
_GIVEN = limit_of(OTEL, "query_range", "series")
"""Series of an answer at most."""
_Key = tuple[str, ...]


@dataclass
class PromqlLister:
    """Find which nodes and pods report to the store of a place.

    Name the series that are read of them.
    """

    calls: Calls
    catalogue: Catalogue
    book: SeriesBook
    _dimensions: dict[tuple[Place, str, _Key], dict[str, str]] = field(default_factory=dict)
    """As they were first seen.

    A label that comes later would make another series of the same thing.
    """
    _counted_at: dict[Place, float] = field(default_factory=dict)

    @property
    def naming(self) -> Naming:
        """Return the names of the store."""
        return naming(self.calls.server.surface)

    def instances(self, place: Place, *, recent: bool) -> frozenset[str]:
        """Return the instances that report to the store; raise `Unavailable`."""
        end = self.calls.clock().timestamp()
        scope: dict[str, Any] = {
            "label": self.naming.labels["InstanceId"][0],
            "match[]": sorted(set(self.naming.probe.selectors())),
            "start": int(end - (_RECENT_SECONDS if recent else MOST_SECONDS)),
            "end": int(end),
        }
        answer = self.calls.call(place, self.calls.server.service, "label_values", **scope)
        return frozenset(str(value) for value in answer["data"] if value)

    def discover(self, place: Place, instances: Collection[str]) -> set[MetricSeries]:
        """Return the series of some instances, and of the pods that hold their cores.

        Raise `Unavailable`.
        """
        if not instances:
            return set()
        if self.calls.server.url:
            self.book.recorded[place] = recorded(self.calls, place)
        seconds = self.calls.clock().timestamp()
        counted_ago = seconds - self._counted_at.get(place, 0.0)
        priced = call_price(self.calls.server.service, "query_range").usd
        if priced and counted_ago >= _COUNTED_EVERY_SECONDS:
            self.book.samples[place] = self._count(place, len(instances))
            self._counted_at[place] = seconds
        return self._series_of(place, filter(self.naming.tells, ("node", "pod")), instances)

    def reads(self, place: Place, instance: str) -> bool:
        """Return whether an instance of a place is read by PromQL."""
        return (place, "node", (instance,)) in self._dimensions

    def details(self, place: Place, instance: str) -> set[MetricSeries]:
        """Return the series of each core and device of one node; raise `Unavailable`."""
        return self._series_of(place, DETAILS, [instance])

    def _series_of(
        self, place: Place, kinds: Iterable[str], instances: Collection[str]
    ) -> set[MetricSeries]:
        return {
            series
            for kind in kinds
            for dimensions in self._things(place, kind, instances)
            for series in self._series(place, kind, dimensions)
        }

    def _things(self, place: Place, kind: str, instances: Collection[str]) -> list[dict[str, str]]:
        """Return the dimensions of each thing of a kind on some instances."""
        things: dict[_Key, dict[str, str]] = {}
        expression = next(x for (of, _), x in self.naming.expressions.items() if of == kind)
        names = sorted(
            {
                name
                for (space, _, dimensions), targets in self.catalogue.shapes.items()
                if space == NAMESPACE and targets[0].kind == kind
                for name in dimensions
            }
        )
        by = [label for name in names for label in self.naming.labels.get(name, ())]
        most, ordered = _NODES_OF_PODS if kind == "pod" else MOST_SERIES, sorted(instances)
        for start in range(0, len(ordered), most):
            where = one_of(self.naming.labels["InstanceId"][0], ordered[start : start + most])
            if kind == "pod":
                where += f", {present(self.naming.labels['FullPodName'][0])}"
            query = Query(expression, Aggregate.COUNT, by, where, COARSE_SECONDS)
            for result in _whole(queried_now(self.calls, place, query.text()), place):
                dimensions = {name: self.naming.value(result["metric"], name) for name in names}
                key = tuple(dimensions[name] for name in KEYS[kind])
                if all(key[1:] if kind == "pod" else key):
                    things[key] = self._dimensions.setdefault((place, kind, key), dimensions)

        # A node that was there earlier and says nothing now has a past to read.
        if kind == "node":
            for key in {(instance,) for instance in instances} - things.keys():
                dimensions = dict.fromkeys(names, "") | {"InstanceId": key[0]}
                things[key] = self._dimensions.setdefault((place, kind, key), dimensions)
        return list(things.values())

    def _series(
        self, place: Place, kind: str, dimensions: Mapping[str, str]
    ) -> Iterator[MetricSeries]:
        """Yield the series that are read of a thing."""
        for (space, metric, shape), targets in self.catalogue.shapes.items():
            expressed = (kind, metric) in self.naming.expressions
            if space == NAMESPACE and targets[0].kind == kind and expressed:
                names = tuple(sorted(shape))
                pairs = tuple((name, dimensions[name]) for name in names)
                yield MetricSeries(NAMESPACE, metric, names, pairs, place.region, place.account)

    def points_a_minute(self, place: Place, nodes: int) -> tuple[float, float]:
        """Return the samples behind a minute of some nodes, by their series and by recording rules.

        Raise `Unavailable`.
        """
        counted, queries = self._count(place, nodes), node_queries()
        node_counts = dict.fromkeys(queries, float(nodes))
        of_series = sum(x.samples(counted.series, counted.spacing) for x in queries.values())
        return of_series, sum(
            replace(x, record=name).samples(node_counts, 60.0) for name, x in queries.items()
        )

    def _count(self, place: Place, nodes: int) -> SampleCounts:
        """Count the series behind each selector and how often they are scraped.

        The price of a query follows from it.
        """
        probe, expressions = self.naming.probe.selectors()[0], self.naming.expressions.values()
        often = _number(self.calls, place, f"max(count_over_time({probe}[300s]))")
        selectors = sorted({x for expression in expressions for x in expression.selectors()})
        return SampleCounts(
            {x: _number(self.calls, place, f"count({x})") for x in selectors},
            300 / often if often else 60.0,
            nodes,
        )


def recorded(calls: Calls, place: Place) -> Mapping[str, float]:
    """Return how many nodes each recorded series tells of now; raise `Unavailable`."""
    return {
        str(x["metric"]["__name__"]): float(x["value"][1])
        for x in queried_now(calls, place, f'count by (__name__) ({{__name__=~"{RECORDS}.+"}})')
    }


def _number(calls: Calls, place: Place, text: str) -> float:
    """Return the one value of a query, 0 where there is none."""
    return next((float(x["value"][1]) for x in queried_now(calls, place, text)), 0.0)


def queried_now(calls: Calls, place: Place, text: str) -> list[Any]:
    """Return the results of a query at this time."""
    answer = calls.call(
        place, calls.server.service, "query", query=text, time=int(calls.clock().timestamp())
    )
    return list(answer["data"]["result"])


def _whole(found: list[Any], place: Place) -> list[Any]:
    """Return the series found; raise `Unavailable` where there are as many as CloudWatch gives."""
    if len(found) >= _GIVEN:
        raise Unavailable(
            f"{place} answered PromQL with {len(found)} series, as many as it gives: some may be"
            " missing."
        )
    return found


def fetch(calls: Calls, book: SeriesBook, request: MetricRequest) -> list[SeriesValues]:
    """Make a request, all of it; raise `Unavailable` where a part fails.

    A series that is not in the answer is left out.
    """
    if book.series[request.numbers[0]].namespace != NAMESPACE:
        return fetch_metric_data(calls, book, request)
    return _fetch_promql(calls, book, request)


def _fetch_promql(calls: Calls, book: SeriesBook, request: MetricRequest) -> list[SeriesValues]:
    """Return the values of each series: all are of one metric and one kind of thing.

    One of which the store has none is whole and empty.
    """
    first = book.series[request.numbers[0]]
    targets = book.catalogue.targets_of(first)
    names, kind = naming(calls.server.surface), targets[0].kind
    expression = names.expressions[kind, first.metric]
    dimension = "FullPodName" if kind == "pod" else "InstanceId"
    by = [label for name in KEYS[kind] for label in names.labels[name]]
    dimensions = {n: dict(book.series[n].dimensions) for n in request.numbers}
    keys = {n: tuple(x[name] for name in KEYS[kind]) for n, x in dimensions.items()}

    # Each statistic of each thing by the begin of its period, in the bot's unit.
    periods = range(request.start, request.end - request.period + 1, request.period)
    columns: dict[str, dict[_Key, dict[int, float]]] = {}
    for statistic, aggregate in aggregates(targets).items():
        column = columns[statistic] = defaultdict(dict)
        scale = 1.0 if aggregate is Aggregate.COUNT else expression.scale
        record = record_of(first.metric, aggregate)
        is_recorded = kind == "node" and record in book.recorded.get(request.place, ())

        # A node or a time that recording rules do not tell of is asked for by its series.
        for source in (record, "") if is_recorded else ("",):
            begins = {
                n: next((begin for begin in periods if begin not in column[keys[n]]), request.end)
                for n in request.numbers
            }
            lacking = tuple(n for n, begin in begins.items() if begin < request.end)
            if not lacking:
                break
            where = one_of(names.labels[dimension][0], {dimensions[n][dimension] for n in lacking})
            query = Query(expression, aggregate, by, where, request.period, source)
            narrowed = replace(request, numbers=lacking, start=min(begins.values()))
            for result in _results(calls, book, narrowed, query):
                key = tuple(names.value(result["metric"], name) for name in KEYS[kind])
                for time, value in result["values"]:
                    begin = round(float(time) - query.delay) - query.period
                    column[key].setdefault(begin, float(value) * scale)

    # The values of a series stand at the times that every statistic has.
    answers = []
    for number in request.numbers:
        key = keys[number]
        column_of = {statistic: column.get(key, {}) for statistic, column in columns.items()}
        times = sorted(set.intersection(*(set(values) for values in column_of.values())))
        sets: dict[str, Doubles] = {
            statistic: np.array([values[time] for time in times], dtype=np.float64)
            for statistic, values in column_of.items()
        }
        answers.append(SeriesValues(number, np.array(times, dtype=np.int64), sets, whole=True))
    return answers


def _results(
    calls: Calls, book: SeriesBook, request: MetricRequest, query: Query
) -> Iterator[Mapping[str, Any]]:
    """Yield the series of a query's answers, a day at a time.

    Raise `Unavailable` where some were held back.
    """
    place, period, service = request.place, query.period, calls.server.service
    for start in range(request.start, request.end, MOST_SECONDS):
        steps = (min(start + MOST_SECONDS, request.end) - start) // period
        if not steps:
            continue
        answer = calls.call(
            place,
            service,
            "query_range",
            units=0,
            query=query.text(),
            start=start + period + query.delay,
            end=start + steps * period + query.delay,
            step=period,
        )
        results = _whole(answer["data"]["result"], place)

        # Count the samples that an answer is made of: no server of AWS tells them.
        if counted := book.samples.get(place):
            things = len(request.numbers)
            filled = min(1.0, sum(len(x["values"]) for x in results) / (things * steps))
            series = {**counted.series, **book.recorded.get(place, {})}
            samples = query.samples(series, counted.spacing) * steps
            share = filled * min(1.0, things / counted.nodes)
            calls.charge(service, "query_range", round(samples * share))

        yield from results
