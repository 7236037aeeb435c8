"""Write the line that a message's thread keeps of a change."""

from __future__ import annotations

from collections.abc import Sequence

from bot.cards.alert_words import total_waste, worth
from bot.cards.card import Card, Mention, Tone
from bot.cards.words import clock
from bot.model.alert import Alert, Notification, NotificationLogEntry, Reason, Silence, leading
from bot.model.money import usd


def thread_line(notice: Notification, entry: NotificationLogEntry, card: Card, silences: Sequence[Silence] = ()) -> Card:
    """Return the short line about the change since `entry`; `card` is the message as it now stands.

    `silences` are those that hold, and those that have ended. Nobody is pinged for what they did: only who asked to be
    woken, when that time has come, and the owner of what nobody looks after.
    """
    worst = max(leading(notice.alerts), key=worth)
    match notice.reason:
        case Reason.DECIDED:
            return _awake(worst, notice, entry, silences, card) or Card(_decided(worst, entry, silences), Tone.INFO)
        case Reason.WORSE if worst.waste:
            per_hour, so_far = total_waste(notice.alerts)
            return Card(f"Worse: {usd(per_hour)} an hour now, {usd(so_far)} so far", card.tone)
        case Reason.REMINDER:
            return Card(f"Nobody has acknowledged this yet: {card.title}", card.tone, mentions=card.mentions)
        case Reason.MORE:
            return Card(f"{'Firing again' if entry.over else 'Part of a larger incident'}: {card.title}", card.tone)
        case _:
            return Card(card.title, card.tone)


def _decided(alert: Alert, entry: NotificationLogEntry, silences: Sequence[Silence]) -> str:
    """Return the newest decision in words: an acknowledgement since the last entry, else who mutes the alert, else its state."""
    ack = alert.acknowledged
    snooze = next((silence for silence in silences if alert.muted_by == f"silence:{silence.id}"), None)
    if snooze is None or (ack and ack.at > entry.at):
        return f"Acknowledged by {ack.who}" + (f": {ack.note}" if ack.note else "") if ack else "Open again"
    if snooze.pattern:
        return f"Muted as not an anomaly by {snooze.who} until {snooze.ends:%Y-%m-%d}"
    who, why = snooze.who, f": {snooze.reason}" if snooze.reason else ""
    ceiling = f" or {usd(snooze.ceiling_usd)}" if snooze.ceiling_usd else ""
    return f"Snoozed by {who} until {clock(snooze.ends)} UTC{ceiling}{why}"


def _awake(
    alert: Alert, notice: Notification, entry: NotificationLogEntry, silences: Sequence[Silence], card: Card
) -> Card | None:
    """Return the line that tells a person that their snooze has ended by its time or its ceiling; None where none has."""
    if not alert.firing or alert.muted_by:
        return None
    for silence in silences:
        if silence.alert == alert.id and (words := _why_awake(alert, notice, entry, silence)):
            return Card(f"Snooze ended: {words}", card.tone, mentions=(Mention(silence.by, silence.who),))
    return None


def _why_awake(alert: Alert, notice: Notification, entry: NotificationLogEntry, silence: Silence) -> str:
    cost = alert.waste.so_far if alert.waste else None
    who = silence.who
    if entry.at < silence.ends <= notice.at:
        return f"the time set by {who} is over" + (f"; so far it has cost {usd(cost)}" if cost else "")
    ceiling = silence.ceiling_usd
    if ceiling is not None and cost is not None and entry.usd_so_far < ceiling <= cost and notice.at < silence.ends:
        return f"it has cost {usd(cost)}, and {who} asked to be notified at {usd(ceiling)}"
    return ""
