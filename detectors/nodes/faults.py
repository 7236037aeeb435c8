"""Find faults of nodes: broken hardware, executions that fail, and full memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bot.model.causes import Cause
from bot.model.money import counted
from bot.model.reading import HARDWARE_METRICS
from detectors.nodes import cores
from detectors.nodes.at_risk import LEAST, work_at_risk
from detectors.nodes.shortfall import SETTLED
from detectors.numbers import (
    DAY,
    NAMED,
    Counts,
    Floats,
    Mask,
    Numbers,
    Rows,
    count,
    duration,
    lasted,
    lately,
    mean_where_read,
    middle_of,
    narrowed,
    newest_of,
    number,
    percent,
    runs_of,
    share_before,
    size,
    trailing,
)
from detectors.progress import alike
from detectors.rule import Explanation, Rule, RuleMatch, belief, no_match, rules_of
from detectors.usual import ALIKE, MEMORY, SAME, full_work, median, medians_where, off, worked_of
from detectors.view import LATELY, LOOKBACK, LOST, View, once_a_tick

STATUS = duration("faults.STATUS")
NEAR = number("faults.NEAR")
_TYPES = ("hardware", "numerical", "transient", "model", "runtime")
HOST_MEMORY = "host_memory_utilization_ratio"
HOST_SUGGESTIONS = (
    "Look for what grows on the host: loaders that keep what they read, caches, checkpoints in"
    " memory; a restart frees it until then.",
    "Run fewer loader workers or prefetch less, and limit the memory of the pod so that it fails"
    " early.",
)


def find_hardware(view: View) -> RuleMatch:
    """Return nodes with hardware errors, failed status checks or many ECC events within the span.

    A single uncorrected ECC event is enough. A fault lasts while any event is seen within the span,
    and until the node has worked for as long without one: a node that stands still after a fault is
    under repair.
    """
    hit = _unmended(view)
    if not (_events(view).any() or hit.any()):
        return no_match(view.n)
    rows = np.flatnonzero(_events(view).any(axis=1))
    uncorrected, broken, ecc, status = (view.metric(name)[rows] for name in HARDWARE_METRICS)
    needed = view.steps("hardware_fault.within")[rows]
    # Where ECC events recur, executions that fail are of the broken device too.
    errors = view.metric("neuron_execution_errors_count")[rows]
    events = sums(ecc, needed) + np.where(recurring(view)[rows], sums(errors, needed), 0.0)
    hit[rows] |= (
        (sums(uncorrected, needed) >= 1)
        | (sums(broken, needed) >= count("faults.BROKEN"))
        | (trailing(status > 0, np.isnan(status)) >= view.window.steps(STATUS))
        | (events >= view.number("hardware_fault.ecc_events")[rows])
    )
    hit &= view.roster.running & view.on("hardware_fault.on")
    return _with_job(view, RuleMatch(hit, np.ones(view.n))) if hit.any() else no_match(view.n)


def _unmended(view: View) -> Mask:
    """Return which broken nodes of open alerts have not yet worked for the span without an event.

    Shape (n,).
    """
    broken = view.nobody()
    for alert in view.opened(Cause.HARDWARE_FAULT.value):
        rows = view.roster.rows_of(alert.anomaly.things)
        since = view.whole.since(alert.anomaly.window.start).pick(rows)
        broken[rows] = np.any(
            [(since.of(name) > 0).any(axis=1) for name in HARDWARE_METRICS], axis=0
        )
    if not broken.any():  # as at most ticks
        return broken
    within = newest_of(view.window.n_steps, view.steps("hardware_fault.within"))
    works = (view.executing & within).sum(axis=1) >= within.sum(axis=1) / 2
    return np.asarray(broken & (failing(view) | ~works))


def recurring(view: View) -> Mask:
    """Return which nodes had ECC events again and again within the span, (n,).

    They need not be as many yet as make a fault.
    """
    events = view.metric("neuron_hardware_ecc_events_count") > 0
    return sums(events, view.steps("hardware_fault.within")) >= count("faults.RECURS")


def _with_job(view: View, sick: RuleMatch) -> RuleMatch:
    """Add to the broken nodes those of their job that fell about as far, and the loss of each.

    A node that fell before waits for something else.
    """
    rows = np.flatnonzero(sick.hit)
    events, within = _events(view)[rows], int(view.steps("hardware_fault.within")[rows].max())
    since = trailing(lately(events, within))
    sick.steps[rows] = np.maximum(
        1, np.where(since, since, events.shape[1] - events.argmax(axis=1))
    )
    steps = sick.steps.copy()

    # How far a node is under what it did right before, and how far the job's level moves by itself.
    low, middle, _ = view.levels
    level = view.recent(view.utilization, view.window.steps(LATELY))
    short = 1 - level / view.worked_before
    usual = np.fmax(number("faults.BEHIND") * (1 - low / middle), LOST)
    judged = ~view.unknown & ~view.evaluating
    under = (1 - view.utilization / view.worked_before[:, None] > usual[:, None]) & judged
    behind = view.mostly(under)
    longest = view.steps("hardware_fault.within").max()
    asked, waiting = failing(view) & behind & ~view.roster.inference & sick.hit, view.nobody()
    rare = trailing(_short_of_work(view), ~judged) > view.stretches(_short_of_work, asked).rare
    waiting |= view.held_open(Cause.HARDWARE_FAULT.value) & ~failing(view)
    for row in np.flatnonzero(asked):
        peers = view.fellows(np.array([row])) & view.launched_before(sick.steps[row])
        # All nodes of a job save and evaluate together: a usual pause is nobody's fault.
        if not (rare[row] or waiting[peers].any()):
            continue
        later = np.maximum(steps[peers], sick.steps[row])
        steps[peers] = np.where(sick.hit[peers], steps[peers], later)
        alike = behind & (short > short[row] / 2)
        under_before = share_before(under, judged, steps.astype(np.intp), longest) > 0.5
        sick.hit[peers] |= (alike & ~under_before)[peers]

    # The limit says who is part of it; what they lose is all that they lose.
    wasted = np.fmax(view.lost_at(level), 0).astype(np.float64)
    mean = view.lost_since(sick.hit, steps, Cause.HARDWARE_FAULT.value)
    return RuleMatch(sick.hit, steps, wasted, np.where(np.isnan(mean), wasted, mean))


def _short_of_work(view: View) -> Mask:
    """Return where a node loses some of its job's usual work, be it all, but in evaluations."""
    return np.asarray((view.level < 1 - LOST) & ~view.evaluating)


def failing(view: View) -> Mask:
    """Return which nodes had a hardware event within the span, (n,).

    A node under repair fails no more, and no other waits for it.
    """
    return sums(_events(view), view.steps("hardware_fault.within")) > 0


def explain_hardware(view: View, _: RuleMatch, rows: Rows) -> Explanation:
    """Explain which kinds of hardware event were seen, and how many."""
    key = "hardware_fault.within"
    ecc = _total(view, "neuron_hardware_ecc_events_count", key, rows)
    uncorrected = _total(view, "neuron_hardware_ecc_uncorrected_count", key, rows)
    broken = _total(view, "neuron_execution_errors_hardware_count", key, rows)
    failed = int((view.recent(view.metric("status_check_failed_count"))[rows] > 0).sum())
    of_these = f" ({uncorrected:,.0f} uncorrected)" if uncorrected else ""
    sentences = (
        (ecc, f"{counted(round(ecc), 'ECC event')}{of_these}"),
        (uncorrected and not ecc, counted(round(uncorrected), "uncorrected ECC event")),
        (
            broken,
            counted(round(broken), "hardware error of executions", "hardware errors of executions"),
        ),
        (failed, "EC2 status checks failed"),
    )
    parts = [sentence for is_there, sentence in sentences if is_there]

    # The sick nodes are named, those that only wait are counted.
    sick = list(rows[failing(view)[rows]]) or list(rows)
    where = f"on {counted(len(sick), 'node')}"
    if len(sick) <= NAMED:
        where = f"on {', '.join(view.roster.ids[i] for i in sick)}"
    if waiting := len(rows) - len(sick):
        fall = "falls" if waiting == 1 else "fall"
        where += f"; {counted(waiting, 'other node')} of the cluster {fall} behind"
    devices = cores.device_evidence(view, rows)
    if devices:
        where += f" ({devices[0].partition(':')[0]})"

    why = f"{', '.join(parts)} within {_minutes(view, rows, key)} {where}."
    return Explanation(
        why=why if parts else _repair(view, rows, where),
        value=ecc + broken,
        unit="count",
        usual=(0.0, 0.0),
        **belief("device_faulty"),
        evidence=(*parts, *devices, *cores.core_evidence(view, rows)),
        metric="neuron_hardware_ecc_events_count" if ecc else None,
        at_risk=work_at_risk(view, rows),
    )


def _repair(view: View, rows: Rows, where: str) -> str:
    """Explain a fault of which nothing is seen now, and whether its nodes have worked since."""
    start = view.since(np.full(view.n, view.window.n_steps), rows, Cause.HARDWARE_FAULT.value)
    part = view.whole.since(start).pick(rows)
    events = np.sum([np.nan_to_num(part.of(name)) for name in HARDWARE_METRICS], axis=0)
    if not events.any():
        return f"Hardware events {where}."
    last = np.flatnonzero((events > 0).any(axis=0))[-1]
    ago = lasted((part.n_steps - 1 - int(last)) * part.step)
    work = worked_of(part)[:, last + 1 :] > view.number("idle.below")[rows, None]
    since = "work is seen there again" if work.any() else "no work was seen there since"
    return f"{counted(round(float(events.sum())), 'hardware event')} {where}, the last {ago} ago; {since}."


@once_a_tick
def _events(view: View) -> Mask:
    """Return where any hardware event was seen, (n, n_steps)."""
    return np.asarray(np.logical_or.reduce([view.metric(name) > 0 for name in HARDWARE_METRICS]))


def find_errors(view: View) -> RuleMatch:
    """Return nodes with more than `execution_errors.above` errors in the span, again in the hour.

    They lose work, or most steps of the span have errors: what passed soon and cost nothing is
    history.
    """
    metric = view.metric("neuron_execution_errors_count")
    rows = np.flatnonzero((metric > 0).any(axis=1))
    if not len(rows):
        return no_match(view.n)
    errors, needed = metric[rows], view.steps("execution_errors.within")[rows]
    hour = np.maximum(needed, view.window.steps(LOOKBACK))
    again, lasting = (
        ((errors > 0) & newest_of(errors.shape[1], steps)).sum(axis=1) for steps in (hour, needed)
    )
    on = view.roster.running & view.on("execution_errors.on")
    total, stays = sums(errors, needed), view.held_open(Cause.EXECUTION_ERRORS.value)[rows]
    begins = (again >= 2) & (total > view.number("execution_errors.above")[rows])
    hit, steps = view.nobody(), np.ones(view.n)
    hit[rows] = (begins | (stays & (total > 0))) & on[rows]
    # What fails where memory has run out is an effect of that.
    hit = narrowed(hit, lambda: ~runs_out(view))
    if not hit.any():
        return no_match(view.n)
    steps[rows] = np.maximum(1, trailing(lately(errors > 0, int(hour.max()))))
    crashed = _crashed(view)
    losing = _losing(view, Cause.EXECUTION_ERRORS, hit, steps, crashed)
    wasted = view.nobody() if losing.wasted is None else losing.wasted > 0

    # What a job that is not known lacks is not known either. One crash may be its end, two are none.
    strange = off(view.recent(view.memory), view.usual_of(MEMORY)) > ALIKE
    of_known_job = (view.usual.own & ~strange) | view.roster.inference
    crashes = (crashed & view.ends).sum(axis=1)
    wasted &= (crashes >= 2) | (of_known_job & (crashes == 0))

    # Servers are swapped, restarted or lack requests for a while beside their peers.
    short = median(_short_of_peers(view, hit)[:, -view.window.steps(LOOKBACK) :])
    wasted &= ~(short <= 1 - view.number("starved.over"))
    losing.hit[rows] &= stays | (lasting > needed / 2) | wasted[rows]
    return losing


def _crashed(view: View) -> Mask:
    """Return where no process is loaded since one that errors ended, (n, n_steps).

    They are read in its last step or in the one after it: other processes end by themselves.
    """
    step = np.arange(view.window.n_steps)
    failed = lately(view.metric("neuron_execution_errors_count") > 0, 1)
    last_end = np.maximum.accumulate(np.where(view.ends, step, 0), axis=1)
    return np.asarray(view.unloaded & np.take_along_axis(failed, last_end, axis=1))


def _short_of_peers(view: View, hit: Mask) -> Floats:
    """Return by which share servers do less than sound ones that hold the same model.

    Shape (n, n_steps), nan where none does anything: what is asked of a service at rest tells
    nothing.
    """
    short = np.full_like(view.utilization, np.nan)
    for servers in alike(view):
        work = mean_where_read(view.utilization[servers[~hit[servers]]], axis=0)
        work[work <= view.number("idle.below")[servers[0]]] = np.nan
        short[servers] = 1 - view.utilization[servers] / work
    return short


def _losing(
    view: View, cause: Cause, hit: Mask, steps: Numbers, stopped: Mask | None = None
) -> RuleMatch:
    """Return nodes in a trouble that need not slow them, with the share that each loses.

    By the median of an hour's work, which lies near its upper quartile: a trouble slows all steps,
    a checkpoint or an evaluation only some of them, and those are no loss; nor is a level that the
    job often shows. Where the trouble has `stopped` processes, all steps tell: one that starts again
    and again loses the time in which it does not train. So they do where a host slows down more and
    more, and where sound servers show what one in trouble would do without it.
    """
    newest = slice(-view.window.steps(LOOKBACK), None)
    work = view.utilization[:, newest]
    in_full = work >= full_work(work)[:, None]
    level = medians_where(work, in_full)
    lost = np.nan_to_num(view.lost_at(level)).astype(np.float64)
    lost[(lost <= LOST) | (level >= view.levels[0])] = 0

    in_trouble = newest_of(view.window.n_steps, steps)
    gone = in_trouble & (view.unloaded if stopped is None else stopped)
    host, by_peers = host_full(view), _short_of_peers(view, hit)
    served: Mask = np.asarray(np.isfinite(by_peers[:, newest]).any(axis=1))
    rows = np.flatnonzero(hit & (gone[:, newest].any(axis=1) | served | (host.steps > 0)))
    if not len(rows):
        return RuleMatch(hit, steps, lost)
    work, before = view.utilization[rows], host.before[rows, None]
    less = np.where(np.isnan(before), view.lost_at(work, rows), 1 - work / before)
    share, since = np.clip(less, 0, 1), lost.copy()
    share = np.where(served[rows, None], by_peers[rows], share)
    share[_saves_nothing(view, (gone & ~view.executing)[rows])] = 1
    uncounted = view.uncounted(steps, rows, *rules_of(cause))
    newest_share = np.where(in_trouble[rows], share, np.nan)[:, newest]
    lost[rows] = np.nan_to_num(mean_where_read(newest_share, axis=1))
    since[rows] = np.nan_to_num(mean_where_read(np.where(uncounted, share, np.nan), axis=1))
    spared = served & (lost <= LOST)
    lost[spared] = since[spared] = 0
    return RuleMatch(hit, steps, lost, since)


def _saves_nothing(view: View, gone: Mask) -> Mask:
    """Return where processes that began amid a trouble live too shortly to have saved anything.

    By where they are `gone`, (n, n_steps). The one that still lives may until it outlives the one
    before it.
    """
    short = np.zeros_like(gone)
    row, begin, end = runs_of(~gone)
    length = end - begin
    lives = (begin > 0) & (length < view.window.steps(LEAST))
    outlives = np.ones_like(lives)
    outlives[1:] = ~lives[:-1] | (row[:-1] != row[1:]) | (length[1:] > length[:-1])
    lives &= (end < gone.shape[1]) | ~outlives
    for node, first, last in zip(row[lives], begin[lives], end[lives], strict=True):
        short[node, first:last] = True
    return short


def explain_errors(view: View, _: RuleMatch, rows: Rows) -> Explanation:
    """Explain how many executions failed, and of which types."""
    key = "execution_errors.within"
    total = _total(view, "neuron_execution_errors_count", key, rows)
    counts = (_total(view, f"neuron_execution_errors_{kind}_count", key, rows) for kind in _TYPES)
    ranked = sorted(zip(counts, _TYPES, strict=True), reverse=True)
    types = ", ".join(f"{n:,.0f} {kind}" for n, kind in ranked if n) or "type not reported"
    return Explanation(
        why=f"{total:,.0f} execution errors within {_minutes(view, rows, key)}"
        f" on {counted(len(rows), 'node')} ({types}).",
        value=total,
        unit="count",
        usual=(0.0, 0.0),
        **belief("errors_frequent"),
        evidence=(types, *cores.core_evidence(view, rows)),
    )


def sums(values: Floats | Mask, steps: Numbers) -> Numbers:
    """Return the sum of the newest `steps`, (n,), readings of each row.

    0 where nothing was read, which flags nothing.
    """
    summands = newest_of(values.shape[1], steps) & ~np.isnan(values)
    return np.asarray(np.where(summands, values, 0).sum(axis=1, dtype=np.float64))


def _total(view: View, name: str, key: str, rows: Rows) -> float:
    """Return the sum of a metric over the nodes at `rows` within the span of a setting."""
    return float(sums(view.metric(name), view.steps(key))[rows].sum())


def _minutes(view: View, rows: Rows, key: str) -> str:
    minutes = view.steps(key)[rows[0]] * view.window.step.total_seconds() / 60
    return f"{minutes:.0f} min"


@once_a_tick
def out_of_memory(view: View) -> Mask:
    """Return where a process ended as its device memory ran out, (n, n_steps) of the last hour.

    It climbed beyond the usual, and would have been full within the step in which it was freed.
    """
    newest = slice(-view.window.steps(LOOKBACK) - 2, None)
    usual, limit = view.usual_of(MEMORY)[:, None], view.number("memory_pressure.above")
    memory, full = view.memory[:, newest], (limit * view.roster.memory)[:, None]
    earlier, before = memory[:, :-2], memory[:, 1:-1]
    lived = (earlier >= number("view.KEPT") * usual) & (before > (1 + SAME) * usual)
    if not lived.any():  # as at most ticks
        return np.zeros(lived.shape, dtype=bool)
    fills = lived & (np.fmax(before, 2 * before - earlier) >= full) & ~(usual >= full)
    # The process is gone for part of this step and of the next.
    gone = view.unloaded[:, newest][:, 2:].copy()
    gone[:, :-1] |= gone[:, 1:]
    return np.asarray(fills & (memory[:, 2:] < before) & gone)


def runs_out(view: View) -> Mask:
    """Return which nodes' processes end again and again as memory runs out, (n,)."""
    ends = out_of_memory(view)
    if not ends.any():  # as at most ticks
        return view.nobody()
    lately = ends[:, -ends.shape[1] // 2 :].any(axis=1)
    stays = view.held_open(Cause.MEMORY_PRESSURE.value) & lately
    again = (ends.sum(axis=1) >= 2) | stays
    return np.asarray(again & view.on("memory_pressure.on"))


def find_memory(view: View) -> RuleMatch:
    """Return nodes whose device memory is nearly full although it usually is not.

    Or was each time that their process ended, within the hour. Or that of their host is.
    """
    above, ends = view.number("memory_pressure.above"), out_of_memory(view)
    host, alerted = host_full(view).steps, view.opened(Cause.MEMORY_PRESSURE.value)
    # It is full for some steps only where the last one is, or was not read.
    room = (view.memory[:, -1] / view.roster.memory).astype(np.float32) < above
    if not (alerted or host.any() or ends.any()) and room.all():
        return no_match(view.n)
    share = (view.memory / view.roster.memory[:, None]).astype(np.float32)
    full = share >= above[:, None]
    usual = view.usual_of(MEMORY) / view.roster.memory
    steps = trailing(full, np.isnan(share))
    begins = view.eligible & ~(usual >= above - NEAR)
    begins &= steps >= view.steps("memory_pressure.for")
    stays = view.held_open(Cause.MEMORY_PRESSURE.value) & (view.recent(share) >= above - NEAR)
    loops = runs_out(view)
    hit = begins | (host > 0) | (view.roster.running & (stays | loops))
    hit &= view.on("memory_pressure.on")
    if not hit.any():
        return no_match(view.n)
    steps = np.where(loops, ends.shape[1] - ends.argmax(axis=1), np.maximum(steps, host))
    return _losing(view, Cause.MEMORY_PRESSURE, hit, steps.astype(np.float64))


class HostFull(NamedTuple):
    """Hold which nodes lack work since their host's memory ran full, each (n,)."""

    steps: Counts
    """Since when they lack it, 0 for the other nodes."""
    before: Floats
    """Their utilization in the same process before, nan for the other nodes."""


@once_a_tick
def host_full(view: View) -> HostFull:
    """Return the nodes that lack work since their host's memory ran full.

    A leak climbs to the loss that it causes: the process itself worked more before. One that began
    on a full host shows none.
    """
    filled, above = view.recent(view.metric(HOST_MEMORY)), view.number("memory_pressure.above")
    full = HostFull(np.zeros(view.n, dtype=np.intp), np.full(view.n, np.nan, dtype=np.float32))
    held = view.held_open(Cause.MEMORY_PRESSURE.value) & view.roster.running
    rows = np.flatnonzero((filled >= above - NEAR) & (held | view.eligible))
    if not len(rows):  # as at most ticks
        return full

    day = view.whole.last(DAY).pick(rows)
    memory, work = day.of(HOST_MEMORY), worked_of(day)
    room = trailing(memory >= above[rows, None] - NEAR, np.isnan(memory))
    as_now = off(day.of(MEMORY), view.recent(view.memory)[rows, None]) <= SAME
    before = as_now & ~newest_of(day.n_steps, room) & (work > view.number("idle.below")[rows, None])
    usual = medians_where(work, before)
    less = trailing(work < view.number("starved.over")[rows, None] * usual[:, None], np.isnan(work))
    begins = (filled[rows] >= above[rows]) & (less >= view.steps("memory_pressure.for")[rows])
    begins &= view.eligible[rows] & (before.sum(axis=1) >= day.steps(SETTLED))
    begins &= median(view.whole.of(HOST_MEMORY)[rows]) < above[rows] - NEAR
    begins |= held[rows]
    full.steps[rows[begins]] = np.maximum(less, 1)[begins]
    full.before[rows[begins]] = usual[begins]
    return full


def explain_memory(view: View, _: RuleMatch, rows: Rows) -> Explanation:
    """Explain how full the device memory is, against the type's."""
    if (host_full(view).steps[rows] > 0).all():
        return _explain_host(view, rows)
    memory, whole = view.memory[rows], view.roster.memory[rows]
    used, ends = view.recent(view.memory)[rows], out_of_memory(view)[rows]
    if ends.any():
        # Of a process that ended, as it was right before.
        before = memory[:, -ends.shape[1] - 1 : -1]
        used = np.fmax.reduce(np.where(ends, before, np.nan), axis=1)
    share = float(np.nanmax(used / whole))
    usual = view.usual_of(MEMORY)[rows] / whole
    usual = usual[np.isfinite(used) & np.isfinite(usual)]
    usually = f", usually {percent(float(np.median(usual)))}" if len(usual) else ""
    most, of = size(float(np.nanmax(used))), size(float(np.nanmedian(whole)))
    nodes = counted(len(rows), "node")
    why = f"Device memory {percent(share)} full ({most} of {of}) on {nodes}{usually}."
    if ends.any():
        times = counted(int(ends.sum(axis=1).max()), "time")
        hour = lasted(ends.shape[1] * view.window.step)
        why = (
            f"Device memory ran full and the process ended {times} within {hour} on {nodes}:"
            f" {percent(share)} ({most} of {of}) in the step before{usually}."
        )
    return Explanation(
        why=why,
        value=share,
        unit="ratio",
        usual=(float(usual.min()), float(usual.max())) if len(usual) else None,
        **belief("memory_full"),
    )


def _explain_host(view: View, rows: Rows) -> Explanation:
    """Explain how full the host's memory is, and how much less is worked since."""
    full = middle_of(view.recent(view.metric(HOST_MEMORY))[rows])
    usual = middle_of(median(view.whole.of(HOST_MEMORY)[rows]))
    level = percent(middle_of(view.recent(view.utilization)[rows]))
    worked = host_full(view).before[rows]
    before = f" instead of {percent(middle_of(worked))}" if np.isfinite(worked).any() else ""
    return Explanation(
        why=f"Host memory {percent(full)} full on {counted(len(rows), 'node')}, usually"
        f" {percent(usual)}: {view.gauge(rows)} {level}{before}.",
        value=full,
        unit="ratio",
        usual=(usual, usual),
        **belief("host_memory_full"),
        evidence=(f"host CPU {percent(middle_of(view.recent(view.cpu)[rows]))}",),
        suggestions=HOST_SUGGESTIONS,
        metric=HOST_MEMORY,
    )


HARDWARE_FAULT = Rule(Cause.HARDWARE_FAULT, find_hardware, explain_hardware)
EXECUTION_ERRORS = Rule(Cause.EXECUTION_ERRORS, find_errors, explain_errors, yields_to_fault=True)
MEMORY_PRESSURE = Rule(Cause.MEMORY_PRESSURE, find_memory, explain_memory)
