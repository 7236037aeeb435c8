"""Say what a look at the installation found, and what a surface must know of a command."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """Tell whether one thing the bot needs is there, and what to do where it is not."""

    name: str
    ok: bool
    found: str
    remedy: str = ""


@dataclass(frozen=True)
class CommandHint:
    """Tell a surface of one command: what to type, what it does, an example."""

    name: str
    summary: str
    example: str
    changes: bool = True
    """Changes state, so that a surface never runs it from a mere link; told of the commands that only read: False."""
