"""Show one node: its state, its open alerts, and its metrics over the last hours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from bot.answers.fleet.card import NodeRow, node_data, percent
from bot.cards.alert_words import where
from bot.cards.card import (
    Block,
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
    labels, price = (
        row.instance.labels,
        f"{usd(row.usd_per_hour)} an hour" if row.price else "price not known",
    )
    title = f"{row.instance.id}: {row.state.value}, {labels.instance_type}, {price}"
    blocks: list[Block] = [_alert(alert) for alert in alerts]
    blocks.append(Facts(tuple((name, value) for name, value in _facts(row) if value)))
    charts = node_charts(reading.frame("node"), row.instance.id)
    blocks += charts or [quiet("No metric of this node was read in the last six hours.")]
    buttons = [
        Button(f"{alert.cause.facts.words}"[:40], f"alert {alert.id}") for alert in alerts[:3]
    ]
    buttons += (
        [Button(f"All of {labels.cluster}"[:40], f"fleet {quote(labels.cluster)}")]
        if labels.cluster
        else []
    )
    blocks.append(Buttons((*buttons, Button("All clusters", "fleet"))))
    data = {
        "nodes": [node_data(row)],
        "usd_per_hour": row.usd_per_hour,
        "alerts": [alert.id for alert in alerts],
    }
    return Card(
        title, Tone.WARNING if alerts or row.state not in _WELL else Tone.INFO, tuple(blocks), data
    )


def node_charts(frame: Frame | None, instance: str) -> list[Chart]:
    """Return the charts of a node's metrics over the last six hours, those without a reading left out."""
    if frame is None:
        return []
    cut = frame.last(_SHOWN)
    at = next((i for i, thing in enumerate(cut.things) if thing.instance == instance), None)
    return [] if at is None else [chart for plot in _PLOTS if (chart := _chart(cut, at, plot))]


def _chart(frame: Frame, at: int, plot: _Plot) -> Chart | None:
    unit, scale = unit_of(plot.lines[0][1])
    series = tuple(_series(frame, at, plot, scale))
    readings = [value for line in series for value in line.values if value is not None]
    if not readings or (plot.rare and not any(readings)):
        return None
    title = plot.title or name_of(plot.lines[0][1])
    ends = [
        (line.name, [value for value in line.values if value is not None][-1]) for line in series
    ]
    summary = ", ".join(f"{name} {figure(value, unit)}".strip() for name, value in ends)
    return Chart(
        ChartKind.LINE,
        title,
        unit,
        series,
        times=tuple(frame.times()),
        summary=f"{title}: {summary}.",
    )


def _series(frame: Frame, at: int, plot: _Plot, scale: float) -> Iterator[Series]:
    for name, metric in plot.lines:
        values = frame.of(metric)[at]
        if np.isfinite(values).any():
            yield Series(
                name,
                tuple(
                    None if np.isnan(value) else round(float(value) * scale, 3) for value in values
                ),
            )


def _alert(alert: Alert) -> Block:
    hour = f", {usd(alert.waste.per_hour)} an hour" if alert.waste else ""
    since = When(alert.anomaly.window.start)
    return text(
        Strong(alert.cause.facts.words),
        f" · {where(alert)}{hour} · since ",
        since,
        " · ",
        Code(f"alert {alert.id}"),
    )


def _facts(row: NodeRow) -> Iterator[tuple[str, str]]:
    instance, labels = row.instance, row.instance.labels
    yield "Used in the last hour", percent(row.used)
    yield "Cluster", labels.cluster
    yield "Team", labels.team
    yield "Zone", labels.zone or labels.region
    yield "Market", instance.market.value.replace("_", " ")
    yield "Launched", _day(instance.launched_at)
    yield "Launched by", str(instance.launched_by or "")
    yield "Price", str(row.price.found_by) if row.price else ""


def _day(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
