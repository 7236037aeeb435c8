"""Take the commands, mentions, presses and modals that Slack sends, and have each answered in its workspace."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from slack_bolt.app.async_app import AsyncApp
from slack_bolt.context.ack.async_ack import AsyncAck
from slack_bolt.context.async_context import AsyncBoltContext
from slack_bolt.response import BoltResponse

from adapters.chat.cards import Json
from adapters.chat.manifest import ASK, usage_hint
from adapters.chat.slack.auth import Installations, address_prefix, split_address
from adapters.chat.slack.belonging import Belongings, Members, Strangers
from adapters.chat.slack.client import Client, loggable
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
from adapters.chat.slack.responder import Answered, Responder, Tasks
from adapters.chat.slack.sender import Sender
from bot.cards.card import Buttons, ButtonStyle, Card, Form, Mention, Text, Tone, plain, text
from bot.errors import Refused
from bot.model.request import Effect, Standing
from bot.ports import ChatPorts, Deduplicator

_ANY = re.compile(".*", re.DOTALL)
_ANSWER_WITHIN_S = 2.0
"""Slack waits three seconds for what a modal shall do next."""
_STALE = Card("This button no longer works; type /trn help for the commands.", Tone.ERROR)
_log = logging.getLogger("trnbot.slack")


_ADDRESS = re.compile(r"slack:(T\w+/)?\w+")


@dataclass(frozen=True)
class Workspace:
    """Hold the parts that post and answer in one workspace."""

    token: str
    prefix: str
    """Tells its addresses from those of the first workspace: "" or `T123/`."""
    client: Client
    sender: Sender
    responder: Responder
    members: Members
    belongings: Belongings

    def __repr__(self) -> str:
        """Show no token."""
        return f"Workspace({self.prefix})"

    def own(self, card: Card) -> Card:
        """Return the card without pings of people of other workspaces.

        An id may mean somebody else here.
        """
        return replace(card, mentions=tuple(one for one in card.mentions if self._knows(one)))

    def _knows(self, one: Mention) -> bool:
        address = _ADDRESS.fullmatch(one.user)
        return address is None or (address[1] or "") == self.prefix


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
        self._opened: dict[str, Workspace] = (
            {"": open_workspace(token, "", "")} if installs is None else {}
        )

    async def of(self, team: str) -> Workspace:
        """Return a workspace; raise `Refused` where it did not install the app, or is not served."""
        if self._installs is None:
            return self._opened[""]
        installation = await self._installs.of(team) if team in self._served else None
        if installation is None:
            self._opened.pop(team, None)
            raise Refused(
                f"The app is not installed in Slack workspace {team}; open /slack/install of this bot there."
            )
        workspace = self._opened.get(team)
        if workspace is None or workspace.token != installation.token:
            workspace = self._opened[team] = self._open(
                installation.token, team, address_prefix(team, self._served)
            )
        return workspace

    async def at(self, address: str) -> tuple[Workspace, str]:
        """Return the workspace and the bare channel of an address such as `C02FIN` or `T123/C02FIN`."""
        team, channel = split_address(address, self._served)
        return await self.of(team), channel

    def opened(self) -> Sequence[Workspace]:
        """Return the workspaces that were posted to or heard from since the start."""
        return tuple(self._opened.values())


@dataclass(frozen=True)
class _Submission:
    """Hold a submitted modal, the line it stands for, and who submitted it."""

    view: Json
    line: str
    requester: Requester


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
        self._strangers = Strangers()
        self.tasks = Tasks()

    def register(self, app: AsyncApp) -> None:
        """Attach every handler; nothing Slack may send is left without one."""
        app.command(_ANY)(self.on_command)
        app.action(_ANY)(self.on_action)
        app.view(_ANY)(self.on_submit)
        app.shortcut(_ANY)(self.on_shortcut)
        app.event("app_mention")(self.on_mention)
        app.event("message")(self.on_message)
        app.event("app_home_opened")(self.on_home)
        app.event("link_shared")(self.on_link)
        app.event("app_uninstalled")(self.on_removed)
        app.event("tokens_revoked")(self.on_removed)
        app.event(_ANY)(self.on_other)
        app.error(self.on_error)

    async def drain(self) -> None:
        """Wait for the answers under way."""
        await self.tasks.drain()

    async def on_command(self, ack: AsyncAck, body: Json, context: AsyncBoltContext) -> None:
        """Answer `/trn LINE`, privately, with a button to share."""
        await ack()
        self.tasks.spawn(self._type_command(body, context))

    async def on_mention(self, body: Json, context: AsyncBoltContext) -> None:
        """Answer `@trnbot LINE` in its thread, for all."""
        event = body.get("event") or {}
        if is_person(event):
            self.tasks.spawn(
                self._answer_message(body, context, event.get("thread_ts") or event.get("ts", ""))
            )

    async def on_message(self, body: Json, context: AsyncBoltContext) -> None:
        """Answer a direct message; messages in channels are not ours unless they mention the bot."""
        event = body.get("event") or {}
        if event.get("channel_type") == "im" and is_person(event):
            self.tasks.spawn(self._answer_message(body, context, event.get("thread_ts", "")))

    async def on_link(self, body: Json, context: AsyncBoltContext) -> None:
        """Draw under a message the alerts that its links lead to."""
        self.tasks.spawn(self._unfurl(body, context))

    async def on_home(self, body: Json, context: AsyncBoltContext) -> None:
        """Draw App Home."""
        event = body.get("event") or {}
        if event.get("tab", "home") == "home":
            self.tasks.spawn(self._show_home(body, context))

    async def on_removed(self, body: Json, context: AsyncBoltContext) -> None:
        """Forget the token of a workspace that removed the app or revoked it."""
        event = body.get("event") or {}
        revoked = event.get("type") == "app_uninstalled" or bool(
            (event.get("tokens") or {}).get("bot")
        )
        if self._installs and revoked and context.team_id:
            _log.warning("the app was removed from Slack workspace %s", one_line(context.team_id))
            self.tasks.spawn(self._installs.forget(context.team_id))

    async def on_other(self) -> None:
        """Take an event that means nothing here."""

    async def on_action(self, ack: AsyncAck, body: Json, context: AsyncBoltContext) -> None:
        """Type a button's line for the person who pressed."""
        await ack()
        self.tasks.spawn(self._type_button(body, context))

    async def on_shortcut(self, ack: AsyncAck, body: Json, context: AsyncBoltContext) -> None:
        """Open the modal where a line is typed.

        Its answer goes into the thread of the message it was opened on.
        """
        await ack()
        self.tasks.spawn(self._open_shortcut(body, context))

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
        answer = self.tasks.spawn(self._answer_submission(claim, line, context))
        await asyncio.wait({answer}, timeout=_ANSWER_WITHIN_S)
        responder = (await self._workspace(context)).responder
        if not answer.done():
            name = f"trnbot-{secrets.token_hex(12)}"
            await ack(response_action="update", view=working(name))
            self.tasks.spawn(responder.fill_late_modal(name, answer, line))
        elif answered := answer.result():
            await self._close(ack, _Submission(view, line, answered[0]), answered[1], responder)
        else:
            await ack()

    async def on_error(
        self, error: Exception, body: Json, response: BoltResponse | None
    ) -> BoltResponse | None:
        """Log a failed request, nothing of its payload but its type, and refuse it where it is not answered yet."""
        _log.error(
            "could not handle %s: %s: %s",
            loggable(str(body.get("type", "a request"))),
            type(error).__name__,
            loggable(str(error)),
        )
        return (
            BoltResponse(status=400, body="This is not understood.") if response else None
        )  # bolt refuses one too late

    async def _type_command(self, body: Json, context: AsyncBoltContext) -> None:
        line = parse_line(body.get("text") or "")
        requester = await self._admitted(
            parse_claim(body, body.get("channel_id", "")), line, context
        )
        if requester and not await self._seen.again(body.get("trigger_id", "")):
            await (await self._workspace(context)).responder.respond(line, requester)

    async def _type_button(self, body: Json, context: AsyncBoltContext) -> None:
        action = (body.get("actions") or [{}])[0]
        line, action_id = str(action.get("value") or ""), str(action.get("action_id") or "")
        requester = await self._admitted(parse_presser(body), line, context)
        if requester is None or await self._seen.again(body.get("trigger_id", "")):
            return
        responder, view = (await self._workspace(context)).responder, body.get("view") or {}
        if action.get("type", "button") != "button" or not line:
            await responder.deliver(_STALE, "help", requester)
        elif view.get("type") == "modal":
            await responder.respond_in_open_modal(str(view.get("id") or ""), line, requester)
        elif view or action_id.startswith("opens"):
            await responder.respond_in_modal(line, requester, body.get("trigger_id", ""))
        else:
            shares = self._ports.effect(line) is Effect.SHARES
            mine = bool((body.get("container") or {}).get("is_ephemeral")) and shares
            await responder.respond(line, replace(requester, pressed_share=mine))

    async def _open_shortcut(self, body: Json, context: AsyncBoltContext) -> None:
        message = body.get("message") or {}
        channel = (body.get("channel") or {}).get("id", "")
        origin = Origin(
            channel, message.get("thread_ts") or message.get("ts", "") if channel else ""
        )
        words = without_mention(message.get("text") or "").strip()
        line = parse_line(words) if words else ""
        known = self._ports.effect(line) is not Effect.NOTHING
        claim = parse_claim(body, origin.channel, thread=origin.thread)
        if await self._admitted(claim, line or "help", context):
            view = ask_view(usage_hint(self._ports.hints), line if known else "", origin)
            await (await self._workspace(context)).responder.open_modal(
                body.get("trigger_id", ""), view
            )

    async def _close(
        self, ack: AsyncAck, submission: _Submission, card: Card, responder: Responder
    ) -> None:
        """Show the answer to a submitted modal.

        Its error in place, a form or card in the modal, else where the person is.
        """
        view, requester = submission.view, submission.requester
        block = blamed_input(view, card.data.get("argument", ""))
        if card.tone is Tone.ERROR and block:
            await ack(response_action="errors", errors={block: cut(_sentence(card), 500)})
            return
        pressed = view.get("callback_id") == PRESS
        stays = pressed or (view.get("callback_id") == FORM and _goes_on(card))
        if stays:
            await ack(
                response_action="update",
                view=answer_view(card, Origin(requester.channel, requester.thread)),
            )
        else:
            await ack()
        if not stays or (pressed and card.public and requester.channel):
            self.tasks.spawn(responder.deliver(card, submission.line, requester))

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
        if self._strangers.is_to_be_told(requester):
            await workspace.responder.respond(line, requester)
        return None

    async def _answer_submission(
        self, claim: Claim, line: str, context: AsyncBoltContext
    ) -> Answered | None:
        requester = await self._admitted(claim, line, context)
        return (
            (requester, await (await self._workspace(context)).responder.ask(line, requester))
            if requester
            else None
        )

    async def _unfurl(self, body: Json, context: AsyncBoltContext) -> None:
        """Draw the alerts of a member's links; of a stranger's, and where strangers read, none."""
        workspace = await self._workspace(context)
        requester = await workspace.belongings.requester(parse_author(body))
        known = not (
            requester.stranger
            or requester.belonging.shared
            or requester.belonging.standing is Standing.GUEST
        )
        if known and not await self._seen.again(body.get("event_id", "")):
            await workspace.responder.unfurl(body.get("event") or {}, requester)

    async def _show_home(self, body: Json, context: AsyncBoltContext) -> None:
        """Draw App Home; a stranger's says so, and holds no more what it once showed a member."""
        if await self._seen.again(body.get("event_id", "")):
            return
        workspace = await self._workspace(context)
        requester = await workspace.belongings.requester(replace(parse_author(body), channel=""))
        if not requester.stranger or self._strangers.is_to_be_told(requester):
            await workspace.responder.show_home(requester)

    async def _answer_message(self, body: Json, context: AsyncBoltContext, thread: str) -> None:
        event = body.get("event") or {}
        line = parse_line(without_mention(event.get("text") or ""))
        requester = await self._admitted(parse_author(body, thread), line, context)
        if requester and not await self._seen.again(
            f"{context.team_id}:{event.get('channel')}:{event.get('ts')}"
        ):
            await (await self._workspace(context)).responder.respond(line, requester)


def _goes_on(card: Card) -> bool:
    """Return whether a card asks for more: by a form, or by its main button."""
    buttons = [
        button for block in card.blocks if isinstance(block, Buttons) for button in block.buttons
    ]
    return any(isinstance(one, Form) for one in card.blocks) or any(
        one.style is ButtonStyle.PRIMARY for one in buttons
    )


def _sentence(card: Card) -> str:
    first = next((plain(block.spans) for block in card.blocks if isinstance(block, Text)), "")
    return one_line(f"{card.title} {first}") or plain(text("Not understood.").spans)
