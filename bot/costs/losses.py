"""Tell what alerts lost of the time of Neuron nodes, and to which class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from bot.costs.node_time import CHECKPOINT, CODE_OF, NO_JOB, NO_LOSS, GoodputClass, NodeTime
from bot.model.alert import Alert
from bot.model.causes import Cause
from bot.model.frame import Doubles, Floats, Indices, Mask, runs_of
from bot.model.run import Compile, job_of
from bot.model.window import HOUR, Window

LOST_TO: Mapping[Cause, GoodputClass] = {
    Cause.IDLE: GoodputClass.IDLE,
    Cause.ALLOCATED_UNUSED: GoodputClass.ALLOCATED_UNUSED,
    Cause.HUNG: GoodputClass.HUNG,
    Cause.LONG_COMPILE: GoodputClass.COMPILING_FIRST,
    Cause.COLD_CACHE: GoodputClass.COLD_CACHE,
    Cause.KILLED_COMPILE: GoodputClass.COMPILING_AGAIN,
    Cause.STARVED: GoodputClass.STARVED,
    Cause.NETWORK_BOUND: GoodputClass.NETWORK,
    Cause.COLLECTIVE_PATH: GoodputClass.NETWORK,
    Cause.STRAGGLER: GoodputClass.STRAGGLER,
    Cause.MEMORY_PRESSURE: GoodputClass.ERRORS_HARDWARE,
    Cause.EXECUTION_ERRORS: GoodputClass.ERRORS_HARDWARE,
    Cause.HARDWARE_FAULT: GoodputClass.ERRORS_HARDWARE,
}
"""Where the time goes that an alert of a cause says was lost; no other cause loses time of nodes."""

_SLOWED = frozenset(
    {
        GoodputClass.STARVED,
        GoodputClass.NETWORK,
        GoodputClass.STRAGGLER,
        GoodputClass.ERRORS_HARDWARE,
        GoodputClass.ALLOCATED_UNUSED,
    }
)
"""What slows work that goes on."""
_MAY_SLOW = (Cause.MEMORY_PRESSURE, Cause.EXECUTION_ERRORS)
"""Troubles that need not slow any work."""
_EDGE = timedelta(minutes=15)
"""How far apart nodes fall at most that fall together."""
_AROUND = timedelta(hours=3)
"""How long before a fault and after it the usual work is looked for."""
_STEADY = 0.05
"""How far the levels of a slower pace scatter at most, so that a pause amid it is told from it."""
_SAME_WORK = 0.02
"""How far the memory of one job's nodes differs from start to start at most."""
_UNUSED = (CODE_OF[GoodputClass.ALLOCATED_UNUSED], CODE_OF[GoodputClass.IDLE])
_PAUSE, _STARTING, _UNSEEN = (
    CODE_OF[kind]
    for kind in (
        GoodputClass.CHECKPOINT_EVALUATION,
        GoodputClass.STARTING,
        GoodputClass.NOT_SEEN,
    )
)
_COMPILES = (CODE_OF[GoodputClass.COMPILING_FIRST], CODE_OF[GoodputClass.COMPILING_AGAIN])
_ANY_COMPILE = (*_COMPILES, CODE_OF[GoodputClass.COLD_CACHE])


class Fall(NamedTuple):
    """State where work fell, and the share of each step of its nodes that is lost, and paused.

    Both shares are of shape (n_rows, n_steps).
    """

    steps: slice
    lost: Floats
    paused: Floats


def lose(time: NodeTime, alerts: Iterable[Alert]) -> None:
    """Give the time that alerts say was lost to their causes' classes.

    What slows work that goes on loses what that work fell by, from its fall to its recovery,
    pauses apart. Where no fall tells it, the hours are the alert's own, spread over its nodes and
    steps by how little each did; of troubles that need not slow any work, there are none. What
    another alert explains is lost to that one's cause. Where two claim a step, the greater share
    has it.
    """
    alerts = [x for x in alerts if x.cause in LOST_TO and x.waste]
    explaining = {x.effect_mark: LOST_TO[x.cause] for x in alerts}
    # The job of a broken node falls with it, whichever alert comes first.
    for alert in sorted(
        alerts, key=lambda x: _span(x).start - _EDGE * (x.cause is Cause.HARDWARE_FAULT)
    ):
        # The newest sight may name fewer nodes than lost hours before.
        rows = np.array([time.rows[x] for x in alert.things if x in time.rows], dtype=np.intp)
        part, is_slower = time.steps(_span(alert)), LOST_TO[alert.cause] in _SLOWED
        if not rows.size or part.start >= part.stop:
            continue
        # What starts amid a fault loses no work to it.
        worked = time.working[rows, : part.start].any(axis=1)
        if is_slower and worked.any():
            rows = _fallen(time, rows[worked], part)

        slows = alert.cause not in _MAY_SLOW
        fall = fall_of(time, rows, part, slows=slows) if is_slower else None
        if fall is None and not slows:
            continue
        fall = fall or _as_told(time, alert, rows, part)
        kind = explaining.get(alert.muted_by, LOST_TO[alert.cause])
        block = rows, fall.steps
        time.paused[block] = fall.paused
        # One fault may have several alerts: its dollars count once, for the first of about as much.
        is_greater = fall.lost > time.share[block] + NO_LOSS * (time.share[block] > 0)
        time.share[block] = np.where(is_greater, fall.lost, time.share[block])
        time.lost_to[block] = np.where(is_greater, CODE_OF[kind], time.lost_to[block])
    _lose_whole_stretches(time)
    _part_compiles(time)
    _part_edges(time)


def _as_told(time: NodeTime, alert: Alert, rows: Indices, part: slice) -> Fall:
    """Return the hours that an alert says were lost, as shares of the steps of its nodes."""
    whole = _span(alert)
    hours = float(sum((x.hours for x in alert.waste.hours), Decimal(0))) if alert.waste else 0.0
    if alert.cause is Cause.COLD_CACHE:
        hours -= _cold(time, rows, whole, hours)
    # Of an alert that began before the frame, the hours within it are lost here.
    inside = (part.stop - part.start) * time.nodes.step / max(whole.length, time.nodes.step)
    steps = max(0.0, hours) * min(1.0, inside) / (time.nodes.step / HOUR)

    # What stands still does not pause, nor is what takes most of an alert's time a pause.
    paused = time.paused[rows, part].copy()
    if LOST_TO[alert.cause] not in _SLOWED or paused.mean() > 0.5:
        paused[:] = 0.0
    cold = time.base[rows, part] == CODE_OF[GoodputClass.COLD_CACHE]
    work = time.seen[rows, part] * (1.0 - paused) * ~cold
    done = np.nan_to_num(time.levels[rows, part])
    return Fall(part, spread(np.clip(work - done, 0, 1), work, steps), paused)


def _lose_whole_stretches(time: NodeTime) -> None:
    """Give all of a stretch without work to the cause that took most of it."""
    still = np.isin(time.base, (*_UNUSED, _PAUSE))
    for row, begin, end in zip(*runs_of(still), strict=True):
        share, lost_to = time.share[row, begin:end], time.lost_to[row, begin:end]
        # A checkpoint amid what slows its job is one all the same.
        is_short = end - begin <= time.nodes.steps(CHECKPOINT)
        if share.mean() > 0.5 and not (is_short and time.base[row, begin] == _PAUSE):
            lost_to[:] = np.where(share > 0, lost_to, np.bincount(lost_to, share).argmax())
            share[:] = 1.0


def _part_compiles(time: NodeTime) -> None:
    """Give a compile its part of the step in which it begins, and of the step in which it ends.

    It begins as the host's CPU becomes busy, and ends as the device memory fills.
    """
    cpu, memory = (
        time.nodes.of(name)
        for name in ("host_cpu_utilization_ratio", "neuron_runtime_memory_used_bytes")
    )
    for row, begin, end in zip(*runs_of(np.isin(time.base, _ANY_COMPILE)), strict=True):
        ends = (begin, cpu, _STARTING), (end, memory, time.base[row, begin])
        for step, levels, kind in ends:
            share = 1 - _passed(levels[row], step)
            if share and time.share[row, step] < share:
                time.lost_to[row, step], time.share[row, step] = kind, share


def _passed(levels: Floats, step: int) -> float:
    """Return how much of a step had passed a rise from the step before it to the one after it."""
    if not 0 < step < levels.size - 1:
        return 1.0
    before, level, after = levels[step - 1 : step + 2].astype(np.float64).tolist()
    # Unknown levels tell nothing.
    return (level - before) / (after - before) if before < level < after else 1.0


def _part_edges(time: NodeTime) -> None:
    """Give a step in which work ends or begins to its neighbour, by the share that is missing.

    It is no pause amid work.
    """
    for row, begin, end in zip(*runs_of(time.working), strict=True):
        for step, beside, within in ((begin, begin - 1, begin + 1), (end - 1, end, end - 2)):
            if not 0 <= beside < time.nodes.n_steps or time.base[row, beside] == _PAUSE:
                continue
            time.paused[row, step] = 0.0
            if time.seen[row, beside] and not time.share[row, step] and end - begin > 1:
                ends = time.lost_to if time.share[row, beside] > 0.5 else time.base
                time.lost_to[row, step] = _STARTING if beside < step else ends[row, beside]
                missing = 1 - time.levels[row, step] / time.levels[row, within]
                time.share[row, step] = max(0.0, missing)


def _cold(time: NodeTime, rows: Indices, whole: Window, hours: float) -> float:
    """Call compiles of a cold cache cold, the newest first; return their hours.

    An alert's hours are those of all starts of its work that it found, its nodes those of the
    newest: the others are found again by the memory that the same work holds.
    """
    ended = [x for x in time.compiles if x.window.start < whole.end and x.instance in time.rows]
    newest = [x for x in ended if time.rows[x.instance] in rows and x.window.end > whole.start]
    clusters = {x.scope.cluster for x in newest}
    works = [_work_after(time, x) for x in newest]
    held = float(np.median([x for x, _ in works])) if works else np.nan
    jobs = {job for _, job in works if job}

    found = 0.0
    for compilation in reversed(ended):
        # Of unknown memory and of an unknown job is any work.
        used, job = _work_after(time, compilation)
        apart = abs(used / held - 1) > _SAME_WORK or bool(job and jobs and job not in jobs)
        if found >= hours or compilation.scope.cluster not in clusters or apart:
            continue
        found += compilation.hours
        row, part = time.rows[compilation.instance], time.steps(compilation.window)
        compiling = np.isin(time.base[row, part], _COMPILES)
        time.base[row, part][compiling] = CODE_OF[GoodputClass.COLD_CACHE]
    return found


def _work_after(time: NodeTime, compilation: Compile) -> tuple[float, str]:
    """Return the device memory that a node held in the hour after a compile, and for which job.

    Memory is nan, and the job "", where they are not known.
    """
    row = time.rows[compilation.instance]
    part = time.steps(Window(compilation.window.end, compilation.window.end + HOUR))
    held = time.nodes.of("neuron_runtime_memory_used_bytes")[row, part]
    works = time.working[row, part] & (held > 0)
    runs = time.jobs[row, part][works & (time.jobs[row, part] != NO_JOB)]
    job = job_of(time.job_names[np.bincount(runs).argmax()]) if runs.size else ""
    return float(np.median(held[works])) if works.any() else np.nan, job


def _fallen(time: NodeTime, rows: Indices, part: slice) -> Indices:
    """Return some nodes, and those of their job whose work fell with theirs and by about as much."""
    jobs, an_hour = time.jobs[:, (part.start + part.stop) // 2], time.nodes.steps(HOUR)
    alike = (jobs != NO_JOB) & np.isin(jobs, jobs[rows])
    before, during = (
        np.nan_to_num(time.levels[:, hour]).mean(axis=1)
        for hour in (
            slice(max(0, part.start - an_hour), max(1, part.start)),
            slice(part.start, min(part.start + an_hour, part.stop)),
        )
    )
    left = during / np.maximum(before, 1e-6)
    typical = float(np.median(left[rows]))
    fell = (left < (1 + typical) / 2) & (typical < 1 - NO_LOSS)

    # What ends amid the fall did not fall.
    goes_on = time.working[:, part].mean(axis=1) > 0.5
    return np.union1d(rows, np.flatnonzero(alike & goes_on & fell))


def fall_of(time: NodeTime, rows: Indices, part: slice, *, slows: bool = True) -> Fall | None:
    """Return where nodes that go on working did less, and by how much; `part` is their alert's.

    It begins where the work fell and ends where it recovered, however late or early the alert was.
    The usual is what the same job did in the hours before it and after it, as its level moves; of an
    alert that `slows` work and came long after it fell, what it did before. None where nothing tells
    that the work fell.
    """
    # Of unknown jobs nobody knows whose a step is: it may be the same one's.
    jobs = time.jobs[rows]
    of_job = (jobs == NO_JOB) | (jobs == jobs[:, (part.start + part.stop) // 2, None])
    works = time.working[rows] & of_job
    working = works.mean(axis=0) > 0.5
    # A node that failed may be replaced, and another stand still: the mean is of those that work.
    level = np.where(works, time.levels[rows], 0.0).sum(axis=0) / np.maximum(1, works.sum(axis=0))
    goes_on = (works | np.isin(time.base[rows], (_PAUSE, _UNSEEN))).mean(axis=0) > 0.5
    amid = working & np.append(True, goes_on[:-1]) & np.append(goes_on[1:], True)
    clear = amid & (time.paused[rows].mean(axis=0) <= NO_LOSS)
    if working[part].mean() <= 0.5 or not clear[part].any():
        return None

    slowed = float(np.median(level[part][clear[part]]))
    hours, an_hour = (time.nodes.steps(x) for x in (_AROUND, HOUR))
    earlier = level[: part.start][clear[: part.start]]
    usual, higher = _usual(level, clear, part, an_hour), earlier[earlier * (1 - NO_LOSS) > slowed]
    if slows and 2 * higher.size > hours and (usual is None or usual * (1 - NO_LOSS) <= slowed):
        usual = float(np.median(higher[-hours:]))
    if usual is None or usual * (1 - NO_LOSS) <= slowed:
        return None
    low = working & (level < (usual + slowed) / 2)
    start, stop = _extent(low, clear, goes_on, part, hours)

    usual = _usual(level, clear & ~low, slice(start, stop), an_hour) or usual
    paused, within = time.paused[rows], time.paused_amid(rows, slice(start, stop))
    work = level[start:stop][amid[start:stop] & (within.mean(axis=0) <= NO_LOSS)]
    slowed = float(np.median(work)) if work.size else usual

    # A pace that wavers hides pauses: its job makes as many as before, or those that show. What was
    # thrown away had no checkpoint.
    if work.size and np.median(abs(work - slowed)) > _STEADY * slowed:
        if not slows:
            return None
        stands = time.base[rows] == _PAUSE
        saved = works & (time.base[rows] != CODE_OF[GoodputClass.LOST]) | stands
        pauses = (np.where(stands, 1.0, paused) * saved)[:, :start].sum()
        usually = pauses / max(1, saved[:, :start].sum())
        hidden = usually * saved[:, start:stop].sum() - stands[:, start:stop].sum()
        done = level[start:stop] * (1 - within.mean(axis=0))
        within[:] = max(hidden, within.sum()) / max(1, works[:, start:stop].sum())
        slowed = float(done[amid[start:stop]].mean() / (1 - within.mean()))
    share = 1 - slowed / usual
    if share <= NO_LOSS:
        return None

    # The steps in which it begins and ends, and those beside them, lose what they are short of.
    # Where work ends or begins within a step, that is its part.
    steps = slice(max(0, start - 1), stop + 1)
    paused[:, start:stop] = within
    paused[:, ~amid] = 0.0
    index = np.arange(working.size)
    short = (
        share * (np.isin(index, index[start:stop]) | ~amid) * np.minimum(1, amid + level / slowed)
    )
    ends = amid & (paused.mean(axis=0) <= NO_LOSS) & ~np.isin(index, index[start + 1 : stop - 1])
    short[ends] = np.clip(1 - level[ends] / usual, 0, share)
    lost = short * works * (1 - paused)
    return Fall(steps, lost[:, steps].astype(np.float32), paused[:, steps])


def _usual(level: Doubles, clear: Mask, part: slice, size: int) -> float | None:
    """Return the mean of the levels right before some steps and right after them; None of none."""
    sides = slice(max(0, part.start - size), part.start), slice(part.stop, part.stop + size)
    beside = [np.median(x) for side in sides if (x := level[side][clear[side]]).size]
    return float(np.mean(beside)) if beside else None


def _extent(low: Mask, clear: Mask, goes_on: Mask, part: slice, hours: int) -> tuple[int, int]:
    """Return the first step of a fall and the one after its last.

    It goes back to the last usual step before its alert. That may have ended before it recovers, if
    it does so within hours. Slow steps outnumber usual ones in it as far as they can.
    """
    usual = np.flatnonzero(clear & ~low)
    before, after = usual[usual < part.start], usual[usual >= part.stop]
    start = int(before[-1]) + 1 if before.size else 0
    stop = int(after[0]) if after.size and after[0] <= part.stop + hours else part.stop
    balance = np.where(low, 1, -1) * clear
    # What a restart begins with is a start, unless it goes on as slowly.
    for _, begin, end in zip(*runs_of(goes_on[None]), strict=True):
        if start < begin < stop and balance[begin : min(end, begin + hours)].sum() <= 0:
            balance[begin:end] = np.minimum(balance[begin:end], 0)

    sums = np.append(0, np.cumsum(balance[start:stop]))
    last = int(sums.argmax())
    first = last - int(sums[last::-1].argmin())
    # Beside a slower pace nobody knows a pause from a part of it yet.
    first, last, unclear = start + first, start + last, low & ~clear
    while first and unclear[first - 1]:
        first -= 1
    while last < len(unclear) and unclear[last]:
        last += 1
    return first, last


def _span(alert: Alert) -> Window:
    """Return the time from an alert's onset to its newest sight."""
    anomaly = alert.peak.anomaly if alert.peak else alert.anomaly
    return Window(anomaly.window.start, max(alert.seen, anomaly.window.end))


def spread(missing: Doubles, work: Doubles, steps: float) -> Floats:
    """Return the share of each step that is lost, so that the shares sum to `steps`.

    In proportion to what is `missing` of its usual work, evenly where nothing is (a busy wait); no
    step loses more than the part of it that was `work`.
    """
    weights = missing if missing.sum() > 0.05 * work.sum() else work
    steps = min(steps, float(work.sum()))
    lost = np.minimum(work, weights * (steps / max(float(weights.sum()), 1e-9)))

    # What a step cannot hold goes to those that have room.
    room = work - lost
    lost += room * ((steps - lost.sum()) / max(float(room.sum()), 1e-9))
    return lost.astype(np.float32)
