"""Write an answer as the document that `--json` prints, and say which documents there are as JSON Schema."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

from bot.answers.line import Call
from bot.cards.card import Card
from bot.model.codec import encode
from bot.model.spend import Filter
from bot.model.tool import Schema
from bot.model.window import Window

_CARD: Schema = {
    "type": "object",
    "description": "The answer as people see it: a title, a tone, and blocks of text, facts, tables, charts, buttons and forms.",
    "properties": {
        "title": {"type": "string"},
        "tone": {"type": "string"},
        "blocks": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["title", "tone", "blocks"],
}
ANSWER: Schema = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": "The command that answered."},
        "arguments": {
            "type": "object",
            "description": "Its arguments as they were understood, defaults filled in.",
        },
        "asof": {
            "type": "string",
            "format": "date-time",
            "description": "The time that 'now' meant.",
        },
        "data": {
            "type": "object",
            "description": "The typed numbers of the answer; money is a decimal string in US dollars.",
        },
        "card": _CARD,
    },
    "required": ["command", "arguments", "asof", "data", "card"],
}
"""What `--json` prints of a command that reads."""
_APPLY: Schema = {
    "type": "object",
    "description": "How a person applies it: by typing the line in chat, or by opening the address and pressing Run there.",
    "properties": {"line": {"type": "string"}, "address": {"type": "string", "format": "uri"}},
    "required": ["line"],
}
PREVIEW: Schema = {
    **ANSWER,
    "properties": {
        **ANSWER["properties"],
        "changed": {"const": False, "description": "A program changes nothing."},
        "apply": _APPLY,
    },
    "required": [*ANSWER["required"], "changed"],
}
"""What a program is told of a command that would change something.

`apply` is missing where there is nothing to apply.
"""


def envelope(call: Call, card: Card, at: datetime) -> dict[str, Any]:
    """Return the document of an answer.

    A backtest's keys stand at the top as well, where scripts look for them.
    """
    data = dict(card.data)
    drawn = encode(card)
    drawn.pop("data", None)
    body = {
        "command": call.command.name,
        "arguments": call.arguments,
        "asof": at,
        "data": data,
        "card": drawn,
    }
    return {**data, **body} if call.command.name == "backtest" else body


def as_json(document: Any) -> str:
    """Write a document as JSON; a number that JSON has no word for is left as Python writes it."""
    return json.dumps(document, default=plain, ensure_ascii=False)


def pure(document: Any) -> Any:
    """Return a document in the words of JSON alone: a number that is none (nan, inf) is null."""
    return json.loads(as_json(document), parse_constant=lambda _: None)


def plain(value: Any) -> Any:
    """Return a value that JSON has no word for: money as a string, a time as ISO 8601 UTC."""
    match value:
        case Decimal():
            return f"{value:f}"
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case Window():
            return {"start": value.start, "end": value.end}
        case Filter() | date() | Path():
            return str(value)
        case Enum():
            return value.value
        case timedelta():
            return value.total_seconds()
    raise TypeError(f"no JSON for {type(value).__name__}")
