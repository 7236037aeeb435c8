"""Answer with the week, and post it once a week to each channel that wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from bot.answers.cost.forecast import forecast_data, month_end_words
from bot.answers.registry import Needs, Topic, command
from bot.answers.runs.compare import compare_data, sentence
from bot.answers.runs.costed import parities
from bot.cards.alert_words import muted_words, where, worth
from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    Card,
    Column,
    Strong,
    Table,
    Text,
    Tone,
    quiet,
    text,
)
from bot.cards.words import about, period
from bot.costs.compare import RunComparison
from bot.costs.nowcast import Nowcast
from bot.costs.running import forecast_of
from bot.errors import TrnbotError
from bot.model.alert import Alert, Silence, usd_per_hour_of
from bot.model.counts import counted
from bot.model.labels import Labels
from bot.model.money import usd
from bot.model.reading import Reading
from bot.model.request import Request
from bot.model.state import State
from bot.model.window import Window
from bot.ports import Ports
from bot.watch.savings import Saving, saved_within

WEEK = timedelta(days=7)
_MOST = 5
_SAVED = (Column("stopped"), Column("where"), Column("because"), Column("$/h", Align.RIGHT))
_OPEN = (
    Column("still open"),
    Column("where"),
    Column("owner"),
    Column("$/h", Align.RIGHT),
    Column("so far", Align.RIGHT),
)
_MUTED = (Column("muted"), Column("where"), Column("why"), Column("$/h", Align.RIGHT))


@dataclass(frozen=True)
class Week:
    """Hold the content of a digest: a week, its savings, and the alerts that fire at its end."""

    window: Window
    saved: Sequence[Saving]
    firing: Sequence[Alert]
    silences: Sequence[Silence] = ()
    parities: Sequence[tuple[str, RunComparison | None]] = ()
    """Each open migration, with the comparison of its run and its baseline where both tell."""
    nowcast: Nowcast | None = None
    """Where the month's whole bill ends; None where too little of it is known."""


def digest_card(week: Week) -> Card:
    """Tell one week in three short tables, dearest first.

    The saved dollars are an estimate and say so.
    """
    ranked = sorted(week.firing, key=worth, reverse=True)
    speaking = [alert for alert in ranked if alert.speaking]
    muted = [alert for alert in ranked if not alert.speaking]
    saved, wasting = _sum(saving.usd_per_hour for saving in week.saved), usd_per_hour_of(speaking)
    so_far = _sum(saving.usd_so_far for saving in week.saved)
    blocks: list[Block] = [
        *_saved(week.saved, so_far),
        *_open(speaking),
        *_muted(muted, week.silences),
    ]
    blocks += [_parity(name, comparison) for name, comparison in week.parities]
    blocks += (
        [text(Strong("The whole bill"), f": {month_end_words(week.nowcast)}")]
        if week.nowcast
        else []
    )
    title = f"The week to {period(week.window).rpartition(' to ')[2]}: {usd(saved)} an hour stopped, {usd(wasting)} an hour open"
    data = {
        "window": week.window,
        "saved": {
            "alerts": len(week.saved),
            "usd_per_hour": saved,
            "usd_so_far": so_far,
            "estimate": True,
        },
        "open": {"alerts": [alert.id for alert in speaking], "usd_per_hour": wasting},
        "migrations": [
            {"name": name, **(compare_data(comparison) if comparison else {})}
            for name, comparison in week.parities
        ],
        "muted": {"alerts": [alert.id for alert in muted], "usd_per_hour": usd_per_hour_of(muted)},
        **forecast_data(week.nowcast, None),
    }
    tone = Tone.WARNING if speaking else Tone.GOOD
    return Card(
        title,
        tone,
        (*blocks, Buttons((Button("Savings", "savings 7d"), Button("Alerts", "alerts")))),
        data,
    )


def week_of(ports: Ports, memory: State, reading: Reading, until: datetime, now: datetime) -> Week:
    """Return the content of a digest of the week before `until`, as of `now`; may block."""
    window = Window(until - WEEK, until)
    saved = saved_within(
        ports.stores.alerts.history(window, Labels()), window, reading.inventory.running, now
    )
    firing, nowcast = [alert for alert in memory.alerts if alert.firing], None
    with suppress(TrnbotError):  # a bill that cannot be read holds no digest up
        nowcast = forecast_of(ports, now, reading)
    return Week(window, saved, firing, memory.silences, parities(ports, now), nowcast)


def _parity(name: str, comparison: RunComparison | None) -> Text:
    """Tell an open migration's cost parity."""
    if comparison is None:
        return text(
            Strong(f"Migration {name}"),
            ": its run or its baseline no longer reports; 'migration close' ends it.",
        )
    return text(Strong(f"Migration {name}"), f": {sentence(comparison)}")


def _saved(savings: Sequence[Saving], so_far: Decimal) -> list[Block]:
    if not savings:
        return [text("No alert ended because somebody acted.")]
    rows = tuple(
        (s.alert.cause.facts.words, where(s.alert), _because(s), usd(s.usd_per_hour))
        for s in savings[:_MOST]
    )
    note = quiet(
        f"About {about(so_far)} not lost since (estimated; waste that would have ended by itself is included)."
    )
    return [Table(_SAVED, rows, rest=_rest(len(savings))), note]


def _open(alerts: Sequence[Alert]) -> list[Block]:
    if not alerts:
        return [text("No alert is open.")]
    rows = tuple(
        (
            a.cause.facts.words,
            where(a),
            a.owner or "–",
            usd(a.usd_per_hour),
            usd(a.waste.so_far if a.waste else Decimal(0)),
        )
        for a in alerts[:_MOST]
    )
    return [Table(_OPEN, rows, rest=_rest(len(alerts)))]


def _muted(alerts: Sequence[Alert], silences: Sequence[Silence]) -> list[Block]:
    if not alerts:
        return []
    by = {f"silence:{silence.id}": silence for silence in silences}
    rows = tuple(
        (a.cause.facts.words, where(a), _why(a, by.get(a.muted_by)), usd(a.usd_per_hour))
        for a in alerts[:_MOST]
    )
    return [Table(_MUTED, rows, rest=_rest(len(alerts)))]


def _why(alert: Alert, silence: Silence | None) -> str:
    if silence is None:
        return muted_words(alert)
    reason = f": {silence.reason}" if silence.reason else ""
    return f"snoozed by {silence.who} until {silence.ends:%b} {silence.ends.day}{reason}"


def _because(saving: Saving) -> str:
    return f"acknowledged by {saving.by}" if saving.by else "its nodes are gone"


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    return sum(amounts, Decimal(0))


def _rest(n: int) -> str:
    return f"and {counted(n - _MOST, 'more alert')}" if n > _MOST else ""


@command(
    "digest",
    "The last seven days: what was saved, wasted and silenced.",
    needs=Needs.STATE | Needs.METRICS,
    may=Needs.BILL,
    topic=Topic.COSTS,
    examples=("digest",),
)
async def digest(ports: Ports, request: Request) -> Card:
    """Show the digest as it would be posted now."""
    memory = await asyncio.to_thread(ports.stores.alerts.load, request.at)
    reading = await asyncio.to_thread(ports.world.source.read, request.at)
    return digest_card(
        await asyncio.to_thread(week_of, ports, memory, reading, request.at, request.at)
    )
