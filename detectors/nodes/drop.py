"""Find nodes that work well under their usual, soon where the drop is deep."""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from bot.model.causes import Cause
from detectors.arrays import (
    Counts,
    Floats,
    Mask,
    Numbers,
    Rows,
    middle_of,
    seen_within,
    share_before,
    trailing,
)
from detectors.nodes import cores as partial
from detectors.nodes import faults
from detectors.nodes.drop_cause import (
    DIVERTED,
    FAMILY,
    SETTLED,
    STEADY,
    explain,
    middling,
    ratio_to,
)
from detectors.progress import falls_short
from detectors.rule import Rule, RuleMatch
from detectors.usual import HIGHEST, LATENCY, MEMORY, SENT, medians_along
from detectors.view import View

NOW = timedelta(minutes=5)
DEEPER = 0.7
"""Share of `starved.deep` under which a drop needs no further sign."""
COHERENT = 4
"""Nodes of one scope that fall in the same step do so for one reason."""
PARTLY = 0.9
"""Share of the usual under which the step of the onset lies: part of it was still usual."""
SLOWER = 1.3
"""Share of the usual latency from which executions are slower themselves."""
BEFORE = timedelta(hours=3)
"""How long before now executions at the usual level are looked for."""
LOWER = 0.5
"""Share of its usual under which even the highest reading of a step is low."""
ALIKE = 0.15
"""How far from its usual what a node sends over EFA may lie to count as usual."""
EVIDENT = timedelta(minutes=15)
"""How long a shallow drop lasts before it is told where something shows that it is no evaluation."""
RESTART = timedelta(minutes=10)
"""A drop within this time after zeros is the ramp of a start.

So much longer it must last where memory does not tell a start.
"""


def find(view: View) -> RuleMatch:
    """Return nodes whose utilization, still executing, fell under their usual.

    Soon if deep, later if shallow.

    Training is judged against the node's own median, inference against its own lowest level at this
    hour of such a day, and only where its whole service has fewer requests than usual. A drop that
    follows a start rather than work, comes with other memory in use or with much quicker executions
    (an evaluation only runs forward) is other work, unless the CPUs say more.
    """
    _, middle, _ = view.levels
    if not view.is_open(*FAMILY, Cause.HARDWARE_FAULT.value) and not _may_be_under(view, middle):
        return RuleMatch(np.zeros(view.n, dtype=bool), np.zeros(view.n))
    ratio = (view.utilization / middle[:, None]).astype(np.float32)
    soon, steps = _soon(view, ratio)
    shallow = _seen(view, view.at_work & (ratio < view.number("starved.below")[:, None]))
    soon &= ~view.roster.inference & ~(_slower(view) & _quiet(view)) if soon.any() else soon
    needed = np.where(view.roster.inference, 2, 1) * view.steps("starved.shallow_for")
    late = shallow >= needed
    late &= ~view.roster.inference | falls_short(view, late, needed, view.number("starved.below"))
    evident = (shallow >= view.window.steps(EVIDENT)) & ~view.roster.inference
    evident &= _no_pause(view) if evident.any() else evident
    settled = (shallow >= view.window.steps(SETTLED)) & ~view.roster.inference
    late |= settled & _slower(view) if settled.any() else settled
    begins = (
        view.eligible & view.executing[:, -1] & ~view.evaluating[:, -1] & (soon | late | evident)
    )
    begins &= _same_job(view, steps, late) if begins.any() else begins
    own = view.usual.own
    begins &= own | ((steps >= view.window.steps(SETTLED)) & _at_their_end(view))
    begins &= ~(partial.settling(view) | faults.recurring(view)) if begins.any() else begins
    hit = (begins | _goes_on(view, ratio)) & ~_held_still(view)
    if not (hit.any() or view.is_open(Cause.HARDWARE_FAULT.value)):
        return RuleMatch(hit, steps)
    wasted = _as_others(
        view.lost_at(_level(view, hit, steps)).astype(np.float64), hit, view.roster.scope
    )
    since = view.lost_since(hit, steps, *FAMILY)
    return RuleMatch(
        hit & view.limits.on("starved.on"), steps, wasted, np.where(np.isnan(since), wasted, since)
    )


def _goes_on(view: View, ratio: Floats) -> Mask:
    """Tell which nodes are in the drop of an open alert, (n,).

    Its own, and those of their job that are under their usual too.

    An evaluation, if none too long, is no recovery.
    """
    if not view.is_open(*FAMILY):
        return np.zeros(view.n, dtype=bool)
    over, evaluated = view.number("starved.over"), trailing(view.evaluating)
    paused = (evaluated > 0) & (evaluated < view.steps("starved.shallow_for"))
    low = (view.recent(ratio, view.window.steps(NOW)) < over) | paused
    stays = (
        _of_open_drops(view) & low & (view.usual.own | _at_their_end(view)) & view.roster.running
    )
    return (
        stays & view.mostly((ratio < over[:, None]) | (view.evaluating & paused[:, None]))
        if stays.any()
        else stays
    )


def _as_others(lost: Numbers, hit: Mask, scope: Rows) -> Numbers:
    """Give the nodes of `hit` whose loss is not read that of the others of their scope in their middle, 0 where none is, (n,)."""
    for one in np.unique(scope[hit & np.isnan(lost)]):
        rows = hit & (scope == one)
        lost[rows & np.isnan(lost)] = middle_of(lost[rows])
    return np.nan_to_num(lost)


def _of_open_drops(view: View) -> Mask:
    """Tell which nodes an open drop is about, and which run the job of these.

    Nodes of one job wait for each other, (n,).
    """
    held = view.held_open(*FAMILY)
    for (rule, _), alert in view.open.items():
        rows = np.array(
            view.roster.rows_of(alert.anomaly.things) if rule in FAMILY else (), dtype=np.intp
        )
        if len(rows) > 1:
            held |= view.fellows(rows)
    return held


def _may_be_under(view: View, middle: Floats) -> bool:
    """Tell whether any node may be in a drop now: a streak ends at the last step that was read."""
    highest = np.maximum(
        np.maximum(view.number("starved.below"), view.number("starved.deep")),
        view.number("starved.over"),
    )
    last = (view.utilization[:, -1:] / middle[:, None]).astype(np.float32)
    return bool((view.unknown[:, -1:] | (last < highest[:, None])).any())


def _level(view: View, hit: Mask, steps: Numbers) -> Floats:
    """Return the utilization of the nodes now, (n,).

    Readings from before a drop would make its first dollars too few.

    Once it has settled, the middle of some: the reading in which it ends would make the last ones
    too few.
    """
    newest = view.recent(view.utilization, 1)
    level = np.where(np.isnan(newest), view.recent(view.utilization), newest)
    rows = np.flatnonzero(hit & (steps > view.window.steps(SETTLED)))
    level[rows] = middling(view, view.utilization, rows)
    return level


def _soon(view: View, ratio: Floats) -> tuple[Mask, Numbers]:
    """Tell which nodes fell deep for long enough, and return the streak of any drop, which dates the onset; both (n,).

    A pause of some minutes over two steps looks as deep as a drop. A drop must last a step more and
    be deeper, unless even the highest readings of all its steps are low, or the rest of the work
    shows that it is no pause: then the step of the onset, which is low only in part, counts too
    where several nodes fall together.
    """

    def below(key: str, share: float = 1.0) -> Mask:
        return view.at_work & (ratio < share * view.number(key)[:, None])

    needed = view.steps("starved.for")
    deep, lasted = _seen(view, below("starved.deep")), _lasted(view, below("starved.over"))
    if not deep.any():
        return np.zeros(view.n, dtype=bool), lasted.astype(np.float64)
    steps = np.maximum(_lasted(view, below("starved.deep")), lasted).astype(np.float64)
    soon = (deep > 0) & (deep >= np.where(_fell_together(view, deep, ratio), needed - 1, needed))
    if not soon.any():  # as at most ticks, in a pause of a step
        return soon, steps
    soon &= _no_pause(view)
    soon |= (deep >= needed) & (trailing(_highest(view) < LOWER) >= needed) & ~_in_step(view)
    blind = np.isnan(view.usual_of(MEMORY))
    soon |= _seen(view, below("starved.deep", DEEPER)) >= needed + view.window.steps(
        NOW
    ) + blind * view.window.steps(RESTART)
    return soon, steps


def _fell_together(view: View, deep: Counts, ratio: Floats) -> Mask:
    """Tell which nodes fell in the same step as others of their scope, and had begun to in the step before, (n,)."""
    at = np.clip(ratio.shape[1] - 1 - deep, 0, None)
    before = ratio[np.arange(view.n), at]
    mask = np.zeros(view.n, dtype=bool)
    for scope in np.unique(view.roster.scope[deep > 0]):
        rows = np.flatnonzero((view.roster.scope == scope) & (deep > 0))
        length = np.median(deep[rows])
        same = rows[np.abs(deep[rows] - length) <= 1]
        mask[same] = len(same) >= COHERENT and middle_of(before[same]) < PARTLY
    return mask


def _no_pause(view: View) -> Mask:
    """Tell which nodes show more than a pause, (n,).

    In one the host rests, and executions are as quick as ever.
    """
    newest = view.window.steps(NOW)
    rest = 1 - view.usual_of("host_cpu_utilization_ratio")
    surge = view.recent(view.cpu, newest) >= 1 - 0.5 * rest
    return np.asarray(
        _loader_busy(view) | surge | _network_full(view) | (_slower(view) & ~_quiet(view))
    )


def _slower(view: View) -> Mask:
    """Tell which nodes' executions take longer themselves, (n,).

    Than usual, and than while they last worked as ever.

    A job may slow its executions and not its work, as a longer context does: those of its pauses
    are then no slower.
    """
    latency = view.recent(view.latency, view.window.steps(NOW))
    slower = np.asarray(ratio_to(latency, view.usual_of(LATENCY)) >= SLOWER)
    rows = np.flatnonzero(slower)
    if len(rows):
        newest = slice(-view.window.steps(BEFORE), None)
        as_ever = (
            view.utilization[rows, newest]
            >= (view.number("starved.over") * view.levels[1])[rows, None]
        )
        before = medians_along(
            np.where(as_ever, view.latency[rows, newest], np.nan).astype(np.float32)
        )
        slower[rows] = ~(latency[rows] < SLOWER * before)
    return slower


def _quiet(view: View) -> Mask:
    """Tell which nodes lately sent far less than their work would, (n,).

    So does an evaluation, whose executions may be longer.

    It is asked of each step: an evaluation that ended within the newest one has sent as much as
    ever since.
    """
    newest = slice(-view.window.steps(STEADY), None)
    sent = ratio_to(view.metric(SENT)[:, newest], view.usual_of(SENT)[:, None])
    quiet = sent < DIVERTED * ratio_to(view.utilization[:, newest], view.levels[1][:, None])
    return np.asarray((quiet & view.executing[:, newest]).any(axis=1))


def _in_step(view: View) -> Mask:
    """Tell which nodes exchange as much data as ever, (n,).

    Work that goes on, whatever two points of utilization say.
    """
    sent = ratio_to(view.recent(view.metric(SENT), 1), view.usual_of(SENT))
    return np.asarray(np.abs(sent - 1) <= ALIKE)


def _highest(view: View) -> Floats:
    """Return the highest reading of a step against its usual, (n, n_steps)."""
    usual = view.usual_of(HIGHEST)[:, None]
    return ratio_to(view.metric(HIGHEST), usual)


def _loader_busy(view: View) -> Mask:
    """Tell which hosts' CPUs are far busier than usual, as when the data loader cannot keep up, (n,)."""
    cpu = view.recent(view.cpu, view.window.steps(NOW))
    busy: Mask = (cpu >= view.number("starved.cpu")) & ~(
        cpu < view.usual_of("host_cpu_utilization_ratio") + 0.25
    )
    return busy


def _at_their_end(view: View) -> Mask:
    """Tell where the host's CPUs or the NIC are at their end, (n,).

    Evidence of a drop in a job whose usual is not known yet.
    """
    return _loader_busy(view) | _network_full(view)


def _network_full(view: View) -> Mask:
    """Return which nodes' EFA carries as much as the NIC can, (n,)."""
    share = view.recent(view.efa, view.window.steps(NOW)) / view.roster.nic
    return np.asarray(share >= view.number("network_bound.above"))


def falling(view: View) -> Mask:
    """Tell which nodes work under their usual right now, whether or not that lasts long enough to be told, (n,)."""
    now = view.recent(view.utilization, view.window.steps(NOW))
    return np.asarray(now < view.number("starved.over") * view.levels[1])


def working(view: View) -> Mask:
    """Tell which nodes are seen to work as usual right now, (n,): one that is not seen may not."""
    now = view.recent(view.utilization, view.window.steps(NOW))
    return np.asarray(now >= view.number("starved.over") * view.levels[1])


def fell_lately(view: View, length: timedelta) -> Mask:
    """Tell which nodes worked under their usual for a good part of the last `length`.

    An evaluation, or a drop to be, (n,).
    """
    part = view.utilization[:, -view.window.steps(length) :]
    under = part < (view.number("starved.over") * view.levels[1])[:, None]
    return np.asarray(under.mean(axis=1) >= 0.4) | falling(view)


def _lasted(view: View, below: Mask) -> Counts:
    """Return since how many steps a drop holds, (n,): an evaluation amid it does not end it."""
    return trailing(_mostly(below), view.unknown | view.evaluating)


def _seen(view: View, below: Mask) -> Counts:
    """Return in how many steps a drop was seen that still holds, (n,)."""
    return seen_within(_mostly(below) & ~view.evaluating | view.unknown, _lasted(view, below))


def _mostly(below: Mask) -> Mask:
    """Fill short bursts back to normal, at fine steps: a starving loader flutters."""
    filled = below.copy()
    if below.shape[1] > 90:
        filled[:, 1:-1] |= below[:, :-2] & below[:, 2:]
        filled[:, 2:-1] |= below[:, 1:-2] & below[:, :-3] & below[:, 3:]
    return filled


def _same_job(view: View, steps: Numbers, late: Mask) -> Mask:
    """Tell which drops interrupt work of the usual kind: work right before, the same memory.

    Or CPUs that speak for data.
    """
    before = share_before(
        view.utilization >= view.number("starved.over")[:, None] * view.levels[1][:, None],
        ~view.unknown & ~view.forward & ~view.evaluating,
        steps.astype(np.intp),
        view.window.steps(SETTLED),
    )
    stopped = view.standing | (view.restarting & ~view.evaluating)
    rested = share_before(stopped, ~view.unknown, steps.astype(np.intp), view.window.steps(RESTART))
    fell = (before >= 0.5) & ~(rested > 0)
    held = ratio_to(view.recent(view.memory), view.usual_of(MEMORY))
    alike = np.isnan(held) | (np.abs(held - 1) <= 0.25)
    resumed = alike & _resumed(view, steps)
    return np.asarray(
        (alike & fell) | resumed | (late & (_loader_busy(view) | view.roster.inference))
    )


def _resumed(view: View, steps: Numbers) -> Mask:
    """Tell which nodes came slow out of a start, past its ramp, with a sign that it is more than one, (n,)."""
    long_enough = steps >= view.steps("starved.for") + view.window.steps(RESTART)
    return np.asarray(long_enough & _no_pause(view) & ~view.roster.inference)


def _held_still(view: View) -> Mask:
    """Tell which nodes execute nothing at all: that is another story."""
    return trailing(view.zero & view.standing, view.unknown) >= 2


DROP = Rule(Cause.STARVED, find, explain)
"""The explanation names the nearer cause: starved, network-bound, or the path of collectives."""
