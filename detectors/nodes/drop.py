"""Find nodes that work well under their usual, soon where the drop is deep."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

import numpy as np

from bot.model.causes import Cause
from detectors.nodes import cores, faults
from detectors.nodes.drop_cause import (
    CPU_ABOVE,
    DIVERTED,
    FAMILY,
    SETTLED,
    STEADY,
    explain,
    ratio_to,
    straggler,
)
from detectors.numbers import (
    DAY,
    WEEK,
    Counts,
    Floats,
    Mask,
    Numbers,
    count,
    duration,
    mean_where_read,
    middle_of,
    narrowed,
    newest_of,
    number,
    runs_of,
    seen_within,
    share_before,
    since_last,
    trailing,
)
from detectors.progress import SLOWER, Pace, pace_of_nodes, rolling
from detectors.rule import Rule, RuleMatch, no_match
from detectors.usual import (
    ALIKE,
    HIGHEST,
    LATENCY,
    MEMORY,
    SENT,
    forget,
    median,
    medians_where,
    off,
    strange_spans,
    worked_of,
)
from detectors.view import BEFORE, LOST, OVER_ENDS, View, once_a_tick

NOW = duration("drop.NOW")
PARTLY = number("drop.PARTLY")
EVIDENT = duration("drop.EVIDENT")
RESTART = duration("drop.RESTART")


def find(view: View) -> RuleMatch:
    """Return the nodes whose utilization, still executing, fell under their usual.

    A deep drop matches soon, a shallow one later. Training is judged against the node's own median.
    A server of which less is asked starves only where its host is saturated. A drop that follows a
    start rather than work, comes with other memory in use or with much quicker executions (an
    evaluation only runs forward) is other work, unless the CPUs say more.
    """
    over, below = view.number("starved.over"), view.number("starved.below")
    if not view.opened(*FAMILY, Cause.HARDWARE_FAULT.value):
        highest = np.maximum.reduce((below, view.number("starved.deep"), over))
        # A streak ends at the last step that was read, so nobody is in a drop now.
        low = (view.unknown[:, -1] | (view.level[:, -1] < highest)).any()
        if not low and not (pace_of_nodes(view).slow_steps > 0).any():
            return no_match(view.n)

    training = ~view.roster.inference
    soon, steps = _soon(view)
    soon = narrowed(soon, lambda: training & ~(slower(view) & _quiet(view)))

    # A starving loader flutters: its mean tells as well as each step, held against a usual one. What
    # is as good as usual again is over, however low its mean still is.
    goes_on = ~working(view)
    level = _smoothed(view, goes_on)
    shallow = np.where(goes_on, _seen(view, view.at_work & (level < below[:, None])), 0)
    late = shallow >= view.steps("starved.shallow_for")
    late = narrowed(late, lambda: training | loader_busy(view))
    fluttering = view.at_work & (level < over[:, None])
    steps = np.where(late, np.maximum(steps, _lasted(view, fluttering)), steps)
    evident = (shallow >= view.window.steps(EVIDENT)) & training
    evident = narrowed(evident, lambda: _no_pause(view, shallow) | _waits_for_one(view, evident))
    again, onset, lost = _in_mean(view, training, goes_on, late)
    looping = _looping(view).nodes
    steps = np.where(again, np.maximum(steps, onset), steps)
    late |= again

    # Steps tell more than utilization: nodes that wait in a collective look as busy as ever, and
    # what goes on as fast as ever has lost nothing.
    pace = pace_of_nodes(view)
    # A run is slow whenever it evaluates: executions that are slower too, or its habit, tell more.
    slow = (pace.slow_steps >= view.window.steps(EVIDENT)) & training
    untimed = np.isnan(view.recent(view.latency) + view.usual_of(LATENCY)) & pace.by_tokens
    rare = untimed & (pace.slow_steps > pace.usual_steps)
    lasting = pace.slow_steps > np.maximum(pace.usual_steps, view.window.steps(SETTLED))
    slow = narrowed(slow, lambda: (slower(view) & (lasting | ~_quiet(view))) | rare)
    steps = np.where(slow, np.maximum(steps, pace.slow_steps), steps)
    in_full = (pace.newest >= number("drop.FULL")) & training

    training_now = view.eligible & view.executing[:, -1] & ~view.evaluating[:, -1]
    begins = training_now & (((soon | late | evident) & ~in_full) | slow)
    begins |= view.eligible & looping
    begins = narrowed(begins, lambda: looping | _same_job(view, steps, late))
    begins &= view.usual.own | ((steps >= view.window.steps(SETTLED)) & _saturated(view))
    # While a fault is open, what its peers lose is its effect.
    faulty = view.held_open(Cause.HARDWARE_FAULT.value)
    begins = narrowed(begins, lambda: ~(cores.settling(view) | faults.recurring(view) | faulty))
    begins = narrowed(begins, lambda: _longer_than_troubles(view, begins))
    begins = narrowed(begins, lambda: ~_by_the_clock(view, begins, steps))

    # A node that executes nothing at all is another rule's.
    still = trailing(view.zero & view.standing, view.unknown) >= 2
    kept = _still_dropped(view, pace) | (again & view.held_open(*FAMILY))
    hit = (begins | kept) & ~(still & ~looping)
    if not (hit.any() or view.opened(Cause.HARDWARE_FAULT.value)):
        return RuleMatch(hit, steps)
    wasted, since = (np.where(np.isnan(lost), x, lost) for x in _wasted(view, hit, steps))
    _date(view, hit & training & ~view.held_open(*FAMILY), steps, since)
    return RuleMatch(hit & view.limits.on("starved.on"), steps, wasted, since)


def _in_mean(view: View, training: Mask, goes_on: Mask, late: Mask) -> tuple[Mask, Counts, Numbers]:
    """Return which nodes lack work only in the mean of an hour, since how many steps, and how much.

    Each (n,); how much is nan where the newest steps tell it. Their low steps look like pauses.
    """
    again, onset = _again(view, goes_on & training)
    held_back, lost = _held_back(view, training & ~late)
    blinking, loop = again & ~late, _looping(view)
    if blinking.any():
        mean = view.usual.unpaused * (1 - _mean_work(view, view.worked_before)[:, -1])
        lost = np.where(blinking, mean, lost)
    lost = np.where(loop.nodes, loop.lost, lost)
    onset = np.maximum(np.maximum(onset, held_back), np.where(loop.nodes, loop.steps, 0))
    return again | (held_back > 0) | loop.nodes, onset, lost


def _smoothed(view: View, asked: Mask) -> Floats:
    """Return the levels, (n, n_steps), of those asked for as low as the mean around each step."""
    level = view.level.copy()
    trained = level[asked] / view.usual.unpaused[asked, None]
    trained = np.where(view.at_work[asked], trained, np.nan).astype(np.float32)
    smoothing = view.window.steps(duration("progress.SMOOTH"))
    level[asked] = np.fmin(level[asked], rolling(trained, smoothing))
    return level


def _wasted(view: View, hit: Mask, steps: Numbers) -> tuple[Numbers, Numbers]:
    """Return the share of its usual work that each node of `hit` loses, now and since last seen."""
    wasted = _lost(view, hit, steps)
    since = view.lost_since(hit, steps, *FAMILY)
    since = np.where(np.isnan(since), wasted, since)

    lately = pace_of_nodes(view).lately
    busy = hit & (lately < view.number("starved.over")) & working(view)
    wasted, since = (np.where(busy, 1 - lately, share) for share in (wasted, since))
    return wasted, since


def _date(view: View, fallen: Mask, steps: Numbers, since: Numbers) -> None:
    """Date in place the drops that are as old as the window, and set what they lost since then.

    They began where the work lost since then is the most, after the last stop or alert of a day.
    """
    rows = np.flatnonzero(fallen & (steps >= view.window.n_steps))
    if not len(rows):
        return
    day = view.over(view.whole.last(DAY).pick(rows), view.usual.pick(rows))
    work = np.where(day.at_work, np.fmin(day.level, 1), np.float32(1))
    known = np.ones_like(work)
    forget(known, day.window, day.roster, strange_spans(view.alerts, view.now))
    ended = day.standing | (day.restarting & ~day.evaluating) | np.isnan(known)
    looked_at = newest_of(day.window.n_steps, since_last(ended))

    # One that crept was at the usual as long before it lost something as it took to lose twice that.
    unpaused = day.usual.unpaused
    some, twice = (_longest_ago(work, (1 - n * LOST) * unpaused, looked_at) for n in (1, 2))
    ago = np.maximum(1, np.minimum(2 * some - twice, looked_at.sum(axis=1)))
    longer = ago > steps[rows]
    lost = unpaused - np.mean(work, axis=1, where=newest_of(day.window.n_steps, ago))
    steps[rows[longer]], since[rows[longer]] = ago[longer], lost[longer]


def _longest_ago(work: Floats, usual: Floats | Numbers, looked_at: Mask) -> Counts:
    """Return since how many steps the work that lacks under a level of it, (n,), is the most."""
    excess = np.where(looked_at, usual[:, None] - work, -1)
    lost = np.cumsum(excess[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(work.shape[1] - lost.argmax(axis=1))


def _soon(view: View) -> tuple[Mask, Numbers]:
    """Return which nodes fell deep for long enough, and the streak of any drop, each (n,).

    The streak dates the onset. A pause of some minutes over two steps looks as deep as a drop. A
    drop must last a step more and be deeper, unless even the highest readings of all its steps are
    low, or the rest of the work shows that it is no pause: then the step of the onset, which is low
    only in part, counts too where several nodes fall together.
    """
    limit, needed = view.number("starved.deep")[:, None], view.steps("starved.for")
    below_deep = view.at_work & (view.level < limit)
    deep = _seen(view, below_deep)
    lasted = _lasted(view, view.at_work & _low(view))
    if not deep.any():
        return np.zeros(view.n, dtype=bool), lasted.astype(np.float64)
    steps = np.maximum(_lasted(view, below_deep), lasted).astype(np.float64)
    soon = (deep > 0) & (deep >= np.where(_fell_together(view, deep), needed - 1, needed))
    if not soon.any():  # as at most ticks, in a pause of a step
        return soon, steps
    soon &= _no_pause(view, deep)

    # Without a further sign only the length tells a drop from a pause: longer than the job pauses,
    # and a step longer than one that has shown no pause yet.
    blind = np.isnan(view.usual_of(MEMORY))
    longer = needed + view.window.steps(NOW) + blind * view.window.steps(RESTART)
    highest = ratio_to(view.metric(HIGHEST), view.usual_of(HIGHEST)[:, None])
    depth = np.where(np.isnan(highest), view.level / number("drop.DEEPER"), highest)
    deeper = _seen(view, below_deep & (depth < limit))
    # A peak within each step says nothing of a drop that no pause of a few minutes can be.
    signless = ((deeper >= longer) | (deep > view.window.steps(SETTLED))) & ~soon
    soon |= narrowed(signless, lambda: _longer_than_pauses(view, signless))
    return soon, steps


def _fell_together(view: View, deep: Counts) -> Mask:
    """Return which nodes fell with others of their scope and had begun to a step before, (n,)."""
    onset = np.clip(view.window.n_steps - 1 - deep, 0, None)
    before, mask = view.level[np.arange(view.n), onset], view.nobody()
    for _, rows in view.roster.by_scope(deep > 0):
        same = rows[np.abs(deep[rows] - np.median(deep[rows])) <= 1]
        mask[same] = len(same) >= count("drop.COHERENT") and middle_of(before[same]) < PARTLY
    return mask


def under(view: View) -> Mask:
    """Return where a node trains less than usual, be it nothing: an evaluation is other work."""
    return _low(view) & ~view.evaluating & ~view.forward


def _low(view: View) -> Mask:
    """Return where a node works less than usual, be it in an evaluation."""
    return np.asarray(view.level < view.number("starved.over")[:, None])


def _longer_than_pauses(view: View, asked: Mask) -> Mask:
    """Return which nodes are under their usual for longer than their job usually pauses, (n,)."""
    longer = np.asarray(_streak(view, under(view)) >= view.rare_after("starved.for", under, asked))
    return longer & ~_as_evaluations(view, asked & longer)


def lacking(view: View) -> Mask:
    """Return where a node works far less than usual by the mean of the time before, (n, n_steps).

    The mean is taken over as long as a shallow drop must last, whatever the shape of the work in
    it: hours of phases always have the same mean, those of a drop that comes and goes do not. More
    than usual makes up for nothing, and a start or an evaluation is no drop.
    """
    return _lacking(view, "starved.below")


def nearly_lacking(view: View) -> Mask:
    """Return where a node lacks at least half as much by that mean, (n, n_steps)."""
    return np.asarray(_usual_part(view) < (1 + view.number("starved.below")[:, None]) / 2)


def _lacking(view: View, key: str) -> Mask:
    """Return where the mean work is under the share that a setting names, (n, n_steps)."""
    return np.asarray(_usual_part(view) < view.number(key)[:, None])


@once_a_tick
def _usual_part(view: View) -> Floats:
    """Return the mean share of the middle level in each step and the time before, (n, n_steps)."""
    return _mean_work(view, view.levels[1])


def _mean_work(view: View, usual: Floats) -> Floats:
    """Return the mean share of usual work in each step and the time before, (n, n_steps)."""
    share = view.utilization / usual[:, None]
    work = np.where(view.at_work | np.isnan(share), np.minimum(share, 1), 1)
    mean = rolling(work, int(view.steps("starved.shallow_for").max()))
    return np.asarray(mean / view.usual.unpaused[:, None])


def _again(view: View, asked: Mask) -> tuple[Mask, Counts]:
    """Return which nodes fall again and again, and since how many steps, each (n,).

    That is rare for the job of those asked for, or goes on in an open drop.
    """
    again, onset = _coming_back(view, asked, "starved.below", times=2)
    if again.any():
        # A young history has shown too few hours to know which mean of one is rare. Nor is an hour
        # rare that is a little lower than those that a job of phases has.
        young = view.now - view.whole.start < duration("usual.YOUNG")
        unsure = young | (view.stretches(nearly_lacking, again).count > 0)
        soon, later = (
            view.rare_after(key, lacking, again) for key in ("starved.for", "starved.shallow_for")
        )
        needed = np.where(unsure, later, soon)
        again &= trailing(lacking(view), view.unknown) >= needed
    held = view.held_open(*FAMILY) & ~view.roster.inference
    goes_on, longer = _coming_back(view, held, "starved.over")
    return again | goes_on, np.maximum(onset, longer)


def _coming_back(view: View, asked: Mask, key: str, times: int = 1) -> tuple[Mask, Counts]:
    """Return which nodes are in a drop that comes and goes, and since how many steps, each (n,).

    Their mean work is under the share that a setting names, and came back some `times`, once for as
    long as now.
    """
    again, onset = view.nobody(), np.zeros(view.n, dtype=np.intp)
    rows = np.flatnonzero(narrowed(asked, lambda: _lacking(view, key)[:, -1]))
    if not len(rows):
        return again, onset
    below = view.number(key)[rows]

    # It began where the work that lacks since then is the most.
    lacks, n_steps = trailing(_lacking(view, key)[rows], view.unknown[rows]), view.window.n_steps
    looked_at = newest_of(n_steps, lacks + view.steps("starved.shallow_for")[rows])
    work = np.where(view.at_work[rows], np.fmin(view.level[rows], 1), 1)
    ago = _longest_ago(work, below, looked_at)
    onset[rows] = np.where(looked_at.all(axis=1), n_steps, ago)

    low = _low(view)[rows] & view.at_work[rows]
    row, begin, end = runs_of(~low)
    between = (begin > n_steps - ago[row]) & (end < n_steps)
    longest = np.zeros(len(rows), dtype=np.intp)
    np.maximum.at(longest, row[between], (end - begin)[between])
    often = np.bincount(row[between], minlength=len(rows)) >= times

    # From when it first came back on it must lack as much: after a drop, usual pauses do not.
    first_back = np.full(len(rows), n_steps - 1)
    np.minimum.at(first_back, row[between], begin[between])
    since_back = np.arange(n_steps) >= first_back[:, None]
    still = np.mean(work, axis=1, where=since_back) < below
    again[rows] = often & still & (since_last(low) <= longest)
    return again, onset


def ending_again(view: View) -> Mask:
    """Return where an hour lacks work as processes end again and again, (n, n_steps).

    More than one has ended amid its work within twice that time.
    """
    gone = view.unloaded
    ended = np.zeros_like(gone)
    ended[:, 1:] = gone[:, 1:] & ~gone[:, :-1] & view.executing[:, :-1]
    times, steps = ended.cumsum(axis=1), 2 * int(view.steps("starved.shallow_for").max())
    times[:, steps:] -= times[:, :-steps].copy()
    return np.asarray((times > 1) & (_with_stops(view) < view.number("starved.below")[:, None]))


OVER_ENDS.add(ending_again)


def _with_stops(view: View) -> Floats:
    """Return the mean share of usual work in each step and the time before, stops included."""
    share = np.where(view.evaluating, np.float32(1), np.fmin(view.level, 1))
    mean = rolling(share, int(view.steps("starved.shallow_for").max()))
    return np.asarray(mean / view.usual.unpaused[:, None])


class _Loop(NamedTuple):
    """Hold which nodes' processes end again and again, each (n,)."""

    nodes: Mask
    steps: Counts
    lost: Numbers
    """The share of their usual work that they lack by the mean of an hour, nan for other nodes."""


@once_a_tick
def _looping(view: View) -> _Loop:
    """Return which nodes lack work as their processes end again and again, rarely for their job.

    They worked as usual before the first one ended, or are in an open drop. What another alert is
    about is counted there.
    """
    loop = _Loop(view.nobody(), np.zeros(view.n, dtype=np.intp), np.full(view.n, np.nan))
    gone = view.unloaded.any(axis=1) & view.executing.any(axis=1)
    gone &= view.eligible & ~view.roster.inference
    for (rule, _), alert in view.open.items():
        if rule not in FAMILY:
            gone[view.members(alert)] = False
    rows = np.flatnonzero(gone & view.usual.own)
    if not len(rows):
        return loop
    day = view.over(view.whole.last(DAY).pick(rows), view.usual.pick(rows))
    needed, held = day.steps("starved.shallow_for"), view.held_open(*FAMILY)[rows]
    lasts, mean = trailing(ending_again(day), day.unknown), _with_stops(day)[:, -1]

    # It began where the work that lacks since then is the most.
    share = np.where(day.evaluating | day.unknown, np.float32(1), np.fmin(day.level, 1))
    known = np.ones_like(share)
    forget(known, day.window, day.roster, strange_spans(view.alerts, view.now))
    share[np.isnan(known) & ~held[:, None]] = 1
    looked_at = newest_of(day.window.n_steps, lasts + 2 * needed)
    onset = _longest_ago(share, day.number("starved.below"), looked_at)
    as_usual = day.utilization >= day.usual_work[:, None]
    worked = share_before(as_usual, ~day.unknown, onset, day.window.steps(SETTLED)) >= 0.5
    goes_on = held & (mean < day.number("starved.over")) & _comes_back(day, onset)
    long = view.nobody()
    long[rows] = worked & ~held & (lasts >= needed)
    lasting = np.zeros(view.n, dtype=np.intp)
    lasting[rows] = lasts
    # Short jobs, one after another, are no trouble however many hours they go on.
    usual = np.floor(view.stretches(ending_again, long).rare) + 1
    seldom = view.rare_after("starved.shallow_for", ending_again, long)
    rare = long & (lasting >= np.maximum(usual, seldom))

    loop.steps[rows], loop.lost[rows] = onset, day.usual.unpaused * (1 - mean)
    loop.nodes[rows] = (rare & _short_lived(view, rare, loop.steps))[rows] | goes_on
    return loop


def _short_lived(view: View, asked: Mask, steps: Counts) -> Mask:
    """Return which nodes' processes of the newest `steps` are rarely so short in a row, (n,).

    By the share of those before that lasted no longer, so many are expected to follow each other
    less than once in `alert.rare_weeks`: trials of a sweep may end soon several times by chance.
    """
    short, rows = view.nobody(), np.flatnonzero(asked)
    if not len(rows):
        return short
    past = view.over(view.whole.pick(rows), view.usual.pick(rows))
    row, begin, end = runs_of(~past.unloaded)
    weeks = view.policy.number("alert.rare_weeks") / (past.whole.window.length / WEEK)

    for place, node in enumerate(rows.tolist()):
        begins, ends = begin[row == place], end[row == place]
        lasted, since = ends - begins, past.window.n_steps - steps[node]
        newest = (begins > since) & (ends < past.window.n_steps)
        before = lasted[begins <= since]
        if newest.any():
            as_short = (np.count_nonzero(before <= lasted[newest].max()) + 1) / (len(before) + 2)
            short[node] = len(before) * weeks * as_short ** np.count_nonzero(newest) < 1
    return short


def _comes_back(view: View, steps: Counts) -> Mask:
    """Return which nodes' processes ended within as long as they ran in the newest `steps`, (n,)."""
    row, begin, end = runs_of(~view.unloaded)
    within = (begin > view.window.n_steps - steps[row]) & (end < view.window.n_steps)
    longest = np.zeros(view.n, dtype=np.intp)
    np.maximum.at(longest, row[within], (end - begin)[within])
    return np.asarray((longest > 0) & (since_last(view.unloaded) <= longest))


def strained(view: View) -> Mask:
    """Return where a node trains while half as much of its host rests as usual, (n, n_steps)."""
    return np.asarray((view.cpu >= _half_resting(view)[:, None]) & view.at_work)


def _held_back(view: View, asked: Mask) -> tuple[Counts, Numbers]:
    """Return since when nodes asked for work less while hosts are busy for longer than ever.

    That is in steps, 0 where they do not, with the share of their work that they lose, else nan;
    each (n,). Phases hide a loss from every step: its mean is held against the day before.
    """
    steps, lost = _lasted(view, strained(view)), np.full(view.n, np.nan)
    long = asked & (steps >= view.steps("starved.shallow_for"))
    rare = narrowed(long, lambda: steps >= view.rare_after("starved.shallow_for", strained, long))
    rows = np.flatnonzero(rare)
    begun = [min(view.untroubled_until[row], view.time_of(float(steps[row]))) for row in rows]
    for time in set(begun):
        nodes = rows[[start == time for start in begun]]
        day = view.whole.until(time).last(DAY).pick(nodes)
        same = ~(off(day.of(MEMORY), view.usual_of(MEMORY)[nodes, None]) > ALIKE)
        since = view.at_work[nodes] & newest_of(view.window.n_steps, steps[nodes])
        before, newest = (
            mean_where_read(np.where(chosen, work, np.nan), axis=1)
            for chosen, work in ((same, worked_of(day)), (since, view.utilization[nodes]))
        )
        lost[nodes] = 1 - newest / before

    less = lost > LOST
    return np.where(less, steps, 0), np.where(less, lost, np.nan)


def _as_evaluations(view: View, asked: Mask) -> Mask:
    """Return which nodes may be in an evaluation that their memory does not tell, (n,).

    They send as little, and work less for no longer than their job does at its evaluations.
    """
    quiet = narrowed(asked, lambda: _quiet(view))
    return narrowed(
        quiet,
        lambda: trailing(_low(view), view.unknown) < view.rare_after("starved.for", _low, quiet),
    )


def troubled(view: View) -> Mask:
    """Return where a node shows the sign of a drop: slow executions, a busy host or a full NIC."""
    surge = view.cpu >= _half_resting(view)[:, None]
    full = view.efa / view.roster.nic[:, None] >= view.number("network_bound.above")[:, None]
    late = view.latency >= SLOWER * view.usual_of(LATENCY)[:, None]
    return np.asarray((late & view.at_work) | (under(view) & (surge | full | late)))


def _half_resting(view: View) -> Floats:
    """Return the CPU of a host of which half as much rests as usual, (n,)."""
    return np.asarray(1 - 0.5 * (1 - view.usual_of("host_cpu_utilization_ratio")))


def _longer_than_troubles(view: View, asked: Mask) -> Mask:
    """Return which nodes show a sign for longer than their job usually does, or show none now."""
    lasts = _streak(view, troubled(view))
    rare = np.minimum(view.stretches(troubled, asked).rare, view.steps("alert.pause_limit"))
    return np.asarray((lasts == 0) | (lasts > rare))


def _by_the_clock(view: View, asked: Mask, steps: Numbers) -> Mask:
    """Return which nodes asked for work less at a time at which their job does so by habit, (n,).

    It did so on most of the newest days, or on as many of the same weekday. An alert about it
    counts: what comes back every day is a habit. A saturated host or NIC is none, nor is what
    outlasts any pause.
    """
    habit, enough = view.nobody(), count("progress.ENOUGH")
    asked = asked & ~_saturated(view) & ~view.held_open(*FAMILY)
    for _, rows in view.roster.by_scope(asked & (steps < view.steps("alert.pause_limit"))):
        peers = np.flatnonzero(view.fellows(rows))
        over, length = float(view.number("starved.over")[rows[0]]), int(steps[rows].max())
        level = median((worked_of(view.whole)[peers] / view.levels[1][peers, None]).T) / over
        deep = (middle_of(median(view.level[rows, -length:])) + LOST) / over
        days = (*range(1, enough + 2), *(7 * week for week in range(1, enough + 1)))
        fell = [_fell_then(view, level, ago, length, deep) for ago in days]
        habit[rows] = sum(fell[: enough + 1]) >= enough or all(fell[enough + 1 :])
    return habit


def _fell_then(view: View, level: Floats, days: int, length: int, deep: float) -> bool:
    """Return whether a job fell from its usual work as long and as far, some `days` ago.

    By its `level` as a share of the one at which a drop ends, (n_steps,), within a quarter of an
    hour of the same time.
    """
    nearby, settled = view.window.steps(STEADY), view.window.steps(SETTLED)
    latest = len(level) - days * view.window.steps(DAY) + nearby
    for end in range(latest, latest - 2 * nearby - 1, -1):
        start = end - length
        if start < settled:
            return False
        then, before = level[start:end], level[start - settled : start]
        low, worked = then < 1, (before >= 1).mean() >= 0.5
        if worked and low[-1] and low.mean() > 0.5 and np.nanmedian(then) <= deep:
            return True
    return False


def _still_dropped(view: View, pace: Pace) -> Mask:
    """Return the nodes that keep an open drop going, (n,)."""
    if not view.opened(*FAMILY):
        return view.nobody()

    # An evaluation is a pause of the job, not its recovery, unless it takes too long.
    pause = trailing(view.evaluating)
    in_pause = (pause > 0) & (pause < view.steps("starved.shallow_for"))
    slow = pace.lately < view.number("starved.over")
    low_now = falling(view) | in_pause | slow

    # Nodes of one job wait for each other, so those of the job belong to its drop.
    members = view.held_open(*FAMILY)
    for alert in view.opened(*FAMILY):
        rows = view.roster.rows_of(alert.anomaly.things)
        if len(rows) > 1:
            length = (view.now - alert.anomaly.window.start) / view.window.step
            members |= view.fellows(rows) & view.launched_before(length)

    dropped = members & low_now & (view.usual.own | _saturated(view)) & view.roster.running
    low = _low(view) | (view.evaluating & in_pause[:, None])
    return narrowed(dropped, lambda: slow | view.mostly(low))


def _lost(view: View, hit: Mask, steps: Numbers) -> Numbers:
    """Return the share of its usual work that each node of `hit` loses, (n,)."""
    # Readings from before a drop would make its first dollars too few, and the reading in which it
    # ends its last ones: the newest one tells, once the drop has settled the middle of some.
    newest = view.recent(view.utilization, 1)
    unclear = np.isnan(newest) | ~view.at_work[:, -1]  # a restart ends the drop: it is none itself
    level = np.where(unclear, view.recent(view.utilization), newest)
    rows = np.flatnonzero(hit & (steps > view.window.steps(SETTLED)))
    level[rows] = median(view.utilization[rows, -view.window.steps(STEADY) :])
    lost = view.lost_at(level).astype(np.float64)

    # A node that is not read loses as much as the others of its scope.
    for scope in np.unique(view.roster.scope[hit & np.isnan(lost)]):
        members = hit & (view.roster.scope == scope)
        lost[members & np.isnan(lost)] = middle_of(lost[members])
    return np.nan_to_num(lost)


def _no_pause(view: View, steps: Counts) -> Mask:
    """Return which nodes show more than a pause in a drop of some steps, (n,).

    In a pause the host rests and executions are as quick as ever, but for a hiccup.
    """
    surge = view.recent(view.cpu, view.window.steps(NOW)) >= _half_resting(view)
    slow = slower(view) & ~_quiet(view)
    sign = _saturated(view) | surge
    if not (slow | sign).any():
        return sign

    signs = troubled(view)
    if slow.any():
        # Where the job is as low by habit, slow executions alone must last longer than a hiccup.
        habit = steps <= view.stretches(under, slow).rare
        slow &= ~habit | (_streak(view, signs) > view.steps("starved.for"))
    return np.asarray((sign | slow) & (2 * seen_within(signs, steps) > steps))


def _waits_for_one(view: View, asked: Mask) -> Mask:
    """Return which nodes asked for wait for one that works on, (n,): a job pauses as a whole."""
    waits = view.nobody()
    for _, rows in view.roster.by_scope(asked):
        if straggler(view, rows) is not None:
            waits[rows] = view.fellows(rows)[rows]
    return waits


def slower(view: View) -> Mask:
    """Return which nodes' executions take longer than usual and than in usual work lately, (n,).

    A job may slow its executions and not its work, as a longer context does: those of its pauses
    are then no slower.
    """
    latency = view.recent(view.latency, view.window.steps(NOW))
    slower = np.asarray(ratio_to(latency, view.usual_of(LATENCY)) >= SLOWER)
    rows = np.flatnonzero(slower)
    if len(rows):
        newest = slice(-view.window.steps(BEFORE), None)
        working = view.utilization[rows, newest] >= view.usual_work[rows, None]
        before = medians_where(view.latency[rows, newest], working)
        slower[rows] = ~(latency[rows] < SLOWER * before)
    return slower


def _quiet(view: View) -> Mask:
    """Return which nodes lately sent far less than their work would, (n,).

    So does an evaluation, whose executions may be longer. It is asked of each step: an evaluation
    that ended within the newest one has sent as much as ever since.
    """
    newest = slice(-view.window.steps(STEADY), None)
    sent = ratio_to(view.metric(SENT)[:, newest], view.usual_of(SENT)[:, None])
    work = ratio_to(view.utilization[:, newest], view.levels[1][:, None])
    return np.asarray(((sent < DIVERTED * work) & view.executing[:, newest]).any(axis=1))


def loader_busy(view: View) -> Mask:
    """Return which hosts' CPUs are far busier than usual, as by a slow data loader, (n,)."""
    cpu = view.recent(view.cpu, view.window.steps(NOW))
    usual = view.usual_of("host_cpu_utilization_ratio")
    return np.asarray((cpu >= view.number("starved.cpu")) & ~(cpu < usual + CPU_ABOVE))


def _saturated(view: View) -> Mask:
    """Return which nodes' host CPUs or NIC are saturated, (n,).

    That is evidence of a drop even in a job whose usual is not known yet.
    """
    share = view.recent(view.efa, view.window.steps(NOW)) / view.roster.nic
    return np.asarray(loader_busy(view) | (share >= view.number("network_bound.above")))


def falling(view: View) -> Mask:
    """Return which nodes work under their usual right now, however short that is, (n,)."""
    return np.asarray(view.recent(view.utilization, view.window.steps(NOW)) < view.usual_work)


def working(view: View) -> Mask:
    """Return which nodes are seen to work as usual now, (n,); one that is not seen may not."""
    return np.asarray(view.recent(view.utilization, view.window.steps(NOW)) >= view.usual_work)


def fell_lately(view: View, length: timedelta) -> Mask:
    """Return which nodes worked under their usual for a good part of the last `length`, (n,).

    They are in an evaluation, in a drop to be, or look busy while they wait.
    """
    under = view.utilization[:, -view.window.steps(length) :] < view.usual_work[:, None]
    waiting = pace_of_nodes(view).slow_steps > 0
    return np.asarray(under.mean(axis=1) >= number("drop.OFTEN")) | falling(view) | waiting


def _lasted(view: View, below: Mask) -> Counts:
    """Return since how many steps a drop holds, (n,): an evaluation amid it does not end it."""
    return _streak(view, _mostly(below))


def _streak(view: View, holds: Mask) -> Counts:
    """Return in how many of the newest steps something holds, (n,), evaluations left out."""
    return trailing(holds, view.unknown | view.evaluating)


def _seen(view: View, below: Mask) -> Counts:
    """Return in how many steps a drop was seen that still holds, (n,)."""
    return seen_within(_mostly(below) & ~view.evaluating | view.unknown, _lasted(view, below))


def _mostly(below: Mask) -> Mask:
    """Fill short bursts back to normal, at fine steps: a starving loader flutters."""
    filled = below.copy()
    if below.shape[1] > count("drop.FINE"):
        filled[:, 1:-1] |= below[:, :-2] & below[:, 2:]
        filled[:, 2:-1] |= below[:, 1:-2] & below[:, :-3] & below[:, 3:]
    return filled


def _same_job(view: View, steps: Numbers, late: Mask) -> Mask:
    """Return which drops interrupt work of the usual kind, (n,).

    There was work right before, in the same memory; or it is lacking since a stop of the same job;
    or CPUs speak for data.
    """
    length, restart = steps.astype(np.intp), view.window.steps(RESTART)
    as_usual = view.utilization >= view.usual_work[:, None]
    judged = ~view.unknown & ~view.forward & ~view.evaluating
    worked = share_before(as_usual, judged, length, view.window.steps(SETTLED)) >= 0.5
    stopped = view.standing | (view.restarting & ~view.evaluating)
    fell = worked & ~(share_before(stopped, ~view.unknown, length, restart) > 0)
    fell |= narrowed(late & ~fell & view.usual.own, lambda: _crept(view, late & ~fell))
    fell |= late & view.usual.resumed
    memory = ratio_to(view.recent(view.memory), view.usual_of(MEMORY))
    same_memory = np.isnan(memory) | (np.abs(memory - 1) <= ALIKE)

    # Slow out of a start, past its ramp, with a sign that it is more than one.
    resumed = (steps >= view.steps("starved.for") + restart) & _no_pause(view, length)
    resumed &= ~view.roster.inference
    return np.asarray((same_memory & (fell | resumed)) | (late & loader_busy(view)))


def _crept(view: View, asked: Mask) -> Mask:
    """Return which nodes worked as usual since they began, however slowly they fell, (n,)."""
    crept, rows = view.nobody(), np.flatnonzero(asked & ~view.roster.inference)
    if not len(rows):
        return crept
    day = view.over(view.whole.last(DAY).pick(rows), view.usual.pick(rows))
    stopped = day.standing | (day.restarting & ~day.evaluating)
    since = newest_of(day.window.n_steps, since_last(stopped) - day.window.steps(RESTART))
    as_usual = since & ~day.forward & ~day.evaluating & (day.utilization >= day.usual_work[:, None])
    crept[rows] = as_usual.sum(axis=1) >= day.window.steps(SETTLED)
    return crept


DROP = Rule(Cause.STARVED, find, explain)
"""The explanation names the nearer cause: starved, network-bound, or the path of collectives."""
