"""Notice which channels cannot be reached, and tell an admin once: when it begins to matter, and when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from bot.deliver import Delivered
from bot.errors import Refused
from bot.ports import Shelf

SHELF = "troubles"
PATIENCE = timedelta(minutes=15)
"""How long a platform may be away before a person is told; what only a person can mend is told at once."""
MOST = 100


async def attend(sent: Delivered, shelf: Shelf, now: datetime, tell: Callable[[str], Awaitable[None]]) -> None:
    """Tell of channels that took nothing, each once, and of those that took something again."""
    if not sent.said and not sent.failures:
        return
    known = dict(await asyncio.to_thread(shelf.newest, SHELF, MOST))
    for channel, error in sent.failures.items():
        trouble = {"since": now.isoformat(), "told": False, **known.get(channel, {})}
        late = now - datetime.fromisoformat(trouble["since"]) >= PATIENCE
        due = not trouble["told"] and (late or isinstance(error, Refused))
        if channel not in known or due:
            await asyncio.to_thread(shelf.put, SHELF, channel, {**trouble, "told": trouble["told"] or due})
        if due:
            await tell(f"Nothing reaches {channel}: {error}")
    for channel in {one.channel for one in sent.said} & known.keys():
        await asyncio.to_thread(shelf.drop, SHELF, channel)
        if known[channel]["told"]:
            await tell(f"Messages reach {channel} again.")
