"""Parse TOML that somebody else wrote, within limits of size, depth and numbers."""

from __future__ import annotations

import tomllib
from typing import Any

from bot.errors import WrongInput
from bot.model.limits import TOML_BITS, TOML_DEPTH, TOML_DOTS


def parse_toml(text: str, noun: str, most: int) -> dict[str, Any]:
    """Return the document of a text of at most so many bytes; raise one `WrongInput` that begins with `noun` otherwise."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > most:
        raise WrongInput(f"{noun} has {size:,} bytes; keep it under {most:,}.")
    if (dots := max(line.count(".") for line in text.split("\n"))) > TOML_DOTS:
        raise WrongInput(f"{noun} has a line with {dots:,} dots; keep it under {TOML_DOTS}, or break it into several lines.")
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


def _measure(document: dict[str, Any], noun: str) -> None:
    """Raise `WrongInput` for what is nested too deep or too large a number; by a list, as recursion has a limit itself."""
    level: list[Any] = [document]
    for _ in range(TOML_DEPTH):
        within: list[Any] = []
        for value in level:
            if isinstance(value, int) and value.bit_length() > TOML_BITS:
                raise _too_long(noun)
            within += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        level = within
    if level:
        raise _too_deep(noun)


def _too_deep(noun: str) -> WrongInput:
    return WrongInput(f"{noun} is nested deeper than {TOML_DEPTH} tables and lists; write it flatter.")


def _too_long(noun: str) -> WrongInput:
    return WrongInput(f"{noun} holds a whole number of more than {TOML_BITS} bits; write a smaller one.")
