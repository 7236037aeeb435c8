"""Serve the console with sample cards: `python -m tests.e2e.console_server [PORT]`."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from aiohttp import web

from adapters.http import application
from adapters.web.surface import WebConfig, WebSurface
from adapters.web.views import Console
from bot.answers.about.document import csv_text
from bot.answers.all import ANSWERS
from bot.cards.card import Card, Code, Facts, Heading, Strong, Table, Tone, text
from bot.errors import WrongInput
from bot.grammar.line import effect_of, read_line, window_of
from bot.model.request import Request
from bot.ports import CommandHint
from tests.e2e import samples

assert ANSWERS

HINTS = (
    CommandHint("cost", "What Trainium costs.", "cost 7d by team", changes=False),
    CommandHint("alerts", "What is wasted now.", "alerts", changes=False),
    CommandHint("fleet", "What each cluster does now.", "fleet", changes=False),
    CommandHint("idle", "Nodes that do nothing.", "idle", changes=False),
    CommandHint("why", "Why an alert spoke, or did not.", "why a1", changes=False),
    CommandHint("snooze", "Keep an alert quiet for a while.", "snooze a1 2h"),
    CommandHint("help", "Every command.", "help", changes=False),
)


class MemoryShelf:
    """Keep documents in a dictionary."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], tuple[int, Mapping[str, Any]]] = {}
        self._tick = itertools.count()

    def put(self, shelf: str, key: str, document: Mapping[str, Any]) -> None:
        self.rows[shelf, key] = (next(self._tick), document)

    def get(self, shelf: str, key: str) -> Mapping[str, Any] | None:
        row = self.rows.get((shelf, key))
        return row[1] if row else None

    def newest(self, shelf: str, most: int) -> Sequence[tuple[str, Mapping[str, Any]]]:
        rows = [(tick, key, doc) for (name, key), (tick, doc) in self.rows.items() if name == shelf]
        return [(key, doc) for _, key, doc in sorted(rows, key=lambda row: -row[0])[:most]]

    def drop(self, shelf: str, key: str) -> None:
        self.rows.pop((shelf, key), None)


async def answer(request: Request) -> Card:
    """Answer the lines of the samples."""
    read = read_line(request.line)
    word = read.command.name
    if word in {"cost", "alert", "snooze", "ack"}:
        if word == "snooze" and "for=" in read.text:
            return Card("Snoozed for 2 hours", Tone.GOOD, (text("You typed ", Code(read.text)),))
        card = {
            "cost": samples.cost_card,
            "alert": samples.alert_card,
            "snooze": samples.form_card,
            "ack": samples.good_card,
        }[word]()
        return Card(card.title, card.tone, card.blocks, public=True) if read.shared else card
    if word == "alerts":
        rows = (
            ("starved", "llama-70b", "25 min", "$1,083"),
            ("idle", "eval-sweep", "3 h 40 min", "$142"),
        )
        columns = (Heading("Cause"), Heading("Where"), Heading("For"), Heading("USD an hour"))
        return Card("2 alerts · $1,225 an hour wasted", Tone.CRITICAL, (Table(columns, rows),))
    if word == "fleet":
        return Card(
            "3 clusters, 84 nodes",
            Tone.INFO,
            (
                Facts(
                    (
                        ("llama-70b", "64 starved"),
                        ("eval-sweep", "4 idle"),
                        ("whisper-l", "16 busy"),
                    )
                ),
            ),
        )
    if word == "help":
        return Card(
            "What can be asked",
            Tone.INFO,
            tuple(text(Code(h.example), " ", h.summary) for h in HINTS),
        )
    if word == "why":
        await asyncio.sleep(0.3)
        return Card(
            "Why a1 speaks",
            Tone.INFO,
            (text("It was ", Strong("20 %"), " for 25 min; the rule asks for 15 min."),),
        )
    raise WrongInput(f"'{word}' is not a command; type 'help' for all of them.")


def health() -> dict[str, Any]:
    """Say a healthy replay."""
    return {
        "ok": True,
        "live": False,
        "now": samples.NOW,
        "ticked_at": samples.NOW,
        "speed": 60.0,
        "open_alerts": 2,
        "usd_per_hour": Decimal("1225"),
        "source": "simulator:7",
    }


def clock() -> datetime:
    """Stand still at the samples' time."""
    return samples.NOW


def surface(**changed: Any) -> WebSurface:
    """Build the console over the samples."""
    shelf = changed.pop("shelf", None) or MemoryShelf()
    bot = {
        field.name: changed.pop(field.name) for field in fields(Console) if field.name in changed
    }
    console = replace(
        Console(
            answer,
            clock,
            health,
            lambda: "trnbot_ticks_total 3\n",
            effect_of,
            window_of,
            csv_text,
            HINTS,
        ),
        **bot,
    )
    return WebSurface(WebConfig(**changed), console, shelf)


async def filled(console: WebSurface) -> str:
    """Post the sample messages and return the id of the last."""
    await console.post("alerts", samples.over_card(), "k0")
    idle = await console.post("alerts", samples.idle_card(), "k1")
    await console.reply("alerts", idle, samples.good_card(), "")
    return await console.post("alerts", samples.alert_card(), "k2")


async def main(port: int) -> None:
    """Serve until stopped."""
    console = surface()
    await filled(console)
    runner = web.AppRunner(application([console]))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 8765))
