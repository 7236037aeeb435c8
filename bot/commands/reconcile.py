"""Answer whether the estimates of past months held."""

from __future__ import annotations

import asyncio

from bot.cards.card import Card
from bot.cards.reconcile import reconcile_card
from bot.commands.registry import arg, command
from bot.model.request import Request
from bot.model.window import Window
from bot.ports import Ports
from bot.reconcile import reconciled


@command(
    "reconcile",
    "What was estimated for each month against what it finally cost.",
    examples=("reconcile", "reconcile this-year"),
)
async def reconcile(ports: Ports, request: Request, window: Window = arg("90d", "months that it touches")) -> Card:
    """Print the difference for every month that AWS has closed."""
    return reconcile_card(await asyncio.to_thread(reconciled, ports.billing, ports.shelf, window, request.at), window)
