"""Name where metrics are read, and those of a CloudWatch namespace that an installation chose itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class MetricsSurface(StrEnum):
    """Name where an account's NeuronCore metrics are read."""

    AUTO = "auto"
    """Of each node where it reports.

    By GetMetricData first, as that is read without asking anything more.
    """
    CLOUDWATCH = "cloudwatch"
    """By GetMetricData: the classic namespace of Container Insights."""
    PROMQL = "promql"
    """By PromQL: CloudWatch's OTel store, or a Prometheus server."""


UNITS: Mapping[str, Mapping[str, float]] = {
    "ratio": {"percent": 0.01, "ratio": 1.0},
    "bytes": {"bytes": 1.0, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30},
    "seconds": {"seconds": 1.0, "milliseconds": 1e-3, "microseconds": 1e-6},
    "count": {"count": 1.0},
    "second": {"bytes": 1.0, "kib": 2.0**10, "mib": 2.0**20},
}
"""Units that a metric may come in, by the last word of its name here, and what a value is multiplied by."""


@dataclass(frozen=True)
class Meaning:
    """State that `name` in CloudWatch is `metric` here (one of `NODE_METRICS`), in a declared unit."""

    name: str
    metric: str
    unit: str

    @property
    def scale(self) -> float:
        """Return the factor of a value."""
        return UNITS[self.metric.rpartition("_")[2]][self.unit]


@dataclass(frozen=True)
class OwnNames:
    """Hold a namespace, the meaning of its metrics, and the dimensions that name the instance and the core."""

    namespace: str
    meanings: tuple[Meaning, ...]
    instance: str
    core: str
