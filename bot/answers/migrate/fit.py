"""Work out how a node fits a model.

By compute, memory bandwidth, precision, and the share of a step in matmuls.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from bot.cards.card import Align, Block, Column, Table, quiet, text
from bot.model.fleet import InstanceType

SHARES = (0.5, 0.7, 0.9)
"""Shares of a step in matmuls that are shown where nobody says the model's own."""
WORTH = 1.2
"""Gain from which FP8 is called worth a trial: trnbot's own default."""
_FP8, _BF16 = "fp8", "bf16"


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
        """Return the most that FP8 adds to a step with that share: the rest of it gets no faster."""
        return 1 / (1 - matmul + matmul / self.fp8) if self.fp8 and self.precision != _FP8 else None

    @property
    def shares(self) -> tuple[float, ...]:
        """Return the share that was told, else several."""
        return SHARES if self.matmul is None else (self.matmul,)


def fit_of(
    old: InstanceType, new: InstanceType, precision: str = "", matmul: Decimal | None = None
) -> Fit:
    """Return how the node fits; `matmul` is in percent."""
    compute = new.bf16_tflops / old.bf16_tflops if new.bf16_tflops and old.bf16_tflops else None
    bandwidth = (
        new.memory_tb_per_second / old.memory_tb_per_second
        if new.memory_tb_per_second and old.memory_tb_per_second
        else None
    )
    memory = new.accelerator_memory_gib / old.accelerator_memory_gib
    share = None if matmul is None else float(matmul) / 100
    return Fit(new, compute, bandwidth, memory, fp8_gain(new), precision, share)


def fp8_gain(kind: InstanceType) -> float | None:
    """Return FP8's peak as a multiple of BF16's, None where it is not known."""
    return kind.fp8_tflops / kind.bf16_tflops if kind.fp8_tflops and kind.bf16_tflops else None


_R = Align.RIGHT


def fit_blocks(fit: Fit) -> list[Block]:
    """Draw what a node has more of, and what that gives the model."""
    words = ", ".join(
        f"{ratio:.2f}x {name}"
        for ratio, name in (
            (fit.compute, "the BF16 peak"),
            (fit.bandwidth, "the memory bandwidth"),
            (fit.memory, "the memory"),
        )
        if ratio
    )
    blocks: list[Block] = [text(f"A node of {fit.to.name} has {words}.")]
    if fit.compute and fit.bandwidth:
        rows = tuple(
            (f"{share * 100:.0f} %", _times(fit.speedup(share)), _times(fit.fp8_most(share)))
            for share in fit.shares
        )
        columns = (
            Column("of a step in matmuls"),
            Column("speed at equal efficiency", _R),
            Column("FP8 adds at most", _R),
        )
        blocks.append(
            Table(
                columns,
                rows,
                caption="By data sheets: matmuls by peak compute, the rest by memory bandwidth; how near a model comes differs",
            )
        )
    return (
        [*blocks, text(_precision(fit)), quiet(_untold(fit))]
        if _untold(fit)
        else [*blocks, text(_precision(fit))]
    )


def _times(gain: float | None) -> str:
    return "–" if gain is None else f"{gain:.2f}x"


def _precision(fit: Fit) -> str:
    """Say whether FP8 suits the model, and that its loss is to be verified."""
    if fit.precision == _FP8:
        return "It trains in FP8 already: FP8 adds nothing more. Verify that the loss converges as it does today."
    first = "Cast it to BF16 first; these figures begin there. " if fit.precision == "fp32" else ""
    if not fit.fp8 or fit.fp8 <= 1:
        return f"{first}FP8 runs no faster than BF16 on {fit.to.name}: stay in BF16."
    if fit.matmul is None:
        peak = f"FP8's peak on {fit.to.name} is at most {fit.fp8:.2f}x BF16's"
        return f"{first}{peak}: it suits a model whose matmuls take most of a step; verify that the loss still converges."
    gain = fit.fp8_most(fit.matmul) or 1.0
    suits = "FP8 suits it" if gain >= WORTH else "FP8 hardly suits it"
    share = f"with {fit.matmul * 100:.0f} % of a step in matmuls it adds {gain:.2f}x at most"
    return f"{first}{suits}: {share}; verify that the loss still converges."


def _untold(fit: Fit) -> str:
    """Say what is assumed, and how to find it out."""
    told = []
    if not fit.precision:
        told.append("No metric tells the precision: BF16 is assumed (precision=).")
    if fit.matmul is None:
        told.append("Nor the share of matmuls: neuron-profile shows it (matmul=70).")
    return " ".join(told)


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
