"""Write the line that a message's thread keeps of a change."""

from __future__ import annotations

from collections.abc import Sequence

from bot.cards.alert_words import total_waste, worth
from bot.cards.card import Card, Mention, Tone
from bot.cards.words import clock
from bot.model.alert import Alert, Silence, leading
from bot.model.money import usd
from bot.model.notification import Notification, NotificationLogEntry, Reason
from bot.model.route import place_of


def thread_line(
    notice: Notification,
    entry: NotificationLogEntry,
    card: Card,
    silences: Sequence[Silence] = (),
    log: Sequence[NotificationLogEntry] = (),
) -> Card:
    """Return the short line about the change since `entry`; `card` is the message as it now stands.

    `silences` are those that hold, and those that have ended. Nobody is pinged for what they did:
    only who asked to be woken, when that time has come, the owner of what nobody looks after, and
    whom an alert is assigned to: in one thread of all those in the notification `log`.
    """
    worst = max(leading(notice.alerts), key=worth)
    match notice.reason:
        case Reason.DECIDED:
            assigned = _assigned(notice, entry, silences, log)
            return (
                assigned
                or _awake(worst, notice, entry, silences, card)
                or Card(_decided(worst, entry, silences), Tone.INFO)
            )
        case Reason.WORSE if worst.waste:
            per_hour, so_far = total_waste(notice.alerts)
            return Card(f"Worse: {usd(per_hour)} an hour now, {usd(so_far)} so far", card.tone)
        case Reason.REMINDER:
            return Card(
                f"Nobody has acknowledged this yet: {card.title}", card.tone, mentions=card.mentions
            )
        case Reason.MORE:
            return Card(
                f"{'Firing again' if entry.over else 'Part of a larger incident'}: {card.title}",
                card.tone,
            )
        case _:
            return Card(card.title, card.tone)


def _assigned(
    notice: Notification,
    entry: NotificationLogEntry,
    silences: Sequence[Silence],
    log: Sequence[NotificationLogEntry],
) -> Card | None:
    """Return the line of the newest assignment since the last entry, and of what else was decided.

    None where none was.
    """
    new = [alert for alert in notice.alerts if alert.assignment and alert.assignment.at > entry.at]
    if not new:
        return None
    alert = max(
        new, key=lambda one: (one.assignment.at if one.assignment else entry.at, *worth(one))
    )
    given = alert.assignment
    assert given is not None
    others = [one for one in notice.alerts if one.id != alert.id]
    about = f" ({alert.cause.facts.words})" if others else ""
    by = "" if given.by == given.assignee else f" by {given.who}"
    words = (
        f"{'Assigned to' if alert.assigned else 'No longer assigned to'} {given.whom}{about}{by}"
    )
    ack = alert.acknowledged
    words += f"; {_lower(_decided(alert, entry, silences))}" if ack and ack.at > entry.at else ""
    pinged = (
        alert.assigned
        and given.by != given.assignee
        and _pinging(alert.id, given.assignee, log) in ("", entry.channel)
    )
    return Card(
        words,
        Tone.INFO,
        mentions=(Mention(given.assignee, given.whom),) if pinged and given.assignee else (),
    )


def _pinging(alert: str, address: str, log: Sequence[NotificationLogEntry]) -> str:
    """Return the one channel of the person's own place where an alert's assignee is pinged.

    "" where none is told of it.
    """
    told = (one.channel for one in log if alert in one.alerts and not one.over)
    return min((channel for channel in told if place_of(channel) == place_of(address)), default="")


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _decided(alert: Alert, entry: NotificationLogEntry, silences: Sequence[Silence]) -> str:
    """Return the newest decision in words.

    An acknowledgement since the last entry, else who mutes the alert, else its state.
    """
    ack = alert.acknowledged
    snooze = next(
        (silence for silence in silences if alert.muted_by == f"silence:{silence.id}"), None
    )
    if snooze is None or (ack and ack.at > entry.at):
        held = f"Assigned to {alert.assigned.whom}" if alert.assigned else "Open again"
        return f"Acknowledged by {ack.who}" + (f": {ack.note}" if ack.note else "") if ack else held
    if snooze.pattern:
        return f"Muted as not an anomaly by {snooze.who} until {snooze.ends:%Y-%m-%d}"
    who, why = snooze.who, f": {snooze.reason}" if snooze.reason else ""
    ceiling = f" or {usd(snooze.ceiling_usd)}" if snooze.ceiling_usd else ""
    return f"Snoozed by {who} until {clock(snooze.ends)} UTC{ceiling}{why}"


def _awake(
    alert: Alert,
    notice: Notification,
    entry: NotificationLogEntry,
    silences: Sequence[Silence],
    card: Card,
) -> Card | None:
    """Return the line that tells a person that their snooze has ended by its time or its ceiling.

    None where none has.
    """
    if not alert.firing or alert.muted_by:
        return None
    for silence in silences:
        if silence.alert == alert.id and (words := _why_awake(alert, notice, entry, silence)):
            return Card(
                f"Snooze ended: {words}", card.tone, mentions=(Mention(silence.by, silence.who),)
            )
    return None


def _why_awake(
    alert: Alert, notice: Notification, entry: NotificationLogEntry, silence: Silence
) -> str:
    cost = alert.waste.so_far if alert.waste else None
    who = silence.who
    if entry.at < silence.ends <= notice.at:
        return f"the time set by {who} is over" + (
            f"; so far it has cost {usd(cost)}" if cost else ""
        )
    ceiling = silence.ceiling_usd
    if (
        ceiling is not None
        and cost is not None
        and entry.usd_so_far < ceiling <= cost
        and notice.at < silence.ends
    ):
        return f"it has cost {usd(cost)}, and {who} asked to be notified at {usd(ceiling)}"
    return ""
