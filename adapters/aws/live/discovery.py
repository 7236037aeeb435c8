"""Find the series worth reading.

ListMetrics by metric name, exact dimension sets, nodes with an accelerator only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from adapters.aws.api.calls import WORKERS, Calls
from adapters.aws.api.operations import DETAIL_RANK, Place
from adapters.aws.live.promql import PromqlLister
from adapters.aws.metrics.points import (
    DETAILS,
    Catalogue,
    MetricSeries,
    Target,
    instance_of,
    labels_of,
)
from adapters.aws.metrics.promql import NAMESPACE as PROMQL
from bot.errors import Unavailable
from bot.model.frame import MetricsSurface
from bot.model.labels import Labels
from bot.model.reading import CORE_METRICS

_ACCELERATED = ("node_neuron", "node_gpu", "pod_neuron")
"""What the names of metrics begin with that only nodes with an accelerator have."""
_ELSEWHERE = ("neuron-monitor", PROMQL)
"""Stand for reports in files and for answers to PromQL: no namespaces of CloudWatch."""
CLASSIC = "ContainerInsights"
"""The namespace of the agents that write NeuronCore metrics for GetMetricData."""
_MOVED_SECONDS = 1800
"""A node whose classic metrics are silent for so long is looked for elsewhere."""


def metric_names(catalogue: Catalogue) -> list[tuple[str, str]]:
    """Return the (namespace, metric name) pairs that mean something here, sorted."""
    own_namespace = catalogue.own.namespace if catalogue.own else None
    standard = {
        (namespace, metric)
        for (namespace, metric, _), targets in catalogue.shapes.items()
        if namespace not in _ELSEWHERE and _whole(targets)
    }
    return sorted(standard | {pair for pair in catalogue.metrics if pair[0] == own_namespace})


SeriesByName = dict[tuple[str, str], set[MetricSeries]]
"""The series listed so far of each metric name."""


@dataclass(frozen=True)
class PlaceFleet:
    """Hold the ids of the accelerated instances of a place, and of the volumes on them."""

    instances: frozenset[str]
    volumes: frozenset[str]


@dataclass(frozen=True)
class SeriesLister:
    """List the series of CloudWatch that mean something by the catalogue."""

    calls: Calls
    catalogue: Catalogue
    promql: PromqlLister
    surface: MetricsSurface = MetricsSurface.AUTO

    def discover(
        self, place: Place, fleet: PlaceFleet, *, recent: bool, partial: SeriesByName | None = None
    ) -> set[MetricSeries]:
        """Return the series of a place that are worth reading.

        Raise `Unavailable` where a page fails: half a list would read as a smaller fleet. `recent`
        leaves out what was silent for three hours, else two weeks count. `partial` keeps what was
        listed before a failure: only the rest is asked again.
        """
        names = metric_names(self.catalogue)
        if self.surface is MetricsSurface.PROMQL:
            names = [pair for pair in names if pair[0] != CLASSIC]
        series = worth_reading(
            self.listed(place, names, recent=recent, partial=partial), fleet, self.catalogue
        )
        if self.surface is MetricsSurface.CLOUDWATCH:
            return series
        if self.surface is MetricsSurface.PROMQL:
            return series | self._queried(place, fleet, frozenset(), recent=recent)

        # A node that moved is listed by the classic namespace for hours, or weeks, after.
        classic = series
        if not recent:
            names = [(CLASSIC, "node_neuroncore_utilization")]
            classic = self.listed(place, names, recent=True)
        since = self.calls.clock().timestamp() - _MOVED_SECONDS
        newest = {x: self.promql.book.newest(x) for x in classic}
        speaking = heard(x for x, second in newest.items() if second is None or second >= since)
        return series | self._queried(place, fleet, speaking, recent=recent)

    def _queried(
        self, place: Place, fleet: PlaceFleet, told: frozenset[str], *, recent: bool
    ) -> set[MetricSeries]:
        """Return the series that are read by PromQL.

        Of the nodes that CloudWatch's classic namespace does not hear.
        """
        if fleet.instances and fleet.instances <= told:
            return set()
        server = self.calls.server.url
        try:
            instances = self.promql.instances(place, recent=recent) - told
            # One server may tell of several places, and of machines that are none of this account.
            if server and fleet.instances:
                instances &= fleet.instances
            return self.promql.discover(place, instances)
        except Unavailable:
            if self.surface is MetricsSurface.AUTO and not server:
                return set()
            raise

    def reporting(self, place: Place) -> tuple[frozenset[str], str]:
        """Return the instances that report to the store that is asked by PromQL.

        Or why nobody can tell.
        """
        try:
            return self.promql.instances(place, recent=True), ""
        except Unavailable as error:
            return frozenset(), str(error)

    def listed(
        self,
        place: Place,
        wanted: Iterable[tuple[str, str]],
        *,
        recent: bool,
        partial: SeriesByName | None = None,
    ) -> set[MetricSeries]:
        """Return every series of some metric names that means something here.

        Raise `Unavailable` where a page fails.
        """
        partial = {} if partial is None else partial

        # Else CloudWatch lists all that had a point within two weeks.
        active: dict[str, Any] = {"RecentlyActive": "PT3H"} if recent else {}

        def of(name: tuple[str, str]) -> None:
            filters = {"Namespace": name[0], "MetricName": name[1], **active}
            partial[name] = {
                x
                for page in self.calls.pages(place, "cloudwatch", "list_metrics", **filters)
                for x in _series(page["Metrics"], place, self.catalogue, bool)
            }

        with ThreadPoolExecutor(WORKERS, thread_name_prefix="discovery") as pool:
            waiting = [pool.submit(of, name) for name in wanted if name not in partial]
        for future in waiting:
            future.result()
        return set().union(*partial.values())

    def details(self, place: Place, instance: str) -> set[MetricSeries]:
        """Return the series of each core and device of one node.

        Raise `Unavailable` where a page fails.

        They are optional: where the day's budget is spent they are not asked for.
        """
        if self.promql.reads(place, instance):
            return self.promql.details(place, instance)

        # Namespace, metric name and instance dimension of each metric that cores and devices
        # report.
        near = {
            (n, m, "InstanceId")
            for (n, m, d), to in self.catalogue.shapes.items()
            if n not in _ELSEWHERE and "InstanceId" in d and _near(to)
        }
        if own_names := self.catalogue.own:
            near |= {
                (own_names.namespace, meaning.name, own_names.instance)
                for meaning in own_names.meanings
                if meaning.metric in CORE_METRICS
            }
        return {
            series
            for namespace, metric, dimension in sorted(near)
            for page in self.calls.pages(
                place,
                "cloudwatch",
                "list_metrics",
                optional=DETAIL_RANK,
                Namespace=namespace,
                MetricName=metric,
                Dimensions=[{"Name": dimension, "Value": instance}],
            )
            for series in _series(page["Metrics"], place, self.catalogue, _near)
        }


def worth_reading(
    listed: Iterable[MetricSeries], fleet: PlaceFleet, catalogue: Catalogue
) -> set[MetricSeries]:
    """Leave out series that only cost.

    Of hosts without an accelerator, of volumes not on one, of parts whose whole reports.
    """
    labelled = [
        (x, labels_of(x, targets[0]), targets)
        for x in listed
        if (targets := catalogue.targets_of(x))
    ]
    own_namespace = catalogue.own.namespace if catalogue.own else None

    # Where the instances of EC2 are not known, the metrics of their accelerators name them.
    instances = fleet.instances | {
        labels.instance
        for x, labels, _ in labelled
        if x.metric.startswith(_ACCELERATED) or x.namespace == own_namespace
    }
    whole = {(x.namespace, x.metric, y.instance) for x, y, targets in labelled if _whole(targets)}

    def wanted(series: MetricSeries, labels: Labels, targets: tuple[Target, ...]) -> bool:
        if not _whole(targets):
            is_named = own_namespace is not None and bool(targets[0].reads)
            if not is_named or (series.namespace, series.metric, labels.instance) in whole:
                return False
        if targets[0].kind == "volume" and labels.resource and labels.resource not in fleet.volumes:
            return False
        return not labels.instance or labels.instance in instances

    return {entry[0] for entry in labelled if wanted(*entry)}


def details_of(
    listed: Iterable[MetricSeries], instances: Collection[str], catalogue: Catalogue
) -> set[MetricSeries]:
    """Keep the series of cores and devices of some nodes."""
    return {
        x
        for x in listed
        if _near(targets := catalogue.targets_of(x))
        and labels_of(x, targets[-1]).instance in instances
    }


def heard(series: Iterable[MetricSeries]) -> frozenset[str]:
    """Return the instances whose NeuronCores the classic namespace tells of."""
    classic = (x for x in series if x.namespace == CLASSIC and x.metric.startswith("node_neuron"))
    return frozenset(dict(x.dimensions).get("InstanceId", "") for x in classic) - {""}


def unheard(fleet: PlaceFleet, series: Iterable[MetricSeries], catalogue: Catalogue) -> bool:
    """Return whether an accelerated instance has no series yet."""
    return bool(fleet.instances - {instance_of(x, catalogue.instance) for x in series})


def _series(
    members: Iterable[Mapping[str, Any]],
    place: Place,
    catalogue: Catalogue,
    wanted: Callable[[tuple[Target, ...]], bool],
) -> Iterable[MetricSeries]:
    for member in members:
        pairs = tuple(
            sorted((str(x["Name"]), str(x["Value"])) for x in member.get("Dimensions", ()))
        )
        names = tuple(name for name, _ in pairs)
        if wanted(catalogue.targets(member["Namespace"], member["MetricName"], names)):
            yield MetricSeries(
                member["Namespace"], member["MetricName"], names, pairs, place.region, place.account
            )


def _whole(targets: Iterable[Target]) -> bool:
    """Return whether a series is of a whole thing.

    Those of its parts (cores, interfaces) are read on request only.
    """
    return any(not target.part and target.kind not in DETAILS for target in targets)


def _near(targets: Iterable[Target]) -> bool:
    return any(target.kind in DETAILS for target in targets)
