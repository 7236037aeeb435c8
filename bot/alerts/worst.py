"""Remember an alert at its worst, so that its end tells of the incident and not of its last, half recovered minutes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from bot.model.alert import Alert, Worst

_NEAR = Decimal("0.8")
"""Share of the most things and of the dearest hour from which a sight still shows the incident, and no recovery."""


def at_worst(alert: Alert, now: datetime) -> Alert:
    """Return the alert with its worst as of `now`; one that has ended is described by it.

    The newest sight near the most things and the dearest hour counts: the longer an incident lasts, the surer is its verdict.
    """
    if alert.closed:
        return _ended(alert)
    return replace(alert, worst=_newest(alert)) if alert.seen == now else alert


def _newest(alert: Alert) -> Worst:
    per_hour = alert.waste.per_hour if alert.waste else Decimal(0)
    most = max(per_hour, alert.worst.most_usd_per_hour) if alert.worst else per_hour
    near = per_hour >= _NEAR * most and len(alert.anomaly.things) >= _NEAR * alert.things_at_worst
    if alert.worst is None or near:
        return Worst(alert.anomaly, per_hour, most)
    return replace(alert.worst, most_usd_per_hour=most)


def _ended(alert: Alert) -> Alert:
    if alert.worst is None:
        return alert
    told = replace(alert, anomaly=replace(alert.worst.anomaly, window=alert.anomaly.window))
    return replace(told, waste=replace(alert.waste, per_hour=alert.worst.usd_per_hour)) if alert.waste else told
