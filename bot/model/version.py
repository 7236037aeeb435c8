"""State the history of the policy: versions, and every attempt to change it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from bot.model.labels import Labels
from bot.model.request import SignedBy

Override = tuple[Labels, str, str]
"""Scope (nothing said = everywhere), key, and the value as text.

"" takes back an override of the settings file.
"""


class VersionKind(StrEnum):
    """Name the ways in which a version came to be."""

    SET = "set"
    UNDO = "undo"
    IMPORT = "import"


@dataclass(frozen=True)
class Edit:
    """State one setting's value at one scope before and after a change, as text."""

    scope: Labels
    key: str
    before: str
    after: str


@dataclass(frozen=True)
class Version(SignedBy):
    """State one change of the policy; only ever added.

    `overrides` is all that stands over the settings file since.
    """

    number: int
    at: datetime
    by: str
    by_name: str
    doing: VersionKind
    edits: tuple[Edit, ...]
    overrides: tuple[Override, ...]
    preview: str = ""
    """The id of the preview that was shown, "" for an undo."""
    shown: Mapping[str, Any] = field(default_factory=dict)
    """The result of that preview, in words."""
    restores: int | None = None
    """The version an undo went back to; 0 = the settings file alone."""


@dataclass(frozen=True)
class Attempt(SignedBy):
    """State that somebody tried to change the policy.

    `refused` says why it came to nothing, "" when it did not.
    """

    at: datetime
    by: str
    by_name: str
    line: str
    refused: str = ""


@dataclass(frozen=True)
class Draft:
    """Hold a change that was previewed and waits to be applied."""

    id: str
    at: datetime
    by: str
    over: int
    """The version it was tried over; 0 = the settings file alone."""
    doing: VersionKind
    changes: tuple[Override, ...]
    overrides: tuple[Override, ...]
    """All that would stand over the settings file."""
    edits: tuple[Edit, ...]
    shown: Mapping[str, Any] = field(default_factory=dict)
