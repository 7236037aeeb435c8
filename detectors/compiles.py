"""Follow every compile of every node, and tell which starts of a job compiled work that had run before."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from bot.model.frame import Frame
from bot.model.money import counted
from bot.model.run import Compile, Ending
from bot.model.window import Window
from detectors.arrays import Floats, Mask, Rows
from detectors.readings import COMPILING, LULL
from detectors.roster import Limits, build_roster, scope_of
from detectors.usual import NOTHING, SAME
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
    """Return where a node surely has no process that compiles.

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
    """Return whether a node that runs no more ended when its readings did, as far as EC2 says when."""
    instance = view.reading.inventory.instances.get(view.roster.ids[row])
    ended = instance.ended_at if instance else None
    return ended is None or ended <= view.time_of(float(view.silent_steps[row])) + LULL


def _first(mask: Mask, start: int) -> int:
    """Return the first step from `start` on where it holds, far beyond the last where nowhere."""
    rest = mask[start:]
    return start + int(rest.argmax()) if rest.any() else 1 << 40


SHOWN = timedelta(minutes=45)
"""How long after a compile its work is looked at, by its memory and its runs."""
RAN = timedelta(minutes=30)
"""Work that must have been seen before a start for it to be none of something new."""
_NONE = float("nan")
_ATTEMPT = re.compile(
    r"(?:[-_.](?:\d{6,}(?:[-_.T]?\d{4,6}Z?)?|(?:r|run|trial|try|retry|attempt)[-_]?\d+))+$",
    re.ASCII,
)


@dataclass(frozen=True)
class Start:
    """Hold the compiles of one start of a job, the names of the job, the memory it holds when it works, whether it ran before."""

    compiles: tuple[Compile, ...]
    names: frozenset[str]
    memory: float
    again: bool

    @property
    def window(self) -> Window:
        """Return the time from the first node's begin to the last one's end."""
        return Window(
            min(x.window.start for x in self.compiles), max(x.window.end for x in self.compiles)
        )

    @property
    def hours(self) -> float:
        """Return the node-hours of the start."""
        return sum(x.hours for x in self.compiles)

    @property
    def instances(self) -> frozenset[str]:
        """Return the nodes that compiled."""
        return frozenset(x.instance for x in self.compiles)

    @property
    def goes_on(self) -> bool:
        """Return whether it still compiles."""
        return any(x.ending is Ending.GOING for x in self.compiles)

    def same_work(self, other: Start) -> bool:
        """Return whether both are of one job.

        By their names, else their memory, else as most of the nodes are the same.
        """
        if self.names and other.names:
            return bool(self.names & other.names)
        if not (np.isnan(self.memory) or np.isnan(other.memory)):
            return abs(self.memory / other.memory - 1) <= SAME
        return 2 * len(self.instances & other.instances) >= len(other.instances)


def job_of(name: str) -> str:
    """Return a name without the date or the number of the attempt at its end."""
    return _ATTEMPT.sub("", name) or name


def starts(view: View, scope: int, least: timedelta) -> list[Start]:
    """Return the starts of a scope that compiled for `least` or longer and then worked, or still compile, oldest first."""
    past = of_rows(view, np.flatnonzero(view.roster.scope == scope), view.whole)
    counted = [x for x in compiles(past) if x.ending in (Ending.USED, Ending.GOING)]
    groups = [Start(tuple(group), frozenset(), _NONE, again=False) for group in _together(counted)]
    runs = _runs_of(view, scope)
    return [_known(start, past, runs) for start in groups if start.window.length >= least]


def _runs_of(view: View, scope: int) -> Frame | None:
    """Return the progress of a scope's runs, None where none is read."""
    frame = view.reading.frame("run")
    if frame is None or not frame.has("run_step_count"):
        return None
    here = view.roster.scopes[scope]
    part = frame.pick([i for i, x in enumerate(frame.things) if scope_of(x) == here])
    return replace(part, metrics=("run_step_count",), values=part.of("run_step_count")[:, :, None])


def of_rows(view: View, rows: Rows, frame: Frame) -> View:
    """Return a view of some nodes alone over all of `frame`.

    Few compile, and a long time of all of them is much.
    """
    part = frame.pick(rows)
    limits = Limits(view.policy, build_roster(part.things, view.reading.inventory))
    return View(view.reading, view.policy, limits, NOTHING, part, part, {})


@dataclass(frozen=True)
class Cold:
    """Hold a start, and those before at which its work, that had run, compiled too."""

    newest: Start
    earlier: tuple[Start, ...]

    @property
    def named(self) -> bool:
        """Return whether names tell that all are starts of one job."""
        return bool(self.newest.names)

    @property
    def hours(self) -> float:
        """Return the node-hours of all these starts."""
        return sum(x.hours for x in (*self.earlier, self.newest))

    def history(self) -> str:
        """Say how often this work compiled again, since when, and what all of it took."""
        times, first = counted(1 + len(self.earlier), "start"), self.earlier[0].window.start
        return f"this work ran before, and {times} since {first:%Y-%m-%d %H:%M} UTC compiled for {self.hours:,.1f} node-hours"

    def job_words(self) -> str:
        """Say of which job the newest start is, as far as a name tells."""
        return f" as {' or '.join(sorted(self.newest.names))} started" if self.named else ""

    def lost_hours(self, ids: Sequence[str]) -> dict[str, float]:
        """Return the node-hours of all these starts as hours of the nodes of the newest.

        Those of the earlier may be gone.
        """
        mine = dict.fromkeys(ids, sum(x.hours for x in self.earlier) / len(ids))
        for one in self.newest.compiles:
            if one.instance in mine:
                mine[one.instance] += one.hours
        return mine


def cold_start(view: View, rows: Rows) -> Cold | None:
    """Return the newest start of the nodes at `rows`, all of one scope, and those before at which the same work compiled again.

    A first compile is due, and one more may be a change; None where it is no more than that.
    """
    mine = {view.roster.ids[row] for row in rows}
    again = float(view.steps("cold_cache.again")[rows[0]]) * view.window.step
    every = starts(view, int(view.roster.scope[rows[0]]), again / 2)
    newest = next((one for one in reversed(every) if mine & one.instances), None)
    if newest is None:
        return None
    alike = tuple(
        x for x in every if x.window.end <= newest.window.start and x.again and x.same_work(newest)
    )
    lengths = [x.window.length for x in (*alike, newest)]
    return (
        Cold(newest, alike) if alike and sum(lengths, timedelta(0)) > again * len(lengths) else None
    )


def _together(many: Iterable[Compile]) -> list[list[Compile]]:
    """Group the compiles that began together."""
    groups: list[list[Compile]] = []
    for one in sorted(many, key=lambda x: (x.window.start, x.instance)):
        if groups and one.window.start - groups[-1][0].window.start <= LULL:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _known(start: Start, past: View, runs: Frame | None) -> Start:
    """Return the start with what is known of its job, and whether it ran before."""
    rows = np.array(past.roster.rows_of(sorted(start.instances)), dtype=np.intp)
    tags = frozenset(
        job_of(past.roster.labels[row].job) for row in rows if past.roster.labels[row].job
    )
    if start.goes_on:
        return replace(start, names=tags)
    jobs = _went_on(runs, start.window) if runs else frozenset()
    memory = _memory(past, rows, start.window)
    again = (
        _reported_before(runs, jobs, start.window)
        if runs and jobs
        else _held_before(past, memory, start.window)
    )
    return replace(start, names=tags | jobs, memory=memory, again=again)


def _memory(past: View, rows: Rows, window: Window) -> float:
    """Return the memory that the nodes hold as they work after a compile, nan where none does."""
    cut = slice(_step(past.window, window.end), _step(past.window, window.end + SHOWN))
    held = past.memory[rows, cut][past.executing[rows, cut]]
    held = held[held > 0]
    return float(np.median(held)) if len(held) else _NONE


def _held_before(past: View, memory: float, window: Window) -> bool:
    """Return whether a node of the scope worked with this memory before a compile.

    Any work counts where memory is not read.
    """
    until = _step(past.window, window.start)
    worked = past.executing[:, :until]
    alike = (
        worked
        if np.isnan(memory)
        else worked & (np.abs(past.memory[:, :until] / memory - 1) <= SAME)
    )
    return bool(alike.sum(axis=1).max(initial=0) >= past.window.steps(RAN))


def _went_on(runs: Frame, window: Window) -> frozenset[str]:
    """Return the jobs of the runs that stood still during a compile, and made progress soon after."""
    begin, end = _step(runs, window.start), _step(runs, window.end)
    moved = _moved(runs.of("run_step_count")[:, begin : _step(runs, window.end + SHOWN)])
    going = moved[:, end - begin :].any(axis=1) & ~moved[:, 1 : end - begin - 1].any(axis=1)
    return frozenset(job_of(runs.things[i].job) for i in np.flatnonzero(going))


def _moved(steps: Floats) -> Mask:
    """Return where the step count of each run is another than in the step before, or is reported again."""
    moved = np.zeros(steps.shape, dtype=bool)
    moved[:, 1:] = (np.diff(steps, axis=1) != 0) & ~np.isnan(steps[:, 1:])
    return moved


def _reported_before(runs: Frame, jobs: frozenset[str], window: Window) -> bool:
    """Return whether a run of the jobs was seen before."""
    rows = [i for i, x in enumerate(runs.things) if job_of(x.job) in jobs]
    seen = ~np.isnan(runs.of("run_step_count")[rows, : _step(runs, window.start)])
    return bool(seen.sum() >= runs.steps(RAN))


def _step(frame: Frame, at: datetime) -> int:
    return max(0, min(frame.n_steps, (at - frame.start) // frame.step))
