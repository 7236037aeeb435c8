"""Tell which job a node runs, by the memory that it holds, its incidents, and its usual pauses.

No label says on most fleets which job a node runs when. A compiled graph holds the same memory in
every run and on every node of its job, and another one other memory: trials of a sweep, a job that
moves to other nodes, a restart all show by it. An open alert goes on over its nodes, and another
job's trouble is another incident.

A job that checkpoints, evaluates, waits for rollouts or starves for a moment shows it in its past:
every stretch of such a state after which the job went on is one of its pauses. A new stretch is
told once it is longer than the job shows once in `alert.rare_weeks`. That length is the return
level of the peaks over a threshold, with the exponential tail of extreme value theory (Coles, An
Introduction to Statistical Modeling of Extreme Values, 2001, chapter 4).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NamedTuple

import numpy as np

from bot.model.alert import Alert
from bot.model.causes import Cause
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import Reading
from bot.model.run import nodes_of
from detectors.numbers import (
    WEEK,
    Counts,
    Floats,
    Mask,
    Numbers,
    Rows,
    cadence_of,
    duration,
    middle_of,
    number,
    placed,
    runs_of,
    trailing,
)
from detectors.readings import GAP, Readings, frame_of
from detectors.roster import Limits, Roster, scope_of
from detectors.usual import (
    CPU,
    HIGHEST,
    LATENCY,
    MEMORY,
    SAME,
    StrangeSpan,
    Usual,
    forget,
    medians_where,
    off,
    percentiles,
    worked_of,
)

FIRST = duration("jobs.FIRST")
YOUNG_JOB = duration("jobs.YOUNG_JOB")
LEAST_OF_JOB = duration("jobs.LEAST_OF_JOB")
TWINS = number("jobs.TWINS")
LIKE = number("jobs.LIKE")
AS_QUICK = number("jobs.AS_QUICK")
DIP = number("jobs.DIP")
AROUND = duration("jobs.AROUND")
TOGETHER = duration("jobs.TOGETHER")


def current(
    usual: Usual,
    whole: Frame,
    reading: Reading,
    limits: Limits,
    dropped: Mask,
    young: Callable[[], Usual],
    alerted: tuple[StrangeSpan, ...] = (),
) -> Usual:
    """Return the usual of the jobs that run at the end of `whole`.

    It is a node's own, else that of the nodes of its scope that ran the job, else the one that
    `young` gives of the last hours. A node whose job nothing else is known of has the levels of
    that job's first hours, however few: `own` says so. Memory that grows in a job that never
    stopped makes no other job of it. Of a node that `dropped`, as an alert says, executions are no
    sign of another job, nor are they in a run that counts on. A job that began again on some of its
    cores holds their share of its memory.
    """
    roster, floor = limits.roster, limits.number("idle.below")
    newest = _newest_jobs(whole, roster, floor, dropped, alerted)
    if newest is None:
        nobody = np.zeros_like(dropped)
        return replace(usual, own=~nobody, resumed=nobody)
    memory, latency, work = newest.memory, newest.latency, newest.work
    has_memory = ~np.isnan(memory) & ~roster.inference
    unknown = np.full_like(memory, np.nan)
    usual_latency = usual.medians.get(LATENCY, unknown)

    def alike(source: Usual) -> Mask:
        """Return which nodes' usual is of the job that they run now, (n,)."""
        same = off(source.medians.get(MEMORY), memory) <= TWINS
        differs = (off(source.medians.get(LATENCY), latency) > AS_QUICK) & ~dropped
        return np.asarray(source.own & same & ~differs)

    restarted, same = newest.began & has_memory, alike(usual)
    apart = off(usual.medians.get(MEMORY), memory)

    # Executions that take longer, with as much work in each as ever, are of the same graph: it waits.
    # After other work on the node it is a new job that holds as much.
    waits = off(latency * work, usual_latency * usual.middle) <= AS_QUICK
    waits &= usual.own & (apart <= TWINS) & (latency > (1 + AS_QUICK) * usual_latency)
    waits &= ~(off(newest.before, memory) > SAME)
    counts_on = _counts_on(reading, whole, roster, newest, restarted & usual.own & (apart <= SAME))
    resumed = restarted & (waits | counts_on | (same & (roster.jobs != "")))

    changed = restarted & ~(same | resumed)
    if not (changed | (dropped & has_memory)).any():
        return replace(usual, own=~changed, resumed=resumed)

    # Each core at work does and holds as much as ever: fewer of them are no other job.
    partly = has_memory & usual.own & (off(usual_latency, latency) <= AS_QUICK)
    partly &= newest.highest >= number("cores.BUSY") * usual.medians.get(HIGHEST, unknown)
    without = 1 - work / usual.middle
    freed = 1 - memory / usual.medians.get(MEMORY, unknown)
    partly &= (without > LIKE) & (off(without, freed) <= AS_QUICK)
    changed &= ~partly
    merged = replace(
        usual,
        low=usual.low.copy(),
        middle=usual.middle.copy(),
        high=usual.high.copy(),
        unpaused=usual.unpaused.copy(),
        medians={name: values.copy() for name, values in usual.medians.items()},
        own=~changed,
        in_part=partly,
        resumed=resumed,
    )
    merged.medians[MEMORY][partly] = memory[partly]
    _take_from_peers(merged, usual, newest, roster, dropped)
    rows = np.flatnonzero(~merged.own)
    if len(rows):
        lately = young()
        rows = rows[alike(lately)[rows]]
        _take(merged, lately, rows, rows)
    # Of a drop one reading that is hardly off is no evidence of another job.
    unlearnt = np.flatnonzero(~merged.own & ~(dropped & (apart <= SAME)))
    _take_first_hours(merged, unlearnt, whole.last(duration("jobs.STOPPED")), newest)
    merged.own[newest.goes_on] = True
    return merged


def fellows(seen: Readings, rows: Rows) -> Mask:
    """Return which nodes of their scope may run the job of those at `rows`, (n,).

    No tag, run, owner, memory or latency says another one. Of nodes that are known to be of one
    job, the time of an execution alone tells the roles apart: what runs together takes as long,
    however much it holds.
    """
    usual, jobs, scope = seen.usual, seen.jobs, seen.roster.scope
    mask = (scope == scope[rows[0]]) & seen.of_owner(rows)
    named = (jobs == jobs[rows[0]]) & (jobs != "")
    named &= np.isfinite(usual.medians.get(LATENCY, np.full(len(mask), np.nan)))
    for name, apart in ((MEMORY, LIKE), (LATENCY, AS_QUICK)):
        levels = usual.medians.get(name)
        if levels is not None:
            differs = off(levels, np.float32(middle_of(levels[rows]))) > apart
            mask &= ~differs | (named & (name == MEMORY))
    return np.asarray(mask & np.isin(jobs, jobs[rows]))


class _Newest(NamedTuple):
    """Hold which nodes began a job of late, and its levels, each (n,).

    These are of its first hours, of the newest of a node that dropped and goes on, nan for the
    other nodes.
    """

    began: Mask
    goes_on: Mask
    """Which nodes are still in the process in which they dropped."""
    ago: Counts
    """How many steps ago its newest stop ended, 0 for the other nodes."""
    memory: Floats
    latency: Floats
    work: Floats
    highest: Floats
    before: Floats
    """The memory of the work before that stop, nan where none was seen."""
    rows: Rows
    """Whose levels these are, (n_asked,)."""
    first_hours: Mask
    """The steps that they are of, (n_asked, n_steps)."""


def _newest_jobs(
    whole: Frame,
    roster: Roster,
    floor: Numbers,
    dropped: Mask,
    alerted: tuple[StrangeSpan, ...],
) -> _Newest | None:
    """Return the newest job of each node, whether it began of late or `dropped`; None where none did.

    An open alert teaches nothing: its nodes have the job of before it.
    """
    part, first = whole.last(duration("jobs.STOPPED")), whole.steps(FIRST)
    work, memory, latency = worked_of(part), part.of(MEMORY), part.of(LATENCY)
    n_steps, restarted = part.n_steps, restarts(part)
    new = np.asarray(np.isnan(work[:, :first]).all(axis=1))
    rested = np.fmin.reduce(work, axis=1, initial=np.nan) <= floor
    rows = np.flatnonzero(rested | restarted.any(axis=1) | new | dropped)
    if not len(rows):
        return None
    resting = work[rows] <= floor[rows, None]
    freed = ~(memory[rows] > number("jobs.EMPTY") * roster.memory[rows, None])
    stopped = (resting & freed) | restarted[rows]

    # What begins amid a drop may be another job; what fails again and again is none to judge by.
    hidden = np.zeros_like(stopped)
    if alerted:
        known = np.ones_like(work)
        forget(known, part, roster, alerted)
        hidden = np.isnan(known[rows])
    goes_on = dropped[rows] & hidden.any(axis=1) & ~(stopped & hidden).any(axis=1)
    hidden &= (goes_on | ~dropped[rows])[:, None]
    stopped &= ~hidden
    begins = np.asarray(stopped.any(axis=1) | new[rows])
    n, began = len(work), placed(begins, rows, len(work))
    going_on = placed(goes_on, rows, n)
    asked = begins | dropped[rows]
    stopped, resting, hidden, rows = stopped[asked], resting[asked], hidden[asked], rows[asked]

    # The first steps of each node's work since its last stop, of the newest where none is seen.
    ended = n_steps - stopped[:, ::-1].argmax(axis=1)
    ended = np.where(stopped.any(axis=1), ended, n_steps - first)
    working = ~resting & ~np.isnan(work[rows]) & ~hidden
    since = working & (np.arange(n_steps) >= ended[:, None])
    first_hours = since & (since.cumsum(axis=1) <= first)

    earlier = working & (np.arange(n_steps) < ended[:, None])
    last_hours = earlier & (earlier[:, ::-1].cumsum(axis=1)[:, ::-1] <= first)
    before = placed(medians_where(memory[rows], last_hours), rows, n, np.nan)
    memory, latency, work, highest = (
        placed(medians_where(values[rows], first_hours), rows, n, np.nan)
        for values in (memory, latency, work, part.of(HIGHEST))
    )
    ago = placed(n_steps - ended, rows, n)
    return _Newest(began, going_on, ago, memory, latency, work, highest, before, rows, first_hours)


def _counts_on(
    reading: Reading, whole: Frame, roster: Roster, newest: _Newest, asked: Mask
) -> Mask:
    """Return which nodes asked for go on with the run that they had before their stop, (n,).

    Its count goes on from near where it was: another attempt counts from nought again. A run that
    claims no node is that of its whole cluster only where all of it began together.
    """
    counts_on = np.zeros(len(asked), dtype=bool)
    if not asked.any():
        return counts_on
    frame = frame_of(reading, "run").last(duration("jobs.STOPPED"))
    reporting = np.isfinite(frame.of("run_step_count")).any(axis=1)
    clusters = Counter(frame.things[i].cluster for i in np.flatnonzero(reporting))

    for run in np.flatnonzero(reporting).tolist():
        place = frame.things[run]
        ids, claimed = nodes_of(place, reading.claims)
        of_cluster = roster.scope == roster.place.get(scope_of(place), -1)
        members = of_cluster & (roster.among(ids) == claimed) & roster.running
        together = np.ptp(newest.ago[members]) * whole.step <= TOGETHER if members.any() else False
        if not claimed and (clusters[place.cluster] > 1 or not together):
            continue
        for ago in np.unique(newest.ago[members & asked]).tolist():
            began = whole.end - ago * whole.step
            before, since = (
                part.of("run_step_count")[run] for part in (frame.until(began), frame.since(began))
            )
            before, since = before[np.isfinite(before)], since[np.isfinite(since)]
            if len(before) and len(since) and since.min() > before[-1] / 2:
                counts_on |= members & asked & (newest.ago == ago)
    return counts_on


def restarts(part: Frame) -> Mask:
    """Return the steps within which a job ended and another began, (n, n_steps).

    For a part of the step memory was free, so it shows less of it than those around. What goes on
    in the very memory and as quickly as before is the same job: it has saved, or was restarted.
    Between readings that are rare, or are missing, a start may lie unseen: there memory and executions
    that both changed for good tell it.
    """
    memory, latency = part.of(MEMORY), part.of(LATENCY)
    restarted = np.zeros(memory.shape, dtype=bool)
    lowest, highest = (f.reduce(memory, axis=1, initial=np.nan) for f in (np.fmin, np.fmax))
    varied = np.flatnonzero(lowest < DIP * highest)
    if not len(varied):
        return restarted
    cadence = cadence_of(worked_of(part)[varied], part.steps(GAP))
    freed = memory[varied] < DIP * np.minimum(*_highest_around(memory[varied], 2 * cadence))

    jumped = np.zeros_like(freed)
    unread = np.isnan(memory[varied, :-1])
    rare = np.flatnonzero(unread.any(axis=1) | (cadence > 1))
    if len(rare):
        held, unread = memory[varied[rare]], unread[rare]
        last_read = np.maximum.accumulate(np.where(unread, 0, np.arange(unread.shape[1])), axis=1)
        differs = off(held[:, 1:], np.take_along_axis(held, last_read, axis=1)) > SAME
        jumped[rare, 1:] = differs & (unread | (cadence[rare, None] > 1)) & ~freed[rare, 1:]
    nth, step = np.nonzero(freed | jumped)
    if not len(nth):
        return restarted

    # Both the middle and the highest change: an evaluation on one side moves but one of them.
    row, around = varied[nth], part.steps(AROUND)
    before, after = _levels_around(memory, row, step, around)
    apart = off(before, after)
    slower = (off(*_levels_around(latency, row, step, around)) > AS_QUICK).all(axis=0)
    # What is as low for good was not let go: a pause amid it showed more.
    let_go = ~(memory[row, step] >= DIP * np.fmin(before[0], after[0]))
    # Nor is what changed in the newest step known yet: an evaluation may end within it.
    let_go &= ~(off(*memory[row, -2:].T) > SAME) | (step + around < memory.shape[1] - 1)
    restarted[row, step] = np.where(
        jumped[nth, step],
        slower & (apart > SAME).all(axis=0),
        let_go & (slower | (apart > TWINS).all(axis=0)),
    )
    return restarted


def _levels_around(values: Floats, row: Rows, step: Rows, steps: int) -> tuple[Floats, Floats]:
    """Return the middle and the highest of the steps before some steps, and of those after them.

    Each (2, len(row)).
    """
    sides = []
    for first in (-steps, 1):
        near = step[:, None] + np.arange(first, first + steps)
        inside = (near >= 0) & (near < values.shape[1])
        readings = values[row[:, None], np.where(inside, near, 0)]
        readings[~inside] = np.nan
        sides.append(np.stack(percentiles(readings, (0.5, 1.0))))
    return sides[0], sides[1]


def _highest_around(values: Floats, steps: Counts) -> tuple[Floats, Floats]:
    """Return the highest value of the `steps`, (n,), before each step, and of those after it."""
    before, after = np.full_like(values, np.nan), np.full_like(values, np.nan)
    for ago in range(1, min(int(steps.max(initial=0)) + 1, values.shape[1])):
        near = np.where((steps >= ago)[:, None], values, np.nan)
        before[:, ago:] = np.fmax(before[:, ago:], near[:, :-ago])
        after[:, :-ago] = np.fmax(after[:, :-ago], near[:, ago:])
    return before, after


def _take_from_peers(
    merged: Usual, usual: Usual, newest: _Newest, roster: Roster, dropped: Mask
) -> None:
    """Give the nodes without a usual of their job that of the most alike peer that ran it.

    Peers are of one scope. Two jobs may hold like memory, so an execution must take as long there,
    or, where the peer dropped, as much longer as there is less work: the node joined its job.
    """
    held, latency = newest.memory, newest.latency
    memories = usual.medians[MEMORY]
    latencies = usual.medians.get(LATENCY, np.full_like(held, np.nan))
    rows = np.flatnonzero(~merged.own)
    for scope in np.unique(roster.scope[rows]):
        peers = np.flatnonzero((roster.scope == scope) & usual.own & ~np.isnan(memories))
        nodes = rows[roster.scope[rows] == scope]
        if not len(peers):
            continue
        apart = off(memories[peers], held[nodes][:, None])
        apart += off(latencies[peers], latency[nodes][:, None])
        nearest = peers[np.nan_to_num(apart, nan=np.inf).argmin(axis=1)]
        quick = off(latencies[nearest], latency[nodes]) <= AS_QUICK
        done = latency[nodes] * newest.work[nodes]
        waits = off(latencies[nearest] * usual.middle[nearest], done) <= AS_QUICK
        waits &= dropped[nearest] & (latency[nodes] > latencies[nearest])
        alike = (off(memories[nearest], held[nodes]) <= TWINS) & (quick | waits)
        _take(merged, usual, nodes[alike], nearest[alike])


def _take(merged: Usual, source: Usual, rows: Rows, at: Rows) -> None:
    """Write in place into `rows` the levels that `source` has at `at`."""
    for name in ("low", "middle", "high", "unpaused"):
        getattr(merged, name)[rows] = getattr(source, name)[at]
    for name, values in merged.medians.items():
        values[rows] = source.medians[name][at]
    merged.own[rows] = True


def _take_first_hours(merged: Usual, rows: Rows, part: Frame, newest: _Newest) -> None:
    """Write in place into the nodes at `rows` the levels of the first hours of their job.

    A fall amid them must show: they worked as much as in their upper quartile, and their hosts were
    as busy as in the lower one. A host that is busy since the first reading is a trait of the job.
    """
    first_hours = newest.first_hours[np.isin(newest.rows, rows)]
    work = np.where(first_hours, worked_of(part)[rows], np.nan)
    middle, merged.high[rows] = percentiles(work, (0.75, 0.95))
    merged.low[rows] = merged.middle[rows] = middle
    merged.unpaused[rows] = 1
    for name, values in merged.medians.items():
        values[rows] = medians_where(part.of(name)[rows], first_hours)
    if CPU in merged.medians:
        busy = np.where(first_hours, part.of(CPU)[rows], np.nan)
        (merged.medians[CPU][rows],) = percentiles(busy, (0.25,))


@dataclass(frozen=True)
class Incident:
    """Hold the nodes of one scope in one trouble, the scope of its alert's key, and its alert."""

    scope: Labels
    rows: Rows
    alert: Alert | None = None
    """None where none is open."""


def incidents(
    seen: Readings, rules: tuple[str, ...], rows: Rows, steps: Numbers | None = None
) -> list[Incident]:
    """Return the incidents of some rules among the nodes at `rows`, all of one scope.

    Each is of one owner, where tags name several. A node belongs to the open alert that is about
    it, else to one about its job or to one that began with its own trouble, `steps` ago, (n,). One
    whose job is not known belongs to the first. The first incident of a scope is named by the scope
    alone, one that another job meets later by that job too, one of another owner by that owner.
    """
    scope = seen.roster.scopes[seen.roster.scope[rows[0]]]
    opened = [x for x in seen.opened(*rules) if scope_of(x.anomaly.scope) == scope]
    of_job = Cause(rules[0]).facts.of_job
    placed = np.full(len(rows), -1, dtype=np.intp)
    about = [seen.roster.rows_of(alert.anomaly.things) for alert in opened]
    for k, nodes in enumerate(about):
        placed[np.isin(rows, nodes)] = k
    for k, (alert, nodes) in enumerate(zip(opened, about, strict=True)):
        joins = placed < 0
        if len(nodes) and joins.any():
            joins &= seen.of_owner(nodes)[rows]
            if of_job and seen.now - alert.opened >= TOGETHER:
                same = _of_job(seen, nodes)[rows]
                if steps is not None:
                    ago = (seen.now - alert.anomaly.window.start) / seen.window.step
                    # Not every sign shows at once: what fell with the alert works less since then.
                    less = seen.utilization[rows] < seen.usual_work[rows, None]
                    since = np.stack([steps[rows], trailing(less, seen.unknown[rows])])
                    same |= (np.abs(since - ago) <= seen.window.steps(TOGETHER)).any(axis=0)
                joins &= same
        placed[joins] = k
    told_apart = [
        Incident(alert.anomaly.scope, rows[placed == k], alert)
        for k, alert in enumerate(opened)
        if (placed == k).any()
    ]

    # The nodes that no alert is about, by owner; beside an alert about a job by their job, which is
    # named as it is or by its first node.
    rows = rows[placed < 0]
    while len(rows):
        owners = seen.roster.owners[rows]
        owner, _ = max(Counter(owners.tolist()).items(), key=lambda x: (x[0] != "", x[1]))
        same = seen.of_owner(rows[owners == owner])[rows]
        if of_job and opened:
            same = _of_job(seen, rows[:1])[rows]
        first = min(seen.roster.ids[i] for i in rows[same])
        name = (of_job and seen.roster.labels[rows[same][0]].job) or (
            f"of {first if of_job else owner}"
        )
        place = replace(scope, job=name) if opened or told_apart else scope
        told_apart.append(Incident(place, rows[same]))
        rows = rows[~same]
    return told_apart


def _of_job(seen: Readings, rows: Rows) -> Mask:
    """Return which nodes of their scope run the job of those at `rows`, (n,).

    Where it is known, in whatever role: a trainer waits for rollouts that hold other memory.
    """
    jobs, scope = seen.jobs, seen.roster.scope
    named = (scope == scope[rows[0]]) & (jobs != "") & np.isin(jobs, jobs[rows])
    return np.asarray(named | fellows(seen, rows))


@dataclass(frozen=True)
class Stretches:
    """Describe the stretches of one state that the job of each node has shown, each (n,)."""

    count: Counts
    longest: Numbers
    """In steps, 0 where none was seen."""
    rare: Numbers
    """Steps that a stretch lasts once in `alert.rare_weeks`, 0 where none was seen."""

    @staticmethod
    def none(n: int) -> Stretches:
        """Return the stretches of `n` nodes of which none was seen."""
        return Stretches(np.zeros(n, dtype=np.intp), np.zeros(n), np.zeros(n))


def roles_of(roster: Roster, memory: Floats) -> Counts:
    """Return the role of each node, (n,): nodes of one scope whose work holds the same memory.

    A node whose memory is not known has the role of its whole scope, -1 less the scope's number.
    """
    roles: Counts = -1 - roster.scope
    nodes = np.flatnonzero(np.isfinite(memory))
    if not len(nodes):
        return roles
    ordered = nodes[np.lexsort((memory[nodes], roster.scope[nodes]))]
    scope, memories = roster.scope[ordered], memory[ordered]
    with np.errstate(divide="ignore", invalid="ignore"):
        begins = (scope[1:] != scope[:-1]) | (memories[1:] / memories[:-1] - 1 > LIKE)
    roles[ordered] = np.concatenate([[0], np.cumsum(begins)])
    return roles


def stretches_of(
    state: Mask, going_on: Mask, scopes: Rows, roles: Counts, weeks: float, step: timedelta
) -> Stretches:
    """Return the stretches of `state` within which the job was `going_on`, both (n, n_steps).

    `scopes` and `roles` are those of the rows, (n,). Nodes of a role pause together, so stretches
    that begin in the same step are one, as long as the longest. A stretch at an edge of the history
    was not seen whole and is left out.
    """
    row, begin, end = runs_of(state)
    whole = (begin > 0) & (end < state.shape[1])
    row, begin, end = row[whole], begin[whole], end[whole]

    # The sum of steps in which the job was gone, up to each step: equal at both ends of a pause.
    gone = np.concatenate([np.zeros((len(state), 1)), np.cumsum(~going_on, axis=1)], axis=1)
    pause = gone[row, np.minimum(end + 1, state.shape[1])] == gone[row, begin]
    row, begin, length = row[pause], begin[pause], (end - begin)[pause]

    stretches = Stretches.none(len(state))
    count, longest, rare = stretches.count, stretches.longest, stretches.rare
    seen_weeks = going_on.sum(axis=1) * (step / WEEK)
    for scope in np.unique(scopes[row]):
        of_scope = np.flatnonzero(scopes == scope)
        for role in np.unique(roles[of_scope]):
            nodes = of_scope[roles[of_scope] == role]
            of_role = np.isin(row, nodes)
            if not of_role.any():
                continue
            starts, place = np.unique(begin[of_role], return_inverse=True)
            lengths = np.zeros(len(starts))
            np.maximum.at(lengths, place, length[of_role])
            count[nodes], longest[nodes] = len(starts), lengths.max()
            rare[nodes] = return_level(lengths, float(seen_weeks[nodes].max()), weeks)

        # Of a node that is new nothing is known but that it may have any role of its scope.
        new = of_scope[roles[of_scope] < 0]
        if len(new):
            count[new] = count[of_scope].max()
            longest[new], rare[new] = longest[of_scope].max(), rare[of_scope].max()
    return stretches


def return_level(lengths: Numbers, weeks_seen: float, weeks: float) -> float:
    """Return the length that is passed once in `weeks`, by lengths seen within `weeks_seen`.

    The mean excess over the upper quartile is taken one standard error too large, and the level is
    never under what was seen.
    """
    threshold = float(np.quantile(lengths, number("rarity.TAIL")))
    # A length is read to a whole step: half of one lies on either side.
    excess = lengths[lengths >= threshold] - threshold + 0.5
    scale = float(excess.mean()) * (1 + len(excess) ** -0.5)
    often = max(1.0, len(excess) * weeks / max(weeks_seen, 1e-9))
    return float(max(lengths.max(), threshold + scale * math.log(often)))
