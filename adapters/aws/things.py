"""Tell which thing a series is about, and what its dimensions say of it."""

from __future__ import annotations

from collections.abc import Mapping

from adapters.aws.catalogue import Target
from adapters.aws.points import Series
from bot.model.labels import Labels

_LABELS: Mapping[str, str] = {
    "ClusterName": "cluster",
    "InstanceId": "instance",
    "NeuronCore": "core",
    "FullPodName": "pod",
    "PodName": "job",
    "Namespace": "namespace",
    "FileSystemId": "resource",
    "VolumeId": "resource",
    "NeuronDevice": "resource",
    "Run": "job",
    "InstanceType": "instance_type",
}
_IDENTITY: Mapping[str, tuple[str, ...]] = {
    "node": ("instance",),
    "core": ("instance", "core"),
    "device": ("instance", "resource"),
    "pod": ("cluster", "namespace", "pod"),
    "cluster": ("cluster",),
    "file_system": ("resource",),
    "volume": ("resource",),
    "run": ("cluster", "job"),
}


def said(series: Series, target: Target) -> Labels:
    """Return all that the series' dimensions say; `core3` reads as core 3."""
    labels = dict(target.reads) or _LABELS
    found = {labels[name]: value for name, value in series.dimensions if name in labels}
    if "core" in found:
        found["core"] = found["core"].removeprefix("core")
    return Labels(**found, region=series.region, account=series.account)


def identity(kind: str, labels: Labels) -> Labels:
    """Keep what tells one thing of the kind from another."""
    return labels.only(_IDENTITY[kind])


_PARTS = frozenset({"NeuronCore", "NeuronDevice", "NetworkInterfaceId", "GpuDevice"})


def owner(series: Series, target: Target) -> Series:
    """Return the series that the whole thing would report itself: this one without what names the part."""
    whole = {name for name, label in target.reads if label in _IDENTITY[target.kind]}
    pairs = tuple((name, value) for name, value in series.dimensions if (name in whole if whole else name not in _PARTS))
    names = tuple(name for name, _ in pairs)
    return Series(series.namespace, series.metric, names, pairs, series.region, series.account)
