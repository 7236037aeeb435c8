"""Show gross, credits and net apart, when credits end, and which programmes there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bot.advice.credits import Burn
from bot.cards.card import Block, Button, Buttons, Card, Facts, Strong, Text, Tone, quiet, text
from bot.cards.money import amount_of, money_data, usd
from bot.cards.words import counted, period
from bot.model.claims import Programme
from bot.model.spend import Tally


def credits_card(tally: Tally | None, burn: Burn | None, programmes: Sequence[Programme]) -> Card:
    """Draw what was used first, then what could be asked for."""
    blocks: list[Block] = []
    if tally is not None:
        blocks += [_parts(tally), _burn(burn)]
    blocks.append(text(Strong("Programmes, as others describe them")))
    blocks += [_programme(one) for one in programmes]
    blocks.append(
        quiet("Credits pay EC2 hours of trn types as well; AWS decides alone who gets them. Net hides what runs: watch gross.")
    )
    if tally is not None:
        blocks.append(
            Buttons((Button("Cost by purchase", "cost mtd by purchase"), Button("Cost by service", "cost mtd by service")))
        )
    return Card(_title(tally, burn), _tone(burn), tuple(blocks), _data(tally, burn, programmes))


def _title(tally: Tally | None, burn: Burn | None) -> str:
    if tally is None:
        return "Programmes of AWS credits"
    used = f"{amount_of(-tally.total.credits, tally)} of credits used, {period(tally.window)}"
    return f"{used}; gone about {burn.gone_on}" if burn and burn.gone_on else used


def _tone(burn: Burn | None) -> Tone:
    return (
        Tone.WARNING if burn and burn.gone_on and burn.balance is not None and burn.balance < 30 * burn.usd_per_day else Tone.INFO
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
    return Facts(tuple((name, amount_of(amount, tally)) for name, amount in pairs if amount or name in always))


def _burn(burn: Burn | None) -> Text:
    if burn is None:
        return text("Fewer than three settled days are billed, so no rate is told.")
    rate = f"{usd(burn.usd_per_day)} of credits a day over {counted(burn.days, 'settled day')} since {burn.since}."
    if burn.balance is None:
        return text(f"{rate} AWS has no API for what is left: the billing console shows it; credits balance=50000 tells the end.")
    if burn.gone_on is None:
        return text(f"{rate} {usd(burn.balance)} left; nothing burns now.")
    return text(f"{rate} {usd(burn.balance)} left lasts until about ", Strong(f"{burn.gone_on}"), ", an estimate at this rate.")


def _programme(one: Programme) -> Text:
    claim = " AWS itself does not promise it: a vendor claim." if one.kind == "vendor claim" else ""
    return text(Strong(one.name), f": {one.amount}; for {one.who}. How: {one.route}.{claim} ({one.source}, as of {one.asof})")


def _data(tally: Tally | None, burn: Burn | None, programmes: Sequence[Programme]) -> dict[str, Any]:
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
