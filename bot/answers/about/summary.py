"""Answer with ten lines for a lead, and with a person's home page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

from bot.answers.alerts.alerts import ALERT_FIGURES
from bot.answers.cost.goodput import (
    GOODPUT_FIGURES,
    goodput_data,
    goodput_total,
    goodput_words,
)
from bot.answers.cost.title import NOWCAST_FIGURES, forecast_data, newest_uses
from bot.answers.cost.why import (
    CHANGE_FIGURES,
    DRIVER_FORMULA,
    CostChange,
    change_of,
    driver_data,
    reason,
)
from bot.answers.plan.capacity import QUOTAS, QuotaUse, room_words, tight_quotas
from bot.answers.plan.suggestions import COLUMNS, shortlist_blocks, shortlisted
from bot.cards.alert_words import held_words, remedies, subject_of, where, worth
from bot.cards.card import (
    Block,
    Button,
    Buttons,
    Card,
    Strong,
    Text,
    Tone,
    When,
    coded,
    compose,
    quiet,
    text,
)
from bot.cards.columns import SHARE, USD, Column, Columns
from bot.cards.lines import window_line
from bot.cards.words import about_in, amount_of, doubted, growth, in_period, moved, period, unseen
from bot.costs.drivers import DriverKind
from bot.costs.goodput import GoodputRow
from bot.costs.nowcast import Nowcast, forecast_of
from bot.costs.suggestions import Suggestion
from bot.costs.tally import settled_until
from bot.errors import TrnbotError
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.alert import Alert, committed_usd_per_hour_of, usd_per_hour_of
from bot.model.fleet import Reservation
from bot.model.labels import Labels
from bot.model.money import cents, counted, usd
from bot.model.notification import Coverage, State
from bot.model.reading import Reading
from bot.model.request import Request
from bot.model.spend import Commitment, Spend, Tally
from bot.model.window import NO_TIME, Window, day, utc_text
from bot.ports import Ports
from bot.watch.feedback import Saving, saved_within

WEEK = timedelta(days=7)
_SOON = timedelta(days=30)
_MOST = 3
_NOTABLE = Decimal("0.01")
"""Share of a week's spend from which a change is told."""


NOT_KNOWN = "what is wasted now is not known"


class Part(StrEnum):
    """Name how much of a summary is told."""

    ALL = "all"
    MONEY = "money"
    """Nothing of alerts, where these are told anyway."""
    HOME = "home"
    """Alerts are told beside it."""


@dataclass(frozen=True)
class Summary:
    """Hold the content of a summary of the week before `now`; None where it cannot be told."""

    now: datetime
    firing: Sequence[Alert]
    seen: Coverage
    saved: Sequence[Saving] = ()
    change: CostChange | None = None
    nowcast: Nowcast | None = None
    month: Tally | None = None
    ending: Sequence[Reservation] = ()
    commitments: Sequence[Commitment] = ()
    tight: Sequence[QuotaUse] = ()
    """Quotas by which the next launch of what runs most would be refused."""
    goodput: GoodputRow | None = None

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
    "waste_usd/per_hour": ALERT_FIGURES["waste_usd/per_hour"],
    "saved/alerts": "count of the alerts that ended in the week after somebody acted",
    "saved/usd_per_hour": "sum of their waste an hour at the peak",
    "open/usd_per_hour": "sum of the waste an hour of the open alerts that nothing mutes",
    "open/committed_usd_per_hour": ALERT_FIGURES["waste_usd/committed_per_hour"],
    **NOWCAST_FIGURES,
    **CHANGE_FIGURES,
    "driver/net_usd": DRIVER_FORMULA,
    "driver/amortised_usd": DRIVER_FORMULA,
    "change_usd": (
        "amortised cost of the last days that are compared - that of as long a part before"
    ),
    "month/credits_usd": "credits of the month to date",
    **QUOTAS.sources("tight_quotas"),
    **GOODPUT_FIGURES,
}


@command(
    "summary",
    "Ten lines for a lead: spend, forecast, waste, savings, the biggest change, what ends soon,"
    " goodput, open alerts, and what to do first.",
    needs=Needs.STATE | Needs.METRICS,
    may=Needs.BILL | Needs.DETECTOR,
    topic=Topic.COSTS,
    examples=("summary", "summary money"),
    figures=_SUMMARY_FIGURES,
)
def summary(
    ports: Ports,
    request: Request,
    part: str = arg(
        "all", "money leaves out waste, saved, alerts and advice", choices=("all", "money")
    ),
) -> Card:
    """Sum up the last seven days."""
    memory, asked = ports.stores.alerts.load(request.at), Part(part)

    return summary_card(
        summary_of(ports, memory, ports.world.source.read(request.at), request.at, asked), asked
    )


def summary_of(
    ports: Ports, memory: State, reading: Reading | None, now: datetime, part: Part
) -> Summary:
    """Return the content of a part as of `now`; what cannot be read leaves its lines out.

    May block.
    """
    week, billing = Window(now - WEEK, now), ports.world.billing
    # Without a reading nobody knows which nodes are gone: only who acknowledged counts then.
    ended = [
        alert
        for alert in ports.stores.alerts.history(week, Labels())
        if reading or alert.acknowledged
    ]
    saved = saved_within(ended, week, reading.inventory.running if reading else frozenset(), now)

    # The newest seven days that have settled are compared.
    change = nowcast = month = None
    with suppress(TrnbotError):
        through = billing.tally(NO_TIME, ()).billed_through
        if through is not None:
            settled = settled_until(min(through, now))
            change = change_of(ports, now, Window(settled - WEEK, settled))

    with suppress(TrnbotError):
        nowcast = forecast_of(ports, now, reading)
        month = billing.tally(Window.parse("mtd", now), ())
    ending = [
        reservation
        for reservation in (reading.inventory.reservations if reading else ())
        if reservation.active and reservation.ends_at and now < reservation.ends_at <= now + _SOON
    ]

    # The money lines are asked for each minute, and are of the bill alone.
    goodput = goodput_total(ports, reading, week) if reading and part is not Part.MONEY else None

    return Summary(
        now,
        [alert for alert in memory.alerts if alert.firing],
        memory.coverage(now),
        saved,
        change,
        nowcast,
        month,
        ending,
        ports.world.outlook.commitments(now),
        tight_quotas(reading.inventory) if reading else (),
        goodput,
    )


def summary_card(of: Summary, part: Part = Part.ALL) -> Card:
    """Draw the lines that can be told, each with the number that it is about first."""
    return Card(
        summary_title(of),
        summary_tone(of),
        compose(
            summary_lines(of, part),
            Buttons(
                (
                    Button("Why it changed", f"why cost {_week(of)}"),
                    Button("Forecast", "forecast"),
                    Button("Alerts", "alerts"),
                    Button("By team", f"cost {_week(of)} by team"),
                )
            ),
        ),
        summary_data(of),
    )


def _week(of: Summary) -> str:
    """Return the window of the spend as a line types it, so that its buttons show its numbers."""
    return window_line(of.change.now.window) if of.change else "7d"


def summary_title(of: Summary) -> str:
    """Say the week's spend and what is wasted now."""
    spent, waste = "", doubted("no open alert", NOT_KNOWN, of.seen)
    if of.change:
        week = of.change.now
        spent = f"{amount_of(week.total.amortised, week)} spent {period(week.window)}; "
    if of.speaking:
        waste = f"{usd(of.wasting)} an hour wasted now in {counted(len(of.speaking), 'open alert')}"

    words = spent + waste
    return words[0].upper() + words[1:]


def summary_tone(of: Summary) -> Tone:
    """Warn while an alert is open, or one may be that nobody can see."""
    return Tone.WARNING if of.speaking or of.seen.because else Tone.GOOD


def summary_lines(of: Summary, part: Part) -> Iterator[Text]:
    """Yield the lines of a part."""
    yield from _spend(of)
    if part is Part.ALL:
        yield _line("Waste", f"{_waste(of)}. {of.seen.because}".rstrip())

    if of.saved and part is not Part.MONEY:
        stopped = sum((saving.usd_per_hour for saving in of.saved), Decimal(0))
        ended = f"{counted(len(of.saved), 'alert')} ended after somebody acted (estimate)"
        yield _line("Saved", f"about {usd(stopped)} an hour: {ended}.")
    elif part is Part.ALL:
        yield _line("Saved", "no alert of the last 7 days ended because somebody acted.")

    words = [
        f"{use.plan} used to {SHARE.write(use.utilization)} on {day(use.day)}"
        for use in newest_uses(of.commitments)
    ]
    ending = [(entry.ends_at, entry) for entry in of.ending if entry.ends_at]
    words += [
        f"{entry.total} x {entry.labels.instance_type} reserved until {day(at)}"
        for at, entry in sorted(ending, key=lambda pair: pair[0])[:2]
    ]
    if of.month and of.month.total.credits:
        words.append(f"{amount_of(-of.month.total.credits, of.month)} of credits used this month")
    if words:
        yield _line("Commitments and credits", f"{'; '.join(words)}.")

    if of.tight and part is not Part.MONEY:
        yield room_words(of.tight)

    if part is Part.ALL:
        for alert in of.speaking[:_MOST]:
            cost = f"{usd(alert.waste.per_hour)} an hour, " if alert.waste else ""
            place = f"{alert.cause.facts.words} · {where(alert)}"
            yield _line("Alert", f"{place} · {cost}{owner_of(alert)}")

    # One piece of advice: of the dearest alert that has any.
    advised = next((alert for alert in of.speaking if remedies(alert)), None)
    if advised and part is not Part.MONEY:
        place = subject_of(advised) or where(advised)
        yield text(
            Strong(f"Do first for {place}"), ": ", *coded(remedies(advised)[0].rstrip(".")), "."
        )


def owner_of(alert: Alert) -> str:
    """Name who is likeliest to own an alert: its owner, else its team, project or launcher."""
    return next(iter(alert.owners), "no owner known").replace(":", " ")


def _waste(of: Summary) -> str:
    """Say what the open alerts waste an hour, and what of it a commitment bills either way."""
    if not of.speaking:
        return doubted("no open alert wastes anything", NOT_KNOWN, of.seen)
    waste = f"{usd(of.wasting)} an hour now, in {counted(len(of.speaking), 'open alert')}"
    if committed := committed_usd_per_hour_of(of.speaking):
        part = "all" if committed == of.wasting else usd(committed)
        waste += f", {part} of it committed and billed either way"
    return waste


def _line(name: str, words: str) -> Text:
    return text(Strong(name), f": {words}")


def _spend(of: Summary) -> Iterator[Text]:
    change, nowcast = of.change, of.nowcast
    if change is None:
        yield _line("Spend", "no week of the bill has settled yet.")
    else:
        week, before, trend = change.now, change.then.total.amortised, ""
        if before > 0:
            trend = f", {moved(change.amortised / before)} the week before"
        yield _line(
            "Spend",
            f"{amount_of(week.total.amortised, week)} {in_period(week.window)}{trend} (amortised,"
            " settled days).",
        )

    if nowcast:
        low, middle, high = (
            about_in(amount, nowcast.currency)
            for amount in (nowcast.low, nowcast.forecast, nowcast.high)
        )
        yield _line("Forecast", f"about {middle} in {nowcast.month.start:%B} ({low} to {high}).")

    # Tax comes with the month, and follows what else is charged.
    drivers = [x for x in change.drivers if x.kind is not DriverKind.TAX] if change else []
    if change and drivers:
        first = drivers[0]
        sign = "+" if first.net > 0 else ""
        measure = "" if first.net == first.amortised else " net"
        words = f"{sign}{amount_of(first.net, change.now)}{measure}, {reason(first)}."
        # What is small beside the spend of a week is noise, and no news for a lead.
        if abs(first.net) < _NOTABLE * change.then.total.amortised:
            words = f"no change above {growth(_NOTABLE)} of the week's spend."
        yield _line("Biggest change", words)
    if of.goodput:
        yield _line("Goodput", f"{in_period(of.window)}, {goodput_words(of.goodput)}")


def summary_data(of: Summary) -> dict[str, Any]:
    """Return the typed numbers of every line."""
    return {
        "window": of.window,
        **of.seen.data,
        "open": {
            "alerts": [alert.id for alert in of.speaking],
            "usd_per_hour": of.wasting,
            "committed_usd_per_hour": committed_usd_per_hour_of(of.speaking),
            "dearest": dearest_data(of),
        },
        "saved": {
            "alerts": len(of.saved),
            "usd_per_hour": sum((saving.usd_per_hour for saving in of.saved), Decimal(0)),
            "estimate": True,
        },
        **({"tight_quotas": QUOTAS.data(of.tight)} if of.tight else {}),
        **({"changed": _changed(of.change)} if of.change else {}),
        **({"goodput": goodput_data(of.goodput)} if of.goodput else {}),
        **({"month": {"credits_usd": of.month.total.credits}} if of.month else {}),
        "ending": [
            {"reservation": entry.labels.resource, "ends_at": entry.ends_at} for entry in of.ending
        ],
        **forecast_data(of.nowcast, None),
    }


def _changed(change: CostChange) -> dict[str, Any]:
    """Return the typed numbers of the biggest change."""
    week, before = change.now, change.then
    return {
        "window": {"start": week.window.start, "end": week.window.end},
        "before": {
            "window": {"start": before.window.start, "end": before.window.end},
            "amortised_usd": before.total.amortised,
        },
        "amortised_usd": week.total.amortised,
        "change_usd": change.amortised,
        **({"driver": driver_data(change.drivers[0])} if change.drivers else {}),
    }


def dearest_data(of: Summary, most: int = _MOST) -> list[dict[str, Any]]:
    """Return the typed numbers of the dearest open alerts."""
    return [
        {
            "id": alert.id,
            "owner": alert.owner,
            **({"waste_usd": {"per_hour": cents(alert.waste.per_hour)}} if alert.waste else {}),
        }
        for alert in of.speaking[:most]
    ]


_HOME_MOST = 8
_SERVICES = 5


_BY_SERVICE = Columns[Spend](
    Column("", lambda row: row.key, key="key"),
    Column("month to date by service", lambda row: row.key["service"], missing="(none)"),
    Column("net", lambda row: row.money.net, USD, key="net_usd"),
)


def home_card(of: Summary, services: Tally | None, suggested: Sequence[Suggestion] = ()) -> Card:
    """Begin with the summary; alerts are told once, by the rows that open them."""
    largest = sorted(services.rows if services else (), key=lambda row: -row.money.net)[:_SERVICES]
    month: list[Block] = []
    if services:
        month.append(replace(_BY_SERVICE.table(largest), total=("total", usd(services.total.net))))
        if services.billed_through:
            month.append(quiet("Billed through ", When(services.billed_through)))

    alerts: list[Block] = []
    for alert in of.speaking[:_HOME_MOST]:
        cost = f"{usd(alert.waste.per_hour)} an hour · " if alert.waste else ""
        open_, ack = Button("Open", f"alert {alert.id}"), Button("Acknowledge", f"ack {alert.id}")
        alerts += [
            text(
                Strong(alert.cause.facts.words),
                f" · {where(alert)} · {cost}since {utc_text(alert.anomaly.window.start, of.now)} ·"
                f" {held_words(alert) or owner_of(alert)}",
            ),
            Buttons((open_, ack)),
        ]

    if len(of.speaking) > _HOME_MOST:
        alerts.append(quiet(f"and {len(of.speaking) - _HOME_MOST} more open"))

    return Card(
        summary_title(of),
        summary_tone(of),
        compose(
            unseen(of.seen),
            summary_lines(of, Part.HOME),
            alerts,
            shortlist_blocks(suggested),
            month,
            Buttons(
                (
                    Button("Why it changed", f"why cost {_week(of)}"),
                    Button("Forecast", "forecast"),
                    Button("Cost", f"cost {_week(of)} by team"),
                    Button("Fleet", "fleet"),
                    Button("Help", "help"),
                )
            ),
        ),
        {
            **summary_data(of),
            "open": [alert.id for alert in of.speaking],
            "dearest": dearest_data(of, _HOME_MOST),
            "services": _BY_SERVICE.data(largest),
            **({"suggested": COLUMNS.data(suggested)} if suggested else {}),
            "month_to_date": services
            and {"start": services.window.start, "end": services.window.end},
            "usd_per_hour": of.wasting,
            "month_net_usd": services and services.total.net,
        },
    )


@command(
    "home",
    "The home page: the summary, what is being wasted now, and the month to date.",
    needs=Needs.STATE,
    may=Needs.BILL | Needs.METRICS | Needs.DETECTOR,
    topic=Topic.COSTS,
    examples=("home",),
    rows=("services",),
    figures=_SUMMARY_FIGURES
    | ALERT_FIGURES
    | {
        "net_usd": "gross + discounts + credits + tax of a service in the month to date",
        **COLUMNS.sources("suggested"),
        "month_net_usd": "net: gross + discounts + credits + tax of the month to date",
        "usd_per_hour": "sum of the waste an hour of the open alerts that nothing mutes",
    },
)
def home(ports: Ports, request: Request) -> Card:
    """Sum up for a person's home page."""
    now, reading, services = request.at, None, None
    with suppress(TrnbotError):  # what cannot be read leaves its lines out
        reading = ports.world.source.read(now)
    with suppress(TrnbotError):
        services = ports.world.billing.tally(Window.parse("mtd", now), ("service",))

    return home_card(
        summary_of(ports, ports.stores.alerts.load(now), reading, now, Part.HOME),
        services,
        shortlisted(ports, now),
    )
