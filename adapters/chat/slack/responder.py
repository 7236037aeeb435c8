"""Carry a line to the bot and its card back to where the person is."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import datetime
from typing import Any

from slack_sdk.errors import SlackApiError

from adapters.chat.config import Json
from adapters.chat.slack.client import FAILURES, Client, code_of, explained, is_limited, log
from adapters.chat.slack.forms import Origin, Requester, answer_view, with_workspace, working
from adapters.chat.slack.markup import cut, one_line
from adapters.chat.slack.render import Around, message, view_blocks
from adapters.chat.slack.sender import Sender, in_thread
from adapters.chat.work import answered
from bot.cards.card import Attachment, Card, Text, Tone, quiet
from bot.cards.lines import without_share
from bot.model.request import Manner, Request, Standing, User
from bot.ports import WORKING, ChatPorts

_TITLE, _FIELD = 150, 100


_LINKS, _UNFURLED = 3, 3
"""Links of a message that are drawn, and paragraphs of each."""
_LOOKS = 4
"""How often the modal is looked for that a submission was answered with."""
_ALONE = Card("Only who asked sees the answer.", Tone.OVER)
_UNANSWERED = Card("This is not answered here.", Tone.ERROR)
Answered = tuple[Requester, Card]


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
        page = rf"{re.escape(public_url.rstrip('/'))}/alert/(\w+)/?(?:[?#].*)?"
        self._alert_page = re.compile(page) if public_url else None
        """Matches the address of an alert's page in the console, where that is public."""
        self._takes_objects = True
        """Whether Slack takes work objects of this app, as far as is known."""
        self._modal_delay_s = modal_delay_s
        """How long Slack may take to show the modal that a submission was answered with."""

    async def unfurl(self, event: Json, requester: Requester) -> None:
        """Draw the alerts that a message's links lead to under it, in words.

        Whoever reads it reads them.
        """
        cards: dict[str, Card] = {}
        for link in (event.get("links") or ())[:_LINKS]:
            url = str(link.get("url") or "")
            matched = self._alert_page.fullmatch(url) if self._alert_page else None
            if matched:
                card = await self.ask(f"alert {matched[1]}", requester, Manner.VIEWED)
                if card.tone is not Tone.ERROR:
                    cards[url] = card
        if not cards:
            return

        # Their first paragraphs, which ping nobody.
        unfurls = {}
        for url, card in cards.items():
            words = tuple(card.each(Text))[:_UNFURLED]
            unfurls[url] = {"blocks": message(replace(card, blocks=words, mentions=())).blocks}
        objects = (incident(card, url.partition("?")[0], url) for url, card in cards.items())
        entities = list(filter(None, objects))
        channel, ts = requester.channel, str(event.get("message_ts") or "")

        async with explained(requester.channel):
            if entities and self._takes_objects:
                try:
                    await self._client.chat_unfurl(
                        channel=channel, ts=ts, unfurls=unfurls, metadata={"entities": entities}
                    )
                    return
                except SlackApiError as error:
                    self._takes_objects = is_limited(error)
                    log.info("no work object shown: %s", code_of(error))
            await self._client.chat_unfurl(channel=channel, ts=ts, unfurls=unfurls)

    async def ask(
        self,
        line: str,
        requester: Requester,
        manner: Manner = Manner.ASKED,
        at: datetime | None = None,
    ) -> Card:
        """Return the bot's answer to a line, asked now or `at` an earlier time."""
        channel = f"slack:{self._prefix}{requester.channel}" if requester.among_people else ""
        return await self._ports.answer(
            Request(
                with_workspace(line, self._prefix),
                User(requester.address, requester.name, email=requester.email),
                at or self._ports.clock(),
                "slack",
                requester.belonging,
                channel,
                requester.thread,
                manner,
                whole=False,
            )
        )

    async def respond(self, line: str, requester: Requester, at: datetime | None = None) -> None:
        """Answer a line where the person is, and say that it takes long where it does."""
        answer = asyncio.ensure_future(self.ask(line, requester, at=at))
        has_status = await self._sender.show_status(requester.channel, requester.thread)

        async def say_working() -> str:
            if has_status:
                return ""
            if requester.response_url:
                await self._post_response(requester, WORKING, Around(), private=True)
            elif requester.among_people and (
                requester.private or requester.belonging.shared or requester.stranger
            ):
                await self._sender.post_ephemeral(
                    requester.channel, requester.user, WORKING, requester.thread
                )
            else:
                return await self._sender.answer(
                    requester.channel or requester.user, WORKING, requester.thread
                )
            return ""

        card, note = await answered(answer, say_working, self._ports.working_after_s, log)
        await self.deliver(card, line, requester, note)

    async def deliver(self, card: Card, line: str, requester: Requester, note: str = "") -> None:
        """Show a card.

        In the channel when it is public, else to the person alone, as always where strangers read
        or ask.

        `note` is the message that says it is worked on: the answer takes its place.
        """
        alone = (
            requester.belonging.shared
            or requester.stranger
            or (requester.belonging.standing is Standing.GUEST and card.tone is Tone.ERROR)
        )
        private = alone or (requester.private and not card.public)
        if not private or requester.belonging.shared:
            card = without_share(card)

        file = next(card.each(Attachment), None)
        if file is not None:
            channel = "" if private and requester.among_people else requester.channel
            where = await self._sender.give(file, channel, requester.thread, requester.user)
            after = card.blocks.index(file) + 1
            words = (quiet(where),) if where else ()
            card = replace(card, blocks=(*card.blocks[:after], *words, *card.blocks[after:]))

        if requester.response_url and await self._respond_by_url(card, line, requester, private):
            return
        ephemeral = private and requester.among_people
        if ephemeral:
            await self._sender.post_ephemeral(
                requester.channel, requester.user, card, requester.thread, line
            )
            card = _ALONE if note else card
        if note or not ephemeral:
            await self._sender.answer(
                requester.channel or requester.user, card, requester.thread, line, note
            )

    async def respond_in_modal(
        self, line: str, requester: Requester, trigger: str, standing: str | None = None
    ) -> None:
        """Open a modal at once, then fill it with the answer; `standing` is the one of a press.

        Another on top of that would need a fresh trigger, and three is the most. Answer in the
        channel when the trigger was too old, or the modal is gone.
        """
        try:
            if standing is None:
                opened: Any = await self._client.views_open(trigger_id=trigger, view=working())
            else:
                await self._client.views_update(view_id=standing, view=working())
        except FAILURES as error:
            failed = "not opened" if standing is None else "gone"
            log.info("modal %s: %s", failed, type(error).__name__)
            return await self.respond(line, requester)
        view = {"view_id": opened["view"]["id"] if standing is None else standing}
        return await self._fill_modal(view, await self.ask(line, requester), line, requester)

    async def fill_late_modal(
        self, name: str, answer: asyncio.Task[Answered | None], line: str
    ) -> None:
        """Put an answer that took long into the modal `working(name)`.

        Slack may not have made it yet.
        """
        result, _ = await asyncio.gather(answer, asyncio.sleep(self._modal_delay_s))
        view = {"external_id": name}
        if result:
            await self._fill_modal(view, result[1], line, result[0])
        else:
            await self._update_modal(view, answer_view(_UNANSWERED, Origin()))

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
        last = _LOOKS if "external_id" in where else 1
        for look in range(1, last + 1):
            try:
                await self._client.views_update(view=view, **where)
                return True
            except FAILURES as error:
                code = code_of(error) if isinstance(error, SlackApiError) else type(error).__name__
                if code != "not_found" or look == last:
                    log.info("modal not filled: %s", code)
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
        """Answer by the response address; return whether Slack took it."""
        around = await self._sender.around(card, line)
        done = await self._post_response(requester, card, around, private)
        if not done and around.images:
            await self._sender.wait_for_upload()
            done = await self._post_response(requester, card, around, private)
        if not done and (around.images or around.native):
            done = await self._post_response(requester, card, Around(line=line), private)
            await self._sender.charts.delete(around.images.values())

        if done and requester.pressed_share and card.tone is not Tone.ERROR:
            await self._client.send_response(requester.response_url, {"delete_original": True})
        return done

    async def _post_response(
        self, requester: Requester, card: Card, around: Around, private: bool
    ) -> bool:
        drawn = message(card, around)
        body = {
            "text": drawn.text,
            "blocks": drawn.blocks,
            "replace_original": False,
            "response_type": "ephemeral" if private else "in_channel",
            **in_thread(requester.thread),
        }
        return await self._client.send_response(requester.response_url, body)


def incident(card: Card, page: str, posted: str) -> Json | None:
    """Return the work object of an alert's card, None of any other.

    An incident with its state, dates and assignee. `page` is its address, `posted` the link as
    written.

    Source: docs.slack.dev, messaging/work-objects-implementation, and the SDK's own models of it;
    read 2026-11-22.
    """
    data = card.data
    if not data.get("id"):
        return None
    cause, assignee = (
        cut(one_line(str(data.get(name) or "")), _FIELD) for name in ("cause", "assigned_to")
    )
    severity = str(data.get("severity") or "").capitalize() or "Warning"
    fields: Json = {
        "status": {"value": "Over" if data.get("closed_at") else "Firing"},
        "priority": {"value": severity},
        "description": {"value": cause} if cause else {},
    }
    if isinstance(opened := data.get("opened_at"), datetime):
        fields["date_created"] = {"value": int(opened.timestamp())}
    if assignee:
        fields["assigned_to"] = {"type": "slack#/types/user", "user": {"text": assignee}}

    attributes = {
        "title": {"text": cut(one_line(card.title), _TITLE)},
        "display_id": str(data["id"]),
        "display_type": "Alert",
        "product_name": "trnbot",
    }
    return {
        "entity_type": "slack#/entities/incident",
        "entity_payload": {"attributes": attributes, "fields": fields},
        "external_ref": {"id": str(data["id"]), "type": "alert"},
        "url": page,
        "app_unfurl_url": posted,
    }
