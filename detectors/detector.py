"""Judge one tick: read the newest steps against what is usual, and return anomalies and the state of every node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Generic, TypeVar

import numpy as np

from bot.model.alert import Alert
from bot.model.anomaly import Anomaly, Cause, Detection
from bot.model.compile import Compile
from bot.model.fleet import Instance
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.model.reading import Reading
from detectors.bill import budget, commitment, finding, provider
from detectors.bill.finding import BillFinding
from detectors.bill.hourly import SettledDays
from detectors.bill.jump import Jump
from detectors.compiles import compiles
from detectors.diagnose import anomalies_of, diagnose, states
from detectors.limits import Limits
from detectors.nodes import checkpoint, compile, drop, odd, storage
from detectors.roster import Roster, build_roster
from detectors.usual import NOTHING, StrangeSpan, Usual, anchor_of, history, learn, strange_spans
from detectors.view import LOOKBACK, View

T = TypeVar("T")
_DAY = timedelta(days=1)
_EMPTY = Frame(
    "node", (), datetime.fromisoformat("2000-01-01T00:00:00+00:00"), timedelta(minutes=5), (), np.zeros((0, 1, 0), np.float32)
)


class Detector:
    """Find anomalies in a reading; the same reading, policy and known alerts give the same detection.

    What is kept between ticks (roster, limits, usual levels, forest, judgement of the bill) only saves work: each is a pure
    function of its key, anchored at fixed UTC instants, so that a restarted process finds what one that never stopped finds.
    """

    def __init__(self) -> None:
        self._roster: tuple[tuple[Labels, ...], Mapping[str, Instance], Roster] | None = None
        self._limits: Limits | None = None
        self._usual = _Memo[Usual]()
        self._taught = _Memo[odd.OddModel | None]()
        self._days = _Memo[list[Jump]]()
        self._settled = _Memo[SettledDays | None]()
        self._stories = _Memo[list[BillFinding]]()
        self._burns = _Memo[list[budget.BudgetBurn]]()

    def __call__(self, reading: Reading, policy: Policy, known: Sequence[Alert]) -> Detection:
        """Judge `reading.now` by the history before it; what `known` alerts were about is not learnt from."""
        view = self._look(reading, policy, known)
        with np.errstate(invalid="ignore", divide="ignore"):
            verdict = diagnose(view)
            anomalies = [*verdict.anomalies, *self._odd(view, verdict.explained)]
            anomalies += [
                *compile.find_killed(view),
                *checkpoint.find(view, verdict.stopped),
                *storage.find_orphans(view),
                *storage.find_unused_capacity(view),
            ]
            money = [story.told(view) for story in self._judged_bill(view)]
            anomalies += [*provider.with_findings(view, money), *budget.find_budgets(view, self._burns_of(view))]
            return Detection(tuple(anomalies), states(view, verdict.starved))

    def compiles(self, reading: Reading, policy: Policy, since: datetime) -> tuple[Compile, ...]:
        """Return every compile that was going on at `since` or later, as far back as the reading goes."""
        whole = reading.frame("node")
        if not whole or not whole.n_steps:
            return ()
        limits = Limits(policy, build_roster(whole.things, reading.inventory))
        # What began before is seen from its beginning, if it took no longer than a day.
        part = whole.since(since - _DAY)
        view = View(reading, policy, limits, NOTHING, part, part, {})
        with np.errstate(invalid="ignore", divide="ignore"):
            return tuple(x for x in compiles(view) if x.window.end > since)

    def _look(self, reading: Reading, policy: Policy, known: Sequence[Alert]) -> View:
        whole = reading.frame("node")
        whole = whole if whole and whole.n_steps else _EMPTY
        limits = self._limits_of(self._roster_of(whole, reading), policy)
        window = whole.last(limits.longest + LOOKBACK)
        still_open = {(a.anomaly.rule, a.anomaly.scope): a for a in known if a.firing}
        usual = self._usual_of(whole, limits, known, reading.now)
        return View(reading, policy, limits, usual, window, whole, still_open, tuple(known))

    def _roster_of(self, whole: Frame, reading: Reading) -> Roster:
        instances = reading.inventory.instances
        if self._roster is None or self._roster[1] is not instances or self._roster[0] != whole.things:
            self._roster = (whole.things, instances, build_roster(whole.things, reading.inventory))
        return self._roster[2]

    def _limits_of(self, roster: Roster, policy: Policy) -> Limits:
        if self._limits is None or self._limits.roster is not roster or self._limits.policy != policy:
            self._limits = Limits(policy, roster)
        return self._limits

    def _usual_of(self, whole: Frame, limits: Limits, known: Sequence[Alert], now: datetime) -> Usual:
        anchor = anchor_of(now, whole)
        roster, days = limits.roster, limits.policy.number("alert.usual_days")
        masked = strange_spans(known, anchor)
        floor = limits.number("idle.below")

        def learnt() -> Usual:
            return learn(history(whole, anchor, days), roster, floor, masked)

        return self._usual.get((anchor, whole.things, roster.running.tobytes(), floor.tobytes(), days, masked), learnt)

    def _odd(self, view: View, explained: np.ndarray) -> list[Anomaly]:
        taught = self._taught_of(view)
        told_of = view.held_open(*(rule for rule, _ in view.open if rule != Cause.ODD.value))
        found, scores = odd.find(view, taught, explained | told_of, drop.fell_lately(view, view.policy.duration("odd.for")))
        return list(anomalies_of(view, found, lambda v, _, rows: odd.explain(v, taught, scores, rows))) if taught else []

    def _taught_of(self, view: View) -> odd.OddModel | None:
        anchor = view.now.replace(hour=0, minute=0, second=0, microsecond=0)
        silent = timedelta(days=view.policy.number("odd.silent_days"))
        if anchor - view.whole.start < silent - _DAY or not view.limits.on("odd.on").any():
            return None
        days, floor = view.policy.number("alert.usual_days"), view.number("idle.below")
        masked: tuple[StrangeSpan, ...] = strange_spans(view.known, anchor)

        def learnt() -> odd.OddModel | None:
            return odd.teach(view.whole, view.roster, floor, anchor, days, masked)

        return self._taught.get((anchor, view.whole.things, view.roster.scopes, floor.tobytes(), days, masked), learnt)

    def _judged_bill(self, view: View) -> list[BillFinding]:
        """Return what the bill says: judged by days when another has settled, and by the hours since."""
        day, hour = (finding.settled_key(view.reading.frame(kind)) for kind in ("spend", "spend_hour"))
        policy = (view.policy.values, view.policy.overrides)

        def judged() -> list[BillFinding]:
            days = self._days.get((day, policy), lambda: finding.by_day(view))
            known = self._settled.get(day, lambda: finding.settled(view)) if hour else None
            jumped = finding.stories([*days, *finding.by_hour(view, known)])
            return [*jumped, *commitment.stories(view, jumped)]

        return self._stories.get((day, hour, policy), judged) if day else []

    def _burns_of(self, view: View) -> list[budget.BudgetBurn]:
        day = finding.settled_key(view.reading.frame("spend"))
        key = (day, (view.now.year, view.now.month), view.policy.values, view.policy.overrides)
        return self._burns.get(key, lambda: budget.burns(view)) if day else []


class _Memo(Generic[T]):
    """Remember the newest value of a pure function by its key."""

    def __init__(self) -> None:
        self._kept: tuple[object, T] | None = None

    def get(self, key: object, make: Callable[[], T]) -> T:
        """Return the value for `key`, made anew only when the key has changed."""
        if self._kept is None or self._kept[0] != key:
            self._kept = (key, make())
        return self._kept[1]
