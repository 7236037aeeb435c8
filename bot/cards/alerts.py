"""List alerts, confirm decisions, ask for a snooze."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from bot.cards.alert_words import alert_data, cause_words, span, where, worth
from bot.cards.card import (
    Align,
    Button,
    Buttons,
    Card,
    Column,
    Field,
    FieldKind,
    Form,
    Table,
    Tone,
    quiet,
    text,
)
from bot.cards.decided import muted_words
from bot.cards.money import usd
from bot.cards.words import counted, period
from bot.model.alert import Alert
from bot.model.window import Window

_MOST = 12
_LENGTHS = (("1h", "1 hour"), ("6h", "6 hours"), ("1d", "1 day"), ("1w", "1 week"))


def alerts_card(alerts: Sequence[Alert], now: datetime, window: Window | None) -> Card:
    """List alerts, firing and dearest first; muted ones are shown with who muted them."""
    ranked = sorted(alerts, key=lambda a: (a.firing, not a.muted_by, worth(a)), reverse=True)
    speaking = [a for a in ranked if a.firing and not a.muted_by]
    per_hour = sum((a.waste.per_hour for a in speaking if a.waste), Decimal(0))
    data = {"alerts": [alert_data(a) for a in ranked], "usd_per_hour": per_hour}
    scope = f" · {period(window)}" if window else ""
    if not ranked:
        none = "No alert was open in this time." if window else "No alert is open."
        return Card(f"Nothing is wrong{scope}", Tone.GOOD, (text(none),), data)
    wasting = f"{counted(len(speaking), 'open alert')}, wasting {usd(per_hour)} an hour{scope}"
    quiet_ones = "none open" if any(not a.firing for a in ranked) else "all muted"
    title = wasting if speaking else f"{counted(len(ranked), 'alert')}, {quiet_ones}{scope}"
    names = [(f"{cause_words(a.cause)} · {a.anomaly.labels.cluster or a.id}"[:40], a.id) for a in ranked[:4]]
    buttons = tuple(Button(name, f"alert {name_id}") for name, name_id in names)
    return Card(title, Tone.WARNING if speaking else Tone.INFO, (_table(ranked, now), Buttons(buttons)), data)


def _table(ranked: Sequence[Alert], now: datetime) -> Table:
    columns = (
        Column("cause"),
        Column("where"),
        Column("for", Align.RIGHT),
        Column("$/h", Align.RIGHT),
        Column("so far", Align.RIGHT),
        Column("state"),
    )
    rest = f"and {len(ranked) - _MOST} more; name a cluster to see its own: alerts CLUSTER" if len(ranked) > _MOST else ""
    return Table(columns, tuple(_row(a, now) for a in ranked[:_MOST]), rest=rest)


def _row(alert: Alert, now: datetime) -> tuple[str, ...]:
    length = (alert.closed or now) - alert.anomaly.window.start
    per_hour = usd(alert.waste.per_hour) if alert.waste and alert.firing else "–"
    so_far = usd(alert.waste.so_far) if alert.waste else "–"
    return (cause_words(alert.cause), where(alert), span(length), per_hour, so_far, state(alert))


def state(alert: Alert) -> str:
    """Say in a word or two where the alert is in its life."""
    if not alert.firing:
        return "over"
    if alert.muted_by:
        return muted_words(alert)
    return f"acknowledged by {alert.acknowledged.who}" if alert.acknowledged else "open"


def decided_card(alert: Alert, what: str) -> Card:
    """Confirm a decision to the person who made it."""
    return Card(what, Tone.GOOD, (quiet(f"{cause_words(alert.cause)} · {where(alert)} · {alert.id}"),), {"alert": alert.id})


def snooze_form(alert: Alert) -> Card:
    """Ask how long, up to how many dollars, and why."""
    fields = (
        Field("length", "How long", FieldKind.CHOICE, "1h", _LENGTHS, required=True),
        Field("until", "Or until", hint="36h, 18:00, mon 09:00 Europe/Berlin or 2026-11-23 09:00; UTC where no zone is said"),
        Field(
            "ceiling",
            "Speak again once it has cost (USD)",
            FieldKind.NUMBER,
            hint="for example 500; left empty, only the time ends it",
        ),
        Field("reason", "Why", hint="for all to read, for example: data migration until Tuesday"),
    )
    form = Form("Snooze", f"snooze {alert.id}", fields, "Snooze")
    return Card(f"Snooze: {cause_words(alert.cause)} · {where(alert)}", Tone.INFO, (form,), {"alert": alert.id})
