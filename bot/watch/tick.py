"""Run one tick: read, detect, track, value, mute, group, notify; the live watch, the backtest and the preview are all this."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from bot.costs.pricing import Pricing
from bot.model.alert import Alert, Notification
from bot.model.anomaly import Detection
from bot.model.policy import Policy
from bot.model.reading import Reading
from bot.model.route import Routes
from bot.model.state import State, StateUpdate
from bot.ports import Ports
from bot.settings.routes import routes_now
from bot.watch.group import Incident, group
from bot.watch.mute import mute
from bot.watch.notify import notifications_of, too_late
from bot.watch.route import audience, listeners
from bot.watch.track import at_peak, recent, track
from bot.watch.value import PriceOf, escalated, value


@dataclass(frozen=True)
class Outcome:
    """Hold what one tick came to: every alert that is open or just ended, and what to say."""

    alerts: tuple[Alert, ...]
    notices: tuple[Notification, ...]


def step(
    memory: State,
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
    known = [escalated(at_peak(alert, now), policy) for alert in valued]
    marked = mute(known, memory.silences, policy, now, [alert for alert in memory.alerts if not alert.firing])
    return Outcome(tuple(marked), notify(memory, marked, policy, channels, now, routes))


def notify(
    memory: State, alerts: Sequence[Alert], policy: Policy, channels: Sequence[str], now: datetime, routes: Routes
) -> tuple[Notification, ...]:
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
    notices = (notifications_of(incident, policy, now) for incident in incidents)
    return tuple(notice for notice in notices if notice is not None)


SPEND_DAYS = 45
"""Days of the bill that a tick may compare with: six weeks give every weekday six times."""


@dataclass(frozen=True)
class TickResult:
    """Hold one tick: what was remembered, read, found, and what it came to."""

    memory: State
    reading: Reading
    detection: Detection
    outcome: Outcome

    def changes(self) -> StateUpdate:
        """Return what to write before anything is said: alerts, and messages that became pointless untold."""
        before = {alert.id: alert for alert in self.memory.alerts}
        changed = [alert for alert in self.outcome.alerts if before.get(alert.id) != alert]
        known = {**before, **{alert.id: alert for alert in self.outcome.alerts}}
        about = {s.id: [known[name] for name in s.alerts if name in known] for s in self.memory.said}
        untold = [s for s in self.memory.said if not s.message and not s.over and too_late(about[s.id], self.reading.now)]
        return StateUpdate(alerts=changed, said=[replace(s, over=True) for s in untold])


class Watch:
    """Watch one source for some channels."""

    def __init__(self, ports: Ports, channels: Sequence[str]) -> None:
        self._ports = ports
        self._channels = tuple(channels)
        self.pricing = Pricing(ports)

    def read(self, now: datetime) -> Reading:
        """Return the metrics, the inventory and the bill as visible at `now`."""
        reading = self._ports.world.source.read(now)
        spend = self._ports.world.billing.deltas(now, SPEND_DAYS)
        outlook = self._ports.world.outlook
        return replace(
            reading,
            frames=ChainMap(dict(spend.frames), reading.frames),  # type: ignore[arg-type]
            commitments=tuple(outlook.commitments(now)),
            findings=tuple(outlook.findings(now)),
        )

    def routes(self) -> Routes:
        """Return who hears what, subscriptions included."""
        return routes_now(self._ports.site.routes, self._ports.stores.documents)

    def look(self, now: datetime) -> TickResult:
        """Return what the tick at `now` comes to; nothing is written or said."""
        memory = self._ports.stores.alerts.load(now)
        reading = self.read(now)
        policy = self._ports.policy
        detection = self._ports.world.detect(reading, policy, memory.alerts)
        outcome = step(memory, reading, detection, self.pricing.at(now), policy, self._channels, self.routes())
        return TickResult(memory, reading, detection, outcome)


def grid(start: datetime, end: datetime, interval: timedelta) -> list[datetime]:
    """Return every tick of a recording: the multiples of the interval since 1970 from `start` up to the first past `end`."""
    epoch = datetime(1970, 1, 1, tzinfo=start.tzinfo)
    first = start + (epoch - start) % interval
    last = end + (epoch - end) % interval
    return [first + i * interval for i in range((last - first) // interval + 1)]


EACH = 2
"""Nodes of one alert: the worst stand for the others."""


def drill_targets(alerts: Sequence[Alert]) -> tuple[str, ...]:
    """Return the instance ids worth a closer look, the dearest alert's first."""
    firing = [x for x in alerts if x.firing and not x.muted_by and x.cause.facts.cores_differ and x.anomaly.kind == "node"]
    dearest = sorted(firing, key=lambda x: (-(x.waste.per_hour if x.waste else Decimal(0)), x.key))
    return tuple(dict.fromkeys(thing for alert in dearest for thing in alert.anomaly.things[:EACH]))
