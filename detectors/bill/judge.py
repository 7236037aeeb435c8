"""Judge the bill at each tick: jumps, commitments, budgets, and the provider's findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal

import numpy as np

from bot.model.anomaly import Anomaly, BilledExcess
from bot.model.causes import Cause, Severity
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.money import usd
from bot.model.policy import Policy
from bot.model.projection import Projection, is_seldom, project
from bot.model.reading import BILLED_METRIC
from bot.model.spend import Finding
from bot.model.window import day, month_of
from detectors.bill.finding import BillFinding, Ledger, findings_of, told_before
from detectors.bill.growth import (
    LINE,
    BillLines,
    Jump,
    growth_score,
    lay_out,
    rounded,
    settled_steps,
)
from detectors.bill.jumps import day_jumps, hour_jumps, is_fee, policy_of, usual_by_hour
from detectors.numbers import DAY, Numbers, duration, number, percent, span
from detectors.rule import Explanation, Subject, anomaly_of, belief
from detectors.usual import Memo, source_of
from detectors.view import View

PROVIDER_SUGGESTIONS = (
    "Open `cost 14d by usage_type`; compare with what was launched on its first day.",
)
PLAN_ENDED = ("See what a new plan would save before you commit again: `suggestions`.",)


def commitment_findings(
    view: View, jumped: Sequence[BillFinding], ledger: Ledger
) -> list[BillFinding]:
    """Return a finding for each fee used under `commitment_unused.below` for days.

    It must be so over `commitment_unused.days` settled days. A fee that has `jumped` already is
    left out: growth and level are one alert.
    """
    billed, unused = lay_out(view.reading.frame("spend"), BILLED_METRIC), ledger.days
    if billed is None:
        return []
    already = {x.subject.scope for x in jumped}
    findings = []
    for row, line in enumerate(unused.lines):
        scope = line.only(LINE)
        if not is_fee(line) or scope in already:
            continue
        policy = policy_of(unused, row, view)
        days = int(policy.number("commitment_unused.days"))
        below = policy.number("commitment_unused.below")
        fee, idle = billed.values[row, -days:], unused.values[row, -days:]
        enough = policy.on("commitment_unused.on") and len(fee) >= days
        if not enough or not (fee > 0).all() or (idle > number("judge.ROUNDED") * fee).any():
            continue
        shares = np.asarray(1 - idle / fee)
        if shares.mean() >= below or shares[-1] >= below:
            continue

        name = f"{line.service} ({line.usage_type})" if line.service else line.usage_type
        mean, cost = float(shares.mean()), usd(float(fee.mean()), 0)
        used = span(float(shares.min()), float(shares.max()))
        explanation = Explanation(
            why=f"{name}: {percent(mean)} of {cost} a day was used over {len(shares)} settled days,"
            f" so {usd(float(idle.mean()), 0)} a day is lost.",
            value=mean,
            unit="ratio",
            usual=(below, 1.0),
            **belief("fee_unused", float(np.clip(1 - mean, 0.3, 1.0))),
            evidence=(f"{used} of it was used on each of these days",),
        )
        start = unused.end - len(shares) * DAY
        excess = ledger.whole(line, ledger.since(Cause.COMMITMENT_UNUSED, scope, start))
        subject = Subject(
            scope, line, (line.usage_type,), start, usd_per_hour=excess.rate, billed=excess.billed
        )
        findings.append(BillFinding(Cause.COMMITMENT_UNUSED, subject, explanation))
    return findings


def with_ended_plans(view: View, findings: Sequence[BillFinding]) -> list[BillFinding]:
    """Return the findings, of which hours that a commitment paid until it ended say so."""
    billed = lay_out(view.reading.frame("spend"), BILLED_METRIC)
    if billed is None:
        return list(findings)
    ended = []
    for line, fee in zip(billed.lines, billed.values, strict=True):
        paid = np.flatnonzero(fee > 0)
        if is_fee(line) and len(paid) and paid[-1] < billed.n_steps - 1:
            ended.append((line, billed.at(int(paid[-1]) + 1)))

    def named(finding: BillFinding) -> BillFinding:
        """Return a finding with the commitment that ended as it began."""
        subject, explanation = finding.subject, finding.explanation
        if not (finding.cause.facts.buys_hours and subject.labels.instance_type):
            return finding
        for line, end in ended:
            if line.account == subject.labels.account and abs(subject.start - end) <= DAY:
                why = f"{line.usage_type} ended on {day(end)}, its hours are on demand since."
                explanation = replace(
                    explanation, why=f"{explanation.why} {why}", suggestions=PLAN_ENDED
                )
                return replace(finding, explanation=explanation)
        return finding

    return [named(finding) for finding in findings]


def with_provider(view: View, ours: Sequence[Anomaly]) -> list[Anomaly]:
    """Return our anomalies of money with the provider's findings and utilization.

    A finding is evidence of one of ours, else an anomaly of its own, unless the same place has one
    about other days already.
    """
    lasts = duration("judge.LASTS")
    current = [x for x in view.reading.findings if not x.dismissed and view.now - _end(x) < lasts]
    merged: list[Anomaly] = list(ours)
    for finding in sorted(current, key=lambda x: (-x.impact, x.id)):
        dates = f"since {finding.first}" if finding.days > 1 else f"on {finding.first}"
        over = f"{usd(finding.impact, 0)} over the expected {dates}"
        same = next((i for i, x in enumerate(merged) if _same_subject(x, finding)), None)
        if same is not None:
            merged[same] = _with_evidence(
                merged[same], f"AWS Cost Anomaly Detection found it too: {over}"
            )
        else:
            told = {x.key for x in merged}
            merged += [x for x in _provider_anomaly(view, finding, over) if x.key not in told]

    # The provider's own word on an under-used commitment.
    stated = ""
    if days := [x for x in view.reading.commitments if x.committed]:
        last = max(days, key=lambda x: x.day)
        stated = (
            f"AWS says: {percent(float(last.utilization))} of {last.plan} used on {day(last.day)},"
            f" {usd(last.unused, 0)} unused"
        )
        if last.coverage is not None:
            stated += f"; they cover {percent(float(last.coverage))} of what they could"
    return [
        _with_evidence(anomaly, stated)
        if stated and anomaly.cause is Cause.COMMITMENT_UNUSED
        else anomaly
        for anomaly in merged
    ]


def _same_subject(anomaly: Anomaly, finding: Finding) -> bool:
    """Return whether an anomaly and a finding have one subject.

    No root cause contradicts it, and their days meet.
    """
    if not anomaly.cause.facts.grows:
        return False
    place = anomaly.labels.merge(anomaly.scope).only(("account", "region", "service"))
    causes = [x for x in finding.causes if x.service in (place.service, "")]
    agree = any(
        all(dict(cause).get(name, value) == value for name, value in place) for cause in causes
    )
    day_after = _end(finding) + timedelta(days=1)
    return agree and anomaly.window.start < day_after and anomaly.window.end > _start(finding)


def _provider_anomaly(view: View, finding: Finding, evidence: str) -> list[Anomaly]:
    """Return the anomaly of a finding that our own rules missed, in the identity of ours.

    None where the policy does not want it.
    """
    cause = finding.causes[0]
    scope = cause.only(("account", "region", "service"))
    policy = view.policy.at(cause.only(("region", "account")))
    daily = finding.impact / finding.days
    if not policy.on("spend_jump.on") or daily < Decimal(str(policy.number("spend_jump.least"))):
        return []
    usual = float(finding.expected / finding.days)
    value = float(finding.actual / finding.days)
    when = f"a day since {finding.first}" if finding.days > 1 else f"on {finding.first}"
    explanation = Explanation(
        why=f"{cause.service or 'The bill'} cost {usd(value, 0)} {when},"
        f" {usd(usual, 0)} expected: found by AWS Cost Anomaly Detection, not by our own rules.",
        value=value,
        unit="USD per day",
        usual=(usual, usual),
        **belief("provider_found", growth_score(usual, value)),
        evidence=(evidence, *(f"root cause: {x}" for x in finding.causes[:4])),
        suggestions=PROVIDER_SUGGESTIONS,
    )
    names = (x.usage_type or x.service for x in finding.causes)
    things = tuple(dict.fromkeys(name for name in names if name)) or (finding.id,)
    hourly = (daily / 24).quantize(Decimal("0.0001"))
    billed = BilledExcess(_end(finding), finding.impact, hourly, hourly)
    labels, start = Labels.shared(finding.causes), _start(finding)
    subject = Subject(scope, labels, things, start, usd_per_hour=hourly, billed=billed)
    return [anomaly_of(view, Cause.SPEND_JUMP, subject, explanation)]


def _with_evidence(anomaly: Anomaly, sentence: str) -> Anomaly:
    return replace(anomaly, evidence=(*anomaly.evidence, sentence))


def _start(finding: Finding) -> datetime:
    return datetime.combine(finding.first, time(), UTC)


def _end(finding: Finding) -> datetime:
    """Return when the finding's last day was over."""
    return datetime.combine(finding.last, time(), UTC) + timedelta(days=1)


# Budgets that are burnt too fast: a month's USD against the USD spent, over two windows. After the
# multi-window burn-rate alerts of Google's SRE Workbook (chapter 5): the long window says that it
# matters, the short one that it still goes on. A budget of money is meant to be spent, so a rate of
# 1 is one that would use it up with the month's end.
KEY = "budget_burn.month_usd"


@dataclass(frozen=True)
class BudgetBurn:
    """State one budget at the newest settled day, in USD gross of credits.

    Spent this month, and USD a day lately.
    """

    scope: Labels
    budget: float
    spent: float
    day: float
    week: float
    through: datetime
    ends: datetime
    month_end: Projection | None = None
    """Where the month ends, as `cost` forecasts it; None with too few days."""

    @property
    def allowed(self) -> float:
        """Return USD a day that would use up the rest with the month's end."""
        return max(0.0, self.budget - self.spent) / ((self.ends - self.through) / DAY)

    @property
    def rates(self) -> tuple[float, float]:
        """Return the burn rates of the newest day and of the slow window.

        1 = used up with the month's end.
        """
        allowed = max(self.allowed, 1e-9)
        return self.day / allowed, self.week / allowed

    @property
    def used_up(self) -> datetime:
        """Return when the budget is used up at the faster pace of the newest day and window."""
        return self.through + (self.budget - self.spent) / max(self.day, self.week) * DAY


def budget_burns(view: View) -> list[BudgetBurn]:
    """Return how fast each budget burns.

    The same until another day has settled, or another month begins.
    """
    budgets = budgets_of(view.policy)
    bill = lay_out(view.reading.frame("spend")) if budgets else None
    if bill is None:
        return []
    days = {scope: int(view.policy.at(scope).number("budget_burn.slow_days")) for scope in budgets}
    burns = (
        burn_of(bill, scope, float(budget), days[scope], view.now)
        for scope, budget in budgets.items()
    )
    return [burn for burn in burns if burn]


def budgets_of(policy: Policy) -> dict[Labels, Decimal]:
    """Return the budgets by scope: the one for everything and the overrides; 0 is none."""
    budgets = [
        (Labels(), policy.values[KEY]),
        *((scope, value) for scope, key, value in policy.overrides if key == KEY),
    ]
    return {
        scope: value
        for scope, value in dict(budgets).items()
        if isinstance(value, Decimal) and value > 0
    }


def burn_of(
    bill: BillLines, scope: Labels, budget: float, slow_days: int, now: datetime
) -> BudgetBurn | None:
    """Return how fast a scope burns its budget of the month of `now`.

    None where too few days have settled.
    """
    rows = [i for i, thing in enumerate(bill.things) if scope.selects(thing)]
    # The month's fees fall on its first day, so that day says nothing of the pace.
    days = [i for i in range(bill.n_steps) if bill.at(i).day != 1]
    if not rows or len(days) < slow_days:
        return None
    parts = np.nan_to_num(bill.parts[rows])
    daily: Numbers = parts.sum(axis=0)
    month = month_of(now)
    spent = sum(float(daily[i]) for i in range(bill.n_steps) if bill.at(i) >= month.start)
    lately = daily[days[-slow_days:]]
    through = max(bill.end, month.start)

    # The month ends with the money spent, and the charges that recur, projected. One of a single
    # day, and of none since, does not recur.
    charged = parts != 0
    first, since = charged.argmax(axis=1), parts.shape[1]
    fees = [
        is_seldom(int(n), since - int(first_day)) and not newest
        for n, first_day, newest in zip(charged.sum(axis=1), first, charged[:, -1], strict=True)
    ]
    recurring = list(parts[~np.array(fees, dtype=bool)].sum(axis=0))
    coming = range(round((month.end - through) / DAY))
    ahead, month_end = project(recurring, coming), None
    if ahead:
        ends = (max(spent, spent + usd) for usd in (ahead.low, ahead.middle, ahead.high))
        month_end = Projection(*ends)
    return BudgetBurn(
        scope,
        budget,
        spent,
        float(lately[-1]),
        float(lately.mean()),
        through,
        month.end,
        month_end,
    )


def budget_anomalies(view: View, burns: Sequence[BudgetBurn]) -> Iterator[Anomaly]:
    """Yield one anomaly for each budget that ends well before its month, or is used up."""
    for burn in burns:
        policy = view.policy.at(burn.scope)
        alerted = (Cause.BUDGET_BURN.value, burn.scope) in view.open
        daily, weekly = burn.rates
        slow = weekly >= policy.number("budget_burn.slow_rate") and daily >= 1
        fast = daily >= policy.number("budget_burn.fast_rate") and weekly >= 1
        # An open alert holds until the slow window fits the budget again.
        too_fast = burn.spent >= burn.budget or slow or fast or (alerted and weekly >= 1)
        if policy.on("budget_burn.on") and too_fast:
            over = rounded(max(0.0, max(burn.day, burn.week) - burn.allowed) / 24)
            subject = Subject(burn.scope, burn.scope, (), view.now, usd_per_hour=over)
            yield anomaly_of(view, Cause.BUDGET_BURN, subject, _budget_words(view, burn))


def _budget_words(view: View, burn: BudgetBurn) -> Explanation:
    gone, pace = burn.spent >= burn.budget, max(burn.day, burn.week)
    daily, weekly = burn.rates
    end = rate = "used up"
    if not gone:
        early = round((burn.ends - burn.used_up) / DAY)
        when = f"about {day(burn.used_up)}, {early} days early"
        end = f"at {usd(pace, 0)} a day used up {when}"
        rate = f"burn rate {daily:.1f} on the newest day, {weekly:.1f} over the slow window"
    name = " ".join(f"{name} {value}" for name, value in burn.scope) or "everything"
    spent = f"{usd(burn.spent, 0)} of {usd(burn.budget, 0)} ({percent(burn.spent / burn.budget)})"
    since = max(0.0, (min(view.now, burn.ends) - burn.through) / DAY) * pace
    evidence = [
        f"newest settled day {usd(burn.day, 0)}, slow window {usd(burn.week, 0)} a day;"
        f" what is left allows {usd(burn.allowed, 0)}",
        rate,
        f"about {usd(since, 0)} more since, which is not billed yet (estimate at that pace)",
    ]
    if month := burn.month_end:
        ends = f"{usd(month.low, 0)} to {usd(month.high, 0)}"
        evidence.append(f"about {usd(month.middle, 0)} by month end ({ends}), fees counted once")
    evidence.append("amortised, before credits and tax: credits never hide what a budget pays for")
    return Explanation(
        why=f"Budget of {name}: {spent} was billed through {day(burn.through - DAY)};"
        f" {'it is used up' if gone else f'{end} (estimate)'}.",
        value=pace,
        unit="USD per day",
        usual=(0.0, burn.allowed),
        **belief("budget_burnt", growth_score(burn.allowed, pace)),
        evidence=tuple(evidence),
        severity=Severity.CRITICAL
        if gone or burn.used_up - view.now < duration("budget.SOON")
        else None,
    )


class BillJudge:
    """Judge the bill.

    Its findings hold until another day or hour settles, so they are remembered until then.
    """

    def __init__(self, policies: int) -> None:
        self._jumps_by_day = Memo[list[Jump]](policies)
        self._usual_by_hour = Memo[dict[Labels, float]](policies)
        self._findings = Memo[list[BillFinding]](policies)
        self._burns = Memo[list[BudgetBurn]](policies)

    def __call__(self, view: View) -> list[Anomaly]:
        """Return the anomalies of money at the tick."""
        spend, spend_hour = view.reading.frame("spend"), view.reading.frame("spend_hour")
        day, hour = _settled_key(spend), _settled_key(spend_hour)
        if not day:
            return with_provider(view, [])
        policy = (view.policy.values, view.policy.overrides)

        # The alerts of the bill that are open or may open again, each with its beginning.
        again = view.now - view.policy.duration("alert.reopen_within")
        alerts_known = tuple(
            sorted(
                (alert.key, alert.anomaly.window.start)
                for alert in view.alerts
                if alert.anomaly.billed and (alert.closed is None or alert.closed > again)
            )
        )
        # Jumps are held against how the nodes were used, whose history may arrive after the bill,
        # and against what is reserved.
        used = (
            source_of(view.whole, view.reading, view.roster),
            view.roster.mute,
            bool(view.reading.inventory.reservations),
        )
        findings = self._findings.get(
            (day, hour, policy, alerts_known, used),
            lambda: self._judged(view, day, (policy, used), dict(alerts_known)),
            spend,
            spend_hour,
        )
        jumped = [x.anomaly(view) for x in findings if not told_before(x, view)]
        key = (day, view.now.year, view.now.month, *policy)
        burns = self._burns.get(key, lambda: budget_burns(view), spend)
        return [*with_provider(view, jumped), *budget_anomalies(view, burns)]

    def _judged(
        self, view: View, day: object, limits: object, began: dict[str, datetime]
    ) -> list[BillFinding]:
        """Return the findings: by days when another has settled, and by the hours since."""
        spend, spend_hour = view.reading.frame("spend"), view.reading.frame("spend_hour")
        days, hours = lay_out(spend), lay_out(spend_hour)
        assert days
        jumps = list(self._jumps_by_day.get((day, limits), lambda: day_jumps(days, view), spend))
        if hours:
            usual = self._usual_by_hour.get(day, lambda: usual_by_hour(days), spend)
            jumps += hour_jumps(hours, days.end, usual, view)
        newest = int(view.policy.number("spend_jump.hours"))
        ledger = Ledger(days, hours, newest, view.policy.number("spend_jump.above"), began)
        jumped = with_ended_plans(view, findings_of(jumps, ledger))
        return [*jumped, *commitment_findings(view, jumped, ledger)]


def _settled_key(frame: Frame | None) -> tuple[object, ...]:
    """Return a key that changes only when another step of the bill has settled.

    A frame by the hour is cut where it has settled: nothing needs to be searched for that.
    """
    if frame and frame.step < DAY:
        return len(frame.things), frame.end
    first, last = settled_steps(frame)
    return (len(frame.things), frame.start + last * frame.step) if frame and last > first else ()
