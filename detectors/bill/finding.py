"""State the findings in a bill: their cost over the usual, and the values that explain it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

import numpy as np

from bot.model.anomaly import Anomaly, BilledExcess, key_of
from bot.model.causes import Cause
from bot.model.labels import Labels
from bot.model.money import usd
from bot.model.reading import SPEND_METRIC
from bot.model.window import clock, day
from detectors.bill.growth import (
    ENOUGH,
    LINE,
    LOOKBACK,
    BillLines,
    Jump,
    Parts,
    RootCause,
    growth_score,
    root_of,
    rounded,
    type_in,
)
from detectors.bill.jumps import ROUTES
from detectors.bill.use import nowcast
from detectors.numbers import DAY, Numbers, number, percent
from detectors.rule import Explanation, Subject, anomaly_of, belief
from detectors.view import View

_TAGS = ("cluster", "team", "project")
_LESS = number("finding.LESS")
JUMP_SUGGESTIONS = {
    Cause.COMMITMENT_UNUSED: Cause.COMMITMENT_UNUSED.facts.suggestions[:1],
    Cause.UNUSED_CAPACITY: ("Launch into the reservation or cancel it.",),
}
"""Steps to try where only growth of the bill is known of a cause that another rule knows better."""


@dataclass(frozen=True)
class Excess:
    """Hold USD over the usual of each step since a finding began."""

    over: Numbers
    calm: Numbers
    """Up to how much it moves by itself, (n_steps,) as `over`."""
    spread: float
    """How far the usual lies apart on other days, in USD a step."""
    through: datetime
    per_day: int
    """How many steps a day has."""
    newest: int
    """How many steps tell whether it goes on."""

    @property
    def lasts(self) -> bool:
        """Return whether the newest steps show it, or it comes and goes.

        An excess that comes by night is not over at noon.
        """
        day, k, n = self.per_day, self.newest, len(self.over)
        if not self._is_calm(n, k):
            return True
        day_before_calm = n >= day + k and self._is_calm(n - day, k)
        return day_before_calm and not self._is_calm(n, day)

    @property
    def usd_per_hour(self) -> float:
        """Return USD an hour of its newest day.

        Of the newest steps where they are of another level, or of the time that it lasted.
        """
        day, k, n = self.per_day, self.newest, len(self.over)
        if not self.lasts:
            out = self.over[self.over > self.calm]
            return max(0.0, float(out.mean())) * day / 24 if len(out) else 0.0
        whole, now = float(self.over[-day:].mean()), float(self.over[-k:].mean())
        before = float(self.over[-day - k : -day].mean()) if n >= day + k else whole
        alike = _LESS * before <= now <= before / _LESS or self._is_calm(n, k)
        return max(0.0, whole if alike else now) * day / 24

    def _is_calm(self, end: int, steps: int) -> bool:
        """Return whether the newest `steps` up to `end` together cost no more than usual."""
        over, calm = self.over[:end], self.calm[:end]
        return bool(over[-steps:].mean() <= calm[-steps:].mean())

    @property
    def billed(self) -> BilledExcess:
        """Return it as an anomaly states it."""
        rate, spread = self.usd_per_hour, self.spread * self.per_day / 24
        usd = Decimal(str(round(max(0.0, float(self.over.sum())), 6)))
        low, high = rounded(max(0.0, rate - spread)), rounded(rate + spread)
        return BilledExcess(self.through, usd, low, high, None if self.lasts else self.through)

    @property
    def rate(self) -> Decimal:
        """Return USD an hour as an anomaly states it."""
        return rounded(self.usd_per_hour)


@dataclass(frozen=True)
class Ledger:
    """Hold the settled days of the bill, and its hours where the export has them."""

    days: BillLines
    hours: BillLines | None
    newest: int
    """How many hours in a row tell that something goes on."""
    above: float
    """Growth over the usual that is none yet, as a share."""
    began: Mapping[str, datetime]
    """When the subjects of the known alerts began, by their keys: dollars count from there."""

    def since(self, cause: Cause, scope: Labels, start: datetime) -> datetime:
        """Return since when the dollars of a finding count."""
        return min(start, self.began.get(key_of(cause.value, scope), start))

    def over_usual(self, jumps: Sequence[Jump], since: datetime) -> Excess:
        """Return the cost of the jumps of one finding over their usual since its first hour."""
        # The hours tell, or the days where the hours do not know every jump.
        bill, rows = self.days, [_things_of(jump, self.days) for jump in jumps]
        if self.hours and all(hourly := [_things_of(jump, self.hours) for jump in jumps]):
            bill, rows = self.hours, hourly
        parts = bill.parts[sorted({row for things in rows for row in things})]
        series = np.nan_to_num(parts.sum(axis=0, dtype=np.float64))

        # The newest jump is added up alone where nothing before the first hour is known.
        first = bill.index(since)
        if first * bill.step < 7 * DAY:
            first = bill.index(min(jump.since for jump in jumps))
        usual, spread = _usual(series, bill, first)

        # Steps that are billed always and not now are late, for a day at most.
        newest = series[first:]
        n, per_day = len(newest), bill.per_day
        last = n - int(np.argmax(newest[::-1] > 0))
        if n - last <= per_day and (usual[last:] > 0).all():
            n = last
        over, calm = (newest - usual)[:n], (self.above * usual + spread)[:n]
        wait = min(self.newest, per_day)
        return Excess(over, calm, spread, bill.at(first + n), per_day, wait)

    def whole(self, line: Labels, since: datetime) -> Excess:
        """Return all that a line cost since a time: a commitment nobody uses has no usual."""
        bill = self.hours if self.hours and line in self.hours.lines else self.days
        rows = [i for i, name in enumerate(bill.lines) if name == line]
        newest = bill.values[rows, bill.index(since) :]
        series = np.nan_to_num(newest.sum(axis=0, dtype=np.float64))
        calm, wait = np.zeros(len(series)), min(self.newest, bill.per_day)
        return Excess(series, calm, float(np.std(series)), bill.end, bill.per_day, wait)


def _things_of(jump: Jump, bill: BillLines) -> list[int]:
    """Return the rows of the things that a jump is about: those of its line, where it grew.

    Hours of an instance type count whatever they are bought as: an instance that was spot and is
    now on demand costs the difference.
    """
    kind = type_in(jump.where.usage_type)
    if not jump.where.usage_type and jump.parts:
        parts = jump.things
        return [i for i, thing in enumerate(bill.things) if thing in parts]
    where = jump.where.only(("account", "region") if kind else LINE)
    place = Labels.shared(jump.growing).only(_TAGS)
    return [
        i
        for i, thing in enumerate(bill.things)
        if where.selects(thing) and place.selects(thing) and thing.cluster not in jump.by_use
        if not kind or type_in(thing.usage_type) == kind
    ]


def _usual(series: Numbers, bill: BillLines, first: int) -> tuple[Numbers, float]:
    """Return the usual USD of each step since `first`, and its spread.

    By the same steps of like days of the two weeks before: working days are alike, and so are
    weekends, where at least two of them are known.
    """
    day, n = bill.per_day, len(series)
    days = min(LOOKBACK, first // day)
    if not days:
        return np.zeros(n - first), 0.0
    before = series[first - days * day : first].reshape(days, day)
    began = bill.at(first - days * day)
    into_day = (began - began.replace(hour=0, minute=0)) // bill.step
    week = began.weekday() * day + into_day + np.arange(n - first + days * day)
    weekend = (week // day % 7 >= 5).astype(np.intp)
    past, step = weekend[: days * day].reshape(days, day), np.arange(n - first) % day

    # The median of the days that are alike at each step of a day, of all where fewer than two are.
    levels = []
    for kind in (0, 1):
        alike = (past == kind) | ((past == kind).sum(axis=0) < 2)
        levels.append(np.nanmedian(np.where(alike, before, np.nan), axis=0))
    low, high = np.quantile(before.sum(axis=1), (0.1, 0.9))
    return np.stack(levels)[weekend[days * day :], step], float(high - low) / 2 / day


@dataclass(frozen=True)
class BillFinding:
    """Hold a finding in the settled bill.

    Made once for each settled step, an anomaly at every tick until the next.
    """

    cause: Cause
    subject: Subject
    explanation: Explanation

    def anomaly(self, view: View) -> Anomaly:
        """Return its anomaly at the tick."""
        subject = replace(self.subject, billed=nowcast(view, self.subject))
        return anomaly_of(view, self.cause, subject, self.explanation)


def told_before(finding: BillFinding, view: View) -> bool:
    """Return whether the late bill only repeats an alert about the reservation itself.

    That alert is open, or ended since.
    """
    where, start = finding.subject.labels, finding.subject.start
    return finding.cause is Cause.UNUSED_CAPACITY and any(
        alert.anomaly.scope.resource
        and alert.anomaly.labels.region in ("", where.region)
        and where.usage_type.endswith(f":{alert.anomaly.labels.instance_type}")
        and (alert.closed or view.now) >= start
        for alert in view.alerts
    )


def findings_of(jumps: Sequence[Jump], ledger: Ledger) -> list[BillFinding]:
    """Return one finding per cause and place among the jumps.

    A line that jumped by the day and by the hour is one.
    """
    groups: dict[tuple[Cause, Labels], dict[Labels, Jump]] = {}
    for jump in jumps:
        # All lines of a service jump as one; a nearer cause is of a line.
        names = ["account", "region", "service", "cluster", "team", "project"]
        if jump.cause is not Cause.SPEND_JUMP:
            names.append("usage_type")
        members = groups.setdefault((jump.cause, jump.where.only(names)), {})
        day = members.get(jump.where, jump)
        members[jump.where] = replace(day, since=min(day.since, jump.since))

    findings = []
    for (cause, scope), members in sorted(groups.items(), key=lambda x: (x[0][0], str(x[0][1]))):
        ranked = sorted(members.values(), key=lambda j: (-j.extra, j.where.usage_type))
        root = root_of(tuple(part for jump in ranked for part in _by_day(jump)))
        labels = root.labels if root else Labels()
        # The instance type where all of it is hours of one.
        types = {type_in(jump.where.usage_type) for jump in ranked}
        if len(types) == 1:
            labels = replace(labels, instance_type=types.pop())
        labels = labels.merge(Labels.shared(jump.where for jump in ranked))

        usages = tuple(jump.where.usage_type for jump in ranked if jump.where.usage_type)
        usages = usages or (scope.service or str(scope),)
        start = min(jump.since for jump in ranked)
        excess = ledger.over_usual(ranked, ledger.since(cause, scope, start))
        subject = Subject(
            scope, labels, usages, start, usd_per_hour=excess.rate, billed=excess.billed
        )
        explanation = _explanation(cause, scope, ranked, usages, root)
        if cause is Cause.COMMITMENT_UNUSED:
            gone = _usage_gone(ledger.days, start, ranked[0].extra)
            explanation = replace(explanation, why=explanation.why + gone)
        elif cause is Cause.SPEND_JUMP:
            gone = _replaced(ledger.days, start, ranked)
            explanation = replace(explanation, why=explanation.why + gone)
        findings.append(BillFinding(cause, subject, explanation))
    return findings


def _level(days: BillLines, since: datetime) -> Numbers:
    """Return the usual USD a day of each thing of the bill before a time, shape (n,)."""
    before = days.parts[:, : days.index(since)][:, -LOOKBACK:]
    if not before.shape[1]:
        return np.zeros(len(days.things))
    return np.asarray(np.median(np.nan_to_num(before), axis=1))


def _replaced(days: BillLines, since: datetime, jumps: Sequence[Jump]) -> str:
    """State the instances of the jumps' type that went as others grew, "" where none did.

    The dollars of an instance that was spot and is now on demand are the difference: without this
    they would not fit what it cost.
    """
    usual = _level(days, since)
    less = usual - np.nan_to_num(days.parts[:, -1])
    grown = {thing for jump in jumps for thing in jump.growing}
    gone = [
        row
        for row in {row for jump in jumps for row in _things_of(jump, days)}
        if type_in(days.things[row].usage_type) and days.things[row] not in grown
        if round(float(less[row])) > 0 and less[row] >= ENOUGH * usual[row]
    ]
    if not gone:
        return ""
    most = max(gone, key=lambda row: float(less[row]))
    fell = usd(float(less[most]), 0)
    return f" {_place(days.things[most])} costs {fell} a day less: only the difference counts."


def _usage_gone(days: BillLines, since: datetime, lost: float) -> str:
    """State which instances cost as much less a day than before as is `lost`, "" where none do."""
    less = _level(days, since) - np.nan_to_num(days.parts[:, -1])
    less *= [bool(type_in(thing.usage_type)) for thing in days.things]
    nearest = int(np.abs(less - lost).argmin())
    if not ENOUGH * lost <= less[nearest] <= lost / ENOUGH:
        return ""
    return f" {_place(days.things[nearest])} costs {usd(float(less[nearest]), 0)} a day less."


def _place(thing: Labels) -> str:
    """Return the usage type of a thing of the bill, where it is, and its tags."""
    tags = ", ".join(f"{tag} {word}" for tag, word in thing.only(_TAGS))
    place = f"{thing.usage_type or thing.service} {thing.region}".strip()
    return f"{place} ({tags})" if tags else place


def _by_day(jump: Jump) -> Parts:
    factor = DAY / jump.step
    return tuple((thing, now * factor, usual * factor) for thing, now, usual in jump.parts)


def _explanation(
    cause: Cause,
    scope: Labels,
    jumps: Sequence[Jump],
    usages: tuple[str, ...],
    root: RootCause | None,
) -> Explanation:
    days = [jump for jump in jumps if jump.step == DAY] or list(jumps)
    by_day = days[0].step == DAY
    value, low, high = (sum(x) for x in zip(*((j.value, j.low, j.high) for j in days), strict=True))

    place = " ".join(f"{name} {value}" for name, value in scope)
    name = scope.service or place[:1].upper() + place[1:] or "The bill"
    subject = name
    if len(usages) > 1:
        subject = f"{name} ({len(usages)} usage types)"
    elif usages[0] not in (name, str(scope)):
        subject = f"{name} ({usages[0]})"
    if cause is Cause.COMMITMENT_UNUSED:
        subject = f"The unused part of {subject}"

    usual, growth = "usually nothing" if cause is Cause.SPEND_JUMP else "never billed before", ""
    if high * (DAY / days[0].step) >= 0.5:
        digits = 0 if high >= 10 else 2
        ends = dict.fromkeys((f"{low:,.{digits}f}", f"{high:,.{digits}f}"))
        usual = f"usually ${'-'.join(ends)} {'a day' if by_day else 'an hour'}"
    if high >= 0.5:
        times = value / high
        growth = f", {times:,.0f} times as much"
        if times < 10:
            growth = f", {percent(times - 1)} more"

    start, end = min(jump.since for jump in days), max(jump.until for jump in days)
    if by_day:
        cost = f"{usd(value, 0)} on {day(end - timedelta(days=1))}"
    else:
        until = f"{end:%H:%M}" if end - start < DAY else clock(end)
        cost = f"{usd(value, 2)} an hour from {clock(start)} to {until} UTC"
    # The root cause is said where it is more than the one thing that jumped.
    explained = f" {root}." if root and sum(len(jump.parts) for jump in jumps) > 1 else ""

    # The things that grew most, with whole USD a day more: usage type, place, tags.
    parts = (part for jump in jumps for part in _by_day(jump) if round(part[1] - part[2]) > 0)
    most = sorted(parts, key=lambda part: part[2] - part[1])[:5]
    evidence = [
        f"{_place(thing)}: {usd(now - before, 0)} a day more" for thing, now, before in most
    ]
    evidence += [
        f"cluster {cluster} grew by its busy nodes, which is not counted"
        for cluster in sorted({cluster for jump in jumps for cluster in jump.by_use})
    ]
    suggestions = JUMP_SUGGESTIONS.get(cause)
    if cause is Cause.TRANSFER_ROUTE:
        routes = zip(ROUTES, cause.facts.suggestions, strict=True)
        suggestions = tuple(
            advice for route, advice in routes if re.search(route, "\n".join(usages), re.I)
        )
    return Explanation(
        why=f"{subject} cost {cost}, {usual}{growth}.{explained}",
        value=value,
        unit="USD per day" if by_day else "USD per hour",
        usual=(low, high),
        **belief("line_grew", growth_score(high, value)),
        evidence=tuple(evidence),
        suggestions=suggestions,
        metric=SPEND_METRIC,
        kind="spend" if by_day else "spend_hour",
    )
