"""Judge the bill at each tick.

Its jumps by day and by hour, unused commitments, budgets, and the provider's own findings.
"""

from __future__ import annotations

from datetime import datetime

from bot.model.anomaly import Anomaly
from bot.model.frame import Frame
from detectors.bill.budget import BudgetBurn, budget_anomalies, budget_burns
from detectors.bill.commitment import commitment_findings
from detectors.bill.excess import Ledger
from detectors.bill.finding import BillFinding, findings_of, told_before
from detectors.bill.growth import Jump
from detectors.bill.hourly import SettledDays, hour_jumps
from detectors.bill.jump import day_jumps
from detectors.bill.lines import DAY, BillLines, lay_out, settled_steps
from detectors.bill.provider import with_provider
from detectors.memo import Memo
from detectors.view import View


class BillJudge:
    """Judge the bill.

    Its findings hold until another day or hour settles, so they are kept until then.
    """

    def __init__(self) -> None:
        self._jumps_by_day = Memo[list[Jump]]()
        self._settled_days = Memo[SettledDays]()
        self._findings = Memo[list[BillFinding]]()
        self._burns = Memo[list[BudgetBurn]]()

    def __call__(self, view: View) -> list[Anomaly]:
        """Return the anomalies of money at the tick."""
        jumped = [
            finding.anomaly(view)
            for finding in self._findings_of(view)
            if not told_before(finding, view)
        ]
        return [*with_provider(view, jumped), *budget_anomalies(view, self._burns_of(view))]

    def _findings_of(self, view: View) -> list[BillFinding]:
        """Return the findings in the bill.

        Judged by days when another has settled, and by the hours since.
        """
        day, hour = (_settled_key(view.reading.frame(kind)) for kind in ("spend", "spend_hour"))
        policy, known = (view.policy.values, view.policy.overrides), _known(view)

        def judged() -> list[BillFinding]:
            days, hours = _lines(view, "spend"), _lines(view, "spend_hour")
            assert days
            by_day = self._jumps_by_day.get((day, policy), lambda: day_jumps(days, view))
            by_hour = (
                hour_jumps(hours, self._settled_days.get(day, lambda: SettledDays.of(days)), view)
                if hours
                else []
            )
            newest, above = (
                int(view.policy.number("spend_jump.hours")),
                view.policy.number("spend_jump.above"),
            )
            ledger = Ledger(days, hours, newest, above, dict(known))
            jumped = findings_of([*by_day, *by_hour], ledger)
            return [*jumped, *commitment_findings(view, jumped, ledger)]

        return self._findings.get((day, hour, policy, known), judged) if day else []

    def _burns_of(self, view: View) -> list[BudgetBurn]:
        day = _settled_key(view.reading.frame("spend"))
        key = (day, (view.now.year, view.now.month), view.policy.values, view.policy.overrides)
        return self._burns.get(key, lambda: budget_burns(view)) if day else []


def _settled_key(frame: Frame | None) -> tuple[object, ...]:
    """Return a key that changes only when another step of the bill has settled.

    The judgement holds until then.

    A frame by the hour is cut where it has settled: nothing needs to be searched for that.
    """
    if frame and frame.step < DAY:
        return len(frame.things), frame.end
    first, last = settled_steps(frame)
    return (len(frame.things), frame.start + last * frame.step) if frame and last > first else ()


def _lines(view: View, kind: str) -> BillLines | None:
    frame = view.reading.frame(kind)
    return lay_out(frame) if frame else None


def _known(view: View) -> tuple[tuple[str, datetime], ...]:
    """Return the keys of the alerts of the bill that are open or may open again, each with its beginning."""
    again = view.now - view.policy.duration("alert.reopen_within")
    known = [
        one
        for one in view.alerts
        if one.anomaly.billed and (one.closed is None or one.closed > again)
    ]
    return tuple(sorted((one.key, one.anomaly.window.start) for one in known))
