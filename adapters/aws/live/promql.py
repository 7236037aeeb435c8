"""Find and read the series of a place by PromQL.

CloudWatch's OTel store, or a Prometheus server.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
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
from adapters.aws.metrics.points import Catalogue, Ints, MetricSeries
from adapters.aws.metrics.promql import (
    COARSE_SECONDS,
    KEYS,
    NAMESPACE,
    Aggregate,
    Expression,
    Naming,
    Query,
    SampleCounts,
    aggregates,
    asked_dimension,
    naming,
    one_of,
    present,
)
from bot.errors import Unavailable
from bot.model.frame import Doubles

MOST_SECONDS = limit_of(OTEL, "query_range", "seconds")
"""How long a range is asked for: Prometheus answers with 11,000 points of a series at most."""
_RECENT_SECONDS = 3 * 3600
_COUNTED_EVERY = timedelta(days=1)
_NODES_OF_PODS = 50
"""Nodes whose pods are asked for at a time."""
_GIVEN = limit_of(OTEL, "query_range", "series")
"""Series of an answer at most."""
_WHOLE_KINDS = ("node", "pod")
_Key = tuple[str, ...]
_Values = dict[_Key, dict[int, float]]


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
        start = end - (_RECENT_SECONDS if recent else MOST_SECONDS)
        label = self.naming.labels["InstanceId"][0]
        scope: dict[str, Any] = {
            "match[]": sorted(set(_selectors(self.naming.probe))),
            "start": int(start),
            "end": int(end),
        }
        answer = self.calls.call(
            place, self.calls.server.service, "label_values", label=label, **scope
        )
        return frozenset(str(value) for value in answer["data"] if value)

    def discover(self, place: Place, instances: Collection[str]) -> set[MetricSeries]:
        """Return the series of some instances, and of the pods that hold their cores.

        Raise `Unavailable`.
        """
        if not instances:
            return set()
        if call_price(self.calls.server.service, "query_range"):
            self._count(place, instances)
        series: set[MetricSeries] = set()
        for kind in filter(self.naming.tells, _WHOLE_KINDS):
            things = self._things(place, kind, instances)
            series |= {x for dimensions in things for x in self._series(place, kind, dimensions)}
        return series

    def reads(self, place: Place, instance: str) -> bool:
        """Return whether an instance of a place is read by PromQL."""
        return (place, "node", (instance,)) in self._dimensions

    def details(self, place: Place, instance: str) -> set[MetricSeries]:
        """Return the series of each core and device of one node; raise `Unavailable`."""
        things = [
            (kind, x) for kind in ("core", "device") for x in self._things(place, kind, [instance])
        ]
        return {x for kind, dimensions in things for x in self._series(place, kind, dimensions)}

    def _things(self, place: Place, kind: str, instances: Collection[str]) -> list[dict[str, str]]:
        """Return the dimensions of each thing of a kind on some instances."""
        things: dict[_Key, dict[str, str]] = {}
        expression = next(x for (of, _), x in self.naming.expressions.items() if of == kind)
        shapes = self.catalogue.shapes.items()
        names = sorted(
            {
                name
                for (space, _, dimensions), targets in shapes
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
            for result in _whole(_now(self.calls, place, query.text()), place):
                dimensions = {name: self.naming.value(result["metric"], name) for name in names}
                key = tuple(dimensions[name] for name in KEYS[kind])
                if all(key[1:] if kind == "pod" else key):
                    things[key] = self._dimensions.setdefault((place, kind, key), dimensions)

        # A node that was there earlier and says nothing now has a past to read.
        if kind == "node":
            for instance in set(instances) - {key[0] for key in things}:
                dimensions = dict.fromkeys(names, "") | {"InstanceId": instance}
                key = (instance,)
                things[key] = self._dimensions.setdefault((place, kind, key), dimensions)
        return list(things.values())

    def _series(
        self, place: Place, kind: str, dimensions: Mapping[str, str]
    ) -> Iterator[MetricSeries]:
        """Yield the series that are read of a thing."""
        where = (place.region, place.account)
        for (space, metric, shape), targets in self.catalogue.shapes.items():
            expressed = (kind, metric) in self.naming.expressions
            if space == NAMESPACE and targets[0].kind == kind and expressed:
                names = tuple(sorted(shape))
                pairs = tuple((name, dimensions[name]) for name in names)
                yield MetricSeries(NAMESPACE, metric, names, pairs, *where)

    def _count(self, place: Place, instances: Collection[str]) -> None:
        """Count the series behind each selector and how often they are scraped.

        What a query costs follows from it.
        """
        seconds = self.calls.clock().timestamp()
        if seconds - self._counted_at.get(place, 0.0) < _COUNTED_EVERY.total_seconds():
            return
        probe = _selectors(self.naming.probe)[0]
        often = _number(self.calls, place, f"max(count_over_time({probe}[300s]))")
        selectors = {
            x for expression in self.naming.expressions.values() for x in _selectors(expression)
        }
        series = {x: _number(self.calls, place, f"count({x})") for x in sorted(selectors)}
        self.book.samples[place] = SampleCounts(
            series, 300 / often if often else 60.0, len(instances)
        )
        self._counted_at[place] = seconds


def _selectors(expression: Expression) -> list[str]:
    return Query(expression, Aggregate.COUNT, ()).selectors()


def _number(calls: Calls, place: Place, text: str) -> float:
    """Return the one value of a query, 0 where there is none."""
    return next((float(x["value"][1]) for x in _now(calls, place, text)), 0.0)


def _now(calls: Calls, place: Place, text: str) -> list[Any]:
    """Return the results of a query at this time."""
    time = int(calls.clock().timestamp())
    answer = calls.call(place, calls.server.service, "query", query=text, time=time)
    results: list[Any] = answer["data"]["result"]
    return results


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
    return _PromqlReader(calls, book, request).read()


@dataclass(frozen=True)
class _PromqlReader:
    """Read the series of one request: all are of one metric and one kind of thing."""

    calls: Calls
    book: SeriesBook
    request: MetricRequest

    def read(self) -> list[SeriesValues]:
        """Return the values of each series; one of which the store has none is whole and empty."""
        first = self.book.series[self.request.numbers[0]]
        targets = self.book.targets(first)
        names, kind = naming(self.calls.server.surface), targets[0].kind
        expression = names.expressions[kind, first.metric]
        dimension = asked_dimension(kind)
        values = {dict(self.book.series[n].dimensions)[dimension] for n in self.request.numbers}
        by = [label for name in KEYS[kind] for label in names.labels[name]]
        where = one_of(names.labels[dimension][0], values)
        columns = {
            statistic: self._column(
                Query(expression, aggregate, by, where, self.request.period), names, kind
            )
            for statistic, aggregate in aggregates(targets).items()
        }
        return [self._values(number, KEYS[kind], columns) for number in self.request.numbers]

    def _column(self, query: Query, names: Naming, kind: str) -> _Values:
        """Return one statistic of each thing by the begin of its period, in the bot's unit."""
        scale = 1.0 if query.aggregate is Aggregate.COUNT else query.expression.scale
        column: _Values = defaultdict(dict)
        for result in self._results(query):
            key = tuple(names.value(result["metric"], name) for name in KEYS[kind])
            for time, value in result["values"]:
                column[key][round(float(time)) - query.period] = float(value) * scale
        return column

    def _results(self, query: Query) -> Iterator[Mapping[str, Any]]:
        """Yield the series of a query's answers, a day at a time.

        Raise `Unavailable` where some were held back.
        """
        place, period, service = self.request.place, query.period, self.calls.server.service
        for start in range(self.request.start, self.request.end, MOST_SECONDS):
            steps = (min(start + MOST_SECONDS, self.request.end) - start) // period
            if not steps:
                continue
            times = {"start": start + period, "end": start + steps * period, "step": period}
            answer = self.calls.call(
                place, service, "query_range", units=0, query=query.text(), **times
            )
            results = _whole(answer["data"]["result"], place)

            # Count the samples that an answer is made of: no server of AWS tells them.
            counted = self.book.samples.get(self.request.place)
            if counted:
                things = len(self.request.numbers)
                share = min(1.0, sum(len(x["values"]) for x in results) / (things * steps)) * min(
                    1.0, things / counted.nodes
                )
                samples = round(query.samples(counted.series, counted.spacing) * steps * share)
                self.calls.charge(self.calls.server.service, "query_range", samples)

            yield from results

    def _values(
        self, number: int, key_of: Sequence[str], columns: Mapping[str, _Values]
    ) -> SeriesValues:
        """Return the values of one series at the times that every statistic has."""
        dimensions = dict(self.book.series[number].dimensions)
        key = tuple(dimensions[name] for name in key_of)
        column_of = {statistic: column.get(key, {}) for statistic, column in columns.items()}
        shared = set.intersection(*(set(values) for values in column_of.values()))
        times: Ints = np.array(sorted(shared), dtype=np.int64)
        sets: dict[str, Doubles] = {
            statistic: np.array([values[time] for time in times.tolist()], dtype=np.float64)
            for statistic, values in column_of.items()
        }
        return SeriesValues(number, times, sets, whole=True)
