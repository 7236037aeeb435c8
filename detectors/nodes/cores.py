"""Give evidence from the cores and devices of suspicious nodes, where they were read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bot.model.frame import Frame
from bot.model.money import counted
from detectors.arrays import Floats, Rows
from detectors.view import View
from detectors.words import percent, span

MOST = 3
"""Nodes that are spoken of one by one."""
_NEWEST = 2
"""Steps in which a core must have reported to count."""


def core_evidence(view: View, rows: Rows) -> tuple[str, ...]:
    """State for each node at `rows` whose cores were read how many stand still, and the level of the others."""
    frame = view.reading.frame("core")
    if frame is None:
        return ()
    return tuple(
        sentence for row in _named(frame, view, rows) if (sentence := _of_cores(view, frame, row))
    )


def device_evidence(view: View, rows: Rows) -> tuple[str, ...]:
    """Name the devices of the nodes at `rows` that have ECC events within the span, the worst first."""
    frame = view.reading.frame("device")
    if frame is None or not len(rows):
        return ()
    wanted = {view.roster.ids[row] for row in rows}
    steps = int(view.steps("hardware_fault.within")[rows[0]])
    events = np.nansum(frame.of("neuron_hardware_ecc_events_count")[:, -steps:], axis=1)
    counts = [
        (float(n), x.instance, x.resource)
        for n, x in zip(events, frame.things, strict=True)
        if n and x.instance in wanted
    ]
    worst = sorted(counts, key=lambda x: (-x[0], x[1:]))[:MOST]
    return tuple(f"{device} of {instance}: {n:,.0f} ECC events" for n, instance, device in worst)


def _named(frame: Frame, view: View, rows: Rows) -> list[int]:
    """Return the first rows whose cores are in the frame."""
    read = {thing.instance for thing in frame.things}
    return [int(row) for row in rows if view.roster.ids[row] in read][:MOST]


def _of_cores(view: View, frame: Frame, row: int) -> str:
    name = view.roster.ids[row]
    own = [i for i, thing in enumerate(frame.things) if thing.instance == name]
    levels = np.array(list(_newest(frame.of("neuroncore_utilization_ratio")[own])))
    read = np.isfinite(levels)
    if not read.any():
        return ""
    still = read & (levels <= float(view.number("idle.below")[row]))
    going = levels[read & ~still]
    others = f", the others at {span(float(going.min()), float(going.max()))}" if len(going) else ""
    if not still.any():
        return f"{name}: all {counted(int(read.sum()), 'core')} at {span(float(going.min()), float(going.max()))}"
    where = _places(frame, [own[i] for i in np.flatnonzero(still)]) if len(going) else ""
    standing = f"{int(still.sum())} of {counted(int(read.sum()), 'core')} at {percent(float(levels[still].max()))}"
    return f"{name}: {standing}{where}{others}"


def _places(frame: Frame, still: list[int]) -> str:
    """Name the cores that stand still, and their devices where those are known."""
    at = sorted((frame.things[i] for i in still), key=lambda x: (len(x.core), x.core))
    named = ", ".join(x.core for x in at[:4]) + (", ..." if len(at) > 4 else "")
    on = sorted({x.resource for x in at if x.resource}, key=lambda x: (len(x), x))
    return f" (core {named}" + (f" of {', '.join(on[:4])}" if on else "") + ")"


def _newest(values: Floats) -> Iterator[float]:
    """Yield each row's newest reading of the last steps, nan where it has none."""
    for row in values[:, -_NEWEST:]:
        finite = row[np.isfinite(row)]
        yield float(finite[-1]) if len(finite) else float("nan")
