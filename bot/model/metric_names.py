"""Name the metrics of a CloudWatch namespace that an installation chose itself, such as neuron-monitor's on plain EC2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
