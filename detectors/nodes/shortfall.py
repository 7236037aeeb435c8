"""Tell where and since when nodes lack work: step by step, or only in the mean of an hour.

The newest steps of three kinds of drop look like pauses of the job. Each kind is a state of the
mean over as long as a shallow drop must last, and a drop where that is rare for the job:

| kind | state | rare where |
|---|---|---|
| falls again and again | `lacking` | its stretch is; work came back twice, once for as long as now |
| is held back by hosts | `strained` | its stretch is; the mean is under that of the day before |
| ends again and again | `ending_again` | its stretch is, and so many processes in a row as short |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bot.model.causes import Family
from detectors.numbers import (
    DAY,
    WEEK,
    Counts,
    Floats,
    Mask,
    Numbers,
    close_gaps,
    count,
    duration,
    mean_where_read,
    narrowed,
    newest_of,
    runs_of,
    seen_within,
    share_before,
    since_last,
    trailing,
)
from detectors.progress import rolling
from detectors.usual import ALIKE, MEMORY, forget, off, strange_spans, worked_of
from detectors.view import LOST, OVER_ENDS, View, once_a_tick

FAMILY = Family.DROP.rules
NOW = duration("drop.NOW")
SETTLED = duration("drop_cause.SETTLED")


def under(view: View) -> Mask:
    """Return where a node trains less than usual, be it nothing: an evaluation is other work."""
    return low(view) & ~view.evaluating & ~view.forward


def far_under(view: View) -> Mask:
    """Return where a node trains so much less that a shallow drop is told."""
    return np.asarray(under(view) & (view.level < view.number("starved.below")[:, None]))


def deep_under(view: View) -> Mask:
    """Return where a node trains so much less that a drop is told soon."""
    return np.asarray(under(view) & (view.level < view.number("starved.deep")[:, None]))


def low(view: View) -> Mask:
    """Return where a node works less than usual, be it in an evaluation."""
    return np.asarray(view.level < view.number("starved.over")[:, None])


def falling(view: View) -> Mask:
    """Return which nodes work under their usual right now, however short that is, (n,)."""
    return np.asarray(view.recent(view.utilization, view.window.steps(NOW)) < view.usual_work)


def working(view: View) -> Mask:
    """Return which nodes are seen to work as usual now, (n,); one that is not seen may not."""
    return np.asarray(view.recent(view.utilization, view.window.steps(NOW)) >= view.usual_work)


def lasted(view: View, below: Mask) -> Counts:
    """Return since how many steps a drop holds, (n,): an evaluation amid it does not end it."""
    return streak(view, _mostly(below))


def streak(view: View, holds: Mask) -> Counts:
    """Return in how many of the newest steps something holds, (n,), evaluations left out."""
    return trailing(holds, view.unknown | view.evaluating)


def seen(view: View, below: Mask) -> Counts:
    """Return in how many steps a drop was seen that still holds, (n,)."""
    filled = _mostly(below)
    return seen_within(filled & ~view.evaluating | view.unknown, streak(view, filled))


def _mostly(below: Mask) -> Mask:
    """Fill single steps back to normal, at fine steps: a starving loader flutters."""
    return close_gaps(below) if below.shape[1] > count("drop.FINE") else below


def longest_ago(work: Floats, usual: Floats | Numbers, looked_at: Mask) -> Counts:
    """Return since how many steps the work that lacks under a level of it, (n,), is the most."""
    excess = np.where(looked_at, usual[:, None] - work, -1)
    lost = np.cumsum(excess[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(work.shape[1] - lost.argmax(axis=1))


class Shortfall(NamedTuple):
    """Hold which nodes lack work in the mean of an hour, each (n,)."""

    nodes: Mask
    steps: Counts
    """Since how many steps, 0 for the other nodes."""
    lost: Numbers
    """The share of their usual work that they lack; nan where the newest steps tell it."""

    def joined(self, newer: Shortfall) -> Shortfall:
        """Return the nodes of both; of the work that one lacks, `newer` tells where it knows."""
        lost = np.where(np.isnan(newer.lost), self.lost, newer.lost)
        return Shortfall(self.nodes | newer.nodes, np.maximum(self.steps, newer.steps), lost)


def _shortfall(nodes: Mask, steps: Counts, lost: Numbers | float) -> Shortfall:
    """Return the shortfall of some nodes, cut from counts and shares of all."""
    return Shortfall(nodes, np.where(nodes, steps, 0), np.where(nodes, lost, np.nan))


def lacking(view: View) -> Mask:
    """Return where a node works far less than usual by the mean of the time before, (n, n_steps).

    Whatever the shape of the work in it: hours of phases always have the same mean, those of a drop
    that comes and goes do not. More than usual makes up for nothing, and a start or an evaluation is
    no drop.
    """
    return np.asarray(_usual_part(view) < view.number("starved.below")[:, None])


def nearly_lacking(view: View) -> Mask:
    """Return where a node lacks at least half as much by that mean, (n, n_steps)."""
    return np.asarray(_usual_part(view) < (1 + view.number("starved.below")[:, None]) / 2)


@once_a_tick
def _usual_part(view: View) -> Floats:
    """Return the mean share of the middle level in each step and the time before, (n, n_steps)."""
    return _mean_work(view, view.levels[1])


def _mean_work(view: View, usual: Floats, of_pause: float = 1) -> Floats:
    """Return the mean share of usual work in each step and the time before, (n, n_steps)."""
    share = view.utilization / usual[:, None]
    share = np.where(view.at_work | np.isnan(share), np.minimum(share, 1), 1)
    return _mean(view, np.where(view.standing & view.holding, np.float32(of_pause), share))


def _mean(view: View, work: Floats) -> Floats:
    """Return the mean of shares of usual work over each step and the time before, (n, n_steps).

    It is one of what the job usually reaches, and taken over as long as a shallow drop must last.
    """
    mean = rolling(work, int(view.steps("starved.shallow_for").max()))
    return np.asarray(mean / view.usual.unpaused[:, None])


def _came_back(lacks: Mask, steps: Counts, times: int) -> tuple[Mask, Counts]:
    """Return which rows came back some `times` from what they lack within their newest `steps`.

    Once it was for as long as they lack it now. And the first step in which each was back, the last
    one of all where never; each (n,).
    """
    n_steps = lacks.shape[1]
    row, begin, end = runs_of(~lacks)
    between = (begin > n_steps - steps[row]) & (end < n_steps)
    longest = np.zeros(len(lacks), dtype=np.intp)
    np.maximum.at(longest, row[between], (end - begin)[between])
    first = np.full(len(lacks), n_steps - 1)
    np.minimum.at(first, row[between], begin[between])
    often = np.bincount(row[between], minlength=len(lacks)) >= times
    return np.asarray(often & (since_last(lacks) <= longest)), first


def coming_back(view: View, asked: Mask, late: Mask) -> Shortfall:
    """Return which nodes asked for fall again and again, rarely for their job or in an open drop.

    Nodes that are `late` lose what their newest steps say.
    """
    begun, onset = _in_turns(view, asked, "starved.below", times=2)
    if begun.any():
        # A young history has shown too few hours to know which mean of one is rare. Nor is an hour
        # rare that is a little lower than those that a job of phases has.
        unsure = view.stretches(nearly_lacking, begun).count > 0
        unsure |= view.now - view.whole.start < duration("usual.YOUNG")
        soon, later = (
            view.rare_after(key, lacking, begun) for key in ("starved.for", "starved.shallow_for")
        )
        begun &= trailing(lacking(view), view.unknown) >= np.where(unsure, later, soon)
    in_drop = view.held_open(*FAMILY) & ~view.roster.inference
    goes_on, longer = _in_turns(view, in_drop, "starved.over", times=1)

    again, lost = begun | goes_on, np.full(view.n, np.nan)
    if again.any():
        work = _mean_work(view, view.worked_before, of_pause=np.nan)[:, -1]
        mean = view.usual.unpaused * (1 - work)
        lost = np.where(late, np.nan, mean)
    return _shortfall(again, np.maximum(onset, longer), lost)


def _in_turns(view: View, asked: Mask, key: str, times: int) -> tuple[Mask, Counts]:
    """Return which nodes are in a drop that comes and goes, and since how many steps, each (n,).

    Their mean work is under the share that a setting names, and came back some `times`.
    """
    again, onset = view.nobody(), np.zeros(view.n, dtype=np.intp)
    limit = view.number(key)
    rows = np.flatnonzero(narrowed(asked, lambda: _usual_part(view)[:, -1] < limit))
    if not len(rows):
        return again, onset

    # It began where the work that lacks since then is the most.
    below, at_work, n_steps = limit[rows], view.at_work[rows], view.window.n_steps
    lacks = trailing(_usual_part(view)[rows] < below[:, None], view.unknown[rows])
    looked_at = newest_of(n_steps, lacks + view.steps("starved.shallow_for")[rows])
    work = np.where(at_work, np.fmin(view.level[rows], 1), 1)
    ago = longest_ago(work, below, looked_at)
    onset[rows] = np.where(looked_at.all(axis=1), n_steps, ago)

    # From when it first came back on it must lack as much: after a drop, usual pauses do not.
    came_back, first = _came_back(low(view)[rows] & at_work, ago, times)
    since_back = np.arange(n_steps) >= first[:, None]
    again[rows] = came_back & (np.mean(work, axis=1, where=since_back) < below)
    return again, onset


def strained(view: View) -> Mask:
    """Return where a node trains while half as much of its host rests as usual, (n, n_steps)."""
    return np.asarray((view.cpu >= view.half_resting[:, None]) & view.at_work)


def held_back(view: View, asked: Mask) -> Shortfall:
    """Return which nodes asked for work less while hosts are busy for longer than ever.

    Phases hide a loss from every step: its mean is held against the day before.
    """
    steps, lost = lasted(view, strained(view)), np.full(view.n, np.nan)
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
    return _shortfall(lost > LOST, steps, lost)


def ending_again(view: View) -> Mask:
    """Return where an hour lacks work as processes end again and again, (n, n_steps).

    More than one has ended amid its work within twice that time.
    """
    times, steps = view.ends.cumsum(axis=1), 2 * int(view.steps("starved.shallow_for").max())
    times[:, steps:] -= times[:, :-steps].copy()
    lacks = _mean(view, _with_stops(view)) < view.number("starved.below")[:, None]
    return np.asarray((times > 1) & lacks)


OVER_ENDS.add(ending_again)


def _with_stops(view: View) -> Floats:
    """Return the share of usual work in each step, nothing in a stop, (n, n_steps)."""
    return np.where(view.evaluating, np.float32(1), np.fmin(view.level, 1))


def looping(view: View) -> Shortfall:
    """Return which nodes lack work as their processes end again and again, rarely for their job.

    They worked as usual before the first one ended, or are in an open drop. What another alert is
    about is counted there.
    """
    gone = view.unloaded.any(axis=1) & view.executing.any(axis=1)
    gone &= view.eligible & ~view.roster.inference & view.usual.own
    for (rule, _), alert in view.open.items():
        if rule not in FAMILY:
            gone[view.members(alert)] = False
    steps, lasts = np.zeros((2, view.n), dtype=np.intp)
    lost, long, goes_on = np.full(view.n, np.nan), view.nobody(), view.nobody()
    rows = np.flatnonzero(gone)
    if not len(rows):
        return Shortfall(long, steps, lost)
    day = view.over(view.whole.last(DAY), rows, view.usual.pick(rows))
    needed, in_drop = day.steps("starved.shallow_for"), view.held_open(*FAMILY)[rows]
    lasts[rows], work = trailing(ending_again(day), day.unknown), _with_stops(day)
    mean = _mean(day, work)[:, -1]

    # It began where the work that lacks since then is the most, outside of other alerts.
    known = np.ones_like(work)
    forget(known, day.window, day.roster, strange_spans(view.alerts, view.now))
    work[np.isnan(known) & ~in_drop[:, None]] = 1
    looked_at = newest_of(day.window.n_steps, lasts[rows] + 2 * needed)
    onset = longest_ago(work, day.number("starved.below"), looked_at)
    steps[rows], lost[rows] = onset, day.usual.unpaused * (1 - mean)

    as_usual = day.utilization >= day.usual_work[:, None]
    share = share_before(as_usual, ~day.unknown, onset, day.window.steps(SETTLED))
    long[rows] = (share >= 0.5) & ~in_drop & (lasts[rows] >= needed)
    back, _ = _came_back(day.unloaded, onset, times=1)
    goes_on[rows] = in_drop & (mean < day.number("starved.over")) & back

    # Short jobs, one after another, are no trouble however many hours they go on. A node of the last
    # day has shown too few of its own: those of its scope tell which hours are usual.
    usual = view.stretches(ending_again, long).rare
    scope, young = view.roster.scope, ~view.launched_before(view.window.steps(DAY))
    for place, nodes in view.roster.by_scope(long & young):
        usual[nodes] = usual[scope == place].max()
    rare = long & (lasts >= view.rare_after("starved.shallow_for", ending_again, long))
    rare &= lasts > np.floor(usual)
    return _shortfall((rare & _short_lived(view, rare, steps)) | goes_on, steps, lost)


def _short_lived(view: View, asked: Mask, steps: Counts) -> Mask:
    """Return which nodes' processes of the newest `steps` are rarely so short in a row, (n,).

    By the share of those before that lasted no longer, so many are expected to follow each other
    less than once in `alert.rare_weeks`: trials of a sweep may end soon several times by chance.
    """
    short, rows = view.nobody(), np.flatnonzero(asked)
    if not len(rows):
        return short
    past = view.over(view.whole, rows, view.usual.pick(rows))
    row, begin, end = runs_of(~past.unloaded)
    weeks = view.policy.number("alert.rare_weeks") / (past.whole.window.length / WEEK)

    for place, node in enumerate(rows.tolist()):
        begins, ends = begin[row == place], end[row == place]
        lengths, since = ends - begins, past.window.n_steps - steps[node]
        newest = (begins > since) & (ends < past.window.n_steps)
        before = lengths[begins <= since]
        if newest.any():
            as_short = (np.count_nonzero(before <= lengths[newest].max()) + 1) / (len(before) + 2)
            short[node] = len(before) * weeks * as_short ** np.count_nonzero(newest) < 1
    return short
