"""Put a card into an activity."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from botbuilder.schema import Activity, ActivityTypes, Attachment

from adapters.teams.inert import bare, short
from adapters.teams.render import render
from bot.cards.card import Block, Button, Buttons, Card, Code, Text, Tone, quiet, text
from bot.ports import CommandHint, Draw

CARD = "application/vnd.microsoft.card.adaptive"
MESSAGE = "application/vnd.microsoft.activity.message"


async def message(card: Card, draw: Draw, *, budget: int, stands: bool = False) -> Activity:
    """Return a message activity; drawing runs in a thread, for a picture takes its time."""
    content = await asyncio.to_thread(render, card, draw, budget=budget, stands=stands)
    return Activity(
        type=ActivityTypes.message,
        summary=short(bare(card.title), 200),
        attachments=[Attachment(content_type=CARD, content=content)],
    )


def typing() -> Activity:
    """Return the sign that an answer is on its way."""
    return Activity(type=ActivityTypes.typing)


def invoke_answer(kind: str, value: Any) -> dict[str, Any]:
    """Return the body that answers an `Action.Execute`."""
    return {"statusCode": 200, "type": kind, "value": value}


def is_short(card: Card) -> bool:
    """Tell whether a card says everything in its words, so that one line can carry it."""
    return all(isinstance(block, Text) for block in card.blocks) and len(card.blocks) <= 1


def unshared(card: Card) -> Card:
    """Return the card without buttons that share it, for a place where everyone reads it."""
    return replace(card, blocks=tuple(block for block in map(_unshared, card.blocks) if block != Buttons(())))


def _unshared(block: Block) -> Block:
    if not isinstance(block, Buttons):
        return block
    return Buttons(tuple(button for button in block.buttons if not button.line.startswith("share ")))


def greeting(hints: tuple[CommandHint, ...], conversation: str) -> Card:
    """Say hello: what to type, and how alerts come here."""
    buttons = tuple(Button(hint.example or hint.name, hint.example or hint.name) for hint in hints[:4])
    return Card(
        "Hello, trnbot watches your Trainium clusters",
        Tone.INFO,
        (
            text("It says within minutes what is wasted, why, how many dollars, and what to do. Ask it anything it knows:"),
            *((Buttons(buttons),) if buttons else ()),
            quiet("To have alerts sent here, an admin sets TRNBOT_ROUTE to ", Code(f"teams:{conversation}")),
        ),
    )
