"""Run one tick: read, detect, track, value, mute, group, notify."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from bot.costs.pricing import Pricing
from bot.model.alert import Alert
from bot.model.anomaly import Detection
from bot.model.notification import Notification, State, StateUpdate
from bot.model.policy import Policy
from bot.model.price import Price
from bot.model.reading import Reading
from bot.model.route import Routes
from bot.model.window import DAY, HOUR
from bot.ports import Ports
from bot.settings.routes import routes_now
from bot.watch.budget import MOST, hold, week_at
from bot.watch.mute import mute
from bot.watch.notify import (
    Incident,
    audience,
    group,
    listeners,
    notification_of,
    too_late,
    with_owner,
)
from bot.watch.track import Lengths, PriceOf, at_peak, escalated, recent, track, value

_LEVELS = ("neuroncore_utilization_ratio", "gpu_utilization_ratio")


def learning(reading: Reading, policy: Policy) -> str:
    """Return how many days of history the watch has learnt from, and which alerts wait for more.

    "" once it knows them all.
    """
    sentences, nodes = [], reading.frame("node")
    if nodes:
        # How long ago the first reading is, to the hour: a frame may begin with steps that nobody
        # has read.
        hourly = nodes.steps(HOUR)
        levels = [nodes.of(name)[:, ::hourly] for name in _LEVELS if nodes.has(name)]
        unread = [np.isnan(level).all(axis=0) for level in levels]
        first = np.flatnonzero(~np.logical_and.reduce(unread)).tolist() if levels else []
        history = (nodes.n_steps - first[0] * hourly) * nodes.step / DAY if first else 0.0

        days, waits = policy.number("alert.usual_days"), policy.number("odd.silent_days")
        later = ""
        if history < waits and policy.on("odd.on"):
            later = f"; nodes unlike their peers are reported after {waits:g}"
        if history < days:
            sentences = [f"Learning: {int(history)} of {days:g} days of history are known{later}."]
    return " ".join([*sentences, *filter(None, [reading.learning])])


SPEND_DAYS = 45
"""Days of the bill that a tick may compare with: six weeks give every weekday six times."""
EACH = 2
"""Nodes of one alert that are read in detail: the worst stand for the others."""


@dataclass(frozen=True)
class Rules:
    """Hold the rules that a tick goes by.

    The policy, the channels notified of every alert, and the routes to others.
    """

    policy: Policy
    channels: Sequence[str]
    routes: Routes


@dataclass(frozen=True)
class Outcome:
    """Hold the outcome of one tick.

    Every alert that is open or just ended, and the notifications to send.
    """

    alerts: tuple[Alert, ...]
    notifications: tuple[Notification, ...]


@dataclass(frozen=True)
class TickResult:
    """Hold one tick: the state before it, the reading, the detection, and the outcome."""

    state: State
    reading: Reading
    detection: Detection
    outcome: Outcome

    def changes(self) -> StateUpdate:
        """Return the writes due before any notification is sent.

        Alerts, and entries whose message became pointless unsent.
        """
        before = {alert.id: alert for alert in self.state.alerts}
        alerts = before | {alert.id: alert for alert in self.outcome.alerts}
        changed = [alert for alert in self.outcome.alerts if before.get(alert.id) != alert]
        pointless = [
            replace(entry, over=True, pending=False)
            for entry in self.state.notification_log
            if entry.pending
            and not entry.message
            and too_late([alerts[i] for i in entry.alerts if i in alerts], self.reading.now)
        ]
        return StateUpdate(alerts=changed, notification_log=pointless)


class Watch:
    """Watch one source for some channels."""

    def __init__(self, ports: Ports, channels: Sequence[str]) -> None:
        self._ports = ports
        self._channels = tuple(channels)
        self.pricing = Pricing(ports)

    def tick(self, now: datetime) -> TickResult:
        """Return the result of the tick at `now`; nothing is written or sent."""
        return self.judge(self.read(now))

    def judge(self, reading: Reading) -> TickResult:
        """Return the result of a reading, by the state that is remembered now.

        Nothing is written or sent.
        """
        now, rules = reading.now, self.rules()
        state = self._ports.stores.alerts.load(now)
        detection = self._ports.world.detect(reading, rules.policy, state.alerts)
        outcome = step(state, reading, detection, self.pricing.at(now), rules)
        return TickResult(state, reading, detection, outcome)

    def read(self, now: datetime) -> Reading:
        """Return the metrics, the inventory and the bill as visible at `now`."""
        world = self._ports.world
        # The source last: it says which calls did not answer, those for the bill among them.
        spend = world.billing.deltas(now, SPEND_DAYS)
        commitments, findings = world.outlook.commitments(now), world.outlook.findings(now)
        reading = world.source.read(now)
        return replace(
            reading,
            frames=ChainMap(dict(spend.frames), reading.frames),  # type: ignore[arg-type]
            commitments=tuple(commitments),
            findings=tuple(findings),
            missing=(*reading.missing, *map(str, spend.gaps)),
        )

    def rules(self) -> Rules:
        """Return the rules in force now.

        The newest policy, and the routes with every subscription and the mapping of owners.
        """
        routes = routes_now(self._ports.site.current_routes(), self._ports.stores.documents)
        return Rules(self._ports.policy, self._channels, routes)


def step(
    state: State, reading: Reading, detection: Detection, price_of: PriceOf, rules: Rules
) -> Outcome:
    """Track, own, value, mute, group and notify at `reading.now`.

    The same arguments give the same outcome.
    """
    now, policy = reading.now, rules.policy
    firing = [alert for alert in state.alerts if alert.firing]
    ended = [alert for alert in state.alerts if not alert.firing]
    returning = recent(state.alerts, now, policy.duration("alert.reopen_within"))
    alerts = track(firing, detection, reading, policy.duration("alert.resolve_after"), returning)

    before = {alert.id: alert for alert in state.alerts}
    current = {alert.id: alert for alert in (*state.alerts, *alerts)}
    lengths = Lengths.of(current.values())
    onsets = {anomaly.key: anomaly.window.start for anomaly in detection.anomalies}

    def price(thing: str) -> Price | None:
        return price_of(thing, reading.inventory)

    valued = []
    for alert in alerts:
        owned = with_owner(alert, reading, rules.routes.mapping)
        onset = onsets.get(alert.key)
        priced = value(owned, before.get(alert.id), price, now, onset, lengths)
        valued.append(escalated(at_peak(priced, now), policy))
    muted = mute(valued, state.silences, policy, now, ended)
    if most := policy.number(MOST):
        muted = hold(muted, state.alerts, most, week_at(now), now)
    return Outcome(tuple(muted), notify(state, muted, rules, now))


def notify(
    state: State, alerts: Sequence[Alert], rules: Rules, now: datetime
) -> tuple[Notification, ...]:
    """Return the notifications that `alerts` (open or just ended) call for.

    Those of alerts that ended unsent are among them.

    The rules' channels are notified of every alert; the others, of the alerts routed to them.
    """
    ids = {alert.id for alert in alerts}
    current = [*(alert for alert in state.alerts if alert.id not in ids), *alerts]
    audiences = {
        alert.id: (*rules.channels, *audience(alert, rules.routes, rules.policy, now))
        for alert in current
    }
    incidents: list[Incident] = []
    for channel in listeners(state.notification_log, rules.channels, tuple(audiences.values())):
        audible = {name for name, channels in audiences.items() if channel in channels}
        incidents += group(current, state.notification_log, channel, audible)
    notifications = (notification_of(incident, rules.policy, now) for incident in incidents)
    return tuple(notification for notification in notifications if notification)


def grid(start: datetime, end: datetime, interval: timedelta) -> list[datetime]:
    """Return every tick of a recording.

    The multiples of the interval since 1970 from `start` up to the first past `end`.
    """
    epoch = datetime(1970, 1, 1, tzinfo=start.tzinfo)
    first = start + (epoch - start) % interval
    last = end + (epoch - end) % interval
    return [first + i * interval for i in range((last - first) // interval + 1)]


def drill_targets(alerts: Sequence[Alert]) -> tuple[str, ...]:
    """Return the ids of the instances worth reading in detail, the dearest alert's first."""
    firing = [
        x for x in alerts if x.speaking and x.cause.facts.cores_differ and x.anomaly.kind == "node"
    ]
    dearest = sorted(firing, key=lambda x: (-x.usd_per_hour, x.key))
    return tuple(dict.fromkeys(thing for alert in dearest for thing in alert.anomaly.things[:EACH]))
