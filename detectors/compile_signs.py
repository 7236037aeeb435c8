"""Tell where a node compiles: by its compiler's log where there is one, else by its metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bot.model.compile import CompileMark, Mark
from bot.model.frame import Frame
from bot.model.window import Window
from detectors.arrays import Mask
from detectors.roster import Roster
from detectors.streak import close_gaps, drop_singles

if TYPE_CHECKING:
    from detectors.view import View


LogStates = npt.NDArray[np.int8]
COMPILING, OVER, SILENT = 1, 0, -1
"""What a log says of a step; `SILENT` leaves it to the metrics."""
LULL = timedelta(minutes=10)
"""Graphs of one start follow each other within so long."""
SETTLED = timedelta(minutes=30)
"""How long after its last end a log is believed that nothing compiles: a new process may log elsewhere."""
LONGEST = timedelta(days=1)
"""A compile whose end never came into the log is taken for over after so long."""


def states_in_log(marks: Sequence[CompileMark], frame: Frame, roster: Roster) -> LogStates | None:
    """Return what logs say of each node and step, (n, n_steps); None where they say nothing."""
    mine: dict[str, list[CompileMark]] = {}
    for one in marks:
        if one.instance in roster.row and one.at > frame.start - LONGEST:
            mine.setdefault(one.instance, []).append(one)
    if not mine or not frame.n_steps:
        return None
    said = np.full((len(roster.ids), frame.n_steps), SILENT, dtype=np.int8)
    for instance, lines in mine.items():
        row = roster.row[instance]
        for span in _spans(lines, frame.end):
            first, last = _step(span.start, frame), _step(span.end, frame) + 1
            after = min(last + frame.steps(SETTLED), frame.n_steps)
            if span.end < frame.end:
                said[row, max(0, last) : max(0, after)] = OVER
            said[row, max(0, first) : max(0, last)] = COMPILING
    return said


def _spans(marks: Sequence[CompileMark], now: datetime) -> Iterator[Window]:
    """Yield when a node compiled, by its log alone; spans with less than a lull between them are one."""
    joined: list[Window] = []
    for one in sorted(_open_spans(marks, now)):
        if joined and one.start - joined[-1].end <= LULL:
            joined[-1] = Window(joined[-1].start, max(joined[-1].end, one.end))
        else:
            joined.append(one)
    yield from joined


def _open_spans(marks: Sequence[CompileMark], now: datetime) -> Iterator[Window]:
    """Yield from when to when each graph of each stream was compiled."""
    begun: dict[tuple[str, str], datetime] = {}
    for one in sorted(marks, key=lambda x: x.at):
        if one.mark is Mark.BEGUN:
            begun.setdefault((one.stream, one.module), one.at)
            continue
        for key in _ended(one, [key for key in begun if key[0] == one.stream]):
            start = begun.pop(key)
            yield Window(start, min(one.at, start + LONGEST))
    yield from (Window(start, min(now, start + LONGEST)) for start in begun.values() if start <= now)


def _ended(one: CompileMark, compiling: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return which graphs of its stream a line ends; one that names none ends the only one there is."""
    if one.mark is Mark.OVER:
        return compiling
    if one.mark not in (Mark.DONE, Mark.FAILED):
        return []
    named = [key for key in compiling if key[1] == one.module] if one.module else []
    return named or (compiling if len(compiling) == 1 and not one.module else [])


def _step(at: datetime, frame: Frame) -> int:
    """Return the step that holds an instant, beyond the frame's ends too."""
    return min(frame.n_steps - 1, -((frame.start - at) // frame.step) - 1) if at > frame.start else -1


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
