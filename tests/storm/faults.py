"""Fail as platforms do: by a script of seeds and simulated seconds, before or after the work was done."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

BEFORE = ("429", "429", "429 long", "500", "page", "text", "hang", "reset")
AFTER = ("done, then hang", "done, then reset", "done, then 500")
HANG_S = 300.0
"""Longer than any client waits."""
Done = Callable[[], web.StreamResponse]


@dataclass
class Faults:
    """Say how each request of the storm ends; `share` of them go through unharmed."""

    seed: int
    start_s: float
    end_s: float
    ways: tuple[str, ...] = BEFORE + AFTER
    share: float = 0.25
    met: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)

    def way(self, now_s: float) -> str:
        if not self.start_s <= now_s < self.end_s or self.dice.random() < self.share:
            return "through"
        found = self.dice.choice(self.ways)
        self.met[found] += 1
        return found


@dataclass
class Door:
    """Let requests through the faults, and watch whether the client keeps to what it was told."""

    faults: Faults
    limited: Callable[[float], web.StreamResponse]
    """Answer a 429 with these seconds of patience."""
    closed_s: dict[str, tuple[float, float]] = field(default_factory=dict)
    """From when to when each key is closed."""
    hasty: list[str] = field(default_factory=list)
    """Calls that came before their Retry-After was over."""
    unanswered: list[Any] = field(default_factory=list)
    """What was done without the client getting to know."""

    async def through(
        self, request: web.Request, key: str, done: Done, what: Any = None
    ) -> web.StreamResponse:
        """Answer a request as the script says; `key` is what a 429 closes ("" = none), `what` is noted when it was done unheard."""
        now_s = asyncio.get_running_loop().time()
        told_s, until_s = self.closed_s.get(key, (0.0, 0.0))
        if told_s < now_s < until_s:
            self.hasty.append(f"{key} at {now_s:.1f} s, closed until {until_s:.1f} s")
        way = self.faults.way(now_s)
        if way.startswith("429") and key:
            patience_s = (
                self.faults.dice.randint(45, 120)
                if "long" in way
                else self.faults.dice.randint(1, 20)
            )
            self.closed_s[key] = (now_s, now_s + patience_s)
            return self.limited(patience_s)
        if way == "through":
            return done()
        if way.startswith("done"):
            done()
            self.unanswered.append(what)
        return await _fail(request, way.removeprefix("done, then "))


async def _fail(request: web.Request, way: str) -> web.StreamResponse:
    match way:
        case "429" | "429 long":
            return web.Response(status=429)
        case "500":
            return web.json_response({"ok": False, "error": "internal_error"}, status=500)
        case "page":
            return web.Response(
                text="<html>Bad gateway</html>", content_type="text/html", status=502
            )
        case "text":
            return web.Response(text="upstream connect error", status=503)
        case "hang":
            await asyncio.sleep(HANG_S)
    if request.transport:
        request.transport.abort()
    return web.Response()
