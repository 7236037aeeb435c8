"""Meet tenants that are not served: each is told to an admin once, and refused in words without data."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable

from bot.cards.card import Card, Tone, text
from bot.ports import Tell, Turnstile

SHELF = "teams.strangers"
REFUSAL = Card(
    "This bot does not serve your organization",
    Tone.INFO,
    (text("Nothing was read or changed. Whoever operates the bot can list your tenant."),),
)


class Strangers:
    """Tell of each tenant once, whichever process it wrote to."""

    def __init__(self, turnstile: Turnstile, tell: Tell) -> None:
        self._turnstile, self._tell = turnstile, tell

    async def meet(self, tenants: Iterable[str]) -> None:
        """Tell an admin of the tenant when this is its first time."""
        name = next((one for one in sorted(tenants) if re.fullmatch(r"[\w-]{1,64}", one)), "of no name")
        if await asyncio.to_thread(self._turnstile.first, SHELF, name):
            await self._tell(f"Teams tenant {name} wrote to the bot and was refused; TRNBOT_TEAMS_TENANTS lists who is served.")
