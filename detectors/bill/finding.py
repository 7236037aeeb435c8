"""State the findings in a bill, and explain its jumps.

The cost, the usual cost, the few values that hold most of the growth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np

from bot.model.anomaly import Anomaly
from bot.model.causes import Cause
from bot.model.labels import Labels
from bot.model.money import usd
from bot.model.reading import SPEND_METRIC
from detectors.bill.excess import Ledger
from detectors.bill.explain import RootCause
from detectors.bill.growth import HOURS, Jump, root_of
from detectors.bill.lines import DAY
from detectors.bill.nowcast import nowcast
from detectors.rule import Explanation, Subject, anomaly_of
from detectors.view import View
from detectors.words import percent

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
    """Tell whether the late bill only repeats what an alert about the reservation itself told, open or ended since."""
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
