"""Find the alert that a line is about.

By its id or key, its cluster or node, or the thread in which the line was typed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from datetime import timedelta

from bot.answers.registry import arg
from bot.cards.alert_words import worth
from bot.errors import WrongInput, nearest
from bot.model.alert import Alert, leading
from bot.model.labels import Labels
from bot.model.request import Request
from bot.model.window import Window
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
