"""Answer why a cost changed: drivers that sum to the difference, and the alerts of that time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from bot.answers.cost.level import LEVEL_FIGURES, concerned, level_card, level_of
from bot.answers.cost.title import CONDITIONS, refuse_unknown
from bot.cards import alert_words
from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    Card,
    Heading,
    Table,
    Tone,
    When,
    compose,
    quiet,
    text,
)
from bot.cards.lines import window_line
from bot.cards.words import amount_of, doubted, few, growth, percent, period
from bot.costs.allocation import OWNERS, Allocation
from bot.costs.drivers import DRIVEN_BY, PLACE, Charged, Driver, DriverKind, drivers_of
from bot.costs.tally import comparable, known_rows
from bot.errors import WrongInput
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.alert import Alert
from bot.model.labels import Labels
from bot.model.money import cents, counted, usd
from bot.model.notification import Coverage
from bot.model.request import Request
from bot.model.spend import Filter, Spend, Tally
from bot.model.window import NO_TIME, Window, midnight
from bot.ports import Billing, Ports

_MOST, _MOST_ALERTS = 6, 4
_WHOLE = {"account", "currency"}
"""The dimensions by which a part of a bill holds its own commitments."""


@dataclass(frozen=True)
class CostChange:
    """Hold two spans of a bill that are compared, with the drivers of the change between them."""

    asked: Window
    then: Tally
    now: Tally
    drivers: tuple[Driver, ...]
    alerts: Sequence[Alert] = ()
    settled: bool = True
    filters: tuple[Filter, ...] = ()
    coverage: Coverage = field(default_factory=Coverage)
    """How much of the fleet the alerts are about."""

    @property
    def largest(self) -> tuple[Driver, ...]:
        """Return the drivers that have a row each, the largest by either measure, in their order."""
        ranked = sorted(self.drivers, key=lambda x: -max(abs(x.net), abs(x.amortised)))
        return tuple(driver for driver in self.drivers if driver in ranked[:_MOST])

    @property
    def by_net(self) -> bool:
        """Return whether net tells it: of all that an account pays.

        The invoice books commitments to nobody, so of a part amortised cost does.
        """
        return all(x.dimension in _WHOLE for x in self.filters)

    @property
    def net(self) -> Decimal:
        """Return the difference of net, to which the drivers sum up."""
        return self.now.total.net - self.then.total.net

    @property
    def amortised(self) -> Decimal:
        """Return the difference of amortised cost."""
        return self.now.total.amortised - self.then.total.amortised


DRIVER_FORMULA = (
    "credits, refunds, tax, discounts and what is paid ahead: now - before, of the bill's lines of "
    "that kind; moved: what it costs there - what it cost here; hours: change of hours x old rate; "
    "commitment and purchase: hours now x change of the shares of ways to buy x their old rates; "
    "price: the rest of the nodes' change; of everything else cost now - cost before"
)
CHANGE_FIGURES = {
    "amortised_usd": "amortised cost of the time asked about, as far as it is compared",
    "before/amortised_usd": "amortised cost of as long a part of the time before",
    "net_usd": "gross + discounts + credits + tax of the time asked about, as far as compared",
    "before/net_usd": "gross + discounts + credits + tax of as long a part of the time before",
    "hours/then": "instance-hours that were metered",
    "usd_per_hour/then": "amortised cost of the nodes / their metered hours",
    "covered_ratio/then": "metered hours under commitments / all metered hours",
    "costs_usd/then": "net of the rows that the filters keep",
    "share/then": "tax or discounts / what they are of",
    "hours/now": "instance-hours that were metered",
    "usd_per_hour/now": "amortised cost of the nodes / their metered hours",
    "covered_ratio/now": "metered hours under commitments / all metered hours",
    "costs_usd/now": "net of the rows that the filters keep",
    "share/now": "tax or discounts / what they are of",
}
"""How the amounts of a change, and of what drove it, are made."""


@command(
    "why cost",
    "What drove a change of cost against the time before: price, hours, things new, ended and "
    "moved, commitments, credits, tax, discounts, fees.",
    needs=Needs.BILL,
    may=Needs.METRICS | Needs.STATE,
    topic=Topic.COSTS,
    examples=("why cost last-week", "why cost 7d team=vision", "why cost 7d level cluster=llama"),
    rows=("drivers", "smaller", "parts"),
    figures={
        **LEVEL_FIGURES,
        **CHANGE_FIGURES,
        "change_usd": (
            "amortised cost of the time asked about - that of the time before, and the sum of "
            "the drivers' amortised parts"
        ),
        "net_change_usd": (
            "net of the time asked about - that of the time before, and the sum of the drivers"
        ),
        **{
            f"{rows}/{amount}": DRIVER_FORMULA
            for rows in ("drivers", "smaller")
            for amount in ("net_usd", "amortised_usd")
        },
        "smaller_usd": "sum of the smaller drivers, in net",
    },
)
def why_cost(
    ports: Ports,
    request: Request,
    window: Window = arg("7d", "which days; they are compared with as many days before"),
    view: str = arg(
        "change",
        "the change against the time before, or the level that the cost is at and its parts",
        choices=("change", "level"),
    ),
    where: tuple[Filter, ...] = arg("", CONDITIONS),
) -> Card:
    """Part the change of the window against the one before, or the cost itself."""
    if view == "level":
        level = level_of(ports, request.at, window, where)
        return level_card(level) if level else _unbilled_card(ports, request.at, window, where)
    change = change_of(ports, request.at, window, where)

    return change_card(change) if change else _unbilled_card(ports, request.at, window, where)


def change_of(
    ports: Ports, at: datetime, window: Window, where: tuple[Filter, ...] = ()
) -> CostChange | None:
    """Return the change of a window against the one before, as far as it is billed.

    None where nothing of it is. May block.
    """
    billing = Allocation(ports, at)
    if where:
        refuse_unknown(billing, ports.world.billing, billing.tally(window, (), where), where)
    through = billing.tally(NO_TIME, ()).billed_through
    if through is None:
        return None
    through = min(through, at)
    spans = settled = comparable(window, through)
    if spans is None:
        # Too little has settled: the whole hours that are billed, and as long a part before.
        end = min(window.end, through.replace(minute=0, second=0, microsecond=0))
        previous = window.previous()
        length = min(end - window.start, previous.length)
        if end <= window.start:
            return None
        spans = (
            Window(window.start, window.start + length),
            Window(previous.start, previous.start + length),
        )

    # A day without any charge is one that the bill does not reach back to. Of a first part of a
    # day a bill by days holds nothing, and one by hours not its last minutes.
    whole = sum(day.start == midnight(day.start) for day in spans[1].days())
    if len(billing.tally(spans[1], ("day",)).rows) < max(1, whole):
        raise WrongInput(
            f"This is compared with {period(spans[1])}, of which the bill does not hold every"
            " day; ask for a shorter or later window."
        )

    # What moved from or to other places is told by the rows of those.
    elsewhere = [condition for condition in where if condition.dimension in PLACE]
    everywhere = [condition for condition in where if condition not in elsewhere]
    # Pods are asked for where the owners are that they determine; else the bill as it is tagged.
    by_owner = any(condition.dimension in OWNERS for condition in where)
    ask = billing.tally if by_owner else ports.world.billing.tally
    sides = [ask(span, DRIVEN_BY, everywhere).rows for span in spans]
    now, then = (billing.tally(span, (), where) for span in spans)
    once = {
        line
        for span, rows, compared in zip(spans, sides, reversed(sides), strict=True)
        for line in _charged_once(ports.world.billing, span, rows, compared)
    }
    drivers = drivers_of(sides[1], sides[0], once, elsewhere)
    if not all(condition.dimension in _WHOLE for condition in where):
        drivers = tuple(sorted(drivers, key=lambda driver: -abs(driver.amortised)))

    alerts, coverage = _history(ports, at, Window(spans[0].start, min(window.end, at)), where)

    return CostChange(window, then, now, drivers, alerts, settled is not None, where, coverage)


def _charged_once(
    billing: Billing, span: Window, rows: Sequence[Spend], compared: Sequence[Spend]
) -> set[Charged]:
    """Return the lines that were charged in one hour of a span alone, and not in the other."""
    # What has no metered hours and is in one of the spans alone may be a fee, or a refund.
    alone = set(_charged(rows)) - set(_charged(compared))
    if not alone:
        return set()

    types = Filter("usage_type", tuple(sorted({line.usage_type for line in alone})))
    # A bill by days tells no hours.
    for step in ("hour", "day"):
        counts = Counter(
            _charged(known_rows(billing, span, (step, "service", "usage_type"), [types]))
        )
        if counts:
            break

    return {line for line in alone if counts[line] == 1}


def _charged(rows: Sequence[Spend]) -> Iterator[Charged]:
    """Yield the line of each row without hours, and that of its credits."""
    for row in rows:
        line = Charged(row.key["service"], row.key["usage_type"])
        if row.money.gross and not row.hours:
            yield line
        if row.money.credits:
            yield line._replace(credited=True)


def change_card(change: CostChange) -> Card:
    """Draw the change: its largest driver in the title, a few more, and the rest, which sum to it."""
    drivers, before, current = change.drivers, change.then, change.now
    filters = "".join(f" · {condition}" for condition in change.filters)

    # Drivers that are small by both measures stand in one row, so that all rows add up.
    largest = change.largest
    smaller = [driver for driver in drivers if driver not in largest]
    smaller_usd = sum((driver.net for driver in smaller), Decimal(0))
    smaller_amortised = sum((driver.amortised for driver in smaller), Decimal(0))
    drawn = [driver for driver in largest if cents(driver.net) or cents(driver.amortised)]
    amounts = [(reason(x), _detail(x), x.net, x.amortised) for x in drawn]
    if smaller:
        amounts.append(
            (counted(len(smaller), "smaller change"), "", smaller_usd, smaller_amortised)
        )
    amounts.append(("in all", "", change.net, change.amortised))
    # What is of net alone has a column beside the amortised part.
    alike = all(net == amortised for _, _, net, amortised in amounts)
    measures = ["change"] if alike else ["net", "amortised"]
    *rows, total = (
        (name, detail, *(_signed(x, current) for x in pair[: len(measures)]))
        for name, detail, *pair in amounts
    )
    headings = (Heading(measure, Align.RIGHT) for measure in measures)
    table = Table((Heading("driver"), Heading("before and now"), *headings), tuple(rows), total)
    net, amortised = (
        " against ".join(
            amount_of(getattr(tally.total, measure), tally) for tally in (current, before)
        )
        for measure in ("net", "amortised")
    )
    compared = f"{period(current.window)} against {period(before.window)}"
    spans = f"{compared}: {net}, net and amortised."
    if (change.net, before.total.net) != (change.amortised, before.total.amortised):
        spans = f"{compared}: net {net}; amortised {amortised}."
        used = max(drivers, key=lambda driver: abs(driver.amortised), default=None)
        if used and used.amortised and not drivers[0].amortised:
            sign = _signed(change.amortised, current)
            spans += f" Amortised cost changed by {sign}, most by {reason(used)}."
    window = window_line(current.window)
    typed = "".join(f" {condition}" for condition in change.filters)

    return Card(
        f"{moved_words(change)} · {period(current.window)}{filters}",
        Tone.INFO,
        compose(
            text(spans),
            not change.settled and text(_UNSETTLED),
            table if drivers else text("No charge changed."),
            _alerts(change.alerts, change.coverage),
            current.billed_through is not None
            and quiet("Billed through ", When(current.billed_through), ". ", _HOW),
            Buttons(
                (
                    Button("By service", f"cost {window} by service{typed}"),
                    Button("By day", f"cost {window} by day{typed}"),
                    *([Button("Alerts", f"alerts window={window}")] if change.alerts else []),
                )
            ),
        ),
        {
            "window": {"start": current.window.start, "end": current.window.end},
            "before": {
                "window": {"start": before.window.start, "end": before.window.end},
                "amortised_usd": before.total.amortised,
                "net_usd": before.total.net,
            },
            "currency": current.currency,
            "amortised_usd": current.total.amortised,
            "net_usd": current.total.net,
            "change_usd": change.amortised,
            "net_change_usd": change.net,
            "settled": change.settled,
            "drivers": [driver_data(driver) for driver in largest],
            "smaller": [driver_data(driver) for driver in smaller],
            "smaller_usd": smaller_usd,
            "alerts": [alert.id for alert in change.alerts],
        },
    )


_UNSETTLED = (
    "AWS may still rewrite these hours: the newest hours of a bill arrive late, so this is an"
    " estimate."
)
_HOW = "Changes are split in this order: hours at the old rate, ways of buying, prices."


def moved_words(change: CostChange) -> str:
    """Say in a few words how net moved, and by what most."""
    first = change.drivers[0] if change.drivers else None
    measure = "net" if change.by_net else "amortised"
    amount, before = getattr(change, measure), getattr(change.then.total, measure)
    if not cents(amount):
        # What ended and what began may be as much.
        return f"Unchanged: {reason(first)}" if first else "Unchanged"

    return "".join(
        (
            f"{'Up' if amount > 0 else 'Down'} {amount_of(abs(amount), change.now)}",
            f" {measure}" if change.net != change.amortised else "",
            f" ({growth(amount / before)})" if before > 0 else "",
            f": {reason(first)}" if first else "",
        )
    )


def reason(driver: Driver) -> str:
    """Say a driver in a few words."""
    what, grew = driver.what, (driver.net or driver.amortised) > 0
    began, ended = (not cost for cost in driver.costs or (True, True))
    credits = "fewer credits" if grew else "more credits"

    return {
        DriverKind.HOURS: f"{'more' if grew else 'fewer'} hours of {what}",
        DriverKind.PRICE: f"price of {what}" if driver.rates else what,
        DriverKind.PURCHASE: f"bought differently: {what}",
        DriverKind.COMMITMENT: f"commitments for {what}" if driver.covered else what,
        DriverKind.NEW: f"new: {what}",
        DriverKind.ENDED: f"ended: {what}",
        DriverKind.MOVED: f"move of {what}",
        DriverKind.FEE: f"one-off fee: {what}",
        DriverKind.USAGE: f"{'more' if grew else 'less'} {what}",
        DriverKind.CREDITS: "credits ended" if ended else "credits began" if began else credits,
        DriverKind.REFUND: f"refund or one-off credit: {what}",
        DriverKind.TAX: "tax charged in only one of the two windows" if began or ended else "tax",
        DriverKind.DISCOUNTS: "discounts ended" if ended else "discounts began" if began else what,
        DriverKind.PREPAID: f"{'more' if grew else 'less'} paid ahead for {what}",
    }[driver.kind]


def _detail(driver: Driver) -> str:
    if driver.covered:
        before, current = driver.covered
        return f"{percent(before)} to {percent(current)} of its hours under a commitment"
    if driver.shares and all(driver.shares):
        ends = " to ".join(f"{share * 100:.1f} %" for share in driver.shares)
        return (
            f"{ends} {'of gross less discounts' if driver.kind is DriverKind.TAX else 'of gross'}"
        )
    if driver.kind in (DriverKind.PRICE, DriverKind.PURCHASE) and driver.rates:
        return f"{usd(driver.rates[0], 4)} to {usd(driver.rates[1], 4)} an hour"
    if driver.kind is DriverKind.MOVED and driver.hours and driver.costs:
        costs = f"{usd(driver.costs[0])} to {usd(driver.costs[1])}"
        return f"{driver.hours[1]:,.0f} node-hours; {costs}"
    if driver.hours:
        return f"{driver.hours[0]:,.0f} to {driver.hours[1]:,.0f} node-hours"

    return f"{usd(driver.costs[0])} to {usd(driver.costs[1])}" if driver.costs else ""


def _signed(amount: Decimal, tally: Tally) -> str:
    return ("+" if amount > 0 else "") + amount_of(amount, tally)


def _history(
    ports: Ports, at: datetime, window: Window, where: tuple[Filter, ...]
) -> tuple[Sequence[Alert], Coverage]:
    """Return the alerts of a time, and how much the watch saw."""
    alerts = concerned(ports.stores.alerts.history(window, Labels()), where)
    return alerts, ports.stores.alerts.load(at).coverage(at)


def _alerts(alerts: Sequence[Alert], coverage: Coverage) -> list[Block]:
    """Name the alerts of that time."""
    if not alerts:
        unknown = "Which alerts were open in this window is not known"
        sentence = doubted("No alert was open in this window", unknown, coverage)
        return [quiet(f"{sentence}. {coverage.because}".rstrip())]
    names = [f"{alert.cause.facts.words} · {alert_words.where(alert)}" for alert in alerts]

    return [text(f"Alerts in this window: {'; '.join(few(names, _MOST_ALERTS))}.")]


def driver_data(driver: Driver) -> dict[str, Any]:
    """Return a driver's data, with the filters that keep its rows."""
    pairs = {
        "hours": driver.hours,
        "usd_per_hour": driver.rates,
        "covered_ratio": driver.covered,
        "share": driver.shares,
        "costs_usd": driver.costs,
    }

    return {
        "kind": driver.kind.value,
        "what": driver.what,
        "net_usd": driver.net,
        "amortised_usd": driver.amortised,
        **{name: {"then": pair[0], "now": pair[1]} for name, pair in pairs.items() if pair},
        "where": [str(condition) for condition in driver.where],
    }


def _unbilled_card(ports: Ports, at: datetime, window: Window, where: tuple[Filter, ...]) -> Card:
    """Say that nothing of a window is billed yet, and name its alerts."""
    through = ports.world.billing.tally(NO_TIME, ()).billed_through
    alerts, coverage = _history(
        ports, at, Window(min(window.start, at), min(window.end, at)), where
    )
    blocks = (
        text("AWS's bill comes a day or two late: nobody can say yet what these hours cost."),
        *_alerts(alerts, coverage),
        quiet("Billed through ", When(through), ".") if through else quiet("No bill is read here."),
        Buttons(
            (
                Button("Alerts", f"alerts window={window_line(window)}"),
                Button("Last 7 days", "why cost 7d"),
            )
        ),
    )
    data = {
        "window": {"start": window.start, "end": window.end},
        "drivers": [],
        "alerts": [alert.id for alert in alerts],
    }

    return Card(f"{period(window)} is not billed yet", Tone.INFO, blocks, data)
