"""Judge the bill at each tick: jumps, unused commitments, budgets, and the provider's own findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal

import numpy as np

from bot.model.anomaly import Anomaly, BilledExcess
from bot.model.causes import Cause
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.money import usd
from bot.model.reading import BILLED_METRIC
from bot.model.spend import Commitment, Finding
from detectors.arrays import Numbers
from detectors.bill.budget import BudgetBurn, budget_anomalies, budget_burns
from detectors.bill.finding import BillFinding, Ledger, findings_of, told_before
from detectors.bill.growth import DAY, LINE, BillLines, Jump, lay_out, settled_steps
from detectors.bill.jumps import SettledDays, day_jumps, hour_jumps, is_fee, policy_of
from detectors.rule import Explanation, Subject, anomaly_of
from detectors.usual import Memo
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


_LASTS = timedelta(days=3)
"""A finding whose last day is older than this is over.

The provider needs up to two days to see a day.
"""
PROVIDER_SUGGESTIONS = (
    "Open `cost 14d by usage_type` for this service; compare with what was launched on its first day.",
)


def with_provider(view: View, ours: Sequence[Anomaly]) -> list[Anomaly]:
    """Return our anomalies of money with the provider's findings.

    Evidence of one of ours, else an anomaly of their own.
    """
    current = [x for x in view.reading.findings if not x.dismissed and view.now - _end(x) < _LASTS]
    merged: list[Anomaly] = list(ours)
    for finding in sorted(current, key=lambda x: (-x.impact, x.id)):
        same = next((i for i, one in enumerate(merged) if _same(one, finding)), None)
        if same is not None:
            merged[same] = replace(
                merged[same], evidence=_added(merged[same].evidence, _evidence(finding))
            )
        else:
            merged += _own(view, finding)
    return [_with_use(one, view.reading.commitments) for one in merged]


def _same(one: Anomaly, finding: Finding) -> bool:
    """Return whether an anomaly and a finding have one subject.

    No root cause that contradicts it, and days that meet.
    """
    if not one.cause.facts.grows:
        return False
    place = one.labels.merge(one.scope).only(("account", "region", "service"))
    agree = any(
        _agrees(place, cause) and cause.service in (place.service, "") for cause in finding.causes
    )
    return (
        agree
        and one.window.start < _end(finding) + timedelta(days=1)
        and one.window.end > _start(finding)
    )


def _agrees(one: Labels, other: Labels) -> bool:
    labels = dict(other)
    return all(labels.get(name, value) == value for name, value in one)


def _own(view: View, finding: Finding) -> Iterator[Anomaly]:
    """Yield an anomaly of a finding that our own rules missed, in the identity that ours would have."""
    cause = finding.causes[0]
    scope = cause.only(("account", "region", "service"))
    policy = view.policy.at(cause.only(("region", "account")))
    daily = finding.impact / finding.days
    if not policy.on("spend_jump.on") or daily < Decimal(str(policy.number("spend_jump.least"))):
        return
    usual = float(finding.expected / finding.days)
    value = float(finding.actual / finding.days)
    explanation = Explanation(
        why=f"{cause.service or 'The bill'} cost {usd(value, 0)} a day since {finding.first}, {usd(usual, 0)} expected: "
        "found by AWS Cost Anomaly Detection, not by our own rules.",
        value=value,
        unit="USD per day",
        usual=(usual, usual),
        score=float(np.clip(1 - usual / max(value, 1e-9), 0.3, 1.0)),
        evidence=(_evidence(finding), *(f"root cause: {one}" for one in finding.causes[:4])),
        confidence=0.7,
        suggestions=PROVIDER_SUGGESTIONS,
    )
    things = tuple(
        dict.fromkeys(
            one.usage_type or one.service for one in finding.causes if one.usage_type or one.service
        )
    )
    hourly = (daily / 24).quantize(Decimal("0.0001"))
    labels = Labels.shared(finding.causes)
    billed = BilledExcess(_end(finding), finding.impact, hourly, hourly)
    subject = Subject(
        scope, labels, things or (finding.id,), _start(finding), usd_per_hour=hourly, billed=billed
    )
    yield anomaly_of(view, Cause.SPEND_JUMP, subject, explanation)


def _evidence(finding: Finding) -> str:
    span = f"since {finding.first}" if finding.days > 1 else f"on {finding.first}"
    return f"AWS Cost Anomaly Detection found it too: {usd(finding.impact, 0)} over the expected {span}"


def _with_use(one: Anomaly, commitments: Sequence[Commitment]) -> Anomaly:
    """Add to an under-used commitment the use that the provider states."""
    days = [x for x in commitments if x.committed]
    if one.cause is not Cause.COMMITMENT_UNUSED or not days:
        return one
    last = max(days, key=lambda x: x.day)
    covered = (
        f"; they cover {percent(float(last.coverage))} of what they could"
        if last.coverage is not None
        else ""
    )
    stated = f"AWS says: {percent(float(last.utilization))} of {last.plan} used on {last.day}, {usd(last.unused, 0)} unused{covered}"
    return replace(one, evidence=_added(one.evidence, stated))


def _added(evidence: tuple[str, ...], sentence: str) -> tuple[str, ...]:
    return evidence if sentence in evidence else (*evidence, sentence)


def _start(finding: Finding) -> datetime:
    return datetime.combine(finding.first, time(), UTC)


def _end(finding: Finding) -> datetime:
    """Return when the finding's last day was over."""
    return datetime.combine(finding.last, time(), UTC) + timedelta(days=1)


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
