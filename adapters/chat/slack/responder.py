"""Carry a line to the bot and its card back to where the person is."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from slack_sdk.errors import SlackApiError
from slack_sdk.models.metadata import (
    EntityAttributes,
    EntityMetadata,
    EntityPayload,
    EntityStringField,
    EntityTimestampField,
    EntityTitle,
    EntityTypedField,
    EntityUserField,
    ExternalRef,
    IncidentEntityFields,
)

from adapters.chat.cards import Json
from adapters.chat.slack.client import FAILURES, Client, code_of, explained, is_limited, loggable
from adapters.chat.slack.forms import Origin, Requester, answer_view, with_workspace, working
from adapters.chat.slack.markup import cut, one_line
from adapters.chat.slack.render import Around, message, view_blocks
from adapters.chat.slack.sender import Sender
from bot.cards.card import Attachment, Card, Text, Tone, quiet
from bot.cards.lines import without_share
from bot.errors import TrnbotError
from bot.model.request import Manner, Request, Standing, User
from bot.ports import WORKING, WORKING_AFTER_S, ChatPorts

_TITLE, _FIELD = 150, 100


def incident(card: Card, page: str, posted: str) -> Json | None:
    """Return the work object of an alert's card, None of any other.

    `page` is its address, `posted` the link as written.
    """
    data = card.data
    if not data.get("id"):
        return None
    title = EntityTitle(text=cut(one_line(card.title), _TITLE))
    shown = EntityAttributes(
        title=title, display_id=str(data["id"]), display_type="Alert", product_name="trnbot"
    )
    made = EntityMetadata(
        "slack#/entities/incident",
        EntityPayload(attributes=shown, fields=_fields(data)),
        ExternalRef(id=str(data["id"]), type="alert"),
        page,
        posted,
    )
    described: Json = made.to_dict()
    return described


def _fields(data: Mapping[str, Any]) -> IncidentEntityFields:
    opened, assignee = (
        data.get("opened_at"),
        cut(one_line(str(data.get("assigned_to") or "")), _FIELD),
    )
    return IncidentEntityFields(
        status=EntityStringField(value="Over" if data.get("closed_at") else "Firing"),
        priority=EntityStringField(value=str(data.get("severity") or "").capitalize() or "Warning"),
        description=EntityStringField(value=cut(one_line(str(data.get("cause") or "")), _FIELD)),
        date_created=EntityTimestampField(value=int(opened.timestamp()))
        if isinstance(opened, datetime)
        else None,
        assigned_to=EntityTypedField(type="slack#/types/user", user=EntityUserField(text=assignee))
        if assignee
        else None,
    )


_LINKS, _UNFURLED = 3, 3
"""Links of a message that are drawn, and paragraphs of each."""
_LOOKS = 4
"""How often the modal is looked for that a submission was answered with."""
_ALONE = Card("The answer is for who asked alone.", Tone.OVER)
_UNANSWERED = Card("This is not answered here.", Tone.ERROR)
_log = logging.getLogger("trnbot.slack")
Answered = tuple[Requester, Card]


class Tasks:
    """Start work and wait for it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start work that goes on after Slack was acknowledged."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def drain(self, timeout_s: float = 10.0) -> None:
        """Wait for the work under way and the work it begins, then give up."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        while self._tasks and loop.time() < until:
            await asyncio.wait(self._tasks, timeout=until - loop.time())
        for task in self._tasks:
            task.cancel()

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or task.exception() is None:
            return
        error = task.exception()
        if isinstance(error, TrnbotError):
            _log.warning("an answer was not delivered: %s", error)
        elif isinstance(error, SlackApiError):
            _log.warning("an answer was not delivered: %s", code_of(error))
        else:
            _log.error("an answer failed: %s: %s", type(error).__name__, loggable(str(error)))


class Responder:
    """Answer people in one workspace."""

    def __init__(
        self,
        client: Client,
        sender: Sender,
        ports: ChatPorts,
        prefix: str = "",
        *,
        modal_delay_s: float = 0.5,
        public_url: str = "",
    ) -> None:
        self._client, self._sender, self._ports = client, sender, ports
        self._prefix = prefix
        """Tells addresses of this workspace from those of the first: "" or `T123/`."""
        self._alert_page = (
            re.compile(rf"{re.escape(public_url.rstrip('/'))}/alert/(\w+)/?(?:[?#].*)?")
            if public_url
            else None
        )
        """Matches the address of an alert's page in the console.

        None where the console has no public address.
        """
        self._takes_objects = True
        """Whether Slack takes work objects of this app, as far as is known."""
        self._modal_delay_s = modal_delay_s
        """How long Slack may take to show the modal that a submission was answered with."""

    async def unfurl(self, event: Json, requester: Requester) -> None:
        """Draw the alerts that a message's links lead to under it, in words.

        Whoever reads it reads them.
        """
        urls = [str(link.get("url") or "") for link in event.get("links") or ()][:_LINKS]
        shown = {url: card for url in urls if (card := await self._linked(url, requester))}
        if not shown:
            return
        unfurls = {url: {"blocks": message(_in_words(card)).blocks} for url, card in shown.items()}
        entities = [
            entity
            for url, card in shown.items()
            if (entity := incident(card, url.partition("?")[0], url))
        ]
        async with explained(requester.channel):
            if not (
                entities
                and await self._unfurl(requester.channel, event, unfurls, {"entities": entities})
            ):
                await self._client.chat_unfurl(
                    channel=requester.channel, ts=_written(event), unfurls=unfurls
                )

    async def _unfurl(self, channel: str, event: Json, unfurls: Json, metadata: Json) -> bool:
        """Show what links lead to with their work objects.

        Return whether Slack takes them of this app.
        """
        if not self._takes_objects:
            return False
        try:
            await self._client.chat_unfurl(
                channel=channel, ts=_written(event), unfurls=unfurls, metadata=metadata
            )
        except SlackApiError as error:
            self._takes_objects = is_limited(error)
            _log.info("no work object shown: %s", code_of(error))
            return False
        return True

    async def _linked(self, url: str, requester: Requester) -> Card | None:
        """Return the card of the alert that a link leads to, None for any other link."""
        found = self._alert_page.fullmatch(url) if self._alert_page else None
        card = await self.ask(f"alert {found[1]}", requester, Manner.VIEWED) if found else None
        return None if card is None or card.tone is Tone.ERROR else card

    async def ask(self, line: str, requester: Requester, manner: Manner = Manner.ASKED) -> Card:
        """Return the bot's answer to a line."""
        channel = f"slack:{self._prefix}{requester.channel}" if _among_people(requester) else ""
        user, belonging = User(requester.address, requester.name), requester.belonging
        at, thread = self._ports.clock(), requester.thread
        line = with_workspace(line, self._prefix)
        return await self._ports.answer(
            Request(line, user, at, "slack", belonging, channel, thread, manner)
        )

    async def respond(self, line: str, requester: Requester) -> None:
        """Answer a line where the person is, and say that it is worked on where the answer takes long."""
        answer = asyncio.ensure_future(self.ask(line, requester))
        shown = await self._sender.show_status(requester.channel, requester.thread)
        done, _ = await asyncio.wait({answer}, timeout=WORKING_AFTER_S)
        note = "" if done or shown else await self._say_working(requester)
        await self.deliver(await answer, line, requester, note)

    async def deliver(self, card: Card, line: str, requester: Requester, note: str = "") -> None:
        """Show a card.

        In the channel when it is public, else to the person alone, as always where strangers read
        or ask.

        `note` is the message that says it is worked on: the answer takes its place.
        """
        alone = (
            requester.belonging.shared
            or requester.stranger
            or (_is_guest(requester) and card.tone is Tone.ERROR)
        )
        private = alone or (requester.private and not card.public)
        if not private or requester.belonging.shared:
            card = without_share(card)
        card = await self._with_file(card, requester, private)
        if requester.response_url and await self._respond_by_url(card, line, requester, private):
            return
        if private and _among_people(requester):
            await self._sender.post_ephemeral(
                requester.channel, requester.user, card, requester.thread, line
            )
            card = _ALONE if note else card
        if note or not (private and _among_people(requester)):
            await self._sender.answer(
                requester.channel or requester.user, card, requester.thread, line, note
            )

    async def _with_file(self, card: Card, requester: Requester, private: bool) -> Card:
        """Send the file of a card that has one, and say where it is."""
        file = next((block for block in card.blocks if isinstance(block, Attachment)), None)
        if file is None:
            return card
        here = "" if private and _among_people(requester) else requester.channel
        where = await self._sender.give(
            file, here, requester.thread if here else "", requester.user
        )
        after = card.blocks.index(file) + 1
        return (
            replace(card, blocks=(*card.blocks[:after], quiet(where), *card.blocks[after:]))
            if where
            else card
        )

    async def _say_working(self, requester: Requester) -> str:
        """Say that it is worked on.

        By a message that the answer replaces, whose id is returned, or to the person alone.
        """
        try:
            if requester.response_url:
                await self._post_response(requester, WORKING, Around(), private=True)
            elif _among_people(requester) and (
                requester.private or requester.belonging.shared or requester.stranger
            ):
                await self._sender.post_ephemeral(
                    requester.channel, requester.user, WORKING, requester.thread
                )
            else:
                return await self._sender.answer(
                    requester.channel or requester.user, WORKING, requester.thread
                )
        except TrnbotError as error:
            _log.info("not said that it is worked on: %s", error)
        return ""

    async def respond_in_modal(self, line: str, requester: Requester, trigger: str) -> None:
        """Open a modal at once, then fill it with the answer.

        Answer in the channel when the trigger was too old.
        """
        try:
            opened: Any = await self._client.views_open(trigger_id=trigger, view=working())
        except FAILURES as error:
            _log.info("modal not opened: %s", type(error).__name__)
            return await self.respond(line, requester)
        return await self._fill_modal(
            {"view_id": opened["view"]["id"]}, await self.ask(line, requester), line, requester
        )

    async def respond_in_open_modal(self, view: str, line: str, requester: Requester) -> None:
        """Answer a press in the modal where it was pressed.

        Another on top would need a fresh trigger, and three is the most.
        """
        try:
            await self._client.views_update(view_id=view, view=working())
        except FAILURES as error:
            _log.info("modal gone: %s", type(error).__name__)
            return await self.respond(line, requester)
        return await self._fill_modal(
            {"view_id": view}, await self.ask(line, requester), line, requester
        )

    async def fill_late_modal(
        self, name: str, answer: asyncio.Task[Answered | None], line: str
    ) -> None:
        """Put an answer that took long into the modal `working(name)`, which Slack may not have made yet."""
        answered, _ = await asyncio.gather(answer, asyncio.sleep(self._modal_delay_s))
        if answered:
            await self._fill_modal({"external_id": name}, answered[1], line, answered[0])
        else:
            await self._update_modal({"external_id": name}, answer_view(_UNANSWERED, Origin()))

    async def _fill_modal(
        self, where: dict[str, str], card: Card, line: str, requester: Requester
    ) -> None:
        """Put a card into an open modal, and where all read it when it is for all.

        Tell the person when the modal is closed.
        """
        filled = await self._update_modal(
            where, answer_view(card, Origin(requester.channel, requester.thread))
        )
        if not filled or (card.public and requester.channel) or not requester.private:
            await self.deliver(card, line, requester)

    async def _update_modal(self, where: dict[str, str], view: Json) -> bool:
        """Return whether Slack still had the modal.

        One with a name of its own may be a moment late.
        """
        for left in range(_LOOKS if "external_id" in where else 1, 0, -1):
            try:
                await self._client.views_update(view=view, **where)
                return True
            except FAILURES as error:
                code = code_of(error) if isinstance(error, SlackApiError) else type(error).__name__
                if code != "not_found" or left == 1:
                    _log.info("modal not filled: %s", code)
                    return False
            await asyncio.sleep(self._modal_delay_s)
        return False

    async def show_home(self, requester: Requester) -> None:
        """Publish App Home: the answer to `home`."""
        card = await self.ask("home", requester)
        blocks = view_blocks(card, Around(images=await self._sender.charts.upload(card)))
        async with explained():
            await self._client.views_publish(
                user_id=requester.user, view={"type": "home", "blocks": blocks}
            )

    async def open_modal(self, trigger: str, view: Json) -> None:
        """Open a finished modal."""
        async with explained():
            await self._client.views_open(trigger_id=trigger, view=view)

    async def _respond_by_url(
        self, card: Card, line: str, requester: Requester, private: bool
    ) -> bool:
        """Answer by the response address; tell whether Slack took it."""
        around = await self._sender.around(card, line)
        taken = await self._post_response(requester, card, around, private)
        if not taken and around.images:
            await self._sender.wait_for_upload()
            taken = await self._post_response(requester, card, around, private)
        if not taken and (around.images or around.native):
            taken = await self._post_response(requester, card, Around(line=line), private)
            await self._sender.charts.delete(around.images.values())
        if taken and requester.pressed_share and card.tone is not Tone.ERROR:
            await self._client.send_response(requester.response_url, {"delete_original": True})
        return taken

    async def _post_response(
        self, requester: Requester, card: Card, around: Around, private: bool
    ) -> bool:
        drawn = message(card, around)
        body: Json = {"text": drawn.text, "blocks": drawn.blocks, "replace_original": False}
        body["response_type"] = "ephemeral" if private else "in_channel"
        if requester.thread:
            body["thread_ts"] = requester.thread
        return await self._client.send_response(requester.response_url, body)


def _written(event: Json) -> str:
    """Return the id of the message that an event is about."""
    return str(event.get("message_ts") or "")


def _in_words(card: Card) -> Card:
    """Return an alert's card as a link shows it: its first paragraphs, and nobody pinged."""
    words = tuple(block for block in card.blocks if isinstance(block, Text))
    return replace(card, blocks=words[:_UNFURLED], mentions=())


def _among_people(requester: Requester) -> bool:
    """Return whether others read where the person asks: a direct message is of one."""
    return bool(requester.channel) and not requester.channel.startswith("D")


def _is_guest(requester: Requester) -> bool:
    return requester.belonging.standing is Standing.GUEST
