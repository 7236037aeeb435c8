"""Answer whether the estimates of past months held: each beside its final cost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from bot.answers.registry import Needs, arg, command
from bot.cards.card import Align, Block, Button, Buttons, Card, Column, Table, Tone, quiet, text
from bot.cards.money import money_data
from bot.cards.words import about, day
from bot.costs.reconcile import Reconciled, reconciled
from bot.model.counts import counted
from bot.model.money import usd
from bot.model.request import Request
from bot.model.window import Window
from bot.ports import Ports

_COLUMNS = (
    Column("month"),
    Column("estimate", Align.RIGHT),
    Column("made"),
    Column("knew to"),
    Column("amortised", Align.RIGHT),
    Column("difference", Align.RIGHT),
    Column("net", Align.RIGHT),
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
