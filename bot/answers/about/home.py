"""Answer with a person's home page.

The summary, what wastes now with its buttons, and the month to date.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from decimal import Decimal

from bot.answers.about.summary import (
    Part,
    Summary,
    dearest_data,
    summary_data,
    summary_lines,
    summary_of,
    summary_title,
    summary_tone,
)
from bot.cards.alert_words import held_words, where
from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    Card,
    Heading,
    Strong,
    Table,
    When,
    quiet,
    text,
)
from bot.cards.words import since
from bot.errors import TrnbotError
from bot.grammar.registry import Needs, Topic, command
from bot.model.money import usd
from bot.model.request import Request
from bot.model.spend import Tally
from bot.model.window import Window
from bot.ports import Ports

_MOST = 8
_SERVICES = 5


def home_card(of: Summary, services: Tally | None) -> Card:
    """Begin with the summary; alerts are told once, by the rows that open them."""
    next_lines = (
        Button("Why it changed", "why cost 7d"),
        Button("Forecast", "forecast"),
        Button("Cost", "cost 7d by team"),
        Button("Fleet", "fleet"),
        Button("Help", "help"),
    )
    blocks = (
        *summary_lines(of, Part.HOME),
        *_alerts(of),
        *(_month(services) if services else ()),
        Buttons(next_lines),
    )
    data = {
        **summary_data(of),
        "open": [alert.id for alert in of.speaking],
        "dearest": dearest_data(of, _MOST),
        "services": [{"key": key, "net_usd": net} for key, net in _largest(services)]
        if services
        else [],
        "month_to_date": {"start": services.window.start, "end": services.window.end}
        if services
        else None,
        "usd_per_hour": of.wasting,
        "month_net_usd": services.total.net if services else None,
    }
    return Card(summary_title(of), summary_tone(of), blocks, data)


def _alerts(of: Summary) -> Iterator[Block]:
    for alert in of.speaking[:_MOST]:
        cost = f"{usd(alert.waste.per_hour)} an hour · " if alert.waste else ""
        lasted = since(alert.anomaly.window.start, of.now)
        yield text(
            Strong(alert.cause.facts.words),
            f" · {where(alert)} · {cost}since {lasted} · {held_words(alert) or alert.owner or 'nobody owns it'}",
        )
        yield Buttons(
            (Button("Open", f"alert {alert.id}"), Button("Acknowledge", f"ack {alert.id}"))
        )
    if len(of.speaking) > _MOST:
        yield quiet(f"and {len(of.speaking) - _MOST} more open")


def _month(services: Tally) -> Iterator[Block]:
    columns = (Heading("month to date by service"), Heading("net", Align.RIGHT))
    yield Table(
        columns,
        tuple((key["service"] or "(none)", usd(net)) for key, net in _largest(services)),
        ("total", usd(services.total.net)),
    )
    if services.billed_through:
        yield quiet("Billed through ", When(services.billed_through))


def _largest(services: Tally) -> list[tuple[Mapping[str, str], Decimal]]:
    top = sorted(services.rows, key=lambda row: -row.money.net)[:_SERVICES]
    return [(row.key, row.money.net) for row in top]


@command(
    "home",
    "The summary, what wastes now, and the month to date: the home page.",
    needs=Needs.STATE,
    may=Needs.BILL | Needs.METRICS,
    topic=Topic.COSTS,
    examples=("home",),
    rows=("services",),
)
async def home(ports: Ports, request: Request) -> Card:
    """Sum up for a person's home page."""
    return await asyncio.to_thread(_home, ports, request.at)


def _home(ports: Ports, now: datetime) -> Card:
    firing = [alert for alert in ports.stores.alerts.load(now).alerts if alert.firing]
    reading = services = None
    with suppress(TrnbotError):  # what cannot be read leaves its lines out
        reading = ports.world.source.read(now)
    with suppress(TrnbotError):
        services = ports.world.billing.tally(Window.parse("mtd", now), ("service",))
    return home_card(summary_of(ports, firing, reading, now), services)
