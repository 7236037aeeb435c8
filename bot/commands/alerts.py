"""Answer about alerts, and take what people decide about them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from bot.cards.alert import notice_card
from bot.cards.alerts import alerts_card, decided_card, snooze_form
from bot.cards.card import Card, Chart
from bot.cards.charts import alert_chart
from bot.cards.why import why_card
from bot.commands.registry import arg, command
from bot.errors import WrongInput, nearest
from bot.model.alert import Alert, Decision, Doing, Notice, Reason, Silence
from bot.model.labels import Labels
from bot.model.request import Request
from bot.model.window import Window
from bot.ports import Changes, Ports

KEPT = timedelta(days=15)


@command("alerts", "What is wrong now, dearest first.", examples=("alerts", "alerts llama", "alerts window=7d"))
async def alerts(
    ports: Ports,
    request: Request,
    cluster: str = arg("", "only this cluster"),
    window: Window | None = arg("", "also those that ended within it", keyword=True),
) -> Card:
    """List open alerts, or every alert of a window."""
    if window:
        found = await asyncio.to_thread(ports.store.history, window, Labels(cluster=cluster))
    else:
        memory = await asyncio.to_thread(ports.store.load, request.at)
        found = [a for a in memory.alerts if a.firing and (not cluster or a.anomaly.labels.cluster == cluster)]
    return alerts_card(found, request.at, window)


@command("alert", "One alert with its chart and its buttons.", examples=("alert a1b2c3d4e",))
async def alert(ports: Ports, request: Request, name: str = arg(None, "the alert's id or key, a cluster or a node")) -> Card:
    """Draw one alert as its notice."""
    found = await find_alert(ports, request, name)
    memory = await asyncio.to_thread(ports.store.load, request.at)
    chart = await _chart(ports, request, found)
    return notice_card(Notice("", "", Reason.FIRST, request.at, (found,)), chart, memory.silences)


@command("why", "Why an alert fires, is muted, or ended: evidence, runner-up, price.", examples=("why llama", "why a1b2c3d4e"))
async def why(ports: Ports, request: Request, name: str = arg(None, "the alert's id or key, a cluster or a node")) -> Card:
    """Explain one alert."""
    found = await find_alert(ports, request, name)
    decisions = await asyncio.to_thread(ports.store.decisions, found.id)
    memory = await asyncio.to_thread(ports.store.load, request.at)
    return why_card(found, decisions, await _chart(ports, request, found), request.at, memory.silences)


@command("ack", "Say that you look after an alert.", examples=("ack a1b2c3d4e",), changes=True)
async def ack(
    ports: Ports,
    request: Request,
    name: str = arg(None, "the alert's id"),
    note: str = arg("", "a word for the others", rest=True),
) -> Card:
    """Acknowledge one alert."""
    return await decide(ports, request, name, Doing.ACKNOWLEDGE, note)


@command("unack", "Hand an alert back.", examples=("unack a1b2c3d4e",), changes=True)
async def unack(ports: Ports, request: Request, name: str = arg(None, "the alert's id")) -> Card:
    """Take an acknowledgement back."""
    return await decide(ports, request, name, Doing.UNACKNOWLEDGE)


@command(
    "snooze",
    "Mute an alert for a time, or until it has cost too much.",
    examples=(
        "snooze a1b2c3d4e 1h",
        "snooze a1b2c3d4e 1d ceiling=500 reason=migration",
        'snooze a1b2c3d4e until="mon 09:00 Europe/Berlin"',
    ),
    changes=True,
)
async def snooze(
    ports: Ports,
    request: Request,
    name: str = arg(None, "the alert's id"),
    length: timedelta | None = arg("", "how long: 1h, 6h, 1d, 1w; asks when left out"),
    until: datetime | None = arg("", "until when instead: 18:00, mon 09:00 Europe/Berlin, 2026-11-23 09:00", keyword=True),
    ceiling: Decimal | None = arg("", "wake again when it has cost so many USD", keyword=True),
    reason: str = arg("", "why", keyword=True),
) -> Card:
    """Silence one opening; without a length, ask for it by a form."""
    found = await find_alert(ports, request, name)
    if until is not None:
        length = until - request.at
    if length is None:
        return snooze_form(found)
    if not timedelta(0) < length <= timedelta(days=30):
        raise WrongInput("A snooze lasts between 1m and 30d.")
    silence = _silence(found, request, length, reason, ceiling)
    await asyncio.to_thread(ports.store.save, Changes(silences=[silence]))
    return decided_card(found, f"Snoozed until {silence.ends:%Y-%m-%d %H:%M} UTC")


async def decide(ports: Ports, request: Request, name: str, doing: Doing, note: str = "", words: str = "") -> Card:
    """Keep what a person decided about an alert, and confirm it."""
    found = await find_alert(ports, request, name)
    stamp = f"{found.id}|{doing}|{request.user.id}|{request.at.isoformat()}"
    made = Decision(
        id="d" + hashlib.sha256(stamp.encode()).hexdigest()[:11],
        alert=found.id,
        doing=doing,
        by=request.user.id,
        by_name=request.user.name,
        at=request.at,
        note=note,
    )
    await asyncio.to_thread(ports.store.save, Changes(decisions=[made]))
    return decided_card(found, words or {Doing.ACKNOWLEDGE: "Acknowledged by you", Doing.UNACKNOWLEDGE: "Handed back"}[doing])


def _silence(found: Alert, request: Request, length: timedelta, reason: str, ceiling: Decimal | None) -> Silence:
    stamp = f"{found.id}|{request.user.id}|{request.at.isoformat()}|{length}"
    return Silence(
        id="s" + hashlib.sha256(stamp.encode()).hexdigest()[:9],
        selector=Labels(cluster=found.anomaly.labels.cluster),
        starts=request.at,
        ends=request.at + length,
        by=request.user.id,
        by_name=request.user.name,
        reason=reason,
        alert=found.id,
        ceiling_usd=ceiling,
    )


async def find_alert(ports: Ports, request: Request, name: str) -> Alert:
    """Find the alert that `name` means: id or key first, else the newest of a cluster or node."""
    window = Window(request.at - KEPT, request.at + timedelta(seconds=1))
    known: Sequence[Alert] = await asyncio.to_thread(ports.store.history, window, Labels())
    exact = [a for a in known if name in {a.id, a.key}]
    about = [a for a in known if name == a.anomaly.labels.cluster or name in a.anomaly.things]
    found = exact or sorted(about, key=lambda a: not a.firing)
    if not found:
        ids = [a.id for a in known if a.firing]
        raise WrongInput(f"No alert of the last 15 days is called '{name}'{nearest(name, ids, most=8)}.")
    memory = await asyncio.to_thread(ports.store.load, request.at)
    return next((a for a in memory.alerts if a.id == found[0].id), found[0])


async def _chart(ports: Ports, request: Request, found: Alert) -> Chart | None:
    until = min(request.at, found.closed + timedelta(hours=1)) if found.closed else request.at
    reading = await asyncio.to_thread(ports.source.read, until)
    spend = await asyncio.to_thread(ports.billing.deltas, until, 35) if found.anomaly.kind.startswith("spend") else reading
    return alert_chart(found, {**reading.frames, **spend.frames})
