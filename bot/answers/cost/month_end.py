"""Answer where the month ends, and whether the estimates of past months held."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from bot.answers.cost.title import FORECAST_FIGURES, forecast_data, range_words, refuse_unknown
from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    Card,
    Facts,
    Heading,
    Table,
    Text,
    Tone,
    When,
    quiet,
    text,
)
from bot.cards.words import MONEY_FIGURES, about, amount_in, clock, day, money_data, period
from bot.costs.allocation import Allocation
from bot.costs.nowcast import Expected, Nowcast, expected, forecast_month, running_of
from bot.costs.reconcile import Reconciled, reconciled
from bot.errors import Unavailable
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.money import counted, usd
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
    figures={
        **FORECAST_FIGURES,
        "spent_usd": "settled days of the month, and fees at their day",
        "last_month/amortised_usd": "amortised cost of the month before this one",
    },
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


_COLUMNS = (
    Heading("month"),
    Heading("estimate", Align.RIGHT),
    Heading("made"),
    Heading("knew to"),
    Heading("amortised", Align.RIGHT),
    Heading("difference", Align.RIGHT),
    Heading("net", Align.RIGHT),
)
_HOW = (
    "The estimate is of the whole month's amortised cost, made about its middle from what was billed before the day named; "
    "net is what the invoice says. Difference: final less estimated. “again” stands where nobody asked then: the estimate is "
    "made from the figures that the bill now has of the days before."
)


def reconcile_card(comparisons: Sequence[Reconciled], now: datetime) -> Card:
    """List the months, oldest first."""
    billed = [
        comparison
        for comparison in comparisons
        if comparison.money.amortised or comparison.money.net or comparison.estimate
    ]
    closed = [comparison for comparison in billed if comparison.difference is not None]
    data = {"months": [_data(comparison) for comparison in billed]}
    if not billed:
        return Card(
            "The bill has no month in that window",
            Tone.INFO,
            (text("Try another window, such as this-year."),),
            data,
        )
    open_ = [text(_so_far(each)) for each in billed if not each.final and each.estimate]
    blocks: list[Block] = [
        Table(_COLUMNS, tuple(_row(comparison, now) for comparison in billed)),
        *open_,
        quiet(_HOW),
    ]
    held = sum(bool(comparison.within) for comparison in closed)
    if closed:
        blocks.insert(
            0,
            text(
                f"{held} of {counted(len(closed), 'closed month')} ended within the range of {_its(closed)} estimate."
            ),
        )
    return Card(
        _title(closed),
        Tone.INFO,
        (*blocks, Buttons((Button("This month", "cost mtd by line"),))),
        data,
    )


def _its(closed: Sequence[Reconciled]) -> str:
    return "its" if len(closed) == 1 else "their"


def _title(closed: Sequence[Reconciled]) -> str:
    if not closed:
        return "No closed month has an estimate to compare"
    last = closed[-1]
    assert last.difference is not None
    return f"{last.month.start:%B %Y} cost {_signed(last.difference)}{_percent(last.ratio)} against its estimate"


def _so_far(comparison: Reconciled) -> str:
    """Say which part of the estimate of a month that is not final was one, and how the hours since compare."""
    estimate = comparison.estimate
    assert estimate
    name = f"{comparison.month.start:%B %Y} is not final."
    if estimate.settled is None or estimate.spent is None:
        return f"{name} What its estimate of {day(estimate.at)} rests on was not kept."
    rest = estimate.forecast - estimate.spent
    knew = f"{usd(estimate.spent)} was billed before {day(estimate.settled)}"
    told = f"{name} Of its estimate, {knew}, and {about(rest)} was estimated."
    so_far = comparison.so_far
    if so_far is None:
        return f"{told} No day has settled since: there is nothing to compare yet."
    against = f"expected {usd(so_far.estimated)}, billed {usd(so_far.billed)}"
    return f"{told} Before {day(so_far.end)}: {against}, {_signed(so_far.difference)}{_percent(so_far.ratio)}."


def _row(comparison: Reconciled, now: datetime) -> tuple[str, ...]:
    estimate = comparison.estimate
    again = (
        ""
        if estimate is None or estimate.remembered
        else ", now"
        if estimate.at == now
        else ", again"
    )
    estimated = f"{day(estimate.at)}{again}" if estimate else "–"
    difference = (
        f"{_signed(comparison.difference)}{_percent(comparison.ratio)}"
        if comparison.difference is not None
        else _unknown(comparison)
    )
    knew = day(estimate.settled) if estimate and estimate.settled else "–"
    guess = f"{about(estimate.forecast)}" if estimate else "–"
    amortised = f"{'' if comparison.final else '~'}{usd(comparison.money.amortised)}"
    return (
        f"{comparison.month.start:%Y-%m}",
        guess,
        estimated,
        knew,
        amortised,
        difference,
        f"{'' if comparison.final else '~'}{usd(comparison.money.net)}",
    )


def _unknown(comparison: Reconciled) -> str:
    return "no estimate" if comparison.final else "not final"


def _signed(amount: Decimal) -> str:
    return f"{'+' if amount > 0 else ''}{usd(amount)}"


def _percent(ratio: Decimal | None) -> str:
    return "" if ratio is None else f" ({ratio * 100:+.1f} %)"


def _data(comparison: Reconciled) -> dict[str, object]:
    estimate = comparison.estimate
    estimated = estimate and {
        "at": estimate.at,
        "amortised_usd": estimate.forecast,
        "low_usd": estimate.low,
        "high_usd": estimate.high,
        "remembered": estimate.remembered,
        "settled_until": estimate.settled,
        "billed_usd": estimate.spent,
        "estimated_usd": None if estimate.spent is None else estimate.forecast - estimate.spent,
    }
    so_far = comparison.so_far and {
        "until": comparison.so_far.end,
        "estimated_usd": comparison.so_far.estimated,
        "billed_usd": comparison.so_far.billed,
        "difference_usd": comparison.so_far.difference,
    }
    return {
        "month": f"{comparison.month.start:%Y-%m}",
        "final": comparison.final,
        "estimate": estimated,
        **money_data(comparison.money),
        "difference_usd": comparison.difference,
        "difference_ratio": None if comparison.ratio is None else round(float(comparison.ratio), 4),
        "within_range": comparison.within,
        "so_far": so_far,
    }


@command(
    "reconcile",
    "Each month's estimate against its final cost.",
    needs=Needs.BILL | Needs.STATE,
    examples=("reconcile", "reconcile this-year"),
    figures={
        **MONEY_FIGURES,
        "estimate/amortised_usd": (
            "the forecast of the month's end as it was kept, or as it is made again from the "
            "days that had settled by then"
        ),
        "estimate/low_usd": "the low end of that forecast's range",
        "estimate/high_usd": "the high end of that forecast's range",
        "estimate/billed_usd": (
            "of it, amortised cost of the month up to the midnight before which the bill it "
            "knew had settled"
        ),
        "estimate/estimated_usd": "the forecast less what was billed by then",
        "so_far/estimated_usd": (
            "what the estimate held of the settled days since: billed by then + its rest x the "
            "share of its hours that have settled"
        ),
        "so_far/billed_usd": "amortised cost of the month's settled days",
        "so_far/difference_usd": "billed less estimated over the same hours",
        "difference_usd": "final amortised cost - estimate",
        "difference_ratio": "(final amortised cost - estimate) / final amortised cost",
    },
)
async def reconcile(
    ports: Ports,
    request: Request,
    window: Window = arg("90d", "compare every month that this window touches"),
) -> Card:
    """Print the difference for every month that AWS has closed."""
    return reconcile_card(
        await asyncio.to_thread(
            reconciled, ports.world.billing, ports.stores.documents, window, request.at
        ),
        request.at,
    )
