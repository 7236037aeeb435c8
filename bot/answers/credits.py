"""Answer how much credits paid, how fast they burn, when they are gone, and which programmes there are."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from bot.answers.registry import Needs, Topic, arg, command
from bot.cards.card import Block, Button, Buttons, Card, Facts, Strong, Text, Tone, quiet, text
from bot.cards.money import amount_of, money_data
from bot.cards.notes import cited
from bot.cards.words import period
from bot.costs.tally import settled_until
from bot.errors import Unavailable, WrongInput
from bot.model.claims import Programme
from bot.model.counts import counted
from bot.model.money import cents, usd
from bot.model.request import Request
from bot.model.spend import Tally
from bot.model.window import Window
from bot.ports import Ports

_FEWEST = 3


@dataclass(frozen=True)
class Burn:
    """State the mean of credits used a day over settled days, and where given the rest and until when it lasts."""

    usd_per_day: Decimal
    days: int
    since: date
    balance: Decimal | None
    gone_on: date | None
    """None where no balance was given or nothing burns."""


def burn_down(daily: Mapping[date, Decimal], settled: date, balance: Decimal | None) -> Burn | None:
    """Return the burn over the settled days, from credits as the bill has them (negative).

    None with fewer than three days.

    `balance` is what was left at the end of the last settled day: no API of AWS tells it.
    """
    days = sorted(day for day in daily if day < settled)
    if len(days) < _FEWEST:
        return None
    each = cents(-sum((daily[day] for day in days), Decimal(0)) / len(days))
    gone = None
    if balance is not None and each > 0:
        lasts = int((balance / each).to_integral_value(ROUND_FLOOR))
        gone = settled + timedelta(days=min(lasts, 36_500))
    return Burn(each, len(days), days[0], balance, gone)


def credits_card(
    tally: Tally | None, burn: Burn | None, programmes: Sequence[Programme], today: date
) -> Card:
    """Draw the credits that were used, then the programmes that could be asked for."""
    blocks: list[Block] = []
    if tally is not None:
        blocks += [_parts(tally), _burn(burn)]
    blocks.append(text(Strong("Programmes, as others describe them")))
    blocks += [_programme(programme, today) for programme in programmes]
    blocks.append(
        quiet(
            "Credits pay EC2 hours of trn types as well; AWS alone decides who gets them. Net hides running costs: watch gross."
        )
    )
    if tally is not None:
        blocks.append(
            Buttons(
                (
                    Button("Cost by purchase", "cost mtd by purchase"),
                    Button("Cost by service", "cost mtd by service"),
                )
            )
        )
    return Card(_title(tally, burn), _tone(burn), tuple(blocks), _data(tally, burn, programmes))


def _title(tally: Tally | None, burn: Burn | None) -> str:
    if tally is None:
        return "Programmes of AWS credits"
    used = f"{amount_of(-tally.total.credits, tally)} of credits used, {period(tally.window)}"
    return f"{used}; gone about {burn.gone_on}" if burn and burn.gone_on else used


def _tone(burn: Burn | None) -> Tone:
    return (
        Tone.WARNING
        if burn
        and burn.gone_on
        and burn.balance is not None
        and burn.balance < 30 * burn.usd_per_day
        else Tone.INFO
    )


def _parts(tally: Tally) -> Facts:
    total = tally.total
    pairs = (
        ("Gross", total.gross),
        ("Discounts", total.discounts),
        ("Credits", total.credits),
        ("Tax", total.tax),
        ("Net", total.net),
    )
    always = {"Gross", "Credits", "Net"}
    return Facts(
        tuple(
            (name, amount_of(amount, tally)) for name, amount in pairs if amount or name in always
        )
    )


def _burn(burn: Burn | None) -> Text:
    if burn is None:
        return text("Fewer than three settled days are billed, so there is no rate yet.")
    rate = f"{usd(burn.usd_per_day)} of credits a day over {counted(burn.days, 'settled day')} since {burn.since}."
    if burn.balance is None:
        return text(
            f"{rate} AWS has no API for the remaining balance: take it from the billing console, "
            "and credits balance=50000 estimates when it runs out."
        )
    if burn.gone_on is None:
        return text(f"{rate} {usd(burn.balance)} left; no credits are being used now.")
    return text(
        f"{rate} {usd(burn.balance)} left lasts until about ",
        Strong(f"{burn.gone_on}"),
        " (estimated at this rate).",
    )


def _programme(programme: Programme, today: date) -> Text:
    claim = (
        " AWS itself does not promise it: a vendor claim."
        if programme.kind == "vendor claim"
        else ""
    )
    return text(
        Strong(programme.name),
        f": {programme.amount}; for {programme.who}. How: {programme.route}.{claim} ({cited(programme, today)})",
    )


def _data(
    tally: Tally | None, burn: Burn | None, programmes: Sequence[Programme]
) -> dict[str, Any]:
    return {
        "window": {"start": tally.window.start, "end": tally.window.end} if tally else None,
        "total": money_data(tally.total) if tally else None,
        "usd_per_day": burn.usd_per_day if burn else None,
        "balance_usd": burn.balance if burn else None,
        "gone_on": burn.gone_on if burn else None,
        "programmes": [
            {
                "name": x.name,
                "amount": x.amount,
                "who": x.who,
                "route": x.route,
                "kind": x.kind,
                "source": x.source,
                "asof": x.asof,
            }
            for x in programmes
        ],
    }


_BURN = timedelta(days=14)


def _whole_days(at: datetime) -> Window:
    """Return the days that the rate is of, each from its midnight on.

    A day that is cut off is no day's credits.
    """
    return Window((at - _BURN).replace(hour=0, minute=0, second=0, microsecond=0), at)


@command(
    "credits",
    "What credits paid, when they run out, and available credit programmes.",
    needs=Needs.BILL,
    topic=Topic.COSTS,
    examples=("credits", "credits 30d balance=50000"),
)
async def credits_(
    ports: Ports,
    request: Request,
    window: Window = arg("mtd", "which days"),
    balance: Decimal | None = arg(
        "", "remaining credits in USD, as the billing console shows them", keyword=True
    ),
) -> Card:
    """Sum gross, credits and net apart, and divide the rest by the rate of settled days."""
    if balance is not None and not 0 <= balance < 10**12:
        raise WrongInput(f"balance is an amount of USD, such as 50000; got {balance}.")
    return await asyncio.to_thread(_answer, ports, request, window, balance)


def _answer(ports: Ports, request: Request, window: Window, balance: Decimal | None) -> Card:
    programmes = ports.world.knowledge.claims().programmes
    try:
        tally: Tally | None = ports.world.billing.tally(window, ())
        days = ports.world.billing.tally(_whole_days(request.at), ("day",))
    except Unavailable:
        return credits_card(None, None, programmes, request.at.date())
    until = min(days.billed_through, request.at) if days.billed_through else request.at
    daily = {date.fromisoformat(row.key["day"]): row.money.credits for row in days.rows}
    return credits_card(
        tally, burn_down(daily, settled_until(until).date(), balance), programmes, request.at.date()
    )
