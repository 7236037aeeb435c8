"""Draw the week: what was saved, what is still wasted, and what is kept quiet by whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from bot.alerts.saved import Saving
from bot.cards.alert_words import cause_words, where, worth
from bot.cards.card import Align, Block, Button, Buttons, Card, Column, Strong, Table, Text, Tone, quiet, text
from bot.cards.compare import compare_data, sentence
from bot.cards.decided import muted_words
from bot.cards.money import usd
from bot.cards.words import about, counted, period
from bot.costs.compare import Comparison
from bot.model.alert import Alert, Silence
from bot.model.window import Window

_MOST = 5
_SAVED = (Column("stopped"), Column("where"), Column("because"), Column("$/h", Align.RIGHT))
_OPEN = (Column("still open"), Column("where"), Column("owner"), Column("$/h", Align.RIGHT), Column("so far", Align.RIGHT))
_MUTED = (Column("kept quiet"), Column("where"), Column("why"), Column("$/h", Align.RIGHT))


@dataclass(frozen=True)
class Week:
    """Hold what a digest tells: a week, what it saved, and the alerts that fire at its end."""

    window: Window
    saved: Sequence[Saving]
    firing: Sequence[Alert]
    silences: Sequence[Silence] = ()
    parities: Sequence[tuple[str, Comparison | None]] = ()
    """Each open migration, with the comparison of its run and its baseline where both tell."""


def digest_card(week: Week) -> Card:
    """Tell one week in three short tables, dearest first; the saved dollars are an estimate and say so."""
    ranked = sorted(week.firing, key=worth, reverse=True)
    speaking = [alert for alert in ranked if not alert.muted_by]
    muted = [alert for alert in ranked if alert.muted_by]
    saved, wasting = _sum(one.usd_per_hour for one in week.saved), _sum(map(_per_hour, speaking))
    so_far = _sum(one.usd_so_far for one in week.saved)
    blocks: list[Block] = [*_saved(week.saved, so_far), *_open(speaking), *_muted(muted, week.silences)]
    blocks += [_parity(name, found) for name, found in week.parities]
    title = f"The week to {period(week.window).rpartition(' to ')[2]}: {usd(saved)} an hour stopped, {usd(wasting)} an hour open"
    data = {
        "window": week.window,
        "saved": {"alerts": len(week.saved), "usd_per_hour": saved, "usd_so_far": so_far, "estimate": True},
        "open": {"alerts": [alert.id for alert in speaking], "usd_per_hour": wasting},
        "migrations": [{"name": name, **(compare_data(found) if found else {})} for name, found in week.parities],
        "muted": {"alerts": [alert.id for alert in muted], "usd_per_hour": _sum(map(_per_hour, muted))},
    }
    tone = Tone.WARNING if speaking else Tone.GOOD
    return Card(title, tone, (*blocks, Buttons((Button("Savings", "savings 7d"), Button("Alerts", "alerts")))), data)


def digest_here_card(channel: str, at: str) -> Card:
    """Confirm whether a channel gets the digest, and when; `at` is "" where it does not."""
    title = (
        f"This channel gets the weekly digest, {at}" if at else "This channel no longer gets the weekly digest by subscription"
    )
    return Card(title, Tone.GOOD, (quiet(channel),), {"channel": channel, "at": at})


def _parity(name: str, found: Comparison | None) -> Text:
    """Tell an open migration's cost parity."""
    if found is None:
        return text(Strong(f"Migration {name}"), ": its run or its baseline no longer reports; 'migration close' ends it.")
    return text(Strong(f"Migration {name}"), f": {sentence(found)}")


def _saved(found: Sequence[Saving], so_far: Decimal) -> list[Block]:
    if not found:
        return [text("Nothing ended because somebody acted.")]
    rows = tuple((cause_words(s.alert.cause), where(s.alert), _because(s), usd(s.usd_per_hour)) for s in found[:_MOST])
    note = quiet(f"About {about(so_far)} not lost since. An estimate: what would have ended by itself is not told apart.")
    return [Table(_SAVED, rows, rest=_rest(len(found))), note]


def _open(alerts: Sequence[Alert]) -> list[Block]:
    if not alerts:
        return [text("No alert is open.")]
    rows = tuple(
        (cause_words(a.cause), where(a), a.owner or "–", usd(_per_hour(a)), usd(a.waste.so_far if a.waste else Decimal(0)))
        for a in alerts[:_MOST]
    )
    return [Table(_OPEN, rows, rest=_rest(len(alerts)))]


def _muted(alerts: Sequence[Alert], silences: Sequence[Silence]) -> list[Block]:
    if not alerts:
        return []
    by = {f"silence:{one.id}": one for one in silences}
    rows = tuple((cause_words(a.cause), where(a), _why(a, by.get(a.muted_by)), usd(_per_hour(a))) for a in alerts[:_MOST])
    return [Table(_MUTED, rows, rest=_rest(len(alerts)))]


def _why(alert: Alert, silence: Silence | None) -> str:
    if silence is None:
        return muted_words(alert)
    reason = f": {silence.reason}" if silence.reason else ""
    return f"snoozed by {silence.who} until {silence.ends:%b} {silence.ends.day}{reason}"


def _because(saving: Saving) -> str:
    return f"acknowledged by {saving.by}" if saving.by else "its nodes are gone"


def _per_hour(alert: Alert) -> Decimal:
    return alert.waste.per_hour if alert.waste else Decimal(0)


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    return sum(amounts, Decimal(0))


def _rest(n: int) -> str:
    return f"and {counted(n - _MOST, 'more alert')}" if n > _MOST else ""
