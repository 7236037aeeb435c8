"""Follow every compile of every node: when it began and ended, and whether its work ever ran.

A compile is `USED` where executions follow. It is `CUT` where its runtime, pod or node is surely
gone and nothing executed for `killed_compile.after`; points that are merely missing say nothing. A
pre-compile ends alike, so what executes within `REUSED` without compiling again makes it used after
all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from bot.model.run import Compile, Ending
from bot.model.window import Window
from detectors.arrays import Mask
from detectors.compile_signs import COMPILING, LULL
from detectors.view import View

LEAST = timedelta(minutes=10)
"""A compile that lasted less is none worth counting: a node's boot keeps its CPUs as busy."""
REUSED = timedelta(hours=6)
"""How long after its end a compile may first be used by another process."""


@dataclass(frozen=True)
class _CompilingNode:
    """Hold the steps of one node: where it compiled, executed, was unread or gone.

    And two lengths in steps.
    """

    compiling: Mask
    executing: Mask
    unknown: Mask
    gone: Mask
    lull: int
    reused: int

    def stretches(self) -> list[tuple[int, int]]:
        """Return the half-open steps of each compile.

        With a lull between them, the process still there, two are one.
        """
        edges = np.flatnonzero(np.diff(np.concatenate(([0], self.compiling.view(np.int8), [0]))))
        joined: list[tuple[int, int]] = []
        for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            if joined and self._goes_on(joined[-1][1], begin):
                joined[-1] = (joined[-1][0], end)
            else:
                joined.append((begin, end))
        return joined

    def ending(self, end: int, after: int, left: bool) -> Ending:
        """Return how the compile that ends before step `end` ended; `left`.

        The node itself stopped with its last reading.
        """
        used, again, gone = (_first(x, end) for x in (self.executing, self.compiling, self.gone))
        if used < again and (used < gone or used - end <= self.reused):
            return Ending.USED
        if self.unknown[end:].all():
            return (
                Ending.CUT
                if left
                else Ending.GOING
                if len(self.unknown) - end < after
                else Ending.UNKNOWN
            )
        until = min(used, again, len(self.gone))
        lasted = left or again <= until or until - gone >= after
        return Ending.CUT if gone < until and lasted else Ending.UNKNOWN

    def _goes_on(self, end: int, begin: int) -> bool:
        between = slice(end, begin)
        quiet = begin - end <= self.lull and not self.gone[between].any()
        return not self.executing[between].any() and (quiet or bool(self.unknown[between].all()))


def compiles(view: View) -> tuple[Compile, ...]:
    """Return every compile within the view's window, by node and time.

    Those that go on end at its end.
    """
    mask = view.compiling & view.limits.on("compiling.on")[:, None]
    if not mask.any():
        return ()
    away = gone(view)
    after = view.steps("killed_compile.after")
    return tuple(
        x
        for row in np.flatnonzero(mask.any(axis=1)).tolist()
        for x in _of_node(view, row, mask, away, int(after[row]))
    )


def gone(view: View) -> Mask:
    """Tell where a node surely has no process that compiles.

    Its pod or, where pods are not known, its runtime is gone.
    """
    reserved = view.metric("neuroncore_reserved_count")
    left = np.where(np.isnan(reserved), view.held == 0, reserved == 0)
    quiet = ~(view.cpu >= view.number("compiling.cpu")[:, None])
    return np.asarray(view.zero & ~view.compiling & left & quiet)


def _of_node(view: View, row: int, mask: Mask, away: Mask, after: int) -> Iterator[Compile]:
    frame = view.window
    node = _CompilingNode(
        mask[row],
        view.executing[row],
        view.unknown[row],
        away[row],
        frame.steps(LULL),
        frame.steps(REUSED),
    )
    scope = view.roster.scopes[view.roster.scope[row]]
    left = not view.roster.running[row] and _left_at_once(view, row)
    for begin, end in node.stretches():
        ending = node.ending(end, after, left)
        last = frame.n_steps if ending is Ending.GOING else end
        window = Window(frame.start + begin * frame.step, frame.start + last * frame.step)
        if ending is Ending.GOING or window.length >= LEAST:
            logged = view.logged is not None and bool(
                (view.logged[row, begin:end] == COMPILING).any()
            )
            yield Compile(view.roster.ids[row], scope, window, ending, logged)


def _left_at_once(view: View, row: int) -> bool:
    """Tell whether a node that runs no more ended when its readings did, as far as EC2 says when."""
    instance = view.reading.inventory.instances.get(view.roster.ids[row])
    ended = instance.ended_at if instance else None
    return ended is None or ended <= view.time_of(float(view.silent_steps[row])) + LULL


def _first(mask: Mask, start: int) -> int:
    """Return the first step from `start` on where it holds, far beyond the last where nowhere."""
    rest = mask[start:]
    return start + int(rest.argmax()) if rest.any() else 1 << 40
