"""Answer with ten lines for a lead, and with a person's home page."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

from bot.answers.cost.title import forecast_data
from bot.answers.cost.why import CostChange, change_of, driver_data, percent, reason
from bot.cards.alert_words import held_words, where, worth
from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    Card,
    Heading,
    Strong,
    Table,
    Text,
    Tone,
    When,
    coded,
    quiet,
    text,
)
from bot.cards.words import about, amount_in, amount_of, day, period, since
from bot.costs.nowcast import Nowcast, forecast_of
from bot.costs.tally import settled_until
from bot.errors import TrnbotError
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.alert import Alert, usd_per_hour_of
from bot.model.fleet import Reservation
from bot.model.labels import Labels
from bot.model.money import counted, usd
from bot.model.reading import Reading
from bot.model.request import Request
from bot.model.spend import Commitment, CommitmentPlan, Tally
from bot.model.window import NO_TIME, Window
from bot.ports import Ports
from bot.watch.feedback import Saving, saved_within

WEEK = timedelta(days=7)
_SOON = timedelta(days=30)
_MOST = 3
_NOTABLE = Decimal("0.01")
"""Share of a week's spend from which a change is told."""


@dataclass(frozen=True)
class Summary:
    """Hold the content of a summary of the week before `now`; None where it cannot be told."""

    now: datetime
    firing: Sequence[Alert]
    saved: Sequence[Saving] = ()
    change: CostChange | None = None
    nowcast: Nowcast | None = None
    month: Tally | None = None
    ending: Sequence[Reservation] = ()
    commitments: Sequence[Commitment] = ()

    @property
    def window(self) -> Window:
        """Return the week that it tells of."""
        return Window(self.now - WEEK, self.now)

    @property
    def speaking(self) -> list[Alert]:
        """Return the open alerts that nothing mutes, the dearest first."""
        return sorted((alert for alert in self.firing if alert.speaking), key=worth, reverse=True)

    @property
    def wasting(self) -> Decimal:
        """Return the USD an hour that they waste."""
        return usd_per_hour_of(self.speaking)


_SUMMARY_FIGURES = {
    "waste_usd/per_hour": (
        "sum over the alert's things of the price of an hour x the wasted share; of a cause"
        " of the bill, what was billed over the usual"
    ),
    "saved/alerts": "count of the alerts that ended in the week after somebody acted",
    "saved/usd_per_hour": "sum of their waste an hour at the peak",
    "open/usd_per_hour": "sum of the waste an hour of the open alerts that nothing mutes",
    "forecast/amortised_usd": (
        "settled days of the month, fees at their day, and the recurring cost of the days "
        "left, by the days that settled and the nodes that run"
    ),
    "forecast/low_usd": "the low end of the forecast's range, never under what is billed",
    "forecast/high_usd": "the high end of the forecast's range",
    "forecast/fees_usd": "one-off charges and monthly fees of the month, each counted once",
    "forecast/settled_days": "count of the settled days that the forecast rests on",
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
    "driver/usd": (
        "hours: change of hours x old rate; commitment: hours now x change of the shares of"
        " ways to buy x their old rates; price: the rest of the nodes' change; of "
        "everything else cost now - cost before"
    ),
    "change_usd": (
        "amortised cost of the last days that are compared - that of as long a part before"
    ),
    "month/credits_usd": "credits of the month to date",
}


@command(
    "summary",
    "Ten lines for a lead: spend, forecast, waste, saved, the biggest change, what ends soon, open alerts, one advice.",
    needs=Needs.STATE | Needs.METRICS,
    may=Needs.BILL,
    topic=Topic.COSTS,
    examples=("summary", "summary money"),
    figures=_SUMMARY_FIGURES,
)
async def summary(
    ports: Ports,
    request: Request,
    part: str = arg(
        "all", "money leaves out waste, saved, alerts and advice", choices=("all", "money")
    ),
) -> Card:
    """Sum up the last seven days."""
    memory = await asyncio.to_thread(ports.stores.alerts.load, request.at)
    reading = await asyncio.to_thread(ports.world.source.read, request.at)
    firing = [alert for alert in memory.alerts if alert.firing]
    return summary_card(
        await asyncio.to_thread(summary_of, ports, firing, reading, request.at), Part(part)
    )


def summary_of(
    ports: Ports, firing: Sequence[Alert], reading: Reading | None, now: datetime
) -> Summary:
    """Return the content of a summary as of `now`; what cannot be read leaves its lines out.

    May block.
    """
    week = Window(now - WEEK, now)
    history = [
        alert
        for alert in ports.stores.alerts.history(week, Labels())
        if reading or alert.acknowledged
    ]
    saved = saved_within(history, week, reading.inventory.running if reading else frozenset(), now)
    change = nowcast = month = None
    with suppress(TrnbotError):
        change = _settled_week(ports, now)
    with suppress(TrnbotError):
        nowcast = forecast_of(ports, now, reading)
        month = ports.world.billing.tally(Window.parse("mtd", now), ())
    reserved = reading.inventory.reservations if reading else ()
    ending = [
        one for one in reserved if one.ends_at and now < one.ends_at <= now + _SOON and one.active
    ]
    return Summary(
        now, firing, saved, change, nowcast, month, ending, ports.world.outlook.commitments(now)
    )


def _settled_week(ports: Ports, now: datetime) -> CostChange | None:
    """Return the change of the newest seven days that have settled; None where nothing is billed."""
    through = ports.world.billing.tally(NO_TIME, ()).billed_through
    if through is None:
        return None
    settled = settled_until(min(through, now))
    return change_of(ports, now, Window(settled - WEEK, settled))


class Part(StrEnum):
    """Name how much of a summary is told."""

    ALL = "all"
    MONEY = "money"
    """Nothing of alerts, where these are told anyway."""
    HOME = "home"
    """Alerts are told beside it."""


def summary_card(of: Summary, part: Part = Part.ALL) -> Card:
    """Draw the lines that can be told, each with the number that it is about first."""
    more = (
        Button("Why it changed", "why cost 7d"),
        Button("Forecast", "forecast"),
        Button("Alerts", "alerts"),
        Button("By team", "cost 7d by team"),
    )
    return Card(
        summary_title(of),
        summary_tone(of),
        (*summary_lines(of, part), Buttons(more)),
        summary_data(of),
    )


def summary_title(of: Summary) -> str:
    """Say the week's spend and what is wasted now."""
    now = of.change.now if of.change else None
    spent = f"{amount_of(now.total.amortised, now)} spent {period(now.window)}; " if now else ""
    open_now = counted(len(of.speaking), "open alert")
    return f"{spent}{f'{usd(of.wasting)} an hour wasted now in {open_now}' if of.speaking else 'no open alert'}"


def summary_tone(of: Summary) -> Tone:
    """Warn while an alert is open."""
    return Tone.WARNING if of.speaking else Tone.GOOD


def summary_lines(of: Summary, part: Part) -> Iterator[Text]:
    """Yield the lines of a part."""
    yield from _spend(of)
    if part is Part.ALL:
        yield _waste(of)
    if part is Part.ALL or (part is Part.HOME and of.saved):
        yield _saved(of)
    yield from _ends(of)
    if part is Part.ALL:
        yield from _alerts(of)
    if part is not Part.MONEY:
        yield from _advice(of)


def _line(name: str, words: str) -> Text:
    return text(Strong(name), f": {words}")


def _spend(of: Summary) -> Iterator[Text]:
    change, nowcast = of.change, of.nowcast
    if change is None:
        yield _line("Spend", "the bill tells of no settled week yet.")
    else:
        now, then = change.now, change.then.total.amortised
        grown = (
            f", {'up' if change.change > 0 else 'down'} {percent(abs(change.change) / then)} on the week before"
            if then > 0
            else ""
        )
        yield _line(
            "Spend",
            f"{amount_of(now.total.amortised, now)} from {period(now.window)}{grown} (amortised, settled days).",
        )
    if nowcast:
        low, middle, high = (
            _about(x, nowcast.currency) for x in (nowcast.low, nowcast.forecast, nowcast.high)
        )
        yield _line("Forecast", f"about {middle} in {nowcast.month.start:%B} ({low} to {high}).")
    if change and change.drivers:
        yield _line("Biggest change", _biggest(change))


def _biggest(change: CostChange) -> str:
    """Name the first driver of a change, where it is worth a lead's time."""
    first = change.drivers[0]
    if abs(first.usd) < _NOTABLE * change.then.total.amortised:
        return f"none of {percent(_NOTABLE)} of the week's spend or more."
    return f"{'+' if first.usd > 0 else ''}{amount_of(first.usd, change.now)}, {reason(first)}."


def _about(amount: Decimal, currency: str) -> str:
    return about(amount) if currency == "USD" else amount_in(amount, currency)


def _waste(of: Summary) -> Text:
    if not of.speaking:
        return _line("Waste", "no open alert wastes anything.")
    return _line(
        "Waste", f"{usd(of.wasting)} an hour now, in {counted(len(of.speaking), 'open alert')}."
    )


def _saved(of: Summary) -> Text:
    if not of.saved:
        return _line("Saved", "no alert of the last 7 days ended because somebody acted.")
    each = sum((saving.usd_per_hour for saving in of.saved), Decimal(0))
    return _line(
        "Saved",
        f"about {usd(each)} an hour: {counted(len(of.saved), 'alert')} ended after somebody acted (estimate).",
    )


def _ends(of: Summary) -> Iterator[Text]:
    """Tell how commitments are used, which reservations end, and the credits of the month."""
    words = []
    for plan in CommitmentPlan:
        days = [one for one in of.commitments if one.plan is plan and one.committed]
        if days:
            last = max(days, key=lambda one: one.day)
            words.append(
                f"{plan} used to {percent(last.utilization)} on {last.day:%b} {last.day.day}"
            )
    for one in sorted(of.ending, key=lambda one: one.ends_at or of.now)[:2]:
        assert one.ends_at
        words.append(f"{one.total} x {one.labels.instance_type} reserved until {day(one.ends_at)}")
    if of.month and of.month.total.credits:
        words.append(f"{amount_of(-of.month.total.credits, of.month)} of credits used this month")
    if words:
        yield _line("Commitments and credits", f"{'; '.join(words)}.")


def _alerts(of: Summary) -> Iterator[Text]:
    for alert in of.speaking[:_MOST]:
        each = f"{usd(alert.waste.per_hour)} an hour, " if alert.waste else ""
        yield _line(
            "Alert",
            f"{alert.cause.facts.words} · {where(alert)} · {each}{alert.owner or 'nobody owns it'}",
        )


def _advice(of: Summary) -> Iterator[Text]:
    """Give the first suggestion of the dearest alert that has one."""
    alert = next((one for one in of.speaking if one.anomaly.suggestions), None)
    if alert:
        advice = coded(alert.anomaly.suggestions[0].rstrip("."))
        yield text(
            Strong("Do first"), ": ", *advice, f" ({alert.anomaly.labels.cluster or where(alert)})."
        )


def summary_data(of: Summary) -> dict[str, Any]:
    """Return the typed numbers of every line."""
    saved = sum((saving.usd_per_hour for saving in of.saved), Decimal(0))
    return {
        "window": of.window,
        "open": {
            "alerts": [alert.id for alert in of.speaking],
            "usd_per_hour": of.wasting,
            "dearest": dearest_data(of),
        },
        "saved": {"alerts": len(of.saved), "usd_per_hour": saved, "estimate": True},
        **({"changed": _changed(of.change)} if of.change else {}),
        **({"month": {"credits_usd": of.month.total.credits}} if of.month else {}),
        "ending": [
            {"reservation": one.labels.resource, "ends_at": one.ends_at} for one in of.ending
        ],
        **forecast_data(of.nowcast, None),
    }


def dearest_data(of: Summary, most: int = _MOST) -> list[dict[str, Any]]:
    """Return the typed numbers of the dearest open alerts."""
    return [{"id": one.id, "owner": one.owner, **_waste_data(one)} for one in of.speaking[:most]]


def _waste_data(alert: Alert) -> dict[str, Any]:
    return {"waste_usd": {"per_hour": alert.waste.per_hour}} if alert.waste else {}


def _changed(change: CostChange) -> dict[str, Any]:
    now, then = change.now, change.then
    first = {"driver": driver_data(change.drivers[0])} if change.drivers else {}
    return {
        "window": {"start": now.window.start, "end": now.window.end},
        "before": {
            "window": {"start": then.window.start, "end": then.window.end},
            "amortised_usd": then.total.amortised,
        },
        "amortised_usd": now.total.amortised,
        "change_usd": change.change,
        **first,
    }


_HOME_MOST = 8
_SERVICES = 5


def home_card(of: Summary, services: Tally | None) -> Card:
    """Begin with the summary; alerts are told once, by the rows that open them."""
    next_lines = (
        Button("Why it changed", "why cost 7d"),
        Button("Forecast", "forecast"),
        Button("Cost", "cost 7d by team"),
        Button("Fleet", "fleet"),
        Button("Help", "help"),
    )
    blocks = (
        *summary_lines(of, Part.HOME),
        *_home_alerts(of),
        *(_month(services) if services else ()),
        Buttons(next_lines),
    )
    data = {
        **summary_data(of),
        "open": [alert.id for alert in of.speaking],
        "dearest": dearest_data(of, _HOME_MOST),
        "services": [{"key": key, "net_usd": net} for key, net in _largest(services)]
        if services
        else [],
        "month_to_date": {"start": services.window.start, "end": services.window.end}
        if services
        else None,
        "usd_per_hour": of.wasting,
        "month_net_usd": services.total.net if services else None,
    }
    return Card(summary_title(of), summary_tone(of), blocks, data)


def _home_alerts(of: Summary) -> Iterator[Block]:
    for alert in of.speaking[:_HOME_MOST]:
        cost = f"{usd(alert.waste.per_hour)} an hour · " if alert.waste else ""
        lasted = since(alert.anomaly.window.start, of.now)
        yield text(
            Strong(alert.cause.facts.words),
            f" · {where(alert)} · {cost}since {lasted} · {held_words(alert) or alert.owner or 'nobody owns it'}",
        )
        yield Buttons(
            (Button("Open", f"alert {alert.id}"), Button("Acknowledge", f"ack {alert.id}"))
        )
    if len(of.speaking) > _HOME_MOST:
        yield quiet(f"and {len(of.speaking) - _HOME_MOST} more open")


def _month(services: Tally) -> Iterator[Block]:
    columns = (Heading("month to date by service"), Heading("net", Align.RIGHT))
    yield Table(
        columns,
        tuple((key["service"] or "(none)", usd(net)) for key, net in _largest(services)),
        ("total", usd(services.total.net)),
    )
    if services.billed_through:
        yield quiet("Billed through ", When(services.billed_through))


def _largest(services: Tally) -> list[tuple[Mapping[str, str], Decimal]]:
    top = sorted(services.rows, key=lambda row: -row.money.net)[:_SERVICES]
    return [(row.key, row.money.net) for row in top]


_HOME_FIGURES = {
    "net_usd": "gross + discounts + credits + tax of a service in the month to date",
    "month_net_usd": "net: gross + discounts + credits + tax of the month to date",
    "waste_usd/per_hour": (
        "sum over the alert's things of the price of an hour x the wasted share; of a cause"
        " of the bill, what was billed over the usual"
    ),
    "waste_usd/so_far": (
        "sum over the ticks of hours x waste an hour then; of a cause of the bill, what the"
        " bill shows over the usual, and an estimate of the hours after it"
    ),
    "waste_usd/month_end": "so far + waste an hour x hours left in the UTC month, where it goes on",
    "at_risk_usd": "price of an hour of the nodes x hours since the last checkpoint",
    "score": "how far the readings lie from the usual, 0 to 1, by the detector",
    "usd_per_hour": "sum of the waste an hour of the open alerts that nothing mutes",
    "saved/alerts": "count of the alerts that ended in the week after somebody acted",
    "saved/usd_per_hour": "sum of their waste an hour at the peak",
    "forecast/amortised_usd": (
        "settled days of the month, fees at their day, and the recurring cost of the days "
        "left, by the days that settled and the nodes that run"
    ),
    "forecast/low_usd": "the low end of the forecast's range, never under what is billed",
    "forecast/high_usd": "the high end of the forecast's range",
    "forecast/fees_usd": "one-off charges and monthly fees of the month, each counted once",
    "forecast/settled_days": "count of the settled days that the forecast rests on",
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
    "driver/usd": (
        "hours: change of hours x old rate; commitment: hours now x change of the shares of"
        " ways to buy x their old rates; price: the rest of the nodes' change; of "
        "everything else cost now - cost before"
    ),
    "change_usd": (
        "amortised cost of the last days that are compared - that of as long a part before"
    ),
    "month/credits_usd": "credits of the month to date",
}


@command(
    "home",
    "The summary, what wastes now, and the month to date: the home page.",
    needs=Needs.STATE,
    may=Needs.BILL | Needs.METRICS,
    topic=Topic.COSTS,
    examples=("home",),
    rows=("services",),
    figures=_HOME_FIGURES,
)
async def home(ports: Ports, request: Request) -> Card:
    """Sum up for a person's home page."""
    return await asyncio.to_thread(_home, ports, request.at)


def _home(ports: Ports, now: datetime) -> Card:
    firing = [alert for alert in ports.stores.alerts.load(now).alerts if alert.firing]
    reading = services = None
    with suppress(TrnbotError):  # what cannot be read leaves its lines out
        reading = ports.world.source.read(now)
    with suppress(TrnbotError):
        services = ports.world.billing.tally(Window.parse("mtd", now), ("service",))
    return home_card(summary_of(ports, firing, reading, now), services)
