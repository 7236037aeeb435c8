"""Explain an alert, and answer its timeline."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from bot.answers.alerts.find import WHICH, find_alert
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
    Heading,
    Strong,
    Table,
    Text,
    Tone,
    When,
    coded,
    quiet,
    text,
)
from bot.cards.words import clock, quantity
from bot.grammar.registry import Needs, Topic, command
from bot.model.alert import Alert, Decision, DecisionKind, Silence
from bot.model.anomaly import Anomaly
from bot.model.money import counted, usd
from bot.model.notification import NotificationLogEntry, Reason
from bot.model.request import Request
from bot.ports import Ports


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
        *map(_timeline_decision, decisions),
        *_timeline_muted(alert, silences),
        *map(_notified, said),
    ]
    return sorted(every, key=lambda event: event.at)


def timeline_card(alert: Alert, happened: Sequence[Event], now: datetime) -> Card:
    """List the events, the oldest first."""
    columns = (Heading("when (UTC)"), Heading("kind"), Heading("what"), Heading("by"))
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


def _timeline_decision(decision: Decision) -> Event:
    note = f": {decision.note}" if decision.note else ""
    whom = f" {decision.whom}" if decision.whom else ""
    return Event(decision.at, "decided", f"{_DECIDED[decision.doing]}{whom}{note}", decision.who)


def _timeline_muted(alert: Alert, silences: Sequence[Silence]) -> Iterator[Event]:
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
