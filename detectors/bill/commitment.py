"""Find commitments that are under-used for days: fees whose unused part is a large share, however long that has been so."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from bot.model.anomaly import Cause, Severity
from bot.model.labels import Labels
from bot.model.reading import BILLED_METRIC, SPEND_METRIC
from detectors.bill.finding import BillFinding
from detectors.bill.jump import is_fee, policy_of
from detectors.bill.lines import DAY, LINE, BillLines, lay_out
from detectors.rule import Explanation
from detectors.view import View
from detectors.words import percent

_SUGGESTIONS = (
    "Move nodes that run on demand under the plan, or let it run out instead of renewing it.",
    "See what it still covers: `cost 7d by purchase,instance_type`.",
)


def stories(view: View, told: Sequence[BillFinding]) -> list[BillFinding]:
    """Return a story of each fee used under `commitment_unused.below` over `commitment_unused.days` settled days.

    What already jumped (`told`) is not told again: growth and level are one alert.
    """
    frame = view.reading.frame("spend")
    unused = lay_out(frame) if frame else None
    billed = lay_out(frame, BILLED_METRIC) if frame and frame.has(BILLED_METRIC) else None
    if unused is None or billed is None:
        return []
    known = {one.scope for one in told if one.cause is Cause.COMMITMENT_UNUSED}
    rows = (row for row, line in enumerate(unused.lines) if is_fee(line) and line.only(LINE) not in known)
    return [found for row in rows if (found := _judge(view, unused, billed, row))]


def _judge(view: View, unused: BillLines, billed: BillLines, row: int) -> BillFinding | None:
    policy, line = policy_of(unused, row, view), unused.lines[row]
    n, below = int(policy.number("commitment_unused.days")), policy.number("commitment_unused.below")
    fee, idle = billed.values[row, -n:], unused.values[row, -n:]
    if not policy.on("commitment_unused.on") or len(fee) < n or not (fee > 0).all() or (idle > 1.001 * fee).any():
        return None
    used = 1 - idle / fee
    if used.mean() >= below or used[-1] >= below:
        return None
    return _story(unused, line, used, float(idle.mean()), float(fee.mean()), below)


def _story(bill: BillLines, line: Labels, used: np.ndarray, idle: float, fee: float, below: float) -> BillFinding:
    name, mean = f"{line.service} ({line.usage_type})" if line.service else line.usage_type, float(used.mean())
    words = Explanation(
        why=f"{name}: {percent(mean)} of ${fee:,.0f} a day was used over {len(used)} settled days, "
        f"so ${idle:,.0f} a day is lost.",
        value=mean,
        unit="ratio",
        usual=(below, 1.0),
        score=float(np.clip(1 - mean, 0.3, 1.0)),
        evidence=(f"used between {percent(float(used.min()))} and {percent(float(used.max()))} on each of these days",),
        confidence=0.9,
        suggestions=_SUGGESTIONS,
        metric=SPEND_METRIC,
        kind="spend",
        severity=Severity.WARNING,
    )
    lost = Decimal(str(round(idle / 24, 4)))
    start = bill.end - len(used) * DAY
    return BillFinding(Cause.COMMITMENT_UNUSED, line.only(LINE), line, (line.usage_type,), start, words, lost)
