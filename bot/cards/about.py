"""Say what can be typed, what this installation is, and how things stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from bot.cards.alert_words import cause_words, span, where, worth
from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    Card,
    Code,
    Column,
    Facts,
    Strong,
    Table,
    Tone,
    When,
    quiet,
    text,
)
from bot.cards.money import usd
from bot.cards.words import counted
from bot.model.alert import Alert
from bot.model.spend import Tally

Row = tuple[str, str, str | None, str]


def help_card(topics: Mapping[str, Sequence[tuple[str, str, str]]]) -> Card:
    """List every command with what it does and one example; a table a topic, as a platform cuts tables that are long."""
    blocks: list[Block] = []
    for topic, commands in topics.items():
        blocks += [text(Strong(topic))] if topic else []
        blocks.append(Table((Column("type"), Column("to get")), tuple((example, summary) for _, summary, example in commands)))
    blocks.append(quiet("A button types a line for you. ", Code("help cost"), " explains one command."))
    every = [{"name": n, "summary": s, "example": e} for n, s, e in sorted(one for found in topics.values() for one in found)]
    return Card("What you can type", Tone.INFO, tuple(blocks), {"commands": every})


def command_card(
    name: str, summary: str, rows: Sequence[Row], examples: Sequence[str], who: str, notes: Sequence[str] = ()
) -> Card:
    """Explain one command by its arguments, notes on their types, and examples."""
    columns = (Column("argument"), Column("is a"), Column("when left out"), Column("meaning"))
    cells = tuple((n, kind, "needed" if default is None else default or "–", meaning) for n, kind, default, meaning in rows)
    blocks: list[Block] = [text(summary)]
    blocks += [Table(columns, cells)] if cells else []
    blocks += [quiet(note) for note in notes]
    blocks += [text("For example ", Code(example)) for example in examples]
    blocks += [quiet(f"For {who}.")]
    return Card(name, Tone.INFO, tuple(blocks), {"name": name, "arguments": [r[0] for r in rows], "who": who})


def about_card(settings: Mapping[str, str], ticked_at: datetime | None, problems: Sequence[str]) -> Card:
    """Tell what runs here, how fresh it is, and what could not be read."""
    blocks: list[Block] = [Facts(tuple((name, value or "not set") for name, value in settings.items()))]
    blocks += [quiet("Last tick ", When(ticked_at))] if ticked_at else [quiet("The watch has not ticked yet.")]
    blocks += [text(f"{counted(len(problems), 'thing')} could not be read:")] if problems else []
    blocks += [quiet("• ", problem) for problem in problems[:8]]
    blocks += [quiet(f"and {len(problems) - 8} more")] if len(problems) > 8 else []
    data = {"settings": dict(settings), "ticked_at": ticked_at, "problems": list(problems)}
    return Card("trnbot", Tone.WARNING if problems else Tone.INFO, tuple(blocks), data)


def home_card(alerts: Sequence[Alert], tally: Tally | None, now: datetime, saved: str = "") -> Card:
    """Show open alerts, what the last week saved, and the month to date."""
    speaking = sorted((a for a in alerts if not a.muted_by), key=worth, reverse=True)
    per_hour = sum((a.waste.per_hour for a in speaking if a.waste), Decimal(0))
    title = f"{counted(len(speaking), 'open alert')}, wasting {usd(per_hour)} an hour" if speaking else "All quiet"
    blocks: list[Block] = []
    for a in speaking[:8]:
        cost = f"{usd(a.waste.per_hour)} an hour · " if a.waste else ""
        blocks.append(text(Strong(cause_words(a.cause)), f" · {where(a)} · {cost}{span(now - a.anomaly.window.start)}"))
        blocks.append(Buttons((Button("Open", f"alert {a.id}"), Button("Acknowledge", f"ack {a.id}"))))
    blocks += [text(saved)] if saved else []
    blocks += _month(tally) if tally else []
    blocks.append(Buttons((Button("Cost", "cost 7d by team"), Button("Fleet", "fleet"), Button("Help", "help"))))
    data = {"open": [a.id for a in speaking], "usd_per_hour": per_hour, "month_net_usd": tally.total.net if tally else None}
    return Card(title, Tone.WARNING if speaking else Tone.GOOD, tuple(blocks), data)


def _month(tally: Tally) -> list[Block]:
    top = sorted(tally.rows, key=lambda r: -r.money.net)[:5]
    columns = (Column("month to date by service"), Column("net", Align.RIGHT))
    rows = tuple((row.key.get("service", "") or "(none)", usd(row.money.net)) for row in top)
    dated: list[Block] = [quiet("Billed through ", When(tally.billed_through))] if tally.billed_through else []
    return [Table(columns, rows, ("total", usd(tally.total.net))), *dated]
