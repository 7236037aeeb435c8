"""Answer the price of an hour of a type, and the dated facts about the next chips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import groupby

from bot.answers.runs.costed import VERDICT
from bot.cards.card import Button, Buttons, Card, Heading, Table, Tone, compose, quiet, text
from bot.cards.columns import USD, Column, Columns, Unit
from bot.cards.words import PriceAge, cited, few, growth, note_lines
from bot.costs.pricing import HOURS_A_MONTH, Offers, Pricing
from bot.costs.verdict import Verdict
from bot.errors import Unavailable, refuse
from bot.grammar.names import known_region, known_type
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.claims import Chip, ClaimKind, Note, SpeedUp
from bot.model.fleet import InstanceType, Market
from bot.model.money import cents, counted, usd
from bot.model.price import Basis, Price
from bot.model.request import Request
from bot.model.window import calendar_day
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
    """The price of a chip's hour, as a multiple of today's, up to which waiting costs no more."""


@dataclass(frozen=True)
class WaitTerms:
    """State the work on today's chip, how long the next one is waited for, and a delay's cost.

    `months` of work at `bill_usd` each; `delay_usd` is what a month of delay costs.
    """

    months: Decimal
    bill_usd: Decimal
    wait_months: Decimal
    delay_usd: Decimal
    precision: str = "bf16"


def waiting(now: Chip, later: Chip, terms: WaitTerms) -> Waiting:
    """Return both ways to do the work."""
    today_tflops, later_tflops = (_tflops(chip, terms.precision) for chip in (now, later))
    speed = Decimal(str(later_tflops)) / Decimal(str(today_tflops))
    months, bill = terms.months, terms.months * terms.bill_usd
    today, work = cents(bill), bill / speed
    end = terms.wait_months + months / speed
    delay = cents(max(Decimal(0), end - months) * terms.delay_usd)
    # At this price of an hour, work and delay together cost what the work costs today.
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


def _tflops(chip: Chip, precision: str) -> float:
    return chip.fp8_tflops if precision == "fp8" else chip.bf16_tflops


_LONG_MONTHS = 6
NO_FASTER = 1.05
"""Speed-up under which two chips are called alike: trnbot's own default."""


def roadmap_card(
    notes: Sequence[Note], energy: Sequence[Note], claims: Sequence[Note], today: date
) -> Card:
    """List the facts with their state and source; contradictions stand beside each other."""
    return Card(
        "What comes after Trn2, by source",
        Tone.INFO,
        compose(
            note_lines(notes, today),
            note_lines(
                energy,
                today,
                "Energy, as vendors state it: the lines contradict each other, and none is used in"
                " a calculation",
            ),
            note_lines(claims, today, "Other claims: none is used in a calculation"),
            quiet(
                "Trn3 has no listed price: its savings are not known, only the most that it may"
                " cost ('wait')."
            ),
            Buttons((Button("Wait for Trn3?", "wait"), Button("Trainium or GPUs?", "decide"))),
        ),
        {
            "notes": [
                {
                    "topic": note.topic,
                    "subject": note.subject,
                    "says": note.says,
                    "state": note.state,
                    "source": note.source,
                    "asof": note.asof,
                }
                for note in (*notes, *energy, *claims)
            ]
        },
    )


def wait_card(comparison: Waiting, now: Chip, later: Chip, terms: WaitTerms, today: date) -> Card:
    """Compare training now with waiting; Trainium3's price is a question, not a number."""
    name = terms.precision.upper()
    today_tflops, later_tflops = (_tflops(chip, terms.precision) for chip in (now, later))
    if comparison.most_price_ratio <= 0:
        verdict = (
            f"The delay alone costs more than all the work: waiting for {later.name} does not pay"
            " at any price."
        )
    else:
        verdict = (
            f"Waiting pays while an hour of a {later.name} chip costs less than"
            f" {comparison.most_price_ratio}x one of today."
        )

    if comparison.speedup < NO_FASTER:
        title = f"Train now: in {name} a {later.name} chip is no faster"
    else:
        way = "Waiting" if comparison.later_usd < comparison.now_usd else "Training now"
        title = f"{way} costs less, if {later.name} costs no more an hour"

    columns = Columns[tuple[str, Decimal, Decimal, Decimal | None]](
        Column("way", lambda way: way[0]),
        Column("done after", lambda way: way[1], Unit(lambda x: f"{x.normalize():f} months")),
        Column("costs", lambda way: way[2], USD),
        Column("delay's share", lambda way: way[3], USD),
    )
    delayed = (comparison.later_months, comparison.later_usd, comparison.delay_usd)
    ways = (
        (f"now, {now.name}", comparison.now_months, comparison.now_usd, None),
        (f"wait, {later.name}", *delayed),
    )

    # Nobody has set the next chip's price: the verdict that all answers share says so.
    peaks = SpeedUp(
        now.name,
        later.name,
        comparison.speedup,
        ClaimKind.PEAK,
        f"{name} peak of a chip",
        source=later.source,
        asof=min(now.asof, later.asof),
    )
    judged = Verdict(now.name, later.name, (peaks,), unknown=f"{later.name} has no price yet")

    return Card(
        title,
        Tone.INFO,
        compose(
            text(str(judged)),
            text(verdict),
            columns.table(
                ways,
                caption=f"The same work; {later.name} at {now.name}'s price an hour, which nobody"
                " has promised",
            ),
            comparison.now_months < _LONG_MONTHS
            and text(
                f"For less than {_LONG_MONTHS} months of work the difference rarely matters: train"
                " now."
            ),
            quiet(
                f"Estimated. {name} peak of a chip: {later_tflops:,.0f} against {today_tflops:,.0f}"
                f" TFLOPS, {comparison.speedup:.2f}x ({cited(later, today)}; {cited(now, today)})."
                " Nobody reaches a peak; 4.4x is a whole UltraServer."
            ),
            Buttons((Button("All sources", "roadmap"),)),
        ),
        {
            "precision": terms.precision,
            "speedup": comparison.speedup,
            "now_usd": comparison.now_usd,
            "wait_usd": comparison.later_usd,
            "delay_usd": comparison.delay_usd,
            "wait_months": terms.wait_months,
            "most_price_ratio": comparison.most_price_ratio,
            "verdict": VERDICT.record(judged),
        },
    )


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


@command(
    "wait",
    "Train on Trn2 now or wait for Trn3: the cost of each for the same work.",
    needs=Needs.NOTHING,
    topic=Topic.PLANS,
    examples=("wait", "wait months=9 bill_usd=80000 for=4 precision=fp8 delay_usd=20000"),
    figures={
        "speedup": "peak of a Trainium3 chip / peak of a Trainium2 chip, in the precision",
        "now_usd": "months x bill a month",
        "delay_usd": "months later than now x cost of a month of delay",
        "wait_usd": "months x bill a month / speed + delay",
        "wait_months": "as typed",
        "most_price_ratio": "(cost now - delay) / (cost now / speed)",
        **VERDICT.sources("verdict"),
    },
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
    refuse(
        (
            not Decimal("0.1") <= months < 10**9,
            f"months is 0.1 or more; got {months}.",
        ),
        (not 1 <= bill_usd < 10**9, f"bill_usd is 1 or more; got {bill_usd}."),
        (
            not 0 <= for_ <= 120 or not 0 <= delay_usd < 10**9,
            "for is 0 to 120 months, delay_usd is 0 or more.",
        ),
    )
    chips = {chip.name: chip for chip in ports.world.knowledge.claims().chips}
    current, later = chips["Trainium2"], chips["Trainium3"]
    terms = WaitTerms(months, bill_usd, for_, delay_usd, precision)

    return wait_card(waiting(current, later, terms), current, later, terms, request.at.date())


_MOST = 10
_WORDS = {
    Market.ON_DEMAND: "on demand",
    Market.SPOT: "spot",
    Market.CAPACITY_BLOCK: "Capacity Block",
    Market.RESERVED: "reserved (your bill)",
    Market.SAVINGS_PLAN: "Savings Plan (your bill)",
}


@command(
    "price",
    "The price of an hour of an instance type: on demand, spot, Capacity Block and your own"
    " rates, by region.",
    needs=Needs.METRICS,
    may=Needs.BILL | Needs.STATE,
    topic=Topic.COSTS,
    examples=("price trn1.32xlarge", "price trn2.48xlarge region=us-east-2"),
    figures={
        "usd_per_hour": (
            "best-founded price of the market in the region: the account's own, else listed, "
            "offered, of last resort"
        ),
        "usd_per_chip_hour": "price of the node's hour / its chips",
        "usd_per_month": "price of an hour x the 730 hours of a month",
    },
)
def price(
    ports: Ports,
    request: Request,
    instance_type: str = arg(None, "the instance type"),
    region: str = arg("", "only this region", keyword=True),
) -> Card:
    """List every price, on demand first; in each market the best founded, then the cheapest."""
    kind = known_type(instance_type, ports.world.knowledge.types())
    region = known_region(region, ports)
    offers, prices = Offers(Pricing(ports).at(request.at)), []
    for market in _WORDS:
        regions = [x for x in offers.regions(kind.name, market) if region in ("", x)]
        sold = [price for x in regions if (price := offers.here(kind.name, market, x))]
        prices += sorted(sold, key=lambda x: (list(Basis).index(x.basis), x.usd_per_hour, x.region))

    if not prices:
        raise Unavailable(f"No price of {kind.name} is known{f' in {region}' if region else ''}.")
    managed = [
        x for x in ports.world.knowledge.fallback_prices() if x.instance_type == f"ml.{kind.name}"
    ]

    return price_card(kind, prices, PriceAge.on(request.at, ports.policy), managed)


def managed_words(managed: Sequence[Price], prices: Sequence[Price]) -> str:
    """Say SageMaker's price of the same node beside plain EC2's, "" where that is not known."""
    pairs = [
        (price, plain)
        for price in managed
        for plain in prices
        if (plain.market, plain.region) == (price.market, price.region)
    ]
    if not pairs:
        return ""
    price, plain = pairs[0]
    return (
        f"SageMaker charges {usd(price.usd_per_hour, digits=2)} an hour in {price.region} for"
        f" {price.instance_type}, {growth(price.usd_per_hour / plain.usd_per_hour - 1)} more than"
        f" EC2's {usd(plain.usd_per_hour, digits=2)}"
        f" ({calendar_day(price.asof)}, {price.source}); HyperPod's list is not known here, its billed hours are."
    )


def price_card(
    kind: InstanceType, prices: Sequence[Price], age: PriceAge, managed: Sequence[Price] = ()
) -> Card:
    """Draw the prices; `data` holds every one, the table the first."""
    columns = Columns[Price](
        Column("", lambda price: price.market.value, key="market"),
        Column("", lambda price: price.region, key="region"),
        Column("node $/h", lambda price: price.usd_per_hour, USD, key="usd_per_hour"),
        Column(
            "chip $/h",
            lambda price: round(price.usd_per_hour / kind.chips, 4),
            USD,
            key="usd_per_chip_hour",
        ),
        Column(
            "a month", lambda price: price.usd_per_hour * HOURS_A_MONTH, USD, key="usd_per_month"
        ),
        Column("", lambda price: price.basis.value, key="basis"),
        Column("", lambda price: price.asof, key="asof"),
        Column(
            "price of",
            age.dated,
        ),
    )

    # A price is written once for the regions in which it is the same.
    groups = [
        list(group)
        for _, group in groupby(prices, key=lambda x: (x.market, x.usd_per_hour, x.basis, x.asof))
    ]
    rows = tuple(
        (
            _WORDS[group[0].market],
            " ".join(few([price.region for price in group], 1)),
            *columns.row(group[0]),
        )
        for group in groups[:_MOST]
    )

    hidden = len(groups) - _MOST

    first = prices[0]

    return Card(
        f"{kind.name}: {usd(first.usd_per_hour)} an hour, {_WORDS[first.market]}, {first.region}",
        Tone.INFO,
        compose(
            Table(
                (Heading("bought"), Heading("region"), *columns.headings),
                rows,
                rest=f"and {counted(hidden, 'more price')}" if hidden > 0 else "",
            ),
            quiet(
                f"{kind.chips} × {kind.accelerator} a node; a month has {HOURS_A_MONTH} hours;"
                " without tax, storage and transfer."
            ),
            quiet(words) if (words := managed_words(managed, prices)) else None,
            Buttons(
                (
                    Button("Spot", f"spot {kind.name}"),
                    Button("Capacity", f"capacity {kind.name}"),
                    Button("Quotas", f"quota {kind.name}"),
                )
            ),
        ),
        {
            "instance_type": kind.name,
            "prices": columns.data(prices),
            "sagemaker": columns.data(managed),
        },
    )
