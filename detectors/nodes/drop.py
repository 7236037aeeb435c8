"""Find nodes that work well under their usual, soon where the drop is deep."""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from bot.model.causes import Cause
from detectors.nodes import cores, faults
from detectors.nodes.drop_cause import (
    STEADY,
    explain,
    loader_busy,
    quiet,
    ratio_to,
    saturated,
    slower,
    straggler,
    troubled,
)
from detectors.nodes.idle import may_wait, standing_still
from detectors.nodes.shortfall import (
    FAMILY,
    NOW,
    SETTLED,
    coming_back,
    deep_under,
    falling,
    far_under,
    held_back,
    lasted,
    longest_ago,
    looping,
    low,
    seen,
    streak,
    under,
    working,
)
from detectors.numbers import (
    DAY,
    Counts,
    Floats,
    Mask,
    Numbers,
    count,
    duration,
    middle_of,
    narrowed,
    newest_of,
    number,
    placed,
    seen_within,
    share_before,
    since_last,
    sustained,
    trailing,
)
from detectors.progress import Pace, pace_of_nodes, rolling
from detectors.rule import Rule, RuleMatch, no_match
from detectors.usual import (
    ALIKE,
    HIGHEST,
    LATENCY,
    MEMORY,
    forget,
    median,
    strange_spans,
)
from detectors.view import LOST, View

EVIDENT = duration("drop.EVIDENT")
RESTART = duration("drop.RESTART")


def find(view: View) -> RuleMatch:
    """Return the nodes whose utilization, still executing, fell under their usual.

    A deep drop matches soon, a shallow one later. Training is judged against the node's own median.
    A server of which less is asked starves only where its host is saturated. A drop that follows a
    start rather than work, comes with other memory in use or with much quicker executions (an
    evaluation only runs forward) is other work, unless the CPUs say more.
    """
    # A streak ends at the last step that was read: who is not low now, and in no alert, is in none.
    highest = np.maximum.reduce(
        [view.number(f"starved.{key}") for key in ("below", "deep", "over")]
    )
    may_be = view.unknown[:, -1] | (view.level[:, -1] < highest)
    pace = pace_of_nodes(view)
    may_be |= pace.slow_steps > 0
    may_be |= view.held_open(*FAMILY, Cause.HARDWARE_FAULT.value)
    if not may_be.any():
        return no_match(view.n)
    part, rows = view.around(may_be)
    return find_around(part, pace.pick(rows)).spread(rows, view.n)


def find_around(view: View, pace: Pace) -> RuleMatch:
    """Return the nodes in a drop, of scopes in which some may be."""
    over, below = view.number("starved.over"), view.number("starved.below")
    training = ~view.roster.inference
    soon, steps = _soon(view)
    soon = narrowed(soon, lambda: training & ~(slower(view) & quiet(view)))

    # A starving loader flutters: its mean tells as well as each step, held against a usual one. What
    # is as good as usual again is over, however low its mean still is.
    goes_on = ~working(view)
    level = _smoothed(view, goes_on)
    shallow = seen(view, goes_on[:, None] & view.at_work & (level < below[:, None]))
    late = shallow >= view.steps("starved.shallow_for")
    late = narrowed(
        late, lambda: (training | loader_busy(view)) & _outlasts_habit(view, late, shallow)
    )
    fluttering = view.at_work & (level < over[:, None])
    steps = np.where(late, np.maximum(steps, lasted(view, fluttering)), steps)
    evident = (shallow >= view.window.steps(EVIDENT)) & training
    evident = narrowed(evident, lambda: _no_pause(view, shallow) | _waits_for_one(view, evident))

    # Some lack work in the mean of an hour alone: their newest steps look like pauses.
    loop, back = looping(view), coming_back(view, goes_on & training, late)
    lack = held_back(view, training & ~late).joined(back).joined(loop)
    steps, late = np.maximum(steps, lack.steps), late | lack.nodes

    # Steps tell more than utilization: nodes that wait in a collective look as busy as ever, and
    # what goes on as fast as ever has lost nothing.
    # A run is slow whenever it evaluates: executions that are slower too, or its habit, tell more.
    slow = (pace.slow_steps >= view.window.steps(EVIDENT)) & training
    latency = ratio_to(view.recent(view.latency), view.usual_of(LATENCY))
    untimed = np.isnan(latency) & pace.by_tokens
    slow &= pace.slow_steps > view.limited(pace.usual_steps)
    lasting = pace.slow_steps > view.window.steps(SETTLED)
    slow = narrowed(slow, lambda: (slower(view) & (lasting | ~quiet(view))) | untimed)
    steps = np.where(slow, np.maximum(steps, pace.slow_steps), steps)
    in_full = (pace.newest >= number("drop.FULL")) & training

    training_now = view.eligible & view.executing[:, -1] & ~view.evaluating[:, -1]
    begins = training_now & (((soon | late | evident) & ~in_full) | slow)
    begins |= loop.nodes
    begins = narrowed(begins, lambda: loop.nodes | _same_job(view, steps, late))
    begins &= view.usual.own | ((steps >= view.window.steps(SETTLED)) & saturated(view))
    # One reading of an agent that sends them rarely may hold the end of a job and the next one.
    begins = narrowed(begins, lambda: (view.cadence == 1) | (steps >= 2 * view.cadence))
    # While a fault is open, what its peers lose is its effect.
    faulty = view.held_open(Cause.HARDWARE_FAULT.value)
    begins = narrowed(begins, lambda: ~(cores.settling(view) | faults.recurring(view) | faulty))
    begins = narrowed(begins, lambda: _longer_than_troubles(view, begins))

    # A node that executes nothing at all is another rule's; but a pause of its job ends no drop.
    still = trailing(view.zero & view.standing, view.unknown)
    still[still < 2] = 0
    stays = _still_dropped(view, pace) | (lack.nodes & view.held_open(*FAMILY))
    paused = (still > 0) & stays & training & view.newest(view.holding) & ~loop.nodes
    paused &= narrowed(paused, lambda: still < view.rare_after("hung.for", standing_still, paused))
    hit = (begins | stays) & ((still == 0) | loop.nodes | paused)
    if not (hit.any() or view.opened(Cause.HARDWARE_FAULT.value)):
        return RuleMatch(hit, steps)
    wasted, since = (
        np.where(np.isnan(lack.lost), lost, lack.lost) for lost in _wasted(view, pace, hit, steps)
    )
    wasted[paused] = since[paused] = 0
    _date(view, hit & training & ~view.held_open(*FAMILY), steps, since)
    match = RuleMatch(hit & view.on("starved.on"), steps, wasted, since)
    return _with_waiting(view, match, begins)


def _with_waiting(view: View, match: RuleMatch, begins: Mask) -> RuleMatch:
    """Add the nodes of other jobs that wait longer than ever for those of an open drop.

    They lose the time beyond their longest pause, and say nothing of what slows the others.
    """
    alerts, waiting, longest = view.opened(*FAMILY), view.nobody(), view.window.n_steps
    if not alerts:
        return match
    judged = view.usual.own & view.eligible & ~begins & view.holding.any(axis=1)
    step = np.arange(longest)
    stands = step - np.maximum.accumulate(np.where(view.holding, -1, step), axis=1)
    steps, wasted, since = (np.array(x) for x in (match.steps, match.wasted, match.wasted_since))
    for alert in alerts:
        waits = judged & may_wait(view, alert)
        age = (view.now - alert.anomaly.window.start) / view.window.step
        usual = view.stretches(standing_still, waits)
        beyond = (stands > usual.longest[:, None]) & newest_of(longest, np.full(view.n, age))
        waits &= (usual.count > 0) & beyond.any(axis=1)

        # What one that joins has lost counts from the onset of the alert.
        waiting |= waits
        lost, held = beyond.sum(axis=1), waits & view.held_open(*FAMILY)
        steps[waits] = age
        wasted[waits], since[waits] = lost[waits] / min(age, longest), lost[waits] / age
        unseen = max(1, round((view.now - alert.seen) / view.window.step))
        since[held] = beyond[held, -unseen:].mean(axis=1)
    return RuleMatch(match.hit | waiting, steps, wasted, since, waiting)


def _smoothed(view: View, asked: Mask) -> Floats:
    """Return the levels, (n, n_steps), of those asked for as low as the mean around each step."""
    level = view.level.copy()
    trained = level[asked] / view.usual.unpaused[asked, None]
    trained = np.where(view.at_work[asked], trained, np.nan).astype(np.float32)
    smoothing = view.window.steps(duration("progress.SMOOTH"))
    level[asked] = np.fmin(level[asked], rolling(trained, smoothing))
    return level


def _wasted(view: View, pace: Pace, hit: Mask, steps: Numbers) -> tuple[Numbers, Numbers]:
    """Return the share of its usual work that each node of `hit` loses, now and since last seen."""
    # Readings from before a drop would make its first dollars too few, and the reading in which it
    # ends its last ones: the newest one tells, once the drop has settled the middle of some.
    newest = view.recent(view.utilization, 1)
    unclear = np.isnan(newest) | ~view.at_work[:, -1]  # a restart ends the drop: it is none itself
    level = np.where(unclear, view.recent(view.utilization), newest)
    rows = np.flatnonzero(hit & (steps > view.window.steps(SETTLED)))
    level[rows] = median(view.utilization[rows, -view.window.steps(STEADY) :])
    wasted = view.lost_at(level).astype(np.float64)

    # A node that is not read loses as much as the others of its scope.
    for _, members in view.roster.by_scope(hit):
        unread = members[np.isnan(wasted[members])]
        wasted[unread] = middle_of(wasted[members])
    wasted, since = np.nan_to_num(wasted), view.lost_since(hit, steps, *FAMILY)
    since = np.where(np.isnan(since), wasted, since)

    lately = pace.lately
    busy = hit & (lately < view.number("starved.over")) & working(view)
    return np.where(busy, 1 - lately, wasted), np.where(busy, 1 - lately, since)


def _date(view: View, fallen: Mask, steps: Numbers, since: Numbers) -> None:
    """Date in place the drops that are as old as the window, and set what they lost since then.

    They began where the work lost since then is the most, after the last stop or alert of a day.
    """
    rows = np.flatnonzero(fallen & (steps >= view.window.n_steps))
    if not len(rows):
        return
    day = view.over(view.whole.last(DAY), rows, view.usual.pick(rows))
    work = np.where(day.at_work, np.fmin(day.level, 1), np.float32(1))
    known = np.ones_like(work)
    forget(known, day.window, day.roster, strange_spans(view.alerts, view.now))
    ended = day.stopped | np.isnan(known)
    looked_at = newest_of(day.window.n_steps, since_last(ended))

    # One that crept was at the usual as long before it lost something as it took to lose twice that.
    unpaused = day.usual.unpaused
    some, twice = (longest_ago(work, (1 - n * LOST) * unpaused, looked_at) for n in (1, 2))
    ago = np.minimum(2 * some - twice, looked_at.sum(axis=1))
    longer = ago > steps[rows]
    rows, ago = rows[longer], ago[longer]
    done = np.mean(work[longer], axis=1, where=newest_of(day.window.n_steps, ago))
    steps[rows], since[rows] = ago, unpaused[longer] - done


def _soon(view: View) -> tuple[Mask, Numbers]:
    """Return which nodes fell deep for long enough, and the streak of any drop, each (n,).

    The streak dates the onset. A pause of some minutes over two steps looks as deep as a drop. A
    drop must last a step more and be deeper, unless even the highest readings of all its steps are
    low, or the rest of the work shows that it is no pause: then the step of the onset, which is low
    only in part, counts too where several nodes fall together.
    """
    limit, needed = view.number("starved.deep")[:, None], view.steps("starved.for")
    below_deep = view.at_work & (view.level < limit)
    deep = seen(view, below_deep)
    steps = lasted(view, view.at_work & low(view)).astype(np.float64)
    if not deep.any():
        return view.nobody(), steps
    steps = np.maximum(lasted(view, below_deep), steps)
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
    deeper = seen(view, below_deep & (depth < limit))
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
        partly = middle_of(before[same]) < number("drop.PARTLY")
        mask[same] = partly and len(same) >= count("drop.COHERENT")
    return mask


def _longer_than_pauses(view: View, asked: Mask) -> Mask:
    """Return which nodes are under their usual for longer than their job usually pauses, (n,)."""
    deep = view.rare_after("starved.for", deep_under, asked)
    longer = asked & (streak(view, deep_under(view)) >= deep)

    # One that sends as little, and works less for no longer than at its evaluations, may be in one
    # that its memory does not tell.
    silent = narrowed(longer, lambda: quiet(view))
    usual = narrowed(
        silent,
        lambda: trailing(low(view), view.unknown) < view.rare_after("starved.for", low, silent),
    )
    return longer & ~usual


def _outlasts_habit(view: View, asked: Mask, steps: Counts) -> Mask:
    """Return which nodes asked for, in a drop of some steps, are in none that their job is used to.

    Work in bursts is as low for as long again and again: only a sign tells it from a loss, or a
    fault of the scope that the nodes may wait for.
    """
    scope, broken = view.roster.scope, view.held_open(Cause.HARDWARE_FAULT.value)
    faulty = np.isin(scope, scope[broken | faults.failing(view) | faults.recurring(view)])
    rare = view.limited(view.stretches(far_under, asked).rare)
    return np.asarray((steps > rare) | faulty | _no_pause(view, steps))


def _longer_than_troubles(view: View, asked: Mask) -> Mask:
    """Return which nodes show a sign for longer than their job usually does, or show none now."""
    lasts = streak(view, troubled(view))
    rare = view.limited(view.stretches(troubled, asked).rare)
    return np.asarray((lasts == 0) | (lasts > rare))


def _still_dropped(view: View, pace: Pace) -> Mask:
    """Return the nodes that keep an open drop going, (n,)."""
    # An evaluation is a pause of the job, not its recovery, unless it takes too long.
    pause = trailing(view.evaluating)
    in_pause = (pause > 0) & (pause < view.steps("starved.shallow_for"))
    slow = pace.lately < view.number("starved.over")
    low_now = falling(view) | in_pause | slow

    # Nodes of one job wait for each other, so those of the job belong to its drop: not in a pause
    # as their role has shown, though, in which they lose nothing by it.
    members, joining = view.held_open(*FAMILY), view.nobody()
    for alert in view.opened(*FAMILY):
        rows = view.roster.rows_of(alert.anomaly.things)
        if len(rows) > 1:
            length = (view.now - alert.anomaly.window.start) / view.window.step
            joining |= view.fellows(rows) & view.launched_before(length)
    joining &= low_now & ~members
    longest = view.limited(view.stretches(under, joining).longest)
    members |= joining & (slow | (streak(view, under(view)) > longest))

    dropped = members & low_now & (view.usual.own | saturated(view)) & view.roster.running
    lacks = low(view) | (view.evaluating & in_pause[:, None])
    return narrowed(dropped, lambda: slow | view.mostly(lacks))


def _no_pause(view: View, steps: Counts) -> Mask:
    """Return which nodes show more than a pause in a drop of some steps, (n,).

    In a pause the host rests and executions are as quick as ever, but for a hiccup.
    """
    surge = view.recent(view.cpu, view.window.steps(NOW)) >= view.half_resting
    slow = slower(view) & ~quiet(view)
    sign, signs = saturated(view) | surge, troubled(view)
    return np.asarray((sign | slow) & (2 * seen_within(signs, steps) > steps))


def _waits_for_one(view: View, asked: Mask) -> Mask:
    """Return which nodes asked for wait for one that works on, (n,): a job pauses as a whole."""
    waits = view.nobody()
    for _, rows in view.roster.by_scope(asked):
        if straggler(view, rows) is not None:
            waits[rows] = view.fellows(rows)[rows]
    return waits


def fell_lately(view: View, length: timedelta) -> Mask:
    """Return which nodes worked under their usual for a good part of the last `length`, (n,).

    They are in an evaluation, in a drop to be, or look busy while they wait.
    """
    under = view.utilization[:, -view.window.steps(length) :] < view.usual_work[:, None]
    waiting = pace_of_nodes(view).slow_steps > 0
    return np.asarray(under.mean(axis=1) >= number("drop.OFTEN")) | falling(view) | waiting


def _same_job(view: View, steps: Numbers, late: Mask) -> Mask:
    """Return which drops interrupt work of the usual kind, (n,).

    There was work right before, in the same memory; or it is lacking since a stop of the same job;
    or CPUs speak for data.
    """
    length, restart = steps.astype(np.intp), view.window.steps(RESTART)
    as_usual = view.utilization >= view.usual_work[:, None]
    judged = ~view.unknown & ~view.forward & ~view.evaluating
    worked = share_before(as_usual, judged, length, view.window.steps(SETTLED)) >= 0.5
    fell = worked & ~(share_before(view.stopped, ~view.unknown, length, restart) > 0)
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
    rows = np.flatnonzero(asked)
    if not len(rows):
        return view.nobody()
    day = view.over(view.whole.last(DAY), rows, view.usual.pick(rows))

    # A pause as its process makes them is neither a stop nor the end of a drop before it.
    longest = int(view.rare_after("hung.for", standing_still, asked)[rows].max())
    pause = day.standing & day.holding
    pause &= ~sustained(pause, longest)
    stopped = since_last(day.stopped & ~pause)
    since = newest_of(day.window.n_steps, stopped - day.window.steps(RESTART))
    as_usual = since & ~day.forward & ~day.evaluating & (day.utilization >= day.usual_work[:, None])
    return placed(as_usual.sum(axis=1) >= day.window.steps(SETTLED), rows, view.n)


DROP = Rule(Cause.STARVED, find, explain)
"""The explanation names the nearer cause: starved, network-bound, or the path of collectives."""
