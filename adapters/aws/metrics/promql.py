"""Write the PromQL that reads the bot's metrics.

From the rows of `promql.csv` (expressions) and `labels.csv` (label names).

`metrics.csv` says under the namespace `PromQL` how a value becomes one of a step; so a recording
holds the bot's own names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from adapters.aws.metrics.points import Statistic, Target, standard
from bot.model.codec import table

NAMESPACE = "PromQL"
"""Stands for a namespace of CloudWatch in series that were read by PromQL."""
COARSE_SECONDS = 300
"""From this period on one sample speaks for a step, where each sample that is looked at costs."""
RECORDED_SECONDS = 60
"""How often a recording rule is evaluated, and how far back its query looks."""
RECORDS = "trnbot:"
"""What the names of recorded series begin with."""


class Aggregate(StrEnum):
    """Name what is asked of the samples of a thing within a period."""

    MEAN = "avg"
    SUM = "sum"
    LARGEST = "max"
    COUNT = "count"
    INCREASE = "increase"


@dataclass(frozen=True)
class Expression:
    """Hold an expression over selectors.

    The factor that brings its values into the bot's unit.
    """

    text: str
    scale: float

    def selectors(self) -> list[str]:
        """Return the selectors, bare."""
        return [
            match["name"] + (match["matchers"] or "") for match in _SELECTOR.finditer(self.text)
        ]


@dataclass(frozen=True)
class Naming:
    """Know how one kind of store names metrics and labels."""

    expressions: Mapping[tuple[str, str], Expression]
    """By kind of thing and metric of the bot."""
    labels: Mapping[str, tuple[str, ...]]
    """The labels that may hold a dimension, the likeliest first."""

    def tells(self, kind: str) -> bool:
        """Return whether the store tells things of a kind apart."""
        return set(KEYS[kind]) <= set(self.labels)

    def value(self, metric: Mapping[str, str], dimension: str) -> str:
        """Return a dimension's value among the labels of an answer, "" where none holds it."""
        names = [
            name
            for label in self.labels.get(dimension, ())
            for name in (label, f"@datapoint.{label}")
        ]
        text = next((metric[name] for name in names if metric.get(name)), "")
        return _PREFIXES.get(dimension, "") + text if text else ""

    @property
    def probe(self) -> Expression:
        """Return the expression that every node with an accelerator answers."""
        return self.expressions["node", "neuroncore_utilization_ratio"]


KEYS: Mapping[str, tuple[str, ...]] = {
    "node": ("InstanceId",),
    "core": ("InstanceId", "NeuronCore"),
    "device": ("InstanceId", "NeuronDevice"),
    "pod": ("ClusterName", "Namespace", "FullPodName"),
}
"""The dimensions by which an answer is matched with its series."""
_PREFIXES = {"NeuronCore": "core", "NeuronDevice": "device"}
"""Container Insights writes `core3` where exporters write `3`."""


@cache
def naming(surface: str) -> Naming:
    """Return the names of a surface.

    `otel` (CloudWatch's OTel store) or `prometheus` (a server that scrapes neuron-monitor).
    """
    expressions = {
        (row["kind"], row["metric"]): Expression(row["expression"], float(row["scale"]))
        for row in table(__package__, "promql.csv")
        if row["surface"] == surface
    }
    labels: dict[str, tuple[str, ...]] = {}
    for row in table(__package__, "labels.csv"):
        if row["surface"] == surface:
            labels[row["dimension"]] = (*labels.get(row["dimension"], ()), row["label"])
    return Naming(expressions, labels)


def aggregates(targets: Iterable[Target]) -> Mapping[str, Aggregate]:
    """Return what is asked for each statistic of a series with these targets."""
    statistics = {target.statistic for target in targets}
    aggregate_of: dict[str, Aggregate] = {}
    if statistics & {Statistic.EVENTS, Statistic.RATE}:
        aggregate_of["Sum"] = Aggregate.INCREASE
    elif Statistic.TOTAL in statistics:
        aggregate_of["Sum"] = Aggregate.SUM
        if Statistic.LEVEL in statistics:
            aggregate_of["SampleCount"] = Aggregate.COUNT
    elif Statistic.LEVEL in statistics:
        aggregate_of["Sum"] = Aggregate.MEAN
    if statistics & {Statistic.LARGEST, Statistic.LAST}:
        aggregate_of["Maximum"] = Aggregate.LARGEST
    return aggregate_of


@dataclass(frozen=True)
class Query:
    """Ask for an expression, aggregated for each thing, over a period in seconds."""

    expression: Expression
    aggregate: Aggregate
    by: Sequence[str]
    """Labels."""
    where: str = ""
    """A matcher of labels."""
    period: int = 60
    record: str = ""
    """The recorded series that is read instead, "" for those that the expression selects."""

    def text(self) -> str:
        """Return the query as PromQL."""
        if not self.record:
            return _SELECTOR.sub(self._part, self.expression.text)
        selector = f"{self.record}{{{self.where}}}"
        together, values = self.aggregate, f"last_over_time({selector}[{RECORDED_SECONDS}s])"
        if self.aggregate is Aggregate.INCREASE:
            minutes = self.period // RECORDED_SECONDS
            together, values = (
                Aggregate.SUM,
                f"avg_over_time({selector}[{self.period}s]) * {minutes}",
            )
        return f"{together} by ({self._by()}) ({values})"

    def rule(self) -> str:
        """Return the expression that records it.

        A rule is evaluated at any second of a minute; steps of a subquery stand at whole minutes.
        """
        return f"last_over_time(({self.text()})[{RECORDED_SECONDS}s:{RECORDED_SECONDS}s])"

    @property
    def delay(self) -> float:
        """Return how many seconds behind a time its recorded value stands at the latest."""
        return RECORDED_SECONDS - 0.001 if self.record else 0.0

    def samples(self, counted: Mapping[str, float], spacing: float) -> float:
        """Return how many samples a step looks at.

        By the series behind each selector and the seconds between two samples.
        """
        is_increase = self.aggregate is Aggregate.INCREASE
        if self.record:
            a_step = self.period / RECORDED_SECONDS if is_increase else 1.0
            return a_step * counted.get(self.record, 0.0)

        # Over a coarse step one sample speaks for all; an increase compares two.
        a_step = 1.0 if self.period >= COARSE_SECONDS else max(1.0, self.period / spacing)
        a_step = 2.0 if is_increase else a_step
        return a_step * sum(counted.get(x, 0.0) for x in self.expression.selectors())

    def _part(self, found: re.Match[str]) -> str:
        """Return one selector's part of the query."""
        name = found["name"]
        within = ", ".join(part for part in ((found["matchers"] or "")[1:-1], self.where) if part)
        selector = f"{name}{{{within}}}" if within else name

        aggregate = Aggregate.COUNT if found["count"] else self.aggregate
        if aggregate is Aggregate.INCREASE:
            # Not increase(): it needs two samples within the period, and stretches what it sees.
            rose = f"{selector} - ({selector} offset {self.period}s)"
            return f"sum by ({self._by()}) (clamp_min({rose}, 0))"
        if self.period < COARSE_SECONDS:
            selector = f"{_OVER_TIME.get(aggregate, 'avg_over_time')}({selector}[{self.period}s])"
        return f"{aggregate} by ({self._by()}) ({selector})"

    def _by(self) -> str:
        return ", ".join(map(quoted, self.by))


_OVER_TIME = {Aggregate.LARGEST: "max_over_time", Aggregate.COUNT: "count_over_time"}
_SELECTOR = re.compile(
    r"(?P<count>count\()?\b(?!(?:or|and|unless|on)\b)(?P<name>[A-Za-z_:][\w:]*)"
    r"(?P<matchers>\{[^}]*\})?(?(count)\))"
)


def record_of(metric: str, aggregate: Aggregate) -> str:
    """Return the name under which recording rules keep a metric of nodes."""
    return f"{RECORDS}{metric}:{aggregate}"


def node_queries() -> Mapping[str, Query]:
    """Return each query about nodes to a Prometheus server, by the name under which it is recorded.

    What is recorded is the answer to the very query: one series a node in place of one a core.
    """
    names = naming("prometheus")
    return {
        record_of(metric, aggregate): Query(
            names.expressions["node", metric], aggregate, names.labels["InstanceId"]
        )
        for (space, metric, _), targets in standard().shapes.items()
        if space == NAMESPACE and targets[0].kind == "node"
        if ("node", metric) in names.expressions
        for aggregate in aggregates(targets).values()
    }


def one_of(label: str, values: Iterable[str]) -> str:
    """Return a matcher of any of some values."""
    pattern = "|".join(re.escape(value).replace("\\-", "-") for value in sorted(values))
    return f"{quoted(label)}=~{_text(pattern)}"


def present(label: str) -> str:
    """Return a matcher of series that have a label."""
    return f"{quoted(label)}!={_text('')}"


def quoted(label: str) -> str:
    """Return a label as PromQL takes it: Prometheus 3 lets any name stand in quotes."""
    return label if re.fullmatch(r"[A-Za-z_]\w*", label) else _text(label)


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@dataclass(frozen=True)
class SampleCounts:
    """Know how many samples queries about a place look at.

    Series behind each selector, and seconds between their samples.
    """

    series: Mapping[str, float]
    spacing: float
    nodes: int
    """Among which the series were counted."""
