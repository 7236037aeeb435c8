"""Find nodes that execute nothing: idle ones, ones held for nothing, and hung ones."""

from __future__ import annotations

import numpy as np

from bot.model.alert import Alert
from bot.model.causes import Cause, Family
from bot.model.money import counted
from detectors.jobs import roles_of
from detectors.nodes import cores
from detectors.nodes.at_risk import work_at_risk
from detectors.nodes.drop_cause import loader_busy
from detectors.nodes.shortfall import low
from detectors.numbers import (
    Counts,
    Floats,
    Mask,
    Numbers,
    Rows,
    count,
    lasted,
    mean_of,
    middle_of,
    narrowed,
    newest_of,
    number,
    percent,
    share_before,
    since_last,
    size,
    sustained,
    trailing,
)
from detectors.progress import (
    alike,
    by_habit,
    demand_of_nodes,
    left_out,
    may_be_told,
    scopes_by_progress,
    short_for,
    took_over,
)
from detectors.readings import GAP
from detectors.rule import Explanation, Rule, RuleMatch, belief, no_match
from detectors.usual import HIGHEST, LATENCY, MEMORY, SENT, worked_of
from detectors.view import LOOKBACK, View, once_a_tick

LOOK_FIRST = (
    "Check whether `neuronx-cc` is running there before you stop anything: without the host CPU a"
    " compile looks the same."
)
FEW_REQUESTS_SUGGESTIONS = (
    "Scale the service in: lower its least number of replicas, or release nodes.",
    "If requests should be coming, look at the load balancer, DNS and the clients.",
)
PINNED = number("idle.PINNED")
COMPLETED = "neuron_executions_completed_count"
FIRST = "stopped first"
_TRAFFIC = number("idle.TRAFFIC")
_QUARTERS = count("idle.QUARTERS")


def find_idle(view: View) -> RuleMatch:
    """Return nodes at or under `idle.below` for `idle.for` that no pod holds.

    One that never worked since its launch gets the compile grace too, and so does one that may wait
    for a peer that compiles. A server that rests at an hour when its service usually does is left
    out.
    """
    steps, resting = view.streak(view.resting & ~view.asleep)
    if not steps.any():
        return no_match(view.n)
    needed = view.patience("idle.for", steps)
    begins = view.eligible & (resting >= needed) & ~view.spared
    servers = begins & view.roster.inference
    if servers.any():
        # Where no runtime is known to be loaded a server rests by habit, else as a loaded one.
        bare = (view.held[:, -view.window.steps(GAP) :] == 0).any(axis=1)
        habit, wasteful = by_habit(view, servers, needed), may_be_told(view, servers, needed)
        begins &= ~servers | np.where(bare, ~habit, wasteful)

    stays = view.held_open(Cause.IDLE.value) & (steps > 0) & view.mostly(view.zero)
    hit = (begins | (view.roster.running & stays)) & view.on("idle.on")
    return RuleMatch(hit, steps.astype(np.float64), np.ones(view.n))


def explain_idle(view: View, match: RuleMatch, rows: Rows) -> Explanation:
    """Explain how many nodes do nothing, and since when."""
    longest = view.lasting(match.steps, rows, Cause.IDLE.value)
    value = mean_of(view.stretch(match.steps, rows, Cause.IDLE.value))
    runtime = "whether a runtime is loaded is not known"
    if (view.held[rows] == 0).any():
        runtime = "no runtime is loaded"
    cpu = view.recent(view.cpu)[rows]
    measured = np.isfinite(cpu)
    evidence = [f"{runtime}, host CPU {percent(middle_of(cpu)) if measured.any() else 'not read'}"]
    reserved = view.recent(view.metric("neuroncore_reserved_count"))[rows]
    if (reserved > 0).any():
        evidence.append(
            f"pods have reserved cores on {counted(int((reserved > 0).sum()), 'of the node')}"
        )
    elif np.isfinite(reserved).all():
        evidence.append("no pod has reserved a core there")

    # It may be a compile where no sign of some node tells, and even a long one could still go on.
    grace = float(view.steps("compiling.grace")[rows].max()) * view.window.step
    could_go_on = (
        longest < count("idle.STILL_COMPILING") * grace and view.on("compiling.on")[rows].any()
    )
    unsure = bool(np.isnan(cpu).any() and could_go_on)
    doubt = "; idle or compiling, not known which, as the host CPU is not read" if unsure else ""
    return Explanation(
        why=f"{view.gauge(rows)} {percent(value)} for {lasted(longest)}"
        f" on {counted(len(rows), 'node')}; {runtime}{doubt}.",
        value=value,
        unit="ratio",
        evidence=tuple(evidence),
        **belief("resting_unread" if unsure else "resting"),
        suggestions=(LOOK_FIRST, *Cause.IDLE.facts.suggestions) if unsure else None,
    )


def find_unused(view: View) -> RuleMatch:
    """Return nodes that are held for nothing, or of which only a part is used or asked for."""
    return _with_few_requests(view, cores.with_part_use(view, _find_held(view)))


def _find_held(view: View) -> RuleMatch:
    """Return nodes that a runtime or a pod holds and that execute nothing.

    A notebook that is used now and then is left out; an alert about one is over when it is used
    every quarter of an hour. A server matches only at an hour when its service always has requests
    and now has none, or after a whole day without any. A process that ends, while its pod or the
    next one stays, begins anew; of an alert that is open it is the same.
    """
    steps, _ = view.streak(view.holding | view.asleep)
    if not steps.any():
        return no_match(view.n)
    touched = _touched(view)
    stays = view.held_open(Cause.ALLOCATED_UNUSED.value) & (steps > 0)
    quarter = view.window.steps(LOOKBACK / _QUARTERS)
    stays &= sustained(~touched[:, -_QUARTERS * quarter :], quarter).any(axis=1)

    # Steps that a hang explains are not counted again.
    fresh = since_last(touched)
    for alert in view.alerts:
        if alert.anomaly.rule == Cause.HUNG.value:
            rows = view.roster.rows_of(alert.anomaly.things)
            fresh[rows] = np.minimum(fresh[rows], (view.now - alert.seen) // view.window.step)

    rested, bare = view.streak(view.asleep)
    loaded, loaded_seen = view.streak(view.holding)
    steps = np.minimum(np.where(stays, steps, np.maximum(loaded, rested)), fresh)
    needed = view.patience("allocated_unused.for", rested)
    begins = view.eligible & (np.minimum(np.maximum(loaded_seen, bare), fresh) >= needed)
    begins &= ~view.spared & (~view.roster.inference | may_be_told(view, begins, needed))
    begins = narrowed(begins, lambda: ~pausing(view))
    hit = (begins | (view.roster.running & stays)) & view.on("allocated_unused.on")

    # One that waited to be sure lost since its onset.
    rows = np.flatnonzero(hit & view.roster.inference & (steps >= view.window.n_steps))
    if len(rows):
        level = worked_of(view.whole.pick(rows))
        rests = level <= view.number("idle.below")[rows, None]
        steps[rows] = np.maximum(steps[rows], trailing(rests, np.isnan(level)))
    return RuleMatch(hit, steps.astype(np.float64), np.ones(view.n))


def _with_few_requests(view: View, unused: RuleMatch) -> RuleMatch:
    """Add the servers of a service of which far less is asked than usual.

    Where their hosts are saturated, requests wait for them: that is a drop.
    """
    if not view.roster.inference.any():
        return unused
    demand = demand_of_nodes(view)
    begins = view.eligible & (demand.steps >= short_for(view)) & ~view.spared
    stays = view.held_open(Cause.ALLOCATED_UNUSED.value) & view.roster.running
    few = begins | (stays & (demand.share < view.number("starved.over")))
    few = narrowed(few, lambda: ~((view.recent(view.held, 1) == 0) | loader_busy(view)))
    few &= ~unused.hit & view.on("allocated_unused.on")
    for _, rows in view.roster.by_scope(few & ~stays):
        few[rows] = ~took_over(view, rows, int(demand.steps[rows].max()))
    if not few.any():
        return unused

    # A server that is new lacks nothing from before its launch.
    age = view.age_seconds / view.window.step.total_seconds()
    steps = np.where(few, np.minimum(short_for(view), age), unused.steps)
    share = view.recent(view.utilization) / demand.usual
    lost = np.clip(1 - np.where(np.isnan(share), demand.share, share), 0, 1)
    wasted = np.where(few, lost, 1 if unused.wasted is None else unused.wasted)
    return RuleMatch(unused.hit | few, steps, wasted)


def explain_unused(view: View, match: RuleMatch, rows: Rows) -> Explanation:
    """Explain which runtime or pod holds the cores for nothing, and since when."""
    in_part = np.zeros(len(rows), dtype=bool) if match.wasted is None else match.wasted[rows] < 1
    servers = rows[view.roster.inference[rows]]
    if (in_part & view.roster.inference[rows]).any():
        return _explain_few_requests(view, servers)
    if in_part.all():
        return cores.with_tenants(view, match, rows, cores.explain_part(view, match, rows))
    begun = view.since(match.steps, rows, Cause.ALLOCATED_UNUSED.value)
    if alert := view.alert_of((Cause.ALLOCATED_UNUSED.value,), rows):
        # A cell that ran meanwhile began the streak anew, not what the alert is about.
        begun = min(begun, alert.anomaly.window.start)
    worked = worked_of(view.whole.since(begun))[rows]
    # Only rest is said: what ran in between, joined later or works again now is left out.
    worked = np.where(worked <= view.number("idle.below")[rows][:, None], worked, np.nan)
    value = mean_of(worked)
    longest = max(1, int(np.isfinite(worked).any(axis=0).sum())) * view.window.step

    # Nodes that had no runtime for most of their streak, as far as it is looked at.
    streak = newest_of(view.window.n_steps, match.steps[rows])
    asleep = (view.asleep[rows] & streak).sum(axis=1) > (view.holding[rows] & streak).sum(axis=1)
    bare, loaded = int(asleep.sum()), int((~asleep).sum())
    holders = f"Runtime loaded on {counted(loaded, 'node')}"
    if bare:
        beside = f", and a runtime is loaded on {loaded:,} more" if loaded else ""
        holders = f"Pods hold the cores of {counted(bare, 'node')} without a runtime{beside}"

    memory = view.recent(view.memory)[rows[~asleep]]
    if not loaded:
        cpu = percent(float(np.nanmedian(view.recent(view.cpu)[rows])))
        holding = f"no runtime seen, host CPU {cpu}"
    elif np.isfinite(memory).any():
        holding = f"{size(float(np.nanmedian(memory)))} of device memory held"
    else:
        holding = "device memory not read"

    share = float(_touched(view)[rows, -view.window.steps(longest) :].mean())
    explanation = Explanation(
        why=f"{holders}, but {view.gauge(rows)} {percent(value)} for {lasted(longest)}.",
        value=value,
        unit="ratio",
        evidence=(
            holding,
            f"executions in {percent(share)} of it" if share else "no executions",
            *_peers_at_work(view, rows),
        ),
        **belief("held" if loaded else "reserved"),
    )
    return cores.with_tenants(view, match, rows, explanation)


def _peers_at_work(view: View, rows: Rows) -> tuple[str, ...]:
    """State how busy the servers are that hold the same model as those at `rows` and are at work."""
    level, left = view.recent(view.utilization), left_out(view)[rows, -1]
    peers = [servers for servers in alike(view) if np.isin(servers, rows[left]).any()]
    busy = [row for servers in peers for row in servers if level[row] > 0 and row not in rows]
    if not busy:
        return ()
    servers = counted(
        len(busy), "server with the same model works", "servers with the same model work"
    )
    return (f"{servers} at {percent(middle_of(level[busy]))}",)


def _explain_few_requests(view: View, rows: Rows) -> Explanation:
    """Explain how much less is asked of the servers at `rows` than usual."""
    demand = demand_of_nodes(view)
    usual, share = middle_of(demand.usual[rows]), middle_of(demand.share[rows])
    level = middle_of(view.recent(view.utilization)[rows])
    cpu = middle_of(view.recent(view.cpu)[rows])
    return Explanation(
        why=f"{counted(len(rows), 'server')} run although requests fell to about {percent(share)}"
        f" of the usual: {view.gauge(rows)} {percent(level)}, usually {percent(usual)} at this hour.",
        value=level,
        unit="ratio",
        usual=(usual, usual),
        **belief("requests_few", float(np.clip(1 - share, 0.3, 1))),
        evidence=(
            f"the service does {percent(share)} of its usual work at this hour",
            f"host CPU {percent(cpu) if np.isfinite(cpu) else 'not read'}",
        ),
        suggestions=FEW_REQUESTS_SUGGESTIONS,
    )


def find_hung(view: View) -> RuleMatch:
    """Return training nodes that worked in the hour before, then made no progress for `hung.for`.

    Either utilization fell to nothing with the device memory still held, on several nodes at once
    or while the run says the same step again and again; or it stands high although no execution is
    finished and EFA is silent, or saturated.
    """
    # Cores pinned where neither latency nor traffic of the work was ever read, as of many GPUs.
    unread = np.isnan(view.usual_of(LATENCY)) & np.isnan(view.usual_of(SENT))
    pinned = narrowed(view.executing & unread[:, None], lambda: _pinned_or_flat(view))
    signs = view.holding, _spinning(view), pinned
    (still, _), (spinning, seen_spinning), (bare, seen_bare) = (view.streak(sign) for sign in signs)
    steps = np.maximum(still, np.maximum(spinning, bare))
    if not steps.any():
        return no_match(view.n)

    stopped = amid_work(view)
    begins = stopped & (still >= _usual_pause(view, stopped))
    begins &= _together(view, begins)
    needed = view.steps("hung.for")
    begins |= (seen_spinning >= needed) | (seen_bare >= count("idle.BARE") * needed)

    stays = view.held_open(Cause.HUNG.value) & (steps > 0) & ~view.unloaded[:, -1]
    stays &= view.mostly(np.logical_or.reduce(signs))
    hit = (view.eligible & begins) | (view.roster.running & stays)
    hit &= ~view.roster.inference & view.on("hung.on")
    return RuleMatch(hit, steps.astype(np.float64), np.ones(view.n))


@once_a_tick
def amid_work(view: View) -> Mask:
    """Return which training nodes stopped amid their work for `hung.for`, (n,).

    Their process is the one that worked in the hour before: since then it has not ended.
    """
    still, seen_still = view.streak(view.holding)
    stopped = (seen_still >= view.steps("hung.for")) & ~view.roster.inference
    if not stopped.any():
        return stopped
    worked = share_before(view.executing, ~view.unknown, still, view.window.steps(LOOKBACK)) >= 0.5
    since = newest_of(view.window.n_steps, since_last(view.executing))
    return np.asarray(stopped & worked & ~(view.unloaded & since).any(axis=1))


def pausing(view: View) -> Mask:
    """Return which nodes stand still with others of their job, and not for longer than it may, (n,).

    It saves, evaluates or waits, as it has done before, however long that takes.
    """
    stopped, (still, _) = amid_work(view), view.streak(view.holding)
    usual = np.asarray(stopped & (still < _usual_pause(view, stopped)))
    return usual & _together(view, usual)


def _usual_pause(view: View, stopped: Mask) -> Numbers:
    """Return for how many steps the nodes that stopped may stand still, (n,).

    A job that pauses as ever waits longer where another job that works on is slow, which has a
    message already.
    """
    needed = view.rare_after("hung.for", standing_still, stopped)
    if not stopped.any():
        return needed
    limit, pauses = view.steps("alert.pause_limit"), view.stretches(standing_still, stopped).count
    for alert in view.opened(*Family.DROP.rules):
        needed = np.where(stopped & (pauses > 0) & may_wait(view, alert), limit, needed)
    return needed


def may_wait(view: View, alert: Alert) -> Mask:
    """Return which nodes of other jobs may wait for the slow ones of a drop's alert, (n,).

    They have not stood still since before it began. Of one that fell silent nobody knows that it
    still works.
    """
    slow = view.roster.rows_of(alert.anomaly.things)
    slow = slow[(view.mostly(low(view) & view.executing) & ~view.silent)[slow]]
    if not len(slow):
        return view.nobody()
    began = (view.now - alert.anomaly.window.start) / view.window.step
    same_job = view.fellows(slow) | ((view.jobs != "") & np.isin(view.jobs, view.jobs[slow]))
    waits = (trailing(view.holding, view.gap) <= began) & ~(same_job | view.roster.inference)
    return np.asarray(waits & (view.roster.scope == view.roster.scope[slow[0]]))


def _together(view: View, asked: Mask) -> Mask:
    """Return which nodes asked for stopped with others of their scope, (n,).

    Or their run says the same step again.
    """
    together, (still, _) = view.nobody(), view.streak(view.holding)
    stuck = scopes_by_progress(view, moves=False) if asked.any() else set()
    for scope, rows in view.roster.by_scope(asked):
        alike = np.abs(still[rows] - np.median(still[rows])) <= 2
        alike &= ~_rested_alone(view, rows, still)
        together[rows] = scope in stuck or alike.sum() >= 2
    return together


def _rested_alone(view: View, rows: Rows, still: Counts) -> Mask:
    """Return which nodes at `rows` rested lately while half of their peers were in no pause.

    Nodes that wait for each other rest together. Notebooks, or jobs on a node each, do not.
    """
    roles = roles_of(view.roster, view.usual_of(MEMORY))[rows]
    peers = (roles[:, None] == roles) & ~np.eye(len(rows), dtype=bool)
    # The hour before is looked at however long they have stood still.
    work = worked_of(view.whole.last(view.window.n_steps * view.window.step + LOOKBACK))[rows]
    rests = work <= view.number("idle.below")[rows, None]
    rests &= ~newest_of(work.shape[1], still[rows])
    at_work = peers.astype(np.intp) @ (work >= number("view.PAUSED") * view.levels[1][rows, None])
    alone = rests & (at_work > 0) & (2 * at_work >= peers.sum(axis=1)[:, None])
    return np.asarray(alone.any(axis=1))


def standing_still(view: View) -> Mask:
    """Return where a node executes nothing, though its process is loaded and does not compile."""
    return view.holding


def explain_hung(view: View, match: RuleMatch, rows: Rows) -> Explanation:
    """Explain that the work stopped, when, and which signs of life remain."""
    longest = view.lasting(match.steps, rows, Cause.HUNG.value)
    value = mean_of(view.stretch(match.steps, rows, Cause.HUNG.value))
    efa = view.recent(view.efa)[rows]
    traffic = "busy" if (efa > _TRAFFIC).any() else "silent"
    if np.isnan(efa).all():
        traffic = "not read"
    before = stuck = ""
    if np.isfinite(view.levels[2][rows]).any():
        before = f", before at {percent(float(np.nanmedian(view.levels[1][rows])))}"
    if set(view.roster.scope[rows]) & scopes_by_progress(view, moves=False):
        stuck = " and the run repeats the same step"
    return Explanation(
        why=f"No executions for {lasted(longest)} on {counted(len(rows), 'node')}:"
        f" utilization {percent(value)}{before}, runtime still loaded{stuck}.",
        value=value,
        unit="ratio",
        usual=view.band(rows),
        **belief("stopped"),
        evidence=(
            "runtime and device memory held",
            f"EFA {traffic}",
            *view.usual_pauses(standing_still, rows),
            *_first_to_stop(view, match, rows),
            *cores.core_evidence(view, rows),
        ),
        at_risk=work_at_risk(view, rows, view.since(match.steps, rows, Cause.HUNG.value)),
    )


def _first_to_stop(view: View, match: RuleMatch, rows: Rows) -> tuple[str, ...]:
    """Name the node that stopped before the others.

    It shows in the step of its last work, and in how much of that step it worked.
    """
    alert = view.alert_of((Cause.HUNG.value,), rows)
    if alert:
        return tuple(sentence for sentence in alert.anomaly.evidence if FIRST in sentence)
    last = view.window.n_steps - 1 - match.steps[rows].astype(np.intp)
    if len(rows) < 2 or (last < 0).any():
        return ()
    share = np.fmin(view.utilization[rows, last] / view.levels[1][rows], 1)
    stopped = match.steps[rows] - share
    first, second = np.argsort(-stopped, kind="stable")[:2]
    lead = stopped[first] - stopped[second]
    if lead < number("idle.LEAD"):
        return ()
    ahead = lasted(float(lead) * view.window.step)
    return (f"{view.roster.ids[rows[first]]} {FIRST}, about {ahead} before the others",)


def _touched(view: View) -> Mask:
    """Return where a node executed something though the mean of the step is next to nothing.

    A cell of a notebook does so; (n, n_steps).
    """
    above = view.metric(HIGHEST) > view.number("idle.below")[:, None]
    return np.asarray(view.holding & ((view.latency > 0) | above))


def _spinning(view: View) -> Mask:
    """Return where cores look busy while no execution ends, (n, n_steps).

    None is counted, or latency has no reading although it usually has. A lost metric looks alike,
    so traffic that is usual must have stopped; where none is usual, the cores must be saturated or
    show the same value again and again, and no run may say that it goes on.
    """
    # A streak goes on only where the last step shows it, or was not read.
    dead, lost, _ = _endless(view, slice(-1, None))
    if not ((dead | lost).any() or view.gap[:, -1].any() or view.opened(Cause.HUNG.value)):
        return np.zeros_like(view.zero)
    dead, lost, ended = _endless(view, slice(None))
    usual = view.usual_of(SENT)[:, None]
    silent = (usual >= _TRAFFIC) & (view.efa <= number("idle.SILENT") * usual)
    stuck = narrowed(lost & ~(usual >= _TRAFFIC), lambda: _pinned_or_flat(view))
    return np.asarray(dead | (lost & ~(ended > 0) & (silent | stuck)))


def _endless(view: View, steps: slice) -> tuple[Mask, Mask, Floats]:
    """Return where none of the executions ends, where none is timed, and how many ended.

    Each (n, steps).
    """
    executing, ended = view.executing[:, steps], view.metric(COMPLETED)[:, steps]
    timed = ~np.isnan(view.usual_of(LATENCY))[:, None]
    dead = executing & (ended == 0) & (view.usual_of(COMPLETED) > 0)[:, None]
    return dead, executing & np.isnan(view.latency[:, steps]) & timed, ended


def _pinned_or_flat(view: View) -> Mask:
    """Return where cores are pinned or flat though they usually are not, (n, n_steps).

    A process that is stuck shows the very value of the step before. No run of the scope may say
    that it goes on.
    """
    low, _, high = view.levels
    pinned = (view.utilization >= PINNED) & (high < PINNED)[:, None]
    flat = np.zeros_like(view.zero)
    flat[:, 1:] = np.abs(np.diff(view.utilization, axis=1)) <= number("idle.SAME")
    flat &= view.executing & (high - low > number("idle.VARIES"))[:, None]
    goes_on = np.isin(view.roster.scope, list(scopes_by_progress(view, moves=True)))[:, None]
    return np.asarray((pinned | flat) & ~(view.metric(COMPLETED) > 0) & ~goes_on)


IDLE = Rule(Cause.IDLE, find_idle, explain_idle)
HUNG = Rule(Cause.HUNG, find_hung, explain_hung)
ALLOCATED_UNUSED = Rule(Cause.ALLOCATED_UNUSED, find_unused, explain_unused)
