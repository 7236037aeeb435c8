"""Run one tick: read, detect, track, value, mute, group, notify.

Nodes can be looked at by several processes, each those of its clusters. All that follows detection
is the whole fleet's, and is done once.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import numpy as np

from bot.costs.pricing import Pricing, billed_hours
from bot.costs.tally import SETTLE
from bot.model.alert import Alert, MutedBy
from bot.model.anomaly import Anomaly, Detection
from bot.model.causes import About
from bot.model.fleet import Instance
from bot.model.frame import Frame, FrameLookup, FramePart
from bot.model.notification import Coverage, Known, Notification, State, StateUpdate
from bot.model.policy import Policy
from bot.model.price import Price
from bot.model.reading import Gap, Reading, Report, Shares, billed_end, coverage_of
from bot.model.route import Routes
from bot.model.window import DAY, EVER, HOUR, Window
from bot.ports import REPORTS, SHARES, Ports, Shards
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
from bot.watch.track import (
    Lengths,
    PriceOf,
    at_billed_prices,
    at_peak,
    awaits_bill,
    escalated,
    recent,
    track,
    value,
    without_moved,
)

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
    coverage: Coverage = field(default_factory=Coverage)
    """How much of the fleet was looked at, by all processes together."""

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


_IN_CLUSTERS = ("node", "core", "device", "pod", "cluster", "run")
"""Frames of things that are looked at where their cluster is."""
_EVIDENCE = ("file_system", "spend_hour")
"""Frames of the whole fleet by which nodes are judged, too."""


def home(anomaly: Anomaly) -> str:
    """Return the cluster whose nodes show an anomaly, "" for one that is the whole fleet's.

    Nodes and runs are judged by their cluster alone. The bill, storage and capacity are judged by
    all that uses them, whatever their tags say.
    """
    in_cluster = anomaly.cause.facts.about in (About.NODES, About.RUN)
    return (anomaly.scope.cluster or anomaly.labels.cluster) if in_cluster else ""


def part_of(frames: Mapping[str, Frame], watches: Callable[[str], bool]) -> FrameLookup:
    """Return frames that are each cut, when first asked for, to the clusters that are looked at."""

    def cut(kind: str) -> Frame:
        frame = frames[kind]
        rows = [i for i, thing in enumerate(frame.things) if watches(thing.cluster)]
        whole = kind not in _IN_CLUSTERS or len(rows) == len(frame.things)
        return frame if whole else FramePart(frame, rows)

    return FrameLookup(
        tuple(k for k in frames if watches("") or k in (*_IN_CLUSTERS, *_EVIDENCE)), cut
    )


class Part:
    """Cut readings to the clusters that a process looks at.

    These are the named ones, of the lead all but those. What is in no cluster stays with the lead,
    and beside it the whole reading, as its `fleet`.
    """

    def __init__(self, named: frozenset[str], *, leads: bool) -> None:
        self.named, self.leads = named, leads
        self._instances: tuple[Mapping[str, Instance], Mapping[str, Instance]] = ({}, {})

    @staticmethod
    def given(shares: Shares, process: str) -> Part:
        """Return the part of a process by the shares."""
        leads = process == shares.lead
        holders = shares.holders.items()
        return Part(frozenset(x for x, by in holders if (by == process) != leads), leads=leads)

    def watches(self, cluster: str) -> bool:
        """Return whether the nodes of a cluster are looked at; "" stands for all that is in none."""
        return (cluster in self.named) != self.leads

    def of(self, reading: Reading) -> Reading:
        """Return the part of a reading; its instances are the same object while the fleet is."""
        listed, inventory = self._instances[0], reading.inventory
        if listed is not inventory.instances:
            watched = {
                name: instance
                for name, instance in inventory.instances.items()
                if self.watches(instance.labels.cluster)
            }
            self._instances = inventory.instances, watched

        volumes = inventory.volumes if self.leads else ()
        return replace(
            reading,
            frames=part_of(reading.frames, self.watches),
            inventory=replace(inventory, instances=self._instances[1], volumes=volumes),
            runs=tuple(run for run in reading.runs if self.watches(run.labels.cluster)),
            fleet=reading if self.leads else None,
        )


_UNEVEN = 0.25
"""Share of a mean load by which two processes may differ: to move a cluster is to read its past anew."""


def share_out(
    nodes: Mapping[str, int], processes: Sequence[str], before: Mapping[str, str]
) -> dict[str, str]:
    """Return the process of each cluster, so that all have about as many nodes to look at.

    A cluster stays where it was before while that process lives and the loads are about even.
    """
    holders = {x: before[x] for x in nodes if before.get(x) in processes}
    loads = Counter(dict.fromkeys(processes, 0))
    for cluster, process in holders.items():
        loads[process] += nodes[cluster]

    # Large clusters first: the small ones even out the loads.
    for cluster in sorted(nodes.keys() - holders.keys(), key=lambda x: (-nodes[x], x)):
        holders[cluster] = min(processes, key=lambda process: (loads[process], process))
        loads[holders[cluster]] += nodes[cluster]

    while True:
        fullest = max(processes, key=lambda process: (loads[process], process))
        emptiest = min(processes, key=lambda process: (loads[process], process))
        apart = loads[fullest] - loads[emptiest]
        movable = [x for x in holders if holders[x] == fullest and 0 < nodes[x] < apart]
        if apart * len(processes) <= _UNEVEN * loads.total() or not movable:
            return holders
        moved = min(movable, key=lambda x: (abs(apart - 2 * nodes[x]), x))
        holders[moved] = emptiest
        loads[fullest] -= nodes[moved]
        loads[emptiest] += nodes[moved]


def given_out(
    before: Shares | None, number: str, reading: Reading, processes: Sequence[str]
) -> Shares:
    """Return the shares of a tick, where the first of the processes leads."""
    instances = reading.inventory.instances.values()
    nodes = Counter(x.labels.cluster for x in instances if x.running and x.labels.cluster)
    old = before or Shares("", reading.now, processes[0])
    holders = share_out(nodes, processes, old.holders)
    since = {
        cluster: old.since.get(cluster, reading.now)
        if old.holders.get(cluster) == process
        else reading.now
        for cluster, process in holders.items()
    }
    return Shares(
        number,
        reading.now,
        processes[0],
        holders,
        since,
        nodes,
        unseen=old.unseen,
        notices=reading.notices,
        drill=old.drill,
    )


def joined(
    reading: Reading, shares: Shares, reports: Sequence[Report]
) -> tuple[Reading, Detection, Coverage, tuple[str, ...]]:
    """Join the findings of all processes, as if one had looked, and name the clusters nobody saw.

    Of these nobody knows whether they are well, nor whether what was wrong with them is over.
    """
    reported = {report.process for report in reports}
    absent = {x: process for x, process in shares.holders.items() if process not in reported}
    gaps = [
        Gap(
            f"The nodes of {cluster} were not looked at: {process} did not report.", cluster=cluster
        )
        for cluster, process in sorted(absent.items())
    ]
    # A process that has no nodes to look at knows nothing, and that well.
    holders = set(shares.holders.values())
    coverages = [x.coverage for x in reports if x.process in holders or x.coverage.because]
    coverages += [Coverage(Known.UNKNOWN, gap.sentence) for gap in gaps]
    detections = [report.detection for report in reports]

    whole = replace(
        reading,
        gaps=tuple(dict.fromkeys([*(gap for x in reports for gap in x.gaps), *gaps])),
        missing=tuple(dict.fromkeys(sentence for x in reports for sentence in x.missing)),
        learning=" ".join(dict.fromkeys(x.learning for x in reports if x.learning)),
    )
    anomalies = tuple(anomaly for detection in detections for anomaly in detection.anomalies)
    return (
        whole,
        Detection(anomalies, ChainMap(*(dict(detection.states) for detection in detections))),
        Coverage.joined(coverages or [Coverage()]),
        tuple(absent),
    )


class Watch:
    """Watch one source for some channels."""

    def __init__(self, ports: Ports, channels: Sequence[str]) -> None:
        self._ports = ports
        self._channels = tuple(channels)
        self.pricing = Pricing(ports)
        self.shares: Shares | None = None
        """The newest shares that this process gave out, or took part in."""
        self._part: Part | None = None
        self._given = 0
        self._billed_through: datetime | None = None

    def tick(self, now: datetime) -> TickResult:
        """Return the result of the tick at `now`; nothing is written or sent."""
        return self.judge(self.read(now))

    def judge(self, reading: Reading) -> TickResult:
        """Return the result of a reading, by the state that is remembered now.

        Nothing is sent. Nothing is written either, but the shares of the processes that look.
        """
        now, rules = reading.now, self.rules()
        state = self._ports.stores.alerts.load(now)
        if shards := self._ports.stores.shards:
            reading, detection, coverage = self._shared(shards, reading, state, rules.policy)
        else:
            detection = self._ports.world.detect(reading, rules.policy, state.alerts)
            coverage = coverage_of(reading)
        priced = {alert.id: alert for alert in self._billed_since(state.alerts, reading)}
        current = replace(state, alerts=tuple(priced.get(x.id, x) for x in state.alerts))
        outcome = step(current, reading, detection, self.pricing.at(now), rules)
        alerts = priced | {alert.id: alert for alert in outcome.alerts}
        outcome = replace(outcome, alerts=tuple(alerts.values()))
        return TickResult(state, reading, detection, outcome, coverage)

    def _billed_since(self, alerts: Sequence[Alert], reading: Reading) -> list[Alert]:
        """Return the ended alerts whose hours the bill has come to show since the tick before."""
        frame = reading.frame("spend_hour")
        waiting = [x for x in alerts if awaits_bill(x) and x.anomaly.labels.instance_type]
        if frame is None or not waiting:
            return []
        before, self._billed_through = self._billed_through, billed_end(frame)
        if self._billed_through == before:
            return []

        # A line may come later than others of its hour; at a start all are asked.
        oldest = before - SETTLE if before else EVER.start
        due = [alert for alert in waiting if oldest <= alert.seen < self._billed_through]
        types = {
            thing: alert.anomaly.labels.instance_type
            for alert in due
            for thing in alert.anomaly.things
        }
        if not types:
            return []
        began = min(alert.anomaly.window.start for alert in due)
        span = Window(began, max(alert.seen for alert in due))
        billed = billed_hours(self._ports.world.billing, types, span)
        priced = [at_billed_prices(alert, billed, reading.now) for alert in due]
        return [alert for alert in priced if not awaits_bill(alert)]

    def _shared(
        self, shards: Shards, reading: Reading, state: State, policy: Policy
    ) -> tuple[Reading, Detection, Coverage]:
        """Give the clusters out, look at those of this process, and join the findings of all.

        Where a process dies meanwhile they are given out anew, and looked at for the same tick.
        """
        documents = self._ports.stores.documents
        before = self.shares or SHARES.get(documents, SHARES.collection)
        drill = drill_targets([alert for alert in state.alerts if alert.firing])
        while True:
            processes = shards.processes()
            self._given += 1
            number = f"{processes[0]} {self._given}"
            shares = replace(given_out(before, number, reading, processes), drill=drill)
            SHARES.put(documents, SHARES.collection, shares)
            report = self._look(shares, shares.lead, reading, state, policy)
            reports = shards.reports(shares)
            if reports is not None:
                break
            before = shares

        whole, detection, coverage, unseen = joined(reading, shares, [report, *reports])
        self.shares = replace(shares, unseen=unseen)
        return whole, detection, coverage

    def report(self, shares: Shares, process: str) -> None:
        """Look at the clusters that the lead gave to this process, and write the findings."""
        if process not in shares.holders.values():
            self.shares = shares
            return
        reading = replace(self.read(shares.at), notices=shares.notices)
        state = self._ports.stores.alerts.load(shares.at)
        report = self._look(shares, process, reading, state, self._ports.policy)
        REPORTS.put(self._ports.stores.documents, process, report)
        self._ports.world.drill(shares.drill, shares.at)

    def _look(
        self, shares: Shares, process: str, reading: Reading, state: State, policy: Policy
    ) -> Report:
        """Return the findings in the clusters of one process."""
        self.shares, share = shares, Part.given(shares, process)
        # A part that has not changed is the one before, which knows its instances.
        if self._part and (self._part.named, self._part.leads) == (share.named, share.leads):
            share = self._part
        self._part = share
        part = share.of(reading)
        detection = self._ports.world.detect(part, policy, state.alerts)
        anomalies = [x for x in detection.anomalies if share.watches(home(x))]
        things = [x for alert in state.alerts if alert.firing for x in alert.anomaly.things]
        states = {x: detection.states[x] for x in things if x in detection.states}
        return Report(
            shares.number,
            process,
            Detection(tuple(anomalies), states),
            coverage_of(part),
            reading.gaps,
            reading.missing,
            reading.learning,
        )

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

    # Some of an alert's nodes may turn out to have another cause: no hour is counted twice. What
    # moved as a whole is explained by the new alert, and counted there alone.
    if opened := [alert for alert in alerts if alert.id not in before]:
        for alert in alerts:
            if alert.seen == now and (earlier := before.get(alert.id)):
                before[alert.id] = without_moved(earlier, alert.anomaly.things, opened, price)

    valued = []
    for alert in alerts:
        owned = with_owner(alert, reading, rules.routes.mapping)
        priced = value(owned, before.get(alert.id), price, now, onsets.get(alert.key), lengths)
        valued.append(escalated(at_peak(priced, now), policy))
    muted = mute(valued, state.silences, policy, now, ended)
    if most := policy.number(MOST):
        muted = hold(muted, state.alerts, most, week_at(now), now)

    # Of what a setting held back, reminders and escalations count from now.
    held = {alert.id for alert in state.alerts if MutedBy.SETTING.marks(alert)}
    heard = [
        replace(alert, notified=alert.notified or now)
        if alert.speaking and alert.id in held
        else alert
        for alert in muted
    ]
    return Outcome(tuple(heard), notify(state, heard, rules, now))


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
