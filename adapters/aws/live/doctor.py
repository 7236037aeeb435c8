"""Check every call that a tick makes, in every place, and the sources of metrics.

`doctor` of a live account.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from adapters.aws.api.operations import Place
from adapters.aws.live.discovery import CLASSIC, heard, worth_reading
from adapters.aws.live.promql import fetch
from adapters.aws.live.requests import RequestScope, SeriesBook, plan_requests
from adapters.aws.live.source import Live
from adapters.aws.metrics.points import labels_of
from bot.errors import Unavailable
from bot.model.fleet import is_neuron
from bot.model.frame import MetricsSurface, OwnNames
from bot.model.money import counted
from bot.ports import Check

_REMEDY = "See the sentence; the least permissions are in deploy/iam-policy.json."
_IN_EKS = (
    "Nodes of EKS run, but none reports NeuronCores: install the CloudWatch Observability add-on"
    " with Container Insights (accelerated compute metrics on), or name the Prometheus that scrapes"
    " neuron-monitor by TRNBOT_METRICS_URL."
)
_PLAIN = (
    "Nodes run outside EKS: send neuron-monitor's metrics to a namespace of CloudWatch and name it"
    " by TRNBOT_MONITOR_NAMESPACE,"
    " or name the Prometheus that scrapes neuron-monitor-prometheus.py by TRNBOT_METRICS_URL."
)
_SAMPLE = 20
"""Series whose values are looked at, to tell a ratio from percent."""


def examine(live: Live) -> Sequence[Check]:
    """Return every check; no point of a metric is kept."""
    now = live.calls.clock()
    failed = list(live.describe(now))
    checks = [check for place in live.places() for check in _place(live, place, now)]
    streams = live.streams.examined(now)
    findings = [(f"metric stream {name}", ok, finding) for name, ok, finding in streams]
    findings += [*live.logs.examined(live.places(), now), *live.events.examined()]
    checks += [Check(name, ok, finding, "" if ok else _REMEDY) for name, ok, finding in findings]
    checks += [Check("AWS", False, sentence, _REMEDY) for sentence in failed]
    bill = live.calls.meter.bill()
    spent = f"${bill.usd:.4f} today, about ${bill.month_usd:.2f} a month"
    return [*checks, Check("AWS calls of the bot", True, spent)]


@dataclass(frozen=True)
class Surface:
    """State how many nodes' NeuronCores one surface of metrics tells of.

    None where it was not asked.
    """

    name: str
    nodes: int | None
    remark: str

    def __str__(self) -> str:
        """Read as `Container Insights (GetMetricData): 3 nodes, read`."""
        nodes = "" if self.nodes is None else counted(self.nodes, "node")
        return f"{self.name}: {', '.join(x for x in (nodes, self.remark) if x)}"


def surfaces(live: Live, place: Place) -> list[Surface]:
    """Return what each surface tells of a place, and which is read.

    Raise `Unavailable` where the classic one is not told.
    """
    choice, server = live.lister.surface, live.calls.server
    names = [(CLASSIC, "node_neuroncore_utilization")]
    classic = heard(live.lister.listed(place, names, recent=True))
    queried, trouble = live.lister.reporting(place)
    by_get = by_promql = "read"
    if choice is MetricsSurface.CLOUDWATCH:
        by_promql = "not read (TRNBOT_METRICS_SURFACE=cloudwatch)"
    elif choice is MetricsSurface.PROMQL:
        by_get = "not read (TRNBOT_METRICS_SURFACE=promql)"
    elif queried and queried <= classic:
        by_promql = "not read, as the former tells of them"
    name, elsewhere = "a Prometheus server", "TRNBOT_METRICS_URL names none"
    if server.url:
        name = "CloudWatch's OTel store (PromQL)"
        elsewhere = "not asked, as TRNBOT_METRICS_URL names a server"

    # Nobody knows how many report to a store that does not answer.
    nodes = None if trouble else len(queried)
    return [
        Surface("Container Insights (GetMetricData)", len(classic), by_get if classic else ""),
        Surface(f"{server} (PromQL)", nodes, trouble or (by_promql if queried else "")),
        Surface(name, None, elsewhere),
    ]


def _place(live: Live, place: Place, now: datetime) -> Iterator[Check]:
    """Check the instances of a place and its accelerator metrics."""
    instances = live.fleet(place).instances
    name, count = f"AWS {place}", f"{len(instances)} accelerated instances"
    own = live.metrics.book.catalogue.own
    try:
        surfaces_of = surfaces(live, place)
        if own:
            yield _own(live, place, own, now)
    except Unavailable as error:
        yield Check(name, False, f"{count}; {error}", _REMEDY)
        return
    sentence = f"{count}; NeuronCore metrics of {'; '.join(map(str, surfaces_of))}"
    is_read = any(x.nodes and x.remark == "read" for x in surfaces_of)
    if is_read or own or not any(map(is_neuron, live.resources.types(place))):
        yield Check(name, True, sentence)
        return
    yield Check(name, False, sentence, _IN_EKS if live.resources.in_eks(place) else _PLAIN)


def _own(live: Live, place: Place, own: OwnNames, now: datetime) -> Check:
    """Check the metrics of the own namespace.

    Which report, of how many instances, and whether values fit their units.
    """
    name, catalogue = f"namespace {own.namespace} in {place}", live.metrics.book.catalogue
    metrics = [(own.namespace, meaning.name) for meaning in own.meanings]
    listed = live.lister.listed(place, metrics, recent=True)
    series = worth_reading(listed, live.fleet(place), catalogue)
    if not series:
        return Check(
            name,
            False,
            "none of its metrics reports under the names that are set",
            "Check TRNBOT_MONITOR_METRICS and that series carry the dimension"
            f" {own.instance} (TRNBOT_MONITOR_INSTANCE).",
        )

    # The values of a few series tell a ratio from percent.
    book, end = SeriesBook(catalogue=catalogue), int(now.timestamp()) // 60 * 60
    ordered = sorted(series, key=lambda x: (x.metric, x))
    sample = book.enter(ordered[:: max(1, len(series) // _SAMPLE)], end - 3600)
    scope = RequestScope(end, period=300, statistics=("Maximum",))
    highest: dict[str, float] = {}
    for request in plan_requests(book, sample, place, scope):
        for answer in fetch(live.calls, book, request):
            metric, values = book.series[answer.number].metric, answer.points().peak.tolist()
            highest[metric] = max([*values, highest.get(metric, float("-inf"))])
    doubts = []
    for meaning in own.meanings:
        most = highest.get(meaning.name, float("-inf"))
        if not meaning.metric.endswith("_ratio"):
            continue
        if meaning.unit == "ratio" and most > 1.5:
            doubts.append(f"{meaning.name} reaches {most:g}, so it is percent, not a ratio")
        if meaning.unit == "percent" and 0 < most <= 1:
            under = f"{meaning.name} stays under {most:.2g} within the hour"
            doubts.append(f"{under}, so it looks like a ratio, not percent")

    targets = ((x, catalogue.targets(x.namespace, x.metric, x.names)[0]) for x in series)
    instances = {labels_of(x, target).instance for x, target in targets}
    reporting = f"{', '.join(sorted({x.metric for x in series}))} of {len(instances)} instances"
    remedy = "Correct the unit in TRNBOT_MONITOR_METRICS." if doubts else ""
    return Check(name, not doubts, "; ".join([reporting, *doubts]), remedy)
