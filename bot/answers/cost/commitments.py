"""State what is committed and how it is used, quote offers, and say how far credits and cash reach."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from bot.answers.cost.month_end import Invoice, month_end_of
from bot.answers.cost.title import CONDITIONS, money_facts, nothing_text, refuse_unknown
from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    Card,
    Facts,
    Strong,
    Text,
    Tone,
    compose,
    quiet,
    text,
)
from bot.cards.columns import COUNT, NUMBER, RATIO, USD, Column, Columns, Unit, datum
from bot.cards.lines import window_line
from bot.cards.words import MONEY_FIGURES, about, amount_of, cited, money_data, period
from bot.costs.allocation import Allocation
from bot.costs.capacity import Commitments, Weighed, on_demand_use
from bot.costs.nowcast import Nowcast
from bot.costs.pricing import HOURS_A_MONTH, Offers
from bot.costs.tally import settled_until
from bot.errors import Unavailable, WrongInput
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.alert import committed_usd_per_hour_of, usd_per_hour_of
from bot.model.claims import Programme
from bot.model.fleet import Market, Reservation
from bot.model.money import cents, counted, usd
from bot.model.request import Request
from bot.model.spend import Filter, Spend, Tally
from bot.model.window import Window, calendar_day, day, midnight
from bot.ports import Ports

_SIGNED = Unit(lambda amount: f"{'+' if amount > 0 else ''}{usd(amount)}")
OFFERS = Columns[Weighed](
    Column("commitment", lambda x: x.offer.plan, key="plan"),
    Column("years", lambda x: x.offer.years, NUMBER, "years", "the term, by AWS's offer"),
    datum("payment", lambda x: x.offer.payment.value),
    Column(
        "upfront",
        lambda x: (
            f"{x.offer.payment.partition(' ')[0]}: {usd(x.upfront_usd)}" if x.upfront_usd else None
        ),
        NUMBER,
        missing="none",
    ),
    Column(
        "node $/h",
        lambda x: x.offer.usd_per_hour,
        USD,
        "usd_per_hour",
        "the rate of the Savings Plan; of a reserved instance fee / hours of the term + "
        "what it costs by the hour",
    ),
    datum(
        "upfront_usd",
        lambda x: x.upfront_usd,
        "nodes x what one costs at the start: the fee, or of a Savings Plan rate x hours of"
        " the term x the share that is paid upfront",
    ),
    Column("off", lambda x: x.off_ratio, RATIO, "off_ratio", "1 - rate / price on demand"),
    datum("term_hours", lambda x: x.offer.hours, "years x 365 x 24"),
    Column(
        "breaks even at",
        lambda x: x.breakeven_hours,
        Unit("{:,} h".format),
        "breakeven_hours",
        "hours of the term x rate / price on demand, rounded up",
    ),
    Column(
        "lately",
        lambda x: x.saved_usd,
        _SIGNED,
        "saved_usd",
        "hours that it would have taken over x price on demand - nodes x hours of the window x"
        " rate",
    ),
    datum("asof", lambda x: x.offer.asof),
    datum("source", lambda x: x.offer.source),
)


def commitment_blocks(commitments: Commitments) -> list[Block]:
    """Draw AWS's offers beside on demand, and what each would have saved lately."""
    name, price, use = commitments.instance_type, commitments.on_demand, commitments.use
    if not commitments.offers:
        return [
            quiet(
                f"No offer of a new Savings Plan or reserved instance is known for {name}: what"
                " another commitment would cost was not read."
            )
        ]

    against = "which has no on-demand price to compare them with"
    if price:
        hour = f"{usd(price.usd_per_hour)} an hour on demand ({price.origin})"
        against = f"against {hour}"
    caption = f"Commitments to {commitments.nodes} x {name} in {commitments.region}, {against}"

    if use is None:
        lately = (
            "How much of it would have been used lately is not known: "
            "no bill shows the hours on demand."
        )
    else:
        lately = (
            f"“lately” is {period(use.window)}: the account's on-demand hours, which no commitment "
            f"covered, would have used {use.ratio(commitments.nodes) * 100:.0f} % of a commitment "
            f"to {counted(commitments.nodes, 'node')}; saved (+) or lost (-)."
        )

    sources = sorted(
        {f"{offer.source} of {calendar_day(offer.asof)}" for offer in commitments.offers}
    )

    return [
        OFFERS.table(commitments.weighed, caption=caption),
        text(lately),
        quiet(
            f"Rates: {'; '.join(sources)}. Node $/h spreads the upfront payment over the term:"
            " 8,760 hours a year, all paid, used or not. Above “breaks even at”, running on"
            " demand costs more."
        ),
    ]


def commitment_data(commitments: Commitments) -> dict[str, Any]:
    """Return the same for scripts."""
    use, price = commitments.use, commitments.on_demand
    return {
        "region": commitments.region,
        "on_demand_usd_per_hour": price and price.usd_per_hour,
        "used_lately": use
        and {
            "since": use.window.start,
            "until": use.window.end,
            "ratio": round(use.ratio(commitments.nodes), 4),
        },
        "offers": OFFERS.data(commitments.weighed),
    }


def commitments_of(
    ports: Ports, wanted: tuple[str, int], offers: Offers, at: datetime, region: str
) -> Commitments:
    """Return the offers for a type and a number of nodes. May block.

    They are of the region asked for, else of that of on-demand hours.
    """
    name, nodes = wanted
    commitments = ports.world.prices.commitment_offers(name, at)
    regions = {offer.region for offer in commitments}
    priced = offers.of(name, Market.ON_DEMAND, region)
    # Offers are of one region: the one asked for, else that of the price, else the first.
    if region not in regions:
        region = priced.region if priced and priced.region in regions else min(regions, default="")

    on_demand = offers.here(name, Market.ON_DEMAND, region)
    use = on_demand_use(ports.world.billing, on_demand, at) if on_demand and regions else None

    return Commitments(
        name,
        nodes,
        region,
        [offer for offer in commitments if offer.region == region],
        on_demand,
        use,
    )


@dataclass(frozen=True)
class CommitmentUse:
    """State what one Savings Plan or reserved instance cost over a window, and its unused part.

    In amortised USD. `ends_on` is None where the bill does not tell it.
    """

    name: str
    purchase: str
    usd: Decimal
    unused_usd: Decimal
    ends_on: date | None

    @property
    def used(self) -> Decimal | None:
        """Return the used share; None of one that cost nothing."""
        return 1 - self.unused_usd / self.usd if self.usd else None


_EMPTY = re.compile(r"(^|-)Unused(Box|Ded)(:|$)")
"""The usage types of reserved capacity that stood empty, as AWS bills them."""
_END = Unit(calendar_day, Align.LEFT)
USES = Columns[CommitmentUse](
    Column("commitment", lambda use: "(unnamed)" if use.name == use.purchase else use.name),
    datum("commitment", lambda use: use.name),
    Column("kind", lambda use: use.purchase.replace("-", " ")),
    datum("purchase", lambda use: use.purchase),
    Column("cost", lambda use: use.usd, USD, "usd", "its rows of the bill, amortised", total=True),
    Column("used", lambda use: use.used, RATIO, "used_ratio", "1 - unused_usd / usd"),
    Column(
        "unused",
        lambda use: use.unused_usd,
        USD,
        "unused_usd",
        "its amortised cost in the line `commitment` and of `UnusedBox`: what no usage took",
        total=True,
    ),
    Column("end", lambda use: use.ends_on, _END, "ends_on", missing="not in the bill"),
)
RESERVATIONS = Columns[Reservation](
    Column("reservation", lambda held: held.labels.resource, key="reservation"),
    Column("instance type", lambda held: held.labels.instance_type, key="instance_type"),
    Column("kind", lambda held: held.market.value.replace("-", " ")),
    datum("market", lambda held: held.market.value),
    Column("nodes", lambda held: held.total, COUNT, "nodes", "as EC2 reports it"),
    Column("empty", lambda held: held.available, COUNT, "empty_nodes", "as EC2 reports it"),
    Column("team", lambda held: held.labels.team, key="team"),
    Column("owner", lambda held: held.owner or str(held.launched_by or ""), key="owner"),
    Column("end", lambda held: held.ends_at, _END, "ends_at", missing="when cancelled"),
)


def uses_of(tally: Tally, reservations: Sequence[Reservation]) -> list[CommitmentUse]:
    """Return the commitments of a bill by commitment, purchase, line, usage type and end.

    Those that left most unused first. Capacity Blocks whose rows name none are one; any other row
    without a commitment is left out.
    """
    known = {held.labels.resource: held.ends_at.date() for held in reservations if held.ends_at}
    rows = defaultdict[str, list[Spend]](list)
    for row in tally.rows:
        is_block = row.key["purchase"] == Market.CAPACITY_BLOCK and row.money.amortised
        rows[row.key["commitment"] or (Market.CAPACITY_BLOCK if is_block else "")].append(row)
    rows.pop("", None)

    uses = []
    for name, parts in rows.items():
        unused = [
            part
            for part in parts
            if part.key["line"] == "commitment" or _EMPTY.search(part.key["usage_type"])
        ]
        # When it ends may be said on its fee alone.
        ends = max(part.key["commitment_ends"] for part in parts)
        uses.append(
            CommitmentUse(
                name,
                parts[0].key["purchase"],
                sum((part.money.amortised for part in parts), Decimal(0)),
                sum((part.money.amortised for part in unused), Decimal(0)),
                date.fromisoformat(ends) if ends else known.get(name),
            )
        )

    return sorted(uses, key=lambda use: (-use.unused_usd, -use.usd, use.name))


def uses_card(
    uses: Sequence[CommitmentUse],
    reservations: Sequence[Reservation],
    tally: Tally,
    today: date,
) -> Card:
    """Draw each commitment with its use and its end, then what EC2 holds now and how far it is empty."""
    window = window_line(tally.window)
    cost = sum((use.usd for use in uses), Decimal(0))
    unused = sum((use.unused_usd for use in uses), Decimal(0))
    ends = [(use.ends_on, use.name) for use in uses if use.ends_on]
    ends += [(held.ends_at.date(), held.labels.resource) for held in reservations if held.ends_at]
    ahead = sorted((end, name) for end, name in ends if end >= today)

    title = f"No commitment on the bill, {period(tally.window)}"
    if uses:
        held = counted(len(uses), "commitment")
        paid, lost = amount_of(cost, tally), amount_of(unused, tally)
        title = f"{held}: {lost} of {paid} unused, {period(tally.window)}"

    return Card(
        title,
        Tone.INFO,
        compose(
            USES.table(
                uses,
                total="total",
                opens=lambda use: (
                    f"cost {window} by team"
                    f" {'purchase' if use.name == Market.CAPACITY_BLOCK else 'commitment'}={use.name}"
                ),
            )
            if uses
            else nothing_text(tally),
            [
                text(f"The next to end is {name}, on {calendar_day(end)}.")
                for end, name in ahead[:1]
            ],
            bool(uses)
            and quiet(
                "Amortised: what is prepaid is spread over the hours that it buys. Unused is what"
                " no usage took; it is billed either way."
            ),
            RESERVATIONS.table(reservations, caption="Reserved capacity, as EC2 reports it now")
            if reservations
            else None,
            Buttons(
                (
                    Button("Cost by purchase", f"cost {window} by purchase"),
                    Button("Suggestions", "suggestions"),
                )
            ),
        ),
        {
            "window": {"start": tally.window.start, "end": tally.window.end},
            "commitments": USES.data(uses),
            "reservations": RESERVATIONS.data(reservations),
        },
    )


@command(
    "commitments",
    "Commitments and reserved capacity: their cost, used share, owner, and end.",
    needs=Needs.BILL,
    may=Needs.METRICS,
    topic=Topic.COSTS,
    examples=("commitments", "commitments last-month"),
    rows=("commitments", "reservations"),
    figures=USES.sources("commitments") | RESERVATIONS.sources("reservations"),
)
def commitments(
    ports: Ports,
    request: Request,
    window: Window = arg("7d", "which days"),
    where: tuple[Filter, ...] = arg("", CONDITIONS),
) -> Card:
    """Sum the bill by commitment; the part that nothing used is a line of its own."""
    by = ("commitment", "purchase", "line", "usage_type", "commitment_ends")
    billing = Allocation(ports, request.at)
    tally = billing.tally(window, by, where)
    refuse_unknown(billing, ports.world.billing, tally, where)

    reservations: list[Reservation] = []
    # A bill alone tells the plans; what is reserved and empty now is EC2's to say.
    with suppress(Unavailable):
        inventory = ports.world.source.read(request.at).inventory
        reservations = [held for held in inventory.reservations if held.active]

    return uses_card(uses_of(tally, reservations), reservations, tally, request.at.date())


@dataclass(frozen=True)
class Burn:
    """State the mean of credits used a day over settled days.

    Where a balance was typed, also the balance and the day on which it runs out.
    """

    usd_per_day: Decimal
    days: int
    since: date
    balance: Decimal | None
    gone_on: date | None
    """None where no balance was given or nothing burns."""

    def block(self) -> Text:
        """Say the rate, and what is left of a balance that was typed."""
        days = counted(self.days, "settled day")
        rate = f"{usd(self.usd_per_day)} of credits a day over {days} since {day(self.since)}."
        if self.balance is None:
            return text(
                f"{rate} AWS has no API for the remaining balance: take it from the billing"
                " console, and credits balance=50000 estimates when it runs out; config set"
                f" {CREDITS_LEFT} 50000 keeps it."
            )
        if self.gone_on is None:
            return text(f"{rate} {usd(self.balance)} left; no credits are being used now.")

        return text(
            f"{rate} {usd(self.balance)} left lasts until about ",
            Strong(f"{self.gone_on}"),
            " (estimated at this rate).",
        )


def burn_down(daily: Mapping[date, Decimal], settled: date, balance: Decimal | None) -> Burn | None:
    """Return the burn over the settled days, from credits as the bill has them (negative).

    None with fewer than three days.

    `balance` is what was left at the end of the last settled day: no API of AWS tells it.
    """
    days = sorted(day for day in daily if day < settled)
    if len(days) < 3:
        return None

    rate = cents(-sum((daily[day] for day in days), Decimal(0)) / len(days))
    gone_on = None
    if balance is not None and rate > 0:
        days_left = int((balance / rate).to_integral_value(ROUND_FLOOR))
        # A hundred years: dates end before a large balance at a small rate does.
        gone_on = settled + timedelta(days=min(days_left, 36_500))

    return Burn(rate, len(days), days[0], balance, gone_on)


CREDITS_LEFT = "advice.credits_usd"
_VERSIONS = 200


def credits_left(ports: Ports, now: datetime) -> Decimal | None:
    """Return the USD of credits left: the balance that an admin set, less the credits used since.

    None where none was set, or only in the settings file, which tells no day. May block.
    """
    balance = ports.policy.usd(CREDITS_LEFT)
    changes = ports.stores.versions.versions(_VERSIONS) if balance else ()
    at = next((x.at for x in changes if any(edit.key == CREDITS_LEFT for edit in x.edits)), None)
    if at is None:
        return None
    since = Window(midnight(at), max(now, at))
    return max(Decimal(0), balance + ports.world.billing.tally(since, ()).total.credits)


def credits_card(
    tally: Tally | None, burn: Burn | None, programmes: Sequence[Programme], today: date
) -> Card:
    """Draw the credits that were used, then the programmes that could be asked for."""
    title, tone = "AWS credit programs", Tone.INFO
    used: list[Block] = []
    if tally is not None:
        title = f"{amount_of(-tally.total.credits, tally)} of credits used, {period(tally.window)}"
        no_rate = text("Fewer than three settled days are billed, so there is no rate yet.")
        used = [Facts(tuple(money_facts(tally))), burn.block() if burn else no_rate]
        if burn and burn.gone_on:
            title = f"{title}; used up about {calendar_day(burn.gone_on)}"
    # Less than a month is left.
    if burn and burn.gone_on and (burn.balance or Decimal(0)) < 30 * burn.usd_per_day:
        tone = Tone.WARNING

    doubts = {"vendor claim": " AWS itself does not promise it: a vendor claim."}

    return Card(
        title,
        tone,
        compose(
            used,
            text(Strong("Programs, as others describe them")),
            [
                text(
                    Strong(x.name),
                    f": {x.amount}; for {x.who}. How: {x.route}.{doubts.get(x.kind, '')}"
                    f" ({cited(x, today)})",
                )
                for x in programmes
            ],
            quiet(
                "Credits also pay for EC2 hours of trn types; AWS alone decides who gets them. "
                "Net hides running costs: watch gross."
            ),
            tally is not None
            and Buttons(
                (
                    Button("Cost by purchase", "cost mtd by purchase"),
                    Button("Cost by service", "cost mtd by service"),
                )
            ),
        ),
        {
            "window": {"start": tally.window.start, "end": tally.window.end} if tally else None,
            "total": money_data(tally.total) if tally else None,
            "usd_per_day": burn.usd_per_day if burn else None,
            "balance_usd": burn.balance if burn else None,
            "gone_on": burn.gone_on if burn else None,
            "programmes": [
                {
                    "name": programme.name,
                    "amount": programme.amount,
                    "who": programme.who,
                    "route": programme.route,
                    "kind": programme.kind,
                    "source": programme.source,
                    "asof": programme.asof,
                }
                for programme in programmes
            ],
        },
    )


@command(
    "credits",
    "What credits paid, when they run out, and available credit programs.",
    needs=Needs.BILL,
    may=Needs.STATE,
    topic=Topic.COSTS,
    examples=("credits", "credits 30d balance=50000"),
    figures={
        **MONEY_FIGURES,
        "usd_per_day": "credits of the settled days / their number, to the cent",
        "balance_usd": "as typed, else as an admin set it, less the credits used since",
    },
)
def credits_(
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
    programmes = ports.world.knowledge.claims().programmes
    try:
        tally: Tally | None = ports.world.billing.tally(window, ())
        # From a midnight on: a day that is cut off is no day's credits.
        start = midnight(request.at - timedelta(days=14))
        days = ports.world.billing.tally(Window(start, request.at), ("day",))
    except Unavailable:
        # Programmes are of use to people without a bill, too.
        return credits_card(None, None, programmes, request.at.date())

    billed_until = min(days.billed_through, request.at) if days.billed_through else request.at
    daily = {date.fromisoformat(row.key["day"]): row.money.credits for row in days.rows}
    left = credits_left(ports, request.at) if balance is None else balance
    burn = burn_down(daily, settled_until(billed_until).date(), left)

    return credits_card(tally, burn, programmes, request.at.date())


@dataclass(frozen=True)
class Runway:
    """State how long cash lasts at what a month costs, and at what it would without open waste."""

    cash: Decimal
    nowcast: Nowcast
    invoice: Invoice
    waste_usd_per_hour: Decimal
    """Of open alerts, what stopping saves: none of what a commitment bills either way."""

    @property
    def usd_per_month(self) -> Decimal:
        """Return the month's amortised cost after credits and tax: what is prepaid is spread."""
        return self.nowcast.forecast + self.invoice.credits + self.invoice.tax

    @property
    def months(self) -> tuple[Decimal, Decimal, Decimal] | None:
        """Return the months at least, about, and at most; None where a month costs nothing."""
        month, beside = self.usd_per_month, self.invoice.credits + self.invoice.tax
        low, high = self.nowcast.low + beside, self.nowcast.high + beside
        return (self.cash / high, self.cash / month, self.cash / low) if low > 0 else None

    @property
    def without_waste(self) -> Decimal | None:
        """Return the months if nothing were wasted any more."""
        month = self.usd_per_month - self.waste_usd_per_hour * HOURS_A_MONTH
        return self.cash / month if self.waste_usd_per_hour and month > 0 else None


_RUNWAY = Columns[Runway](
    datum("cash_usd", lambda runway: runway.cash, "as typed"),
    datum(
        "usd_per_month",
        lambda runway: runway.usd_per_month,
        "this month's forecast, amortised + credits + tax of its invoice",
    ),
    datum(
        "months",
        lambda runway: _rounded(runway.months and runway.months[1]),
        "cash_usd / usd_per_month",
    ),
    datum(
        "low_months",
        lambda runway: _rounded(runway.months and runway.months[0]),
        "cash_usd / usd_per_month at the high end of the forecast's range",
    ),
    datum(
        "high_months",
        lambda runway: _rounded(runway.months and runway.months[2]),
        "cash_usd / usd_per_month at the low end of the forecast's range",
    ),
    datum(
        "waste_usd_per_hour",
        lambda runway: runway.waste_usd_per_hour,
        "sum of the open alerts' waste an hour, less what commitments bill either way",
    ),
    datum(
        "months_without_waste",
        lambda runway: _rounded(runway.without_waste),
        "cash_usd / (usd_per_month - waste_usd_per_hour x 730)",
    ),
)


def _rounded(months: Decimal | None) -> float | None:
    return None if months is None else round(float(months), 2)


def runway_card(runway: Runway, today: date) -> Card:
    """Say how long it lasts, until when, and what stopping open waste would add."""
    buttons = Buttons((Button("Forecast", "forecast"), Button("Alerts", "alerts")))
    data, cash = {"runway": _RUNWAY.record(runway)}, usd(runway.cash)
    if runway.months is None:
        return Card(
            f"{cash} is not touched",
            Tone.GOOD,
            (text("Credits are expected to pay for the whole month."), buttons),
            data,
        )

    low, about_months, high = runway.months
    months = " to ".join(dict.fromkeys((f"{low:,.1f}", f"{high:,.1f}")))
    title = f"{cash} lasts more than {_FAR} months"
    if about_months <= _FAR:
        until = f"{today + timedelta(days=float(about_months) * 365 / 12):%B %Y}"
        lasts = f"about {about_months:.1f} months" if about_months >= 1 else "under a month"
        title = f"{cash} lasts {lasts}, until {until}"

    return Card(
        title,
        Tone.WARNING if about_months < _SOON else Tone.INFO,
        compose(
            text(
                f"A month costs about {about(runway.usd_per_month)}: the forecast of {today:%B},"
                " amortised, with credits and tax."
                f" By its range, {cash} lasts {months} months."
            ),
            text(
                f"Without the {usd(runway.waste_usd_per_hour)} an hour that open alerts waste beside"
                f" commitments, it would last {runway.without_waste:,.1f} months"
                f" ({runway.without_waste - about_months:,.1f} more)."
            )
            if runway.without_waste
            else None,
            quiet("Assumes that every month costs what this one does: a pace, not a plan."),
            buttons,
        ),
        data,
    )


_SOON = 3
"""Months under which a runway is short."""
_FAR = 120
"""Months beyond which no pace tells anything."""


@command(
    "runway",
    "How long cash lasts at this month's pace, with and without the open waste.",
    needs=Needs.BILL,
    may=Needs.METRICS | Needs.STATE,
    topic=Topic.COSTS,
    examples=("runway 1200000",),
    figures=_RUNWAY.sources("runway"),
)
def runway(
    ports: Ports,
    request: Request,
    cash: Decimal = arg(None, "the cash to spend, in USD"),
) -> Card:
    """Divide what is there by what a month costs."""
    if not 0 < cash < 10**12:
        raise WrongInput(f"cash is an amount of USD above 0, such as 1200000; got {cash}.")
    end = month_end_of(ports, request, ())
    assert end.invoice
    alerts = ports.stores.alerts.load(request.at).alerts
    speaking = [alert for alert in alerts if alert.speaking]
    waste = usd_per_hour_of(speaking) - committed_usd_per_hour_of(speaking)

    return runway_card(Runway(cash, end.nowcast, end.invoice, waste), request.at.date())
