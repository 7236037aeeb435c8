"""Parse TOML that somebody else wrote, within limits of size, depth and numbers."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from bot.errors import WrongInput
from bot.model.limits import TOML_BITS, TOML_DEPTH, TOML_DOTS


def parse_toml(text: str, noun: str, most: int) -> dict[str, Any]:
    """Return the document of a text of at most so many bytes.

    Raise one `WrongInput` that begins with `noun` otherwise.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > most:
        raise WrongInput(f"{noun} has {size:,} bytes; keep it under {most:,}.")
    if (dots := max(line.count(".") for line in text.split("\n"))) > TOML_DOTS:
        raise WrongInput(
            f"{noun} has a line with {dots:,} dots; keep it under {TOML_DOTS}, or break it into several lines."
        )
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise _too_deep(noun) from None
    except tomllib.TOMLDecodeError as error:
        raise WrongInput(f"{noun} is not TOML: {error}.") from None
    except ValueError:  # of `int`, which refuses to read thousands of digits
        raise _too_long(noun) from None
    _measure(document, noun)
    return document


_HEADER = re.compile(r"\s*\[(\[?)([^\[\]]+)\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"""\s*((?:[\w.-]|"[^"]*"|'[^']*'|[ \t](?=[\w."'-]|=))+?)\s*=""")


def key_lines(text: str) -> dict[str, int]:
    """Return the line of every table and key by its dotted name.

    Those of the n-th `[[table]]` under `table[n].`.
    """
    lines: dict[str, int] = {}
    table, counts = "", dict[str, int]()
    for number, line in enumerate(text.split("\n"), 1):
        if header := _HEADER.fullmatch(line):
            table = _dotted(header[2])
            if header[1]:
                counts[table] = counts.get(table, 0) + 1
                table = f"{table}[{counts[table]}]"
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault(f"{table}.{_dotted(key[1])}" if table else _dotted(key[1]), number)
    return lines


def _dotted(name: str) -> str:
    """Return a key without its quotes and the spaces around its dots."""
    return ".".join(part.strip().strip("\"'") for part in name.split("."))


def _measure(document: dict[str, Any], noun: str) -> None:
    """Raise `WrongInput` for what is nested too deep or too large a number.

    By a list, as recursion has a limit itself.
    """
    level: list[Any] = [document]
    for _ in range(TOML_DEPTH):
        within: list[Any] = []
        for value in level:
            if isinstance(value, int) and value.bit_length() > TOML_BITS:
                raise _too_long(noun)
            within += (
                value.values()
                if isinstance(value, dict)
                else value
                if isinstance(value, list)
                else ()
            )
        level = within
    if level:
        raise _too_deep(noun)


def _too_deep(noun: str) -> WrongInput:
    return WrongInput(
        f"{noun} is nested deeper than {TOML_DEPTH} tables and lists; write it flatter."
    )


def _too_long(noun: str) -> WrongInput:
    return WrongInput(
        f"{noun} holds a whole number of more than {TOML_BITS} bits; write a smaller one."
    )
