"""State one finding about the installation, and the facts of a command that a surface announces."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """State whether one thing that the bot needs is there, and the remedy where it is not."""

    name: str
    ok: bool
    found: str
    remedy: str = ""


@dataclass(frozen=True)
class CommandHint:
    """Describe one command to a surface: its name, its purpose, an example."""

    name: str
    summary: str
    example: str
    changes: bool = True
    """Changes state, so that a surface never runs it from a mere link.

    Told of the commands that only read: False.
    """
    topic: str = ""
    """The part of help's list that it stands in, and that part's place."""
    place: int = 0
    needed: bool = False
    """Has an argument that cannot be left out, so that its name alone asks nothing."""
    examples: tuple[str, ...] = ()
    arguments: tuple[tuple[str, str], ...] = ()
    """What may be typed after it, such as `by=`, each with its meaning."""
