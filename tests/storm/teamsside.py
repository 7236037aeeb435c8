"""Be the Bot Connector service: activities are added and replaced by ids that it alone gives, and never listed."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from aiohttp import web

from tests.storm.faults import Door, Faults

Json = dict[str, Any]


def limited(patience_s: float) -> web.StreamResponse:
    return web.json_response(
        {"error": {"code": "Throttled"}}, status=429, headers={"Retry-After": f"{patience_s:.0f}"}
    )


class TeamsSide:
    """Keep what the conversation holds, and when each call came."""

    def __init__(self, faults: Faults) -> None:
        self.door = Door(faults, limited)
        self.messages: dict[str, Json] = {}
        self.replies: list[Json] = []
        self.came: list[float] = []
        """When each call came; a PUT that aiohttp repeats at once after a reset counts as one."""
        self._last: tuple[float, str, str] = (0.0, "", "")
        self.posted: list[tuple[float, Json]] = []
        self.left = ""
        """The conversation from which the bot was removed."""
        self._numbers = itertools.count(1)

    def routes(self) -> list[web.RouteDef]:
        path = "/v3/conversations/{conversation}/activities"
        opened = web.post("/v3/conversations", self._open)
        return [
            opened,
            web.post(path, self._call),
            web.post(path + "/{message}", self._call),
            web.put(path + "/{message}", self._call),
        ]

    async def _open(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(
            {"id": f"a:{(await request.json())['members'][0]['id']}"}, status=201
        )

    async def _call(self, request: web.Request) -> web.StreamResponse:
        body, message = await request.json(), request.match_info.get("message", "")
        call = (asyncio.get_running_loop().time(), request.method, message)
        if call != self._last or request.method != "PUT":
            self.came.append(call[0])
        self._last = call
        if request.match_info["conversation"].startswith(self.left or "?"):
            return web.json_response({"error": {"code": "BotNotInConversationRoster"}}, status=403)
        done = (
            (lambda: self._replace(message, body))
            if request.method == "PUT"
            else (lambda: self._add(message, body))
        )
        noted = ("post", body) if request.method == "POST" and not message else ("other", body)
        return await self.door.through(
            request, request.match_info["conversation"].partition(";")[0], done, noted
        )

    def _add(self, thread: str, body: Json) -> web.StreamResponse:
        made = f"m{next(self._numbers)}"
        if thread:
            self.replies.append(body)
        else:
            self.messages[made] = body
            self.posted.append((asyncio.get_running_loop().time(), body))
        return web.json_response({"id": made}, status=201)

    def _replace(self, message: str, body: Json) -> web.StreamResponse:
        if message not in self.messages:
            return web.json_response(
                {"error": {"code": "ActivityNotFoundInConversation"}}, status=404
            )
        self.messages[message] = body
        return web.json_response({"id": message})
