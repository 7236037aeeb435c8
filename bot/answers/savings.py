"""Answer which alerts ended because somebody acted, and the savings: an estimate."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from decimal import Decimal

from bot.answers.registry import Needs, Topic, arg, command
from bot.cards.alert_words import where
from bot.cards.card import Align, Button, Buttons, Card, Column, Table, Tone, quiet, text
from bot.cards.words import period
from bot.model.counts import counted
from bot.model.labels import Labels
from bot.model.money import usd
from bot.model.request import Request
from bot.model.window import Window
from bot.ports import Ports
from bot.watch.savings import Saving, saved_within

_COLUMNS = (
    Column("stopped"),
    Column("where"),
    Column("because"),
    Column("$/h", Align.RIGHT),
    Column("not lost since", Align.RIGHT),
)
_MOST = 12


def savings_card(savings: Sequence[Saving], window: Window) -> Card:
    """List the savings of a window, dearest first."""
    per_hour = sum((saving.usd_per_hour for saving in savings), Decimal(0))
    so_far = sum((saving.usd_so_far for saving in savings), Decimal(0))
    data = {
        "savings": [_data(saving) for saving in savings],
        "usd_per_hour": per_hour,
        "usd_so_far": so_far,
        "estimate": True,
    }
    if not savings:
        none = text(
            "No alert ended in this time after somebody acknowledged it or took its nodes away."
        )
        return Card(f"Nothing saved · {period(window)}", Tone.INFO, (none,), data)
    rest = f"and {counted(len(savings) - _MOST, 'more alert')}" if len(savings) > _MOST else ""
    totals = ("total", "", "", usd(per_hour), usd(so_far))
    how = quiet(
        "Estimated: each alert's waste an hour when it ended, counted from its end until now or until the end of that month, ",
        "as if nobody had acted. Waste that would have ended by itself is included.",
    )
    title = f"About {usd(per_hour)} an hour stopped: {counted(len(savings), 'alert')} ended after somebody acted · {period(window)}"
    table = Table(_COLUMNS, tuple(_row(saving) for saving in savings[:_MOST]), totals, rest=rest)
    return Card(title, Tone.GOOD, (table, how, Buttons((Button("Alerts", "alerts"),))), data)


def _row(saving: Saving) -> tuple[str, ...]:
    because = f"acknowledged by {saving.by}" if saving.by else "its nodes are gone"
    return (
        saving.alert.cause.facts.words,
        where(saving.alert),
        because,
        usd(saving.usd_per_hour),
        usd(saving.usd_so_far),
    )


def _data(saving: Saving) -> dict[str, object]:
    alert = saving.alert
    return {
        "id": alert.id,
        "key": alert.key,
        "seen_at": alert.seen,
        "closed_at": alert.closed,
        "by": saving.by,
        "usd_per_hour": saving.usd_per_hour,
        "usd_so_far": saving.usd_so_far,
    }


@command(
    "savings",
    "Waste that stopped because somebody acted (estimated).",
    needs=Needs.STATE | Needs.METRICS,
    topic=Topic.COSTS,
    examples=("savings", "savings 7d"),
)
async def savings_(
    ports: Ports, request: Request, window: Window = arg("30d", "alerts that ended in this window")
) -> Card:
    """List the alerts that ended after they were acknowledged, or whose nodes are gone since."""
    history = await asyncio.to_thread(ports.stores.alerts.history, window, Labels())
    reading = await asyncio.to_thread(ports.world.source.read, request.at)
    return savings_card(
        saved_within(history, window, reading.inventory.running, request.at), window
    )
