"""Show one node: its state, its open alerts, and its metrics over the last hours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from bot.answers.fleet.card import NODES, STILL, NodeRow, percent
from bot.cards.alert_words import where
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
from bot.model.alert import Alert
from bot.model.anomaly import NodeState
from bot.model.frame import Frame
from bot.model.money import usd
from bot.model.reading import Reading

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
        "Launched": f"{instance.launched_at:%Y-%m-%d %H:%M} UTC",
        "Launched by": str(instance.launched_by or ""),
        "Price": str(row.price.found_by) if row.price else "",
    }
    buttons = [Button(alert.cause.facts.words[:40], f"alert {alert.id}") for alert in alerts[:3]]
    if labels.cluster:
        buttons.append(Button(f"All of {labels.cluster}"[:40], f"fleet {quote(labels.cluster)}"))

    charts = node_charts(reading.frame("node"), instance.id)
    blocks = compose(
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
        charts or quiet("No metric of this node was read in the last six hours."),
        Buttons((*buttons, Button("All clusters", "fleet"))),
    )
    data = {
        "nodes": [NODES.record(row)],
        "usd_per_hour": row.usd_per_hour,
        "alerts": [alert.id for alert in alerts],
    }
    tone = Tone.WARNING if alerts or row.state not in _WELL else Tone.INFO
    title = f"{instance.id}: {row.state.value}, {labels.instance_type}, {price}"

    return Card(title, tone, blocks, data)


def node_charts(frame: Frame | None, instance: str) -> list[Chart]:
    """Return the charts of a node's metrics over the last six hours, of those with a reading."""
    if frame is None:
        return []
    cut = frame.last(_SHOWN)
    row = next((i for i, thing in enumerate(cut.things) if thing.instance == instance), None)
    if row is None:
        return []

    charts = []
    for plot in _PLOTS:
        unit, scale = unit_of(plot.lines[0][1])
        series, newest, happened = [], [], False
        for name, metric in plot.lines:
            values = [float(value) * scale for value in cut.of(metric)[row]]
            # A metric that was never read has no line.
            if np.isnan(values).all():
                continue
            points = tuple(None if np.isnan(value) else round(value, 3) for value in values)
            series.append(Series(name, points))
            readings = [value for value in points if value is not None]
            newest.append(f"{name} {figure(readings[-1], unit)}".strip())
            happened = happened or any(readings)

        if series and (happened or not plot.rare):
            title = plot.title or name_of(plot.lines[0][1])
            charts.append(
                Chart(
                    ChartKind.LINE,
                    title,
                    unit,
                    tuple(series),
                    times=tuple(cut.times()),
                    summary=f"{title}: {', '.join(newest)}.",
                )
            )
    return charts
