"""Take in what the provider itself says: its findings and utilization are evidence of ours, or alerts where we are silent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal

import numpy as np

from bot.model.anomaly import Anomaly, Cause, Severity
from bot.model.labels import Labels
from bot.model.outlook import Commitment, Finding
from bot.model.reading import SPEND_METRIC
from detectors.rule import Explanation, anomaly_of_things
from detectors.view import View
from detectors.words import percent

_MONEY = (Cause.SPEND_JUMP, Cause.SPEND_NEW, Cause.TRANSFER_ROUTE)
_LASTS = timedelta(days=3)
"""A finding whose last day is older than this is over: the provider needs up to two days to see a day."""
_SUGGESTION = "Open `cost 14d by usage_type` for this service; compare with what was launched on its first day."


def with_findings(view: View, told: Sequence[Anomaly]) -> list[Anomaly]:
    """Return the anomalies of money with the provider's findings: evidence of one that is told, else one of their own."""
    current = [x for x in view.reading.findings if not x.dismissed and view.now - _end(x) < _LASTS]
    made: list[Anomaly] = list(told)
    for finding in sorted(current, key=lambda x: (-x.impact, x.id)):
        known = next((i for i, one in enumerate(made) if _same(one, finding)), None)
        if known is not None:
            made[known] = replace(made[known], evidence=_added(made[known].evidence, _evidence(finding)))
        else:
            made += _own(view, finding)
    return [_with_use(one, view.reading.commitments) for one in made]


def _same(one: Anomaly, finding: Finding) -> bool:
    """Tell whether an anomaly is about what a finding is about: no root cause that contradicts it, and days that meet."""
    if one.cause not in _MONEY:
        return False
    place = one.labels.merge(one.scope).only(("account", "region", "service"))
    agree = any(_agrees(place, cause) and cause.service in (place.service, "") for cause in finding.causes)
    return agree and one.window.start < _end(finding) + timedelta(days=1) and one.window.end > _start(finding)


def _agrees(one: Labels, other: Labels) -> bool:
    said = dict(other)
    return all(said.get(name, value) == value for name, value in one)


def _own(view: View, finding: Finding) -> Iterator[Anomaly]:
    """Yield an alert of a finding that ours did not see, in the identity that ours would have."""
    cause = finding.causes[0]
    scope = cause.only(("account", "region", "service"))
    policy = view.policy.at(cause.only(("region", "account")))
    daily = finding.impact / finding.days
    if not policy.on("spend_jump.on") or daily < Decimal(str(policy.number("spend_jump.least"))):
        return
    usual = float(finding.expected / finding.days)
    value = float(finding.actual / finding.days)
    words = Explanation(
        why=f"{cause.service or 'The bill'} cost ${value:,.0f} a day since {finding.first}, ${usual:,.0f} expected: "
        "found by AWS Cost Anomaly Detection, not by our own rules.",
        value=value,
        unit="USD per day",
        usual=(usual, usual),
        score=float(np.clip(1 - usual / max(value, 1e-9), 0.3, 1.0)),
        evidence=(_evidence(finding), *(f"root cause: {one}" for one in finding.causes[:4])),
        confidence=0.7,
        suggestions=(_SUGGESTION,),
        metric=SPEND_METRIC,
        kind="spend",
        severity=Severity.WARNING,
    )
    things = tuple(dict.fromkeys(one.usage_type or one.service for one in finding.causes if one.usage_type or one.service))
    hourly = (daily / 24).quantize(Decimal("0.0001"))
    labels = Labels.shared(finding.causes)
    yield anomaly_of_things(view, Cause.SPEND_JUMP, scope, labels, things or (finding.id,), _start(finding), words, (), hourly)


def _evidence(finding: Finding) -> str:
    span = f"since {finding.first}" if finding.days > 1 else f"on {finding.first}"
    return f"AWS Cost Anomaly Detection found it too: ${finding.impact:,.0f} over the expected {span}"


def _with_use(one: Anomaly, known: Sequence[Commitment]) -> Anomaly:
    """Add to an under-used commitment what the provider says of its use."""
    days = [x for x in known if x.committed]
    if one.cause is not Cause.COMMITMENT_UNUSED or not days:
        return one
    last = max(days, key=lambda x: x.day)
    covered = f"; they cover {percent(float(last.coverage))} of what they could" if last.coverage is not None else ""
    said = f"AWS says: {percent(float(last.utilization))} of {last.plan} used on {last.day}, ${last.unused:,.0f} unused{covered}"
    return replace(one, evidence=_added(one.evidence, said))


def _added(evidence: tuple[str, ...], said: str) -> tuple[str, ...]:
    return evidence if said in evidence else (*evidence, said)


def _start(finding: Finding) -> datetime:
    return datetime.combine(finding.first, time(), UTC)


def _end(finding: Finding) -> datetime:
    """Return when the finding's last day was over."""
    return datetime.combine(finding.last, time(), UTC) + timedelta(days=1)
