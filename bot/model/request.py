"""Describe a request, and commands as surfaces and programs announce them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from bot.model.window import Window


class Role(StrEnum):
    """Name the roles of people: readers ask, anyone also acts on alerts, admins change the rest."""

    READER = "reader"
    """Only where a console says so."""
    ANYONE = "anyone"
    """A member of the organization."""
    ADMIN = "admin"


UNNAMED = "you"
"""The name of whoever a console lets in without knowing who it is."""
PROGRAM = "web:token-"
"""Begins the address of a program that a token lets in: no person by itself."""
GROUP = "group:"
"""Begins the name of a group where roles are given."""


@dataclass(frozen=True)
class RoleRule:
    """Give a role of the console to a person, to a group of theirs, or by "*" to whoever is known."""

    who: str
    role: Role


@dataclass(frozen=True)
class User:
    """Name a person as the surface knows them.

    `slack:U01ALICE`, `teams:29:1x`, `web:local`, `terminal:root`.
    """

    id: str
    name: str = ""
    role: Role | None = None
    """What the console that knows them gives; None where the list of admins alone decides."""
    email: str = ""
    """In small letters, as their organization says it; "" where the surface does not know it."""


class Standing(StrEnum):
    """Name how a person belongs to the organization that the bot serves."""

    MEMBER = "member"
    GUEST = "guest"
    """Invited into some channels by a member."""
    STRANGER = "stranger"
    """Of another organization, reached through a shared channel, or of an unknown one."""


NOT_SERVED = "This bot does not serve your organization; nothing was read or changed."


@dataclass(frozen=True)
class Belonging:
    """State the organization that a person belongs to, and how."""

    organization: str
    """The person's Slack workspace or Teams tenant, "" for this machine and an unknown one."""
    standing: Standing
    shared: bool = False
    """The channel is open to people of other organizations too: what it shows, they read."""


LOCAL = Belonging("", Standing.MEMBER)
"""Whoever reached this machine's terminal, or its console past the guard."""


class Effect(StrEnum):
    """Name how far a line reaches, as the grammar understands it."""

    READS = "reads"
    """It shows something, quickly."""
    WORKS = "works"
    """It changes nothing, and may work for long: a person asks for it by a press."""
    SHARES = "shares"
    """It shows its answer to everyone, whatever else it does."""
    CHANGES = "changes"
    """It changes something that is remembered, or tells other people."""
    NOTHING = "nothing"
    """It is not understood; answering it shows the mistake."""


class Manner(StrEnum):
    """Name how a line came: only a person's own act may do more than read."""

    VIEWED = "viewed"
    """A page was opened or a link followed; whoever made the link chose the line."""
    ASKED = "asked"
    """The person typed the line, pressed its button or submitted its form."""


class SignedBy:
    """Name the person who made a record, which has their address and name."""

    by: str
    by_name: str

    @property
    def who(self) -> str:
        """Return the person's name, else the address."""
        return self.by_name or self.by


@dataclass(frozen=True)
class Request:
    """Hold one typed line (a button and a form are lines too)."""

    line: str
    user: User
    at: datetime
    surface: str
    belonging: Belonging
    channel: str = ""
    """`slack:C02FIN`, `teams:CONVERSATION`, `web:alerts`; "" in a personal chat or a terminal."""
    thread: str = ""
    manner: Manner = Manner.ASKED
    whole: bool = True
    """Every row is read, by a program or in a file; a person reads the first of them."""


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


@dataclass(frozen=True)
class LineWindow:
    """Hold the window of time that a line's answer is of, and the line around the words for it."""

    window: Window | None
    """None where the line names none and its command answers as of now."""
    before: str
    after: str = ""

    def over(self, words: str) -> str:
        """Return the same line over another window."""
        return f"{self.before}{words}{self.after}"


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
    listed: bool = True
    """Named in a list of tools; others are asked for by `ask`, or called by their name."""
