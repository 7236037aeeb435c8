"""Send, replace and find messages, and the lines of their threads."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from adapters.chat.config import Json
from adapters.chat.slack.client import (
    BAD_BLOCKS,
    BRIEF_S,
    FAILURES,
    GONE,
    PASSING,
    Pace,
    closed_s,
    code_of,
    explained,
    is_limited,
    log,
)
from adapters.chat.slack.pictures import ChartUploader
from adapters.chat.slack.render import Around, draws, key_block_id, message
from bot.cards.card import Attachment, Card
from bot.errors import Limited, Unavailable
from bot.ports.work import permitted

EVENT_TYPE = "trnbot_notice"
_PAGE, _PAGES = 200, 3
_THREAD_PAGE = 1000
_TRIES = 3
"""How often an answer is tried that a limit holds up briefly."""
_STATUS = "is working on it …"
_PERSON = re.compile(r"[UW][A-Z0-9]+")


class Sender:
    """Post, edit and find messages by the Web API.

    Failures come out as `Unavailable` with the remedy.
    """

    def __init__(
        self,
        client: AsyncWebClient,
        charts: ChartUploader,
        pace: Pace,
        *,
        upload_delay_s: float = 1.0,
    ) -> None:
        self._client, self.charts, self._pace = client, charts, pace
        self._upload_delay_s = upload_delay_s
        """How long Slack may take to make an uploaded picture ready for a message."""
        self._without_status = False
        self._native = True
        """Whether Slack takes its own tables and charts, as far as is known."""
        self._direct: dict[str, str] = {}

    async def post(
        self, channel: str, card: Card, key: str = "", thread: str = "", line: str = ""
    ) -> str:
        """Send a new message and return its timestamp, which is its id.

        Raise `Limited` where Slack asks to wait.
        """
        channel = await self._conversation(channel)
        self._pace.check(channel, "chat.postMessage")
        kept = "" if thread else key
        around = await self.around(card, line, key, kept)
        async with (
            explained(channel),
            self._pace.turn(channel, "chat.postMessage"),
            self._showing(around, kept),
        ):
            return await self._send("chat.postMessage", channel, card, around, in_thread(thread))

    async def answer(
        self, channel: str, card: Card, thread: str = "", line: str = "", instead: str = ""
    ) -> str:
        """Answer people in a channel, or `instead` of a message there; return its id.

        A short limit is waited out.
        """
        if instead:
            return await self._briefly(lambda: self.edit(channel, instead, card, line=line))
        return await self._briefly(lambda: self.post(channel, card, thread=thread, line=line))

    async def give(self, file: Attachment, channel: str, thread: str, user: str) -> str:
        """Put a file where an answer is read, else into the person's own conversation.

        Return in words where it is.

        Nobody alone sees a file in a channel: without one, it goes to the person.
        """
        if channel and await self.charts.give(file, channel, thread):
            return ""
        with suppress(Unavailable):  # the answer goes without its file rather than not at all
            direct = await self._conversation(user)
            if direct != channel and await self.charts.give(file, direct, ""):
                return "The file is in your messages with this app."
        return "Slack did not take the file; try again."

    async def show_status(self, channel: str, thread: str) -> bool:
        """Show in a thread of a direct message that an answer is worked on; return whether it is.

        Not of every app.
        """
        if self._without_status or not (channel.startswith("D") and thread):
            return False
        try:
            await self._client.api_call(
                "assistant.threads.setStatus",
                json={"channel_id": channel, "thread_ts": thread, "status": _STATUS},
            )
        except SlackApiError as error:
            self._without_status = not is_limited(error)
            return False
        except FAILURES:
            return False
        return True

    async def _briefly(self, send: Callable[[], Awaitable[str]]) -> str:
        for _ in range(_TRIES - 1):
            try:
                return await send()
            except Limited as limit:
                if limit.seconds > BRIEF_S:
                    raise
                await self._pace.wait(limit.seconds)
        return await send()

    async def edit(self, channel: str, ts: str, card: Card, key: str = "", line: str = "") -> str:
        """Replace a message; post it fresh when it is gone.

        A state that a newer one overtook is not sent.
        """
        channel = await self._conversation(channel)
        self._pace.check(channel, "chat.update")
        number = self._pace.claim(channel, ts)
        around = await self.around(card, line, key, key)
        try:
            async with explained(channel), self._pace.turn(channel, "chat.update"):
                if not self._pace.is_newest(channel, ts, number):
                    return ts
                async with self._showing(around, key):
                    try:
                        return await self._send("chat.update", channel, card, around, {"ts": ts})
                    except SlackApiError as error:
                        if code_of(error) not in GONE:
                            raise
                        log.info("message gone, posted fresh: %s", code_of(error))

                    # It may have been posted before, by a call whose answer was lost.
                    fresh = (await self._posted(channel)).get(key, "") if key else ""
                    if fresh not in ("", ts):
                        return await self._send("chat.update", channel, card, around, {"ts": fresh})
                    await self.wait_for_upload()
                    return await self._send("chat.postMessage", channel, card, around, {})
        finally:
            self._pace.release(channel, ts, number)

    async def post_ephemeral(
        self, channel: str, user: str, card: Card, thread: str = "", line: str = ""
    ) -> None:
        """Show a message to one person in a channel, else send it to them directly."""
        where = {"user": user, **in_thread(thread)}

        async def send() -> str:
            around = await self.around(card, line)
            async with explained(channel), self._showing(around, ""):
                try:
                    return await self._send("chat.postEphemeral", channel, card, around, where)
                except SlackApiError as error:
                    if is_limited(error):
                        raise
                    log.info("answered directly: %s", code_of(error))
                    return await self._send("chat.postMessage", user, card, around, {})

        await self._briefly(send)

    async def posted(self, channel: str, thread: str = "") -> Mapping[str, str]:
        """Return the newest of the last few hundred messages, or lines in a thread, by their keys.

        Nothing where Slack does not let us look.
        """
        channel = await self._conversation(channel)
        method = "conversations.replies" if thread else "conversations.history"
        async with explained(channel), self._pace.turn(channel, method):
            return await self._posted(channel, thread)

    async def _posted(self, channel: str, thread: str = "") -> Mapping[str, str]:
        """Look through the pages of a channel, or of a message's thread."""
        messages = PostedMessages()
        method = "conversations.replies" if thread else "conversations.history"
        query = {"channel": channel, "limit": _PAGE, "include_all_metadata": True}
        query |= {"ts": thread, "limit": _THREAD_PAGE} if thread else {}
        for _ in range(_PAGES):
            try:
                page: Any = await self._client.api_call(method, http_verb="GET", params=query)
            except SlackApiError as error:
                self._pace.hold(channel, method, closed_s(error))
                # Not having looked is no proof that it is not there.
                if is_limited(error) or code_of(error) in PASSING:
                    raise
                log.info("%s of %s not read: %s", method, channel, code_of(error))
                return messages

            for posted in page.get("messages") or ():
                messages.add(posted)
            query["cursor"] = (page.get("response_metadata") or {}).get("next_cursor") or ""
            if not query["cursor"]:
                break
        return messages

    async def _conversation(self, channel: str) -> str:
        """Return the conversation with a person for their id: edits and history need one."""
        if not _PERSON.fullmatch(channel):
            return channel
        if channel not in self._direct:
            async with explained(channel):
                opened: Any = await self._client.conversations_open(users=channel)
            self._direct[channel] = str(opened["channel"]["id"])
        return self._direct[channel]

    async def wait_for_upload(self) -> None:
        """Give Slack the time to make an uploaded picture ready, and keep to its rate limit."""
        await asyncio.sleep(self._upload_delay_s)

    async def around(self, card: Card, line: str = "", key: str = "", kept: str = "") -> Around:
        """Return the facts that a message needs beside its card.

        Pictures are uploaded, and remembered under `kept`.
        """
        native = self._native and draws(card)
        return Around(key, line, await self.charts.upload(card, kept, native=native), native)

    @asynccontextmanager
    async def _showing(self, around: Around, kept: str) -> AsyncIterator[None]:
        """Delete the pictures that no message shows.

        Once Slack took the newest, or refused one whose pictures are not kept.
        """
        try:
            yield
        except SlackApiError:
            if not kept:
                await self.charts.delete(around.images.values())
            raise
        await self.charts.settle(kept)

    async def _send(
        self, method: str, channel: str, card: Card, around: Around, where: dict[str, str]
    ) -> str:
        """Call the method; when Slack refuses the blocks for their pictures, once more.

        Then in plainer blocks, then without.
        """
        for number in range(2 if around.images else 1):
            if number:
                await self.wait_for_upload()
            try:
                return await self._call(method, channel, card, around, where)
            except SlackApiError as error:
                if code_of(error) not in BAD_BLOCKS or not (around.images or around.native):
                    raise

        if around.native:
            # Without Slack's own tables and charts, each chart with its picture.
            plainer = replace(
                around, native=False, images=await self.charts.upload(card, around.key)
            )
            sent = await self._send(method, channel, card, plainer, where)
            self._native = False
            log.info(
                "Slack refused its own tables and charts;"
                " they are drawn as text and pictures from now on"
            )
            return sent

        await self.wait_for_upload()
        ts = await self._call(method, channel, card, Around(around.key, around.line), where)
        await self.charts.withdraw(around.key, around.images.values())
        if method == "chat.postMessage":
            await self.charts.share(card, channel, where.get("thread_ts") or ts)
        return ts

    async def _call(
        self, method: str, channel: str, card: Card, around: Around, where: dict[str, str]
    ) -> str:
        drawn = message(card, around)
        body: Json = {"channel": channel, "text": drawn.text, "blocks": drawn.blocks, **where}
        if around.key:
            body["metadata"] = {"event_type": EVENT_TYPE, "event_payload": {"key": around.key}}
        if method != "chat.update":
            body |= {"unfurl_links": False, "unfurl_media": False}
        await permitted()
        try:
            answer = await self._client.api_call(method, json=body)
        except SlackApiError as error:
            self._pace.hold(channel, method, closed_s(error))
            raise
        return str(answer.get("ts") or answer.get("message_ts") or "")


def in_thread(ts: str) -> dict[str, str]:
    """Return the argument that puts a message into a thread, none where there is no thread."""
    return {"thread_ts": ts} if ts else {}


class PostedMessages(Mapping[str, str]):
    """Hold timestamps of messages by their keys: by metadata, else by the block id."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def add(self, message: Json) -> None:
        """Take a message in, unless a newer one has its key."""
        metadata = message.get("metadata") or {}
        names = [str(block.get("block_id") or "") for block in (message.get("blocks") or ())]
        if metadata.get("event_type") == EVENT_TYPE:
            names.append(str((metadata.get("event_payload") or {}).get("key") or ""))
        for name in filter(None, names):
            self._found.setdefault(name, str(message["ts"]))

    def __getitem__(self, key: str) -> str:
        """Return the timestamp of the newest message with a key."""
        return self._found.get(key) or self._found[key_block_id(key)]

    def __iter__(self) -> Iterator[str]:
        """Yield keys and block ids."""
        return iter(self._found)

    def __len__(self) -> int:
        """Return how many keys and block ids there are."""
        return len(self._found)
