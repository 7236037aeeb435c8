"""Post an answer once a week or day to each channel that wants it; answer with the week."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from bot.answers.about.summary import Part, summary_card, summary_of
from bot.answers.config.preview import week_data, week_words
from bot.answers.cost.goodput import (
    GOODPUT_FIGURES,
    goodput_data,
    goodput_total,
    goodput_words,
)
from bot.answers.cost.title import NOWCAST_FIGURES, forecast_data, month_end_words
from bot.answers.plan import suggestions
from bot.answers.plan.capacity import QUOTAS, QuotaUse, room_words, tight_quotas
from bot.answers.runs.card import COMPARE_FIGURES, compare_data, sentence
from bot.answers.runs.costed import parities
from bot.cards.alert_words import muted_words, where, worth
from bot.cards.card import (
    Block,
    Button,
    Buttons,
    Card,
    Code,
    Strong,
    Tone,
    compose,
    quiet,
    text,
)
from bot.cards.columns import USD, Column, Columns
from bot.cards.words import about, doubted, noted, period, unseen
from bot.costs.goodput import GoodputRow
from bot.costs.nowcast import Nowcast, forecast_of
from bot.costs.suggestions import Suggestion
from bot.costs.training import RunComparison
from bot.errors import TrnbotError, WrongInput
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.alert import Alert, MutedBy, Silence, usd_per_hour_of
from bot.model.labels import Labels
from bot.model.money import usd
from bot.model.notification import Coverage, State
from bot.model.reading import Reading
from bot.model.request import Request, Role
from bot.model.route import Routes
from bot.model.window import Window, clock, day, read_recurring, read_weekly
from bot.ports import Documents, Ports
from bot.ports.work import permitted
from bot.watch import budget
from bot.watch.deliver import surface_of
from bot.watch.feedback import Saving, saved_within

_DAY, WEEK = timedelta(days=1), timedelta(days=7)
_MOST = 5


@dataclass(frozen=True)
class Week:
    """Hold the content of a digest: a week, its savings, and the alerts that fire at its end."""

    window: Window
    saved: Sequence[Saving]
    firing: Sequence[Alert]
    silences: Sequence[Silence] = ()
    parities: Sequence[tuple[str, RunComparison | None]] = ()
    """Each open migration, with the comparison of its run and its baseline where both tell."""
    nowcast: Nowcast | None = None
    """Where the month's whole bill ends; None where too little of it is known."""
    seen: Coverage = field(default_factory=Coverage)
    """How much of the fleet was known at its end."""
    suggested: Sequence[Suggestion] = ()
    """What would save most, of all that nobody spoke about yet."""
    tight: Sequence[QuotaUse] = ()
    """Quotas by which the next launch would be refused."""
    goodput: GoodputRow | None = None
    """Where its dollars for Neuron nodes went; None where no bill tells of them."""
    promised: budget.Budget = field(default_factory=budget.Budget)
    """How many messages it might send at most, and what share of waste it was to tell of."""
    sent: budget.Week | None = None
    """What it did send; None where nothing was promised."""

    def muted_because(self, alert: Alert) -> str:
        """Say who or what muted an alert, and a silence's reason."""
        silence = {MutedBy.SILENCE.mark(x.id): x for x in self.silences}.get(alert.muted_by)
        if silence is None:
            return muted_words(alert)
        return f"snoozed by {silence.who} until {day(silence.ends)}{noted(silence.reason)}"


_STOPPED = Columns[Saving](
    Column("stopped", lambda saving: saving.alert.cause.facts.words),
    Column("where", lambda saving: where(saving.alert), missing=""),
    Column(
        "because",
        lambda saving: f"acknowledged by {saving.by}" if saving.by else "its nodes are gone",
    ),
    Column("$/h", lambda saving: saving.usd_per_hour, USD),
)
_OPEN = Columns[Alert](
    Column("still open", lambda alert: alert.cause.facts.words),
    Column("where", where, missing=""),
    Column("owner", lambda alert: alert.owner),
    Column("$/h", lambda alert: alert.usd_per_hour, USD),
    Column("so far", lambda alert: alert.waste.so_far if alert.waste else Decimal(0), USD),
)


_HELD = Columns[Alert](
    Column("held back", lambda alert: alert.cause.facts.words),
    Column("where", where, missing=""),
    Column("opened", lambda alert: clock(alert.opened)),
    Column("cost", lambda alert: alert.waste.so_far if alert.waste else None, USD),
)


_WORTH = text(Strong("Worth a look"), ", see ", Code("suggestions"), ":")
_NEXT = (
    Button("Savings", "savings 7d"),
    Button("Alerts", "alerts"),
    Button("Goodput", "goodput 7d"),
)


def digest_card(week: Week) -> Card:
    """Tell one week in three short tables, dearest first.

    The saved dollars are an estimate and say so.
    """
    ranked = sorted(week.firing, key=worth, reverse=True)
    speaking = [alert for alert in ranked if alert.speaking]
    muted = [alert for alert in ranked if not alert.speaking]
    saved = sum((saving.usd_per_hour for saving in week.saved), Decimal(0))
    so_far = sum((saving.usd_so_far for saving in week.saved), Decimal(0))
    wasting = usd_per_hour_of(speaking)

    data = {
        "window": week.window,
        **week.seen.data,
        "saved": {
            "alerts": len(week.saved),
            "usd_per_hour": saved,
            "usd_so_far": so_far,
            "estimate": True,
        },
        "open": {"alerts": [alert.id for alert in speaking], "usd_per_hour": wasting},
        "migrations": [
            {"name": name, **(compare_data(comparison) if comparison else {})}
            for name, comparison in week.parities
        ],
        "suggested": suggestions.COLUMNS.data(week.suggested),
        "muted": {"alerts": [alert.id for alert in muted], "usd_per_hour": usd_per_hour_of(muted)},
        **({"tight_quotas": QUOTAS.data(week.tight)} if week.tight else {}),
        **({"goodput": goodput_data(week.goodput)} if week.goodput else {}),
        **({"budget": week_data(week.sent, week.promised)} if week.sent else {}),
        **forecast_data(week.nowcast, None),
    }

    muted_table = Columns[Alert](
        Column("muted", lambda alert: alert.cause.facts.words),
        Column("where", where, missing=""),
        Column("why", week.muted_because),
        Column("$/h", lambda alert: alert.usd_per_hour, USD),
    )
    gone = "its run or its baseline no longer reports; 'migration close' ends it."
    lines = {
        "Alert budget": week.sent and week_words(week.sent, week.promised),
        "Goodput": week.goodput and goodput_words(week.goodput),
        "The whole bill": week.nowcast and month_end_words(week.nowcast),
    }

    held = week.sent and week.sent.held
    current = f"{usd(wasting)} an hour open"
    if not speaking:
        current = doubted(current, "what is wasted now is not known", week.seen)
    end = period(Window(week.window.end - _DAY, week.window.end)).rpartition(" to ")[2]

    return Card(
        f"The week to {end}: {usd(saved)} an hour stopped, {current}",
        Tone.WARNING if speaking or week.seen.because else Tone.GOOD,
        compose(
            _stopped(week.saved, so_far),
            _OPEN.table(speaking, most=_MOST, noun="alert")
            if speaking
            else text(
                f"{doubted('No alert is open', 'Whether anything is wrong now is not known', week.seen)}."
            ),
            unseen(week.seen),
            muted_table.table(muted, most=_MOST, noun="alert") if muted else None,
            [
                text(
                    Strong(f"Migration {name}"), f": {sentence(comparison) if comparison else gone}"
                )
                for name, comparison in week.parities
            ],
            [text(Strong(name), f": {line}") for name, line in lines.items() if line],
            _HELD.table(held, most=_MOST, noun="alert") if held else None,
            _WORTH if week.suggested else None,
            map(suggestions.suggestion_words, week.suggested),
            room_words(week.tight) if week.tight else None,
            Buttons(_NEXT if week.goodput else _NEXT[:2]),
        ),
        data,
    )


def _stopped(saved: Sequence[Saving], so_far: Decimal) -> list[Block]:
    """List the alerts that ended because somebody acted, with an estimate of what that saved."""
    if not saved:
        return [text("No alert ended because somebody acted.")]
    return [
        _STOPPED.table(saved, most=_MOST, noun="alert"),
        quiet(
            f"About {about(so_far)} saved since (estimated; waste that would have ended by itself"
            " is included)."
        ),
    ]


def week_of(ports: Ports, memory: State, reading: Reading, until: datetime, now: datetime) -> Week:
    """Return the content of a digest of the week before `until`, as of `now`; may block."""
    window = Window(until - WEEK, until)
    nowcast = None
    with suppress(TrnbotError):  # a bill that cannot be read holds no digest up
        nowcast = forecast_of(ports, now, reading)

    promised, sent = budget.Budget.of(ports.policy), None
    if promised != budget.Budget():
        # That of the last week from Monday which is over.
        promised_week = budget.week_at(until - WEEK)
        sent = budget.week_of(ports.stores.alerts.history(promised_week, Labels()), promised_week)

    return Week(
        window,
        saved_within(
            ports.stores.alerts.history(window, Labels()), window, reading.inventory.running, now
        ),
        [alert for alert in memory.alerts if alert.firing],
        memory.silences,
        parities(ports, now),
        nowcast,
        memory.coverage(now),
        suggestions.suggestions_of(ports, now).open[: suggestions.WEEKLY],
        tight_quotas(reading.inventory),
        goodput_total(ports, reading, window),
        promised,
        sent,
    )


@command(
    "digest",
    "The last seven days: what was saved, wasted and silenced.",
    needs=Needs.STATE | Needs.METRICS | Needs.DETECTOR,
    may=Needs.BILL,
    topic=Topic.COSTS,
    examples=("digest",),
    figures={
        "saved/alerts": "count of the alerts that ended in the week after somebody acted",
        "saved/usd_per_hour": "sum of their waste an hour at the peak",
        "saved/usd_so_far": (
            "sum of waste an hour x hours from each end until now, or until the end of its UTC"
            " month"
        ),
        "open/usd_per_hour": "sum of the waste an hour of the open alerts that nothing mutes",
        "muted/usd_per_hour": "sum of the waste an hour of the open alerts that are muted",
        **QUOTAS.sources("tight_quotas"),
        **suggestions.COLUMNS.sources("suggested"),
        **GOODPUT_FIGURES,
        **COMPARE_FIGURES,
        "budget/messages": "count of the messages of the week, alerts of one group that overlap"
        " as one, without those about critical alerts that waste no dollars",
        "budget/critical": "count of the messages about those",
        "budget/caught": "waste of alerts that were sent / the same plus that of the alerts below"
        " the floor",
        **NOWCAST_FIGURES,
    },
)
def digest(ports: Ports, request: Request) -> Card:
    """Show the digest as it would be posted now."""
    memory, reading = ports.stores.alerts.load(request.at), ports.world.source.read(request.at)
    return digest_card(week_of(ports, memory, reading, request.at, request.at))


log = logging.getLogger("trnbot.periodic")

LATE = timedelta(days=1)
"""How long after its moment an answer is still worth posting, where nobody ticked in time."""
MOST = 200
_NOTHING = "nothing to say"
"""Stands for the message of a moment at which there was none to send."""


@dataclass(frozen=True)
class SentPeriodical:
    """State which moment's answer a channel got, by which message; "" while it is being sent."""

    moment: datetime
    message: str = ""


@dataclass(frozen=True)
class Subscription:
    """State at which time of the week or day a channel wants an answer, and since when."""

    at: str
    since: datetime | None = field(default=None, metadata={"optional": True})


@dataclass(frozen=True)
class Periodical:
    """Describe an answer that channels get by subscription, or because the settings name them."""

    name: str
    words: str
    """Follows "gets": `the weekly digest`."""
    sent: Documents[SentPeriodical]
    subscribed: Documents[Subscription]
    draw: Callable[[Ports, State, Reading, datetime, datetime], Card | None]
    """Draws the answer of the time before a moment, as of now; None for nothing to say. May block."""
    setting: str = ""
    named: Callable[[Routes], Sequence[str]] = lambda _: ()
    """The channels that the setting names."""


@dataclass(frozen=True)
class Due:
    """Name one answer that a channel has not got yet."""

    what: Periodical
    channel: str
    moment: datetime

    @property
    def key(self) -> str:
        """Return the key by which the message is found again."""
        return f"{self.what.name}-{self.moment:%Y%m%dT%H%M}-{self.channel}"


def wanted(what: Periodical, ports: Ports) -> dict[str, Subscription]:
    """Return each channel that wants the answer, and when; may block."""
    # What a channel asked for itself goes before the time of the settings.
    return {
        **dict.fromkeys(what.named(ports.site.routes), Subscription(ports.site.routes.digest_at)),
        **dict(what.subscribed.newest(ports.stores.documents, MOST)),
    }


def due(what: Periodical, ports: Ports, now: datetime) -> list[Due]:
    """Return the answers that are to be sent at `now`; may block."""
    dues, usual = [], read_weekly(ports.site.routes.digest_at)
    for channel, subscription in wanted(what, ports).items():
        moment = read_recurring(subscription.at, usual).latest(now)
        sent = what.sent.get(ports.stores.documents, channel)
        # A moment without its message was about to be sent when something ended.
        is_sent = sent is not None and sent.moment == moment and sent.message
        owed = subscription.since is None or moment > subscription.since
        if owed and now - moment < LATE and not is_sent:
            dues.append(Due(what, channel, moment))

    return dues


async def post_due(ports: Ports, memory: State, reading: Reading, now: datetime) -> tuple[str, ...]:
    """Send the answers that are due, and return a sentence for each that failed.

    It stays due, and the next tick tries again.
    """
    failed = []
    for periodical in PERIODICALS:
        # A channel that fails must not keep the others from their answers.
        for owed in await asyncio.to_thread(due, periodical, ports, now):
            try:
                await _post(owed, ports, memory, reading, now)
            except (TrnbotError, OSError, TimeoutError) as error:
                log.warning(
                    "the %s to %s was not delivered: %s", periodical.name, owed.channel, error
                )
                failed.append(f"{owed.channel}: {error}")

    return tuple(failed)


async def _post(owed: Due, ports: Ports, memory: State, reading: Reading, now: datetime) -> None:
    """Look for the message, send it where it is not there, and write its id.

    It may be there after a crash, or where a backup of the database was put back.
    """
    surface, channel = surface_of(owed.channel, ports.site.surfaces)
    message = (await surface.posted(channel)).get(owed.key, "")
    if not message:
        card = await asyncio.to_thread(owed.what.draw, ports, memory, reading, owed.moment, now)
        await permitted()
        message = _NOTHING
        if card is not None:
            message = await surface.post(channel, replace(card, public=True), owed.key)
    note = SentPeriodical(owed.moment, message)
    await asyncio.to_thread(owed.what.sent.put, ports.stores.documents, owed.channel, note)


def _here(title: str, channel: str, at: str) -> Card:
    return Card(title, Tone.GOOD, (quiet(channel),), {"channel": channel, "at": at})


DIGEST = Periodical(
    "digest",
    "the weekly digest",
    Documents("digests", SentPeriodical),
    Documents("digest.subscriptions", Subscription),
    lambda *week: digest_card(week_of(*week)),
    setting="TRNBOT_DIGEST",
    named=lambda routes: routes.digest,
)
SUMMARY = Periodical(
    "summary",
    "the summary",
    Documents("summaries", SentPeriodical),
    Documents("summary.subscriptions", Subscription),
    lambda ports, memory, reading, _, now: summary_card(
        summary_of(ports, memory, reading, now, Part.ALL)
    ),
)


SUGGESTIONS = Periodical(
    "suggestions",
    "suggestions, three a week at most",
    Documents("suggestions.sent", SentPeriodical),
    Documents("suggestions.subscriptions", Subscription),
    lambda ports, _, __, ___, now: suggestions.weekly_card(suggestions.suggestions_of(ports, now)),
    setting="TRNBOT_SUGGESTIONS",
    named=lambda routes: routes.suggestions,
)
PERIODICALS = (DIGEST, SUMMARY, SUGGESTIONS)
_WHEN = arg("", "day, time and time zone; the settings' when left out", rest=True)
_DAILY = arg("", "daily or a day, with time and time zone; the digest's when left out", rest=True)


def _register(
    what: Periodical, subscribing: str, ending: str, *times: str, days: bool = False
) -> None:
    """Register the two commands by which a channel gets an answer and no longer does.

    `times` are examples of when; where `days`, it may come every day.
    """
    name = f"subscribe {what.name}"
    shared: dict[str, Any] = {
        "needs": Needs.STATE,
        "topic": Topic.BOT,
        "who": Role.ADMIN,
        "changes": True,
    }

    def subscribe(ports: Ports, request: Request, at: str = _DAILY if days else _WHEN) -> Card:
        """Write when this channel gets the answer, from the next such time on."""
        if not request.channel:
            raise WrongInput("A channel is subscribed from within it; type this line there.")
        when = str(read_recurring(at, read_weekly(ports.site.routes.digest_at), days=days))
        what.subscribed.put(ports.stores.documents, request.channel, Subscription(when, request.at))
        return _here(f"This channel gets {what.words}, {when}", request.channel, when)

    def unsubscribe(ports: Ports, request: Request) -> Card:
        """Drop this channel's subscription; one that the settings name keeps getting the answer."""
        channel = request.channel
        if channel not in wanted(what, ports):
            raise WrongInput(f"This channel does not get {what.words}.")
        if channel in what.named(ports.site.routes):
            raise WrongInput(
                f"The settings ({what.setting}) send {what.words} here; take it back there."
            )
        what.subscribed.drop(ports.stores.documents, channel)
        return _here(f"This channel no longer gets {what.words}", channel, "")

    examples = (name, *(f"{name} {when}" for when in times))
    command(name, subscribing, examples=examples, **shared)(subscribe)
    command(f"un{name}", ending, examples=(f"un{name}",), **shared)(unsubscribe)


_register(
    DIGEST,
    "Post the weekly digest in this channel.",
    "Stop the weekly digest in this channel.",
    '"fri 16:00 America/New_York"',
)
_register(
    SUMMARY,
    "Post the summary in this channel, daily or weekly.",
    "Stop the summary in this channel.",
    "daily",
    '"daily 08:30 Europe/Berlin"',
    days=True,
)
_register(
    SUGGESTIONS,
    "Post up to three suggestions a week in this channel, those that save most.",
    "Stop the suggestions in this channel.",
    "tue",
)
