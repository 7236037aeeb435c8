"""Find the series worth reading: ListMetrics by metric name, exact dimension sets, nodes with an accelerator only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from adapters.aws.catalogue import catalogue, targets
from adapters.aws.live.calls import WORKERS, Calls, Place
from adapters.aws.points import Series

_ACCELERATED = ("node_neuron", "node_gpu", "pod_neuron")
"""What the names of metrics begin with that only nodes with an accelerator have."""


_Wanted = Callable[[str, str, Iterable[str]], bool]


def names() -> dict[str, list[str]]:
    """Return the metric names that mean something here, by CloudWatch namespace; accelerator metrics first."""
    found: dict[str, set[str]] = {}
    for namespace, metric, dimensions in catalogue():
        if namespace != "neuron-monitor" and _whole(namespace, metric, dimensions):
            found.setdefault(namespace, set()).add(metric)
    return {namespace: sorted(metrics) for namespace, metrics in sorted(found.items())}


def discover(calls: Calls, place: Place, known: Collection[str], attached: Collection[str], *, recent: bool) -> set[Series]:
    """Return the series of a place; `known` are ids of accelerated instances, `attached` of volumes on them.

    Raise `Unavailable` where a page fails: half a list would read as a smaller fleet. `recent` leaves out what was silent
    for three hours, else two weeks count.
    """
    active: dict[str, Any] = {"RecentlyActive": "PT3H"} if recent else {}

    def of(name: tuple[str, str]) -> set[Series]:
        given = {"Namespace": name[0], "MetricName": name[1], **active}
        return {x for page in calls.pages(place, "cloudwatch", "list_metrics", **given) for x in _series(page["Metrics"], place)}

    with ThreadPoolExecutor(WORKERS, thread_name_prefix="discovery") as pool:
        found = set().union(*pool.map(of, [(namespace, metric) for namespace, metrics in names().items() for metric in metrics]))
    return kept(found, known, attached)


def cores(calls: Calls, place: Place, instance: str) -> set[Series]:
    """Return the series of each core of one node; raise `Unavailable` where a page fails."""
    found: set[Series] = set()
    of = [{"Name": "InstanceId", "Value": instance}, {"Name": "NeuronCore"}]
    for namespace, metric in sorted({(n, m) for n, m, d in catalogue() if "InstanceId" in d and _of_core(n, m, d)}):
        for page in calls.pages(place, "cloudwatch", "list_metrics", Namespace=namespace, MetricName=metric, Dimensions=of):
            found.update(_series(page["Metrics"], place, _of_core))
    return found


def kept(found: Iterable[Series], known: Collection[str], attached: Collection[str]) -> set[Series]:
    """Leave out what is about hosts without an accelerator and volumes not on one: they would only cost."""
    every = list(found)
    instances = {*known, *(id for x in every if x.metric.startswith(_ACCELERATED) and (id := _said(x, "InstanceId")))}

    def wanted(series: Series) -> bool:
        instance, volume = _said(series, "InstanceId"), _said(series, "VolumeId")
        return (not instance or instance in instances) and (not volume or volume in attached)

    return {series for series in every if wanted(series)}


def _series(members: Iterable[Mapping[str, Any]], place: Place, wanted: _Wanted | None = None) -> Iterable[Series]:
    for member in members:
        said = {str(x["Name"]): str(x["Value"]) for x in member.get("Dimensions", ())}
        if (wanted or _whole)(member["Namespace"], member["MetricName"], said):
            pairs = tuple(sorted(said.items()))
            yield Series(
                member["Namespace"], member["MetricName"], tuple(n for n, _ in pairs), pairs, place.region, place.account
            )


def _said(series: Series, name: str) -> str:
    return next((value for key, value in series.dimensions if key == name), "")


def _whole(namespace: str, metric: str, dimensions: Iterable[str]) -> bool:
    """Tell whether a series is of a whole thing; what parts of it report (cores, interfaces) is read on request only."""
    return any(not target.part and target.kind != "core" for target in targets(namespace, metric, dimensions))


def _of_core(namespace: str, metric: str, dimensions: Iterable[str]) -> bool:
    return namespace != "neuron-monitor" and any(x.kind == "core" for x in targets(namespace, metric, dimensions))
