"""Take what Slack sends of people, and have it answered in its workspace."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from slack_bolt import BoltResponse
from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncBoltContext
from slack_sdk.errors import SlackApiError

from adapters.chat.config import Json
from adapters.chat.manifest import ASK, usage_hint
from adapters.chat.slack.auth import Installations, address_prefix, split_address
from adapters.chat.slack.belonging import Belongings, Members
from adapters.chat.slack.client import Client, code_of, log, loggable
from adapters.chat.slack.forms import (
    FORM,
    PRESS,
    Claim,
    Origin,
    Requester,
    answer_view,
    ask_view,
    blamed_input,
    is_person,
    parse_author,
    parse_claim,
    parse_line,
    parse_presser,
    submitted_line,
    without_mention,
    working,
)
from adapters.chat.slack.markup import cut, one_line
from adapters.chat.slack.responder import Answered, Responder
from adapters.chat.slack.sender import Sender
from adapters.chat.work import Refusals, Tasks
from bot.cards.card import Card, Form, Tone, first_words
from bot.errors import Refused, TrnbotError
from bot.model.request import Effect, Standing
from bot.ports import ChatPorts, Deduplicator, Documents

_ANY = re.compile(".*", re.DOTALL)
_STALE = Card("This button no longer works; type /trn help for the commands.", Tone.ERROR)
_ADDRESS = re.compile(r"slack:(T\w+/)?\w+")


@dataclass(frozen=True)
class Workspace:
    """Hold the parts that post and answer in one workspace."""

    token: str = field(repr=False)
    prefix: str
    """Tells its addresses from those of the first workspace: "" or `T123/`."""
    client: Client
    sender: Sender
    responder: Responder
    members: Members
    belongings: Belongings

    def localized(self, card: Card) -> Card:
        """Return the card without pings of people of other workspaces.

        An id may mean somebody else here.
        """
        people = ((mention, _ADDRESS.fullmatch(mention.user)) for mention in card.mentions)
        near = (
            mention
            for mention, address in people
            if address is None or (address[1] or "") == self.prefix
        )
        return replace(card, mentions=tuple(near))


OpenWorkspace = Callable[[str, str, str], Workspace]
"""Open a workspace of a bot token, its id ("" for the only one) and the prefix of its addresses.

"" for the first, or `T123/`.
"""


class Workspaces:
    """Find the workspace of an address or a request.

    The only one of a token, or those that installed the app.

    `served` lists the workspaces that may install, the first of them the one that addresses without
    a workspace mean.
    """

    def __init__(
        self,
        open_workspace: OpenWorkspace,
        *,
        token: str = "",
        installs: Installations | None = None,
        served: Sequence[str] = (),
    ) -> None:
        self._open, self._installs, self._served = open_workspace, installs, tuple(served)
        self._opened: dict[str, Workspace] = {}
        if installs is None:
            self._opened[""] = open_workspace(token, "", "")

    async def of(self, team: str) -> Workspace:
        """Return a workspace; raise `Refused` where it has no app, or is not served."""
        if self._installs is None:
            return self._opened[""]
        installation = await self._installs.of(team) if team in self._served else None
        if installation is None:
            self._opened.pop(team, None)
            raise Refused(
                f"The app is not installed in Slack workspace {team};"
                " open /slack/install of this bot there."
            )
        workspace = self._opened.get(team)
        if workspace is None or workspace.token != installation.token:
            workspace = self._opened[team] = self._open(
                installation.token, team, address_prefix(team, self._served)
            )
        return workspace

    async def at(self, address: str) -> tuple[Workspace, str]:
        """Return the workspace and the bare channel of `C02FIN` or `T123/C02FIN`."""
        team, channel = split_address(address, self._served)
        return await self.of(team), channel

    def opened(self) -> Sequence[Workspace]:
        """Return the workspaces that were posted to or heard from since the start."""
        return tuple(self._opened.values())


@dataclass(frozen=True)
class Press:
    """Hold a press until it is answered, by another process where this one is killed.

    Its response address is not kept: whoever had it could speak in the bot's name.
    """

    line: str
    at: datetime
    workspace: str
    claim: Claim


PRESSES = Documents("slack.presses", Press)
_PRESSES_MOST = 20
_LOOK_S = 5.0
"""How often presses are looked for that a killed process left."""
_KEPT_WITHIN_S = 1.0
"""How long the acknowledgement of a press waits for a slow database; Slack waits three seconds."""


class EventListener:
    """Handle commands, mentions, messages, buttons, shortcuts, modals and App Home.

    What follows an acknowledgement is a task of its own: bolt forgets the acknowledgement of a
    handler that fails.
    """

    def __init__(
        self,
        of: Callable[[str], Awaitable[Workspace]],
        ports: ChatPorts,
        seen: Deduplicator,
        installs: Installations | None = None,
    ) -> None:
        self._of, self._ports, self._seen, self._installs = of, ports, seen, installs
        self._refusals = Refusals()
        self._pressed: dict[str, int] = {}
        self._answered: set[str] = set()
        """Tokens of the presses that this process answers."""
        self.tasks = Tasks(_report)

    def register(self, app: AsyncApp) -> None:
        """Attach every handler; nothing Slack may send is left without one."""
        for attach, name, handler in (
            (app.command, _ANY, self._later(self.on_command)),
            (app.action, _ANY, self.on_action),
            (app.view, _ANY, self.on_submit),
            (app.shortcut, _ANY, self._later(self.on_shortcut)),
            (app.event, "app_mention", self.on_mention),
            (app.event, "message", self.on_message),
            (app.event, "app_home_opened", self.on_home),
            (app.event, "link_shared", self._later(self.on_link)),
            (app.event, "app_uninstalled", self.on_removed),
            (app.event, "tokens_revoked", self.on_removed),
            (app.event, _ANY, self.on_other),
        ):
            attach(name)(handler)
        app.error(self.on_error)

    def _later(
        self, handle: Callable[[Json, AsyncBoltContext], Coroutine[Any, Any, None]]
    ) -> Callable[..., Awaitable[None]]:
        """Return a handler that acknowledges, and goes on in a task of its own."""

        async def take(ack: AsyncAck, body: Json, context: AsyncBoltContext) -> None:
            await ack()
            self.tasks.spawn(handle(body, context))

        return take

    async def on_command(self, body: Json, context: AsyncBoltContext) -> None:
        """Answer `/trn LINE`, privately, with a button to share."""
        await self._respond(
            parse_line(body.get("text") or ""),
            parse_claim(body, body.get("channel_id", "")),
            body.get("trigger_id", ""),
            context,
        )

    async def on_mention(self, body: Json, context: AsyncBoltContext) -> None:
        """Answer `@trnbot LINE` in its thread, for all."""
        event = body.get("event") or {}
        if is_person(event):
            self.tasks.spawn(
                self._hear(body, event.get("thread_ts") or event.get("ts", ""), context)
            )

    async def on_message(self, body: Json, context: AsyncBoltContext) -> None:
        """Answer a direct message; messages in channels are not ours without a mention."""
        event = body.get("event") or {}
        if event.get("channel_type") == "im" and is_person(event):
            self.tasks.spawn(self._hear(body, event.get("thread_ts", ""), context))

    async def _hear(self, body: Json, thread: str, context: AsyncBoltContext) -> None:
        event = body.get("event") or {}
        await self._respond(
            parse_line(without_mention(event.get("text") or "")),
            parse_author(body, thread),
            f"{context.team_id}:{event.get('channel')}:{event.get('ts')}",
            context,
        )

    async def _respond(self, line: str, claim: Claim, key: str, context: AsyncBoltContext) -> None:
        """Answer a member's line once, however often it comes."""
        requester = await self._admitted(claim, line, context)
        if requester and not await self._seen.again(key):
            await (await self._workspace(context)).responder.respond(line, requester)

    async def on_link(self, body: Json, context: AsyncBoltContext) -> None:
        """Draw under a message the alerts that its links lead to."""
        workspace = await self._workspace(context)
        requester = await workspace.belongings.requester(parse_author(body))

        # Of a stranger's links, and where strangers read, nothing is drawn.
        belonging = requester.belonging
        is_member = belonging.standing is Standing.MEMBER and not belonging.shared
        if is_member and not await self._seen.again(body.get("event_id", "")):
            await workspace.responder.unfurl(body.get("event") or {}, requester)

    async def on_home(self, body: Json, context: AsyncBoltContext) -> None:
        """Draw App Home; a stranger's says so, and holds no more what it once showed a member."""

        async def show_home() -> None:
            if await self._seen.again(body.get("event_id", "")):
                return
            workspace = await self._workspace(context)
            requester = await workspace.belongings.requester(
                replace(parse_author(body), channel="")
            )
            if not requester.stranger or self._is_to_be_told(requester):
                await workspace.responder.show_home(requester)

        if (body.get("event") or {}).get("tab", "home") == "home":
            self.tasks.spawn(show_home())

    async def on_removed(self, body: Json, context: AsyncBoltContext) -> None:
        """Forget the token of a workspace that removed the app or revoked it."""
        event = body.get("event") or {}
        revoked = (event.get("tokens") or {}).get("bot")
        removed = event.get("type") == "app_uninstalled" or bool(revoked)
        if self._installs and removed and context.team_id:
            log.warning("the app was removed from Slack workspace %s", one_line(context.team_id))
            self.tasks.spawn(self._installs.forget(context.team_id))

    async def on_other(self) -> None:
        """Take an event that means nothing here."""

    async def on_action(self, ack: AsyncAck, body: Json, context: AsyncBoltContext) -> None:
        """Type a button's line for the person who pressed."""
        await asyncio.wait({self.tasks.spawn(self._keep(body, context))}, timeout=_KEPT_WITHIN_S)
        await ack()
        self.tasks.spawn(self._take_press(body, context))

    async def _keep(self, body: Json, context: AsyncBoltContext) -> None:
        """Write a press before Slack hears that it has come."""
        line = str((body.get("actions") or [{}])[0].get("value") or "")
        key, outbox = str(body.get("trigger_id") or ""), self._ports.outbox
        if not (outbox and key and line):
            return
        self._pressed[key] = await asyncio.to_thread(outbox.hold, f"press {key}")
        claim = replace(parse_presser(body), response_url="")
        press = Press(line, self._ports.clock(), context.team_id or "", claim)
        await asyncio.to_thread(PRESSES.put, self._ports.documents, key, press)

    async def _take_press(self, body: Json, context: AsyncBoltContext) -> None:
        """Answer a press, and forget it, whether or not the answer arrived."""
        try:
            await self._press(body, context)
        except Exception as error:  # noqa: BLE001,RUF100 - told as that of any task
            _report(error)
        await self._forget_press(str(body.get("trigger_id") or ""))

    async def _forget_press(self, key: str) -> None:
        token, outbox = self._pressed.get(key, 0), self._ports.outbox
        if outbox and token:
            # One that could not be dropped is tried again, and not answered again.
            self._answered.add(key)
            await asyncio.to_thread(PRESSES.drop, self._ports.documents, key)
            await asyncio.to_thread(outbox.release, f"press {key}", token)
        self._pressed.pop(key, None)
        self._answered.discard(key)

    async def answer_left(self) -> None:
        """Answer, from time to time, what was pressed on a process that was killed before it did."""
        while outbox := self._ports.outbox:
            try:
                keys = await asyncio.to_thread(PRESSES.keys, self._ports.documents, _PRESSES_MOST)
                for key in keys:
                    if key in self._answered:
                        await self._forget_press(key)
                    if key in self._pressed:
                        continue
                    if token := await asyncio.to_thread(outbox.hold, f"press {key}"):
                        self._pressed[key] = token
                        self.tasks.spawn(self._answer_late(key))
            except (TrnbotError, ValueError) as error:
                log.info("what was pressed elsewhere is not known: %s", error)
            await asyncio.sleep(_LOOK_S)

    async def _answer_late(self, key: str) -> None:
        """Type the line once more, as of when it was pressed: what was decided then stays one."""
        try:
            # Whoever has answered it meanwhile has dropped it before its hold ended.
            press = await asyncio.to_thread(PRESSES.get, self._ports.documents, key)
            if press is None:
                return
            workspace = await self._of(press.workspace)
            requester = await workspace.belongings.requester(press.claim)
            if not requester.stranger:
                await workspace.responder.respond(press.line, requester, press.at)
        except Exception as error:  # noqa: BLE001,RUF100 - told as that of any task
            _report(error)
        finally:
            await self._forget_press(key)

    async def _press(self, body: Json, context: AsyncBoltContext) -> None:
        """Answer a press where the button stands: in its modal, in a new one, or in the channel."""
        action = (body.get("actions") or [{}])[0]
        line, action_id = str(action.get("value") or ""), str(action.get("action_id") or "")
        trigger, view = body.get("trigger_id", ""), body.get("view") or {}
        requester = await self._admitted(parse_presser(body), line, context)
        if requester is None or await self._seen.again(trigger):
            return

        responder = (await self._workspace(context)).responder
        if action.get("type", "button") != "button" or not line:
            await responder.deliver(_STALE, "help", requester)
        elif view or action_id.startswith("opens"):
            standing = str(view.get("id") or "") if view.get("type") == "modal" else None
            await responder.respond_in_modal(line, requester, trigger, standing)
        else:
            is_private = bool((body.get("container") or {}).get("is_ephemeral"))
            shares = is_private and self._ports.effect(line) is Effect.SHARES
            await responder.respond(line, replace(requester, pressed_share=shares))

    async def on_shortcut(self, body: Json, context: AsyncBoltContext) -> None:
        """Open the modal where a line is typed.

        Its answer goes into the thread of the message it was opened on.
        """
        message = body.get("message") or {}
        channel = (body.get("channel") or {}).get("id", "")
        thread = message.get("thread_ts") or message.get("ts", "") if channel else ""
        words = without_mention(message.get("text") or "").strip()
        line = parse_line(words) if words else ""

        claim = parse_claim(body, channel, thread=thread)
        if await self._admitted(claim, line or "help", context):
            typed = line if self._ports.effect(line) is not Effect.NOTHING else ""
            view = ask_view(usage_hint(self._ports.hints), typed, Origin(channel, thread))
            responder = (await self._workspace(context)).responder
            await responder.open_modal(body.get("trigger_id", ""), view)

    async def on_submit(self, ack: AsyncAck, body: Json, context: AsyncBoltContext) -> None:
        """Type the line a modal stands for; keep the modal open when the line was wrong."""
        view = body.get("view") or {}
        try:
            line, origin = submitted_line(view)
        except (ValueError, TypeError, AttributeError):
            await ack(response_action="update", view=answer_view(_STALE, Origin()))
            return
        if await self._seen.again(body.get("trigger_id", "")):
            await ack()
            return

        claim = parse_claim(
            body, origin.channel, thread=origin.thread, private=view.get("callback_id") != ASK
        )
        answer = self.tasks.spawn(self._answer(claim, line, context))
        await asyncio.wait({answer}, timeout=self._ports.working_after_s)
        responder = (await self._workspace(context)).responder
        if not answer.done():
            name = f"trnbot-{secrets.token_hex(12)}"
            await ack(response_action="update", view=working(name))
            self.tasks.spawn(responder.fill_late_modal(name, answer, line))
        elif result := answer.result():
            await self._close(ack, view, line, result, responder)
        else:
            await ack()

    async def _answer(self, claim: Claim, line: str, context: AsyncBoltContext) -> Answered | None:
        requester = await self._admitted(claim, line, context)
        if requester is None:
            return None
        return requester, await (await self._workspace(context)).responder.ask(line, requester)

    async def _close(
        self, ack: AsyncAck, view: Json, line: str, answered: Answered, responder: Responder
    ) -> None:
        """Show the answer to a submitted modal.

        Its error in place, a form or card in the modal, else where the person is.
        """
        requester, card = answered
        block = blamed_input(view, card.data.get("argument", ""))
        if card.tone is Tone.ERROR and block:
            sentence = one_line(f"{card.title} {first_words(card)}") or "Not understood."
            await ack(response_action="errors", errors={block: cut(sentence, 500)})
            return

        # A card that asks for more, by a form or by its main button, stays in the modal.
        asks = any(card.each(Form)) or card.primary
        pressed = view.get("callback_id") == PRESS
        stays = pressed or (view.get("callback_id") == FORM and asks)
        if stays:
            await ack(
                response_action="update",
                view=answer_view(card, Origin(requester.channel, requester.thread)),
            )
        else:
            await ack()
        if not stays or (pressed and card.public and requester.channel):
            self.tasks.spawn(responder.deliver(card, line, requester))

    async def on_error(
        self, error: Exception, body: Json, response: BoltResponse | None
    ) -> BoltResponse | None:
        """Log a failed request, nothing of its payload but its type, and refuse it.

        Bolt refuses one too late that is answered already.
        """
        kind, words = (loggable(str(text)) for text in (body.get("type", "a request"), error))
        log.error("could not handle %s: %s: %s", kind, type(error).__name__, words)
        return BoltResponse(status=400, body="This is not understood.") if response else None

    async def _workspace(self, context: AsyncBoltContext) -> Workspace:
        return await self._of(context.team_id or "")

    async def _admitted(
        self, claim: Claim, line: str, context: AsyncBoltContext
    ) -> Requester | None:
        """Return who asks, None for a stranger.

        They are told once an hour, alone, and nothing else of theirs is kept.
        """
        workspace = await self._workspace(context)
        requester = await workspace.belongings.requester(claim)
        if not requester.stranger:
            return requester
        if self._is_to_be_told(requester):
            await workspace.responder.respond(line, requester)
        return None

    def _is_to_be_told(self, stranger: Requester) -> bool:
        return self._refusals.is_due(stranger.user, certain=bool(stranger.belonging.organization))


def _report(error: BaseException) -> None:
    """Log why an answer did not arrive."""
    if isinstance(error, TrnbotError):
        log.warning("an answer was not delivered: %s", error)
    elif isinstance(error, SlackApiError):
        log.warning("an answer was not delivered: %s", code_of(error))
    else:
        log.error("an answer failed: %s: %s", type(error).__name__, loggable(str(error)))
