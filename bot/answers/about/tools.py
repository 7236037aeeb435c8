"""Offer every command to programs as a tool: typed arguments in, the line that they mean out.

The registry is the list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from bot.answers.about.document import ANSWER, PREVIEW
from bot.cards.card import Button, Buttons, ButtonStyle, Card, Code, Link, Tone, text
from bot.cards.lines import filter_line, quote
from bot.errors import WrongInput, nearest, shortened
from bot.grammar.line import FILTERS, SIZES, WORDS, bare_type, filter_of, read_line
from bot.grammar.registry import Command, Parameter, commands_by_name
from bot.model.request import Effect, Schema, Tool
from bot.model.window import GRAMMAR, Window

_FILTER = r"^[^\s=!\"']+!?="
_KINDS: Mapping[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    Decimal: {"type": "number"},
    bool: {"type": "boolean"},
    Window: {"type": "string", "examples": GRAMMAR.split(", ")},
    timedelta: {"type": "string", "examples": ["30m", "2h", "7d"]},
    datetime: {"type": "string", "examples": ["2026-11-20T09:00", "tomorrow 09:00"]},
    WORDS: {"type": "array", "items": {"type": "string"}, "maxItems": SIZES.words},
    FILTERS: {
        "type": "array",
        "items": {
            "type": "string",
            "pattern": _FILTER,
            "examples": ["team=vision", "cluster!=llama,whisper"],
        },
        "maxItems": SIZES.filters,
    },
}
_SWITCH = {True: "on", False: "off"}


def tools() -> tuple[Tool, ...]:
    """Return a tool for each command that people type, by name."""
    offered = []
    for command in commands_by_name():
        effect = Effect.READS
        if command.changes:
            effect = Effect.CHANGES
        elif command.heavy:
            effect = Effect.WORKS
        offered.append(
            Tool(
                tool_name(command.name),
                command.name,
                command.summary,
                argument_schema(command),
                PREVIEW if command.changes else ANSWER,
                effect,
                command.who,
                command.examples[0] if command.examples else command.name,
            )
        )
    return tuple(offered)


def tool_name(command: str) -> str:
    """Return the name of a command in one word: `config set` is `config_set`."""
    return command.replace(" ", "_").replace("-", "_")


def tool_line(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the line that a call of a tool means.

    Raise `WrongInput` for a tool or an argument that there is not.
    """
    named = {tool_name(command.name): command for command in commands_by_name()}
    if tool not in named:
        raise WrongInput(f"'{shortened(tool)}' is not a tool{nearest(tool, named, most=0)}.")
    return line_with(named[tool].name, arguments)


def line_with(line: str, arguments: Mapping[str, Any]) -> str:
    """Return a line with arguments behind it, quoted so that none of them can be more than an argument of its command."""
    command = read_line(line).command
    known = {parameter.word: parameter for parameter in command.parameters}
    if unknown := next((name for name in arguments if name not in known), None):
        hint = nearest(unknown, known, otherwise="it takes none")
        raise WrongInput(f"'{command.name}' has no argument '{shortened(unknown)}'{hint}.", unknown)
    written = (
        part for name, value in arguments.items() for part in _written(command, known[name], value)
    )
    whole = " ".join([line, *written])
    if read_line(whole).command is not command:
        raise WrongInput(
            f"The arguments make '{shortened(whole)}' another command than '{command.name}'."
        )
    return whole


def primary_line(card: Card) -> str:
    """Return the line of the button that a card offers first of all; "" where it offers none."""
    buttons = (
        button for block in card.blocks if isinstance(block, Buttons) for button in block.buttons
    )
    return next((button.line for button in buttons if button.style is ButtonStyle.PRIMARY), "")


def unapplied_card(command: Command, line: str) -> Card:
    """Return the card of a change that was only understood, with the button that makes it."""
    button = Buttons((Button("Do it", line, ButtonStyle.PRIMARY),))
    return Card(
        "Nothing was changed",
        Tone.INFO,
        (text("Understood: ", Code(line), f". {command.summary}"), button),
    )


def with_apply(card: Card, line: str, address: str) -> Card:
    """Say below a preview how a person applies it."""
    there = (", or opens ", Link("the console", address), " and presses Run") if address else ()
    said = text("A program changes nothing. A person types ", Code(line), " in chat", *there, ".")
    return replace(card, blocks=(*card.blocks, said))


def argument_schema(command: Command) -> Schema:
    """Return the JSON Schema of a command's arguments."""
    properties = {}
    for parameter in command.parameters:
        kind, arg = bare_type(parameter.type), parameter.arg
        schema = {**_KINDS[kind], "description": arg.meaning}
        choices = [choice for choice in arg.choices if choice]
        if choices and kind == WORDS:
            schema["items"] = {"type": "string", "enum": choices}
        elif choices:
            schema["enum"] = choices

        # An empty default says that the argument may be left out, and no more.
        if arg.default:
            schema["default"] = _typed_default(kind, arg.default)
        properties[parameter.word] = schema

    needed = [parameter.word for parameter in command.parameters if parameter.arg.default is None]
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **({"required": needed} if needed else {}),
    }


def _typed_default(kind: Any, text: str) -> Any:
    """Return a default as a program would write it."""
    if kind is bool:
        return text == _SWITCH[True]
    if kind in (int, float, Decimal):
        number = Decimal(text)
        return int(number) if number == number.to_integral_value() else float(number)
    return text.split(",") if kind == WORDS else text


def _written(command: Command, parameter: Parameter, value: Any) -> Iterable[str]:
    """Return an argument as the grammar reads it back, in as many words as it has values to itself."""
    if value is None:
        return ()
    if parameter.type == FILTERS:
        return [_filter(command, text) for text in _texts(parameter, value)]
    text = ",".join(_texts(parameter, value))
    if parameter.arg.rest and command.parameters[0] is parameter:
        return [text]  # as it was typed: a line, or a file of many lines
    return [f"{parameter.word}={quote(text)}"] if text else ()


def _filter(command: Command, text: str) -> str:
    pair = filter_of(text)
    words = {parameter.word for parameter in command.parameters}
    if "=" not in text or pair.dimension in words or set(pair.dimension) & set(" \t\n\r\"'="):
        raise WrongInput(
            f"'{shortened(text)}' is not a filter; write dimension=value, for example team=search."
        )
    return filter_line(pair)


def _texts(parameter: Parameter, value: Any) -> Sequence[str]:
    word, values = parameter.word, value if isinstance(value, list | tuple) else [value]
    if isinstance(value, list) and bare_type(parameter.type) not in (WORDS, FILTERS):
        raise WrongInput(f"{word} takes one value; got {len(value)}.", word)
    texts = []
    for item in values:
        if not isinstance(item, str | int | float | bool):
            got = shortened(str(item))
            raise WrongInput(f"{word} takes text or a number; got {got}.", word)
        texts.append(_SWITCH[item] if isinstance(item, bool) else str(item))
    return texts
