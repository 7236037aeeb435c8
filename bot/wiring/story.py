"""Play the story of a demonstration.

Follow its ticks, type what its simulated people type, begin again on request.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from bot.app import App
from bot.cards.card import Code, quiet
from bot.model.request import LOCAL, Request
from bot.ports import Surface
from bot.ports.chat import Story
from bot.watch.story import MEI, NOTHING_SEEN, Line, Seen
from bot.watch.tick import TickResult

SOURCE = "simulator:7/story"
"""What a demonstration replays where nothing else is said."""
SHOWN = timedelta(hours=2, minutes=45)
"""How much of the recording's end the story takes: 83 seconds at the speed of a demonstration."""
ADMINS = (MEI.id,)
MADE_UP = (
    "Simulated: the fleet, its bill, and the people named here. "
    "Alerts, dollars and answers are what trnbot makes of them."
)
_CHANNEL = "alerts"
log = logging.getLogger("trnbot.story")


def tells(source: str) -> bool:
    """Return whether a source holds the story."""
    return re.fullmatch(r"simulator:\d+/story", source) is not None


class StoryTeller:
    """Follow the ticks of a story, and act for its people as a surface acts for its own."""

    app: App
    surface: Surface
    """Where everyone reads; both are named before the first tick."""

    def __init__(self, again: Callable[[], None] | None) -> None:
        self.again = again
        self._seen = NOTHING_SEEN
        self._typing: asyncio.Task[None] | None = None
        self._typed: set[str] = set()
        self._end = False

    def told(self) -> Story:
        """Return the story as it stands."""
        return Story(
            MADE_UP,
            self._seen.chapters(),
            self._seen is not NOTHING_SEEN,
            self._end,
            self.again is not None,
        )

    async def ticked(self, result: TickResult, *, last: bool) -> None:
        """Note what a tick has seen, and let a person act on it, one line at a time."""
        if self._seen is NOTHING_SEEN:
            grace = self.app.ports.site.base.duration("compiling.grace")
            self._seen = Seen(result.reading.now, result.reading.now, grace)
        self._seen = self._seen.after(result)
        self._end = last
        line = self._seen.next_line()
        if line and line.text not in self._typed and (self._typing is None or self._typing.done()):
            self._typed.add(line.text)
            self._typing = asyncio.create_task(self._type(line), name="story")

    async def _type(self, line: Line) -> None:
        """Have a line answered as the console does, and show the answer where everyone reads it."""
        request = Request(line.text, line.by, self._seen.now, "web", LOCAL, f"web:{_CHANNEL}")
        try:
            card = await self.app.answer(request)
            if error := card.data.get("error"):
                log.warning("%s typed '%s', and was refused: %s", line.by.name, line.text, error)
            elif card.public and line.by is MEI:
                typed = quiet(f"{line.by.name} typed ", Code(line.text))
                await self.surface.post(_CHANNEL, replace(card, blocks=(typed, *card.blocks)), "")
                self._seen = replace(self._seen, preview=card.title)
        except Exception:
            log.exception("what a simulated person typed was not shown")
