"""Answer the cost of the bot itself at AWS, and how its watch stands."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from bot.cards.card import Align, Block, Card, Facts, Heading, Strong, Table, Tone, quiet, text
from bot.grammar.registry import Needs, Topic, command
from bot.model.money import usd
from bot.model.price import CallUse, SelfCost
from bot.model.request import Request
from bot.model.window import duration_text
from bot.ports import Ports

_COLUMNS = (
    Heading("AWS call"),
    Heading("calls", Align.RIGHT),
    Heading("billed", Align.RIGHT),
    Heading("$ today", Align.RIGHT),
    Heading("failed", Align.RIGHT),
    Heading("stopped", Align.RIGHT),
)
_LATE = 2
"""Intervals without a tick from which the watch is late."""
_MOST = 20
_NAMED = 4


@dataclass(frozen=True)
class Watched:
    """Hold how the watch stands.

    The last whole tick, now, the interval, and the counters of this process.
    """

    ticked_at: datetime | None
    now: datetime
    interval: timedelta
    facts: Mapping[str, Any]

    @property
    def late(self) -> bool:
        """Tell whether the last tick is older than it should be."""
        return self.ticked_at is not None and self.now - self.ticked_at > _LATE * self.interval


def self_cost_card(bill: SelfCost | None, watched: Watched, problems: Sequence[str]) -> Card:
    """Draw the watch's standing, then the calls, their cost, and those that the budget stopped."""
    blocks: list[Block] = [
        _watch(watched),
        *(_bill(bill) if bill else [quiet("No AWS account is being read, so no calls are made.")]),
    ]
    blocks += [quiet("• ", problem) for problem in problems[:5]]
    blocks += [quiet(f"and {len(problems) - 5} more; type: about")] if len(problems) > 5 else []
    stopped = _stopping(bill) if bill else False
    title = (
        f"Own AWS calls: {_cents(bill.usd)} today, about {usd(bill.month_usd)} a month"
        if bill
        else "Status of the watch"
    )
    data = {
        "bill": _bill_data(bill) if bill else None,
        "watch": _watch_data(watched),
        "problems": list(problems),
    }
    return Card(
        title,
        Tone.WARNING if watched.late or stopped or problems else Tone.GOOD,
        tuple(blocks),
        data,
    )


def _watch(watched: Watched) -> Facts:
    age = (
        f"{duration_text(watched.now - watched.ticked_at)} ago{', late' if watched.late else ''}"
        if watched.ticked_at
        else "none yet"
    )
    facts = [
        (name.replace("_", " "), _word(value))
        for name, value in watched.facts.items()
        if value not in (None, "", (), [])
    ]
    return Facts(
        (("last whole tick", age), ("a tick every", duration_text(watched.interval)), *facts)
    )


def _word(value: Any) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _bill(bill: SelfCost) -> list[Block]:
    rows = sorted(bill.uses, key=lambda use: (-use.usd, -use.calls, use.operation))
    total = (
        "total",
        f"{sum(x.calls for x in rows):,}",
        "",
        _cents(bill.usd),
        f"{sum(x.failed for x in rows):,}",
        _stopped(rows),
    )
    rest = f"and {len(rows) - _MOST} more calls, all cheaper" if len(rows) > _MOST else ""
    table = Table(_COLUMNS, tuple(_row(use) for use in rows[:_MOST]), total, rest=rest)
    dates = sorted({use.asof for use in rows if use.asof})
    priced = f" at list prices of {dates[0]}" if dates else ""
    tried = f" {bill.retries:,} attempts were retries; {bill.throttled:,} calls were abandoned because of throttling."
    note = quiet(
        f"Estimated from the calls counted here{priced}; free tiers are not deducted.", tried
    )
    return [table, _budget(bill), note]


def _budget(bill: SelfCost) -> Block:
    if bill.budget_usd is None:
        return quiet("No budget is set (TRNBOT_AWS_BUDGET), so no calls are stopped.")
    share = bill.usd / bill.budget_usd * 100 if bill.budget_usd else Decimal(100)
    order = "; ".join(f"at {percent} %: {_named(names)}" for percent, names in bill.stops)
    return text(
        Strong(f"{share:.0f} % of today's budget of {usd(bill.budget_usd)} is used."),
        f" Calls stop in this order: {order}. Metrics and inventory never stop.",
    )


def _stopping(bill: SelfCost) -> bool:
    """Tell whether the budget stops anything today."""
    percent = (
        bill.usd / bill.budget_usd * 100
        if bill.budget_usd
        else Decimal(0 if bill.budget_usd is None else 100)
    )
    return any(use.stopped for use in bill.uses) or any(percent >= at for at, _ in bill.stops)


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _row(use: CallUse) -> tuple[str, ...]:
    billed = f"{use.units:,} {use.unit}{'' if use.units == 1 else 's'}" if use.price_usd else "free"
    return (
        use.operation,
        f"{use.calls:,}",
        billed,
        _cents(use.usd) if use.price_usd else "–",
        _count(use.failed),
        _count(use.stopped),
    )


def _stopped(rows: Sequence[CallUse]) -> str:
    return f"{sum(x.stopped for x in rows):,}"


def _count(n: int) -> str:
    return f"{n:,}" if n else "–"


def _cents(amount: Decimal) -> str:
    """Write small amounts so that they can be told from nothing."""
    if 0 < amount < Decimal("0.0001"):
        return "< $0.0001"
    return usd(amount, 4) if 0 < amount < Decimal("0.1") else usd(amount)


def _bill_data(bill: SelfCost) -> dict[str, Any]:
    return {
        "day": bill.day,
        "usd": bill.usd,
        "month_usd": bill.month_usd,
        "budget_usd": bill.budget_usd,
        "retries": bill.retries,
        "throttled": bill.throttled,
        "estimated": True,
        "calls": [vars(use) for use in bill.uses],
        "days": [{"day": day, "usd": amount} for day, amount in bill.days],
    }


def _watch_data(watched: Watched) -> dict[str, Any]:
    lag = (watched.now - watched.ticked_at).total_seconds() if watched.ticked_at else None
    return {
        "ticked_at": watched.ticked_at,
        "lag_seconds": lag,
        "late": watched.late,
        **watched.facts,
    }


_SELF_FIGURES = {
    "watch/lag_seconds": "now - the time of the last whole tick",
    "bill/usd": "sum over today's calls of their number x the list price of each",
    "bill/month_usd": (
        "a day's calls at the pace of the last whole day, else of today so far, over a month"
    ),
    "bill/budget_usd": "the setting TRNBOT_AWS_BUDGET",
    "bill/*": "counted by the bot",
    "calls/*": "counted by the bot; the price is a dated list price",
    "days/usd": "sum over that day's calls of their number x the list price of each",
    "watch/*": "counted by this process",
}


@command(
    "self",
    "The cost of the bot's own AWS calls, and the status of its watch.",
    needs=Needs.STATE | Needs.METRICS,
    topic=Topic.COSTS,
    examples=("self",),
    figures=_SELF_FIGURES,
)
async def self_(ports: Ports, request: Request) -> Card:
    """Tell the bot's own bill by API with its budget, and the last tick, its age and the ticks that were missed."""
    bill = await asyncio.to_thread(ports.site.self_cost)
    memory = await asyncio.to_thread(ports.stores.alerts.load, request.at)
    facts = {name: value for name, value in ports.site.health().items() if name not in _SAID}
    return self_cost_card(
        bill,
        Watched(memory.ticked_at, request.at, ports.site.interval, facts),
        await asyncio.to_thread(ports.world.source.problems),
    )


_SAID = ("ticked_at", "ok", "open_alerts", "usd_per_hour")
"""What stands elsewhere on the card, or is about the fleet."""
