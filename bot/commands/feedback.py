"""Take people's judgement of alerts, show what it keeps quiet, and how often each rule is right."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from bot.alerts.feedback import pattern_of, patterns, scores
from bot.alerts.mute import silences_alert
from bot.cards.card import Card
from bot.cards.feedback import dropped_card, feedback_card, silences_card
from bot.commands.alerts import decide, find_alert
from bot.commands.registry import arg, command
from bot.errors import WrongInput, nearest
from bot.model.alert import Alert, Decision, Doing, Silence
from bot.model.labels import Labels
from bot.model.request import Request
from bot.model.window import Window
from bot.ports import Changes, Ports

_JUDGED = (Doing.USEFUL, Doing.NOT_AN_ANOMALY)
_SHORTEST, _LONGEST = timedelta(hours=1), timedelta(days=180)


@command(
    "not-an-anomaly",
    "Say that an alert was wrong: its like stays muted for a while, in the open.",
    examples=("not-an-anomaly a1b2c3d4e", "not-an-anomaly a1b2c3d4e 90d"),
    changes=True,
)
async def not_an_anomaly(
    ports: Ports,
    request: Request,
    name: str = arg(None, "the alert's id"),
    length: timedelta | None = arg("", "how long its like stays muted; the setting alert.not_an_anomaly_for when left out"),
) -> Card:
    """Record the judgement, and mute what is of the same rule, place and level and no dearer, until a time."""
    found = await find_alert(ports, request, name)
    policy = await asyncio.to_thread(lambda: ports.policy)
    span = length or policy.duration("alert.not_an_anomaly_for")
    if not _SHORTEST <= span <= _LONGEST:
        raise WrongInput("A judgement stays between 1h and 180d.")
    made = _remembered(found, request, span)
    await asyncio.to_thread(ports.store.save, Changes(silences=[made]))
    words = f"Noted as not an anomaly; its like is muted until {made.ends:%Y-%m-%d} (`silences` lists it)"
    return await decide(ports, request, found.id, Doing.NOT_AN_ANOMALY, words=words)


@command("useful", "Say that an alert helped.", examples=("useful a1b2c3d4e",), changes=True)
async def useful(ports: Ports, request: Request, name: str = arg(None, "the alert's id")) -> Card:
    """Record the judgement, and drop every pattern that would mute its like."""
    found = await find_alert(ports, request, name)
    memory = await asyncio.to_thread(ports.store.load, request.at)
    against = [replace(silence, ended_at=request.at) for silence in patterns(memory.silences, found, request.at)]
    await asyncio.to_thread(ports.store.save, Changes(silences=against))
    ids = ", ".join(silence.id for silence in against)
    words = f"Noted as useful; {ids}, which muted its like, is dropped" if against else "Noted as useful"
    return await decide(ports, request, found.id, Doing.USEFUL, words=words)


@command("silences", "What is muted by people: by whom, until when, and what it keeps quiet now.", examples=("silences",))
async def silences(ports: Ports, request: Request) -> Card:
    """List every snooze and every pattern that was judged not an anomaly."""
    memory = await asyncio.to_thread(ports.store.load, request.at)
    known = {alert.id: alert for alert in memory.alerts}
    rows = [(silence, known.get(silence.alert), _quiet(silence, memory.alerts, request)) for silence in memory.silences]
    return silences_card(rows)


@command("silences drop", "Let what is muted speak again.", examples=("silences drop m1b2c3d4e",), changes=True)
async def silences_drop(ports: Ports, request: Request, name: str = arg(None, "the silence's id")) -> Card:
    """End one silence."""
    memory = await asyncio.to_thread(ports.store.load, request.at)
    found = next((silence for silence in memory.silences if silence.id == name), None)
    if found is None:
        known = [silence.id for silence in memory.silences]
        raise WrongInput(f"Nothing is muted by '{name}'{nearest(name, known, most=8)}.")
    await asyncio.to_thread(ports.store.save, Changes(silences=[replace(found, ended_at=request.at)]))
    return dropped_card(found)


@command("feedback", "How people judged each rule's alerts, and what would make a wrong one quieter.", examples=("feedback 30d",))
async def feedback(ports: Ports, request: Request, window: Window = arg("90d", "alerts that were open within it")) -> Card:
    """Count useful and wrong alerts by rule; suggest a line for rules that are mostly wrong, and change nothing."""
    judged = await asyncio.to_thread(_judged, ports, window)
    policy = await asyncio.to_thread(lambda: ports.policy)
    return feedback_card(scores(judged, policy.values), window)


def _judged(ports: Ports, window: Window) -> list[tuple[Alert, Decision]]:
    known = {alert.id: alert for alert in ports.store.history(window, Labels())}
    return [(known[made.alert], made) for made in ports.store.decisions(*known) if made.doing in _JUDGED]


def _quiet(silence: Silence, alerts: Sequence[Alert], request: Request) -> list[Alert]:
    return [alert for alert in alerts if alert.firing and silences_alert(silence, alert, request.at)]


def _remembered(found: Alert, request: Request, length: timedelta) -> Silence:
    stamp = f"{found.id}|{request.user.id}|{request.at.isoformat()}|{length}"
    return Silence(
        id="m" + hashlib.sha256(stamp.encode()).hexdigest()[:9],
        selector=Labels(),
        starts=request.at,
        ends=request.at + length,
        by=request.user.id,
        by_name=request.user.name,
        reason="not an anomaly",
        pattern=pattern_of(found),
    )
