"""Find budgets that are burnt too fast: a month's USD against the USD spent, over two windows.

After the multi-window burn-rate alerts of Google's SRE Workbook (chapter 5): the long window says
that it matters, the short one that it still goes on. A budget of money is meant to be spent, so a
rate of 1 is one that would use it up with the month's end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

import numpy as np

from bot.model.anomaly import Anomaly
from bot.model.causes import Cause, Severity
from bot.model.labels import Labels
from bot.model.money import usd
from bot.model.policy import Policy
from bot.model.projection import Projection, is_seldom, project
from bot.model.window import month_of
from detectors.arrays import Numbers
from detectors.bill.growth import BillLines, growth_score, lay_out, rounded
from detectors.numbers import DAY, duration, percent
from detectors.rule import Explanation, Subject, anomaly_of, belief
from detectors.view import View

KEY = "budget_burn.month_usd"
_SOON = duration("budget.SOON")


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
        return max(0.0, self.budget - self.spent) / max((self.ends - self.through) / DAY, 1e-9)

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
        days = (self.budget - self.spent) / max(self.day, self.week, 1e-9)
        return self.through + min(days, 3660.0) * DAY


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
    ahead, month_end = project(recurring, round((month.end - through) / DAY)), None
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
        day, week = burn.rates
        slow = week >= policy.number("budget_burn.slow_rate") and day >= 1
        fast = day >= policy.number("budget_burn.fast_rate") and week >= 1
        # An open alert holds until the slow window fits the budget again.
        too_fast = burn.spent >= burn.budget or slow or fast or (alerted and week >= 1)
        if policy.on("budget_burn.on") and too_fast:
            over = rounded(max(0.0, max(burn.day, burn.week) - burn.allowed) / 24)
            subject = Subject(burn.scope, burn.scope, (), view.now, usd_per_hour=over)
            yield anomaly_of(view, Cause.BUDGET_BURN, subject, _explanation(view, burn))


def _explanation(view: View, burn: BudgetBurn) -> Explanation:
    gone, pace = burn.spent >= burn.budget, max(burn.day, burn.week)
    day, week = burn.rates
    end = rate = "used up"
    if not gone:
        early = round((burn.ends - burn.used_up) / DAY)
        when = f"about {burn.used_up:%Y-%m-%d}, {early} days early"
        end = f"at {usd(pace, 0)} a day used up {when}"
        rate = f"burn rate {day:.1f} on the newest day, {week:.1f} over the slow window"
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
        span = f"{usd(month.low, 0)} to {usd(month.high, 0)}"
        evidence.append(f"about {usd(month.middle, 0)} by month end ({span}), fees counted once")
    evidence.append("amortised, before credits and tax: credits never hide what a budget pays for")
    return Explanation(
        why=f"Budget of {name}: {spent} was billed through {burn.through - DAY:%Y-%m-%d};"
        f" {'it is used up' if gone else end} (estimate).",
        value=pace,
        unit="USD per day",
        usual=(0.0, burn.allowed),
        **belief("budget_burnt", growth_score(burn.allowed, pace)),
        evidence=tuple(evidence),
        severity=Severity.CRITICAL if gone or burn.used_up - view.now < _SOON else None,
    )
