"""Ask once more before something long or dear is muted.

Its cost meanwhile, in one card with one button to go on.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from bot.cards.alert_words import where
from bot.cards.card import Button, Buttons, ButtonStyle, Card, Strong, Text, Tone, When, quiet, text
from bot.cards.words import about
from bot.model.alert import Alert
from bot.model.durations import rounded_duration, write_duration
from bot.model.money import usd

SURE = "sure=yes"
"""Ends the line of the button that goes on."""
LONG = timedelta(days=1)
"""A snooze that lasts longer is asked about: nobody who was there when it was set is, when it ends."""


def needs_asking(
    alert: Alert, length: timedelta, longest: timedelta, ceiling: Decimal | None = None
) -> bool:
    """Return whether a mute is longer than is usual, or of an alert that is dear and no ceiling ends it."""
    return length > longest or (alert.costly and ceiling is None)


def asking_card(alert: Alert, doing: str, length: timedelta, line: str, now: datetime) -> Card:
    """Ask whether to go on with `line`; nothing is muted yet. `doing` names it.

    `Snooze`, `Mute alerts like it`.
    """
    ends = now + length
    spoken = rounded_duration(length) if length > LONG else write_duration(length)
    blocks = (
        _cost(alert, length, ends),
        quiet(
            f"{alert.cause.facts.words} · {where(alert)} · {alert.id}. The answer has a button to undo it."
        ),
        Buttons((Button(f"{doing} for {spoken}", f"{line} {SURE}", ButtonStyle.PRIMARY),)),
    )
    return Card(
        f"{doing} for {spoken}? Nothing is muted yet",
        Tone.WARNING,
        blocks,
        {"alert": alert.id, "asks": True},
    )


def _cost(alert: Alert, length: timedelta, ends: datetime) -> Text:
    waste = alert.waste
    nobody = ". Nobody is notified of it until then."
    if waste is None or not waste.per_hour:
        return text("Until ", When(ends), nobody)
    hours = Decimal(str(length.total_seconds())) / 3600
    cost = (
        (", about ", Strong(about(waste.per_hour * hours)), " more by ")
        if waste.goes_on
        else (", until ",)
    )
    return text("It wastes ", Strong(f"{usd(waste.per_hour)} an hour"), *cost, When(ends), nobody)
