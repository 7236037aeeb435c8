"""Find jumps of the bill: lines that left their usual by the settled day, and places whose many small growths add up."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from bot.model.causes import Cause
from bot.model.labels import Labels
from bot.model.policy import Policy
from detectors.arrays import Numbers
from detectors.bill.explain import RootCause, explain
from detectors.bill.lines import DAY, LEAST_DAYS, BillLines
from detectors.usual import utilization_of
from detectors.view import View

DEAREST = 2.5
"""More hours are bought on demand while the usual ones may lie under a plan at up to 60 % off: so much dearer may each be."""
HOURS = re.compile(r"(?:BoxUsage|SpotUsage|DedicatedUsage):([\w.-]+)")
_ROUTE = re.compile(r"NatGateway-Bytes|DataTransfer-Regional|DataTransfer-xAZ|AWS-Out-Bytes|DataTransfer-Out", re.IGNORECASE)
_FEE = re.compile(r"Savings ?Plan|^(?:\w+-)?(?:EC2SP|ComputeSP):|HeavyUsage", re.IGNORECASE)
_EMPTY = re.compile(r"Unused(?:Box|Ded)", re.IGNORECASE)
_SCOPES = ("cluster", "team", "region", "account")
_PLACES = (("account", "region", "service"), ("account", "service"), ("cluster",), ("team",), ("project",), ("account",))
"""Places whose growths are added up, the narrowest first."""


@dataclass(frozen=True)
class Jump:
    """State a line or place that left its usual: USD a step of the newest such step(s), since when, and the parts that grew."""

    where: Labels
    """A line of the bill, or a wider place whose small growths add up."""
    cause: Cause
    since: datetime
    until: datetime
    value: float
    low: float
    high: float
    step: timedelta
    parts: tuple[tuple[Labels, float, float], ...]
    """The tagged things it is made of, each with USD a step now and usually."""

    @property
    def extra(self) -> float:
        """Return USD a day over the usual."""
        return max(0.0, self.value - (self.low + self.high) / 2) * (DAY / self.step)

    @property
    def root(self) -> RootCause | None:
        """Return the few dimension values that explain it; None where it is one thing anyway."""
        return root_of(self.parts)


def root_of(parts: tuple[tuple[Labels, float, float], ...]) -> RootCause | None:
    """Return the root cause of the growth of (thing, now, usually) parts."""
    things = [thing for thing, _, _ in parts]
    return explain(things, np.array([now for _, now, _ in parts]), np.array([usual for _, _, usual in parts]))


def day_jumps(bill: BillLines, view: View) -> list[Jump]:
    """Return the lines whose newest settled day costs more than usual by share and by USD, and the places around them."""
    last = bill.n_steps - 1
    last -= bill.at(last).day == 1  # fees fall on the first of a month: the day before stands
    if last < LEAST_DAYS:
        return []
    judged = [one for row in range(len(bill.lines)) if (one := _judge(bill, row, last, view))]
    return [jump for _, jump, anomalous in judged if anomalous] + _wide(bill, [row for row, _, _ in judged], last, view)


def policy_of(bill: BillLines, row: int, view: View) -> Policy:
    """Return the policy of a line: that of the tags which all of it shares."""
    if not view.policy.overrides:
        return view.policy
    return view.policy.at(Labels.shared(bill.things[i] for i in np.flatnonzero(bill.line_of == row)).only(_SCOPES))


def _judge(bill: BillLines, row: int, last: int, view: View) -> tuple[int, Jump, bool] | None:
    """Return a line that is out of its usual, and whether that is an anomaly."""
    policy, series = policy_of(bill, row, view), bill.values[row]
    share, least = policy.number("spend_jump.above"), policy.number("spend_jump.least")
    first = None if np.isnan(series[last]) else _onset(series, last, share, least)
    if first is None:
        return None
    low, high = usual_day(series, first)
    cause = cause_of(bill.lines[row], new=not (np.nan_to_num(series[:first]) > 0.01).any())
    parts = _parts(bill, [int(i) for i in np.flatnonzero(bill.line_of == row)], first, last)
    jump = Jump(bill.lines[row], cause, bill.at(first), bill.at(last + 1), float(series[last]), low, high, bill.step, parts)
    anomalous = allowed(jump, policy, view, first) and not (_moved(bill, jump, first, last, view) or used(jump, view))
    return row, jump, anomalous


def allowed(jump: Jump, policy: Policy, view: View, before: int) -> bool:
    """Tell whether the policy wants to hear of it; `before` = settled days before its first."""
    if jump.cause is Cause.UNUSED_CAPACITY and view.reading.inventory.reservations:
        return False
    if jump.cause is Cause.SPEND_NEW and (before < LEAST_DAYS or jump.extra < policy.number("spend_new.least")):
        return False
    return policy.on(f"{jump.cause}.on")


def cause_of(labels: Labels, *, new: bool) -> Cause:
    """Return the cause that the growth of a line stands for: a fee that grows is commitment that usage no longer covers."""
    if _ROUTE.search(labels.usage_type):
        return Cause.TRANSFER_ROUTE
    if _FEE.search(labels.usage_type) or _FEE.search(labels.service):
        return Cause.COMMITMENT_UNUSED
    if _EMPTY.search(labels.usage_type):
        return Cause.UNUSED_CAPACITY
    return Cause.SPEND_NEW if new else Cause.SPEND_JUMP


def is_fee(labels: Labels) -> bool:
    """Tell whether a line is the fee of a commitment."""
    return cause_of(labels, new=False) is Cause.COMMITMENT_UNUSED


def _onset(series: Numbers, last: int, share: float, least: float) -> int | None:
    """Return the first of the newest days in a row that are out of the usual of before them; None when the last is not."""
    first = None
    for day in range(last, max(LEAST_DAYS, last - 10) - 1, -1):
        _, high = usual_day(series, day)
        limit = max(high * (1 + share), high + least)
        if not series[last] > limit or not series[day] > limit:
            break
        first = day
    return first


def usual_day(series: Numbers, day: int) -> tuple[float, float]:
    """Return the usual range of a day in USD: the median of the two weeks before, widened by the same weekdays before."""
    before = series[max(0, day - 14) : day]
    billed = before[~np.isnan(before)]
    if not len(billed):
        return 0.0, 0.0
    middle = float(np.median(billed))
    weekdays = series[day - 7 :: -7][:4] if day >= 7 else series[:0]
    same = weekdays[~np.isnan(weekdays)]
    high = max(middle, float(np.median(same)) if len(same) else 0.0, float(np.quantile(billed, 0.8)))
    low = min(middle, float(np.median(same)) if len(same) else middle)
    return low, high


def _parts(bill: BillLines, rows: list[int], first: int, last: int) -> tuple[tuple[Labels, float, float], ...]:
    before = bill.parts[rows, max(0, first - 14) : first]
    usual = np.nanmedian(before, axis=1) if before.size and not np.isnan(before).all() else np.zeros(len(rows))
    now = bill.parts[rows, last]
    return tuple(
        (bill.things[i], float(n), float(u)) for i, n, u in zip(rows, np.nan_to_num(now), np.nan_to_num(usual), strict=True)
    )


def _moved(bill: BillLines, jump: Jump, first: int, last: int, view: View) -> bool:
    """Tell whether the whole service in the account did not grow by as much: the money only changed its line."""
    line = jump.where
    same = [i for i, x in enumerate(bill.lines) if (x.account, x.service) == (line.account, line.service)]
    lines = bill.values[same]
    total = np.where(np.isnan(lines).all(axis=0), np.nan, np.nansum(lines, axis=0))
    _, high = usual_day(total, first)
    return bool(total[last] - high < max(0.5 * (jump.value - jump.high), view.policy.number("spend_jump.least")))


def used(jump: Jump, view: View) -> bool:
    """Tell whether more busy nodes of the type explain the growth: a scale-up that is used is no anomaly."""
    match = HOURS.search(jump.where.usage_type)
    if not match or jump.cause is Cause.TRANSFER_ROUTE:
        return False
    nodes = Labels(instance_type=match[1], region=jump.where.region)
    newest = DAY if jump.step == DAY else jump.until - jump.since
    now = busy_hours(view, nodes, jump.until - newest, jump.until)
    before = _before(view, nodes, jump.since, newest)
    if np.isnan(now) or np.isnan(before):
        return False
    hours_a_step = jump.step / newest
    extra_hours, rate = (now - before) * hours_a_step, jump.high / max(before * hours_a_step, 1e-9)
    return bool(extra_hours > 0 and jump.value - jump.high <= DEAREST * rate * extra_hours)


def _before(view: View, nodes: Labels, since: datetime, span: timedelta) -> float:
    """Return the usual busy node-hours of as long a span on the seven days before; nan where nobody knows."""
    days = [busy_hours(view, nodes, since - d * DAY, since - d * DAY + span) for d in range(1, 8)]
    measured = [hours for hours in days if not np.isnan(hours)]
    return float(np.median(measured)) if measured else float("nan")


def busy_hours(view: View, nodes: Labels, start: datetime, end: datetime) -> float:
    """Return the node-hours that the named nodes were used within the span; nan where the frame does not reach back so far.

    A node that worked for half of what was seen of it was used all along, its start included. One that does not say where it
    is counts as there; of another type it never is.
    """
    whole = view.whole
    rows = [i for i, x in enumerate(view.roster.labels) if _there(nodes, x)]
    part = whole.until(end).since(start)
    if not rows or part.n_steps < 0.8 * ((end - start) / whole.step):
        return float("nan")
    level = utilization_of(part.pick(rows))
    busy = (level > view.number("idle.below")[rows][:, None]).sum(axis=1)
    seen = (~np.isnan(level)).sum(axis=1)
    return float(np.where(2 * busy >= seen, seen, busy).sum() * (whole.step / timedelta(hours=1)))


def _there(nodes: Labels, node: Labels) -> bool:
    return all(node.get(name) in ((value,) if name == "instance_type" else (value, "")) for name, value in nodes)


def _wide(bill: BillLines, judged: list[int], last: int, view: View) -> list[Jump]:
    """Return the services, tags and accounts that jumped although none of their lines did: many small growths add up.

    The narrowest place that holds most of a growth tells it; what grew with busier nodes of the place is their use.
    """
    rest = [i for i, line in enumerate(bill.line_of) if int(line) not in judged and not is_fee(bill.things[i])]
    jumps: list[Jump] = []
    for names in _PLACES:
        places: dict[tuple[str, ...], list[int]] = {}
        for i in rest:
            places.setdefault(tuple(bill.things[i].get(name) for name in names), []).append(i)
        for values, rows in places.items():
            if all(values) and len(rows) > 1 and not any(_covered(one, bill, rows) for one in jumps):
                one = _add_up(bill, Labels(**dict(zip(names, values, strict=True))), rows, last, view)
                jumps += [one] if one else []
    return jumps


def _covered(one: Jump, bill: BillLines, rows: list[int]) -> bool:
    """Return whether most of a place's things stand in a jump already."""
    things = {thing for thing, _, _ in one.parts}
    return 2 * sum(bill.things[i] in things for i in rows) >= len(things)


def _add_up(bill: BillLines, where: Labels, rows: list[int], last: int, view: View) -> Jump | None:
    policy = view.policy.at(where.only(_SCOPES))
    share, least = policy.number("spend_jump.above"), policy.number("spend_jump.least")
    series = bill.parts[rows].sum(axis=0)
    first = None if np.isnan(series[last]) or not policy.on("spend_jump.on") else _onset(series, last, share, least)
    if first is None:
        return None
    low, high = usual_day(series, first)
    jump = Jump(
        where, Cause.SPEND_JUMP, bill.at(first), bill.at(last + 1), float(series[last]), low, high, bill.step,
        _parts(bill, rows, first, last),
    )  # fmt: skip
    return None if _grew_with_use(jump, view) else jump


def _grew_with_use(jump: Jump, view: View) -> bool:
    """Tell whether the busy nodes of the place grew by as much: storage, requests and transfer follow them."""
    nodes = Labels.shared(thing for thing, _, _ in jump.parts).only(_SCOPES)
    now, before = busy_hours(view, nodes, jump.until - DAY, jump.until), _before(view, nodes, jump.since, DAY)
    return bool(before > 0 and now > before and jump.value <= jump.high * max(1.0, now / before) * 1.3)
