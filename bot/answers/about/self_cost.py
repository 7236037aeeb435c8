"""Answer the cost of the bot itself at AWS, and how its watch stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from bot.cards.card import Block, Card, Facts, Strong, Tone, compose, quiet, text
from bot.cards.columns import COUNT, NUMBER, Column, Columns, Unit
from bot.grammar.registry import Needs, Topic, command
from bot.model.money import counted, usd
from bot.model.notification import Known
from bot.model.price import CallUse, SelfCost
from bot.model.request import Request
from bot.model.window import calendar_day, duration_text
from bot.ports import Ports
from bot.watch.health import by_process

_LATE = 2
"""Intervals without a tick from which the watch is late."""
_MOST = 20
_NAMED = 4


@dataclass(frozen=True)
class Watched:
    """Hold how the watch stands.

    The last complete tick, now, the interval, and the counters of this process.
    """

    ticked_at: datetime | None
    now: datetime
    interval: timedelta
    facts: Mapping[str, Any]

    @property
    def late(self) -> bool:
        """Return whether the last tick is older than it should be."""
        return self.ticked_at is not None and self.now - self.ticked_at > _LATE * self.interval


def self_cost_card(bill: SelfCost | None, watched: Watched, problems: Sequence[str]) -> Card:
    """Draw the watch's standing, then the calls, their cost, and those that the budget stopped."""
    age, lag = "none yet", None
    if watched.ticked_at:
        lag = watched.now - watched.ticked_at
        age = f"{duration_text(lag)} ago{', late' if watched.late else ''}"
    facts = [("last complete tick", age), ("a tick every", duration_text(watched.interval))]
    facts += [
        (
            name.replace("_", " "),
            f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value),
        )
        for name, value in watched.facts.items()
        if value not in (None, "", (), []) and name != "clusters"
    ]
    facts += by_process(watched.facts.get("clusters", ())).items()

    title, stopped = "Status of the watch", False
    unknown = watched.facts.get("known") == Known.UNKNOWN
    calls: Sequence[Block] = (quiet("No AWS account is being read, so no calls are made."),)
    if bill:
        today = f"{_cents(bill.usd)} today, about {usd(bill.month_usd)} a month"
        title, calls = f"Own AWS calls: {today}", _calls(bill)
        used = _used(bill)
        # From that share on calls are not made, though none may have been due since.
        stopped = any(used >= percent for percent, _ in bill.stops)
        stopped = stopped or any(use.stopped for use in bill.uses)

    return Card(
        title,
        Tone.WARNING if watched.late or stopped or problems or unknown else Tone.GOOD,
        compose(
            Facts(tuple(facts)),
            calls,
            [quiet("• ", problem) for problem in problems[:5]],
            len(problems) > 5 and quiet(f"and {len(problems) - 5} more; type: about"),
        ),
        {
            "bill": {
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
            if bill
            else None,
            "watch": {
                "ticked_at": watched.ticked_at,
                "lag_seconds": None if lag is None else lag.total_seconds(),
                "late": watched.late,
                **watched.facts,
            },
            "problems": list(problems),
        },
    )


def _calls(bill: SelfCost) -> tuple[Block, ...]:
    """Draw the calls, the dearest first, and what the budget stops in which order."""
    uses = sorted(bill.uses, key=lambda use: (-use.usd, -use.calls, use.operation))
    calls, failed, stopped = (
        f"{sum(getattr(use, name) for use in uses):,}" for name in ("calls", "failed", "stopped")
    )

    if bill.budget_usd is None:
        budget = quiet("No budget is set (TRNBOT_AWS_BUDGET), so no calls are stopped.")
    else:
        stops = []
        for percent, names in bill.stops:
            others = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            stops.append(f"at {percent} %: {', '.join(names[:_NAMED])}{others}")
        budget = text(
            Strong(f"{_used(bill):.0f} % of today's budget of {usd(bill.budget_usd)} is used."),
            f" Calls stop in this order: {'; '.join(stops)}. Metrics and inventory never stop.",
        )

    oldest = min((use.asof for use in uses if use.asof), default="")
    priced = f" at list prices of {calendar_day(date.fromisoformat(oldest))}" if oldest else ""

    return (
        replace(
            _CALLS.table(uses, most=_MOST, rest="and {} more calls, all cheaper"),
            total=("total", calls, "", _cents(bill.usd), failed, stopped),
        ),
        budget,
        quiet(
            f"Estimated from the calls counted here{priced}; free tiers are not deducted.",
            f" Retries: {bill.retries:,}; calls abandoned because of throttling: {bill.throttled:,}.",
        ),
    )


def _used(bill: SelfCost) -> Decimal:
    """Return the percent of today's budget that is used: all of one of nothing, 0 without one."""
    if bill.budget_usd is None:
        return Decimal(0)
    return bill.usd / bill.budget_usd * 100 if bill.budget_usd else Decimal(100)


def _cents(amount: Decimal) -> str:
    """Write small amounts so that they can be told from nothing."""
    if 0 < amount < Decimal("0.0001"):
        return "< $0.0001"
    return usd(amount, 4) if 0 < amount < Decimal("0.1") else usd(amount)


_CALLS = Columns[CallUse](
    Column("AWS call", lambda use: use.operation),
    Column("calls", lambda use: use.calls, COUNT),
    Column(
        "billed",
        lambda use: counted(use.units, use.unit) if use.price_usd else None,
        NUMBER,
        missing="free",
    ),
    Column("$ today", lambda use: use.usd if use.price_usd else None, Unit(_cents)),
    Column("failed", lambda use: use.failed or None, COUNT),
    Column("stopped", lambda use: use.stopped or None, COUNT),
)


@command(
    "self",
    "The cost of the bot's own AWS calls, and the status of its watch.",
    needs=Needs.STATE | Needs.METRICS,
    topic=Topic.COSTS,
    examples=("self",),
    figures={
        "watch/lag_seconds": "now - the time of the last complete tick",
        "bill/usd": "sum over today's calls of their number x the list price of each",
        "bill/month_usd": (
            "a day's calls at the pace of the last whole day, else of today so far, over a month"
        ),
        "bill/budget_usd": "the setting TRNBOT_AWS_BUDGET",
        "bill/*": "counted by the bot",
        "calls/*": "counted by the bot; the price is a dated list price",
        "days/usd": "sum over that day's calls of their number x the list price of each",
        "watch/*": "counted by this process",
    },
)
def self_(ports: Ports, request: Request) -> Card:
    """Tell the bot's own bill by API with its budget, and how its last ticks went."""
    site = ports.site
    facts = {name: value for name, value in site.health().items() if name not in _ELSEWHERE}

    return self_cost_card(
        site.self_cost(),
        Watched(ports.stores.alerts.load(request.at).ticked_at, request.at, site.interval, facts),
        ports.world.source.problems(),
    )


_ELSEWHERE = ("ticked_at", "ok", "open_alerts", "usd_per_hour")
"""What stands elsewhere on the card, or is about the fleet."""
