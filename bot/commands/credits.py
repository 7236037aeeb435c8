"""Answer what credits paid, how long they last, and which programmes there are."""

from __future__ import annotations

import asyncio
from datetime import date
from decimal import Decimal

from bot.advice.credits import burn_down
from bot.cards.card import Card
from bot.cards.credits import credits_card
from bot.commands.registry import arg, command
from bot.costs.tally import settled_until
from bot.errors import Unavailable, WrongInput
from bot.model.request import Request
from bot.model.spend import Tally
from bot.model.window import Window
from bot.ports import Ports

_BURN = "14d"


@command(
    "credits",
    "What credits paid, when they are gone, and which programmes there are.",
    examples=("credits", "credits 30d balance=50000"),
)
async def credits_(
    ports: Ports,
    request: Request,
    window: Window = arg("mtd", "which days"),
    balance: Decimal | None = arg("", "what is left, in USD, as the billing console shows it", keyword=True),
) -> Card:
    """Sum gross, credits and net apart, and divide what is left by the rate of settled days."""
    if balance is not None and not 0 <= balance < 10**12:
        raise WrongInput(f"balance is an amount of USD, such as 50000; got {balance}.")
    return await asyncio.to_thread(_answer, ports, request, window, balance)


def _answer(ports: Ports, request: Request, window: Window, balance: Decimal | None) -> Card:
    programmes = ports.knowledge.claims().programmes
    try:
        tally: Tally | None = ports.billing.tally(window, ())
        days = ports.billing.tally(Window.parse(_BURN, request.at), ("day",))
    except Unavailable:
        return credits_card(None, None, programmes)
    until = min(days.billed_through, request.at) if days.billed_through else request.at
    daily = {date.fromisoformat(row.key["day"]): row.money.credits for row in days.rows}
    return credits_card(tally, burn_down(daily, settled_until(until).date(), balance), programmes)
