"""Judge the bill by whole, settled days: services that jump, usage that is new, transfer that takes a costly route."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from bot.model.anomaly import Anomaly, Cause, Severity
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import SPEND_METRIC
from detectors.rules.found import Words, thing_anomaly
from detectors.usual import utilization_of
from detectors.view import View
from detectors.words import percent

Numbers = npt.NDArray[np.float64]

DAY = timedelta(days=1)
LEAST_DAYS = 7
"""Settled days before the bill is judged at all."""
_ROUTE = re.compile(r"NatGateway-Bytes|DataTransfer-Regional|DataTransfer-xAZ|AWS-Out-Bytes|DataTransfer-Out", re.IGNORECASE)
_FEE = re.compile(r"SavingsPlan|^(?:\w+-)?(?:EC2SP|ComputeSP):|HeavyUsage", re.IGNORECASE)
_EMPTY = re.compile(r"Unused(?:Box|Ded)", re.IGNORECASE)
_HOURS = re.compile(r"(?:BoxUsage|SpotUsage|DedicatedUsage):([\w.-]+)")
DEAREST = 2.5
"""More hours are bought on demand while the usual ones may lie under a plan at up to 60 % off: so much dearer may each be."""
_SUGGESTIONS = {
    Cause.SPEND_JUMP: ("Open `cost 7d by usage_type` for this service; compare with what was launched that day.",),
    Cause.SPEND_NEW: ("Ask the owner whether this usage is meant; `cost 7d by resource` names what it is.",),
    Cause.COMMITMENT_UNUSED: ("Move nodes that run on demand under the plan, or let it run out instead of renewing it.",),
    Cause.UNUSED_CAPACITY: ("Launch into the reservation or cancel it.",),
    Cause.TRANSFER_ROUTE: (
        "Send S3 traffic through a gateway endpoint instead of the NAT gateway: it is free of charge.",
        "Keep the nodes of a job, their data and their file system in one zone and region.",
    ),
}


@dataclass(frozen=True)
class Jump:
    """State one line of the bill that left its usual: indices of the settled day and of the first such day, USD a day."""

    row: int
    first: int
    value: float
    low: float
    high: float
    cause: Cause


def find(view: View, found: Sequence[Jump]) -> Iterator[Anomaly]:
    """Yield one anomaly per cause, account, region and service among the jumps of the newest settled day."""
    frame = view.reading.frame("spend")
    if frame is None:
        return
    groups: dict[tuple[Cause, Labels], list[Jump]] = {}
    for jump in found:
        scope = _scope(frame.things[jump.row], jump.cause)
        groups.setdefault((jump.cause, scope), []).append(jump)
    for (cause, scope), members in sorted(groups.items(), key=lambda x: (x[0][0], str(x[0][1]))):
        yield _anomaly(view, frame, cause, scope, members)


def settled_key(frame: Frame | None) -> tuple[object, ...]:
    """Return what changes only when another day of the bill has settled: the judgement holds until then."""
    if frame is None or not frame.has(SPEND_METRIC) or not frame.n_steps:
        return ()
    values = frame.of(SPEND_METRIC)
    settled = np.flatnonzero(~np.isnan(values).all(axis=0))
    return (len(frame.things), frame.start + int(settled[-1]) * frame.step) if len(settled) else ()


def jumps(frame: Frame, view: View) -> list[Jump]:
    """Return the lines whose newest settled day costs more than usual by share and by USD, judged per service and per line."""
    values = np.asarray(frame.of(SPEND_METRIC), dtype=np.float64)
    settled = np.flatnonzero(~np.isnan(values).all(axis=0))
    if len(settled) <= LEAST_DAYS:
        return []
    values = values[:, settled[0] : settled[-1] + 1]
    first_day = frame.start + int(settled[0]) * frame.step
    found = [_judge(values, row, first_day, frame, view) for row in range(len(values))]
    kept = [jump for jump in found if jump is not None]
    return [
        jump for jump in kept if not _moved_within_service(values, frame, jump, view) and not _used(values, frame, jump, view)
    ]


def _judge(values: Numbers, row: int, first_day: datetime, frame: Frame, view: View) -> Jump | None:
    series = values[row]
    policy = view.policy.at(frame.things[row].only(("cluster", "team", "region", "account")))
    share, least = policy.number("spend_jump.above"), policy.number("spend_jump.least")
    last = len(series) - 1
    if np.isnan(series[last]) or (first_day + last * DAY).day == 1:
        return None
    first = _onset(series, last, share, least)
    if first is None:
        return None
    low, high = usual_day(series, first)
    before = series[:first]
    new = not (np.nan_to_num(before) > 0.01).any()
    cause = _cause(frame.things[row], new)
    if cause is Cause.UNUSED_CAPACITY and view.reading.inventory.reservations:
        return None
    if cause is Cause.SPEND_NEW and (first < LEAST_DAYS or series[last] < policy.number("spend_new.least")):
        return None
    return Jump(row, first, float(series[last]), low, high, cause) if policy.on(f"{cause}.on") else None


def _cause(labels: Labels, new: bool) -> Cause:
    """Return what growth of a line means: a fee that grows is commitment that usage no longer covers."""
    if _ROUTE.search(labels.usage_type):
        return Cause.TRANSFER_ROUTE
    if _FEE.search(labels.usage_type) or _FEE.search(labels.service):
        return Cause.COMMITMENT_UNUSED
    if _EMPTY.search(labels.usage_type):
        return Cause.UNUSED_CAPACITY
    return Cause.SPEND_NEW if new else Cause.SPEND_JUMP


def _onset(series: Numbers, last: int, share: float, least: float) -> int | None:
    """Return the first of the newest days in a row that are out of the usual of before them; None when the last is not."""
    first = None
    for day in range(last, max(LEAST_DAYS, last - 10) - 1, -1):
        _, high = usual_day(series, day)
        if not series[last] > max(high * (1 + share), high + least) or not series[day] > max(high * (1 + share), high + least):
            break
        first = day
    return first


def usual_day(series: Numbers, day: int) -> tuple[float, float]:
    """Return the usual range of a day in USD: the median of the two weeks before, widened by the same weekdays before."""
    before = series[max(0, day - 14) : day]
    known = before[~np.isnan(before)]
    if not len(known):
        return 0.0, 0.0
    middle = float(np.median(known))
    weekdays = series[day - 7 :: -7][:4] if day >= 7 else series[:0]
    same = weekdays[~np.isnan(weekdays)]
    high = max(middle, float(np.median(same)) if len(same) else 0.0, float(np.quantile(known, 0.8)))
    low = min(middle, float(np.median(same)) if len(same) else middle)
    return low, high


def _moved_within_service(values: Numbers, frame: Frame, jump: Jump, view: View) -> bool:
    """Tell whether the whole service in the account did not grow by as much: the money only changed its line."""
    mine = frame.things[jump.row]
    same = [i for i, x in enumerate(frame.things) if (x.account, x.service) == (mine.account, mine.service)]
    rows = values[same]
    total = np.where(np.isnan(rows).all(axis=0), np.nan, np.nansum(rows, axis=0))
    _, high = usual_day(total, jump.first)
    least = view.policy.number("spend_jump.least")
    return bool(total[-1] - high < max(0.5 * (jump.value - jump.high), least))


def _used(values: Numbers, frame: Frame, jump: Jump, view: View) -> bool:
    """Tell whether more busy nodes of the type explain the growth: a scale-up that is used is no anomaly."""
    match = _HOURS.search(frame.things[jump.row].usage_type)
    if not match or jump.cause is Cause.TRANSFER_ROUTE:
        return False
    end = frame.start + frame.n_steps * frame.step
    last = end - (frame.n_steps - _newest(frame)) * DAY
    region = frame.things[jump.row].region
    now = busy_hours(view, match[1], region, last - DAY, last)
    start = last - (values.shape[1] - jump.first) * DAY
    before = np.array([busy_hours(view, match[1], region, start - (d + 1) * DAY, start - d * DAY) for d in range(7)])
    before = before[~np.isnan(before)]
    if np.isnan(now) or not len(before):
        return False
    usual = float(np.median(before))
    extra_hours, rate = now - usual, jump.high / max(usual, 1e-9)
    return extra_hours > 0 and jump.value - jump.high <= DEAREST * rate * extra_hours


def _newest(frame: Frame) -> int:
    """Return the index after the newest settled day."""
    settled = np.flatnonzero(~np.isnan(frame.of(SPEND_METRIC)).all(axis=0))
    return int(settled[-1]) + 1


def busy_hours(view: View, instance_type: str, region: str, start: datetime, end: datetime) -> float:
    """Return the node-hours that nodes of a type worked within the span; nan where the frame does not reach back so far."""
    whole = view.whole
    rows = [i for i, x in enumerate(view.roster.labels) if x.instance_type == instance_type and x.region in (region, "")]
    part = whole.until(end).since(start)
    if not rows or part.n_steps < 0.8 * ((end - start) / whole.step):
        return float("nan")
    level = utilization_of(part.pick(rows))
    return float((level > view.number("idle.below")[rows][:, None]).sum() * (whole.step / timedelta(hours=1)))


def _scope(labels: Labels, cause: Cause) -> Labels:
    names = ("account", "region", "service", "usage_type") if cause is not Cause.SPEND_JUMP else ("account", "region", "service")
    return labels.only(names)


def _anomaly(view: View, frame: Frame, cause: Cause, scope: Labels, found: list[Jump]) -> Anomaly:
    found = sorted(found, key=lambda j: (-(j.value - j.high), frame.things[j.row].usage_type))
    value, low, high = (sum(x) for x in zip(*((j.value, j.low, j.high) for j in found), strict=True))
    first = min(j.first for j in found)
    settled = np.flatnonzero(~np.isnan(frame.of(SPEND_METRIC)).all(axis=0))
    start = frame.start + (int(settled[0]) + first) * DAY
    day = frame.start + int(settled[-1]) * DAY
    extra = max(0.0, value - (low + high) / 2)
    usages = tuple(frame.things[j.row].usage_type or scope.service for j in found)
    labels = Labels.shared(frame.things[j.row] for j in found)
    return thing_anomaly(
        view, cause, scope, labels, usages, start, _words(cause, labels, value, low, high, day, usages), (), _hourly(extra)
    )


def _hourly(extra: float) -> Decimal:
    return (Decimal(str(round(extra, 2))) / 24).quantize(Decimal("0.0001"))


def _words(cause: Cause, labels: Labels, value: float, low: float, high: float, day: datetime, usages: tuple[str, ...]) -> Words:
    name = labels.service or "The bill"
    usual = f"usually ${low:,.0f}-{high:,.0f} a day" if high >= 0.5 else "never billed before"
    what = f"{name} ({usages[0]})" if len(usages) == 1 else f"{name} ({len(usages)} usage types)"
    growth = f", {percent(value / high - 1)} more" if high >= 0.5 else ""
    return Words(
        why=f"{what} cost ${value:,.0f} on {day:%Y-%m-%d}, {usual}{growth}.",
        value=value,
        unit="USD per day",
        usual=(low, high),
        score=float(np.clip(1 - high / max(value, 1e-9), 0.3, 1.0)),
        evidence=usages[:5],
        confidence=0.8,
        suggestions=_SUGGESTIONS[cause],
        metric=SPEND_METRIC,
        kind="spend",
        severity=Severity.WARNING,
    )
