"""Find the alert that a line is about, and ask once more before something dear is muted."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime, timedelta
from decimal import Decimal

from bot.cards.alert_words import where, worth
from bot.cards.card import Button, Buttons, ButtonStyle, Card, Span, Strong, Tone, When, quiet, text
from bot.cards.words import about
from bot.errors import WrongInput, nearest
from bot.grammar.registry import arg
from bot.model.alert import Alert, leading
from bot.model.labels import Labels
from bot.model.money import usd
from bot.model.request import Request
from bot.model.window import Window, rounded_duration, write_duration
from bot.ports import Ports, State

KEPT = timedelta(days=15)
LENGTH = re.compile(r"\d{1,5}(min|[mhdw])")
"""A length where the name of an alert could stand."""


def find_alert(ports: Ports, request: Request, name: str) -> Alert:
    """Find the alert that `name` means: id or key first, else the newest of a cluster or node.

    "" means the thread's. May block.
    """
    memory = ports.stores.alerts.load(request.at)
    if not name:
        if alert := _thread_alert(memory, request):
            return alert
        ids = [alert.id for alert in memory.alerts if alert.speaking]
        example = f", for example {ids[0]}" if ids else ""
        raise WrongInput(
            f"Which alert? Name its id, its cluster or a node{example}; in an alert's thread nothing needs to be named."
        )

    window = Window(request.at - KEPT, request.at + timedelta(seconds=1))
    history = ports.stores.alerts.history(window, Labels())
    exact = [alert for alert in history if name in {alert.id, alert.key}]
    concerned = [
        alert
        for alert in history
        if name == alert.anomaly.labels.cluster or name in alert.anomaly.things
    ]
    matches = exact or sorted(concerned, key=lambda alert: not alert.firing)
    if not matches:
        ids = [alert.id for alert in history if alert.firing]
        hint = nearest(name, ids, most=8, otherwise="'alerts' lists those that are open")
        raise WrongInput(f"No alert of the last 15 days is called '{name}'{hint}.")
    return next((alert for alert in memory.alerts if alert.id == matches[0].id), matches[0])


def find_with_words(ports: Ports, request: Request, name: str, words: str) -> tuple[Alert, str]:
    """Return the alert and the words after its name.

    In an alert's thread, where the first word is no name, all are words. May block.
    """
    try:
        return find_alert(ports, request, name), words
    except WrongInput:
        alert = _thread_alert(ports.stores.alerts.load(request.at), request)
        if alert is None:
            raise
        return alert, f"{name} {words}".strip()


def _thread_alert(memory: State, request: Request) -> Alert | None:
    """Return the dearest alert of the message in whose thread the line was typed; None elsewhere."""
    if not request.thread:
        return None
    # A chat with one person has no address.
    ids = {
        name
        for entry in memory.notification_log
        if entry.message == request.thread and request.channel in (entry.channel, "")
        for name in entry.alerts
    }
    alerts = [alert for alert in memory.alerts if alert.id in ids]
    return max(leading(alerts), key=worth) if alerts else None


WHICH = arg(
    "",
    "the alert's id or key, a cluster or a node; in an alert's thread, that alert",
    finds=lambda ports, request, name: asyncio.to_thread(find_alert, ports, request, name),
)
"""The argument of every command that is about one alert."""


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
    ends, waste = now + length, alert.waste
    spoken = rounded_duration(length) if length > LONG else write_duration(length)
    spans: list[Span] = ["Until "]
    if waste and waste.per_hour:
        spans = ["It wastes ", Strong(f"{usd(waste.per_hour)} an hour"), ", until "]
    if waste and waste.per_hour and waste.goes_on:
        hours = Decimal(str(length.total_seconds())) / 3600
        spans[-1:] = [", about ", Strong(about(waste.per_hour * hours)), " more by "]
    place = f"{alert.cause.facts.words} · {where(alert)} · {alert.id}"
    go_on = Button(f"{doing} for {spoken}", f"{line} {SURE}", ButtonStyle.PRIMARY)
    blocks = (
        text(*spans, When(ends), ". Nobody is notified of it until then."),
        quiet(f"{place}. The answer has a button to undo it."),
        Buttons((go_on,)),
    )
    title = f"{doing} for {spoken}? Nothing is muted yet"
    return Card(title, Tone.WARNING, blocks, {"alert": alert.id, "asks": True})
