"""Check every call that a tick makes, in every place, and the sources of metrics.

`doctor` of a live account, and what it has for the bot already: exports of the bill, a stack.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import boto3
from botocore.config import Config

from adapters.aws.api.operations import Place, declared_as, statement
from adapters.aws.api.outcomes import FAILURES, CallState, Standing, credentials_remedy
from adapters.aws.live.discovery import CLASSIC, heard, worth_reading
from adapters.aws.live.promql import fetch, queried_now, recorded
from adapters.aws.live.requests import RequestScope, SeriesBook, plan_requests
from adapters.aws.live.source import Live
from adapters.aws.metrics.points import labels_of
from adapters.aws.metrics.promql import RECORDED_SECONDS, Aggregate, record_of
from bot.errors import Unavailable
from bot.model.fleet import is_neuron
from bot.model.frame import MetricsSurface, OwnNames
from bot.model.money import counted
from bot.ports import Check

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
    """Return a check for each place and source of metrics; no point of a metric is kept.

    What is denied or fails is told by `failures`, once everything was asked.
    """
    now = live.calls.clock()
    missing = [x for x in live.describe(now) if x not in live.calls.states.troubles()]
    return [
        *(check for place in live.places() for check in _place(live, place, now)),
        *live.streams.examined(now),
        *live.logs.examined(live.places(), now),
        *live.events.examined(),
        *(Check("AWS", False, sentence) for sentence in dict.fromkeys(missing)),
    ]


def failures(live: Live, arns: Mapping[str, Sequence[str]]) -> Sequence[Check]:
    """Return a check for each permission that was denied, and for each other way to fail.

    A denied one says what is lost without it, and which statement allows it: `arns` are the
    resources that the settings name, by the words of the policy. Last comes what all cost.
    """
    alike: dict[tuple[str, ...], list[Standing]] = {}
    for part in live.calls.states.failing():
        key = {
            CallState.DENIED: ("permission", *part.allowed),
            CallState.EXPIRED: ("credentials", credentials_remedy(part.code)),
        }.get(part.state, (part.declared.title, str(part.state)))
        alike.setdefault(key, []).append(part)

    checks = []
    for (kind, *words), parts in alike.items():
        first, where = parts[0], " and ".join(dict.fromkeys(part.where for part in parts))
        if kind == "permission" and words:
            lost = dict.fromkeys((declared_as(x.refused) or x.declared).why for x in parts)
            name = f"permission {' and '.join(words)}"
            finding = (
                f"denied in {where} ({first.code}): without it trnbot cannot {'; '.join(lost)}"
            )
            remedy = f"add to the policy of the bot's role {json.dumps(statement(words, arns))}"
        elif kind == "credentials":
            name, remedy = "AWS credentials", words[0]
            finding = f"AWS answers nothing in {where} ({first.code})"
        else:
            name, remedy = kind, ""
            finding = first.problem if len(parts) == 1 else f"{first.problem} The same in {where}."
        checks.append(Check(name, False, finding, remedy))
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
        told = ", ".join(x for x in (nodes, self.remark.rstrip(".")) if x)
        return f"{self.name}: {told}"


def surfaces(live: Live, place: Place) -> list[Surface]:
    """Return what each surface tells of a place, and which is read.

    Raise `Unavailable` where the classic one is not told.
    """
    choice, server = live.lister.surface, live.calls.server
    names = [(CLASSIC, "node_neuroncore_utilization")]
    classic = heard(live.lister.listed(place, names, recent=True))
    unread = "" if choice is MetricsSurface.PROMQL else _unread(live, place)
    queried, trouble = live.lister.reporting(place)
    if queried:
        # Labels are a permission apart.
        trouble = _trouble(partial(queried_now, live.calls, place, "up"))
    by_get, by_promql = unread or "read", "read"
    if choice is MetricsSurface.CLOUDWATCH:
        by_promql = "not read (TRNBOT_METRICS_SURFACE=cloudwatch)"
    elif choice is MetricsSurface.PROMQL:
        by_get = "not read (TRNBOT_METRICS_SURFACE=promql)"
    elif queried and queried <= classic:
        by_promql = "not read, as the first covers them"
    name, elsewhere = "a Prometheus server", "TRNBOT_METRICS_URL names none"
    if server.url:
        name = "CloudWatch's OTel store (PromQL)"
        elsewhere = "not asked, as TRNBOT_METRICS_URL names a server"

    # Nobody knows how many report to a store that does not answer.
    nodes = None if trouble else len(queried)
    return [
        Surface(
            "Container Insights (GetMetricData)",
            len(classic),
            by_get if classic or unread else "",
        ),
        Surface(f"{server} (PromQL)", nodes, trouble or (by_promql if queried else "")),
        Surface(name, None, elsewhere),
    ]


def _unread(live: Live, place: Place) -> str:
    """Return why points of metrics cannot be read by GetMetricData, "" where they can.

    Asked of a metric that need not be there.
    """
    minute = int(live.calls.clock().timestamp()) // 60 * 60
    metric = {"Namespace": CLASSIC, "MetricName": "node_neuroncore_utilization"}
    query = {"Id": "m0", "MetricStat": {"Metric": metric, "Period": 60, "Stat": "Average"}}
    return _trouble(
        partial(
            live.calls.call,
            place,
            "cloudwatch",
            "get_metric_data",
            MetricDataQueries=[query],
            StartTime=minute - 60,
            EndTime=minute,
            ScanBy="TimestampAscending",
        )
    )


def _trouble(ask: Callable[[], object]) -> str:
    """Return why something cannot be asked, "" where it is answered."""
    try:
        ask()
    except Unavailable as error:
        return str(error)
    return ""


def _place(live: Live, place: Place, now: datetime) -> Iterator[Check]:
    """Check the instances of a place and its accelerator metrics."""
    running = live.resources.running(place)
    name, count = f"AWS {place}", counted(len(running), "accelerated instance")
    own = live.metrics.book.catalogue.own
    try:
        surfaces_of = surfaces(live, place)
        if own:
            yield _own(live, place, own, now)
        queried = surfaces_of[1]
        if live.calls.server.url and queried.nodes and queried.remark == "read":
            yield _rules(live, place, queried.nodes)
    except Unavailable as error:
        yield Check(name, False, f"{count}; {error}")
        return
    sentence = f"{count}; NeuronCore metrics of {'; '.join(map(str, surfaces_of))}"
    is_read = any(x.nodes and x.remark == "read" for x in surfaces_of)
    well, remedy = is_read or bool(own) or not any(map(is_neuron, running)), ""
    if not well and not surfaces_of[0].remark.startswith("AWS"):
        remedy = _IN_EKS if live.resources.in_eks(place) else _PLAIN
    yield Check(name, well, sentence, remedy)


def _rules(live: Live, place: Place, nodes: int) -> Check:
    """Say how many nodes recording rules tell of, and the points that they spare or would spare."""
    probe = record_of("neuroncore_utilization_ratio", Aggregate.MEAN)
    recorded_nodes = round(recorded(live.calls, place).get(probe, 0))
    by_series, by_rules = live.lister.promql.points_a_minute(place, nodes)
    minutes, times = live.grid.step / 60, by_series / by_rules
    points = f"{by_rules * minutes:,.0f} points a tick, {by_series * minutes:,.0f} without them"
    coverage = f"they tell of {recorded_nodes} of {counted(nodes, 'node')}"
    finding = f"{coverage}; {points} ({times:.0f} times as many)"
    if recorded_nodes < nodes:
        finding += "; install deploy/prometheus/rules.yaml where the nodes are scraped"
    elif live.grid.lag < 2 * RECORDED_SECONDS:
        # The last minute's may still be in the making: it is asked for by series.
        finding += "; TRNBOT_METRICS_LAG=2m lets the newest minute come by them too"
    return Check(f"recording rules for {place}", True, finding)


def _own(live: Live, place: Place, own: OwnNames, now: datetime) -> Check:
    """Check the metrics of the own namespace.

    Which report, of how many instances, and whether values fit their units.
    """
    name, catalogue = f"namespace {own.namespace} in {place}", live.metrics.book.catalogue
    metrics = [(own.namespace, meaning.name) for meaning in own.meanings]
    series = worth_reading(
        live.lister.listed(place, metrics, recent=True), live.fleet(place), catalogue
    )
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
    highest: dict[str, float] = {}
    scope = RequestScope(end, period=300, statistics=("Maximum",))
    for request in plan_requests(book, sample, place, scope):
        for answer in fetch(live.calls, book, request):
            metric, values = book.series[answer.number].metric, answer.points().peak.tolist()
            highest[metric] = max([*values, highest.get(metric, float("-inf"))])
    doubts = []
    for meaning in (x for x in own.meanings if x.metric.endswith("_ratio")):
        most = highest.get(meaning.name, float("-inf"))
        if meaning.unit == "ratio" and most > 1.5:
            doubts.append(f"{meaning.name} reaches {most:g}, so it is percent, not a ratio")
        if meaning.unit == "percent" and 0 < most <= 1:
            doubts.append(
                f"{meaning.name} stays under {most:.2g} within the hour, so it looks like a ratio,"
                " not percent"
            )

    instances = {labels_of(x, catalogue.targets_of(x)[0]).instance for x in series}
    reporting = f"{', '.join(sorted({x.metric for x in series}))} of {len(instances)} instances"
    return Check(
        name,
        not doubts,
        "; ".join([reporting, *doubts]),
        "Correct the unit in TRNBOT_MONITOR_METRICS." if doubts else "",
    )


_EXPORTS_HOME = "us-east-1"
"""Where Data Exports are made (AWS Data Exports user guide, 2026-11)."""
_BRIEF = Config(connect_timeout=3, read_timeout=10, retries={"total_max_attempts": 2})


@dataclass(frozen=True)
class StackOutputs:
    """Hold the parts that the stack made, "" for those it did not."""

    billing: str = ""
    events: str = ""
    stream: str = ""


def stack_outputs() -> StackOutputs:
    """Return the outputs of the stack; nothing where there is none, or it may not be looked at.

    Asked with the credentials of whoever sets the bot up: its own policy has no such permission.
    """
    try:
        client = boto3.Session().client("cloudformation", region_name=_EXPORTS_HOME, config=_BRIEF)
        stacks = client.describe_stacks(StackName="trnbot").get("Stacks", ())
    except FAILURES:
        return StackOutputs()
    outputs = {x["OutputKey"]: x["OutputValue"] for stack in stacks for x in stack["Outputs"]}
    return StackOutputs(*(outputs.get(name, "") for name in ("Billing", "Events", "MetricsInS3")))


def billing_exports() -> list[str]:
    """Return where exports of the bill are delivered, `s3://BUCKET/PREFIX`; none where untold."""
    found = []
    try:
        client = boto3.Session().client(
            "bcm-data-exports", region_name=_EXPORTS_HOME, config=_BRIEF
        )
        for listed in client.list_exports().get("Exports", ()):
            export = client.get_export(ExportArn=listed["ExportArn"])["Export"]
            if "COST_AND_USAGE_REPORT" in str(export["DataQuery"]["QueryStatement"]):
                target = export["DestinationConfigurations"]["S3Destination"]
                path = (target["S3Bucket"], target["S3Prefix"].strip("/"), export["Name"])
                found.append(f"s3://{'/'.join(filter(None, path))}")
    except FAILURES:
        return []
    return found
