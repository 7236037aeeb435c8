"""Work out how a node fits a model, and how a cluster's nodes were used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from bot.cards.card import Block, compose, quiet, text
from bot.cards.columns import TIMES, Column, Columns
from bot.costs.pricing import Pricing
from bot.model.codec import by_key
from bot.model.fleet import Instance, InstanceType, serves
from bot.model.frame import Frame
from bot.model.price import Price
from bot.ports import Ports

NEURON = ("neuroncore_utilization_ratio",)
ANY = (*NEURON, "gpu_utilization_ratio")


@dataclass(frozen=True)
class Use:
    """State how nodes were used over a time; None where nothing was read."""

    mean: float | None = None
    """The mean of every reading."""
    level: float | None = None
    """The mean over time of the nodes' mean.

    Each time weighs the same, however many nodes were read.
    """
    spread: float | None = None
    """The standard deviation of the nodes' mean over time."""
    peak_gib: float | None = None
    """The highest accelerator memory of any node."""


@dataclass(frozen=True)
class ClusterNodes:
    """State a cluster's nodes of its most common type, the mean price of their hour, and their use.

    None where no price is known, or nothing was read.
    """

    cluster: str
    type: InstanceType
    nodes: int
    region: str
    price: Price | None
    utilization: float | None

    @property
    def usd_per_hour(self) -> Decimal:
        """Return the cost of an hour of the nodes, 0 where no price is known."""
        return self.nodes * self.price.usd_per_hour if self.price else Decimal(0)


@dataclass(frozen=True)
class ClusterUse(ClusterNodes):
    """State how a cluster's nodes of its most common type were used within seven days."""

    spread: float | None
    """Standard deviation of the cluster's mean over time."""
    peak_gib: float | None
    """The highest accelerator memory of any node."""
    trains: bool
    """Whether a training run reports from it."""
    named_serving: bool
    """Whether its name or a tag says that it serves."""

    @property
    def unread(self) -> bool:
        """Return whether too little was read to say what they need."""
        return self.utilization is None or self.peak_gib is None

    @property
    def busiest(self) -> float:
        """Return the utilization that is seldom exceeded, 0..1."""
        return min(1.0, (self.utilization or 0.0) + 2 * (self.spread or 0.0))

    @property
    def peak(self) -> str | None:
        """Write the highest memory beside that of a node: `412 of 512 GiB`."""
        if self.peak_gib is None:
            return None
        return f"{self.peak_gib:,.0f} of {self.type.accelerator_memory_gib:,} GiB"


DAYS = timedelta(days=7)


def usages(ports: Ports, at: datetime) -> tuple[ClusterUse, ...]:
    """Return the use of every cluster that has accelerators known here; may block."""
    reading = ports.world.source.read(at)
    frame = reading.frame("node")
    pricing, types = Pricing(ports).at(at), ports.world.knowledge.types()
    running = by_key(
        (instance.labels.cluster, instance)
        for instance in reading.inventory.instances.values()
        if instance.running and instance.labels.instance_type in types
    )

    used = []
    for cluster, instances in sorted(running.items()):
        nodes = of_commonest_type(instances, types)
        ids = {node.id for node in nodes}
        things = enumerate(frame.things if frame else ())
        use = measured(frame, [row for row, thing in things if thing.instance in ids], DAYS)
        used.append(
            ClusterUse(
                cluster,
                types[nodes[0].labels.instance_type],
                len(nodes),
                nodes[0].labels.region,
                pricing.mean(nodes),
                use.level,
                use.spread,
                use.peak_gib,
                any(run.labels.cluster == cluster for run in reading.runs),
                any(serves(node.labels, node) for node in nodes),
            )
        )

    return tuple(used)


def of_commonest_type(
    instances: Sequence[Instance], types: Mapping[str, InstanceType]
) -> Sequence[Instance]:
    """Return the instances of the type that most are of, of those that are known; or none."""
    # Memory and work are told of one type: two would blur each other.
    counts = Counter(x.labels.instance_type for x in instances if x.labels.instance_type in types)
    commonest = [name for name, _ in counts.most_common(1)]
    return [x for x in instances if x.labels.instance_type in commonest]


def measured(
    frame: Frame | None, rows: Sequence[int], span: timedelta, metrics: Sequence[str] = NEURON
) -> Use:
    """Return how the nodes at `rows` were used over the newest `span`.

    By the first of the metrics that was read.
    """
    if frame is None or not rows:
        return Use()
    cut = frame.pick(rows).last(span)
    memory = cut.of("neuron_runtime_memory_used_bytes")
    peak = float(np.nanmax(memory)) / 2**30 if not np.isnan(memory).all() else None
    used = next((values for name in metrics if not np.isnan(values := cut.of(name)).all()), None)
    if used is None:
        return Use(peak_gib=peak)
    # A step in which no node was read has no mean.
    levels = np.nanmean(used[:, ~np.isnan(used).all(axis=0)], axis=0)

    return Use(float(used[~np.isnan(used)].mean()), float(levels.mean()), float(levels.std()), peak)


SHARES = (0.5, 0.7, 0.9)
"""Shares of a step in matmuls that are shown where nobody says the model's own."""
WORTH = 1.2
"""Gain from which FP8 is called worth a trial: trnbot's own default."""
_FP8 = "fp8"


@dataclass(frozen=True)
class Fit:
    """State a node of the new type as a multiple of one of today's, and what is told of the model.

    None: not known.
    """

    to: InstanceType
    compute: float | None
    bandwidth: float | None
    memory: float
    fp8: float | None
    """FP8's peak as a multiple of BF16's."""
    precision: str = ""
    matmul: float | None = None
    """Share of a step's time in matrix multiplications, 0..1."""

    def speedup(self, matmul: float) -> float | None:
        """Return the speed-up at equal efficiency.

        A step's matmuls by peak compute, the rest by memory bandwidth.
        """
        if not self.compute or not self.bandwidth:
            return None
        return 1 / (matmul / self.compute + (1 - matmul) / self.bandwidth)

    def fp8_most(self, matmul: float) -> float | None:
        """Return the most that FP8 adds to a step with that share; the rest gets no faster."""
        return 1 / (1 - matmul + matmul / self.fp8) if self.fp8 and self.precision != _FP8 else None

    @property
    def shares(self) -> tuple[float, ...]:
        """Return the share that was told, else several."""
        return SHARES if self.matmul is None else (self.matmul,)


def fit_of(
    old: InstanceType, new: InstanceType, precision: str = "", matmul: Decimal | None = None
) -> Fit:
    """Return how the node fits; `matmul` is in percent."""
    return Fit(
        new,
        new.bf16_tflops / old.bf16_tflops if new.bf16_tflops and old.bf16_tflops else None,
        new.memory_tb_per_second / old.memory_tb_per_second
        if new.memory_tb_per_second and old.memory_tb_per_second
        else None,
        new.accelerator_memory_gib / old.accelerator_memory_gib,
        fp8_gain(new),
        precision,
        None if matmul is None else float(matmul) / 100,
    )


def fp8_gain(kind: InstanceType) -> float | None:
    """Return FP8's peak as a multiple of BF16's, None where it is not known."""
    return kind.fp8_tflops / kind.bf16_tflops if kind.fp8_tflops and kind.bf16_tflops else None


def fit_blocks(fit: Fit) -> tuple[Block, ...]:
    """Draw what a node has more of, and what that gives the model."""
    ratios = {
        "the BF16 peak": fit.compute,
        "the memory bandwidth": fit.bandwidth,
        "the memory": fit.memory,
    }
    words = ", ".join(f"{ratio:.2f}x {name}" for name, ratio in ratios.items() if ratio)
    table = Columns[float](
        Column("of a step in matmuls", lambda share: f"{share * 100:.0f} %"),
        Column("speed at equal efficiency", fit.speedup, TIMES),
        Column("FP8 adds at most", fit.fp8_most, TIMES),
    )
    assumed = (
        "" if fit.precision else "No metric shows the precision: BF16 is assumed (precision=).",
        "Nor the share of matmuls: neuron-profile shows it (matmul=70)."
        if fit.matmul is None
        else "",
    )

    return compose(
        text(f"A node of {fit.to.name} has {words}."),
        bool(fit.compute and fit.bandwidth)
        and table.table(
            fit.shares,
            caption="By data sheets: matmuls by peak compute, the rest by memory bandwidth; how"
            " near a model comes differs",
        ),
        text(_precision(fit)),
        any(assumed) and quiet(" ".join(filter(None, assumed))),
    )


def _precision(fit: Fit) -> str:
    """Say whether FP8 suits the model, and that its loss is to be verified."""
    if fit.precision == _FP8:
        return (
            "It trains in FP8 already: FP8 adds nothing more. Verify that the loss converges as it"
            " does today."
        )
    first = "Cast it to BF16 first; these figures begin there. " if fit.precision == "fp32" else ""
    if not fit.fp8 or fit.fp8 <= 1:
        return f"{first}FP8 runs no faster than BF16 on {fit.to.name}: stay in BF16."
    if fit.matmul is None:
        return (
            f"{first}FP8's peak on {fit.to.name} is at most {fit.fp8:.2f}x BF16's: it suits a model"
            " whose matmuls take most of a step; verify that the loss still converges."
        )
    gain = fit.fp8_most(fit.matmul) or 1.0
    suits = "FP8 suits it" if gain >= WORTH else "FP8 hardly suits it"

    return (
        f"{first}{suits}: with {fit.matmul * 100:.0f} % of a step in matmuls it adds {gain:.2f}x at"
        " most; verify that the loss still converges."
    )


def fit_data(fit: Fit) -> dict[str, Any]:
    """Return it for scripts."""
    return {
        "compute_ratio": fit.compute,
        "memory_bandwidth_ratio": fit.bandwidth,
        "memory_ratio": fit.memory,
        "precision": fit.precision or None,
        "matmul_ratio": fit.matmul,
        "by_matmul": [
            {"matmul_ratio": x, "speedup": fit.speedup(x), "fp8_gain_most": fit.fp8_most(x)}
            for x in fit.shares
        ],
    }
