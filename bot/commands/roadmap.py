"""Answer what is known of the next chips, and whether to wait for them."""

from __future__ import annotations

from decimal import Decimal

from bot.advice.wait import waiting
from bot.cards.card import Card
from bot.cards.roadmap import roadmap_card, wait_card
from bot.commands.registry import arg, command
from bot.errors import WrongInput
from bot.model.request import Request
from bot.ports import Ports

_NOW, _LATER = "Trainium2", "Trainium3"


@command("roadmap", "What AWS and others say of the next chips, with state, source and date.", examples=("roadmap",))
async def roadmap(ports: Ports, request: Request) -> Card:
    """List the sentences of others."""
    claims = ports.knowledge.claims()
    return roadmap_card(claims.of("roadmap"), claims.of("energy"), claims.of("claim"))


@command(
    "wait",
    "Train on Trn2 now, or wait for Trn3: what each costs for the same work.",
    examples=("wait", "wait months=9 bill_usd=80000 for=4 precision=fp8 delay_usd=20000"),
)
async def wait(
    ports: Ports,
    request: Request,
    months: Decimal = arg("6", "months that the work takes on Trn2", keyword=True),
    bill_usd: Decimal = arg("20000", "USD a month on Trn2", keyword=True),
    for_: Decimal = arg("6", "months until Trn3 can be had", keyword=True),
    precision: str = arg("bf16", "what it trains in", choices=("bf16", "fp8"), keyword=True),
    delay_usd: Decimal = arg("0", "what each month of delay costs, in USD", keyword=True),
) -> Card:
    """Compare both ways; the price of Trn3 is left open, and the most that it may be is told."""
    for name, amount, least in (("months", months, Decimal("0.1")), ("bill_usd", bill_usd, Decimal(1))):
        if not least <= amount < 10**9:
            raise WrongInput(f"{name} is {least} or more; got {amount}.")
    if not 0 <= for_ <= 120 or not 0 <= delay_usd < 10**9:
        raise WrongInput("for is 0 to 120 months, delay_usd is 0 or more.")
    chips = {chip.name: chip for chip in ports.knowledge.claims().chips}
    now, later = chips[_NOW], chips[_LATER]
    return wait_card(waiting(now, later, precision == "fp8", months, bill_usd, for_, delay_usd), now, later, precision, for_)
