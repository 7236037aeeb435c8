"""Tell which thing a series is about, and what its dimensions say of it."""

from __future__ import annotations

from collections.abc import Mapping

from adapters.aws.points import Series
from bot.model.labels import Labels

_LABELS: Mapping[str, str] = {
    "ClusterName": "cluster",
    "InstanceId": "instance",
    "NeuronCore": "core",
    "FullPodName": "pod",
    "Namespace": "namespace",
    "FileSystemId": "resource",
    "VolumeId": "resource",
    "Run": "job",
    "InstanceType": "instance_type",
}
_IDENTITY: Mapping[str, tuple[str, ...]] = {
    "node": ("instance",),
    "core": ("instance", "core"),
    "pod": ("cluster", "namespace", "pod"),
    "cluster": ("cluster",),
    "file_system": ("resource",),
    "volume": ("resource",),
    "run": ("cluster", "job"),
}


def said(series: Series) -> Labels:
    """Return all that the series' dimensions say; `core3` reads as core 3."""
    found = {_LABELS[name]: value for name, value in series.dimensions if name in _LABELS}
    if "core" in found:
        found["core"] = found["core"].removeprefix("core")
    return Labels(**found, region=series.region, account=series.account)


def identity(kind: str, labels: Labels) -> Labels:
    """Keep what tells one thing of the kind from another."""
    return labels.only(_IDENTITY[kind])


_PARTS = frozenset({"NeuronCore", "NeuronDevice", "NetworkInterfaceId", "GpuDevice"})


def owner(series: Series) -> Series:
    """Return the series that the whole thing would report itself: this one without what names the part."""
    pairs = tuple((name, value) for name, value in series.dimensions if name not in _PARTS)
    names = tuple(name for name, _ in pairs)
    return Series(series.namespace, series.metric, names, pairs, series.region, series.account)
