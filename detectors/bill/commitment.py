"""Find commitments that are under-used for days.

Fees whose unused part is a large share, however long that has been so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bot.model.causes import Cause
from bot.model.labels import Labels
from bot.model.money import usd
from bot.model.reading import BILLED_METRIC
from detectors.arrays import Numbers
from detectors.bill.excess import Ledger
from detectors.bill.finding import BillFinding
from detectors.bill.jump import is_fee, policy_of
from detectors.bill.lines import DAY, LINE, BillLines, lay_out
from detectors.rule import Explanation, Subject
from detectors.view import View
from detectors.words import percent


def commitment_findings(
    view: View, jumped: Sequence[BillFinding], ledger: Ledger
) -> list[BillFinding]:
    """Return a finding for each fee used under `commitment_unused.below` over `commitment_unused.days` settled days.

    A fee that has `jumped` already is left out: growth and level are one alert.
    """
    frame, unused = view.reading.frame("spend"), ledger.days
    billed = lay_out(frame, BILLED_METRIC) if frame and frame.has(BILLED_METRIC) else None
    if billed is None:
        return []
    already = {one.subject.scope for one in jumped if one.cause is Cause.COMMITMENT_UNUSED}
    rows = (
        row
        for row, line in enumerate(unused.lines)
        if is_fee(line) and line.only(LINE) not in already
    )
    return [finding for row in rows if (finding := _judge(view, ledger, billed, row))]


@dataclass(frozen=True)
class _Use:
    """Hold the fee of a commitment and its unused part over settled days, USD a day, each (n_days,)."""

    fee: Numbers
    idle: Numbers

    @property
    def shares(self) -> Numbers:
        """Return the used share of each day."""
        return np.asarray(1 - self.idle / self.fee)


def _judge(view: View, ledger: Ledger, billed: BillLines, row: int) -> BillFinding | None:
    unused = ledger.days
    policy = policy_of(unused, row, view)
    n, below = (
        int(policy.number("commitment_unused.days")),
        policy.number("commitment_unused.below"),
    )
    use = _Use(billed.values[row, -n:], unused.values[row, -n:])
    days = len(use.fee)
    if (
        not policy.on("commitment_unused.on")
        or days < n
        or not (use.fee > 0).all()
        or (use.idle > 1.001 * use.fee).any()
    ):
        return None
    if use.shares.mean() >= below or use.shares[-1] >= below:
        return None
    return _finding(ledger, unused.lines[row], use, below)


def _finding(ledger: Ledger, line: Labels, use: _Use, below: float) -> BillFinding:
    name, shares = (
        f"{line.service} ({line.usage_type})" if line.service else line.usage_type,
        use.shares,
    )
    mean, idle = float(shares.mean()), float(use.idle.mean())
    explanation = Explanation(
        why=f"{name}: {percent(mean)} of {usd(float(use.fee.mean()), 0)} a day was used over {len(shares)} settled days, "
        f"so {usd(idle, 0)} a day is lost.",
        value=mean,
        unit="ratio",
        usual=(below, 1.0),
        score=float(np.clip(1 - mean, 0.3, 1.0)),
        evidence=(
            f"used between {percent(float(shares.min()))} and {percent(float(shares.max()))} on each of these days",
        ),
        confidence=0.9,
    )
    scope, start = line.only(LINE), ledger.days.end - len(shares) * DAY
    excess = ledger.whole(line, ledger.since(Cause.COMMITMENT_UNUSED, scope, start))
    subject = Subject(
        scope, line, (line.usage_type,), start, usd_per_hour=excess.rate, billed=excess.billed
    )
    return BillFinding(Cause.COMMITMENT_UNUSED, subject, explanation)
