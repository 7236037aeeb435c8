"""Answer what stopped because somebody acted."""

from __future__ import annotations

import asyncio

from bot.alerts.saved import saved_within
from bot.cards.card import Card
from bot.cards.savings import savings_card
from bot.commands.registry import arg, command
from bot.model.labels import Labels
from bot.model.request import Request
from bot.model.window import Window
from bot.ports import Ports


@command("savings", "What stopped because somebody acted, by estimate.", examples=("savings", "savings 7d"))
async def savings_(ports: Ports, request: Request, window: Window = arg("30d", "alerts that ended within it")) -> Card:
    """List the alerts that ended after they were acknowledged, or whose nodes are gone since."""
    known = await asyncio.to_thread(ports.store.history, window, Labels())
    reading = await asyncio.to_thread(ports.source.read, request.at)
    return savings_card(saved_within(known, window, reading.inventory.running, request.at), window)
