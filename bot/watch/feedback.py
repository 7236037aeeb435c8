"""Learn from judgements of people, and count the waste that stopped because somebody acted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from bot.model.alert import Alert, Decision, DecisionKind, Pattern, Silence
from bot.model.anomaly import Anomaly
from bot.model.labels import Labels
from bot.model.money import MILLIONTH, cents
from bot.model.window import Window, month_of
from bot.policy.schema import SETTINGS, SettingUnit

_SPREAD = 0.5
"""How far from the judged level the pattern still holds, as a share of it; our own."""
_LEAST_RATIO = 0.05
"""A ratio near zero has no share of itself to spread: what does nothing does nothing."""
_DEARER = Decimal("1.5")
"""How much dearer an hour may be than the judged one and still be the same.

What costs more speaks again.
"""
JUDGED = 3
"""Judgements of a rule before anything is suggested."""
_SOFTER = ("for", "above", "least", "hours", "factor", "shallow_for")


@dataclass(frozen=True)
class RuleScore:
    """State how people judged the alerts of one rule.

    `suggestion` is the line that would make it speak less, where it is mostly wrong.
    """

    rule: str
    useful: int
    wrong: int
    suggestion: str = ""

    @property
    def precision(self) -> float:
        """Return the share of its judged alerts that were useful."""
        return self.useful / max(1, self.useful + self.wrong)


def pattern_of(alert: Alert) -> Pattern:
    """Return the pattern of an alert that was no anomaly.

    Rule, place, level, and the cost of an hour.
    """
    anomaly = alert.anomaly
    low = high = None
    # A length of time grows, and money is bounded by its cost.
    if anomaly.unit != "seconds" and not anomaly.kind.startswith("spend"):
        margin = max(abs(anomaly.value) * _SPREAD, _LEAST_RATIO if anomaly.unit == "ratio" else 0.0)
        low, high = anomaly.value - margin, anomaly.value + margin
    dearest = cents(alert.waste.per_hour * _DEARER) if alert.waste else None
    return Pattern(anomaly.rule, _place(anomaly), anomaly.unit, low, high, dearest)


def fits(pattern: Pattern, alert: Alert) -> bool:
    """Return whether an alert is of the pattern: same rule and place, at its level, no dearer."""
    anomaly = alert.anomaly
    if (anomaly.rule, _place(anomaly)) != (pattern.rule, pattern.scope):
        return False
    low, high = pattern.low, pattern.high
    if (
        low is not None
        and high is not None
        and not (anomaly.unit == pattern.unit and low <= anomaly.value <= high)
    ):
        return False
    dearest = pattern.usd_per_hour
    return dearest is None or alert.waste is None or alert.waste.per_hour <= dearest


def _place(anomaly: Anomaly) -> Labels:
    """Return where an anomaly is; which of a cluster's jobs met it first is no place."""
    return replace(anomaly.scope, job="") if anomaly.cause.facts.of_job else anomaly.scope


def patterns(silences: Iterable[Silence], alert: Alert, now: datetime) -> list[Silence]:
    """Return the remembered patterns that hold for the alert now."""
    return [
        silence
        for silence in silences
        if silence.pattern
        and silence.ended_at is None
        and silence.starts <= now < silence.ends
        and fits(silence.pattern, alert)
    ]


def scores(
    judged: Sequence[tuple[Alert, Decision]], values: Mapping[str, object]
) -> list[RuleScore]:
    """Return the score of every judged rule, worst first.

    Of several judgements of one opening the last counts.
    """
    by_time = sorted(judged, key=lambda judgement: judgement[1].at)
    last = {alert.id: (alert, decision.doing) for alert, decision in by_time}
    rules: dict[str, tuple[list[Alert], list[Alert]]] = {}
    for alert, doing in last.values():
        if doing is not DecisionKind.UNJUDGED:
            judgements = rules.setdefault(alert.anomaly.rule, ([], []))
            judgements[doing is DecisionKind.NOT_AN_ANOMALY].append(alert)

    scored = []
    for rule, (useful, wrong) in rules.items():
        mostly_wrong = len(useful) + len(wrong) >= JUDGED and len(wrong) > len(useful)
        suggestion = _suggestion(rule, wrong, values) if mostly_wrong else ""
        scored.append(RuleScore(rule, len(useful), len(wrong), suggestion))
    return sorted(scored, key=lambda score: (score.precision, -score.wrong, score.rule))


def _suggestion(rule: str, wrong: Sequence[Alert], values: Mapping[str, object]) -> str:
    """Return the line that previews a rule that speaks later, or of more.

    Only where it was wrong, when that is one cluster.
    """
    keys = [f"{rule}.{name}" for name in _SOFTER if f"{rule}.{name}" in SETTINGS]
    if not keys:
        return f"config {rule}"
    setting, value = SETTINGS[keys[0]], values[keys[0]]
    doubled: timedelta | float
    if isinstance(value, timedelta):
        doubled = min(2 * value, timedelta(seconds=setting.high))
    else:
        assert isinstance(value, int | float), setting.key
        doubled = min(2 * float(value), setting.high)
        if setting.unit is SettingUnit.RATIO and doubled >= 1 > value:
            doubled = (1 + float(value)) / 2

    clusters = {alert.anomaly.labels.cluster for alert in wrong}
    scoped = setting.scoped and len(clusters) == 1 and all(clusters)
    where = f" cluster={clusters.pop()}" if scoped else ""
    return f"config set {setting.key} {setting.show(doubled)}{where}"


@dataclass(frozen=True)
class Saving:
    """State one alert that ended after somebody acted."""

    alert: Alert
    by: str
    """Who acknowledged it, "" where nobody did and its things are gone."""
    usd_per_hour: Decimal
    usd_so_far: Decimal
    """What it would have wasted since it was last seen, until now or the end of that UTC month."""
    committed_usd_per_hour: Decimal
    """What is billed all the same: a commitment's part."""


def savings(alerts: Sequence[Alert], running: Set[str], now: datetime) -> list[Saving]:
    """Return the savings among `alerts`, dearest an hour first.

    `running` are the ids of the instances that run at `now`.

    Counts an alert that ended and cost something, and that was acknowledged before, or notified of
    and lost all its nodes.
    """
    saved = []
    for alert in alerts:
        if not (alert.closed and alert.ended and alert.waste and alert.waste.per_hour > 0):
            continue
        things, ack = alert.anomaly.things, alert.acknowledged
        acted = ack is not None and ack.at <= alert.closed
        gone = things and alert.anomaly.kind == "node" and running.isdisjoint(things)
        if not acted and (alert.muted_by or not gone):
            continue
        until = min(now, month_of(alert.ended).end)
        hours = max(Decimal(0), Decimal(str((until - alert.ended).total_seconds())) / 3600)
        so_far = (alert.waste.per_hour * hours).quantize(MILLIONTH)
        by, committed = ack.who if ack and acted else "", alert.waste.committed_per_hour
        saved.append(Saving(alert, by, alert.waste.per_hour, so_far, committed))
    return sorted(saved, key=lambda saving: saving.usd_per_hour, reverse=True)


def saved_within(
    alerts: Sequence[Alert], window: Window, running: Set[str], now: datetime
) -> list[Saving]:
    """Return the savings among the alerts that ended in the window, up to `now`.

    One that ended in the very instant of its start is of the window before.
    """
    ended = [
        alert
        for alert in alerts
        if alert.closed and window.start < alert.closed <= min(window.end, now)
    ]
    return savings(ended, running, now)
