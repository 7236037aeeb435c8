"""Judge one tick: compare the newest steps with the usual, find anomalies and nodes' states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Any

import numpy as np

from bot.model.alert import Alert
from bot.model.anomaly import Anomaly, Detection
from bot.model.causes import Cause, Family
from bot.model.frame import Frame
from bot.model.policy import Policy
from bot.model.reading import Reading
from bot.model.run import Compile
from bot.model.window import midnight
from detectors.bill.judge import BillJudge
from detectors.diagnose import diagnose, states
from detectors.forest import (
    JOB_HOURS,
    CostHistory,
    JobUsual,
    distances,
    fit,
    job_usual,
    known_costs,
)
from detectors.jobs import LEAST_OF_JOB, YOUNG_JOB, current
from detectors.nodes import drop, odd
from detectors.nodes.at_risk import checkpoint_anomalies, notice_anomalies
from detectors.nodes.compile import cold_anomalies, compiles, killed_anomalies
from detectors.nodes.storage import orphan_anomalies, unused_capacity_anomalies
from detectors.numbers import DAY, HOUR, Floats, Mask
from detectors.readings import facts_of, frame_of
from detectors.roster import Limits, Roster, build_roster
from detectors.usual import (
    NOTHING,
    LearntBlocks,
    Memo,
    Past,
    Usual,
    anchor_of,
    history,
    learn,
    pause_spans,
    source_of,
    strange_spans,
)
from detectors.view import LOOKBACK, JobPast, View

LOOPING = (Cause.EXECUTION_ERRORS.value, Cause.MEMORY_PRESSURE.value)
"""Rules of what ends processes again and again: what begins amid it is no job to judge by."""


class Detector:
    """Find anomalies in a reading.

    The same reading, policy and known alerts give the same detection. The memos (roster, limits,
    usual levels, forest, judgement of the bill) only save work between ticks: each is a pure
    function of its key, anchored at fixed UTC instants, so that a restarted process finds the same
    as one that never stopped.
    """

    def __init__(
        self, grow: odd.Grow = fit, *, money: bool = True, policies: int = 1, replays: bool = False
    ) -> None:
        """Take the learner of strangeness, and whether the detector sees the bill.

        A benchmark asks what both earn. `policies` is how many are judged by side by side: they
        share what is learnt alike. One that `replays` keeps what it learnt of the blocks of hours:
        a watch that lives for months learns them again, as kept they are a tenth of its history.
        """
        self._grow, self._money = grow, money
        self._policies, self._replays = policies, replays
        self._costs = Memo[Floats](policies)
        self._roster = Memo[Roster]()
        self._limits = Memo[Limits](policies)
        self._usual = Memo[Usual](policies)
        self._learnt = Memo[LearntBlocks](policies)
        self._young = Memo[Usual](policies)
        self._odd_model = Memo[odd.OddModel | None](policies)
        self._blocks = Memo[odd.Blocks]()
        self._job_usual = Memo[JobUsual](policies)
        self._past = Memo[JobPast](policies)
        self._current = Memo[Usual](policies)
        self._beside: View | None = None
        self._bill = BillJudge(policies)

    def __call__(self, reading: Reading, policy: Policy, known: Sequence[Alert]) -> Detection:
        """Judge `reading.now` by the history before it, without the spans of `known` alerts."""
        view = fleet = self.view(reading, policy, known)
        if reading.fleet:
            fleet = self._fleet.view(reading.fleet, policy, known, learnt=NOTHING)
        with np.errstate(invalid="ignore", divide="ignore"):
            diagnosis = diagnose(view)
            anomalies = [
                *diagnosis.anomalies,
                *self._odd(view, diagnosis.explained),
                *cold_anomalies(view),
                *killed_anomalies(view),
                *checkpoint_anomalies(view, diagnosis.stopped),
                *notice_anomalies(view),
                *orphan_anomalies(fleet),
                *unused_capacity_anomalies(fleet),
                *self._bill(fleet),
            ]
            return Detection(tuple(anomalies), states(view, diagnosis.starved))

    @cached_property
    def _fleet(self) -> Detector:
        """Return a detector with memos of its own for all nodes of the fleet."""
        return Detector(self._grow, money=self._money, policies=self._policies)

    def view(
        self,
        reading: Reading,
        policy: Policy,
        known: Sequence[Alert],
        learnt: Usual | None = None,
    ) -> View:
        """Return the states of the nodes at `reading.now`, with what is usual for their jobs.

        It is `learnt` elsewhere where that is given.
        """
        whole = frame_of(reading, "node")
        listed = reading.inventory
        makeup = whole.things, listed.instances, listed.types, listed.reservations
        roster = self._roster.get(makeup, lambda: build_roster(whole.things, listed))
        limits = self._limits.get((policy, makeup), lambda: Limits(policy, roster))
        window = whole.last(limits.longest + LOOKBACK)
        still_open = {(a.anomaly.rule, a.anomaly.scope): a for a in known if a.firing}

        # What is learnt from: the days before the last fixed hour, without the spans of alerts.
        anchor = anchor_of(reading.now, whole)
        source = source_of(whole, reading, limits.roster)
        past = Past(
            anchor,
            policy.number("alert.usual_days"),
            strange_spans(known, anchor),
            pause_spans(known, anchor, policy.duration("alert.pause_limit")),
            source=source,
        )
        usual = learnt or self._usual_of(reading, whole, limits, past, known)
        view = View(reading, policy, limits, usual, window, whole, still_open, tuple(known))
        view.past_ = self._past.get((past, policy), lambda: JobPast(past))

        # Policies side by side judge the same nodes over the same time, most of it alike.
        beside, self._beside = self._beside, view if self._policies > 1 else None
        if beside and (beside.now, beside.window.start) == (view.now, window.start):
            view.beside = beside if beside.roster is limits.roster else None
        return view

    def _usual_of(
        self,
        reading: Reading,
        whole: Frame,
        limits: Limits,
        past: Past,
        alerts: Sequence[Alert],
    ) -> Usual:
        """Return the usual of the jobs that run now, by the days before, else by the last hours."""
        roster, floor = limits.roster, limits.number("idle.below")
        nodes = (roster.running.tobytes(), floor.tobytes())

        def learnt() -> Usual:
            part = history(whole, past.anchor, past.days)
            unthinned = history(whole, past.anchor, past.days, whole.step)
            key = past.anchor, past.days, past.source, floor.tobytes()
            earlier = self._learnt.get(key, dict[Any, Usual])
            return learn(part, roster, floor, past.strange, whole=unthinned, earlier=earlier)

        hour = anchor_of(reading.now, whole, HOUR)
        newest = Past(hour, YOUNG_JOB / DAY, strange_spans(alerts, hour), source=past.source)

        def young() -> Usual:
            def learnt() -> Usual:
                part = history(whole, hour, newest.days, whole.step)
                return learn(part, roster, floor, newest.strange, LEAST_OF_JOB)

            return self._young.get((newest, *nodes), learnt)

        def opened(*rules: str) -> list[Alert]:
            return [a for a in alerts if a.firing and a.anomaly.rule in rules]

        drops = opened(*Family.DROP.rules, Cause.ALLOCATED_UNUSED.value)
        dropped = roster.among(thing for alert in drops for thing in alert.anomaly.things)
        alerted = strange_spans(opened(*Family.DROP.rules, *LOOPING), reading.now)
        by_days = self._usual.get((past, *nodes), learnt)
        return self._current.get(
            (reading.now, past, newest, *nodes, dropped.tobytes(), alerted),
            lambda: current(by_days, whole, reading, limits, dropped, young, alerted),
            whole,
            reading.frame("run"),
        )

    def _odd(self, view: View, explained: Mask) -> Iterable[Anomaly]:
        """Return the odd combinations of nodes that no rule explains."""
        since = midnight(view.now)
        silent = timedelta(days=view.policy.number("odd.silent_days"))
        if view.now - view.whole.start < silent or not view.on("odd.on").any():
            return ()
        floor = view.number("idle.below")
        source = source_of(view.whole, view.reading, view.roster)
        spend = view.reading.frame("spend_hour") if self._money else None
        days, strange = view.policy.number("alert.usual_days"), strange_spans(view.alerts, since)
        past = Past(since, days, (*strange, *odd.spans_of_scopes(view, since)), source=source)
        # Most blocks of a midnight were learnt at the one before.
        blocks = self._blocks.get(source, dict[Any, odd.Block]) if self._replays else None
        model = self._odd_model.get(
            (past, floor.tobytes()),
            lambda: odd.learn(
                CostHistory.of(spend, view.whole, view.roster, since - odd.LATE),
                view.roster,
                odd.blocks_of(view.whole, view.limits, past, blocks),
                self._grow,
            ),
            spend,
        )
        if not model:
            return ()

        hour = anchor_of(view.now, view.whole, HOUR)
        strange_now = strange_spans(view.alerts, hour)
        usual = self._job_usual.get(
            (hour, strange_now, source, floor.tobytes()),
            lambda: job_usual(
                view.whole.until(hour).since(hour - JOB_HOURS), view.roster, floor, strange_now
            ),
        )

        # How far each node's costs lay from their usual in the newest hours of the bill.
        end = spend.end if spend else view.now
        costs = self._costs.get(
            (end, source),
            lambda: known_costs(spend, view.whole, view.roster, end, HOUR),
            spend,
        )
        costs_far = np.zeros_like(model.costs.middle)
        if costs.shape[1]:
            costs_far = distances(costs[:, -1], model.costs)
        alerted = view.held_open(*(rule for rule, _ in view.open if rule != Cause.ODD.value))
        oddness = odd.Oddness(model, usual, costs_far)
        falling = partial(drop.fell_lately, view, view.policy.duration("odd.for"))
        return odd.odd_anomalies(view, oddness, explained | alerted, falling)


_TELLING = ("least_", "critical_", "resolve_", "worse_", "remind_", "escalate_", "quiet_", "most_")
AFTERWARDS = ("acting.", "advice.", *(f"alert.{name}" for name in _TELLING))
"""How settings begin that say what is told and done about anomalies, whatever these are."""


class SharedDetector:
    """Judge for several policies side by side, whose readings of one time are the same.

    They share what is learnt alike, and a whole detection where they differ in nothing that judges.
    """

    def __init__(self, policies: int) -> None:
        self._detector = Detector(policies=policies, replays=True)
        self._detections = Memo[Detection](policies)
        self._judging = Memo[Policy](policies)

    def __call__(self, reading: Reading, policy: Policy, known: Sequence[Alert]) -> Detection:
        """Judge as a detector of this policy alone would."""
        # The detector is given nothing else of a policy, so that nothing else can matter.
        judging = self._judging.get(
            policy,
            lambda: Policy(
                {key: x for key, x in policy.values.items() if not key.startswith(AFTERWARDS)},
                tuple(x for x in policy.overrides if not x[1].startswith(AFTERWARDS)),
            ),
        )
        key = reading.now, judging, facts_of(known)
        return self._detections.get(key, lambda: self._detector(reading, judging, known))


def compiles_since(reading: Reading, policy: Policy, since: datetime) -> tuple[Compile, ...]:
    """Return every compile that went on at `since` or later, as far as the reading goes."""
    whole = frame_of(reading, "node")
    limits = Limits(policy, build_roster(whole.things, reading.inventory))
    # A compile that began before is seen from its beginning, if it took no longer than a day.
    part = whole.since(since - DAY)
    view = View(reading, policy, limits, NOTHING, part, part, {})
    with np.errstate(invalid="ignore", divide="ignore"):
        return tuple(x for x in compiles(view) if x.window.end > since)
