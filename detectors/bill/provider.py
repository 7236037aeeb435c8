"""Take in the provider's own findings and utilization.

Evidence of our anomalies, or anomalies where we found none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal

import numpy as np

from bot.model.anomaly import Anomaly, BilledExcess
from bot.model.causes import Cause
from bot.model.labels import Labels
from bot.model.money import usd
from bot.model.spend import Commitment, Finding
from detectors.rule import Explanation, Subject, anomaly_of
from detectors.view import View
from detectors.words import percent

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
