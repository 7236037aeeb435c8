"""Read the progress of runs and the demand of services."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

import numpy as np

from bot.model.alert import Alert
from bot.model.causes import Cause
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import utilization_of
from bot.model.run import nodes_of
from bot.model.window import midnight
from detectors.jobs import roles_of, stretches_of
from detectors.numbers import (
    DAY,
    HOUR,
    Counts,
    Floats,
    Mask,
    Numbers,
    Rows,
    cadence_of,
    count,
    duration,
    mean_where_read,
    number,
    trailing,
)
from detectors.roster import scope_of
from detectors.usual import LATENCY, LEAST, MEMORY, SENT, around, daily_levels, history, median
from detectors.view import View, once_a_tick

AGE = "run_checkpoint_age_seconds"
STUCK = duration("progress.STUCK")
RECENT = duration("progress.RECENT")
SLOWER = number("drop.SLOWER")
TOGETHER = number("drop_cause.TOGETHER")
_ENOUGH = count("progress.ENOUGH")
READ = number("progress.READ")


def reporting_scopes(view: View) -> set[int]:
    """Return the scopes (as indices of the roster) with a run that reported within 20 minutes."""
    frame = view.frame("run")
    lately = np.isfinite(frame.last(RECENT).values).any(axis=(1, 2))
    return _scopes_of(view, frame, np.asarray(lately))


def _scopes_of(view: View, frame: Frame, runs: Mask) -> set[int]:
    """Return the scopes (as indices of the roster) of some runs."""
    places = (view.roster.place.get(scope_of(frame.things[i])) for i in np.flatnonzero(runs))
    return {place for place in places if place is not None}


def scopes_by_progress(view: View, *, moves: bool) -> set[int]:
    """Return the scopes (as indices of the roster) with a run that reports and moves, or is stuck.

    A run is stuck whose step has not moved for 20 minutes.
    """
    frame = view.frame("run")
    steps = frame.last(STUCK).of("run_step_count")
    reported = ~np.isnan(steps)
    highest = np.where(reported, steps, -np.inf).max(axis=1)
    lowest = np.where(reported, steps, np.inf).min(axis=1)
    reports = reported.mean(axis=1) >= number("progress.REPORTS")
    moved = np.asarray(highest - lowest, dtype=np.float32) > 0
    return _scopes_of(view, frame, reports & (moved == moves))


class Pace(NamedTuple):
    """Hold how fast the runs of the nodes go on, as a share of their usual rate, each (n,)."""

    newest: Numbers
    """In the newest step, nan where it is not known."""
    lately: Numbers
    """The mean of the newest `SMOOTH`."""
    slow_steps: Counts
    """Since how many steps the run is slower than `starved.below`."""
    usual_steps: Numbers
    """How many steps such a stretch of it may usually last."""
    by_tokens: Mask
    """Whether tokens are counted: optimizer steps may just be larger ones."""
    counted: Mask
    """Whether a run counts at all; else the nodes' executions tell."""

    def pick(self, rows: Rows) -> Pace:
        """Return the pace of the nodes at `rows` only."""
        return Pace._make(values[rows] for values in self)


@once_a_tick
def pace_of_nodes(view: View) -> Pace:
    """Return the pace of the run of each node, else of its executions where these tell it.

    Of a run nothing is known where two may be meant.
    """
    unknown, none = np.full(view.n, np.nan), np.zeros(view.n, dtype=np.intp)
    nobody = view.nobody
    pace = Pace(unknown, unknown.copy(), none, np.zeros(view.n), nobody(), counted=nobody())
    _read_runs(view, pace)
    _read_executions(view, pace)
    return pace


def _read_runs(view: View, pace: Pace) -> None:
    """Write the pace of the runs in place."""
    frame = view.frame("run").last(duration("progress.USUAL_PACE"))
    smoothing = frame.steps(duration("progress.SMOOTH"))
    reporting = np.isfinite(frame.of("run_step_count")).any(axis=1)
    runs = Counter(frame.things[i].cluster for i in np.flatnonzero(reporting))
    newest_runs = np.flatnonzero(np.isfinite(frame.last(RECENT).values).any(axis=(1, 2)))
    if not len(newest_runs):
        return

    frame = frame.pick(newest_runs)
    rate, tokens = _rates(frame)
    newest = rolling(rate[:, -smoothing:], smoothing)[:, -1:]
    for run in np.flatnonzero(np.isfinite(rate[:, -frame.steps(RECENT) :]).any(axis=1)):
        place = frame.things[run]
        rows = run_rows(view, place)
        by_name = place.only(("cluster", "job")) in view.reading.claims
        if not len(rows) or (runs[place.cluster] > 1 and not by_name):
            continue
        below, lately = float(view.number("starved.below")[rows[0]]), newest[run, 0]
        if lately >= below and not by_name:
            # One that falls while others work as usual may be of a job that does not report.
            fallen = view.recent(view.utilization, 1)[rows] < view.usual_work[rows]
            rows = rows if fallen.all() else rows[~fallen]
        pace.by_tokens[rows], pace.counted[rows] = tokens[run], True
        pace.newest[rows], pace.lately[rows] = rate[run, -1], lately
        if lately >= below:
            continue

        # Of a run that is slow its past is asked, and whether it gave up nodes.
        if lately < below and tokens[run]:
            rate[run] = _by_node(view, frame, rate[run], run_members(view, place))
        smooth = rolling(rate[run], smoothing)
        slow, gap = (smooth < below)[None, :], np.isnan(smooth)[None, :]
        pace.newest[rows], pace.lately[rows] = rate[run, -1], smooth[-1]
        pace.slow_steps[rows] = trailing(slow, gap)[0]
        if pace.slow_steps[rows[0]]:
            pace.usual_steps[rows] = _usually_slow(view, frame, rows, slow, gap)


def _usually_slow(view: View, frame: Frame, rows: Rows, slow: Mask, gap: Mask) -> float:
    """Return how many steps a run is `slow` as seldom as asked, with executions as long as now.

    Both masks are (1, n_steps). An evaluation slows the run too, but not what it executes. Nothing
    is learnt since the anchor: of that time alerts do not tell yet what was trouble.
    """
    if view.past is None:
        return 0.0
    known = frame.until(view.past.past.anchor)
    whole = view.whole.until(known.end).last(known.n_steps * frame.step)
    slow, gap = (x[:, known.n_steps - whole.n_steps : known.n_steps] for x in (slow, gap))
    longer = whole.of(LATENCY)[rows] / view.usual_of(LATENCY)[rows, None]
    slow = slow & ~(median(longer.T) < SLOWER)

    # A start ends what went on before it.
    history = view.over(whole, rows, view.usual.pick(rows))
    ended = (history.unloaded | view.past.troubled(history)).any(axis=0)
    alone, weeks = np.zeros(1, dtype=np.intp), view.policy.number("alert.rare_weeks")
    return float(stretches_of(slow, ~(ended | gap), alone, alone, weeks, whole.step).rare[0])


def _by_node(view: View, frame: Frame, rate: Floats, members: Rows) -> Floats:
    """Return the rate of a run by node, as a share of its usual one, (n_steps,).

    A run that gives up nodes makes fewer tokens, and wastes none of the nodes that are left. A node
    is of the run while it reports, and has worked within the hour.
    """
    level = utilization_of(view.whole.last(frame.n_steps * frame.step))[members]
    busy = level > view.number("idle.below")[members][:, None]
    ended = np.cumsum(np.pad(busy, ((0, 0), (frame.steps(HOUR), 0))), axis=1)
    worked = ended[:, -busy.shape[1] :] > ended[:, : busy.shape[1]]
    nodes = (np.isfinite(level) & worked).sum(axis=0).astype(np.float32)

    share = rate[-len(nodes) :] / np.where(nodes > 0, nodes, np.nan)
    moved = share[: -frame.steps(HOUR)]
    moved = moved[moved > 0]
    if len(moved) < frame.steps(LEAST):
        return rate
    by_node = np.full_like(rate, np.nan)
    by_node[-len(nodes) :] = share / np.median(moved)
    return by_node


def _read_executions(view: View, pace: Pace) -> None:
    """Write in place the pace of nodes that look busy and wait, where no run tells it.

    Executions take longer and as much less is sent while they look as busy as ever: so much slower
    is the work.
    """
    usual = view.usual_of(LATENCY)
    asked = (view.latency[:, -1] >= SLOWER * usual) & ~pace.counted & ~view.roster.inference
    if asked.any():
        # Where others rest, the one that looks busy holds them up, unless tags name other jobs.
        rests = view.executing[:, -1] & (view.level[:, -1] < view.number("starved.over"))
        scope, jobs = view.roster.scope[:, None], view.jobs[:, None]
        apart = (jobs != "") & (jobs[rests].T != "") & (jobs != jobs[rests].T)
        asked &= ~((scope == scope[rests].T) & ~apart).any(axis=1)
    rows = np.flatnonzero(asked)
    if not len(rows):
        return
    waits = busy_and_waiting(view)[rows]
    pace.slow_steps[rows] = trailing(waits, view.unknown[rows])
    pace.usual_steps[rows] = view.stretches(busy_and_waiting, asked).rare[rows]
    pace.newest[rows] = np.where(waits[:, -1], usual[rows] / view.latency[rows, -1], np.nan)
    pace.lately[rows] = pace.newest[rows]


def busy_and_waiting(view: View) -> Mask:
    """Return where nodes look busy while executions take longer and as much less is sent."""
    longer = view.latency / view.usual_of(LATENCY)[:, None]
    sent = view.metric(SENT) / view.usual_of(SENT)[:, None]
    busy = view.level >= view.number("starved.over")[:, None]
    return np.asarray(busy & (longer >= SLOWER) & (np.abs(sent * longer - 1) <= TOGETHER))


def _rates(frame: Frame) -> tuple[Floats, Mask]:
    """Return the growth of each run's tokens, else of its steps, as a share of its usual growth.

    Shape (n, n_steps), nan where it is not known, and which runs count tokens. A count falls back
    at a restart.
    """
    rates = np.full((len(frame.things), frame.n_steps), np.nan, dtype=np.float32)
    tokens: Mask = np.asarray(np.isfinite(frame.of("run_tokens_count")).any(axis=1))
    counts = np.where(
        tokens[:, None], frame.of("run_tokens_count"), frame.of("run_step_count")
    ).astype(np.float64)
    growth = np.diff(counts, axis=1)
    growth[growth < 0] = np.nan
    # A report of a run that sends few fills several steps: it tells the growth of all of them.
    cadence = cadence_of(counts, frame.steps(RECENT))
    for steps in range(2, frame.steps(RECENT) + 1):
        seldom = cadence == steps
        growth[seldom] = steps * rolling(growth[seldom], steps)

    settled = growth[:, : -frame.steps(HOUR)]
    enough = np.isfinite(settled).sum(axis=1) >= frame.steps(LEAST)
    usual = median(np.where(settled > 0, settled, np.nan))
    resolved = enough & (usual >= number("progress.RESOLVED"))
    rates[resolved, 1:] = growth[resolved] / usual[resolved, None]
    return rates, tokens


def rolling(values: Floats, steps: int) -> Floats:
    """Return the mean of the readings in each step and those before it, (..., n_steps)."""
    finite = np.isfinite(values)
    sums = (np.cumsum(x, axis=-1) for x in (np.where(finite, values, 0.0), finite))
    none = (*values.shape[:-1], steps)
    total, count = (np.concatenate([np.zeros_like(x, shape=none), x], axis=-1) for x in sums)
    number = count[..., steps:] - count[..., :-steps]
    mean = (total[..., steps:] - total[..., :-steps]) / np.maximum(number, 1)
    return np.where(number > 0, mean, np.nan).astype(np.float32)


def run_rows(view: View, labels: Labels) -> Rows:
    """Return the rows of the running nodes of a run."""
    rows = run_members(view, labels)
    return rows[view.roster.running[rows]]


def run_members(view: View, labels: Labels) -> Rows:
    """Return the rows of a run's nodes."""
    rows, (ids, claimed) = view.rows_in(labels), nodes_of(labels, view.reading.claims)
    among = view.roster.among(ids)[rows]
    return rows[among if claimed else ~among]


def may_be_told(view: View, asked: Mask, needed: Numbers) -> Mask:
    """Return which of the servers asked for waste their time, (n,).

    They rest at an hour at which their service always has requests, or all day long. Requests that
    go to other nodes of the service are no waste of the node, unless these have taken over all that
    it did, or it has been left out for longer than ever.
    """
    rows = np.flatnonzero(asked & view.roster.inference)
    wasteful = view.nobody()
    if len(rows):
        below = view.number("idle.below")[rows]
        busy_hour = _lows(view, rows, needed) > 2 * below
        rests = _service_level(view, rows, needed) <= below
        wasteful[rows] = (busy_hour & rests) | _quiet_day(view, rows)
        alone = trailing(left_out(view), view.gap)
        long = (alone >= short_for(view)) & (alone > view.stretches(left_out, asked).rare)
        left = (asked & long)[rows]
        # One that never worked is kept for something else.
        worked = utilization_of(view.whole.pick(rows[left])) > below[left, None]
        wasteful[rows[left]] |= worked.any(axis=1)

        # What a deployment replaced stays for a while, to turn back.
        resting, looked_at = view.nobody(), int(short_for(view)[rows].max())
        resting[rows] = ~(view.utilization[rows, -looked_at:] > below[:, None]).any(axis=1)
        for _, servers in view.roster.by_scope(resting & ~wasteful):
            wasteful[servers] = took_over(view, servers, looked_at)
    return wasteful


def left_out(view: View) -> Mask:
    """Return where a server rests while one that holds the same model works as usual, (n, n_steps).

    Requests are spread over all of them: one that has its share no more is not sent any.
    """
    works = view.utilization >= (view.number("starved.below") * view.usual.middle)[:, None]
    left = np.zeros_like(works)
    for rows in alike(view):
        left[rows] = works[rows].any(axis=0)
    return left & view.holding


def alike(view: View) -> Iterator[Rows]:
    """Yield the servers of each service that hold the same model."""
    memory = view.usual_of(MEMORY)
    memory = np.where(np.isnan(memory), view.recent(view.memory), memory)
    roles = np.where(view.roster.inference, roles_of(view.roster, memory), -1)
    for role in np.unique(roles[roles >= 0]):
        yield np.flatnonzero(roles == role)


def took_over(view: View, rows: Rows, least: int) -> Mask:
    """Return which servers at `rows` lost their work to others of their team, (len(rows),).

    Since they together do less than at the same time of the day before, for the `least` steps at
    least, the others have gained as much over that day, from the hours before it.
    """
    whole, roster = view.whole.last(2 * DAY), view.roster
    day, hours = whole.steps(DAY), whole.steps(2 * HOUR)
    teams = np.array([labels.team for labels in roster.labels])
    others = (roster.scope == roster.scope[rows[0]]) | (teams != "")
    others &= (teams == teams[rows[0]]) & roster.inference
    others[rows] = False
    if whole.n_steps < 2 * day:
        return np.zeros(len(rows), dtype=bool)

    cores = np.nan_to_num(roster.cores, nan=1).astype(np.float32)
    work: Floats = utilization_of(whole) * cores[:, None]
    below = float(view.number("starved.below")[rows].min())
    smooth = rolling(mean_where_read(work[rows], axis=0), whole.steps(duration("progress.SMOOTH")))
    ago = max(least, int(trailing((smooth[day:] < below * smooth[:-day])[None])[0]))
    ago = min(ago, day - hours)

    # What is not read is not there, as before its launch: it does nothing.
    spans = (work[:, day:], work[:, :-day])
    since, before = (
        [np.nan_to_num(mean_where_read(span[:, part], axis=1)) for span in spans]
        for part in (slice(-ago, None), slice(-ago - hours, -ago))
    )
    changed = (since[0] - before[0]) - (since[1] - before[1])
    enough = changed[others].sum() >= -below * changed[rows].sum()
    return np.asarray((changed[rows] < (below - 1) * before[0][rows]) & enough)


def by_habit(view: View, asked: Mask, needed: Numbers) -> Mask:
    """Return which servers asked for are of a service that usually rests about this hour, (n,).

    It had requests today.
    """
    rows = np.flatnonzero(asked & view.roster.inference)
    rests = view.nobody()
    if len(rows):
        lows = _lows(view, rows, needed, of_any_kind=True)
        rests[rows] = (lows <= 2 * view.number("idle.below")[rows]) & ~_quiet_day(view, rows)
    return rests


class Demand(NamedTuple):
    """Hold how much the services of the nodes are asked, each (n,)."""

    usual: Floats
    """Utilization of a server of the service at this hour, nan where it is not known."""
    share: Floats
    """The share of it that the service has lately, nan where it is not known."""
    steps: Counts
    """For how many steps it has been under `starved.below`, as far as `short_for` looks."""


def short_for(view: View) -> Counts:
    """Return for how many steps a service must lack demand, (n,): its hours come and go."""
    return np.asarray(2 * view.steps("starved.shallow_for"), dtype=np.intp)


@once_a_tick
def demand_of_nodes(view: View) -> Demand:
    """Return the demand of the service of each server against its usual one.

    A request may go to any server, so the mean of all tells, those that are new too. Of one that is
    left out the requests went to the others.
    """
    usual, share = np.full((2, view.n), np.nan, dtype=np.float32)
    demand = Demand(usual, share, np.zeros(view.n, dtype=np.intp))
    smoothing = view.window.steps(duration("progress.SMOOTH"))
    sent = np.where(left_out(view), np.float32(np.nan), view.utilization)
    for service, rows in view.roster.by_scope(view.eligible & view.roster.inference):
        looked_at = int(short_for(view)[rows].max())
        levels = mean_where_read(sent[rows, -looked_at - smoothing :], axis=0)
        levels = rolling(levels, smoothing)[-looked_at:]
        lowest = _usual_demand(view, np.array([service]))[:, :, 0]
        if _open_about(view, service):  # the other kind of day tells whether it goes on
            lowest = np.where(np.isnan(lowest), lowest[::-1], lowest)
        times = [view.time_of(ago) for ago in range(len(levels) - 1, -1, -1)]
        usual_then = np.array([at_hour(lowest, time) for time in times], dtype=np.float32)
        asked = levels / usual_then
        usual[rows], share[rows] = usual_then[-1], asked[-1]
        demand.steps[rows] = trailing(asked[None, :] < view.number("starved.below")[rows].min())
    return demand


def at_hour(levels: Floats, time: datetime) -> float:
    """Return the lowest level about an hour of such a day, of levels by kind and hour, (2, 24)."""
    return float(around(levels[int(time.weekday() >= 5)], time))


def _open_about(view: View, service: int) -> Alert | None:
    """Return the open alert about most servers of a service that lacks demand, if there is one."""
    alert = view.alert((Cause.ALLOCATED_UNUSED.value,), view.roster.scopes[service])
    most = alert and 2 * len(alert.anomaly.things) >= view.roster.sizes[service]
    return alert if most else None


def _lows(view: View, rows: Rows, needed: Numbers, of_any_kind: bool = False) -> Floats:
    """Return the usual demand of the service of each row at its lowest hour, (len(rows),).

    It is looked for from `needed` steps ago to an hour from now: a lull may come an hour early. Nan
    where fewer than two days of the kind were seen, or of either kind if that will do.
    """
    services, of_service = np.unique(view.roster.scope[rows], return_inverse=True)
    usual = _usual_demand(view, services)
    if of_any_kind:
        usual = np.where(np.isnan(usual), usual[::-1], usual)
    hour, hours = view.now + HOUR, []
    while hour > view.now - float(needed[rows].max()) * view.window.step - HOUR:
        hours.append(usual[int(hour.weekday() >= 5), hour.hour])
        hour -= HOUR
    return np.asarray(np.min(hours, axis=0)[of_service], dtype=np.float32)


def _usual_demand(view: View, services: Rows) -> Floats:
    """Return the second lowest daily level of each service by kind of day and hour.

    Shape (2, 24, n_services). Of two days it is the lowest. One day is no habit. All that was seen
    before today counts, alerts or not: a lull that comes back every day is one. While one goes on,
    its own days do not count.
    """
    learnt = view.past.demand if view.past else {}
    lowest = []
    for service in services.tolist():
        alert = _open_about(view, service)
        day = min(view.now, alert.anomaly.window.start) if alert else view.now
        start = midnight(day)
        if (service, start) not in learnt:
            learnt[service, start] = _second_lowest(view, service, start)
        lowest.append(learnt[service, start])
    return np.stack(lowest, axis=-1)


def _second_lowest(view: View, service: int, until: datetime) -> Floats:
    """Return the second lowest daily level of a service by kind of day and hour, (2, 24).

    Of the kind of `until` no more than a week before: where a weekend begins late on a Saturday of
    UTC, Sundays are lower, and so are the first hours of Mondays.
    """
    lowest = np.full((2, 24), np.nan, dtype=np.float32)
    rows = np.flatnonzero(view.roster.inference & (view.roster.scope == service))
    part = history(view.whole.pick(rows), until, view.policy.number("alert.usual_days"))
    if not part.n_steps:
        return lowest
    daily, weekend = daily_levels(mean_where_read(utilization_of(part), axis=0)[None, :], part)
    for kind in (0, 1):
        ranked = np.sort(daily[:, weekend == bool(kind), 0], axis=1)  # nan last
        days = (~np.isnan(ranked)).sum(axis=1)
        hours = np.flatnonzero(days >= _ENOUGH)
        lowest[kind, hours] = ranked[hours, np.minimum(days[hours] - _ENOUGH, _ENOUGH - 1)]
    if len(weekend) >= 7:
        kind, level = int(weekend[-7]), daily[:, -7, 0]
        lowest[kind] = np.where(level < lowest[kind], level, lowest[kind])
    return lowest


def _service_level(view: View, rows: Rows, needed: Numbers) -> Numbers:
    """Return the mean utilization of the service of each row over its newest `needed` steps.

    Nan where none was read.
    """
    levels, scope = np.full(len(rows), np.nan), view.roster.scope
    for service in np.unique(scope[rows]):
        of_service = scope[rows] == service
        peers = np.flatnonzero(view.eligible & view.roster.inference & (scope == service))
        steps = int(needed[rows[of_service]].max())
        level = mean_where_read(view.utilization[peers, -steps:], axis=0)
        if np.isfinite(level).any():
            levels[of_service] = np.nanmean(level)
    return levels


def _quiet_day(view: View, rows: Rows) -> Mask:
    """Return which rows had no request for a day.

    A night without any is no waste that anyone can stop.
    """
    part = utilization_of(view.whole.last(DAY).pick(rows))
    worked = (part > view.number("idle.below")[rows][:, None]).any(axis=1)
    reported = (~np.isnan(part)).mean(axis=1)
    return np.asarray(~worked & (reported >= READ) & (part.shape[1] >= view.window.steps(DAY)))
