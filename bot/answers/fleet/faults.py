"""Answer the cost of nodes' faults, how often each type breaks, and with a node's dossier for AWS."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

import numpy as np

from bot.answers.cost.goodput import node_time
from bot.cards.card import Block, Button, Buttons, Card, Tone, compose, quiet, text
from bot.cards.columns import COUNT, DURATION, HOURS, USD_CENTS, Column, Columns, Unit, datum
from bot.cards.lines import window_line
from bot.cards.words import as_read, period
from bot.costs.compiling import HourOf
from bot.costs.node_time import CLASSES, GoodputClass, NodeTime
from bot.costs.pricing import Pricing, hours_of
from bot.errors import find_named
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.alert import Alert, MutedBy
from bot.model.codec import by_key
from bot.model.fleet import Notice, NoticeKind
from bot.model.frame import runs_of
from bot.model.labels import Labels
from bot.model.money import cents, counted, usd
from bot.model.reading import HARDWARE_METRICS
from bot.model.request import Request
from bot.model.window import Window, clock, rounded_duration
from bot.ports import Ports

_HOUR = timedelta(hours=1)
_RESTART = timedelta(hours=2)
"""Within which after a fault its nodes' new start is the restart that it made necessary."""
_RESTARTING = (
    GoodputClass.STARTING,
    GoodputClass.COMPILING_FIRST,
    GoodputClass.COMPILING_AGAIN,
    GoodputClass.COLD_CACHE,
)
"""Classes of goodput on the way back to work; work thrown away is `GoodputClass.LOST`."""
_OF_HARDWARE = (NoticeKind.RETIREMENT, NoticeKind.MAINTENANCE, NoticeKind.HEALTH)
_MOST = 15


@dataclass(frozen=True)
class Fault:
    """State one fault: the nodes that broke, and the loss of them and of those that waited for them.

    Hours are node-hours. What a restart took comes beside what was lost until the fault was over.
    """

    alert: Alert
    nodes: tuple[str, ...]
    hours: float
    usd: Decimal
    restart_hours: float
    restart_usd: Decimal

    @property
    def window(self) -> Window:
        """Return the time from its onset until it was last seen."""
        start = self.alert.anomaly.window.start
        return Window(start, max(self.alert.seen, start))

    @property
    def total_usd(self) -> Decimal:
        """Return the USD of the fault and its restart."""
        return self.usd + self.restart_usd


@dataclass(frozen=True)
class FaultyNode:
    """Hold a node's faults, the oldest first; of one that several nodes share it has an even part."""

    id: str
    labels: Labels
    faults: tuple[Fault, ...]

    @property
    def hours(self) -> float:
        """Return the node-hours that its faults took."""
        return sum((x.hours + x.restart_hours) / len(x.nodes) for x in self.faults)

    @property
    def usd(self) -> Decimal:
        """Return the USD that its faults took."""
        return cents(sum((x.total_usd / len(x.nodes) for x in self.faults), Decimal(0)))

    @property
    def returned(self) -> int:
        """Return how often it broke again after it was at work."""
        return len(self.faults) - 1


@dataclass(frozen=True)
class FaultRate:
    """State how often nodes of a type broke in a zone, and for how long such nodes were seen."""

    instance_type: str
    zone: str
    node_hours: float
    faults: int

    @property
    def between(self) -> timedelta | None:
        """Return the mean node-time between faults, None where there was none."""
        return timedelta(hours=self.node_hours / self.faults) if self.faults else None


def broken_nodes(alert: Alert, time: NodeTime) -> tuple[str, ...]:
    """Return whose fault an alert tells: its suspect, else its nodes with hardware events, else all."""
    if alert.anomaly.suspect:
        return (alert.anomaly.suspect,)
    things = alert.things
    rows = [time.rows[name] for name in things if name in time.rows]
    part = time.nodes.pick(rows).until(alert.seen).since(alert.anomaly.window.start - _HOUR)
    # A gap in the readings is no event.
    events = np.any([np.nan_to_num(part.of(name)) > 0 for name in HARDWARE_METRICS], axis=(0, 2))
    sick = {thing.instance for thing, hit in zip(part.things, events, strict=True) if hit}

    return tuple(name for name in things if name in sick) or things


def faults_of(alerts: Iterable[Alert], time: NodeTime, hour_of: HourOf) -> list[Fault]:
    """Return alerts about broken nodes as faults, the oldest first, each with its restart.

    A step that an alert has counted, or an earlier fault's restart, counts no second time.
    """
    lost, restarting = CLASSES.index(GoodputClass.LOST), [CLASSES.index(x) for x in _RESTARTING]
    remainder = 1.0 - time.share.astype(np.float64)
    faults = []
    for alert in sorted(alerts, key=lambda x: x.anomaly.window.start):
        waste, start, end = alert.waste, alert.anomaly.window.start, alert.seen + _RESTART
        hours = float(sum((x.hours for x in waste.hours), Decimal(0))) if waste else 0.0
        after = time.steps(Window(start, end))
        restart_hours, restart_usd = 0.0, Decimal(0)
        for name in alert.things:
            row = time.rows.get(name)
            if row is None:
                continue
            taken = np.zeros(time.nodes.n_steps, dtype=bool)
            taken[after] = np.isin(time.base[row, after], restarting)
            # Work that was thrown away ends where its job fell back: at this fault or after it.
            for _, first, last in zip(*runs_of(time.base[[row]] == lost), strict=True):
                taken[first:last] |= first < after.stop and last >= after.start
            node_hours = float(remainder[row, taken].sum()) * (time.nodes.step / _HOUR)
            remainder[row, taken] = 0.0
            restart_hours += node_hours
            restart_usd += (hour_of(name) or Decimal(0)) * Decimal(repr(node_hours))

        so_far = cents(waste.so_far) if waste else Decimal(0)
        nodes = broken_nodes(alert, time)
        faults.append(Fault(alert, nodes, hours, so_far, restart_hours, cents(restart_usd)))

    return faults


def by_node(faults: Iterable[Fault], time: NodeTime) -> list[FaultyNode]:
    """Return the nodes that broke, those that cost most first."""
    of_node = by_key((name, fault) for fault in faults for name in fault.nodes)
    labels = {name: time.nodes.things[row] for name, row in time.rows.items()}

    return sorted(
        [FaultyNode(name, labels.get(name, Labels()), tuple(x)) for name, x in of_node.items()],
        key=lambda node: (-node.usd, -node.hours, node.id),
    )


def rates_of(nodes: Iterable[FaultyNode], time: NodeTime, window: Window) -> list[FaultRate]:
    """Return how often nodes broke by type and zone, the most often first."""
    seen_hours = time.seen[:, time.steps(window)].sum(axis=1) * (time.nodes.step / _HOUR)
    hours, broke = defaultdict[tuple[str, str], float](float), Counter[tuple[str, str]]()
    for thing, n_hours in zip(time.nodes.things, seen_hours, strict=True):
        hours[thing.instance_type, thing.zone] += float(n_hours)
    for node in nodes:
        broke[node.labels.instance_type, node.labels.zone] += len(node.faults)

    return sorted(
        [FaultRate(*place, hours[place], broke[place]) for place in hours if hours[place]],
        key=lambda x: (x.between or timedelta.max, x.instance_type, x.zone),
    )


_NODES = Columns[FaultyNode](
    Column("node", lambda x: x.id, key="node"),
    Column("type", lambda x: x.labels.instance_type, key="instance_type"),
    Column("zone", lambda x: x.labels.zone, key="zone"),
    Column("faults", lambda x: len(x.faults), COUNT, "faults", "count of its faults"),
    Column("again", lambda x: x.returned or None, COUNT, missing=""),
    datum("returned", lambda x: x.returned, "its faults after the first"),
    Column(
        "node-hours",
        lambda x: x.hours,
        HOURS,
        "node_hours",
        "sum over its faults of fault and restart / the nodes that broke in it",
    ),
    Column(
        "cost",
        lambda x: x.usd,
        USD_CENTS,
        "usd",
        "sum over its faults of fault and restart / the nodes that broke in it",
        total=True,
    ),
)
_FAULTS = Columns[Fault](
    datum("alert", lambda x: x.alert.id),
    Column("what", lambda x: x.alert.cause.facts.words),
    datum("cause", lambda x: x.alert.cause.value),
    datum("nodes", lambda x: list(x.nodes)),
    Column("from", lambda x: clock(x.window.start)),
    Column("for", lambda x: x.window.length, DURATION),
    datum("window", lambda x: x.window),
    datum("over", lambda x: x.alert.closed is not None),
    Column(
        "node-hours",
        lambda x: x.hours,
        HOURS,
        "node_hours",
        "node-hours that the alert counted, of all nodes that it held up",
    ),
    Column("cost", lambda x: x.usd, USD_CENTS, "usd", "what the alert cost so far"),
    Column(
        "of the restart",
        lambda x: x.restart_hours,
        HOURS,
        "restart_node_hours",
        "node-hours of goodput's 'lost to restarts' that ended at the fault or after it, and of"
        " starting and compiling until two hours after it, less what an alert counted",
    ),
    Column(
        "its cost",
        lambda x: x.restart_usd,
        USD_CENTS,
        "restart_usd",
        "sum over the nodes of those hours x the price of the node's hour",
    ),
    datum("why", lambda x: x.alert.anomaly.why),
    datum("evidence", lambda x: list(x.alert.anomaly.evidence)),
)
_RATES = Columns[FaultRate](
    Column("type", lambda x: x.instance_type, key="instance_type"),
    Column("zone", lambda x: x.zone, key="zone"),
    Column("node-hours seen", lambda x: x.node_hours, Unit("{:,.0f}".format), "node_hours"),
    Column("faults", lambda x: x.faults, COUNT, "faults", "sum of its nodes' faults"),
    Column(
        "how often",
        lambda x: x.between and f"one every {rounded_duration(x.between)} per node",
        missing="none yet",
    ),
    datum("seconds_between", lambda x: x.between, "node-hours seen / faults", DURATION),
)


def faults_card(
    faults: Sequence[Fault], nodes: Sequence[FaultyNode], rates: Sequence[FaultRate], window: Window
) -> Card:
    """Draw the nodes that broke, and how often each type does."""
    total = sum((x.total_usd for x in faults), Decimal(0))
    restarts = sum((x.restart_usd for x in faults), Decimal(0))
    data = {
        "window": window,
        "usd": total,
        "restart_usd": restarts,
        "nodes": _NODES.data(nodes),
        "faults": _FAULTS.data(faults),
        "rates": _RATES.data(rates),
    }
    if not faults:
        hours = sum(rate.node_hours for rate in rates)
        calm = text(f"No node broke in {hours:,.0f} node-hours observed.")
        return Card(f"No faults of nodes, {period(window)}", Tone.GOOD, (calm,), data)

    lemons = [node for node in nodes if node.returned]
    named = ", ".join(f"{node.id} ({node.returned + 1} times)" for node in lemons[:3])

    return Card(
        f"Faults: {usd(total)} by {counted(len(nodes), 'node')}, {period(window)}",
        Tone.WARNING,
        compose(
            text(
                f"{usd(total - restarts)} was lost while nodes were broken, and {usd(restarts)} more"
                " to restarts: repeating work since the newest checkpoint, starting, compiling."
            ),
            text(
                f"Broke again after a repair: {named}. A node that was only rebooted stays on its host;"
                " stop and start it, or replace it."
            )
            if lemons
            else None,
            _NODES.table(
                nodes, most=_MOST, total="total", opens=lambda x: _dossier_line(x.id, window)
            ),
            _RATES.table(rates, most=_MOST, caption="How often a node breaks"),
            quiet(
                "Estimates. A fault is an alert about broken hardware, or about a node that all others"
                " wait for; its cost is split evenly among the nodes that broke."
            ),
            Buttons(
                (
                    *(Button(f"Dossier of {x.id}", _dossier_line(x.id, window)) for x in nodes[:3]),
                    Button("Goodput", f"goodput {window_line(window)}"),
                )
            ),
        ),
        data,
    )


def _dossier_line(node: str, window: Window) -> str:
    return f"faults {window_line(window)} node={node}"


def dossier_card(node: FaultyNode, notices: Sequence[Notice], window: Window) -> Card:
    """Gather the facts of a support case: the node, each fault with its evidence, AWS's own notices."""
    labels = node.labels
    place = ", ".join(
        filter(None, (labels.instance_type, labels.zone or labels.region, labels.account))
    )
    listed: list[Block] = []
    for fault in node.faults:
        evidence = "; ".join(fault.alert.anomaly.evidence)
        listed.append(text(f"{clock(fault.window.start)}: {fault.alert.anomaly.why}"))
        listed += [quiet(f"{evidence}.")] if evidence else []
    spoken = [f"{x.kind.value} ({x.what or x.id}) at {clock(x.at)}" for x in notices]

    return Card(
        f"{node.id}: {counted(len(node.faults), 'fault')}, {usd(node.usd)}",
        Tone.WARNING,
        compose(
            text(f"Instance {node.id} ({place}), {period(window)}; all times are UTC."),
            _FAULTS.table(node.faults),
            listed,
            text(f"AWS's own notices: {'; '.join(spoken)}.") if spoken else None,
            quiet(
                "For a case with AWS Support: copy this text and add the system log and the output of"
                " neuron-ls and dmesg. Costs are those of each fault as a whole, estimated."
            ),
            Buttons(
                (
                    *(
                        Button(f"Timeline {x.alert.id}", f"timeline {x.alert.id}")
                        for x in node.faults[-2:]
                    ),
                    Button("All faults", f"faults {window_line(window)}"),
                )
            ),
        ),
        {
            "window": window,
            "node": _NODES.record(node),
            "faults": _FAULTS.data(node.faults),
            "notices": spoken,
        },
    )


@command(
    "faults",
    "What broken nodes cost: hours and dollars by node, restarts, time between faults; or one"
    " node's dossier for AWS Support.",
    needs=Needs.METRICS | Needs.DETECTOR | Needs.STATE,
    may=Needs.BILL,
    topic=Topic.COSTS,
    examples=("faults", "faults 14d", "faults 14d node=i-0a1b2c3d4e5f60718"),
    rows=("nodes",),
    figures={
        "usd": "sum over the faults of fault and restart",
        "restart_usd": "sum over the faults",
        **_NODES.sources("nodes"),
        **_NODES.sources("node"),
        **_FAULTS.sources("faults"),
        **_RATES.sources("rates"),
        "rates/node_hours": "sum over the nodes of the hours in which any metric was read",
    },
)
def faults(
    ports: Ports,
    request: Request,
    window: Window = arg("14d", "which days"),
    node: str = arg("", "one node's faults with their evidence", keyword=True),
) -> Card:
    """Count alerts about broken nodes against the nodes that broke."""
    reading = ports.world.source.read(request.at)
    time = node_time(ports, reading, window)
    of_nodes = [
        alert
        for alert in ports.stores.alerts.history(window, Labels())
        if alert.cause.facts.of_node and not MutedBy.ALERT.marks(alert)
    ]
    broken = faults_of(of_nodes, time, hours_of(Pricing(ports).at(reading.now), reading.inventory))
    nodes = by_node(broken, time)
    if node:
        dossier = find_named(
            f"No node '{node}' broke in {period(window)}",
            node,
            {x.id: x for x in nodes},
            otherwise="'faults' lists those that did",
        )
        notices = [
            notice
            for notice in reading.notices
            if notice.kind in _OF_HARDWARE and node in notice.instances and notice.at in window
        ]
        return dossier_card(dossier, notices, window)
    card = faults_card(broken, nodes, rates_of(nodes, time, window), window)

    return as_read(card, "It is not known which nodes broke", reading)
