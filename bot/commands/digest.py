"""Answer the week, and let a channel have it every week."""

from __future__ import annotations

import asyncio

from bot.cards.card import Card
from bot.cards.digest import digest_card, digest_here_card
from bot.commands.registry import arg, command
from bot.digest import WEEK, subscribe_digest, wanted, week_of
from bot.errors import WrongInput
from bot.model.hours import read_weekly
from bot.model.request import Request, Role
from bot.model.window import Window
from bot.ports import Ports


@command("digest", "What the last seven days saved, wasted and kept quiet.", examples=("digest",))
async def digest(ports: Ports, request: Request) -> Card:
    """Show the digest as it would be posted now."""
    memory = await asyncio.to_thread(ports.store.load, request.at)
    reading = await asyncio.to_thread(ports.source.read, request.at)
    window = Window(request.at - WEEK, request.at)
    return digest_card(await asyncio.to_thread(week_of, ports, memory, reading.inventory, window, request.at))


@command(
    "subscribe digest",
    "Have the weekly digest posted in this channel.",
    examples=("subscribe digest", 'subscribe digest "fri 16:00 America/New_York"'),
    who=Role.ADMIN,
    changes=True,
)
async def subscribe(
    ports: Ports, request: Request, at: str = arg("", "when, in a time zone; that of the settings when left out", rest=True)
) -> Card:
    """Write when this channel gets the digest."""
    if not request.channel:
        raise WrongInput("A channel is subscribed from within it; type this line there.")
    when = str(read_weekly(at or ports.routes.digest_at))
    await asyncio.to_thread(subscribe_digest, ports.shelf, request.channel, when)
    return digest_here_card(request.channel, when)


@command(
    "unsubscribe digest",
    "Take the weekly digest back.",
    examples=("unsubscribe digest",),
    who=Role.ADMIN,
    changes=True,
)
async def unsubscribe(ports: Ports, request: Request) -> Card:
    """Drop what this channel subscribed to; one that the settings name keeps getting it."""
    here = request.channel
    if here not in await asyncio.to_thread(wanted, ports):
        raise WrongInput("This channel gets no weekly digest.")
    if here in ports.routes.digest:
        raise WrongInput("The settings (TRNBOT_DIGEST) send the digest here; take it back there.")
    await asyncio.to_thread(subscribe_digest, ports.shelf, here, "")
    return digest_here_card(here, "")
