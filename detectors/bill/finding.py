"""State the findings in a bill: what they cost over the usual, and the few values that explain it."""

from __future__ import annotations

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
from detectors.arrays import Mask, Numbers
from detectors.bill.growth import DAY, HOUR, HOURS, LINE, BillLines, Jump, RootCause, root_of
from detectors.bill.use import nowcast
from detectors.rule import Explanation, Subject, anomaly_of
from detectors.view import View
from detectors.words import percent

_LOOKBACK = 14
"""Days before its first hour that say what is usual."""
_LESS = 0.5
"""Share of the same hours of the day before under which the newest are of another level."""


@dataclass(frozen=True)
class Excess:
    """Hold USD over the usual of each step since a finding began, and up to how much it moves by itself, each (n_steps,)."""

    over: Numbers
    calm: Numbers
    spread: float
    """How far the usual lies apart on other days, in USD a step."""
    through: datetime
    per_day: int
    """How many steps a day has."""
    newest: int = 1
    """How many steps tell whether it goes on."""

    @property
    def lasts(self) -> bool:
        """Return whether the newest steps show it, or it comes and goes.

        What comes by night is not over at noon.
        """
        day, k, n = self.per_day, self.newest, len(self.over)
        if not self._calm(n - k, n):
            return True
        return n >= day + k and self._calm(n - day - k, n - day) and not self._calm(n - day, n)

    @property
    def usd_per_hour(self) -> float:
        """Return USD an hour of its newest day, of the newest steps where they are of another level, or while it lasted."""
        day, k = self.per_day, self.newest
        if not self.lasts:
            return (
                max(0.0, float(self.over[self.over > self.calm].mean())) * day / 24
                if self._told
                else 0.0
            )
        whole, now = float(self.over[-day:].mean()), float(self.over[-k:].mean())
        before = float(self.over[-day - k : -day].mean()) if len(self.over) >= day + k else whole
        alike = _LESS * before <= now <= before / _LESS or self._calm(
            len(self.over) - k, len(self.over)
        )
        return max(0.0, whole if alike else now) * day / 24

    @property
    def _told(self) -> bool:
        return bool((self.over > self.calm).any())

    def _calm(self, start: int, end: int) -> bool:
        """Return whether some steps together cost no more than usual."""
        start = max(0, start)
        return bool(self.over[start:end].mean() <= self.calm[start:end].mean())

    @property
    def billed(self) -> BilledExcess:
        """Return it as an anomaly states it."""
        rate, spread = self.usd_per_hour, self.spread * self.per_day / 24
        usd = Decimal(str(round(max(0.0, float(self.over.sum())), 6)))
        until = None if self.lasts else self.through
        return BilledExcess(
            self.through, usd, _rate(max(0.0, rate - spread)), _rate(rate + spread), until
        )

    @property
    def rate(self) -> Decimal:
        """Return USD an hour as an anomaly states it."""
        return _rate(self.usd_per_hour)


def _rate(usd: float) -> Decimal:
    return Decimal(str(round(usd, 4)))


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
    """When what the known alerts are about began, by their keys: their dollars count from there."""

    def since(self, cause: Cause, scope: Labels, start: datetime) -> datetime:
        """Return since when the dollars of a finding count."""
        return min(start, self.began.get(key_of(cause.value, scope), start))

    def over_usual(self, jumps: Sequence[Jump], since: datetime) -> Excess:
        """Return what jumps of one finding cost over their usual since its first hour."""
        began = min(jump.since for jump in jumps)
        bill, rows = self._series(jumps)
        first = _first(bill, min(since, began), began)
        series = np.nan_to_num(bill.parts[rows].sum(axis=0, dtype=np.float64))
        usual, spread = _usual(series, bill, first)
        n = _arrived(series[first:], usual, DAY // bill.step)
        over, calm = (series[first:] - usual)[:n], (self.above * usual + spread)[:n]
        return Excess(
            over,
            calm,
            spread,
            bill.at(first + n),
            DAY // bill.step,
            self.newest if bill.step == HOUR else 1,
        )

    def _series(self, jumps: Sequence[Jump]) -> tuple[BillLines, list[int]]:
        """Return the hours, or the days where the hours do not know every jump, and the things there that they are about."""
        if self.hours and all(rows := [_things_of(jump, self.hours) for jump in jumps]):
            return self.hours, sorted({row for some in rows for row in some})
        return self.days, sorted({row for jump in jumps for row in _things_of(jump, self.days)})

    def whole(self, line: Labels, since: datetime) -> Excess:
        """Return all that a line cost since a time: what nobody uses has no usual."""
        bill = self.hours if self.hours and line in self.hours.lines else self.days
        rows = [i for i, known in enumerate(bill.lines) if known == line]
        first = min(max(0, (since - bill.start) // bill.step), bill.n_steps - 1)
        series = np.nan_to_num(bill.values[rows, first:].sum(axis=0, dtype=np.float64))
        calm, newest = np.zeros(len(series)), self.newest if bill.step == HOUR else 1
        return Excess(series, calm, float(np.std(series)), bill.end, DAY // bill.step, newest)


def _arrived(series: Numbers, usual: Numbers, per_day: int) -> int:
    """Return how many steps have arrived.

    What is billed in every hour and not in the newest ones is late, for a day at most.
    """
    n = len(series)
    last = n - int(np.argmax(series[::-1] > 0)) if (series > 0).any() else n
    return last if n - last <= per_day and (usual[last:] > 0).all() else n


def _first(bill: BillLines, since: datetime, began: datetime) -> int:
    """Return the first step to add up.

    That of `since`, or of the newest jump where nothing before the former is known.
    """
    first = (since - bill.start) // bill.step
    first = first if first * bill.step >= 7 * DAY else (began - bill.start) // bill.step
    return int(min(max(0, first), bill.n_steps - 1))


def _things_of(jump: Jump, bill: BillLines) -> list[int]:
    """Return the rows of the things that a jump is about."""
    subject = _Subject.of(jump)
    return [i for i, thing in enumerate(bill.things) if subject.holds(thing)]


@dataclass(frozen=True)
class _Subject:
    """Say which things a jump is about: those of its line, in the place that grew.

    Hours of an instance type count whatever they are bought as: what was spot and is now on demand
    costs the difference.
    """

    where: Labels
    place: Labels
    instance_type: str
    parts: frozenset[Labels]

    @staticmethod
    def of(jump: Jump) -> _Subject:
        match = HOURS.search(jump.where.usage_type)
        place = Labels.shared(jump.growing).only(("cluster", "team", "project"))
        where = jump.where.only(("account", "region") if match else LINE)
        wide = (
            frozenset() if jump.where.usage_type else frozenset(thing for thing, _, _ in jump.parts)
        )
        return _Subject(where, place, match[1] if match else "", wide)

    def holds(self, thing: Labels) -> bool:
        """Return whether a thing belongs to it."""
        if self.parts:
            return thing in self.parts
        if not (self.where.selects(thing) and self.place.selects(thing)):
            return False
        match = HOURS.search(thing.usage_type) if self.instance_type else None
        return not self.instance_type or bool(match and match[1] == self.instance_type)


def _usual(series: Numbers, bill: BillLines, first: int) -> tuple[Numbers, float]:
    """Return the usual USD of each step since `first`, by the same steps of like days of the two weeks before, and its spread.

    Working days are alike, and so are weekends, where at least two of them are known.
    """
    day, n = DAY // bill.step, len(series)
    days = min(_LOOKBACK, first // day)
    if not days:
        return np.zeros(n - first), 0.0
    before = series[first - days * day : first].reshape(days, day)
    began = bill.at(first - days * day)
    week = (
        began.weekday() * day
        + (began - began.replace(hour=0, minute=0)) // bill.step
        + np.arange(n - first + days * day)
    )
    weekend = (week // day % 7 >= 5).astype(np.intp)
    past, at = weekend[: days * day].reshape(days, day), np.arange(n - first) % day
    levels = np.stack([_like_days(before, past == kind) for kind in (0, 1)])
    usual = levels[weekend[days * day :], at]
    low, high = np.quantile(before.sum(axis=1), (0.1, 0.9))
    return usual, float(high - low) / 2 / day


def _like_days(before: Numbers, alike: Mask) -> Numbers:
    """Return the median of the days that are alike at each step of a day, of all where fewer than two are, (n_steps,)."""
    alike = alike | (alike.sum(axis=0) < 2)
    n, ranked = alike.sum(axis=0), np.sort(np.where(alike, before, np.inf), axis=0)
    middle = np.stack([(n - 1) // 2, n // 2])
    return np.asarray(np.take_along_axis(ranked, middle, axis=0).mean(axis=0))


JUMP_SUGGESTIONS = {
    Cause.COMMITMENT_UNUSED: Cause.COMMITMENT_UNUSED.facts.suggestions[:1],
    Cause.UNUSED_CAPACITY: ("Launch into the reservation or cancel it.",),
}
"""Steps to try where growth of the bill is all that is known of a cause that another rule knows better."""


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
    """Return whether the late bill only repeats what an alert about the reservation itself told, open or ended since."""
    where, start = finding.subject.labels, finding.subject.start
    return finding.cause is Cause.UNUSED_CAPACITY and any(
        one.cause is Cause.UNUSED_CAPACITY
        and one.anomaly.labels.resource
        and one.anomaly.labels.region in ("", where.region)
        and where.usage_type.endswith(f":{one.anomaly.labels.instance_type}")
        and (one.closed or view.now) >= start
        for one in view.alerts
    )


def findings_of(jumps: Sequence[Jump], ledger: Ledger) -> list[BillFinding]:
    """Return one finding per cause and place among the jumps.

    A line that jumped by the day and by the hour is one.
    """
    groups: dict[tuple[Cause, Labels], dict[Labels, Jump]] = {}
    for jump in jumps:
        members = groups.setdefault((jump.cause, scope_of_jump(jump)), {})
        members[jump.where] = (
            _together(members[jump.where], jump) if jump.where in members else jump
        )
    ranked = sorted(groups.items(), key=lambda x: (x[0][0], str(x[0][1])))
    return [
        _finding(cause, scope, list(members.values()), ledger) for (cause, scope), members in ranked
    ]


def scope_of_jump(jump: Jump) -> Labels:
    """Return the identity of a jump's alert.

    The line, for a plain jump all lines of the service, or the wider place.
    """
    names = ("account", "region", "service", "cluster", "team", "project")
    return jump.where.only(names if jump.cause is Cause.SPEND_JUMP else (*names, "usage_type"))


def _together(day: Jump, later: Jump) -> Jump:
    """Return the day's jump with the hours' since and until."""
    return replace(day, since=min(day.since, later.since), until=max(day.until, later.until))


def _finding(cause: Cause, scope: Labels, jumps: list[Jump], ledger: Ledger) -> BillFinding:
    jumps = sorted(jumps, key=lambda j: (-j.extra, j.where.usage_type))
    root = root_of(tuple(part for jump in jumps for part in _by_day(jump)))
    usages = tuple(j.where.usage_type for j in jumps if j.where.usage_type) or (
        scope.service or str(scope),
    )
    labels = Labels.shared(j.where for j in jumps)
    labels = _typed(root.labels if root else Labels(), jumps).merge(labels)
    start = min(j.since for j in jumps)
    excess = ledger.over_usual(jumps, ledger.since(cause, scope, start))
    subject = Subject(scope, labels, usages, start, usd_per_hour=excess.rate, billed=excess.billed)
    return BillFinding(cause, subject, _explanation(cause, scope, jumps, usages, root))


def _by_day(jump: Jump) -> list[tuple[Labels, float, float]]:
    factor = DAY / jump.step
    return [(thing, now * factor, usual * factor) for thing, now, usual in jump.parts]


def _typed(labels: Labels, jumps: Sequence[Jump]) -> Labels:
    """Add the instance type where all of it is hours of one."""
    types = {match[1] if (match := HOURS.search(j.where.usage_type)) else "" for j in jumps}
    return replace(labels, instance_type=types.pop()) if len(types) == 1 else labels


def _explanation(
    cause: Cause,
    scope: Labels,
    jumps: Sequence[Jump],
    usages: tuple[str, ...],
    root: RootCause | None,
) -> Explanation:
    days = [j for j in jumps if j.step == DAY] or list(jumps)
    value, low, high = (sum(x) for x in zip(*((j.value, j.low, j.high) for j in days), strict=True))
    per = "a day" if days[0].step == DAY else "an hour"
    name = scope.service or " ".join(f"{name} {value}" for name, value in scope) or "The bill"
    subject = (
        f"{name} ({usages[0]})"
        if len(usages) == 1 and usages[0] not in (name, str(scope))
        else name
    )
    subject = f"{name} ({len(usages)} usage types)" if len(usages) > 1 else subject
    usual = (
        f"usually {_range(low, high)} {per}"
        if high * (DAY / days[0].step) >= 0.5
        else "never billed before"
    )
    growth = _more(value / high) if high >= 0.5 else ""
    return Explanation(
        why=f"{subject} cost {_when(days, value)}, {usual}{growth}.{_explained(root, jumps)}",
        value=value,
        unit="USD per day" if per == "a day" else "USD per hour",
        usual=(low, high),
        score=float(np.clip(1 - high / max(value, 1e-9), 0.3, 1.0)),
        evidence=_evidence(jumps, usages),
        confidence=0.8,
        suggestions=JUMP_SUGGESTIONS.get(cause),
        metric=SPEND_METRIC,
        kind="spend" if per == "a day" else "spend_hour",
    )


def _more(times: float) -> str:
    return f", {percent(times - 1)} more" if times < 10 else f", {times:,.0f} times as much"


def _explained(root: RootCause | None, jumps: Sequence[Jump]) -> str:
    """Say the root cause, where it is more than the one thing that jumped."""
    return f" {root}." if root and sum(len(j.parts) for j in jumps) > 1 else ""


def _when(jumps: Sequence[Jump], value: float) -> str:
    end = max(j.until for j in jumps)
    if jumps[0].step == DAY:
        return f"{usd(value, 0)} on {end - timedelta(days=1):%Y-%m-%d}"
    start = min(j.since for j in jumps)
    until = f"{end:%H:%M}" if end - start < DAY else f"{end:%Y-%m-%d %H:%M}"
    return f"{usd(value, 2)} an hour from {start:%Y-%m-%d %H:%M} to {until} UTC"


def _range(low: float, high: float) -> str:
    digits = 0 if high >= 10 else 2
    ends = dict.fromkeys((f"{low:,.{digits}f}", f"{high:,.{digits}f}"))
    return f"${'-'.join(ends)}"


def _evidence(jumps: Sequence[Jump], usages: tuple[str, ...]) -> tuple[str, ...]:
    """Name the things that grew most, with USD a day more: usage type, place, tags."""
    grown = sorted((p for j in jumps for p in _by_day(j) if p[1] > p[2]), key=lambda p: p[2] - p[1])
    return (
        tuple(
            f"{_thing(thing)}: {usd(now - usual, 0)} a day more" for thing, now, usual in grown[:5]
        )
        or usages[:5]
    )


def _thing(thing: Labels) -> str:
    tags = ", ".join(
        f"{name} {value}" for name, value in thing.only(("cluster", "team", "project"))
    )
    return f"{thing.usage_type or thing.service} {thing.region}".strip() + (
        f" ({tags})" if tags else ""
    )
