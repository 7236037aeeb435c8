"""Return which job a node runs, by the device memory that it holds, and tell the incidents of jobs apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np

from bot.model.alert import Alert
from bot.model.frame import Frame
from bot.model.labels import Labels
from detectors.arrays import Floats, Mask, Numbers, Rows, middle_of
from detectors.readings import Readings
from detectors.roster import Roster, scope_of
from detectors.usual import LATENCY, MEMORY, Usual, medians_along, same_memory, worked_of

STOPPED = timedelta(hours=12)
"""How long ago a job may have begun whose usual is not known yet."""
FIRST = timedelta(minutes=90)
"""Work after a stop by which its job is known.

An evaluation, which holds other memory, is shorter than half of it.
"""
YOUNG_JOB = timedelta(hours=8)
"""The newest time from which the usual of a job is learnt that the days before do not know."""
LEAST_OF_JOB = timedelta(minutes=90)
"""Work of a job that must have been seen before its own level is called usual."""
TWINS = 0.005
"""How far apart the device memory of nodes may lie for which one is taken for the other's peer."""
LIKE = 0.03
"""How far apart the memory that nodes of one job usually hold may lie.

Each has its own share of the loaders.
"""
AS_QUICK = 0.15
"""The same for the time of an execution."""
EMPTY = 0.15
"""Share of the device memory under which an idle node has no job loaded: a start, or a compile."""


def current(
    usual: Usual, whole: Frame, roster: Roster, floor: Numbers, young: Callable[[], Usual]
) -> Usual:
    """Return the usual of the jobs that run at the end of `whole`.

    It is a node's own, else that of the nodes of its scope that ran the job, else what `young`
    gives of the last hours. A node whose job nothing is known of keeps its levels, which are of
    another job: `own` says so. Memory that grows in a job that never stopped makes no other job of
    it.
    """
    began, held, latency = _newest_jobs(whole, roster, floor)
    named = ~np.isnan(held) & ~roster.inference
    alike = same_memory(usual.medians.get(MEMORY), held) & ~_apart(
        usual.medians.get(LATENCY), latency
    )
    other = named & began & ~(usual.own & alike)
    if not other.any():
        return replace(usual, own=~other)
    merged = _copy(usual, own=~other)
    _take_from_peers(merged, usual, (held, latency), roster, np.flatnonzero(other))
    rows = np.flatnonzero(~merged.own)
    if len(rows):
        lately = young()
        alike = same_memory(lately.medians.get(MEMORY), held) & ~_apart(
            lately.medians.get(LATENCY), latency
        )
        known = rows[(lately.own & alike)[rows]]
        _take(merged, lately, known, known)
    return merged


def fellows(usual: Usual, roster: Roster, rows: Rows) -> Mask:
    """Return which nodes of their scope may run the job of those at `rows`, (n,).

    No tag, memory or latency says another one.
    """
    mine = roster.scope == roster.scope[rows[0]]
    for name, apart in ((MEMORY, LIKE), (LATENCY, AS_QUICK)):
        levels = usual.medians.get(name)
        mine &= (
            ~_apart(levels, np.float32(middle_of(levels[rows])), apart)
            if levels is not None
            else True
        )
    jobs = {roster.labels[i].job for i in rows}
    mine[[i for i in np.flatnonzero(mine) if roster.labels[i].job not in jobs]] = False
    return np.asarray(mine)


def _newest_jobs(whole: Frame, roster: Roster, floor: Numbers) -> tuple[Mask, Floats, Floats]:
    """Return which nodes began a job of late, and the memory and latency of its first hours, each (n,); nan for the others."""
    part, first = whole.last(STOPPED), whole.steps(FIRST)
    work, memory, latency = worked_of(part), part.of(MEMORY), part.of(LATENCY)
    rest = work <= floor[:, None]
    rows = np.flatnonzero(rest.any(axis=1) | np.isnan(work[:, :first]).all(axis=1))
    stopped = rest[rows] & ~(memory[rows] > EMPTY * roster.memory[rows, None])
    mine = stopped.any(axis=1) | np.isnan(work[rows, :first]).all(axis=1)
    stopped, rows = stopped[mine], rows[mine]
    began = np.zeros(len(work), dtype=bool)
    began[rows] = True
    ours = _first_hours(stopped, ~rest[rows] & ~np.isnan(work[rows]), first)
    levels = np.full((2, len(work)), np.nan, dtype=np.float32)
    for level, values in zip(levels, (memory, latency), strict=True):
        level[rows] = medians_along(np.where(ours, values[rows], np.nan).astype(np.float32))
    return began, levels[0], levels[1]


def _first_hours(stopped: Mask, working: Mask, first: int) -> Mask:
    """Return which steps are the first of each node's work since its last stop, (n, n_steps).

    Of the newest where none is seen.
    """
    n_steps = stopped.shape[1]
    ended = np.where(
        stopped.any(axis=1), n_steps - stopped[:, ::-1].argmax(axis=1), n_steps - first
    )
    since = working & (np.arange(n_steps) >= ended[:, None])
    return np.asarray(since & (since.cumsum(axis=1) <= first))


def _apart(one: Floats | None, other: Floats | np.float32, by: float = AS_QUICK) -> Mask:
    """Return where two levels are so far apart that they are of other work.

    Not where one of them was not read.
    """
    return np.asarray(np.abs((np.nan if one is None else one) / other - 1) > by)


def _take_from_peers(
    merged: Usual, usual: Usual, now: tuple[Floats, Floats], roster: Roster, rows: Rows
) -> None:
    """Give the nodes at `rows` the usual of a node of their scope that is known to have run their job, the most alike one.

    Two jobs may hold like memory, so an execution must take as long as there.
    """
    held, latency = now
    memories, latencies = (
        usual.medians[MEMORY],
        usual.medians.get(LATENCY, np.full_like(held, np.nan)),
    )
    for scope in np.unique(roster.scope[rows]):
        peers = np.flatnonzero((roster.scope == scope) & usual.own & ~np.isnan(memories))
        mine = rows[roster.scope[rows] == scope]
        if len(peers):
            apart = np.abs(memories[peers] / held[mine][:, None] - 1) + np.abs(
                latencies[peers] / latency[mine][:, None] - 1
            )
            nearest = peers[np.nan_to_num(apart, nan=np.inf).argmin(axis=1)]
            alike = same_memory(memories[nearest], held[mine], TWINS) & same_memory(
                latencies[nearest], latency[mine], AS_QUICK
            )
            _take(merged, usual, mine[alike], nearest[alike])


def _take(merged: Usual, source: Usual, rows: Rows, at: Rows) -> None:
    """Write in place into `rows` what `source` knows at `at`."""
    for mine, theirs in (
        (merged.low, source.low),
        (merged.middle, source.middle),
        (merged.high, source.high),
        (merged.unpaused, source.unpaused),
    ):
        mine[rows] = theirs[at]
    for name, values in merged.medians.items():
        if name in source.medians:
            values[rows] = source.medians[name][at]
    merged.own[rows] = True


def _copy(usual: Usual, own: Mask) -> Usual:
    medians = {name: values.copy() for name, values in usual.medians.items()}
    low, middle, high, unpaused = (
        x.copy() for x in (usual.low, usual.middle, usual.high, usual.unpaused)
    )
    return replace(
        usual, low=low, middle=middle, high=high, unpaused=unpaused, medians=medians, own=own
    )


TOGETHER = timedelta(minutes=10)
"""How long after an alert opened what befalls another job of its scope is still the same incident.

They share a cause.
"""


@dataclass(frozen=True)
class Incident:
    """Hold the nodes of one scope that one trouble befell, the scope of its alert's key, and the alert where one is open."""

    scope: Labels
    rows: Rows
    alert: Alert | None = None


def incidents(seen: Readings, rules: tuple[str, ...], rows: Rows) -> list[Incident]:
    """Return the incidents among the nodes at `rows`, all of one scope, that are told by one of the rules.

    A node belongs to the open alert that is about it, else to one about its job; one whose job is
    not known belongs to the first. The first incident of a scope is named by the scope alone, one
    that another job meets later by that job too.
    """
    scope = seen.roster.scopes[seen.roster.scope[rows[0]]]
    opened = [
        alert
        for (rule, place), alert in seen.open.items()
        if rule in rules and scope_of(place) == scope
    ]
    if not opened:
        return [Incident(scope, rows)]
    if len(opened) == 1 and _holds_all(seen, opened[0], rows):
        return [Incident(opened[0].anomaly.scope, rows, opened[0])]
    owner = _owners(seen, opened, rows)
    held = [
        Incident(one.anomaly.scope, rows[owner == k], one)
        for k, one in enumerate(opened)
        if (owner == k).any()
    ]
    return [*held, *_by_job(seen, scope, rows[owner < 0])]


def _holds_all(seen: Readings, alert: Alert, rows: Rows) -> bool:
    """Return whether none of the nodes is apart from the alert.

    By its cause, by its age, or as it is about all of them.
    """
    whole = not alert.cause.facts.of_job or seen.now - alert.opened < TOGETHER
    return whole or set(rows.tolist()) <= set(seen.roster.rows_of(alert.anomaly.things))


def _owners(seen: Readings, opened: Sequence[Alert], rows: Rows) -> Rows:
    """Return which of the open alerts each node belongs to, -1 where none is about its job, (len(rows),)."""
    owner = np.full(len(rows), -1, dtype=np.intp)
    about = [np.array(seen.roster.rows_of(alert.anomaly.things), dtype=np.intp) for alert in opened]
    for k, mine in enumerate(about):
        owner[np.isin(rows, mine)] = k
    for k, (alert, mine) in enumerate(zip(opened, about, strict=True)):
        joins = owner < 0
        if len(mine) and joins.any() and not _holds_all(seen, alert, rows):
            joins &= fellows(seen.usual, seen.roster, mine)[rows]
        owner[joins] = k
    return owner


def _by_job(seen: Readings, scope: Labels, rows: Rows) -> Iterator[Incident]:
    """Yield the nodes of each job: by its name where it has one, else by that of its first node."""
    while len(rows):
        mine = fellows(seen.usual, seen.roster, rows[:1])[rows]
        mine[0] = True
        first = min(seen.roster.ids[i] for i in rows[mine])
        job = seen.roster.labels[rows[0]].job or f"of {first}"
        yield Incident(replace(scope, job=job), rows[mine])
        rows = rows[~mine]
