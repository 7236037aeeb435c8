"""Be Slack's Web API as far as the bot calls it: messages with metadata, threads, history in pages, files."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import defaultdict
from typing import Any

from aiohttp import web

from tests.storm.faults import Door, Faults

Json = dict[str, Any]
SPEAKING = ("chat.postMessage", "chat.update")


def limited(patience_s: float) -> web.StreamResponse:
    return web.json_response(
        {"ok": False, "error": "ratelimited"},
        status=429,
        headers={"Retry-After": f"{patience_s:.0f}"},
    )


class SlackSide:
    """Keep what every channel holds, and when each call came."""

    def __init__(self, faults: Faults) -> None:
        self.door = Door(faults, limited)
        self.messages: defaultdict[str, dict[str, Json]] = defaultdict(dict)
        self.came: list[tuple[float, str, str]] = []
        """When which method was called for which channel, refused or not."""
        self.posted: list[tuple[float, str, Json]] = []
        """New messages outside threads, as they arrived."""
        self.broken: dict[str, str] = {}
        """What a channel (or "" for the token) is refused with."""
        self._numbers = itertools.count(1)
        self.url = ""

    def routes(self) -> list[web.RouteDef]:
        return [
            web.route("*", "/api/{method}", self._call),
            web.post("/upload/{file}", self._upload),
        ]

    async def _call(self, request: web.Request) -> web.StreamResponse:
        method, body = request.match_info["method"], await _body(request)
        channel = str(body.get("channel") or body.get("channel_id") or "")
        self.came.append((asyncio.get_running_loop().time(), method, channel))
        if error := self.broken.get("") or self.broken.get(channel):
            return web.json_response({"ok": False, "error": error})
        key = f"{method} {channel}".strip()
        return await self.door.through(
            request, key, lambda: web.json_response(self._do(method, channel, body)), body
        )

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        return await self.door.through(request, "", lambda: web.Response(text="OK"))

    def _do(self, method: str, channel: str, body: Json) -> Json:
        match method:
            case "chat.postMessage":
                return {"ok": True, "channel": channel, "ts": self._post(channel, body)}
            case "chat.update":
                return self._update(channel, body)
            case "conversations.history":
                return self._history(channel, body)
            case "conversations.replies":
                return self._replies(channel, body)
            case "files.getUploadURLExternal":
                number = next(self._numbers)
                return {
                    "ok": True,
                    "upload_url": f"{self.url}/upload/F{number}",
                    "file_id": f"F{number}",
                }
            case "files.completeUploadExternal":
                return {"ok": True, "files": json.loads(body["files"])}
            case "conversations.open":
                return {"ok": True, "channel": {"id": f"D{body['users']}"}}
            case "users.info":
                return {"ok": True, "user": {"id": body["user"], "name": "dana", "team_id": "T1"}}
            case "conversations.info":
                return {
                    "ok": True,
                    "channel": {"id": channel, "is_channel": True, "is_member": True},
                }
        return {"ok": True, "user_id": "U0BOT", "team_id": "T1"}

    def _post(self, channel: str, body: Json) -> str:
        now_s = asyncio.get_running_loop().time()
        ts = f"{1_763_640_000 + int(now_s)}.{next(self._numbers):06}"
        self.messages[channel][ts] = {**body, "ts": ts}
        if "thread_ts" not in body:
            self.posted.append((now_s, channel, body))
        return ts

    def _update(self, channel: str, body: Json) -> Json:
        found = self.messages[channel].get(str(body["ts"]))
        if found is None:
            return {"ok": False, "error": "message_not_found"}
        found.update(body)
        return {"ok": True, "ts": body["ts"], "channel": channel}

    def _history(self, channel: str, body: Json) -> Json:
        """Give the newest first, no replies, metadata only where it is asked for."""
        every = sorted(
            (m for m in self.messages[channel].values() if "thread_ts" not in m),
            key=lambda m: str(m["ts"]),
        )[::-1]
        begin, limit = int(body.get("cursor") or 0), int(body["limit"])
        page = every[begin : begin + limit]
        if str(body.get("include_all_metadata")).lower() not in ("1", "true"):
            page = [{name: value for name, value in m.items() if name != "metadata"} for m in page]
        following = str(begin + limit) if begin + limit < len(every) else ""
        return {"ok": True, "messages": page, "response_metadata": {"next_cursor": following}}

    def _replies(self, channel: str, body: Json) -> Json:
        """Give a message and its thread, the oldest first."""
        ts = str(body["ts"])
        if ts not in self.messages[channel]:
            return {"ok": False, "error": "thread_not_found"}
        every = [m for m in self.messages[channel].values() if ts in (m["ts"], m.get("thread_ts"))]
        return {
            "ok": True,
            "messages": sorted(every, key=lambda m: str(m["ts"])),
            "response_metadata": {"next_cursor": ""},
        }

    def heads(self, channel: str) -> list[Json]:
        """Return the messages outside threads."""
        return [m for m in self.messages[channel].values() if "thread_ts" not in m]

    def threads(self, channel: str) -> list[str]:
        """Return the lines of all threads."""
        return [str(m["text"]) for m in self.messages[channel].values() if "thread_ts" in m]


async def _body(request: web.Request) -> Json:
    if request.content_type == "application/json":
        return dict(await request.json())
    return dict(request.query) | dict(await request.post())
