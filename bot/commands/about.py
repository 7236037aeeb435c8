"""Answer about the bot itself: help, about, home."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta

from bot.alerts.saved import savings
from bot.cards.about import about_card, command_card, help_card, home_card
from bot.cards.card import Card
from bot.cards.savings import digest
from bot.cards.words import period
from bot.commands.registry import COMMANDS, arg, command, find_command
from bot.commands.values import type_name
from bot.errors import TrnbotError, Unavailable
from bot.model.request import Request
from bot.model.window import BOUNDS, GRAMMAR, Window
from bot.ports import Ports

TOPICS: Mapping[str, frozenset[str]] = {
    "What is wrong, and who looks after it": frozenset({"alerts", "feedback"}),
    "What runs, and what it costs": frozenset({"cost", "credits", "digest", "fleet", "own", "runs", "savings", "storage"}),
    "What to do next": frozenset(
        {"breakeven", "capacity", "carbon", "checklist", "cuda", "decide", "migrate", "roadmap", "sizing", "spot", "tco"}
    ),
}
"""The topics of help, by the files of the commands; what is in none is about the bot itself."""
_REST = "Settings, and the bot itself"


@command("help", "What you can type.", examples=("help", "help cost"))
async def help_(ports: Ports, request: Request, name: str = arg("", "one command", rest=True)) -> Card:
    """List the commands, or explain one with its arguments and examples."""
    if name:
        found, _ = find_command(name.split())
        rows = tuple((p.word, type_name(p), p.arg.default, p.arg.meaning) for p in found.parameters)
        notes = [f"A window is {GRAMMAR}: {BOUNDS}."] if any(p.takes(Window) for p in found.parameters) else []
        return command_card(found.name, found.summary, rows, found.examples, found.who.value, notes)
    seen = {made.name: made for made in COMMANDS.values() if not made.hidden}
    topics: dict[str, list[tuple[str, str, str]]] = {topic: [] for topic in (*TOPICS, _REST)}
    for _, made in sorted(seen.items()):
        family = made.handler.__module__.rpartition(".")[2]
        topic = next((topic for topic, families in TOPICS.items() if family in families), _REST)
        topics[topic].append((made.name, made.summary, made.examples[0] if made.examples else made.name))
    return help_card({topic: found for topic, found in topics.items() if found})


@command("about", "Which version this is, what it reads and how fresh that is.", examples=("about",))
async def about(ports: Ports, request: Request) -> Card:
    """Tell version, source, freshness and problems."""
    metrics, unread = await asyncio.to_thread(_metrics, ports)
    problems = [*unread, *await asyncio.to_thread(ports.billing.problems)]
    memory = await asyncio.to_thread(ports.store.load, request.at) if metrics else None
    here = {"this channel": request.channel} if request.channel else {}
    facts = {**ports.settings, **here, "metrics": metrics or "none"}
    return about_card(facts, memory.ticked_at if memory else None, problems)


def _metrics(ports: Ports) -> tuple[str, Sequence[str]]:
    """Return which time the metrics tell, "" where there is none, and what could not be read of them."""
    try:
        extent = ports.source.extent()
        return period(extent) if extent else "live", ports.source.problems()
    except Unavailable as error:
        return "", (str(error),)


@command("home", "Open alerts and the month to date, at a glance.", examples=("home",), hidden=True)
async def home(ports: Ports, request: Request) -> Card:
    """Summarise for a person's home page."""
    memory = await asyncio.to_thread(ports.store.load, request.at)
    month = Window.parse("mtd", request.at)
    try:
        tally = await asyncio.to_thread(ports.billing.tally, month, ("service",))
    except TrnbotError:
        tally = None
    week = request.at - timedelta(days=7)
    saved = savings([a for a in memory.alerts if a.closed and a.closed >= week and a.acknowledged], frozenset(), request.at)
    return home_card([a for a in memory.alerts if a.firing], tally, request.at, digest(saved))
