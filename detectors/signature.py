"""Tell a compile from idling: what it looks like in metrics, and what the compiler's log says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from detectors.marks import COMPILING, SILENT
from detectors.streak import close_gaps, drop_singles

if TYPE_CHECKING:
    from detectors.view import View

Mask = npt.NDArray[np.bool_]

ROOMY = 0.15
"""Share of the device memory under which a busy host may be compiling: the model is not loaded yet."""
EMPTY = 0.05
"""The same where the host's CPU is not read."""


def compiling(view: View) -> Mask:
    """Tell where nodes compile, (n, n_steps): where a log says so, and where it is silent, where metrics look like it."""
    if view.said is None:
        return looks_compiling(view)
    surely = (view.said == COMPILING) & ~view.executing & ~_left(view)
    return np.asarray(surely | ((view.said == SILENT) & looks_compiling(view)))


def looks_compiling(view: View) -> Mask:
    """Tell where a node looks like it compiles: no executions, busy host CPUs, and little or no device memory held.

    Where the host's CPU is not read, a runtime that holds next to nothing is taken for one.
    """
    if not view.any_zero:
        return view.zero
    busy = view.cpu >= view.number("compiling.cpu")[:, None].astype(np.float32)
    share = view.memory / view.roster.memory[:, None].astype(np.float32)
    roomy = ~(view.held > 0) | (share < ROOMY)
    unread = np.isnan(view.cpu) & (view.held > 0) & (share < EMPTY)
    return drop_singles(close_gaps(view.zero & ((busy & roomy) | unread) & np.isnan(view.latency)))


def _left(view: View) -> Mask:
    """Tell where a process that a log calls compiling is gone: its pod, or a runtime that it had loaded."""
    had = np.maximum.accumulate(view.zero & (view.held > 0) & (view.said == COMPILING), axis=1)
    return np.asarray((view.metric("neuroncore_reserved_count") == 0) | (had & (view.held == 0)))
