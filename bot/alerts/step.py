"""Run the pure middle of the watch: track -> value -> mute -> group -> news."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.alerts.group import Incident, group
from bot.alerts.mute import mute
from bot.alerts.news import news
from bot.alerts.route import audience, listeners
from bot.alerts.track import recent, track
from bot.alerts.urgent import urgent
from bot.alerts.value import PriceOf, value
from bot.alerts.worst import at_worst
from bot.model.alert import Alert, Notice
from bot.model.anomaly import Detection
from bot.model.memory import Memory
from bot.model.policy import Policy
from bot.model.reading import Reading
from bot.model.route import Routes


@dataclass(frozen=True)
class Outcome:
    """Hold what one tick came to: every alert that is open or just ended, and what to say."""

    alerts: tuple[Alert, ...]
    notices: tuple[Notice, ...]


def step(
    memory: Memory,
    reading: Reading,
    detection: Detection,
    price_of: PriceOf,
    policy: Policy,
    channels: Sequence[str],
    routes: Routes,
) -> Outcome:
    """Return what the tick at `reading.now` comes to; the same arguments give the same outcome."""
    now = reading.now
    before = {alert.id: alert for alert in memory.alerts}
    firing = [alert for alert in memory.alerts if alert.firing]
    ended = recent(memory.alerts, now, policy.duration("alert.reopen_within"))
    tracked = track(firing, detection, reading, policy.duration("alert.resolve_after"), ended)
    onset = {anomaly.key: anomaly.window.start for anomaly in detection.anomalies}
    valued = [value(alert, before.get(alert.id), reading.inventory, price_of, now, onset.get(alert.key)) for alert in tracked]
    known = [urgent(at_worst(alert, now), policy) for alert in valued]
    marked = mute(known, memory.silences, policy, now, [alert for alert in memory.alerts if not alert.firing])
    return Outcome(tuple(marked), tell(memory, marked, policy, channels, now, routes))


def tell(
    memory: Memory, alerts: Sequence[Alert], policy: Policy, channels: Sequence[str], now: datetime, routes: Routes
) -> tuple[Notice, ...]:
    """Return the notices that `alerts` (open or just ended) call for, together with what was ended and not yet told.

    `channels` hear every alert; the others, what is routed to them.
    """
    current = {alert.id for alert in alerts}
    every = [*(a for a in memory.alerts if a.id not in current), *alerts]
    meant = {alert.id: (*channels, *audience(alert, routes, policy, now)) for alert in every}
    incidents: list[Incident] = []
    for channel in listeners(memory.said, channels, tuple(meant.values())):
        theirs = {name for name, audiences in meant.items() if channel in audiences}
        incidents += group(every, memory.said, channel, theirs)
    notices = (news(incident, policy, now) for incident in incidents)
    return tuple(notice for notice in notices if notice is not None)
