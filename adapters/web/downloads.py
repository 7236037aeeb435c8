"""Give the table of an answer as a file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from adapters.web.api import CSV
from adapters.web.config import Console
from adapters.web.guard import Sender, sender_of
from adapters.web.links import address
from bot.cards.card import Card, Tone
from bot.cards.lines import file_name, spreadsheet
from bot.errors import WrongInput
from bot.model.request import Effect


class Downloads:
    """Answer a line with its table as CSV; `answer` answers as a page that is opened does."""

    def __init__(self, console: Console, answer: Callable[[str], Awaitable[Card]]) -> None:
        self._console, self._answer = console, answer

    async def csv(self, request: web.Request) -> web.StreamResponse:
        """Send the table.

        Whatever does more than read, and what another site brings, is shown to be pressed first.
        """
        line = request.query.get("line", "").strip()
        if self._console.effect(line) is not Effect.READS or sender_of(request) is Sender.LINK:
            raise web.HTTPSeeOther(address(line))
        card = await self._answer(line)
        if card.tone is Tone.ERROR:
            raise web.HTTPSeeOther(address(line))
        try:
            written = self._console.csv(line, card)
        except WrongInput as error:
            raise web.HTTPNotFound(text=f"{error}\n") from None
        named = f'attachment; filename="{file_name(line)}"'
        return web.Response(
            body=spreadsheet(written), content_type=CSV, headers={"Content-Disposition": named}
        )
