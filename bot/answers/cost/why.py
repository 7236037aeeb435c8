"""Answer why a cost changed: drivers that sum to the difference, and the alerts of that time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from bot.answers.cost.title import refuse_unknown
from bot.cards.alert_words import where as place
from bot.cards.alert_words import worth
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
from bot.cards.words import amount_of, period
from bot.costs.allocation import Allocation
from bot.costs.drivers import DRIVEN_BY, Driver, DriverKind, Line, drivers_of
from bot.costs.tally import comparable
from bot.errors import WrongInput
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.alert import Alert
from bot.model.labels import Labels
from bot.model.money import counted, usd
from bot.model.request import Request
from bot.model.spend import Filter, Spend, Tally
from bot.model.window import NO_TIME, Window
from bot.ports import Ports

_MOST, _MOST_ALERTS = 6, 4


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

    @property
    def change(self) -> Decimal:
        """Return the difference of amortised cost."""
        return self.now.total.amortised - self.then.total.amortised


DRIVER_FORMULA = (
    "hours: change of hours x old rate; commitment: hours now x change of the shares of"
    " ways to buy x their old rates; price: the rest of the nodes' change; of "
    "everything else cost now - cost before"
)
CHANGE_FIGURES = {
    "amortised_usd": "amortised cost of the time asked about, as far as it is compared",
    "before/amortised_usd": "amortised cost of as long a part of the time before",
    "hours/then": "instance-hours that were metered",
    "usd_per_hour/then": "amortised cost of the nodes / their metered hours",
    "covered_ratio/then": "metered hours under commitments / all metered hours",
    "costs_usd/then": "amortised cost of the rows that the filters keep",
    "hours/now": "instance-hours that were metered",
    "usd_per_hour/now": "amortised cost of the nodes / their metered hours",
    "covered_ratio/now": "metered hours under commitments / all metered hours",
    "costs_usd/now": "amortised cost of the rows that the filters keep",
}
"""How the amounts of a change, and of what drove it, are made."""


@command(
    "why cost",
    "What drove a change of cost against the time before: price, hours, things new and ended, "
    "commitments, one-off fees.",
    needs=Needs.BILL,
    may=Needs.METRICS | Needs.STATE,
    topic=Topic.COSTS,
    examples=("why cost last-week", "why cost 7d team=vision"),
    rows=("drivers", "smaller"),
    figures={
        **CHANGE_FIGURES,
        "change_usd": (
            "amortised cost of the time asked about - that of the time before, and the sum of "
            "the drivers"
        ),
        "drivers/usd": DRIVER_FORMULA,
        "smaller/usd": DRIVER_FORMULA,
        "smaller_usd": "sum of the smaller drivers",
    },
)
def why_cost(
    ports: Ports,
    request: Request,
    window: Window = arg("7d", "which days; they are held against as many before"),
    where: tuple[Filter, ...] = arg(
        "", "only charges with dimension=value, or without it: dimension!=value"
    ),
) -> Card:
    """Part the change of the window against the one before."""
    change = change_of(ports, request.at, window, where)
    return change_card(change) if change else _unbilled_card(ports, request.at, window)


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
        current = Window(window.start, window.start + length)
        spans = current, Window(previous.start, previous.start + length)

    # A day without any charge is one that the bill does not reach back to.
    if len(billing.tally(spans[1], ("day",)).rows) < len(list(spans[1].days())):
        raise WrongInput(
            f"The bill does not reach back to all of {period(spans[1])}; "
            "ask for a shorter or later window."
        )

    now, then = (billing.tally(span, DRIVEN_BY, where) for span in spans)
    fees = _fees(billing, now, then) | _fees(billing, then, now)

    # Alerts carry these labels; of other conditions on a bill they know nothing.
    labels = {
        condition.dimension: condition.values[0]
        for condition in where
        if condition.dimension in ("cluster", "team") and not condition.negated
    }
    alerts = ports.stores.alerts.history(
        Window(spans[0].start, min(window.end, at)), Labels.of(labels)
    )
    drivers = drivers_of(then.rows, now.rows, fees)
    return CostChange(window, then, now, drivers, alerts, settled is not None, where)


def _fees(billing: Allocation, tally: Tally, compared: Tally) -> set[Line]:
    """Return the lines that were charged in one hour of a span alone, and not in the other."""
    # What has no metered hours and is in one of the spans alone may be a fee.
    alone = {_line(row) for row in tally.rows if not row.hours}
    alone -= {_line(row) for row in compared.rows}
    if not alone:
        return set()

    types = Filter("usage_type", tuple(sorted({usage_type for _, usage_type in alone})))
    for step in ("hour", "day"):
        try:
            rows = billing.tally(tally.window, (step, "service", "usage_type"), [types]).rows
        except WrongInput:  # a bill by days
            continue
        charged = Counter(map(_line, rows))
        return {line for line in alone if charged[line] == 1}
    return set()


def _line(row: Spend) -> Line:
    return row.key["service"], row.key["usage_type"]


def change_card(change: CostChange) -> Card:
    """Draw the change.

    Its largest driver in the title, then a few drivers and the rest, which sum to it.
    """
    drivers, before, current = change.drivers, change.then, change.now
    amount, spent_before = change.change, before.total.amortised
    moved = "Unchanged"
    if amount:
        grown = f" ({percent(abs(amount) / spent_before)})" if spent_before > 0 else ""
        moved = f"{'Up' if amount > 0 else 'Down'} {amount_of(abs(amount), current)}{grown}"
        moved += f": {reason(drivers[0])}" if drivers else ""
    filters = "".join(f" · {condition}" for condition in change.filters)
    title = f"{moved} · {period(current.window)}{filters}"

    # The drivers that are not drawn stand in one row, so that all rows add up to the change.
    smaller = drivers[_MOST:]
    smaller_usd = sum((driver.usd for driver in smaller), Decimal(0))
    rows = [(reason(x), _detail(x), _signed(x.usd, current)) for x in drivers[:_MOST]]
    if smaller:
        count = counted(len(smaller), "smaller change")
        rows.append((count, "", _signed(smaller_usd, current)))
    columns = (Heading("driver"), Heading("before and now"), Heading("change", Align.RIGHT))
    table = Table(columns, tuple(rows), ("change", "", _signed(amount, current)))

    spans = [
        f"{amount_of(tally.total.amortised, current)} from {period(tally.window)}"
        for tally in (current, before)
    ]
    window = window_line(current.window)
    typed = "".join(f" {condition}" for condition in change.filters)
    blocks = compose(
        text(f"{' against '.join(spans)}, amortised."),
        not change.settled and text(_UNSETTLED),
        table if drivers else text("No charge changed."),
        _alerts(change.alerts),
        current.billed_through is not None
        and quiet("Billed through ", When(current.billed_through), ". ", _HOW),
        Buttons(
            (
                Button("By service", f"cost {window} by service{typed}"),
                Button("By day", f"cost {window} by day{typed}"),
                *([Button("Alerts", f"alerts window={window}")] if change.alerts else []),
            )
        ),
    )

    data = {
        "window": {"start": current.window.start, "end": current.window.end},
        "before": {
            "window": {"start": before.window.start, "end": before.window.end},
            "amortised_usd": spent_before,
        },
        "currency": current.currency,
        "amortised_usd": current.total.amortised,
        "change_usd": amount,
        "settled": change.settled,
        "drivers": [driver_data(driver) for driver in drivers[:_MOST]],
        "smaller": [driver_data(driver) for driver in smaller],
        "smaller_usd": smaller_usd,
        "alerts": [alert.id for alert in change.alerts],
    }
    return Card(title, Tone.INFO, blocks, data)


_UNSETTLED = (
    "AWS may still rewrite these hours: the newest of a bill come in late, so this is an estimate."
)
_HOW = "More hours count at the old rate, then other ways of buying, then other prices."


def percent(share: Decimal) -> str:
    """Write how much of a cost has changed."""
    return f"{share * 100:,.0f} %" if share >= Decimal("0.005") else "under 1 %"


def reason(driver: Driver) -> str:
    """Say a driver in a few words."""
    what, grew = driver.what, driver.usd > 0
    words = {
        DriverKind.HOURS: f"{'more' if grew else 'fewer'} hours of {what}",
        DriverKind.PRICE: f"price of {what}" if driver.rates else what,
        DriverKind.COMMITMENT: f"commitments for {what}" if driver.covered else what,
        DriverKind.NEW: f"new: {what}",
        DriverKind.ENDED: f"ended: {what}",
        DriverKind.FEE: f"one-off fee: {what}",
        DriverKind.USAGE: f"{'more' if grew else 'less'} {what}",
    }
    return words[driver.kind]


def _detail(driver: Driver) -> str:
    if driver.covered:
        before, current = driver.covered
        return f"{before:.0%} to {current:.0%} of its hours under a commitment".replace("%", " %")
    if driver.kind is DriverKind.PRICE and driver.rates:
        return f"{usd(driver.rates[0], 4)} to {usd(driver.rates[1], 4)} an hour"
    if driver.hours:
        return f"{driver.hours[0]:,.0f} to {driver.hours[1]:,.0f} node-hours"
    return f"{usd(driver.costs[0])} to {usd(driver.costs[1])}" if driver.costs else ""


def _signed(amount: Decimal, tally: Tally) -> str:
    return ("+" if amount > 0 else "") + amount_of(amount, tally)


def _alerts(alerts: Sequence[Alert]) -> list[Block]:
    """Name the alerts of that time, the dearest first."""
    if not alerts:
        return [quiet("No alert was open in this time.")]
    ranked = sorted(alerts, key=worth, reverse=True)
    names = [f"{alert.cause.facts.words} · {place(alert)}" for alert in ranked[:_MOST_ALERTS]]
    if len(ranked) > _MOST_ALERTS:
        names.append(f"and {len(ranked) - _MOST_ALERTS} more")
    return [text(f"Alerts of this time: {'; '.join(names)}.")]


def driver_data(driver: Driver) -> dict[str, Any]:
    """Return a driver's data, with the filters that keep its rows."""
    pairs = {
        "hours": driver.hours,
        "usd_per_hour": driver.rates,
        "covered_ratio": driver.covered,
        "costs_usd": driver.costs,
    }
    compared = {name: {"then": pair[0], "now": pair[1]} for name, pair in pairs.items() if pair}
    return {
        "kind": driver.kind.value,
        "what": driver.what,
        "usd": driver.usd,
        **compared,
        "where": [str(condition) for condition in driver.where],
    }


def _unbilled_card(ports: Ports, at: datetime, window: Window) -> Card:
    """Say that nothing of a window is billed yet, and name its alerts."""
    through = ports.world.billing.tally(NO_TIME, ()).billed_through
    passed = Window(min(window.start, at), min(window.end, at))
    alerts = ports.stores.alerts.history(passed, Labels())
    blocks = (
        text("AWS's bill comes a day or two late: nobody can say yet what these hours cost."),
        *_alerts(alerts),
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
