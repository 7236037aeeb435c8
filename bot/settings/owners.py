"""Read the mapping of owners from a TOML file that is kept in git, and read it anew when it changes.

[[owner]]
name = "dana"
cluster = "llama-*"
person = "slack:U01DANA"
channel = "slack:C0LLAMA"
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from bot.errors import WrongInput, nearest
from bot.model.labels import NAMES
from bot.model.limits import OWNERS_BYTES
from bot.model.owners import LABEL, NODE_GROUP, TAG, OwnerMap, OwnerRule
from bot.policy.file import Place, placed
from bot.policy.toml import parse_toml
from bot.settings.files import read_text
from bot.settings.routes import addresses

log = logging.getLogger("trnbot.owners")
_PLACES = (
    "cluster",
    NODE_GROUP,
    "namespace",
    "team",
    "project",
    "account",
    "region",
    "instance_type",
)
_REACHED = ("person", "channel")
_KEYS = ("name", *_REACHED, *_PLACES, *(name for name in NAMES if name not in _PLACES))
_EXAMPLE = 'write cluster = "llama-*"'


def read_mapping(text: str, file: str) -> OwnerMap:
    """Return the mapping of a text; raise one `WrongInput` that names every mistake by its line."""
    document, place, mistakes = (
        parse_toml(text, f"The mapping of owners '{file}'", OWNERS_BYTES),
        placed(text, file),
        list[str](),
    )
    for name, raw in document.items():
        if name != "owner":
            at = place(f"{name}[1]" if isinstance(raw, list) else name)
            mistakes.append(
                f"{at}'{name}' is no table of this file{nearest(name, ('owner',), most=0)}; write [[owner]]."
            )
    tables = document.get("owner", [])
    if not isinstance(tables, list) or not all(isinstance(table, Mapping) for table in tables):
        raise WrongInput(f"{place('owner')}'owner' is a list of tables; write [[owner]].")
    reader = _Reader(place, mistakes)
    for number, table in enumerate(tables, 1):
        reader.take(f"owner[{number}]", table)
    if mistakes:
        raise WrongInput(" ".join(mistakes))
    return OwnerMap(tuple(reader.rules), reader.reached["person"], reader.reached["channel"])


class _Reader:
    """Read the tables one by one; mistakes are gathered."""

    def __init__(self, place: Place, mistakes: list[str]) -> None:
        self._place, self._mistakes = place, mistakes
        self.rules: list[OwnerRule] = []
        self.reached: dict[str, dict[str, tuple[str, ...]]] = {kind: {} for kind in _REACHED}
        self._lines: dict[object, str] = {}

    def take(self, above: str, table: Mapping[str, Any]) -> None:
        """Read one table."""
        name, where = str(table.get("name", "")).strip(), list[tuple[str, tuple[str, ...]]]()
        if not name:
            self._mistakes.append(f'{self._place(above)}it names no owner; write name = "dana".')
        for key, raw in table.items():
            at = self._place(f"{above}.{key}")
            if words := self._texts(key, raw, at):
                if key in _REACHED:
                    self._reach(key, name.lower(), words, at)
                elif key != "name":
                    where.append((key, words))
        if not [key for key in table if key not in ("name", *_REACHED)]:
            self._mistakes.append(
                f"{self._place(above)}it says nothing of what {name or 'the owner'} has; {_EXAMPLE}."
            )
        self._add(above, OwnerRule(name, tuple(where)))

    def _texts(self, key: str, raw: Any, at: str) -> tuple[str, ...]:
        """Return the texts of a key, none where it or its value is wrong."""
        tagged = next((key.removeprefix(kind) for kind in (TAG, LABEL) if key.startswith(kind)), "")
        if key not in _KEYS and not tagged:
            self._mistakes.append(
                f"{at}'{key}' is nothing to own by{nearest(key, _KEYS)}; a tag is written \"tag:KEY\"."
            )
            return ()
        words = tuple(raw) if isinstance(raw, list) else (raw,)
        if not words or not all(isinstance(word, str) and word.strip() for word in words):
            self._mistakes.append(f"{at}{key} takes a text or a list of texts.")
            return ()
        return words

    def _reach(self, kind: str, name: str, words: tuple[str, ...], at: str) -> None:
        """Note where an owner is reached; several tables of one owner add up."""
        try:
            read = addresses(
                ",".join(words), "slack:U01DANA" if kind == "person" else "slack:C0LLAMA"
            )
        except WrongInput as error:
            self._mistakes.append(f"{at}{kind}: {error}")
            return
        self.reached[kind][name] = tuple(dict.fromkeys((*self.reached[kind].get(name, ()), *read)))

    def _add(self, above: str, rule: OwnerRule) -> None:
        """Keep a rule that an earlier one leaves something to."""
        place = self._place(above)
        if rule.where and rule.where in self._lines:
            before = self._lines[rule.where].rstrip(": ").rpartition(", ")[2]
            self._mistakes.append(
                f"{place}{before} has the same patterns already, and the first that fits counts; remove one."
            )
        self._lines.setdefault(rule.where, place)
        self.rules.append(rule)


class OwnersFile:
    """Hold the mapping of a file as it stood when it was last sound.

    Asked again, it looks whether the file changed.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path).expanduser() if path else None
        self._stamp: tuple[int, ...] | None = ()
        self._mapping = OwnerMap()
        self._lock = Lock()
        self._problem = ""

    def __call__(self) -> OwnerMap:
        """Return the mapping; a version of the file with a mistake leaves the one before in force."""
        with self._lock:
            if self._path is not None and (stamp := _stamp(self._path)) != self._stamp:
                self._stamp = stamp
                self._read(self._path)
            return self._mapping

    @property
    def problem(self) -> str:
        """Return the mistakes of the file as it stands, and which version is in force instead.

        "" while it is sound.
        """
        self()
        return self._problem

    def _read(self, path: Path) -> None:
        try:
            self._mapping = read_mapping(
                read_text(path, f"The mapping of owners '{path}'", OWNERS_BYTES), path.name
            )
        except WrongInput as error:
            kept = (
                "its last sound version is in force"
                if self._mapping.rules
                else "nobody is an owner by it"
            )
            self._problem = f"{error} Until it is mended {kept}."
            log.warning("%s", self._problem)
        else:
            self._problem = ""
            log.info("%s names %d rules of owners", path, len(self._mapping.rules))


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Return a stamp that differs when a file was written or replaced, None where there is none."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
