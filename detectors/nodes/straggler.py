"""Find the one node for which the others of its job wait.

It works while they rest in each step, or its host is at its end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from detectors.arrays import Floats, Mask, Rows, middle_of
from detectors.usual import LATENCY, SENT
from detectors.view import View
from detectors.words import percent

LEAST = 3
"""Nodes that must wait before one is said to be slow."""
BUSY = 0.95
"""Share of its usual utilization from which a node works while its peers wait."""
AHEAD = 0.25
"""How much more of its usual it must work than they do."""
SLOWER = 1.3
"""Share of the usual latency from which executions are slower: those of one job end together."""
TOGETHER = 0.25
"""How far apart the latencies and the EFA of nodes in step may lie, as shares of their usual."""
_CPU_ABOVE = 0.25
"""How far above its usual the CPU of the slow host is, and that of no other."""


@dataclass(frozen=True)
class Straggler:
    """Name the slow node, what shows it, and how many others wait."""

    instance: str
    sign: str
    waiting: int


def straggler(view: View, rows: Rows) -> Straggler | None:
    """Return the node for which those at `rows`, which fell under their usual, wait.

    None where none stands out.
    """
    if len(rows) < LEAST:
        return None
    peers = np.flatnonzero(view.fellows(rows))
    fallen = np.isin(peers, rows)
    if fallen.sum() < max(LEAST, 0.5 * len(rows)):
        return None
    return _that_works(view, peers, fallen) or _with_busy_host(view, peers, fallen)


def _that_works(view: View, peers: Rows, fallen: Mask) -> Straggler | None:
    """Return the only node that works on as before though its executions slowed down as those of all others did."""
    level = _share(view, view.utilization, view.levels[1], peers)
    slower = _share(view, view.latency, view.usual_of(LATENCY), peers)
    sent = _share(view, view.metric(SENT), view.usual_of(SENT), peers)
    waits = float(np.nanmedian(level[fallen]))
    working = ~fallen & (level >= max(BUSY, waits + AHEAD))
    if working.sum() != 1 or fallen.sum() < len(peers) - 1:
        return None
    one = int(np.flatnonzero(working)[0])
    late, silent = middle_of(slower[fallen]), middle_of(sent[fallen])
    in_step = late >= SLOWER and abs(slower[one] - late) <= TOGETHER * late
    in_step |= (
        bool(np.isnan(slower[one]))
        and silent < BUSY - AHEAD
        and abs(sent[one] - silent) <= TOGETHER
    )
    if not in_step:
        return None
    here = percent(float(view.recent(view.utilization)[peers[one]]))
    there = percent(middle_of(view.recent(view.utilization)[peers[fallen]]))
    sign = f"its cores are busy at {here}, those of the others at {there}" + (
        f", and an execution takes all of them {late:.1f}x its usual time" if late >= SLOWER else ""
    )
    return Straggler(view.roster.ids[peers[one]], sign, int(fallen.sum()))


def _with_busy_host(view: View, peers: Rows, fallen: Mask) -> Straggler | None:
    """Return the only node whose host is at its end while all others' rest as usual.

    Its loader holds up the whole job.
    """
    cpu = view.recent(view.cpu)[peers]
    above = cpu - view.usual_of("host_cpu_utilization_ratio")[peers]
    busy = (cpu >= view.number("starved.cpu")[peers]) & (above >= _CPU_ABOVE)
    if (
        busy.sum() != 1
        or np.isnan(above).any()
        or (above[~busy] > _CPU_ABOVE / 2).any()
        or fallen.sum() < len(peers) - 1
    ):
        return None
    one = int(np.flatnonzero(busy)[0])
    sign = f"its host's CPU is at {percent(float(cpu[one]))}, that of the others at {percent(middle_of(cpu[~busy]))}"
    return Straggler(view.roster.ids[peers[one]], sign, int((fallen & ~busy).sum()))


def _share(view: View, values: Floats, usual: Floats, rows: Rows) -> Floats:
    return np.asarray(
        view.recent(values)[rows] / np.where(usual[rows] > 0, usual[rows], np.nan), dtype=np.float32
    )
