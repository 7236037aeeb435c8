"""Open, keep and end alerts: anomalies come and go, an alert is one stay, remembered at its peak."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from bot.model.alert import Alert, Peak
from bot.model.anomaly import Anomaly, Detection, NodeState
from bot.model.causes import Cause
from bot.model.reading import Reading
from bot.model.window import Window
from bot.watch.route import claims_of, launcher_of


def track(
    open_alerts: Sequence[Alert],
    detection: Detection,
    reading: Reading,
    resolve_after: timedelta,
    ended: Sequence[Alert] = (),
) -> list[Alert]:
    """Return every alert that is open or ends at `reading.now`, oldest first.

    An alert ends when its anomaly was not seen for `resolve_after` although its things could be
    seen: a source that failed or a node that fell silent is no recovery. Of the `ended`, one whose
    anomaly is seen again is the same alert again.
    """
    anomalies = {anomaly.key: anomaly for anomaly in detection.anomalies}
    kept = [
        _follow(alert, anomalies.pop(alert.key, None), detection, reading, resolve_after)
        for alert in open_alerts
    ]
    before = {alert.key: alert for alert in sorted(ended, key=lambda alert: alert.opened)}
    again = [
        _seen_again(before[key], anomaly, reading)
        for key, anomaly in anomalies.items()
        if key in before
    ]
    return (
        kept
        + again
        + [_open(anomaly, reading) for key, anomaly in anomalies.items() if key not in before]
    )


def recent(alerts: Iterable[Alert], now: datetime, reopen_within: timedelta) -> list[Alert]:
    """Return the alerts that ended less than `reopen_within` ago, or than their rule's cause may take to return."""
    return [
        alert
        for alert in alerts
        if alert.closed and now - alert.closed < max(reopen_within, _returns(alert))
    ]


def _returns(alert: Alert) -> timedelta:
    return alert.cause.facts.returns if alert.anomaly.rule == alert.cause.value else timedelta(0)


def alert_id(key: str, opened: datetime) -> str:
    """Return the id of one opening.

    The same for the same key and time, so that a repeated tick repeats nothing.
    """
    return "a" + hashlib.sha256(f"{key}|{opened.isoformat()}".encode()).hexdigest()[:9]


def _open(anomaly: Anomaly, reading: Reading) -> Alert:
    now = reading.now
    return Alert(
        id=alert_id(anomaly.key, now),
        anomaly=anomaly,
        opened=now,
        seen=now,
        claims=claims_of(anomaly, reading),
        things_at_peak=len(anomaly.things),
        launched_by=launcher_of(anomaly.things, reading),
    )


def _seen_again(alert: Alert, anomaly: Anomaly, reading: Reading) -> Alert:
    newest = replace(
        anomaly,
        window=Window(min(alert.anomaly.window.start, anomaly.window.start), anomaly.window.end),
    )
    most = max(alert.things_at_peak, len(anomaly.things))
    by = alert.launched_by or launcher_of(anomaly.things, reading)
    claims = alert.claims if by == alert.launched_by else claims_of(anomaly, reading)
    seen = replace(alert, anomaly=newest, seen=reading.now, closed=None, things_at_peak=most)
    return replace(seen, launched_by=by, claims=claims)


def _follow(
    alert: Alert, anomaly: Anomaly | None, detection: Detection, reading: Reading, quiet: timedelta
) -> Alert:
    if anomaly is not None:
        return _seen_again(alert, anomaly, reading)
    if reading.now - alert.seen < quiet or _unseen(alert, detection.states, reading):
        return alert
    return replace(alert, closed=reading.now)


def _unseen(alert: Alert, states: Mapping[str, NodeState], reading: Reading) -> bool:
    """Tell whether the end could not be seen.

    Its part of the source failed, the bill is away, or half of what runs is silent.

    Where fewer are, the others show that it is over: one node that never comes back must not keep
    it open.
    """
    if reading.hidden(alert.anomaly.labels) or (
        alert.anomaly.kind.startswith("spend") and "spend" not in reading.frames
    ):
        return True
    known = [states[thing] for thing in alert.anomaly.things if thing in states]
    silent = known.count(NodeState.NO_DATA)
    return alert.cause is not Cause.NO_DATA and 0 < silent >= len(known) - silent


_NEAR = Decimal("0.8")
"""Share of the most things and of the dearest hour from which a sight still shows the incident, and no recovery."""


_BETTER = Decimal("0.6")
"""The same of the dearest hour for a sight that names another cause.

What came with the onset may be dear, and hide it.
"""


def at_peak(alert: Alert, now: datetime) -> Alert:
    """Return the alert with its peak as of `now`; one that has ended is described by its peak.

    The newest sight near the most things and the dearest hour counts: the longer an incident lasts,
    the surer is its verdict.
    """
    if alert.closed:
        return _ended(alert)
    return replace(alert, peak=_newest(alert)) if alert.seen == now else alert


def _newest(alert: Alert) -> Peak:
    per_hour = alert.usd_per_hour
    most = max(per_hour, alert.peak.most_usd_per_hour) if alert.peak else per_hour
    seen_better = alert.peak is not None and alert.cause is not alert.peak.anomaly.cause
    enough = _BETTER if seen_better else _NEAR
    near = per_hour >= enough * most and len(alert.anomaly.things) >= _NEAR * alert.things_at_peak
    if alert.peak is None or near:
        return Peak(alert.anomaly, per_hour, most)
    return replace(alert.peak, most_usd_per_hour=most)


def _ended(alert: Alert) -> Alert:
    if alert.peak is None:
        return alert
    newest = alert.anomaly
    anomaly = replace(
        alert.peak.anomaly, window=newest.window, billed=newest.billed, at_risk=newest.at_risk
    )
    ended = replace(alert, anomaly=anomaly)
    return (
        replace(ended, waste=replace(alert.waste, per_hour=alert.peak.usd_per_hour))
        if alert.waste
        else ended
    )
