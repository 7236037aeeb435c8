"""Answer with the fleet, and with one node of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

import numpy as np

from bot.answers.fleet.card import (
    NODE_FIGURES,
    NODES,
    STILL,
    NodeRow,
    Spread,
    fleet_card,
    idle_card,
    percent,
)
from bot.answers.fleet.compiling import COMPILES, CompileNote
from bot.cards.alert_words import price_source, where
from bot.cards.card import (
    Button,
    Buttons,
    Card,
    Chart,
    ChartKind,
    Code,
    Facts,
    Series,
    Strong,
    Tone,
    When,
    compose,
    quiet,
    text,
)
from bot.cards.charts import figure, name_of, unit_of
from bot.cards.lines import quote
from bot.costs.compiling import batches, sharing
from bot.costs.pricing import Pricing, hours_of
from bot.costs.tally import known_rows
from bot.errors import TrnbotError
from bot.grammar.names import no_cluster
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.alert import Alert
from bot.model.anomaly import NodeState
from bot.model.frame import Frame
from bot.model.money import usd
from bot.model.policy import Policy
from bot.model.reading import Reading, Scattered, coverage_of, scattered, utilization_of
from bot.model.request import Request
from bot.model.run import Ending
from bot.model.spend import Filter
from bot.model.window import Window, calendar_day
from bot.ports import Billing, Ports
from bot.watch.tick import Watch, learning

_SHOWN = timedelta(hours=6)
_WELL = {NodeState.BUSY, NodeState.COMPILING}


@dataclass(frozen=True)
class _Plot:
    """Name a chart, and its metrics by the names of their lines.

    `rare` ones are drawn only where something happened.
    """

    title: str
    lines: tuple[tuple[str, str], ...]
    rare: bool = False


_PLOTS = (
    _Plot("", (("", "neuroncore_utilization_ratio"),)),
    _Plot("", (("", "gpu_utilization_ratio"),)),
    _Plot(
        "Device memory",
        (
            ("used", "neuroncore_memory_used_bytes"),
            ("held by runtimes", "neuron_runtime_memory_used_bytes"),
        ),
    ),
    _Plot(
        "Host", (("CPU", "host_cpu_utilization_ratio"), ("memory", "host_memory_utilization_ratio"))
    ),
    _Plot("EFA", (("received", "efa_rx_bytes_per_second"), ("sent", "efa_tx_bytes_per_second"))),
    _Plot(
        "Network",
        (("received", "network_in_bytes_per_second"), ("sent", "network_out_bytes_per_second")),
    ),
    _Plot("Latency of one execution", (("", "neuron_execution_latency_seconds"),)),
    _Plot("Cores that pods have reserved", (("", "neuroncore_reserved_count"),), rare=True),
    _Plot(
        "Errors within a step",
        (
            ("executions", "neuron_execution_errors_count"),
            ("ECC", "neuron_hardware_ecc_events_count"),
            ("status checks", "status_check_failed_count"),
        ),
        rare=True,
    ),
)


def node_card(row: NodeRow, alerts: Sequence[Alert], reading: Reading) -> Card:
    """Draw one node; `alerts` are those that are open about it."""
    instance, labels, price = row.instance, row.instance.labels, "price not known"
    if row.price:
        price = f"{usd(row.usd_per_hour)} an hour"
    facts = {
        "Used now" if row.state in STILL else "Used in the last hour": percent(row.used),
        "Cluster": labels.cluster,
        "Team": labels.team,
        "Zone": labels.zone or labels.region,
        "Market": instance.market.value.replace("_", " "),
        "Launched": f"{calendar_day(instance.launched_at)}, {instance.launched_at:%H:%M} UTC",
        "Launched by": str(instance.launched_by or ""),
        "Price": price_source(row.price.found_by) if row.price else "",
    }
    buttons = [Button(alert.cause.facts.words[:40], f"alert {alert.id}") for alert in alerts[:3]]
    if labels.cluster:
        buttons.append(Button(f"All of {labels.cluster}"[:40], f"fleet {quote(labels.cluster)}"))

    return Card(
        f"{instance.id}: {row.state.value}, {labels.instance_type}, {price}",
        Tone.WARNING if alerts or row.state not in _WELL else Tone.INFO,
        compose(
            [
                text(
                    Strong(alert.cause.facts.words),
                    f" · {where(alert)}",
                    f"{f', {usd(alert.waste.per_hour)} an hour' if alert.waste else ''} · since ",
                    When(alert.anomaly.window.start),
                    " · ",
                    Code(f"alert {alert.id}"),
                )
                for alert in alerts
            ],
            Facts(tuple((name, words) for name, words in facts.items() if words)),
            list(node_charts(reading.frame("node"), instance.id))
            or quiet("No metric of this node was read in the last six hours."),
            Buttons((*buttons, Button("All clusters", "fleet"))),
        ),
        {
            "nodes": [NODES.record(row)],
            "usd_per_hour": row.usd_per_hour,
            "alerts": [alert.id for alert in alerts],
        },
    )


def node_charts(frame: Frame | None, instance: str) -> Iterator[Chart]:
    """Yield the charts of a node's metrics over the last six hours, of those with a reading."""
    if frame is None:
        return
    cut = frame.last(_SHOWN)
    row = next((i for i, thing in enumerate(cut.things) if thing.instance == instance), None)
    if row is None:
        return

    for plot in _PLOTS:
        unit, scale = unit_of(plot.lines[0][1])
        drawn: dict[str, tuple[float | None, ...]] = {}
        readings: dict[str, list[float]] = {}
        for name, metric in plot.lines:
            values = [round(float(value) * scale, 3) for value in cut.of(metric)[row]]
            drawn[name] = tuple(None if np.isnan(value) else value for value in values)
            readings[name] = [value for value in drawn[name] if value is not None]

        # A metric that was never read has no line.
        plotted = [name for name in drawn if readings[name]]
        if plotted and (any(map(any, readings.values())) or not plot.rare):
            title = plot.title or name_of(plot.lines[0][1])
            newest = [f"{name} {figure(readings[name][-1], unit)}".strip() for name in plotted]
            yield Chart(
                ChartKind.LINE,
                title,
                unit,
                tuple(Series(name, drawn[name]) for name in plotted),
                times=tuple(cut.times()),
                summary=f"{title}: {', '.join(newest)}.",
            )


_WEEK = timedelta(days=7)
_CROSSES = re.compile(r"DataTransfer-(Regional|xAZ)", re.IGNORECASE)
"""Usage types of bytes between zones of a region, of both kinds that AWS bills."""
_LATELY = timedelta(hours=6)
"""How long a compile that was cut off is worth a line."""


@command(
    "fleet",
    "Running nodes by cluster, state, utilization and price.",
    needs=Needs.METRICS | Needs.DETECTOR | Needs.STATE,
    may=Needs.BILL,
    topic=Topic.COSTS,
    examples=("fleet", "fleet llama"),
    aliases=("status",),
    figures={
        **NODE_FIGURES,
        **COMPILES.sources("compiles"),
        "scattered/cross_zone_usd": (
            "amortised cost of the last week's usage types of traffic between zones"
        ),
        "zones/*": "count of the job's nodes in the zone",
    },
)
def fleet(
    ports: Ports,
    request: Request,
    cluster: str = arg("", "only this cluster, or one node with its metrics"),
) -> Card:
    """Summarise the fleet, list one cluster's nodes, or show one node."""
    rows, reading = look_over(ports, request.at)
    node = next((row for row in rows if cluster and row.instance.id == cluster), None)
    if node:
        alerts = ports.stores.alerts.load(request.at).alerts
        about = [alert for alert in alerts if alert.firing and cluster in alert.anomaly.things]
        card = node_card(node, about, reading)
    else:
        notes = list(_compiles(ports, reading, cluster))
        week = Window(request.at - _WEEK, request.at)
        spread = [
            _crossing(ports.world.billing, job, week)
            for job in scattered(reading)
            if cluster in ("", job.cluster)
        ]
        card = fleet_card(_of_cluster(rows, cluster, reading), cluster, reading, spread, notes)

    return with_age(card, reading, request.at, ports.policy)


def _crossing(billing: Billing, job: Scattered, window: Window) -> Spread:
    """Ask for the traffic of the job's cluster, else of all.

    Tags seldom reach this line of the bill.
    """
    for only in ([Filter("cluster", (job.cluster,))] if job.cluster else [], []):
        rows = known_rows(billing, window, ("usage_type",), only, TrnbotError)
        crossing = sum(
            (row.money.amortised for row in rows if _CROSSES.search(row.key["usage_type"])),
            Decimal(0),
        )
        if crossing:
            return Spread(job, crossing, window, bool(only))
    return Spread(job)


@command(
    "idle",
    "Nodes that do nothing, and their cost an hour.",
    needs=Needs.METRICS | Needs.DETECTOR | Needs.STATE,
    may=Needs.BILL,
    topic=Topic.COSTS,
    examples=("idle", "idle llama"),
    figures=NODE_FIGURES,
)
def idle(ports: Ports, request: Request, cluster: str = arg("", "only this cluster")) -> Card:
    """List idle nodes, those without a runtime apart from those that hold one."""
    rows, reading = look_over(ports, request.at)
    rows = _of_cluster(rows, cluster, reading)
    unsure = 0
    if frame := reading.frame("node"):
        # A node whose host CPU was not read over the last hour may as well compile.
        hour = frame.last(timedelta(hours=1))
        silent = np.isnan(hour.of("host_cpu_utilization_ratio")).all(axis=1)
        unread = {frame.things[i].instance for i in np.flatnonzero(silent)}
        unsure = sum(row.state is NodeState.IDLE and row.instance.id in unread for row in rows)

    return with_age(idle_card(rows, cluster, reading, unsure), reading, request.at, ports.policy)


def standing_card(ports: Ports, request: Request, cluster: str) -> Card | None:
    """Return how a cluster that no alert is about stands now, None where no such cluster runs.

    May block.
    """
    rows, reading = look_over(ports, request.at)
    nodes = [row for row in rows if cluster and row.instance.labels.cluster == cluster]
    if not nodes:
        return None
    card = fleet_card(nodes, cluster, reading, (), list(_compiles(ports, reading, cluster)))
    sentence = text(
        f"No alert of the last 15 days is about {cluster}: the bot sees nothing that holds it"
        " back. Now:"
    )

    return with_age(
        replace(card, blocks=(sentence, *card.blocks)), reading, request.at, ports.policy
    )


def look_over(ports: Ports, now: datetime) -> tuple[list[NodeRow], Reading]:
    """Return every node with its state, utilization over the last hour and price; may block."""
    # First: where nobody watches it is refused, before metrics are paid for.
    memory = ports.stores.alerts.load(now)
    reading = Watch(ports, ()).read(now)
    detection = ports.world.detect(reading, ports.policy, memory.alerts)
    states = detection.states
    for_nothing = (x for x in detection.anomalies if x.cause.facts.kept_for_nothing)
    free = {thing for anomaly in for_nothing for thing in anomaly.things}
    pricing = Pricing(ports).at(now)

    # Of a node without cores its GPUs count, of one without a reading nothing is said.
    used: dict[str, float] = {}
    if frame := reading.frame("node"):
        hour = frame.last(timedelta(hours=1))
        values = utilization_of(hour)
        counts = (~np.isnan(values)).sum(axis=1)
        means = np.nansum(values, axis=1) / counts.clip(1)
        readings = zip(frame.things, means, counts, strict=True)
        used = {thing.instance: float(mean) for thing, mean, count in readings if count}
        # What a node did before it stood still would contradict its state.
        used |= {
            thing.instance: float(level)
            for thing, level in zip(frame.things, values[:, -1], strict=True)
            if states.get(thing.instance) in STILL and not np.isnan(level)
        }

    rows = [
        NodeRow(
            instance,
            states.get(instance.id, NodeState.NO_DATA),
            used.get(instance.id),
            pricing.instance(instance),
            instance.id in free,
        )
        for instance in reading.inventory.instances.values()
        if instance.running
    ]

    return rows, reading


def _compiles(ports: Ports, reading: Reading, cluster: str) -> Iterator[CompileNote]:
    """Yield the compiles that go on or were cut off lately, with the settings that hold there."""
    compiles = [
        x
        for x in ports.world.compiles(reading, ports.policy, reading.now - _LATELY)
        if cluster in ("", x.scope.cluster)
    ]

    # Nodes that compiled within two weeks, and then worked: their cache went cold.
    worked: set[str] = set()
    if any(x.ending is Ending.GOING for x in compiles):
        earlier = ports.world.compiles(reading, ports.policy, reading.now - 2 * _WEEK)
        worked = {x.instance for x in earlier if x.ending is Ending.USED}

    for batch in batches(compiles, hours_of(Pricing(ports).at(reading.now), reading.inventory)):
        policy = ports.policy.at(batch.compiles[0].scope)
        nodes = {x.instance for x in batch.compiles}
        yield CompileNote(
            batch,
            policy.duration("compiling.grace"),
            int(policy.number("compiling.nodes")),
            sharing(batch, reading.marks),
            # One node that is new to the work makes no cold cache: half of them have to know it.
            again=batch.ending is Ending.GOING and 2 * len(nodes & worked) >= len(nodes),
        )


def _of_cluster(rows: list[NodeRow], cluster: str, reading: Reading) -> list[NodeRow]:
    if not cluster or (not rows and reading.gaps):
        return rows
    nodes = [row for row in rows if row.instance.labels.cluster == cluster]
    if not nodes:
        raise no_cluster(cluster, sorted({row.instance.labels.cluster for row in rows} - {""}))
    return nodes


_OLD = timedelta(minutes=1)
"""How much older than the question a reading may be without a word."""


def with_age(card: Card, reading: Reading, at: datetime, policy: Policy) -> Card:
    """Say of when an old reading is, and how much history is known while that is little.

    AWS may be asked for minutes, and nobody waits for it.
    """
    blocks, data = [*card.blocks], {**card.data, **coverage_of(reading).data}
    if history := learning(reading, policy):
        blocks, data = [*blocks, quiet(history)], {**data, "learning": history}
    if at - reading.now >= _OLD:
        age = quiet("AWS is being read; this is as of ", When(reading.now), ".")
        blocks, data = [*blocks, age], {**data, "read_at": reading.now}

    return replace(card, blocks=tuple(blocks), data=data)
