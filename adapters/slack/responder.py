"""Carry a line to the bot and its card back to where the person is."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook.async_client import AsyncWebhookClient

from adapters.slack.charts import ChartUploader
from adapters.slack.client import code_of, explained, sdk_logger
from adapters.slack.forms import Origin, answer_view, working
from adapters.slack.markup import Json
from adapters.slack.pace import RateLimitRetry
from adapters.slack.render import Around, message, view_blocks
from adapters.slack.sender import Sender
from bot.cards.card import Block, Buttons, Card, Tone
from bot.model.delays import Delays
from bot.model.request import Request, User
from bot.ports import Answer, Clock

_FAILURES = (SlackClientError, aiohttp.ClientError, TimeoutError, OSError)
_LOOKS = 4
"""How often the modal is looked for that a submission was answered with."""
_log = logging.getLogger("trnbot.slack")


@dataclass(frozen=True)
class Requester:
    """Hold who asks from where; `private` answers are shown to them alone unless the card is public."""

    user: str
    name: str = ""
    channel: str = ""
    thread: str = ""
    response_url: str = ""
    private: bool = True
    pressed_share: bool = False
    """The person pressed Share on a message only they see: it is taken away once it is shared."""


class Responder:
    """Answer people in one workspace."""

    def __init__(
        self,
        client: AsyncWebClient,
        sender: Sender,
        pictures: ChartUploader,
        answer: Answer,
        clock: Clock,
        delays: Delays,
        prefix: str = "",
        *,
        patience_s: float = 0.5,
    ) -> None:
        self._client, self._sender, self._pictures = client, sender, pictures
        self._answer, self._clock, self._delays = answer, clock, delays
        self._prefix = prefix
        """What tells addresses of this workspace from those of the first: "" or `T123/`."""
        self._patience_s = patience_s
        """How long Slack may take to show the modal that a submission was answered with."""

    async def ask(self, line: str, asker: Requester) -> Card:
        """Return the bot's answer to a line."""
        heard = asker.channel and not asker.channel.startswith("D")
        channel = f"slack:{self._prefix}{asker.channel}" if heard else ""
        user = User(f"slack:{self._prefix}{asker.user}", asker.name)
        return await self._answer(Request(line, user, self._clock(), "slack", channel, asker.thread))

    async def tell(self, line: str, asker: Requester) -> None:
        """Answer a line where the person is."""
        await self.deliver(await self.ask(line, asker), line, asker)

    async def deliver(self, card: Card, line: str, asker: Requester) -> None:
        """Show a card: in the channel when it is public, else to the person alone."""
        private = asker.private and not card.public
        if not private:
            card = _without_share(card)
        if asker.response_url and await self._respond(card, line, asker, private):
            return
        if private and asker.channel and not asker.channel.startswith("D"):
            await self._sender.whisper(asker.channel, asker.user, card, asker.thread, line)
        else:
            await self._sender.post(asker.channel or asker.user, card, thread=asker.thread, line=line)

    async def tell_in_modal(self, line: str, asker: Requester, trigger: str) -> None:
        """Open a modal at once, then fill it with the answer; answer in the channel when the trigger was too old."""
        try:
            opened: Any = await self._client.views_open(trigger_id=trigger, view=working())
        except _FAILURES as error:
            _log.info("modal not opened: %s", type(error).__name__)
            return await self.tell(line, asker)
        return await self._fill({"view_id": opened["view"]["id"]}, await self.ask(line, asker), line, asker)

    async def go_on_in_modal(self, view: str, line: str, asker: Requester) -> None:
        """Answer a press in the modal where it was pressed; another on top would need a fresh trigger, and three is the most."""
        try:
            await self._client.views_update(view_id=view, view=working())
        except _FAILURES as error:
            _log.info("modal gone: %s", type(error).__name__)
            return await self.tell(line, asker)
        return await self._fill({"view_id": view}, await self.ask(line, asker), line, asker)

    async def show_late(self, name: str, asked: asyncio.Task[Card], line: str, asker: Requester) -> None:
        """Put an answer that took long into the modal `working(name)`, which Slack may not have made yet."""
        card, _ = await asyncio.gather(asked, asyncio.sleep(self._patience_s))
        await self._fill({"external_id": name}, card, line, asker)

    async def _fill(self, where: dict[str, str], card: Card, line: str, asker: Requester) -> None:
        """Put a card into an open modal, and where all read it when it is for all; tell the person when the modal is closed."""
        filled = await self._filled(where, answer_view(card, Origin(asker.channel, asker.thread)))
        if not filled or (card.public and asker.channel) or not asker.private:
            await self.deliver(card, line, asker)

    async def _filled(self, where: dict[str, str], view: Json) -> bool:
        """Tell whether Slack still had the modal; one with a name of its own may be a moment late."""
        for left in range(_LOOKS if "external_id" in where else 1, 0, -1):
            try:
                await self._client.views_update(view=view, **where)
                return True
            except _FAILURES as error:
                code = code_of(error) if isinstance(error, SlackApiError) else type(error).__name__
                if code != "not_found" or left == 1:
                    _log.info("modal not filled: %s", code)
                    return False
            await asyncio.sleep(self._patience_s)
        return False

    async def show_home(self, user: str) -> None:
        """Publish App Home: the answer to `home`."""
        card = await self.ask("home", Requester(user))
        blocks = view_blocks(card, Around(images=await self._pictures.files(card)))
        async with explained():
            await self._client.views_publish(user_id=user, view={"type": "home", "blocks": blocks})

    async def open(self, trigger: str, view: Json) -> None:
        """Open a finished modal."""
        async with explained():
            await self._client.views_open(trigger_id=trigger, view=view)

    async def _respond(self, card: Card, line: str, asker: Requester, private: bool) -> bool:
        """Answer by the response address; tell whether Slack took it."""
        around = Around(line=line, images=await self._pictures.files(card))
        took = await self._hook(asker, card, around, private)
        if not took and around.images:
            await self._sender.be_patient()
            took = await self._hook(asker, card, around, private)
        if not took and around.images:
            took = await self._hook(asker, card, replace(around, images={}), private)
        if took and asker.pressed_share and card.tone is not Tone.ERROR:
            await self._send_hook(asker.response_url, {"delete_original": True})
        return took

    async def _hook(self, asker: Requester, card: Card, around: Around, private: bool) -> bool:
        drawn = message(card, around)
        body: Json = {"text": drawn.text, "blocks": drawn.blocks, "replace_original": False}
        body["response_type"] = "ephemeral" if private else "in_channel"
        if asker.thread:
            body["thread_ts"] = asker.thread
        return await self._send_hook(asker.response_url, body)

    async def _send_hook(self, url: str, body: Json) -> bool:
        hook = AsyncWebhookClient(url, logger=sdk_logger(), retry_handlers=[RateLimitRetry(self._delays, 2)])
        try:
            answer = await hook.send_dict(body)
        except (*_FAILURES, ValueError) as error:
            _log.info("response address failed: %s", type(error).__name__)
            return False
        return answer.status_code == 200


def _without_share(card: Card) -> Card:
    """Return the card without buttons to share it: all can see it already."""
    return replace(card, blocks=tuple(block for block in map(_unshared, card.blocks) if block != Buttons(())))


def _unshared(block: Block) -> Block:
    if not isinstance(block, Buttons):
        return block
    return Buttons(tuple(button for button in block.buttons if not button.line.startswith("share ")))
