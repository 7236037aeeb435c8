"""Say what keeps an alert quiet, and what people decided about it."""

from __future__ import annotations

from collections.abc import Sequence

from bot.cards.card import Block, Strong, When, text
from bot.cards.money import usd
from bot.model.alert import Alert, Silence


def muted_words(alert: Alert) -> str:
    """Say what keeps the alert quiet: a snooze, another alert that explains it, or a setting; "" where nothing does."""
    kind, _, name = alert.muted_by.partition(":")
    if alert.muted_by == "policy:alert.quiet_hours":
        return "waiting for the end of the quiet hours"
    words = {"silence": "snoozed", "inhibit": f"explained by {name}", "policy": f"too small ({name})"}
    return words.get(kind, alert.muted_by)


def decided_words(alert: Alert) -> str:
    """Say in one line what people decided last."""
    if alert.muted_by.startswith("silence:"):
        return "Snoozed"
    ack = alert.acknowledged
    return f"Acknowledged by {ack.by_name or ack.by}" + (f": {ack.note}" if ack.note else "") if ack else "Open again"


def decided(alert: Alert, silences: Sequence[Silence]) -> list[Block]:
    """Say publicly who acknowledged, and who snoozed until when."""
    blocks: list[Block] = []
    if alert.acknowledged:
        ack = alert.acknowledged
        note = f": {ack.note}" if ack.note else ""
        blocks.append(text("Acknowledged by ", Strong(ack.by_name or ack.by), ", ", When(ack.at), note))
    for silence in silences:
        if alert.muted_by == f"silence:{silence.id}":
            ceiling = f" or until it has cost {usd(silence.ceiling_usd)}" if silence.ceiling_usd else ""
            who, why = silence.by_name or silence.by, f": {silence.reason}" if silence.reason else ""
            blocks.append(text("Snoozed by ", Strong(who), " until ", When(silence.ends), ceiling, why))
    return blocks
