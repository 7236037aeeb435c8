"""Answer where the month ends.

Spent so far, the forecast with its range, the provider's own, and the month before.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from decimal import Decimal

from bot.answers.cost.forecast import forecast_data, range_words
from bot.answers.cost.unknown import refuse_unknown
from bot.answers.registry import Needs, Topic, arg, command
from bot.cards.card import Button, Buttons, Card, Facts, Text, Tone, When, quiet, text
from bot.cards.money import amount_in
from bot.cards.words import about, clock, period
from bot.costs.allocation import Allocation
from bot.costs.nowcast import Expected, Nowcast, expected, forecast_month
from bot.costs.running import running_of
from bot.errors import Unavailable
from bot.model.request import Request
from bot.model.spend import Filter, Tally
from bot.model.window import Window, month_of
from bot.ports import Ports


@dataclass(frozen=True)
class MonthEnd:
    """Hold a month's end as it is forecast, and the month before."""

    nowcast: Nowcast
    expected: Expected | None
    """By the provider; None where a part of the bill is asked for, or nobody tells."""
    before: Tally
    """The month before."""
    filters: tuple[Filter, ...] = ()


@command(
    "forecast",
    "Where this month ends: spent so far, the forecast with its range, AWS's own, and last month.",
    needs=Needs.BILL,
    may=Needs.METRICS | Needs.STATE,
    topic=Topic.COSTS,
    examples=("forecast", "forecast team=vision"),
)
async def forecast(
    ports: Ports,
    request: Request,
    where: tuple[Filter, ...] = arg("", "only charges with dimension=value, or without it"),
) -> Card:
    """Forecast the month of the question."""
    return month_end_card(await asyncio.to_thread(month_end_of, ports, request, where))


def month_end_of(ports: Ports, request: Request, where: tuple[Filter, ...]) -> MonthEnd:
    """Return the forecast; raise `Unavailable` where too few days have settled. May block."""
    allocation = Allocation(ports, request.at)
    if where:
        so_far = Window(month_of(request.at).start, request.at)
        refuse_unknown(allocation, ports.world.billing, allocation.tally(so_far, (), where), where)
    running = running_of(ports, allocation.reading) if allocation.reading and not where else {}
    nowcast = forecast_month(allocation, request.at, where, running)
    if nowcast is None:
        raise Unavailable(
            "Too few days of the bill have settled for a forecast; three in a row are enough."
        )
    theirs = ports.world.outlook.forecast(request.at) if not where else None
    spent = Decimal(0)
    if theirs:
        first = Window(nowcast.month.start, max(nowcast.month.start, theirs.window.start))
        spent = allocation.tally(first, ()).total.amortised
    before = allocation.tally(nowcast.month.previous(), (), where)
    return MonthEnd(nowcast, expected(spent, theirs) if theirs else None, before, where)


def month_end_card(end: MonthEnd) -> Card:
    """Draw the forecast; the number that was asked for stands in the title."""
    nowcast, currency = end.nowcast, end.nowcast.currency
    filters = "".join(f" · {each}" for each in end.filters)
    low, middle, high = (
        _rounded(amount, currency) for amount in (nowcast.low, nowcast.forecast, nowcast.high)
    )
    title = f"About {middle} in {nowcast.month.start:%B} ({low} to {high}){filters}"
    spent = (f"Spent until {clock(nowcast.settled)} UTC", amount_in(nowcast.spent, currency))
    then, before = end.before.total.amortised, end.before.window
    facts = Facts((spent, (f"All of {period(before)}", amount_in(then, currency))))
    lead: Text = text(range_words(nowcast, end.expected, end.before))
    typed = "".join(f" {each}" for each in end.filters)
    more = (
        Button("By service", f"cost this-month by service{typed}"),
        Button("Why it changed", f"why cost this-month{typed}"),
        Button("Last month", f"cost last-month by service{typed}"),
    )
    dated = (
        [quiet("Billed through ", When(end.before.billed_through), ". Amortised.")]
        if end.before.billed_through
        else []
    )
    data = {
        "month": {"start": nowcast.month.start, "end": nowcast.month.end},
        "currency": currency,
        "spent_usd": nowcast.spent,
        "last_month": {"window": {"start": before.start, "end": before.end}, "amortised_usd": then},
        **forecast_data(nowcast, end.expected),
    }
    return Card(title, Tone.INFO, (lead, facts, *dated, Buttons(more)), data)


def _rounded(amount: Decimal, currency: str) -> str:
    return about(amount) if currency == "USD" else amount_in(amount, currency)
