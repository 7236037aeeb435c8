"""Explain an alert.

Symptom, evidence, the other causes it may have, its cost and the price, and the decisions of
people.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from bot.cards.alert_words import (
    alert_data,
    counted_in,
    decided,
    headline,
    money_line,
    price_words,
    risk_texts,
)
from bot.cards.card import (
    Block,
    Button,
    Buttons,
    Card,
    Chart,
    Facts,
    Strong,
    Text,
    Tone,
    When,
    coded,
    quiet,
    text,
)
from bot.cards.words import quantity
from bot.model.alert import Alert, Decision, Silence
from bot.model.anomaly import Anomaly


def why_card(
    alert: Alert,
    decisions: Sequence[Decision],
    chart: Chart | None,
    now: datetime,
    silences: Sequence[Silence] = (),
) -> Card:
    """Draw everything that is known of one alert."""
    anomaly = alert.anomaly
    blocks: list[Block] = [text(anomaly.why)] if anomaly.why else []
    blocks += [_muted(alert)] if alert.muted_by else []
    blocks += decided(alert, silences) if alert.muted_by.startswith("silence:") else []
    blocks += [text("• ", line) for line in anomaly.evidence[:8]]
    blocks += [chart] if chart else []
    blocks += [Facts(_verdict(alert))]
    blocks += [money_line(alert.waste)] if alert.waste and alert.waste.per_hour else []
    blocks += risk_texts(alert)
    blocks += [quiet(f"{price_words(alert)}.")] if price_words(alert) else []
    blocks += [text("What to do:")] if anomaly.suggestions else []
    blocks += [text("• ", *coded(line)) for line in anomaly.suggestions[:5]]
    blocks += [_decision(d) for d in decisions]
    blocks += [
        quiet(
            "Anomaly since ",
            When(anomaly.window.start),
            ", alert since ",
            When(alert.opened),
            f", key {alert.key}",
        )
    ]
    blocks += [
        Buttons(
            (
                Button("Useful", f"useful {alert.id}"),
                Button("Not an anomaly…", f"not-an-anomaly {alert.id}", opens=True),
            )
        )
    ]
    return Card(f"Why: {headline(alert, now)}", Tone.INFO, tuple(blocks), alert_data(alert))


def _muted(alert: Alert) -> Text:
    kind, _, name = alert.muted_by.partition(":")
    words = {
        "inhibit": "Muted, because another alert explains it: ",
        "silence": "Muted by the silence ",
        "policy": "Muted by the setting ",
    }
    return text(Strong(words.get(kind, "Muted by ")), name)


def _verdict(alert: Alert) -> tuple[tuple[str, str], ...]:
    anomaly = alert.anomaly
    rivals = (
        ", ".join(f"{cause.facts.words} {share:.2f}" for cause, share in anomaly.runners_up)
        or "none"
    )
    usual = _range(anomaly.usual, anomaly) if anomaly.usual else "not known"
    return (
        ("Diagnosis", f"{alert.cause.facts.words} ({anomaly.confidence:.2f} sure)"),
        ("Other causes", rivals),
        ("Now", quantity(anomaly.value, anomaly.unit, counted_in(anomaly))),
        ("Usually", usual),
        ("Score", f"{anomaly.score:.2f} (0 = usual, 1 = most unusual)"),
        ("Rule", anomaly.rule),
    )


def _range(ends: tuple[float, float], anomaly: Anomaly) -> str:
    low, high = (quantity(end, anomaly.unit, counted_in(anomaly)) for end in ends)
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def _decision(decision: Decision) -> Text:
    note = f": {decision.note}" if decision.note else ""
    whom = f" ({decision.whom})" if decision.whom else ""
    return quiet(f"{decision.doing.value}{whom} by {decision.who} at ", When(decision.at), note)
