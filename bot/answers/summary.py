"""Answer with ten lines for a lead: spend, forecast, the biggest change, waste, saved, commitments, alerts, advice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from bot.answers.cost.forecast import forecast_data
from bot.answers.cost.why import CostChange, change_of, driver_data, percent, reason
from bot.answers.periodic import Periodical, SentPeriodical, Subscription, subscribe_to, unsubscribe_from
from bot.answers.registry import Needs, Topic, arg, command
from bot.cards.alert_words import where, worth
from bot.cards.card import Button, Buttons, Card, Strong, Text, Tone, text
from bot.cards.money import amount_in, amount_of
from bot.cards.words import about, day, period
from bot.costs.nowcast import Nowcast
from bot.costs.running import forecast_of
from bot.costs.tally import settled_until
from bot.errors import TrnbotError
from bot.model.alert import Alert, usd_per_hour_of
from bot.model.counts import counted
from bot.model.fleet import Reservation
from bot.model.labels import Labels
from bot.model.money import usd
from bot.model.outlook import Commitment, CommitmentPlan
from bot.model.reading import Reading
from bot.model.request import Request, Role
from bot.model.spend import Tally
from bot.model.state import State
from bot.model.window import NO_TIME, Window
from bot.ports import Documents, Ports
from bot.watch.savings import Saving, saved_within

WEEK = timedelta(days=7)
_SOON = timedelta(days=30)
_MOST = 3


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


@command(
    "summary",
    "Ten lines for a lead: spend, forecast, waste, saved, the biggest change, what ends soon, open alerts, one advice.",
    needs=Needs.STATE | Needs.METRICS,
    may=Needs.BILL,
    topic=Topic.COSTS,
    examples=("summary",),
)
async def summary(ports: Ports, request: Request) -> Card:
    """Sum up the last seven days."""
    memory = await asyncio.to_thread(ports.stores.alerts.load, request.at)
    reading = await asyncio.to_thread(ports.world.source.read, request.at)
    firing = [alert for alert in memory.alerts if alert.firing]
    return summary_card(await asyncio.to_thread(summary_of, ports, firing, reading, request.at))


def _posted(ports: Ports, memory: State, reading: Reading, until: datetime, now: datetime) -> Card:
    return summary_card(summary_of(ports, [alert for alert in memory.alerts if alert.firing], reading, now))


SUMMARY = Periodical(
    "summary", "the summary", Documents("summaries", SentPeriodical), Documents("summary.subscriptions", Subscription), _posted
)


@command(
    "subscribe summary",
    "Post the summary in this channel, daily or weekly.",
    needs=Needs.STATE,
    topic=Topic.COSTS,
    examples=("subscribe summary", "subscribe summary daily", 'subscribe summary "daily 08:30 Europe/Berlin"'),
    who=Role.ADMIN,
    changes=True,
)
async def subscribe(
    ports: Ports,
    request: Request,
    at: str = arg("", "daily or a day, time and time zone; those of the digest when left out", rest=True),
) -> Card:
    """Write when this channel gets the summary."""
    return await subscribe_to(SUMMARY, ports, request, at)


@command(
    "unsubscribe summary",
    "Stop the summary in this channel.",
    needs=Needs.STATE,
    topic=Topic.COSTS,
    examples=("unsubscribe summary",),
    who=Role.ADMIN,
    changes=True,
)
async def unsubscribe(ports: Ports, request: Request) -> Card:
    """Drop this channel's subscription."""
    return await unsubscribe_from(SUMMARY, ports, request)


def summary_of(ports: Ports, firing: Sequence[Alert], reading: Reading, now: datetime) -> Summary:
    """Return the content of a summary as of `now`; a bill that cannot be read leaves its lines out. May block."""
    week = Window(now - WEEK, now)
    saved = saved_within(ports.stores.alerts.history(week, Labels()), week, reading.inventory.running, now)
    change = nowcast = month = None
    with suppress(TrnbotError):
        change = _settled_week(ports, now)
    with suppress(TrnbotError):
        nowcast = forecast_of(ports, now, reading)
        month = ports.world.billing.tally(Window.parse("mtd", now), ())
    ending = [one for one in reading.inventory.reservations if one.ends_at and now < one.ends_at <= now + _SOON and one.active]
    return Summary(now, firing, saved, change, nowcast, month, ending, ports.world.outlook.commitments(now))


def _settled_week(ports: Ports, now: datetime) -> CostChange | None:
    """Return the change of the newest seven days that have settled; None where nothing is billed."""
    through = ports.world.billing.tally(NO_TIME, ()).billed_through
    if through is None:
        return None
    settled = settled_until(min(through, now))
    return change_of(ports, now, Window(settled - WEEK, settled))


def summary_card(of: Summary) -> Card:
    """Draw the lines that can be told, each with the number that it is about first."""
    change = of.change
    spent = f"{amount_of(change.now.total.amortised, change.now)} spent {period(change.now.window)}; " if change else ""
    wasting = (
        f"{usd(of.wasting)} an hour wasted now in {counted(len(of.speaking), 'open alert')}" if of.speaking else "no open alert"
    )
    title = f"{spent}{wasting}"
    lines = [*_spend(of), _waste(of), _saved(of), *_ends(of), *_alerts(of), *_advice(of)]
    more = (
        Button("Why it changed", "why cost 7d"),
        Button("Forecast", "forecast"),
        Button("Alerts", "alerts"),
        Button("By team", "cost 7d by team"),
    )
    tone = Tone.WARNING if of.speaking else Tone.GOOD
    return Card(title, tone, (*lines, Buttons(more)), _data(of))


def _line(name: str, words: str) -> Text:
    return text(Strong(name), f": {words}")


def _spend(of: Summary) -> Iterator[Text]:
    change, nowcast = of.change, of.nowcast
    if change is None:
        yield _line("Spend", "no bill tells of the last seven days.")
    else:
        now, then = change.now, change.then.total.amortised
        grown = (
            f", {'up' if change.change > 0 else 'down'} {percent(abs(change.change) / then)} on the week before"
            if then > 0
            else ""
        )
        yield _line("Spend", f"{amount_of(now.total.amortised, now)} in {period(now.window)}{grown} (amortised, settled days).")
    if nowcast:
        low, middle, high = (_about(x, nowcast.currency) for x in (nowcast.low, nowcast.forecast, nowcast.high))
        yield _line("Forecast", f"about {middle} in {nowcast.month.start:%B} ({low} to {high}).")
    if change and change.drivers:
        first = change.drivers[0]
        yield _line("Biggest change", f"{'+' if first.usd > 0 else ''}{amount_of(first.usd, change.now)}, {reason(first)}.")


def _about(amount: Decimal, currency: str) -> str:
    return about(amount) if currency == "USD" else amount_in(amount, currency)


def _waste(of: Summary) -> Text:
    if not of.speaking:
        return _line("Waste", "no open alert wastes anything.")
    return _line("Waste", f"{usd(of.wasting)} an hour now, in {counted(len(of.speaking), 'open alert')}.")


def _saved(of: Summary) -> Text:
    if not of.saved:
        return _line("Saved", "no alert of the last 7 days ended because somebody acted.")
    each = sum((saving.usd_per_hour for saving in of.saved), Decimal(0))
    return _line("Saved", f"about {usd(each)} an hour: {counted(len(of.saved), 'alert')} ended after somebody acted (estimate).")


def _ends(of: Summary) -> Iterator[Text]:
    """Tell how commitments are used, which reservations end, and the credits of the month."""
    words = []
    for plan in CommitmentPlan:
        days = [one for one in of.commitments if one.plan is plan and one.committed]
        if days:
            last = max(days, key=lambda one: one.day)
            words.append(f"{plan} used to {percent(last.utilization)} on {last.day}")
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
        yield _line("Alert", f"{alert.cause.facts.words} · {where(alert)} · {each}{alert.owner or 'nobody owns it'}")


def _advice(of: Summary) -> Iterator[Text]:
    """Give the first suggestion of the dearest alert that has one."""
    alert = next((one for one in of.speaking if one.anomaly.suggestions), None)
    if alert:
        yield _line("Do first", f"{alert.anomaly.suggestions[0].rstrip('.')} ({alert.anomaly.labels.cluster or where(alert)}).")


def _data(of: Summary) -> dict[str, Any]:
    saved = sum((saving.usd_per_hour for saving in of.saved), Decimal(0))
    dearest = [{"id": one.id, "owner": one.owner, **_waste_data(one)} for one in of.speaking[:_MOST]]
    return {
        "window": of.window,
        "open": {"alerts": [alert.id for alert in of.speaking], "usd_per_hour": of.wasting, "dearest": dearest},
        "saved": {"alerts": len(of.saved), "usd_per_hour": saved, "estimate": True},
        **({"changed": _changed(of.change)} if of.change else {}),
        **({"month": {"credits_usd": of.month.total.credits}} if of.month else {}),
        "ending": [{"reservation": one.labels.resource, "ends_at": one.ends_at} for one in of.ending],
        **forecast_data(of.nowcast, None),
    }


def _waste_data(alert: Alert) -> dict[str, Any]:
    return {"waste_usd": {"per_hour": alert.waste.per_hour}} if alert.waste else {}


def _changed(change: CostChange) -> dict[str, Any]:
    now, then = change.now, change.then
    first = {"driver": driver_data(change.drivers[0])} if change.drivers else {}
    return {
        "window": {"start": now.window.start, "end": now.window.end},
        "before": {"window": {"start": then.window.start, "end": then.window.end}, "amortised_usd": then.total.amortised},
        "amortised_usd": now.total.amortised,
        "change_usd": change.change,
        **first,
    }
