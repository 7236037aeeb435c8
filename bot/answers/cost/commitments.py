"""Quote commitments beside on-demand hours, and say how far credits reach."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    Card,
    Facts,
    Heading,
    Strong,
    Table,
    Text,
    Tone,
    quiet,
    text,
)
from bot.cards.words import MONEY_FIGURES, amount_of, cited, money_data, period
from bot.costs.commitments import Commitments, Weighed, on_demand_use
from bot.costs.pricing import Offers
from bot.costs.tally import settled_until
from bot.errors import Unavailable, WrongInput
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.claims import Programme
from bot.model.fleet import Market
from bot.model.money import cents, counted, usd
from bot.model.price import Price
from bot.model.request import Request
from bot.model.spend import Tally
from bot.model.window import Window
from bot.ports import Ports

_OFFERS = (
    Heading("commitment"),
    Heading("years", Align.RIGHT),
    Heading("upfront", Align.RIGHT),
    Heading("node $/h", Align.RIGHT),
    Heading("off", Align.RIGHT),
    Heading("breaks even at", Align.RIGHT),
    Heading("lately", Align.RIGHT),
)


def commitment_blocks(commitments: Commitments) -> list[Block]:
    """Draw what AWS offers for a commitment, beside on demand and what it would have saved lately."""
    if not commitments.offers:
        return [
            quiet(
                f"No rate of a Savings Plan or a reserved instance is known for {commitments.instance_type}."
            )
        ]
    what = f"{commitments.nodes} x {commitments.instance_type} in {commitments.region}"
    caption = f"Commitments to {what}, {_against(commitments.on_demand)}"
    table = Table(_OFFERS, tuple(_offer(each) for each in commitments.weighed), caption=caption)
    read = sorted({f"{x.source} of {x.asof}" for x in commitments.offers})
    return [table, text(_used(commitments)), quiet(f"Rates: {'; '.join(read)}. {_TERMS}")]


_TERMS = (
    "Node $/h spreads what is paid upfront over the term of 8,760 hours a year, all of which are paid, used or not; from “breaks "
    "even at” on, hours that run cost more on demand."
)


def _against(on_demand: Price | None) -> str:
    if on_demand is None:
        return "which has no on-demand price to set them against"
    return f"against {usd(on_demand.usd_per_hour)} an hour on demand ({on_demand.basis} of {on_demand.asof})"


def _offer(each: Weighed) -> tuple[str, ...]:
    offer, hours = each.offer, each.breakeven_hours
    off = "–" if each.off_ratio is None else f"{each.off_ratio * 100:.0f} %"
    even = "–" if hours is None else f"{hours:,} h"
    lately = (
        "–"
        if each.saved_usd is None
        else f"{'+' if each.saved_usd > 0 else ''}{usd(each.saved_usd)}"
    )
    paid = offer.payment.partition(" ")[0]
    upfront = f"{paid}: {usd(each.upfront_usd)}" if each.upfront_usd else "none"
    return (offer.plan, str(offer.years), upfront, usd(offer.usd_per_hour), off, even, lately)


def _used(commitments: Commitments) -> str:
    """Say how much of such a commitment the account's own hours would have used."""
    use = commitments.use
    if use is None:
        return "How much of it would have been used lately is not known: no bill tells the hours on demand."
    share = f"{use.ratio(commitments.nodes) * 100:.0f} %"
    nodes = f"a commitment to {counted(commitments.nodes, 'node')}"
    whose = "the account's on-demand hours, which no commitment covered"
    return f"“lately” is {period(use.window)}: {whose}, would have used {share} of {nodes}; saved (+) or lost (-)."


def commitment_data(commitments: Commitments) -> dict[str, Any]:
    """Return the same for scripts."""
    use, price = commitments.use, commitments.on_demand
    each = [
        {
            "plan": x.offer.plan,
            "years": x.offer.years,
            "payment": x.offer.payment.value,
            "usd_per_hour": x.offer.usd_per_hour,
            "upfront_usd": x.upfront_usd,
            "off_ratio": None if x.off_ratio is None else round(x.off_ratio, 4),
            "term_hours": x.offer.hours,
            "breakeven_hours": x.breakeven_hours,
            "saved_usd": x.saved_usd,
            "asof": x.offer.asof,
            "source": x.offer.source,
        }
        for x in commitments.weighed
    ]
    lately = use and {
        "since": use.window.start,
        "until": use.window.end,
        "ratio": round(use.ratio(commitments.nodes), 4),
    }
    on_demand = None if price is None else price.usd_per_hour
    return {
        "region": commitments.region,
        "on_demand_usd_per_hour": on_demand,
        "used_lately": lately,
        "offers": each,
    }


def commitments_of(
    ports: Ports, wanted: tuple[str, int], offers: Offers, at: datetime, region: str
) -> Commitments:
    """Return the offers for a type and a number of nodes in the region asked for, else that of on-demand hours. May block."""
    name, nodes = wanted
    every = ports.world.prices.commitment_offers(name, at)
    known = {offer.region for offer in every}
    priced = offers.of(name, Market.ON_DEMAND, region)
    chosen = (
        region
        if region in known
        else priced.region
        if priced and priced.region in known
        else min(known, default="")
    )
    on_demand = offers.here(name, Market.ON_DEMAND, chosen)
    use = on_demand_use(ports.world.billing, on_demand, at) if on_demand and known else None
    return Commitments(
        name, nodes, chosen, [offer for offer in every if offer.region == chosen], on_demand, use
    )


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


_CREDITS_FIGURES = {
    **MONEY_FIGURES,
    "usd_per_day": "credits of the settled days / their number, to the cent",
    "balance_usd": "as typed",
}


@command(
    "credits",
    "What credits paid, when they run out, and available credit programmes.",
    needs=Needs.BILL,
    topic=Topic.COSTS,
    examples=("credits", "credits 30d balance=50000"),
    figures=_CREDITS_FIGURES,
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
