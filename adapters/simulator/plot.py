"""Draw a recording, to see whether it looks like life.

`python -m adapters.simulator.plot DIR CLUSTER OUT.png [HOUR HOUR]`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import duckdb
import numpy as np
from matplotlib.figure import Figure

from adapters.simulator.metrics import quoted
from adapters.simulator.signals import Array

SHOWN = (
    ("node_neuroncore_utilization", "NeuronCore %", 1.0),
    ("node_cpu_utilization", "host CPU %", 1.0),
    ("node_neurondevice_runtime_memory_used_bytes", "device memory GiB", 2.0**-30),
    ("node_neuron_execution_latency", "latency s", 1.0),
    ("node_efa_rx_bytes", "EFA rx GB/s a NIC", 1e-9),
    ("node_neurondevice_hw_ecc_events_total", "ECC events", 16.0),
)


def series(folder: Path, cluster: str, metric: str) -> dict[str, tuple[Array, Array]]:
    """Return hours since the first point and sum / count for each node of a cluster, by instance id."""
    query = f"""
        SELECT dimensions['InstanceId'] AS node, "timestamp" / 3.6e6, "value".sum / "value".count
        FROM read_parquet({quoted(str(folder))} || '/metrics/' || ? || '/**/*.parquet')
        WHERE metric_name = ? AND cardinality(dimensions) = 3 ORDER BY ALL
    """  # noqa: S608 - the folder is quoted
    rows = duckdb.connect().execute(query, [cluster, metric]).fetchall()
    first = min((hour for _, hour, _ in rows), default=0.0)
    points_of: dict[str, list[tuple[float, float]]] = {}
    for node, hour, value in rows:
        points_of.setdefault(node, []).append((hour - first, value))
    return {
        node: (np.array([p[0] for p in points]), np.array([p[1] for p in points]))
        for node, points in points_of.items()
    }


def draw(folder: Path, cluster: str, hours: tuple[float, float] | None = None) -> Figure:
    """Return a figure with one panel a metric and one thin line a node; gaps stay gaps."""
    figure = Figure(figsize=(15, 2.1 * len(SHOWN)), layout="constrained")
    axes = figure.subplots(len(SHOWN), 1, sharex=True)
    for axis, (metric, label, scale) in zip(axes, SHOWN, strict=True):
        for at, value in series(folder, cluster, metric).values():
            between = np.diff(at)
            jump = np.flatnonzero(between > 3 * (np.median(between) if between.size else 1)) + 1
            axis.plot(
                np.insert(at, jump, np.nan),
                np.insert(value * scale, jump, np.nan),
                lw=0.5,
                alpha=0.6,
            )
        axis.set_ylabel(label, fontsize=8)
        axis.grid(alpha=0.3)
    if hours:
        axes[0].set_xlim(*hours)
    axes[0].set_title(f"{folder.name}: {cluster}")
    axes[-1].set_xlabel("hours since the first point")
    return figure


def main(words: Sequence[str]) -> int:
    """Draw one cluster of a Parquet recording into a PNG."""
    folder, cluster, out, *hours = words
    span = (float(hours[0]), float(hours[1])) if len(hours) == 2 else None
    draw(Path(folder), cluster, span).savefig(out, dpi=80)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
