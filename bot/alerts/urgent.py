"""Say which alerts are critical for their dollars alone."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from bot.alerts.value import CENT
from bot.model.alert import Alert
from bot.model.policy import Policy

_CALM = Decimal("0.5")
"""Share of the limit under which what was costly is so no more: what swings about the limit does not change its mind."""


def urgent(alert: Alert, policy: Policy) -> Alert:
    """Return the alert marked as costly when it wastes `alert.critical_usd_per_hour`; an ended one stays as it was."""
    if alert.closed or alert.waste is None:
        return alert
    limit = policy.at(alert.anomaly.labels).usd("alert.critical_usd_per_hour")
    least = limit * _CALM if alert.costly else limit
    return replace(alert, costly=alert.waste.per_hour >= max(least, CENT))
