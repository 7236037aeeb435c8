"""Tell which size holds a model, and which smaller one would hold what a cluster really uses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bot.model.fleet import InstanceType

BYTES_A_PARAMETER = 16
"""Mixed precision with Adam: 2 weights, 2 gradients, 12 master weights and moments (Rajbhandari et al., ZeRO, 2020)."""
ROOM = 1.25
"""Memory for activations and buffers, as a multiple of the states': trnbot's own default."""
HEADROOM = 0.9
"""Share of memory or compute that a smaller size may be filled to: trnbot's own default."""
SMALL_PARAMETERS = 100_000_000


@dataclass(frozen=True)
class Fit:
    """State how many nodes of a type hold a model's training states."""

    type: InstanceType
    nodes: int
    filled: float
    """Share of their accelerator memory."""


def training_gib(parameters: float) -> float:
    """Return the accelerator memory that training needs, in GiB."""
    return parameters * BYTES_A_PARAMETER * ROOM / 2**30


def fits(parameters: float, types: Iterable[InstanceType]) -> tuple[Fit, ...]:
    """Return the fewest nodes of each Trainium type, the fewest chips first."""
    need = training_gib(parameters)
    found = []
    for kind in types:
        if kind.accelerator.startswith("Trainium"):
            nodes = max(1, math.ceil(need / kind.accelerator_memory_gib))
            found.append(Fit(kind, nodes, need / (nodes * kind.accelerator_memory_gib)))
    return tuple(sorted(found, key=lambda x: (x.nodes * x.type.chips, x.type.name)))


def smaller(kind: InstanceType, peak_gib: float, utilization: float, types: Iterable[InstanceType]) -> tuple[InstanceType, ...]:
    """Return the family's smaller sizes that hold a node's memory peak and its work, the smallest first."""
    work = kind.bf16_tflops * utilization
    return tuple(
        sorted(
            (
                x
                for x in types
                if x.family == kind.family
                and x.chips < kind.chips
                and peak_gib <= x.accelerator_memory_gib * HEADROOM
                and work <= x.bf16_tflops * HEADROOM
            ),
            key=lambda x: x.chips,
        )
    )


def serving_sizes(
    kind: InstanceType, peak_gib: float, utilization: float, types: Iterable[InstanceType]
) -> Sequence[InstanceType]:
    """Return the Inferentia2 sizes that hold a serving node's memory peak and work, the smallest first.

    Trn3 is sold for training and serving alike, so nothing is returned for it.
    """
    if kind.family not in {"trn1", "trn1n", "trn2", "trn2u"}:
        return ()
    work = kind.bf16_tflops * utilization
    fitting = [x for x in types if x.family == "inf2" and peak_gib <= x.accelerator_memory_gib * HEADROOM]
    return sorted((x for x in fitting if work <= x.bf16_tflops * HEADROOM), key=lambda x: x.chips)
