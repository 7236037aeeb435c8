"""Read routes and the mapping of owners: from the settings and from TOML files."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

from bot.errors import WrongInput, nearest
from bot.model.causes import Cause, Severity
from bot.model.labels import NAMES, Labels
from bot.model.limits import OWNERS_BYTES
from bot.model.route import LABEL, NODE_GROUP, TAG, OwnerMap, OwnerRule, Route, Routes
from bot.policy.file import Place, parse_toml, placed
from bot.ports import Documents, DocumentStore


def read_text(path: Path, noun: str, most: int) -> str:
    """Return the text of a file of at most so many bytes.

    Raise one `WrongInput` that begins with `noun` otherwise.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(most + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror or "").lower() if isinstance(error, OSError) else "it is no path"
        raise WrongInput(f"{noun} cannot be read: {reason}.") from None
    if len(raw) > most:
        raise WrongInput(f"{noun} has over {most:,} bytes; give a smaller one.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise WrongInput(f"{noun} cannot be read: it is not UTF-8 text.") from None


@dataclass(frozen=True)
class Subscription:
    """Hold the routes that one channel subscribed to."""

    routes: tuple[Route, ...] = ()


SUBSCRIPTIONS = Documents("subscriptions", Subscription)
MOST = 200
"""Subscriptions that are read; nobody follows more channels."""
_CAUSES, _SEVERITIES = (
    tuple(cause.value for cause in Cause),
    tuple(severity.value for severity in Severity),
)


def addresses(text: str, like: str = "PLATFORM:NAME") -> tuple[str, ...]:
    """Read a comma list of addresses; raise `WrongInput` for one that names no platform."""
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    for word in words:
        platform, colon, rest = word.partition(":")
        if not (platform.isalpha() and colon and rest):
            raise WrongInput(f"'{word}' names no platform; write it like {like}.")
    return words


def causes(text: str) -> tuple[Cause, ...]:
    """Read a comma list of causes; raise `WrongInput` with the nearest right word."""
    named = tuple(word.strip() for word in text.split(",") if word.strip())
    for word in named:
        if word not in _CAUSES:
            raise WrongInput(f"'{word}' is not a cause{nearest(word, _CAUSES, most=30)}.")
    return tuple(map(Cause, named))


def route_of(pairs: Iterable[tuple[str, str]], to: tuple[str, ...], by: str = "") -> Route:
    """Return the route for labels, a cause and a severity.

    Raise `WrongInput` with the nearest right word.
    """
    said = dict(pairs)
    for name in said:
        if name not in (*NAMES, "cause", "severity"):
            raise WrongInput(
                f"'{name}' is nothing to route by{nearest(name, (*NAMES, 'cause', 'severity'))}."
            )
    cause, severity = said.pop("cause", ""), said.pop("severity", "")
    for word, known in ((cause, _CAUSES), (severity, _SEVERITIES)):
        if word and word not in known:
            raise WrongInput(f"'{word}' is not one of them{nearest(word, known, most=30)}.")
    return Route(to, Labels.of(said), cause, severity, by)


def read_routes(text: str) -> tuple[Route, ...]:
    """Read `cluster=llama cause=idle -> CHANNEL, CHANNEL; team=search -> CHANNEL`.

    Raise `WrongInput`.
    """
    return tuple(_read_route(part) for part in text.split(";") if part.strip())


def _read_route(text: str) -> Route:
    asked, arrow, to = text.partition("->")
    words = asked.split()
    if not (arrow and addresses(to) and words and all("=" in word for word in words)):
        raise WrongInput(f"'{text.strip()}' is not a route; write LABEL=VALUE -> CHANNEL.")
    return route_of(
        [(name, value) for name, _, value in (word.partition("=") for word in words)], addresses(to)
    )


def read_owners(text: str) -> dict[str, tuple[str, ...]]:
    """Read `dana = ADDRESS, ADDRESS; kim = ADDRESS`; raise `WrongInput`.

    Names are compared without regard to case.
    """
    owners = {}
    for part in text.split(";"):
        name, equals, to = part.partition("=")
        if part.strip() and not (name.strip() and equals and addresses(to)):
            raise WrongInput(f"'{part.strip()}' names no owner; write NAME = ADDRESS.")
        if part.strip():
            owners[name.strip().lower()] = addresses(to)
    return owners


def tables_as_text(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a settings document in which `[[routes]]` and `[owners]` are written as their variables are."""
    found, routes, owners = dict(document), document.get("routes"), document.get("owners")
    if isinstance(routes, list) and all(isinstance(one, Mapping) for one in routes):
        found["routes"] = "; ".join(_route_text(one) for one in routes)
    if isinstance(owners, Mapping):
        found["owners"] = "; ".join(f"{name} = {_listed(to)}" for name, to in owners.items())
    return found


def _route_text(table: Mapping[str, Any]) -> str:
    asked = " ".join(f"{name}={value}" for name, value in table.items() if name != "to")
    return f"{asked} -> {_listed(table.get('to', ''))}"


def _listed(to: Any) -> str:
    return ", ".join(map(str, to)) if isinstance(to, list) else str(to)


def routes_now(routes: Routes, store: DocumentStore) -> Routes:
    """Return the routes with every subscription that holds now; may block."""
    subscribed = (
        route
        for _, subscription in SUBSCRIPTIONS.newest(store, MOST)
        for route in subscription.routes
    )
    return replace(routes, routes=(*routes.routes, *subscribed))


def subscriptions(store: DocumentStore, channel: str) -> tuple[Route, ...]:
    """Return the subscriptions of one channel."""
    return (SUBSCRIPTIONS.get(store, channel) or Subscription()).routes


def subscribe(store: DocumentStore, channel: str, wanted: Sequence[Route]) -> None:
    """Replace the subscriptions of a channel."""
    if wanted:
        SUBSCRIPTIONS.put(store, channel, Subscription(tuple(wanted)))
    else:
        SUBSCRIPTIONS.drop(store, channel)


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
