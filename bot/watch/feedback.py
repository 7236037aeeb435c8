"""Learn from judgements of people, and count the waste that stopped because somebody acted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from bot.model.alert import Alert, Decision, DecisionKind, Pattern, Silence
from bot.model.anomaly import Anomaly
from bot.model.labels import Labels
from bot.model.money import cents
from bot.model.window import Window, month_of
from bot.policy.schema import SETTINGS, Setting, SettingUnit

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
    """State how people judged the alerts of one rule, and the line that would make it speak less where it is mostly wrong."""

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
    if anomaly.unit != "seconds" and not anomaly.kind.startswith(
        "spend"
    ):  # a length of time grows, money is bounded below
        margin = max(abs(anomaly.value) * _SPREAD, _LEAST_RATIO if anomaly.unit == "ratio" else 0.0)
        low, high = anomaly.value - margin, anomaly.value + margin
    dearest = cents(alert.waste.per_hour * _DEARER) if alert.waste else None
    return Pattern(anomaly.rule, _place(anomaly), anomaly.unit, low, high, dearest)


def fits(pattern: Pattern, alert: Alert) -> bool:
    """Tell whether an alert is of the pattern: same rule and place, at its level, no dearer."""
    anomaly = alert.anomaly
    if (anomaly.rule, _place(anomaly)) != (pattern.rule, pattern.scope):
        return False
    low, high = pattern.low, pattern.high
    level = (
        low is None
        or high is None
        or (anomaly.unit == pattern.unit and low <= anomaly.value <= high)
    )
    dear = (
        pattern.usd_per_hour is not None
        and alert.waste is not None
        and alert.waste.per_hour > pattern.usd_per_hour
    )
    return level and not dear


def _place(anomaly: Anomaly) -> Labels:
    """Return where an anomaly is; which of a cluster's jobs met it first is no place."""
    return replace(anomaly.scope, job="") if anomaly.cause.facts.of_job else anomaly.scope


def patterns(silences: Iterable[Silence], alert: Alert, now: datetime) -> list[Silence]:
    """Return the remembered patterns that hold for the alert now."""
    held = (s for s in silences if s.pattern and s.ended_at is None and s.starts <= now < s.ends)
    return [s for s in held if s.pattern and fits(s.pattern, alert)]


def scores(
    judged: Sequence[tuple[Alert, Decision]], values: Mapping[str, object]
) -> list[RuleScore]:
    """Return the score of every judged rule, worst first.

    Of several judgements of one opening the last counts.
    """
    last = {
        alert.id: (alert, decision.doing)
        for alert, decision in sorted(judged, key=lambda x: x[1].at)
    }
    rules: dict[str, tuple[list[Alert], list[Alert]]] = {}
    for alert, doing in (one for one in last.values() if one[1] is not DecisionKind.UNJUDGED):
        rules.setdefault(alert.anomaly.rule, ([], []))[doing is DecisionKind.NOT_AN_ANOMALY].append(
            alert
        )
    scored = [_score(rule, useful, wrong, values) for rule, (useful, wrong) in rules.items()]
    return sorted(scored, key=lambda score: (score.precision, -score.wrong, score.rule))


def _score(
    rule: str, useful: Sequence[Alert], wrong: Sequence[Alert], values: Mapping[str, object]
) -> RuleScore:
    mostly = len(useful) + len(wrong) >= JUDGED and len(wrong) > len(useful)
    return RuleScore(
        rule, len(useful), len(wrong), _suggestion(rule, wrong, values) if mostly else ""
    )


def _suggestion(rule: str, wrong: Sequence[Alert], values: Mapping[str, object]) -> str:
    """Return the line that previews a rule that speaks later, or of more.

    Only where it was wrong, when that is one cluster.
    """
    setting = next(
        (SETTINGS[f"{rule}.{name}"] for name in _SOFTER if f"{rule}.{name}" in SETTINGS), None
    )
    if setting is None:
        return f"config {rule}"
    clusters = {alert.anomaly.labels.cluster for alert in wrong}
    where = (
        f" cluster={clusters.pop()}"
        if setting.scoped and len(clusters) == 1 and all(clusters)
        else ""
    )
    return f"config set {setting.key} {setting.show(_doubled(setting, values[setting.key]))}{where}"


def _doubled(setting: Setting, value: object) -> timedelta | float:
    if isinstance(value, timedelta):
        return min(2 * value, timedelta(seconds=setting.high))
    assert isinstance(value, int | float), setting.key
    raised = min(2 * float(value), setting.high)
    return (
        (1 + float(value)) / 2
        if setting.unit is SettingUnit.RATIO and raised >= 1 > value
        else raised
    )


@dataclass(frozen=True)
class Saving:
    """State one alert that ended after somebody acted."""

    alert: Alert
    by: str
    """Who acknowledged it, "" where nobody did and its things are gone."""
    usd_per_hour: Decimal
    usd_so_far: Decimal
    """What it would have wasted from its last sight, to which its cost counts, until now or the end of that UTC month."""


def savings(alerts: Sequence[Alert], running: Set[str], now: datetime) -> list[Saving]:
    """Return the savings among `alerts`, dearest an hour first.

    `running` are the ids of the instances that run at `now`.

    Counts an alert that ended and cost something, and that was acknowledged before, or notified of
    and lost all its nodes.
    """
    acted = [
        alert for alert in alerts if _stopped(alert) and (_acted(alert) or _gone(alert, running))
    ]
    return sorted(
        (_saving(alert, now) for alert in acted),
        key=lambda saving: saving.usd_per_hour,
        reverse=True,
    )


def saved_within(
    alerts: Sequence[Alert], window: Window, running: Set[str], now: datetime
) -> list[Saving]:
    """Return the savings among the alerts that ended in the window, up to `now`."""
    ended = [
        alert
        for alert in alerts
        if alert.closed and window.start <= alert.closed <= min(window.end, now)
    ]
    return savings(ended, running, now)


def _stopped(alert: Alert) -> bool:
    return alert.closed is not None and alert.waste is not None and alert.waste.per_hour > 0


def _acted(alert: Alert) -> bool:
    ack = alert.acknowledged
    return ack is not None and alert.closed is not None and ack.at <= alert.closed


def _gone(alert: Alert, running: Set[str]) -> bool:
    things = alert.anomaly.things
    return (
        alert.anomaly.kind == "node"
        and not alert.muted_by
        and bool(things)
        and running.isdisjoint(things)
    )


def _saving(alert: Alert, now: datetime) -> Saving:
    assert alert.ended
    assert alert.waste
    ack = alert.acknowledged if _acted(alert) else None
    until = min(now, month_of(alert.ended).end)
    hours = max(Decimal(0), Decimal(str((until - alert.ended).total_seconds())) / 3600)
    so_far = cents(alert.waste.per_hour * hours)
    return Saving(alert, ack.who if ack else "", alert.waste.per_hour, so_far)
