"""Describe a request: the person, the channel and the words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Role(StrEnum):
    """Name the roles of people: anyone asks, admins change."""

    ANYONE = "anyone"
    ADMIN = "admin"


@dataclass(frozen=True)
class User:
    """Name a person as the surface knows them: `slack:U01ALICE`, `teams:29:1x`, `web:local`, `terminal:root`."""

    id: str
    name: str = ""


class SignedBy:
    """Give a record that a person made, with `by` and `by_name`, the one way to name that person."""

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
    channel: str = ""
    """`slack:C02FIN`, `teams:CONVERSATION`, `web:alerts`; "" in a personal chat or a terminal."""
    thread: str = ""
