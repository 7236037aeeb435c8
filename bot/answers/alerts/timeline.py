"""Answer the timeline of one alert: all that was seen, said and decided of it, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from bot.answers.alerts.find import WHICH, find_alert
from bot.answers.registry import Needs, Topic, command
from bot.cards.alert_words import headline
from bot.cards.card import Button, Buttons, Card, Column, Table, Tone, text
from bot.cards.words import clock
from bot.model.alert import Alert, Decision, DecisionKind, Silence
from bot.model.counts import counted
from bot.model.money import usd
from bot.model.notification import NotificationLogEntry, Reason
from bot.model.request import Request
from bot.ports import Ports

_DECIDED = {
    DecisionKind.ACKNOWLEDGE: "Acknowledged",
    DecisionKind.UNACKNOWLEDGE: "Acknowledgement withdrawn",
    DecisionKind.ASSIGN: "Assigned to",
    DecisionKind.UNASSIGN: "No longer assigned to",
    DecisionKind.NOT_AN_ANOMALY: "Judged not an anomaly",
    DecisionKind.USEFUL: "Judged useful",
    DecisionKind.UNJUDGED: "Judgement withdrawn",
}
_SAID = {
    Reason.FIRST: "Sent",
    Reason.MORE: "Told that it spread",
    Reason.FEWER: "Told that it shrank",
    Reason.WORSE: "Told that it became worse",
    Reason.OVER: "Told that it is over",
    Reason.REMINDER: "Reminded, as nobody had acknowledged it",
    Reason.DECIDED: "Told what was decided",
    Reason.UPDATED: "Told its dollars anew",
}


@dataclass(frozen=True)
class Event:
    """State one thing that happened: `kind` is seen, said or decided."""

    at: datetime
    kind: str
    words: str
    by: str = ""


def events(
    alert: Alert,
    decisions: Sequence[Decision],
    silences: Sequence[Silence],
    said: Sequence[NotificationLogEntry],
) -> list[Event]:
    """Return the events of an alert that are known, the oldest first.

    Of each channel its newest notification.
    """
    every = [
        *_seen(alert),
        *map(_decision, decisions),
        *_muted(alert, silences),
        *map(_notified, said),
    ]
    return sorted(every, key=lambda event: event.at)


def timeline_card(alert: Alert, happened: Sequence[Event], now: datetime) -> Card:
    """List the events, the oldest first."""
    columns = (Column("when (UTC)"), Column("kind"), Column("what"), Column("by"))
    table = Table(
        columns, tuple((clock(event.at), event.kind, event.words, event.by) for event in happened)
    )
    title = f"Timeline: {headline(alert, now)}"
    buttons = Buttons((Button("Alert", f"alert {alert.id}"), Button("Why", f"why {alert.id}")))
    shown = (table,) if happened else (text("Nothing is known of it."),)
    return Card(
        title,
        Tone.INFO,
        (*shown, buttons),
        {"id": alert.id, "events": [asdict(event) for event in happened]},
    )


def _seen(alert: Alert) -> Iterator[Event]:
    things, kind = alert.anomaly.things, alert.anomaly.kind
    on = f" on {counted(len(things), kind)}" if kind in {"node", "pod"} else ""
    yield Event(alert.anomaly.window.start, "seen", f"Began{on}, as estimated from the readings")
    yield Event(
        alert.opened,
        "seen",
        f"Held long enough for the rule '{alert.anomaly.rule}': the alert opened",
    )
    if alert.closed:
        yield Event(alert.seen, "seen", "Seen for the last time")
        yield Event(alert.closed, "seen", "Over")


def _decision(decision: Decision) -> Event:
    note = f": {decision.note}" if decision.note else ""
    whom = f" {decision.whom}" if decision.whom else ""
    return Event(decision.at, "decided", f"{_DECIDED[decision.doing]}{whom}{note}", decision.who)


def _muted(alert: Alert, silences: Sequence[Silence]) -> Iterator[Event]:
    for silence in silences:
        if silence.alert == alert.id and not silence.pattern:
            why = f": {silence.reason}" if silence.reason else ""
            yield Event(
                silence.starts,
                "decided",
                f"Snoozed until {clock(silence.ends)} UTC{why}",
                silence.who,
            )
            if silence.ended_at:
                yield Event(silence.ended_at, "seen", "The snooze ended")


def _notified(entry: NotificationLogEntry) -> Event:
    dollars = f", at {usd(entry.usd_per_hour)} an hour" if entry.usd_per_hour else ""
    return Event(entry.at, "said", f"{_SAID[entry.reason]} to {entry.channel}{dollars}", "trnbot")


@command(
    "timeline",
    "What was seen, said and decided of one alert, in order.",
    needs=Needs.STATE,
    topic=Topic.ALERTS,
    examples=("timeline a1b2c3d4e",),
)
async def timeline(ports: Ports, request: Request, name: str = WHICH) -> Card:
    """Tell an alert's story from the records that are kept of it."""
    alert = await find_alert(ports, request, name)
    decisions = await asyncio.to_thread(ports.stores.alerts.decisions, alert.id)
    memory = await asyncio.to_thread(ports.stores.alerts.load, request.at)
    said = [entry for entry in memory.notification_log if alert.id in entry.alerts]
    return timeline_card(
        alert, events(alert, decisions, (*memory.silences, *memory.slept), said), request.at
    )
