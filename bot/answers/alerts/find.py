"""Find the alert that a line is about, and ask once more before something dear is muted."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from bot.cards.alert_words import where, worth
from bot.cards.card import Button, Buttons, ButtonStyle, Card, Strong, Text, Tone, When, quiet, text
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
_WHICH = "the alert's id or key, a cluster or a node; in an alert's thread, that alert"
LENGTH = re.compile(r"\d{1,5}(min|[mhdw])")
"""A length where the name of an alert could stand."""


async def find_alert(ports: Ports, request: Request, name: str) -> Alert:
    """Find the alert that `name` means: id or key first, else the newest of a cluster or node.

    "" means the thread's.
    """
    memory = await asyncio.to_thread(ports.stores.alerts.load, request.at)
    if not name:
        return _thread_alert(memory, request) or _refuse(memory)
    window = Window(request.at - KEPT, request.at + timedelta(seconds=1))
    history: Sequence[Alert] = await asyncio.to_thread(
        ports.stores.alerts.history, window, Labels()
    )
    exact = [a for a in history if name in {a.id, a.key}]
    about = [a for a in history if name == a.anomaly.labels.cluster or name in a.anomaly.things]
    matches = exact or sorted(about, key=lambda a: not a.firing)
    if not matches:
        ids = [a.id for a in history if a.firing]
        hint = nearest(name, ids, most=8, otherwise="'alerts' lists those that are open")
        raise WrongInput(f"No alert of the last 15 days is called '{name}'{hint}.")
    return next((a for a in memory.alerts if a.id == matches[0].id), matches[0])


async def find_with_words(
    ports: Ports, request: Request, name: str, words: str
) -> tuple[Alert, str]:
    """Return the alert and the words after its name.

    In an alert's thread, where the first word is no name, all are words.
    """
    try:
        return await find_alert(ports, request, name), words
    except WrongInput:
        memory = await asyncio.to_thread(ports.stores.alerts.load, request.at)
        if (here := _thread_alert(memory, request)) is None:
            raise
        return here, f"{name} {words}".strip()


def _thread_alert(memory: State, request: Request) -> Alert | None:
    """Return the dearest alert of the message in whose thread the line was typed; None elsewhere."""
    here = [
        entry
        for entry in memory.notification_log
        if request.thread and entry.message == request.thread
    ]
    here = [
        entry for entry in here if request.channel in (entry.channel, "")
    ]  # a chat with one person has no address
    ids = {name for entry in here for name in entry.alerts}
    alerts = [alert for alert in memory.alerts if alert.id in ids]
    return max(leading(alerts), key=worth) if alerts else None


def _refuse(memory: State) -> Alert:
    ids = [alert.id for alert in memory.alerts if alert.speaking]
    example = f", for example {ids[0]}" if ids else ""
    raise WrongInput(
        f"Which alert? Name its id, its cluster or a node{example}; in an alert's thread nothing needs to be named."
    )


WHICH = arg("", _WHICH, finds=find_alert)
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
