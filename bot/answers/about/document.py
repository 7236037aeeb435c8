"""Write answers for programs: the document of `--json`, its table as CSV, and commands as tools."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from itertools import chain
from math import isnan
from pathlib import Path
from typing import Any

from bot.cards.card import (
    Attachment,
    Button,
    Buttons,
    ButtonStyle,
    Card,
    Code,
    Link,
    Table,
    Tone,
    text,
)
from bot.cards.lines import file_name, filter_line, quote, visible
from bot.errors import WrongInput, find_named, nearest, refuse, shortened
from bot.grammar.line import (
    FILTERS,
    SIZES,
    WORDS,
    Call,
    bare_type,
    effect_of,
    filter_of,
    read_line,
    typed,
)
from bot.grammar.registry import Command, Needs, Parameter, Topic, arg, command, commands_by_name
from bot.model.codec import encode
from bot.model.request import Effect, Request, Role, Schema, Tool
from bot.model.spend import Filter
from bot.model.window import Window
from bot.ports import Ports

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
            "description": (
                "The typed numbers of the answer; money is a decimal string in US dollars."
            ),
        },
        "card": {
            "type": "object",
            "description": (
                "The answer as people see it: a title, a tone, and blocks of text, facts, tables,"
                " charts, buttons and forms."
            ),
            "properties": {
                "title": {"type": "string"},
                "tone": {"type": "string"},
                "blocks": {"type": "array", "items": {"type": "object"}},
            },
            "required": ["title", "tone", "blocks"],
        },
    },
    "required": ["command", "arguments", "asof", "data", "card"],
}
"""What `--json` prints of a command that reads."""
PREVIEW: Schema = {
    **ANSWER,
    "properties": {
        **ANSWER["properties"],
        "changed": {"const": False, "description": "A program changes nothing."},
        "apply": {
            "type": "object",
            "description": (
                "How a person applies it: by typing the line in chat, or by opening the address and"
                " pressing Run there."
            ),
            "properties": {
                "line": {"type": "string"},
                "address": {"type": "string", "format": "uri"},
            },
            "required": ["line"],
        },
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
    body = {
        "command": call.command.name,
        "arguments": call.arguments,
        "asof": at,
        "data": data,
        # The typed numbers stand once, beside the card.
        "card": {name: part for name, part in encode(card).items() if name != "data"},
    }

    return {**data, **body} if call.command.name == "backtest" else body


def as_json(document: Any) -> str:
    """Write a document as JSON; a number that JSON has no word for is left as Python writes it."""
    return json.dumps(
        _seen(document), default=lambda value: _seen(plain(value)), ensure_ascii=False
    )


def _seen(value: Any) -> Any:
    """Return a value whose texts hold nothing that a reader cannot see."""
    match value:
        case str():
            return visible(value)
        case Mapping():
            return {_seen(name): _seen(item) for name, item in value.items()}
        case list() | tuple():
            return [_seen(item) for item in value]
    return value


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


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a spreadsheet takes for the beginning of a formula (OWASP, "CSV Injection".

Read 2026-11-22).
"""
_NAMELESS = ("key", "labels")
"""Parts of a row whose names say nothing that the names within them do not."""


def csv_text(line: str, card: Card) -> str:
    """Return the table of a line's answer as CSV; raise `WrongInput` where it has none."""
    # Plain words were read as a line: it is its command that names the rows.
    line = str(card.data.get("read_as", line))
    command = read_line(line).runs
    lists = {
        name: value
        for name, value in card.data.items()
        if isinstance(value, list | tuple)
        and value
        and all(isinstance(record, Mapping) for record in value)
    }

    # The rows are the records that the command names, else the first ones beside a table, else
    # the table as it is drawn, with the rows that were folded away.
    table = next(card.each(Table), None)
    names = command.rows or (list(lists)[:1] if table else ())
    rows: list[Mapping[str, str]] = [
        dict(_flat(record)) for name in names for record in lists.get(name, ())
    ]
    if not rows and table:
        headings = [column.name for column in table.columns]
        rows = [
            dict(zip(headings, map(_guarded, row), strict=False))
            for row in table.every or table.rows
        ]
    if not rows:
        raise WrongInput(f"'{command.name}' answered without a table; --json has its numbers.")
    # Columns end in _usd: amounts in another currency must not be taken for dollars.
    unit = card.data.get("currency", "USD")
    if unit != "USD":
        rows = [{**row, "currency": str(unit)} for row in rows]
    # Rows may have keys of their own: each has its column, in the order in which they come.
    columns = list(dict.fromkeys(name for row in rows for name in row))
    written = io.StringIO()
    writer = csv.DictWriter(written, columns, restval="")
    writer.writerow({name: _guarded(name) for name in columns})
    writer.writerows(rows)

    return written.getvalue()


def _flat(record: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Yield column and cell of a record, those of a record within it after a dot."""
    for name, value in record.items():
        column = f"{before}{name}"
        match value:
            case Window():
                yield f"{column}.start", _cell(value.start)
                yield f"{column}.end", _cell(value.end)
            case Mapping():
                yield from _flat(value, before if name in _NAMELESS else f"{column}.")
            case _:
                yield column, _cell(value)


def _cell(value: Any) -> str:
    """Return a number as it is, and text so that no spreadsheet runs it."""
    if value is None or (isinstance(value, float) and isnan(value)):
        return ""
    # A bool is an int to Python, and no number to a reader.
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple | set | frozenset):
        return _guarded(
            "; ".join(item if isinstance(item, str) else as_json(item) for item in value)
        )
    words = str(value) if isinstance(value, str | int | float) else str(plain(value))

    return words if isinstance(value, int | float | Decimal | timedelta) else _guarded(words)


def _guarded(words: str) -> str:
    words = visible(words)
    return f"'{words}" if words.startswith(_FORMULA) else words


@command(
    "csv",
    "The table of an answer as a CSV file: unrounded, units in the names of columns.",
    needs=Needs.SOURCE,
    may=Needs.BILL | Needs.METRICS | Needs.DETECTOR | Needs.STATE,
    topic=Topic.COSTS,
    examples=("csv cost 30d by team", "csv idle"),
    carries=True,
)
async def csv_(
    ports: Ports,
    request: Request,
    line: str = arg(None, "the line whose table is meant", rest=True),
) -> Card:
    """Answer the line, and give its table."""
    wanted_line = read_line(read_line(request.line).rest)
    target, runs, effect = wanted_line.text, wanted_line.runs, wanted_line.effect
    name = wanted_line.command.name
    refuse(
        (
            runs.carries or effect not in (Effect.READS, Effect.WORKS) or runs.audited,
            "A file holds the answer of a line that only reads, such as 'csv cost 7d';"
            f" '{name}' is not one.",
        ),
        (
            effect is Effect.WORKS,
            f"'{name}' takes a while; in a terminal, type trnbot {target} --csv.",
        ),
    )

    call = typed(wanted_line, request.at)
    card: Card = await call.command.handler(
        ports, replace(request, line=target, whole=True), **call.arguments
    )
    content, url = csv_text(target, card), ports.site.download(target)
    file = Attachment(file_name(target), content, target, url)

    return Card(f"The table of '{target}'", Tone.INFO, (file,), {"line": target, "file": file.name})


_KINDS: Mapping[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    Decimal: {"type": "number"},
    bool: {"type": "boolean"},
    Window: {"type": "string", "examples": ["7d", "mtd", "2026-11-01..2026-11-07"]},
    timedelta: {"type": "string", "examples": ["30m", "2h", "7d"]},
    datetime: {"type": "string", "examples": ["2026-11-20T09:00", "tomorrow 09:00"]},
    WORDS: {"type": "array", "items": {"type": "string"}, "maxItems": SIZES.words},
    FILTERS: {
        "type": "array",
        "items": {
            "type": "string",
            "pattern": r"^[^\s=!\"']+!?=",
            "examples": ["team=vision", "cluster!=llama,whisper"],
        },
        "maxItems": SIZES.filters,
    },
}
_SWITCH = {True: "on", False: "off"}


_LISTED_PARAMETERS = 10

ASK = Tool(
    "ask",
    "ask",
    "Any line that people type in chat, or a question in plain words, such as 'cost of llama last"
    " week'. 'help all' lists every command, 'help COMMAND' explains one.",
    {
        "type": "object",
        "properties": {"line": {"type": "string", "description": "the line or question"}},
        "required": ["line"],
        "additionalProperties": False,
    },
    ANSWER,
    Effect.READS,
    Role.ANYONE,
    "cost 7d by team",
)
"""Answers whatever no other tool is listed for."""


def tools() -> tuple[Tool, ...]:
    """Return a tool for each command that people type, by name.

    Those that a list names are about the fleet and only read; a file is read in a terminal, and a
    form of many questions is for people.
    """
    return tuple(
        Tool(
            tool_name(offer.name),
            offer.name,
            offer.summary,
            argument_schema(offer),
            PREVIEW if offer.changes else ANSWER,
            offer.effect,
            offer.who,
            offer.examples[0],
            listed=offer.effect is Effect.READS
            and offer.who is Role.ANYONE
            and offer.topic is not Topic.BOT
            and not offer.carries
            and len(offer.parameters) <= _LISTED_PARAMETERS
            and not any(parameter.word == "path" for parameter in offer.parameters),
        )
        for offer in commands_by_name()
    )


def tool_name(command: str) -> str:
    """Return the name of a command in one word: `config set` is `config_set`."""
    return command.replace(" ", "_").replace("-", "_")


def tool_line(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the line that a call of a tool means.

    Raise `WrongInput` for a tool or an argument that there is not.
    """
    commands = {tool_name(command.name): command for command in commands_by_name()}
    if tool == ASK.name:
        line = arguments.get("line")
        if not isinstance(line, str) or not line.strip() or len(arguments) > 1:
            raise WrongInput("'ask' takes one argument, line: the line or question.", "line")
        if effect_of(line) is Effect.SHARES:
            raise WrongInput("A program shares nothing with a channel; leave 'share' out.", "line")
        return line
    command = find_named(f"'{shortened(tool)}' is not a tool", tool, commands, most=0)

    return line_with(command.name, arguments)


def line_with(line: str, arguments: Mapping[str, Any]) -> str:
    """Return a line with arguments behind it, quoted so that none can be more than an argument."""
    command = read_line(line).command
    parameters = {parameter.word: parameter for parameter in command.parameters}
    if unknown := next((name for name in arguments if name not in parameters), None):
        hint = nearest(unknown, parameters, otherwise="it takes none")
        raise WrongInput(f"'{command.name}' has no argument '{shortened(unknown)}'{hint}.", unknown)
    words = (_written(command, parameters[name], value) for name, value in arguments.items())
    whole = " ".join([line, *chain.from_iterable(words)])

    # No argument may have changed what the line does.
    if read_line(whole).command is not command:
        raise WrongInput(
            f"The arguments make '{shortened(whole)}' another command than '{command.name}'."
        )

    return whole


def primary_line(card: Card) -> str:
    """Return the line of the button that a card offers first of all; "" where it offers none."""
    return card.primary.line if card.primary else ""


def unapplied_card(command: Command, line: str) -> Card:
    """Return the card of a change that was only understood, with the button that makes it."""
    return Card(
        "Nothing was changed",
        Tone.INFO,
        (
            text("Understood: ", Code(line), f". {command.summary}"),
            Buttons((Button("Do it", line, ButtonStyle.PRIMARY),)),
        ),
    )


def with_apply(card: Card, line: str, address: str) -> Card:
    """Say below a preview how a person applies it."""
    opens = (", or opens ", Link("the console", address), " and presses Run") if address else ()
    how = text("A program changes nothing. A person types ", Code(line), " in chat", *opens, ".")
    return replace(card, blocks=(*card.blocks, how))


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
            default: Any = arg.default
            if kind is bool:
                default = default == _SWITCH[True]
            elif kind in (int, float, Decimal):
                number = Decimal(default)
                whole = number == number.to_integral_value()
                default = int(number) if whole else float(number)
            elif kind == WORDS:
                default = default.split(",")
            schema["default"] = default
        properties[parameter.word] = schema

    needed = [parameter.word for parameter in command.parameters if parameter.arg.default is None]

    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **({"required": needed} if needed else {}),
    }


def _written(command: Command, parameter: Parameter, value: Any) -> Iterator[str]:
    """Yield the words that an argument is as the grammar reads it back."""
    if value is None:
        return
    word, values = parameter.word, value if isinstance(value, list | tuple) else [value]
    if isinstance(value, list) and bare_type(parameter.type) not in (WORDS, FILTERS):
        raise WrongInput(f"{word} takes one value; got {len(value)}.", word)
    if odd := [item for item in values if not isinstance(item, str | int | float | bool)]:
        raise WrongInput(f"{word} takes text or a number; got {shortened(str(odd[0]))}.", word)
    texts = [_SWITCH[item] if isinstance(item, bool) else str(item) for item in values]

    if parameter.type == FILTERS:
        words = {argument.word for argument in command.parameters}
        for text in texts:
            pair = filter_of(text)
            # What has a blank, a quote or `=` in its name would be read back as something else.
            unreadable = set(pair.dimension) & set(" \t\n\r\"'=")
            if "=" not in text or pair.dimension in words or unreadable:
                raise WrongInput(
                    f"'{shortened(text)}' is not a filter; write dimension=value,"
                    " for example team=search."
                )
            yield filter_line(pair)
        return

    joined = ",".join(texts)
    if parameter.arg.rest and command.parameters[0] is parameter:
        yield joined  # as it was typed: a line, or a file of many lines
    elif joined:
        yield f"{word}={quote(joined)}"
