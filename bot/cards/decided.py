"""Say what keeps an alert quiet, and what people decided about it."""

from __future__ import annotations

from collections.abc import Sequence

from bot.cards.card import Block, Strong, When, text
from bot.cards.money import usd
from bot.model.alert import Alert, Pattern, Silence


def muted_words(alert: Alert) -> str:
    """Say what keeps the alert quiet: a snooze, another alert that explains it, or a setting; "" where nothing does."""
    kind, _, name = alert.muted_by.partition(":")
    if alert.muted_by == "policy:alert.quiet_hours":
        return "waiting for the end of the quiet hours"
    muted = "muted as not an anomaly" if name.startswith("m") else "snoozed"
    words = {"silence": muted, "inhibit": f"explained by {name}", "policy": f"too small ({name})"}
    return words.get(kind, alert.muted_by)


def decided(alert: Alert, silences: Sequence[Silence]) -> list[Block]:
    """Say publicly who acknowledged, and who snoozed until when."""
    blocks: list[Block] = []
    if alert.acknowledged:
        ack = alert.acknowledged
        note = f": {ack.note}" if ack.note else ""
        blocks.append(text("Acknowledged by ", Strong(ack.who), ", ", When(ack.at), note))
    for silence in silences:
        if alert.muted_by == f"silence:{silence.id}":
            ceiling = f" or until it has cost {usd(silence.ceiling_usd)}" if silence.ceiling_usd else ""
            who, why = silence.who, f": {silence.reason}" if silence.reason else ""
            if silence.pattern:
                blocks.append(text("Muted as not an anomaly by ", Strong(who), " until ", When(silence.ends), *_while(silence)))
                continue
            blocks.append(text("Snoozed by ", Strong(who), " until ", When(silence.ends), ceiling, why))
    return blocks


def _while(silence: Silence) -> list[str]:
    words = pattern_words(silence.pattern) if silence.pattern else ""
    return [f", while it is {words}"] if words else []


def pattern_words(pattern: Pattern) -> str:
    """Say what an alert must be like to be of a pattern: its level, and what an hour may cost; "" where anything is."""
    parts = []
    if pattern.low is not None and pattern.high is not None:
        ratio = pattern.unit in {"ratio", "%"}
        low, high = ((max(0.0, x) * 100 if ratio else x) for x in (pattern.low, pattern.high))
        parts.append(f"at {low:,.4g} to {high:,.4g} {'%' if ratio else pattern.unit}".rstrip())
    if pattern.usd_per_hour is not None:
        parts.append(f"at most {usd(pattern.usd_per_hour)} an hour")
    return " and ".join(parts)
