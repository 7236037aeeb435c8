"""Tell what jumped on the bill: what it cost, what is usual, which few values explain it, and what it may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

import numpy as np

from bot.model.anomaly import Anomaly, Cause, Severity
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import SPEND_METRIC
from detectors.bill.explain import RootCause
from detectors.bill.hourly import SettledDays, hour_jumps
from detectors.bill.jump import HOURS, Jump, day_jumps, root_of
from detectors.bill.lines import DAY, lay_out, settled_steps
from detectors.rule import Explanation, anomaly_of_things
from detectors.view import View
from detectors.words import percent

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


def stories(found: Sequence[Jump]) -> list[BillFinding]:
    """Return one story per cause and place among the jumps: a line that jumped by the day and by the hour is one."""
    groups: dict[tuple[Cause, Labels], dict[Labels, Jump]] = {}
    for jump in found:
        members = groups.setdefault((jump.cause, scope_of_jump(jump)), {})
        members[jump.where] = _together(members[jump.where], jump) if jump.where in members else jump
    ranked = sorted(groups.items(), key=lambda x: (x[0][0], str(x[0][1])))
    return [_story(cause, scope, list(some.values())) for (cause, scope), some in ranked]


def settled_key(frame: Frame | None) -> tuple[object, ...]:
    """Return what changes only when another step of the bill has settled: the judgement holds until then.

    A frame by the hour is cut where it has settled: nothing needs to be searched for that.
    """
    if frame and frame.step < DAY:
        return len(frame.things), frame.end
    first, last = settled_steps(frame)
    return (len(frame.things), frame.start + last * frame.step) if frame and last > first else ()


def by_day(view: View) -> list[Jump]:
    """Return what jumped by the newest settled day."""
    bill = lay_out(frame) if (frame := view.reading.frame("spend")) else None
    return day_jumps(bill, view) if bill else []


def settled(view: View) -> SettledDays | None:
    """Return what the settled days say of every hour since."""
    days = lay_out(frame) if (frame := view.reading.frame("spend")) else None
    return SettledDays.of(days) if days else None


def by_hour(view: View, days: SettledDays | None) -> list[Jump]:
    """Return what jumped in the hours since the newest settled day."""
    hours = lay_out(frame) if (frame := view.reading.frame("spend_hour")) else None
    return hour_jumps(hours, days, view) if hours and days else []


def scope_of_jump(jump: Jump) -> Labels:
    """Return the identity of a jump's alert: the line, for a plain jump all lines of the service, or the wider place."""
    names = ("account", "region", "service", "cluster", "team", "project")
    return jump.where.only(names if jump.cause is Cause.SPEND_JUMP else (*names, "usage_type"))


def _together(day: Jump, later: Jump) -> Jump:
    """Return the day's jump with the hours' since and until."""
    return replace(day, since=min(day.since, later.since), until=max(day.until, later.until))


def _story(cause: Cause, scope: Labels, found: list[Jump]) -> BillFinding:
    found = sorted(found, key=lambda j: (-j.extra, j.where.usage_type))
    root = root_of(tuple(part for jump in found for part in _by_day(jump)))
    usages = tuple(j.where.usage_type for j in found if j.where.usage_type) or (scope.service or str(scope),)
    labels = Labels.shared(j.where for j in found)
    labels = _typed(root.labels if root else Labels(), found).merge(labels)
    extra = sum(j.extra for j in found)
    words = _words(cause, scope, found, usages, root)
    return BillFinding(cause, scope, labels, usages, min(j.since for j in found), words, _hourly(extra))


def _by_day(jump: Jump) -> list[tuple[Labels, float, float]]:
    factor = DAY / jump.step
    return [(thing, now * factor, usual * factor) for thing, now, usual in jump.parts]


def _typed(labels: Labels, found: Sequence[Jump]) -> Labels:
    """Add the instance type where all of it is hours of one."""
    types = {match[1] if (match := HOURS.search(j.where.usage_type)) else "" for j in found}
    return replace(labels, instance_type=types.pop()) if len(types) == 1 else labels


def _hourly(extra: float) -> Decimal:
    return (Decimal(str(round(extra, 2))) / 24).quantize(Decimal("0.0001"))


def _words(cause: Cause, scope: Labels, found: Sequence[Jump], usages: tuple[str, ...], root: RootCause | None) -> Explanation:
    days = [j for j in found if j.step == DAY] or list(found)
    value, low, high = (sum(x) for x in zip(*((j.value, j.low, j.high) for j in days), strict=True))
    per = "a day" if days[0].step == DAY else "an hour"
    name = scope.service or " ".join(f"{name} {value}" for name, value in scope) or "The bill"
    what = f"{name} ({usages[0]})" if len(usages) == 1 and usages[0] not in (name, str(scope)) else name
    what = f"{name} ({len(usages)} usage types)" if len(usages) > 1 else what
    usual = f"usually {_range(low, high)} {per}" if high * (DAY / days[0].step) >= 0.5 else "never billed before"
    growth = _more(value / high) if high >= 0.5 else ""
    return Explanation(
        why=f"{what} cost {_when(days, value)}, {usual}{growth}.{_explained(root, found)}",
        value=value,
        unit="USD per day" if per == "a day" else "USD per hour",
        usual=(low, high),
        score=float(np.clip(1 - high / max(value, 1e-9), 0.3, 1.0)),
        evidence=_evidence(found, usages),
        confidence=0.8,
        suggestions=_SUGGESTIONS[cause],
        metric=SPEND_METRIC,
        kind="spend" if per == "a day" else "spend_hour",
        severity=Severity.WARNING,
    )


def _more(times: float) -> str:
    return f", {percent(times - 1)} more" if times < 10 else f", {times:,.0f} times as much"


def _explained(root: RootCause | None, found: Sequence[Jump]) -> str:
    """Say the root cause, where it is more than the one thing that jumped."""
    return f" {root}." if root and sum(len(j.parts) for j in found) > 1 else ""


def _when(found: Sequence[Jump], value: float) -> str:
    end = max(j.until for j in found)
    if found[0].step == DAY:
        return f"${value:,.0f} on {end - timedelta(days=1):%Y-%m-%d}"
    start = min(j.since for j in found)
    until = f"{end:%H:%M}" if end - start < DAY else f"{end:%Y-%m-%d %H:%M}"
    return f"${value:,.2f} an hour from {start:%Y-%m-%d %H:%M} to {until} UTC"


def _range(low: float, high: float) -> str:
    digits = 0 if high >= 10 else 2
    ends = dict.fromkeys((f"{low:,.{digits}f}", f"{high:,.{digits}f}"))
    return f"${'-'.join(ends)}"


def _evidence(found: Sequence[Jump], usages: tuple[str, ...]) -> tuple[str, ...]:
    """Name what grew most, with USD a day more: usage type, place, tags."""
    grown = sorted((p for j in found for p in _by_day(j) if p[1] > p[2]), key=lambda p: p[2] - p[1])
    return tuple(f"{_thing(thing)}: ${now - usual:,.0f} a day more" for thing, now, usual in grown[:5]) or usages[:5]


def _thing(thing: Labels) -> str:
    tags = ", ".join(f"{name} {value}" for name, value in thing.only(("cluster", "team", "project")))
    return f"{thing.usage_type or thing.service} {thing.region}".strip() + (f" ({tags})" if tags else "")


@dataclass(frozen=True)
class BillFinding:
    """Hold what a settled bill says of one place: made once for each settled step, told at every tick."""

    cause: Cause
    scope: Labels
    labels: Labels
    things: tuple[str, ...]
    start: datetime
    words: Explanation
    usd_per_hour: Decimal

    def told(self, view: View) -> Anomaly:
        """Return its anomaly at the tick."""
        return anomaly_of_things(
            view, self.cause, self.scope, self.labels, self.things, self.start, self.words, (), self.usd_per_hour
        )
