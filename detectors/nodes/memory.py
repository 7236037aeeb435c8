"""Find nodes whose device memory is nearly full although it usually is not."""

from __future__ import annotations

import numpy as np

from bot.model.causes import Cause
from bot.model.money import counted
from detectors.arrays import Rows
from detectors.rule import Explanation, Rule, RuleMatch, no_match
from detectors.streak import trailing
from detectors.view import View
from detectors.words import percent, size


def find(view: View) -> RuleMatch:
    """Return nodes whose device memory is nearly full although it usually is not."""
    share = (view.memory / view.roster.memory[:, None]).astype(np.float32)
    usual = view.usual_of("neuroncore_memory_used_bytes") / view.roster.memory
    above = view.number("memory_pressure.above")
    full = share >= above[:, None]
    if not (view.is_open(Cause.MEMORY_PRESSURE.value) or full.any()):
        return no_match(view)
    steps = trailing(full, np.isnan(share))
    grown = ~(usual >= above - 0.02)
    stays = view.held_open(Cause.MEMORY_PRESSURE.value) & (view.recent(share) >= above - 0.02)
    hit = (view.eligible & grown & (steps >= view.steps("memory_pressure.for"))) | (
        view.roster.running & stays
    )
    return RuleMatch(
        hit & view.limits.on("memory_pressure.on"), steps.astype(np.float64), view.lost_share
    )


def explain(view: View, _: RuleMatch, rows: Rows) -> Explanation:
    """Explain how full the device memory is, against the type's."""
    used = view.recent(view.memory)[rows]
    share = float(np.nanmax(used / view.roster.memory[rows]))
    whole = float(np.nanmedian(view.roster.memory[rows]))
    usual = (view.usual_of("neuroncore_memory_used_bytes")[rows] / view.roster.memory[rows])[
        np.isfinite(used)
    ]
    finite = usual[np.isfinite(usual)]
    return Explanation(
        why=f"Device memory {percent(share)} full ({size(float(np.nanmax(used)))} of {size(whole)})"
        f" on {counted(len(rows), 'node')}"
        + (f", usually {percent(float(np.median(finite)))}." if len(finite) else "."),
        value=share,
        unit="ratio",
        usual=(float(finite.min()), float(finite.max())) if len(finite) else None,
        score=0.8,
    )


MEMORY_PRESSURE = Rule(Cause.MEMORY_PRESSURE, find, explain)
