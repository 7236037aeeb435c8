"""Answer the price of an hour of a type, and the dated facts about the next chips."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import groupby
from typing import Any

from bot.cards.card import Align, Block, Button, Buttons, Card, Heading, Table, Tone, quiet, text
from bot.cards.words import PriceAge, cited, note_lines, notes_data
from bot.costs.pricing import HOURS_A_MONTH, Offers, Pricing
from bot.errors import Unavailable, WrongInput
from bot.grammar.names import known_region, known_type
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.claims import Chip, Note
from bot.model.fleet import InstanceType, Market
from bot.model.labels import Labels
from bot.model.money import cents, counted, usd
from bot.model.price import Basis, Price
from bot.model.request import Request
from bot.ports import Ports


@dataclass(frozen=True)
class Waiting:
    """State both ways for the same work.

    USD and months, and the most an hour of a Trainium3 chip may cost, Trainium2 = 1.
    """

    speedup: float
    now_usd: Decimal
    now_months: Decimal
    later_months: Decimal
    """Waiting included."""
    later_usd: Decimal
    """At the same price an hour of a chip, and with what the delay costs."""
    delay_usd: Decimal
    most_price_ratio: Decimal
    """The price of an hour of a chip, as a multiple of today's, up to which waiting costs no more."""

    @property
    def waits(self) -> bool:
        """Tell whether waiting is cheaper at the same price."""
        return self.later_usd < self.now_usd


@dataclass(frozen=True)
class WaitTerms:
    """State `months` of work at `bill_usd` a month on today's chip, the months of the wait, and the USD of a month of delay."""

    months: Decimal
    bill_usd: Decimal
    wait_months: Decimal
    delay_usd: Decimal
    precision: str = "bf16"


def waiting(now: Chip, later: Chip, terms: WaitTerms) -> Waiting:
    """Return both ways to do the work."""
    peaks = (
        (now.fp8_tflops, later.fp8_tflops)
        if terms.precision == "fp8"
        else (now.bf16_tflops, later.bf16_tflops)
    )
    speed = Decimal(str(peaks[1])) / Decimal(str(peaks[0]))
    months, bill = terms.months, terms.months * terms.bill_usd
    today, work = cents(bill), bill / speed
    end = terms.wait_months + months / speed
    delay = cents(max(Decimal(0), end - months) * terms.delay_usd)
    ratio = max(Decimal(0), (today - delay) / work) if work else Decimal(0)
    return Waiting(
        round(float(speed), 4),
        today,
        months,
        end.quantize(Decimal("0.1")),
        cents(work + delay),
        delay,
        cents(ratio),
    )


_LONG_MONTHS = 6
NO_FASTER = 1.05
"""Speed-up under which two chips are called alike: trnbot's own default."""


def roadmap_card(
    notes: Sequence[Note], energy: Sequence[Note], claims: Sequence[Note], today: date
) -> Card:
    """List the facts with their state and source; contradictions stand beside each other."""
    blocks: list[Block] = [
        *note_lines(notes, today),
        *note_lines(
            energy,
            today,
            "Energy, as vendors state it: the lines contradict each other, and none is used in a calculation",
        ),
        *note_lines(claims, today, "Other claims: none is used in a calculation"),
        quiet(
            "Trn3 has no listed price: its savings are not known, only the most that it may cost ('wait')."
        ),
        Buttons((Button("Wait for Trn3?", "wait"), Button("Trainium or GPUs?", "decide"))),
    ]
    every = [*notes, *energy, *claims]
    return Card(
        "What comes after Trn2, by source", Tone.INFO, tuple(blocks), {"notes": notes_data(every)}
    )


def wait_card(comparison: Waiting, now: Chip, later: Chip, terms: WaitTerms, today: date) -> Card:
    """Compare training now with waiting; Trainium3's price is a question, not a number."""
    columns = (
        Heading("way"),
        Heading("done after", Align.RIGHT),
        Heading("costs", Align.RIGHT),
        Heading("delay's share", Align.RIGHT),
    )
    rows = (
        (f"now, {now.name}", _months(comparison.now_months), usd(comparison.now_usd), "–"),
        (
            f"wait, {later.name}",
            _months(comparison.later_months),
            usd(comparison.later_usd),
            usd(comparison.delay_usd),
        ),
    )
    caption = (
        f"The same work; {later.name} at {now.name}'s price an hour, which nobody has promised"
    )
    blocks: list[Block] = [text(_verdict(comparison, later)), Table(columns, rows, caption=caption)]
    if comparison.now_months < _LONG_MONTHS:
        blocks.append(
            text(
                f"For less than {_LONG_MONTHS} months of work the difference rarely matters: train now."
            )
        )
    blocks += [
        quiet(_speed(comparison, now, later, terms.precision, today)),
        Buttons((Button("All sources", "roadmap"),)),
    ]
    title = f"{'Waiting' if comparison.waits else 'Training now'} costs less, were {later.name} no dearer an hour"
    title = (
        f"Train now: in {terms.precision.upper()} {later.name} is no faster a chip"
        if comparison.speedup < NO_FASTER
        else title
    )
    data = {
        "precision": terms.precision,
        "speedup": comparison.speedup,
        "now_usd": comparison.now_usd,
        "wait_usd": comparison.later_usd,
        "delay_usd": comparison.delay_usd,
        "wait_months": terms.wait_months,
        "most_price_ratio": comparison.most_price_ratio,
    }
    return Card(title, Tone.INFO, tuple(blocks), data)


def _verdict(comparison: Waiting, later: Chip) -> str:
    if comparison.most_price_ratio <= 0:
        return f"The delay alone costs more than all the work: waiting for {later.name} pays at no price."
    return f"Waiting pays while an hour of a {later.name} chip costs less than {comparison.most_price_ratio}x one of today."


def _speed(comparison: Waiting, now: Chip, later: Chip, precision: str, today: date) -> str:
    name = precision.upper()
    of = (
        (now.fp8_tflops, later.fp8_tflops)
        if precision == "fp8"
        else (now.bf16_tflops, later.bf16_tflops)
    )
    peak = f"{name} peak of a chip: {of[1]:,.0f} against {of[0]:,.0f} TFLOPS, {comparison.speedup:.2f}x"
    return f"Estimated. {peak} ({cited(later, today)}; {cited(now, today)}). Nobody reaches a peak; 4.4x is a whole UltraServer."


def _months(months: Decimal) -> str:
    return f"{months.normalize():f} months"


_NOW, _LATER = "Trainium2", "Trainium3"


@command(
    "roadmap",
    "Statements by AWS and others about the next chips, with status, source and date.",
    needs=Needs.NOTHING,
    topic=Topic.PLANS,
    examples=("roadmap",),
)
async def roadmap(ports: Ports, request: Request) -> Card:
    """List the sentences of others."""
    claims = ports.world.knowledge.claims()
    return roadmap_card(
        claims.of("roadmap"), claims.of("energy"), claims.of("claim"), request.at.date()
    )


_WAIT_FIGURES = {
    "speedup": "peak of a Trainium3 chip / peak of a Trainium2 chip, in the precision",
    "now_usd": "months x bill a month",
    "delay_usd": "months later than now x cost of a month of delay",
    "wait_usd": "months x bill a month / speed + delay",
    "wait_months": "as typed",
    "most_price_ratio": "(cost now - delay) / (cost now / speed)",
}


@command(
    "wait",
    "Train on Trn2 now or wait for Trn3: the cost of each for the same work.",
    needs=Needs.NOTHING,
    topic=Topic.PLANS,
    examples=("wait", "wait months=9 bill_usd=80000 for=4 precision=fp8 delay_usd=20000"),
    figures=_WAIT_FIGURES,
)
async def wait(
    ports: Ports,
    request: Request,
    months: Decimal = arg("6", "months that the work takes on Trn2", keyword=True),
    bill_usd: Decimal = arg("20000", "USD a month on Trn2", keyword=True),
    for_: Decimal = arg("6", "months until Trn3 is available", keyword=True),
    precision: str = arg("bf16", "the training precision", choices=("bf16", "fp8"), keyword=True),
    delay_usd: Decimal = arg("0", "cost of each month of delay in USD", keyword=True),
) -> Card:
    """Compare both ways; the price of Trn3 is left open, and the most that it may be is told."""
    for name, amount, least in (
        ("months", months, Decimal("0.1")),
        ("bill_usd", bill_usd, Decimal(1)),
    ):
        if not least <= amount < 10**9:
            raise WrongInput(f"{name} is {least} or more; got {amount}.")
    if not 0 <= for_ <= 120 or not 0 <= delay_usd < 10**9:
        raise WrongInput("for is 0 to 120 months, delay_usd is 0 or more.")
    chips = {chip.name: chip for chip in ports.world.knowledge.claims().chips}
    now, later = chips[_NOW], chips[_LATER]
    terms = WaitTerms(months, bill_usd, for_, delay_usd, precision)
    return wait_card(waiting(now, later, terms), now, later, terms, request.at.date())


_R = Align.RIGHT
_MOST = 10
_NAMED = 1
"""Regions of one price that are named; the others are counted."""
_FOUNDED = list(Basis)
_WORDS = {
    Market.ON_DEMAND: "on demand",
    Market.SPOT: "spot",
    Market.CAPACITY_BLOCK: "Capacity Block",
    Market.RESERVED: "reserved (your bill)",
    Market.SAVINGS_PLAN: "Savings Plan (your bill)",
}


_PRICE_FIGURES = {
    "usd_per_hour": (
        "best-founded price of the market in the region: the account's own, else listed, "
        "offered, of last resort"
    ),
    "usd_per_chip_hour": "price of the node's hour / its chips",
    "usd_per_month": "price of an hour x the 730 hours of a month",
}


@command(
    "price",
    "The price of an hour of an instance type: on demand, spot, Capacity Block and your own rates, by region.",
    needs=Needs.METRICS,
    may=Needs.BILL | Needs.STATE,
    topic=Topic.COSTS,
    examples=("price trn1.32xlarge", "price trn2.48xlarge region=us-east-2"),
    figures=_PRICE_FIGURES,
)
async def price(
    ports: Ports,
    request: Request,
    instance_type: str = arg(None, "the instance type"),
    region: str = arg("", "only this region", keyword=True),
) -> Card:
    """List every price, on demand first; in each market the best founded first, then the cheapest."""
    return await asyncio.to_thread(_answer, ports, request, instance_type, region)


def _answer(ports: Ports, request: Request, name: str, region: str) -> Card:
    kind, region = known_type(name, ports.world.knowledge.types()), known_region(region, ports)
    offers = Offers(Pricing(ports).at(request.at))
    prices = list(_prices(offers, kind.name, region))
    if not prices:
        raise Unavailable(f"No price of {kind.name} is known{f' in {region}' if region else ''}.")
    stale = ports.policy.at(Labels()).number("advice.stale_days")
    return price_card(kind, prices, PriceAge(request.at.date(), stale))


def _prices(offers: Offers, name: str, region: str) -> Iterator[Price]:
    for market in _WORDS:
        here = [
            offers.here(name, market, one)
            for one in offers.regions(name, market)
            if region in ("", one)
        ]
        yield from sorted(
            (one for one in here if one),
            key=lambda one: (_FOUNDED.index(one.basis), one.usd_per_hour, one.region),
        )


def price_card(kind: InstanceType, prices: Sequence[Price], age: PriceAge) -> Card:
    """Draw the prices; `data` holds every one, the table the first."""
    first = prices[0]
    title = (
        f"{kind.name}: {usd(first.usd_per_hour)} an hour, {_WORDS[first.market]}, {first.region}"
    )
    columns = (
        Heading("bought"),
        Heading("region"),
        Heading("node $/h", _R),
        Heading("chip $/h", _R),
        Heading("a month", _R),
        Heading("price of"),
    )
    alike = [
        list(each)
        for _, each in groupby(prices, key=lambda x: (x.market, x.usd_per_hour, x.basis, x.asof))
    ]
    rows = tuple(_row(each, kind, age) for each in alike[:_MOST])
    rest = f"and {counted(len(alike) - _MOST, 'more price')}" if len(alike) > _MOST else ""
    note = quiet(
        f"{kind.chips} × {kind.accelerator} a node; a month has {HOURS_A_MONTH} hours; without tax, storage and transfer."
    )
    more = (
        Button("Spot", f"spot {kind.name}"),
        Button("Capacity", f"capacity {kind.name}"),
        Button("Quotas", f"quota {kind.name}"),
    )
    return Card(
        title,
        Tone.INFO,
        (Table(columns, rows, rest=rest), note, Buttons(more)),
        _data(kind, prices),
    )


def _row(alike: Sequence[Price], kind: InstanceType, age: PriceAge) -> tuple[str, ...]:
    """Write a price once for the regions in which it is the same."""
    each = alike[0]
    regions = ", ".join(one.region for one in alike[:_NAMED]) + (
        f" and {len(alike) - _NAMED} more" if len(alike) > _NAMED else ""
    )
    amounts = (each.usd_per_hour, _of_chip(each, kind), each.usd_per_hour * HOURS_A_MONTH)
    return (
        _WORDS[each.market],
        regions,
        *(usd(amount) for amount in amounts),
        f"{each.asof}, {each.basis}{age.of(each.asof)}",
    )


def _of_chip(each: Price, kind: InstanceType) -> Decimal:
    return round(each.usd_per_hour / kind.chips, 4)


def _data(kind: InstanceType, prices: Sequence[Price]) -> dict[str, Any]:
    rows = [
        {
            "market": each.market.value,
            "region": each.region,
            "usd_per_hour": each.usd_per_hour,
            "usd_per_chip_hour": _of_chip(each, kind),
            "usd_per_month": each.usd_per_hour * HOURS_A_MONTH,
            "basis": each.basis.value,
            "asof": each.asof,
        }
        for each in prices
    ]
    return {"instance_type": kind.name, "prices": rows}
