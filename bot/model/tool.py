"""Describe a command to a program: its name, its typed arguments, and how far it reaches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.model.request import Effect, Role

Schema = Mapping[str, Any]
"""A JSON Schema, dialect 2020-12."""


@dataclass(frozen=True)
class Tool:
    """Describe one command.

    A program names it in one word, since no protocol has a word for a blank.
    """

    name: str
    command: str
    summary: str
    arguments: Schema
    """An object, with a property for each argument."""
    answer: Schema
    """The document that answers, as `--json` prints it."""
    effect: Effect
    who: Role
    example: str
