"""Read the progress of runs: which stand still, how fast they go against their usual."""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from bot.model.frame import Frame
from detectors.arrays import Floats
from detectors.roster import scope_of
from detectors.view import View

STUCK = timedelta(minutes=20)
RECENT = timedelta(minutes=20)


def stuck_scopes(view: View) -> set[int]:
    """Return the scopes (as indices of the roster) with a run that still reports but whose step has not moved for 20 minutes."""
    return _scopes(view, moves=False)


def moving_scopes(view: View) -> set[int]:
    """Return the scopes (as indices of the roster) with a run whose step moved within 20 minutes."""
    return _scopes(view, moves=True)


def _scopes(view: View, moves: bool) -> set[int]:
    frame = view.reading.frame("run")
    if frame is None or not frame.has("run_step_count"):
        return set()
    steps = frame.last(STUCK).of("run_step_count")
    reports = (~np.isnan(steps)).mean(axis=1) >= 0.6
    chosen = reports & ((_span(steps) > 0) == moves)
    scopes = {s: i for i, s in enumerate(view.roster.scopes)}
    return {scopes[scope_of(frame.things[i])] for i in np.flatnonzero(chosen) if scope_of(frame.things[i]) in scopes}


def pace(view: View, cluster: str) -> float | None:
    """Return the pace of a cluster's training steps against its usual of the last two days; None where it is not known."""
    frame = view.reading.frame("run")
    if frame is None or not frame.has("run_step_count") or not cluster:
        return None
    rows = [i for i, x in enumerate(frame.things) if x.cluster == cluster]
    now = _speed(frame.pick(rows).last(RECENT))
    before = _speed(frame.pick(rows).until(view.now - timedelta(hours=1)).last(timedelta(days=2)))
    if now is None or before is None or before <= 0:
        return None
    return now / before


def _span(values: Floats) -> Floats:
    """Return the largest less the smallest reading of each row; -inf where there is none."""
    read = ~np.isnan(values)
    highest = np.where(read, values, -np.inf).max(axis=1)
    lowest = np.where(read, values, np.inf).min(axis=1)
    return np.asarray(highest - lowest, dtype=np.float32)


def _speed(part: Frame) -> float | None:
    """Return the median growth of the step count a frame's step, over the runs that report; falls are left out."""
    growth = np.diff(part.of("run_step_count"), axis=1)
    steps = growth[np.isfinite(growth) & (growth >= 0)]
    return float(np.median(steps)) if len(steps) >= 2 else None
