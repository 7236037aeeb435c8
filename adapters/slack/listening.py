"""Translate what Slack sends into lines."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from slack_bolt.app.async_app import AsyncApp
from slack_bolt.context.ack.async_ack import AsyncAck
from slack_bolt.response import BoltResponse

from adapters.slack.asking import Asker, Desk
from adapters.slack.hints import usage_hint
from adapters.slack.modal import ASK, FORM, Origin, answer_view, ask_view, first_input, submitted_line, working
from adapters.slack.mrkdwn import cut, line
from adapters.slack.objects import Json
from adapters.slack.redact import redact
from adapters.slack.seen import Seen
from adapters.slack.typed import typed_line, without_mention
from bot.cards.card import Card, Form, Text, Tone, plain, text
from bot.ports import CommandHint

_ANY = re.compile(".*", re.DOTALL)
_ANSWER_WITHIN_S = 2.0
"""Slack waits three seconds for what a modal shall do next."""
_STALE = Card("This button is no longer understood; type /trn help for what can be asked.", Tone.ERROR)
_log = logging.getLogger("trnbot.slack")


class Listening:
    """Handle commands, mentions, messages, buttons, shortcuts, modals and App Home."""

    def __init__(self, desk: Desk, hints: Sequence[CommandHint]) -> None:
        self._desk, self._hints = desk, hints
        self._seen = Seen()
        self._names: dict[str, str] = {}

    def register(self, app: AsyncApp) -> None:
        """Attach every handler; nothing Slack may send is left without one."""
        app.command(_ANY)(self.on_command)
        app.action(_ANY)(self.on_action)
        app.view(_ANY)(self.on_submit)
        app.shortcut(_ANY)(self.on_shortcut)
        app.event("app_mention")(self.on_mention)
        app.event("message")(self.on_message)
        app.event("app_home_opened")(self.on_home)
        app.event(_ANY)(self.on_other)
        app.error(self.on_error)

    async def on_command(self, ack: AsyncAck, body: Json) -> None:
        """Answer `/trn LINE`, privately, with a button to share."""
        await ack()
        if not self._seen.again(body.get("trigger_id", "")):
            typed = typed_line(body.get("text") or "")
            self._desk.spawn(self._desk.tell(typed, self._asker(body, body.get("channel_id", ""))))

    async def on_mention(self, body: Json) -> None:
        """Answer `@trnbot LINE` in its thread, for all."""
        event = body.get("event") or {}
        if self._is_person(event):
            self._answer_message(event, thread=event.get("thread_ts") or event.get("ts", ""))

    async def on_message(self, body: Json) -> None:
        """Answer a direct message; messages in channels are not ours unless they mention the bot."""
        event = body.get("event") or {}
        if event.get("channel_type") == "im" and self._is_person(event):
            self._answer_message(event, thread=event.get("thread_ts", ""))

    async def on_home(self, body: Json) -> None:
        """Draw App Home."""
        event = body.get("event") or {}
        if event.get("tab", "home") == "home" and not self._seen.again(body.get("event_id", "")):
            self._desk.spawn(self._desk.show_home(event.get("user", "")))

    async def on_other(self) -> None:
        """Take an event that means nothing here."""

    async def on_action(self, ack: AsyncAck, body: Json) -> None:
        """Type a button's line for the person who pressed."""
        await ack()
        action = (body.get("actions") or [{}])[0]
        if self._seen.again(body.get("trigger_id", "")):
            return
        asker = self._presser(body)
        typed, action_id = str(action.get("value") or ""), str(action.get("action_id") or "")
        if action.get("type", "button") != "button" or not typed:
            self._desk.spawn(self._desk.deliver(_STALE, "help", asker))
            return
        view = (body.get("view") or {}).get("type", "")
        if view or action_id.startswith("opens"):
            work = self._desk.tell_in_modal(typed, asker, body.get("trigger_id", ""), push=view == "modal")
        else:
            mine = bool((body.get("container") or {}).get("is_ephemeral")) and typed.startswith("share ")
            work = self._desk.tell(typed, replace(asker, pressed_share=mine))
        self._desk.spawn(work)

    async def on_shortcut(self, ack: AsyncAck, body: Json) -> None:
        """Open the modal where a line is typed; its answer goes into the thread of the message it was opened on."""
        await ack()
        found = body.get("message") or {}
        channel = (body.get("channel") or {}).get("id", "")
        origin = Origin(channel, found.get("thread_ts") or found.get("ts", "") if channel else "")
        words = without_mention(found.get("text") or "").split(maxsplit=1)
        known = words and words[0].lower() in {hint.name.split()[0] for hint in self._hints}
        filled = typed_line(" ".join(words)) if known else ""
        view = ask_view(usage_hint(self._hints), filled, origin)
        self._desk.spawn(self._desk.open(body.get("trigger_id", ""), view))

    async def on_submit(self, ack: AsyncAck, body: Json) -> None:
        """Type the line a modal stands for; keep the modal open when the line was wrong."""
        view = body.get("view") or {}
        try:
            submitted, origin = submitted_line(view)
        except (ValueError, TypeError, AttributeError):
            await ack(response_action="update", view=answer_view(_STALE, Origin()))
            return
        if self._seen.again(body.get("trigger_id", "")):
            await ack()
            return
        asker = self._asker(body, origin.channel, thread=origin.thread, private=view.get("callback_id") != ASK)
        asked = self._desk.spawn(self._desk.ask(submitted, asker))
        await asyncio.wait({asked}, timeout=_ANSWER_WITHIN_S)
        if not asked.done():
            await ack(response_action="update", view=working())
            self._desk.spawn(self._show_late(view.get("id", ""), asked, submitted, asker))
            return
        await self._close(ack, view, asked.result(), submitted, asker)

    async def on_error(self, error: Exception, body: Json) -> BoltResponse:
        """Log what could not be handled, nothing of the payload but its type, and refuse it."""
        _log.error("could not handle %s: %s: %s", body.get("type", "a request"), type(error).__name__, redact(str(error)))
        return BoltResponse(status=400, body="This is not understood.")

    async def _close(self, ack: AsyncAck, view: Json, card: Card, submitted: str, asker: Asker) -> None:
        block = first_input(view)
        if card.tone is Tone.ERROR and block:
            await ack(response_action="errors", errors={block: cut(_sentence(card), 500)})
            return
        if view.get("callback_id") == FORM and any(isinstance(one, Form) for one in card.blocks):
            await ack(response_action="update", view=answer_view(card, Origin(asker.channel, asker.thread)))
            return
        await ack()
        self._desk.spawn(self._desk.deliver(card, submitted, asker))

    async def _show_late(self, view: str, asked: asyncio.Task[Any], submitted: str, asker: Asker) -> None:
        card = await asked
        await self._desk.show(view, card, Origin(asker.channel, asker.thread))
        if card.public or not asker.private:
            await self._desk.deliver(card, submitted, asker)

    def _answer_message(self, event: Json, thread: str) -> None:
        if self._seen.again(f"{event.get('channel')}:{event.get('ts')}"):
            return
        user = event.get("user", "")
        asker = Asker(user, self._names.get(user, ""), event.get("channel", ""), thread, private=False)
        self._desk.spawn(self._desk.tell(typed_line(without_mention(event.get("text") or "")), asker))

    def _is_person(self, event: Json) -> bool:
        """Tell that a person wrote it just now: bots, edits and deletions carry a subtype or a bot's id."""
        return bool(event.get("user")) and not event.get("bot_id") and event.get("subtype") in (None, "file_share")

    def _presser(self, body: Json) -> Asker:
        """Return who pressed, in the thread where the button stands."""
        container, found = body.get("container") or {}, body.get("message") or {}
        channel = (body.get("channel") or {}).get("id") or container.get("channel_id", "")
        thread = container.get("thread_ts") or found.get("thread_ts", "")
        if view := body.get("view"):
            origin = _origin(view)
            channel, thread = origin.channel, origin.thread
        return self._asker(body, channel, thread=thread)

    def _asker(self, body: Json, channel: str, *, thread: str = "", private: bool = True) -> Asker:
        """Return who asks; names are learnt here, for events carry none."""
        user = body.get("user") or {}
        person = body.get("user_id") or user.get("id", "")
        name = line(str(body.get("user_name") or user.get("username") or user.get("name") or ""))
        if name:
            self._names[person] = name
        return Asker(person, name, channel, thread, body.get("response_url") or "", private)


def _origin(view: Json) -> Origin:
    """Return where a modal was opened; nowhere for App Home and for views of another time."""
    try:
        return Origin.load(view.get("private_metadata") or "{}")
    except (ValueError, TypeError):
        return Origin()


def _sentence(card: Card) -> str:
    first = next((plain(block.spans) for block in card.blocks if isinstance(block, Text)), "")
    return line(f"{card.title} {first}") or plain(text("Not understood.").spans)
