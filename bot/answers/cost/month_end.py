"""Answer where the month ends, and whether the estimates of past months held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from bot.answers.cost.title import (
    CONDITIONS,
    FORECAST_FIGURES,
    forecast_data,
    held_words,
    range_words,
    refuse_unknown,
)
from bot.cards.card import Button, Buttons, Card, Facts, Tone, When, compose, detail, quiet, text
from bot.cards.columns import DAY, NUMBER, Column, Columns, Unit, datum
from bot.cards.words import MONEY_FIGURES, about, about_in, amount_in, growth, money_data, period
from bot.costs.allocation import Allocation
from bot.costs.nowcast import Nowcast, Part, expected_by_provider, forecast_month
from bot.costs.reconcile import Estimate, Reconciled, SameHours, reconciled
from bot.costs.running import Fleet, fleet_of
from bot.costs.tally import Tallies, known_rows
from bot.errors import Unavailable, WrongInput
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.causes import CAUSES
from bot.model.money import cents, counted, usd
from bot.model.projection import is_seldom
from bot.model.request import Request
from bot.model.spend import Filter, Forecast, Money, Tally
from bot.model.window import Window, day, month_of, utc_text
from bot.ports import Ports

_LEAST_PREPAID = Decimal(1)
"""USD of a day under which nothing counts as prepaid."""


@dataclass(frozen=True)
class Prepaid:
    """State cash that left on one day of the month for hours of other days."""

    day: date
    usd: Decimal
    usage_type: str
    estimated: bool = False
    """Whether it is on no bill yet."""


@dataclass(frozen=True)
class Invoice:
    """State a month's invoice as it is expected: `charges` are less discounts, `credits` negative."""

    charges: Decimal
    credits: Decimal
    tax: Decimal
    prepaid: tuple[Prepaid, ...] = ()

    @property
    def net(self) -> Decimal:
        """Return the money that leaves the account."""
        return self.charges + self.credits + self.tax


def invoice_of(
    billing: Tallies,
    at: datetime,
    where: Sequence[Filter] = (),
    fleet: Fleet | None = None,
    month: Window | None = None,
) -> Invoice | None:
    """Return the invoice that the month of `at`, or one after it, is expected to have.

    None where too few days have settled. May block.
    """
    month = month or month_of(at)
    charges = forecast_month(billing, at, Part(where, _charges, month), fleet)
    if charges is None:
        return None
    credits = forecast_month(billing, at, Part(where, lambda money: money.credits, month))
    credited = credits.forecast if credits else Decimal(0)

    # Tax is a share of what is paid, and is billed when the month is over.
    this = month_of(at)
    billed, before = (billing.tally(x, (), where).total for x in (this, this.previous()))
    tax, taxed = billed.tax, before.net - before.tax
    if taxed > 0 and (not tax or month != this):
        tax = cents((charges.forecast + credited) * before.tax / taxed)

    prepaid = (
        *_prepaid(billing, month, at, where),
        *(
            Prepaid(booking.charged_at(charges.settled).date(), booking.usd, "Capacity Block", True)
            for booking in charges.bookings
            if booking.is_block
        ),
    )
    return Invoice(charges.forecast, credited, tax, prepaid)


def _charges(money: Money) -> Decimal:
    return money.net - money.credits - money.tax


def _prepaid(
    billing: Tallies, month: Window, at: datetime, where: Sequence[Filter]
) -> tuple[Prepaid, ...]:
    """Return what was paid at once for a commitment, by day."""
    if at < month.start:
        return ()
    window = Window(month.previous().start, min(month.end, at))
    bought = [*where, Filter("purchase", ("capacity-block", "savings-plan", "reserved"))]
    rows = known_rows(billing, window, ("day", "usage_type"), bought)
    paid = [
        Prepaid(date.fromisoformat(row.key["day"]), cents(ahead), row.key["usage_type"])
        for row in sorted(rows, key=lambda row: row.key["day"])
        if (ahead := _charges(row.money) - row.money.amortised) > _LEAST_PREPAID
    ]
    # The fee of each hour of a plan is paid for that hour.
    days = Counter(fee.usage_type for fee in paid)
    seen = len(billing.tally(window, ("day",), where).rows)

    return tuple(
        fee
        for fee in paid
        if fee.day >= month.start.date() and is_seldom(days[fee.usage_type], seen)
    )


@dataclass(frozen=True)
class MonthEnd:
    """Hold a month's end as it is forecast, and the month before."""

    nowcast: Nowcast
    expected: Forecast | None
    """By the provider; None where a part of the bill is asked for, or nobody tells."""
    before: Tally
    """The month before."""
    filters: tuple[Filter, ...] = ()
    invoice: Invoice | None = None
    budget: Decimal = Decimal(0)
    """Of the month, before credits and tax; 0 where none is set, or only a part is asked for."""
    jumps: Decimal = Decimal(0)
    """What open alerts of spending cost more by month end if they continue."""
    begun: bool = True
    """Whether the month goes on; of one to come, `before` is the month that does."""


_MONTHS = 3
"""How many months to come are forecast."""
_INVOICE = Columns[Invoice](
    datum(
        "net_usd",
        lambda invoice: invoice.net,
        "charges + credits + tax of the month, as its invoice is expected to say",
    ),
    datum(
        "charges_usd",
        lambda invoice: invoice.charges,
        "charges less discounts as they are paid, not amortised: billed so far and projected "
        "as the amortised cost is",
    ),
    datum(
        "credits_usd",
        lambda invoice: invoice.credits,
        "credits and refunds billed so far, and projected by their own days",
    ),
    datum(
        "tax_usd",
        lambda invoice: invoice.tax,
        "tax billed in the month; before there is any, the share of charges and credits that "
        "it was last month",
    ),
)
_PREPAID = Columns[Prepaid](
    datum("day", lambda prepaid: prepaid.day),
    datum(
        "usd",
        lambda prepaid: prepaid.usd,
        "fee of a commitment billed on that day - its amortised cost of that day; of a Capacity "
        "Block that is on no bill yet its hours x their price",
    ),
    datum("usage_type", lambda prepaid: prepaid.usage_type),
    datum("estimated", lambda prepaid: prepaid.estimated),
)


def invoice_words(invoice: Invoice, nowcast: Nowcast) -> str:
    """Say what leaves in the month, and what of its cost is the month's."""
    net, month = about_in(invoice.net, nowcast.currency), f"{nowcast.month.start:%B}"
    share = about_in(nowcast.forecast, nowcast.currency)
    return f"Invoice: about {net} is due in {month}; {month}'s amortised cost is {share}."


def jump_words(jumps: Decimal, nowcast: Nowcast) -> str:
    """Say what open alerts of spending add, as far as the bill does not hold it yet."""
    added, high = about_in(jumps, nowcast.currency), nowcast.forecast + jumps
    lead = f"If the open alerts of spending go on, they add {added} by month end"
    if high <= nowcast.high:
        return f"{lead}, which the range covers."
    return f"{lead}: {about_in(high, nowcast.currency)} in all, beyond the range."


def invoice_facts(invoice: Invoice, currency: str) -> list[tuple[str, str]]:
    """Return what the invoice is made of, besides charges: what was prepaid by day, credits, tax."""
    estimates = {"Credits by month end": invoice.credits, "Tax": invoice.tax}
    return [
        *(
            (f"Prepaid on {day(fee.day)} (estimate)", about_in(fee.usd, currency))
            if fee.estimated
            else (f"Prepaid on {day(fee.day)}", amount_in(fee.usd, currency))
            for fee in invoice.prepaid
        ),
        *((name, about_in(amount, currency)) for name, amount in estimates.items() if amount),
    ]


@command(
    "forecast",
    "Where this month or a coming one ends: the range, and AWS's own forecast.",
    needs=Needs.BILL,
    may=Needs.METRICS | Needs.STATE,
    topic=Topic.COSTS,
    examples=("forecast", "forecast next-month", "forecast team=vision"),
    figures={
        **FORECAST_FIGURES,
        "spent_usd": "settled days of the month, and fees at their day",
        "last_month/amortised_usd": "amortised cost of the month before this one",
        **_INVOICE.sources("invoice"),
        **_PREPAID.sources("invoice/prepaid"),
        "budget_usd": "the setting budget_burn.month_usd",
        "jumps_usd": "sum over open alerts of spending that jumped: month end less so far",
    },
)
def forecast(
    ports: Ports,
    request: Request,
    window: Window = arg("this-month", "the month: next-month, 2026-12"),
    where: tuple[Filter, ...] = arg("", CONDITIONS),
) -> Card:
    """Forecast the month of the question, or one after it."""
    this, month = month_of(request.at), month_of(window.start)
    months = 12 * (month.start.year - this.start.year) + month.start.month - this.start.month
    if window.end > month.end or months not in range(_MONTHS + 1):
        raise WrongInput(
            f"A forecast is of this month or one of the next {_MONTHS}, such as"
            f" {this.end:%Y-%m}; write cost and a window for what was billed."
        )
    return month_end_card(month_end_of(ports, request, where, month))


def month_end_of(
    ports: Ports, request: Request, where: tuple[Filter, ...], month: Window | None = None
) -> MonthEnd:
    """Return the forecast; raise `Unavailable` where too few days have settled. May block."""
    allocation = Allocation(ports, request.at)
    month = month or month_of(request.at)
    begun = month.start <= request.at
    if where:
        so_far = Window(month_of(request.at).start, request.at)
        refuse_unknown(allocation, ports.world.billing, allocation.tally(so_far, (), where), where)

    fleet = fleet_of(ports, allocation.reading, where)
    nowcast = forecast_month(allocation, request.at, Part(where, month=month), fleet)
    if nowcast is None:
        raise Unavailable(
            "Too few days of the bill have settled for a forecast; three in a row are enough."
        )

    return MonthEnd(
        nowcast,
        expected_by_provider(allocation, ports.world.outlook, request.at)
        if begun and not where
        else None,
        allocation.tally(month.previous() if begun else month_of(request.at), ("day",), where),
        where,
        invoice_of(allocation, request.at, where, fleet, month),
        Decimal(0) if where else ports.policy.usd("budget_burn.month_usd"),
        open_jumps(ports, request.at) if begun and not where else Decimal(0),
        begun,
    )


def open_jumps(ports: Ports, at: datetime) -> Decimal:
    """Return what the open alerts of spending that jumped cost more by month end."""
    wastes = (
        alert.waste
        for alert in ports.stores.alerts.load(at).alerts
        if alert.firing and alert.waste and CAUSES[alert.cause].grows
    )
    return sum((waste.month_end - waste.so_far for waste in wastes if waste.goes_on), Decimal(0))


def month_end_card(end: MonthEnd) -> Card:
    """Draw the forecast; the number that was asked for stands in the title."""
    nowcast, currency, before = end.nowcast, end.nowcast.currency, end.before
    low, middle, high = (
        about_in(amount, currency) for amount in (nowcast.low, nowcast.forecast, nowcast.high)
    )
    filters = "".join(f" · {condition}" for condition in end.filters)

    # Of a part of the bill nobody knows whether it cost nothing at first, or was not billed.
    missing = held_words(before) if before.by and not end.filters else ""
    last_month = (
        f"{period(before.window)}{missing}" if missing else f"All of {period(before.window)}"
    )
    spent_before, typed = before.total.amortised, "".join(f" {pair}" for pair in end.filters)
    invoice = end.invoice
    budget = amount_in(end.budget, currency) if end.budget else "none; config budget_burn sets one"
    spent = [(f"Spent until {utc_text(nowcast.settled)}", amount_in(nowcast.spent, currency))]
    neighbour = Button("Last month", f"cost last-month by service{typed}")

    # Of a month to come the month before it goes on.
    if not end.begun:
        last_month = f"Billed in {before.window.start:%B} so far"
        neighbour = Button("This month", f"forecast{typed}")

    return Card(
        f"About {middle} in {nowcast.month.start:%B} ({low} to {high}){filters}",
        Tone.INFO,
        compose(
            text(range_words(nowcast, end.expected, before)),
            text(invoice_words(invoice, nowcast)) if invoice else None,
            end.jumps > 0 and text(jump_words(end.jumps, nowcast)),
            Facts(
                (
                    *(spent if nowcast.settled > nowcast.month.start else ()),
                    *([(last_month, amount_in(spent_before, currency))] if before.rows else []),
                    *(invoice_facts(invoice, currency) if invoice else ()),
                    *([] if end.filters else [("Budget before credits and tax", budget)]),
                )
            ),
            before.billed_through is not None
            and quiet("Billed through ", When(before.billed_through), ". Amortised."),
            Buttons(
                (
                    Button("By service", f"cost this-month by service{typed}"),
                    Button("Why it changed", f"why cost this-month{typed}"),
                    neighbour,
                )
            ),
        ),
        {
            "month": {"start": nowcast.month.start, "end": nowcast.month.end},
            "currency": currency,
            "spent_usd": nowcast.spent,
            "last_month": {
                "window": {"start": before.window.start, "end": before.window.end},
                "amortised_usd": spent_before,
            },
            **forecast_data(nowcast, end.expected),
            **(
                {"invoice": _INVOICE.record(invoice) | {"prepaid": _PREPAID.data(invoice.prepaid)}}
                if invoice
                else {}
            ),
            **({"budget_usd": end.budget} if end.budget else {}),
            **({"jumps_usd": end.jumps} if end.jumps else {}),
        },
    )


_ESTIMATE = Columns[Estimate](
    datum("at", lambda estimate: estimate.at),
    datum(
        "amortised_usd",
        lambda estimate: estimate.forecast,
        "the forecast of the month's end as it was kept, or as it is recomputed from the days"
        " that had settled by then",
    ),
    datum("low_usd", lambda estimate: estimate.low, "the low end of that forecast's range"),
    datum("high_usd", lambda estimate: estimate.high, "the high end of that forecast's range"),
    datum("remembered", lambda estimate: estimate.remembered),
    datum("settled_until", lambda estimate: estimate.settled),
    datum(
        "billed_usd",
        lambda estimate: estimate.spent,
        "of it, amortised cost of the month up to the midnight before which the bill it "
        "knew had settled",
    ),
    datum(
        "estimated_usd",
        lambda estimate: None if estimate.spent is None else estimate.forecast - estimate.spent,
        "the forecast less what was billed by then",
    ),
)
_SO_FAR = Columns[SameHours](
    datum("until", lambda hours: hours.end),
    datum(
        "estimated_usd",
        lambda hours: hours.estimated,
        "what the estimate held of the settled days since: billed by then + its rest x the "
        "share of its hours that have settled",
    ),
    datum("billed_usd", lambda hours: hours.billed, "amortised cost of the month's settled days"),
    datum(
        "difference_usd",
        lambda hours: hours.difference,
        "billed less estimated over the same hours",
    ),
)
_HOW = (
    "The estimate is of the whole month's amortised cost, made around mid-month from what was"
    " billed before the day shown; net is what the invoice says. Difference: final less estimated."
    " “again”: no estimate was stored then, so it is recomputed from what the bill now says of the"
    " days before."
)


def reconcile_card(comparisons: Sequence[Reconciled], now: datetime) -> Card:
    """List the months, oldest first."""
    # A month of which the bill says nothing, and nobody estimated, cannot be compared.
    billed = [
        comparison
        for comparison in comparisons
        if comparison.money.amortised or comparison.money.net or comparison.estimate
    ]
    data = {
        "months": [
            {
                "month": f"{x.month.start:%Y-%m}",
                "final": x.final,
                "estimate": x.estimate and _ESTIMATE.record(x.estimate),
                **money_data(x.money),
                "difference_usd": x.difference,
                "difference_ratio": None if x.ratio is None else round(float(x.ratio), 4),
                "within_range": x.within,
                "so_far": x.so_far and _SO_FAR.record(x.so_far),
            }
            for x in billed
        ]
    }
    if not billed:
        return Card(
            "The bill has no month in that window",
            Tone.INFO,
            (text("Try another window, such as this-year."),),
            data,
        )

    def made(comparison: Reconciled) -> str:
        estimate = comparison.estimate
        if estimate is None or estimate.remembered:
            return day(estimate.at) if estimate else ""
        return f"{day(estimate.at)}, {'now' if estimate.at == now else 'again'}"

    closed = [comparison for comparison in billed if comparison.difference is not None]
    title, verdict = "No closed month has an estimate to compare", ""
    if closed:
        last = closed[-1]
        title = f"{last.month.start:%B %Y} cost {_difference(last)} against its estimate"
        held, whose = sum(bool(x.within) for x in closed), "its" if len(closed) == 1 else "their"
        verdict = (
            f"{held} of {counted(len(closed), 'closed month')} ended within the range of {whose}"
            " estimate."
        )

    return Card(
        title,
        Tone.INFO,
        compose(
            verdict and text(verdict),
            Columns[Reconciled](
                Column("month", lambda x: f"{x.month.start:%Y-%m}"),
                Column("estimate", lambda x: x.estimate and x.estimate.forecast, Unit(about)),
                Column("made", made),
                Column("data until", lambda x: x.estimate and x.estimate.settled, DAY),
                Column("amortised", lambda x: f"{_mark(x)}{usd(x.money.amortised)}", NUMBER),
                Column("difference", _difference, NUMBER),
                Column("net", lambda x: f"{_mark(x)}{usd(x.money.net)}", NUMBER),
            ).table(billed),
            [
                text(_so_far(x.month, x.estimate, x.so_far))
                for x in billed
                if x.estimate and not x.final
            ],
            detail(_HOW),
            Buttons((Button("This month", "cost mtd by line"),)),
        ),
        data,
    )


def _mark(comparison: Reconciled) -> str:
    """Mark amounts that AWS may still rewrite."""
    return "" if comparison.final else "~"


def _difference(comparison: Reconciled) -> str:
    if comparison.difference is None:
        return "no estimate" if comparison.final else "not final"
    return _changed(comparison.difference, comparison.ratio)


def _so_far(month: Window, estimate: Estimate, so_far: SameHours | None) -> str:
    """Say how much of the estimate of an open month was one, and how the days since compare."""
    name = f"{month.start:%B %Y} is not final."
    if estimate.settled is None or estimate.spent is None:
        return f"{name} What its estimate of {day(estimate.at)} was based on was not kept."

    words = (
        f"{name} Of its estimate, {usd(estimate.spent)} was billed before {day(estimate.settled)},"
        f" and {about(estimate.forecast - estimate.spent)} was estimated."
    )
    if so_far is None:
        return f"{words} No day has settled since: there is nothing to compare yet."

    return (
        f"{words} Before {day(so_far.end)}: expected {usd(so_far.estimated)}, billed"
        f" {usd(so_far.billed)}, {_changed(so_far.difference, so_far.ratio)}."
    )


def _changed(amount: Decimal, ratio: Decimal | None) -> str:
    share = "" if ratio is None else f" ({growth(ratio, 1, signed=True)})"
    return f"{'+' if amount > 0 else ''}{usd(amount)}{share}"


@command(
    "reconcile",
    "Each month's estimate against its final cost.",
    needs=Needs.BILL | Needs.STATE,
    examples=("reconcile", "reconcile this-year"),
    figures={
        **MONEY_FIGURES,
        **_ESTIMATE.sources("estimate"),
        **_SO_FAR.sources("so_far"),
        "difference_usd": "final amortised cost - estimate",
        "difference_ratio": "(final amortised cost - estimate) / final amortised cost",
    },
)
def reconcile(
    ports: Ports,
    request: Request,
    window: Window = arg("90d", "compare every month that this window touches"),
) -> Card:
    """Print the difference for every month that AWS has closed."""
    return reconcile_card(
        reconciled(ports.world.billing, ports.stores.documents, window, request.at), request.at
    )
