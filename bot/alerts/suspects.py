"""Choose the nodes that are worth a closer look: those whose cores may tell more than the node does."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from bot.model.alert import Alert
from bot.model.anomaly import Cause

CLOSER = frozenset(
    {
        Cause.HARDWARE_FAULT,
        Cause.EXECUTION_ERRORS,
        Cause.HUNG,
        Cause.STARVED,
        Cause.NETWORK_BOUND,
        Cause.COLLECTIVE_PATH,
        Cause.MEMORY_PRESSURE,
        Cause.ODD,
    }
)
"""Causes under which cores may differ; idle cores of an idle node say nothing new."""
EACH = 2
"""Nodes of one alert: the worst stand for the others."""


def suspects(alerts: Sequence[Alert]) -> tuple[str, ...]:
    """Return the instance ids worth a closer look, the dearest alert's first."""
    firing = [x for x in alerts if x.firing and not x.muted_by and x.cause in CLOSER and x.anomaly.kind == "node"]
    dearest = sorted(firing, key=lambda x: (-(x.waste.per_hour if x.waste else Decimal(0)), x.key))
    return tuple(dict.fromkeys(thing for alert in dearest for thing in alert.anomaly.things[:EACH]))
