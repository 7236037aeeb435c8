"""Post an answer once a week or once a day to each channel that wants it, and let channels subscribe to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from bot.answers.digest import digest_card, week_of
from bot.answers.registry import Needs, Topic, arg, command
from bot.answers.summary import summary_card, summary_of
from bot.cards.card import Card, Tone, quiet
from bot.errors import TrnbotError, WrongInput
from bot.model.hours import read_recurring, read_weekly
from bot.model.reading import Reading
from bot.model.request import Request, Role
from bot.model.route import Routes
from bot.model.state import State
from bot.ports import Documents, DocumentStore, Ports
from bot.watch.deliver import surface_of

log = logging.getLogger("trnbot.periodic")

LATE = timedelta(days=1)
"""How long after its moment an answer is still worth posting, where nobody ticked in time."""
MOST = 200


@dataclass(frozen=True)
class SentPeriodical:
    """State which moment's answer a channel got, by which message; "" while it is being sent."""

    moment: datetime
    message: str = ""


@dataclass(frozen=True)
class Subscription:
    """State the time of the week or day at which a channel wants an answer, and since when it does."""

    at: str
    since: datetime | None = field(default=None, metadata={"optional": True})


Drawing = Callable[[Ports, State, Reading, datetime, datetime], Card]
"""Draws the answer of the time before a moment, as of now; may block."""


@dataclass(frozen=True)
class Periodical:
    """Describe an answer that channels get by subscription, and those that the settings name without one."""

    name: str
    words: str
    """Follows "gets": `the weekly digest`."""
    sent: Documents[SentPeriodical]
    subscribed: Documents[Subscription]
    draw: Drawing
    setting: str = ""
    named: Callable[[Routes], Sequence[str]] = lambda _: ()
    """The channels that the setting names."""


@dataclass(frozen=True)
class Due:
    """Name one answer that a channel has not got yet."""

    what: Periodical
    channel: str
    moment: datetime
    begun: bool
    """It was about to be sent when something ended: look for it first."""

    @property
    def key(self) -> str:
        """Return the key by which the message is found again."""
        return f"{self.what.name}-{self.moment:%Y%m%dT%H%M}-{self.channel}"


def wanted(what: Periodical, ports: Ports) -> dict[str, Subscription]:
    """Return each channel that wants the answer, and when; may block."""
    by_setting = dict.fromkeys(
        what.named(ports.site.routes), Subscription(ports.site.routes.digest_at)
    )
    return {**by_setting, **dict(what.subscribed.newest(ports.stores.documents, MOST))}


def due(what: Periodical, ports: Ports, now: datetime) -> list[Due]:
    """Return the answers that are to be sent at `now`; may block."""
    dues, usual = [], read_weekly(ports.site.routes.digest_at)
    for channel, subscription in wanted(what, ports).items():
        moment = read_recurring(subscription.at, usual).latest(now)
        sent = what.sent.get(ports.stores.documents, channel)
        begun = sent is not None and sent.moment == moment
        owed = subscription.since is None or moment > subscription.since
        if owed and now - moment < LATE and not (begun and sent and sent.message):
            dues.append(Due(what, channel, moment, begun))
    return dues


async def post_due(ports: Ports, memory: State, reading: Reading, now: datetime) -> tuple[str, ...]:
    """Send the answers that are due, and return a sentence for each that failed.

    It stays due, and the next tick tries again.
    """
    failed = []
    for what in PERIODICALS:
        for each in await asyncio.to_thread(due, what, ports, now):
            try:
                await _post(each, ports, memory, reading, now)
            except (TrnbotError, OSError, TimeoutError) as error:
                log.warning("the %s to %s was not delivered: %s", what.name, each.channel, error)
                failed.append(f"{each.channel}: {error}")
    return tuple(failed)


async def _post(each: Due, ports: Ports, memory: State, reading: Reading, now: datetime) -> None:
    """Write the intent, send, write the message's id.

    After a crash in between the message is looked for, not repeated.
    """
    surface, channel = surface_of(each.channel, ports.site.surfaces)
    message = await surface.find(channel, each.key) if each.begun else ""
    if not message:
        await _note(ports.stores.documents, each, "")
        card = await asyncio.to_thread(each.what.draw, ports, memory, reading, each.moment, now)
        message = await surface.post(channel, replace(card, public=True), each.key)
    await _note(ports.stores.documents, each, message)


async def _note(store: DocumentStore, each: Due, message: str) -> None:
    await asyncio.to_thread(
        each.what.sent.put, store, each.channel, SentPeriodical(each.moment, message)
    )


async def _subscribe(
    what: Periodical, ports: Ports, request: Request, at: str, *, days: bool = True
) -> Card:
    """Write when this channel gets the answer, from the next such time on.

    Where `days`, it may come every day.
    """
    if not request.channel:
        raise WrongInput("A channel is subscribed from within it; type this line there.")
    when = str(read_recurring(at, read_weekly(ports.site.routes.digest_at), days=days))
    await asyncio.to_thread(
        what.subscribed.put, ports.stores.documents, request.channel, Subscription(when, request.at)
    )
    return _here(what, request.channel, when)


async def _unsubscribe(what: Periodical, ports: Ports, request: Request) -> Card:
    """Drop this channel's subscription; a channel that the settings name keeps getting the answer."""
    here = request.channel
    if here not in await asyncio.to_thread(wanted, what, ports):
        raise WrongInput(f"This channel does not get {what.words}.")
    if here in what.named(ports.site.routes):
        raise WrongInput(
            f"The settings ({what.setting}) send {what.words} here; take it back there."
        )
    await asyncio.to_thread(what.subscribed.drop, ports.stores.documents, here)
    return _here(what, here, "")


def _here(what: Periodical, channel: str, at: str) -> Card:
    """Confirm whether a channel gets the answer, and when; `at` is "" where it does not."""
    gets = (
        f"This channel gets {what.words}, {at}"
        if at
        else f"This channel no longer gets {what.words} by subscription"
    )
    return Card(gets, Tone.GOOD, (quiet(channel),), {"channel": channel, "at": at})


def _digest(ports: Ports, memory: State, reading: Reading, until: datetime, now: datetime) -> Card:
    return digest_card(week_of(ports, memory, reading, until, now))


def _summary(ports: Ports, memory: State, reading: Reading, until: datetime, now: datetime) -> Card:
    return summary_card(
        summary_of(ports, [alert for alert in memory.alerts if alert.firing], reading, now)
    )


DIGEST = Periodical(
    "digest",
    "the weekly digest",
    Documents("digests", SentPeriodical),
    Documents("digest.subscriptions", Subscription),
    _digest,
    setting="TRNBOT_DIGEST",
    named=lambda routes: routes.digest,
)
SUMMARY = Periodical(
    "summary",
    "the summary",
    Documents("summaries", SentPeriodical),
    Documents("summary.subscriptions", Subscription),
    _summary,
)
PERIODICALS = (DIGEST, SUMMARY)


@command(
    "subscribe digest",
    "Post the weekly digest in this channel.",
    needs=Needs.STATE,
    topic=Topic.COSTS,
    examples=("subscribe digest", 'subscribe digest "fri 16:00 America/New_York"'),
    who=Role.ADMIN,
    changes=True,
)
async def subscribe_digest(
    ports: Ports,
    request: Request,
    at: str = arg("", "day, time and time zone; those of the settings when left out", rest=True),
) -> Card:
    """Write when this channel gets the digest."""
    return await _subscribe(DIGEST, ports, request, at, days=False)


@command(
    "unsubscribe digest",
    "Stop the weekly digest in this channel.",
    needs=Needs.STATE,
    topic=Topic.COSTS,
    examples=("unsubscribe digest",),
    who=Role.ADMIN,
    changes=True,
)
async def unsubscribe_digest(ports: Ports, request: Request) -> Card:
    """Drop this channel's subscription; a channel that the settings name keeps getting the digest."""
    return await _unsubscribe(DIGEST, ports, request)


@command(
    "subscribe summary",
    "Post the summary in this channel, daily or weekly.",
    needs=Needs.STATE,
    topic=Topic.COSTS,
    examples=(
        "subscribe summary",
        "subscribe summary daily",
        'subscribe summary "daily 08:30 Europe/Berlin"',
    ),
    who=Role.ADMIN,
    changes=True,
)
async def subscribe_summary(
    ports: Ports,
    request: Request,
    at: str = arg(
        "", "daily or a day, time and time zone; those of the digest when left out", rest=True
    ),
) -> Card:
    """Write when this channel gets the summary."""
    return await _subscribe(SUMMARY, ports, request, at)


@command(
    "unsubscribe summary",
    "Stop the summary in this channel.",
    needs=Needs.STATE,
    topic=Topic.COSTS,
    examples=("unsubscribe summary",),
    who=Role.ADMIN,
    changes=True,
)
async def unsubscribe_summary(ports: Ports, request: Request) -> Card:
    """Drop this channel's subscription."""
    return await _unsubscribe(SUMMARY, ports, request)
