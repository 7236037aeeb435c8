"""Read routes and the mapping of owners: from the settings and from TOML files."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

from bot.errors import WrongInput, nearest, not_known, require_known
from bot.model.causes import Cause, Severity
from bot.model.labels import NAMES, Labels
from bot.model.limits import OWNERS_BYTES
from bot.model.route import LABEL, NODE_GROUP, TAG, OwnerMap, OwnerRule, Route, Routes
from bot.policy.file import gathered, parse_toml, placed
from bot.ports import Documents, DocumentStore


def read_text(path: Path, noun: str, most: int) -> str:
    """Return the text of a file of at most so many bytes.

    Raise one `WrongInput` that begins with `noun` otherwise.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(most + 1)
    except (OSError, ValueError) as error:
        reason = (
            (error.strerror or "").lower() if isinstance(error, OSError) else "it is not a path"
        )
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
PLATFORMS = ("slack", "teams", "web")
"""The first words of addresses: the chats, and the console."""
MOST = 200
"""Subscriptions that are read; nobody follows more channels."""
_CAUSES = tuple(cause.value for cause in Cause)
_SEVERITIES = tuple(severity.value for severity in Severity)


def words(text: str) -> tuple[str, ...]:
    """Read a comma list."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def addresses(text: str, like: str = "PLATFORM:NAME") -> tuple[str, ...]:
    """Read a comma list of addresses; raise `WrongInput` for one that names no platform."""
    for word in words(text):
        platform, _, name = word.partition(":")
        if platform not in PLATFORMS or not name:
            raise WrongInput(f"'{word}' names no platform; write it like {like}.")
    return words(text)


def causes(text: str) -> tuple[Cause, ...]:
    """Read a comma list of causes; raise `WrongInput` with the nearest right word."""
    for word in words(text):
        require_known(f"'{word}' is not a cause", word, _CAUSES, most=30)
    return tuple(map(Cause, words(text)))


def route_of(pairs: Iterable[tuple[str, str]], to: tuple[str, ...], by: str = "") -> Route:
    """Return the route for labels, a cause and a severity.

    Raise `WrongInput` with the nearest right word.
    """
    labels, names = dict(pairs), (*NAMES, "cause", "severity")
    for name in labels:
        require_known(f"'{name}' is nothing to route by", name, names)

    cause, severity = labels.pop("cause", ""), labels.pop("severity", "")
    for word, choices in ((cause, _CAUSES), (severity, _SEVERITIES)):
        if word and word not in choices:
            raise not_known(f"'{word}' is not one of them", word, choices, most=30)
    return Route(to, Labels(**labels), cause, severity, by)


def read_routes(text: str) -> tuple[Route, ...]:
    """Read `cluster=llama cause=idle -> CHANNEL, CHANNEL; team=search -> CHANNEL`.

    Raise `WrongInput`.
    """
    routes = []
    for part in filter(str.strip, text.split(";")):
        selector, arrow, to = part.partition("->")
        pairs = [word.partition("=") for word in selector.split()]
        if not (arrow and addresses(to) and pairs and all(equals for _, equals, _ in pairs)):
            raise WrongInput(f"'{part.strip()}' is not a route; write LABEL=VALUE -> CHANNEL.")
        routes.append(route_of([(name, value) for name, _, value in pairs], addresses(to)))
    return tuple(routes)


def read_owners(text: str) -> dict[str, tuple[str, ...]]:
    """Read `dana = ADDRESS, ADDRESS; kim = ADDRESS`; raise `WrongInput`.

    Names are compared without regard to case.
    """
    owners = {}
    for part in filter(str.strip, text.split(";")):
        name, equals, to = part.partition("=")
        if not (name.strip() and equals and addresses(to)):
            raise WrongInput(f"'{part.strip()}' names no owner; write NAME = ADDRESS.")
        owners[name.strip().lower()] = addresses(to)
    return owners


def tables_as_text(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a settings document in which `[[routes]]` and `[owners]` are as their variables."""
    written, routes, owners = dict(document), document.get("routes"), document.get("owners")
    if isinstance(routes, list) and all(isinstance(table, Mapping) for table in routes):
        selectors = [
            " ".join(f"{name}={value}" for name, value in table.items() if name != "to")
            for table in routes
        ]
        written["routes"] = "; ".join(
            f"{selector} -> {_listed(table.get('to', ''))}"
            for selector, table in zip(selectors, routes, strict=True)
        )
    if isinstance(owners, Mapping):
        written["owners"] = "; ".join(f"{name} = {_listed(to)}" for name, to in owners.items())
    return written


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


def subscribe(store: DocumentStore, channel: str, routes: Sequence[Route]) -> None:
    """Replace the subscriptions of a channel."""
    if routes:
        SUBSCRIPTIONS.put(store, channel, Subscription(tuple(routes)))
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
_REACHED = {"person": "slack:U01DANA", "channel": "slack:C0LLAMA"}
"""The keys that say where an owner is reached, each with an example."""
_KEYS = ("name", *_REACHED, *_PLACES, *(name for name in NAMES if name not in _PLACES))


def read_mapping(text: str, file: str) -> OwnerMap:
    """Return the mapping of a text; raise one `WrongInput` that names every mistake by its line."""
    document = parse_toml(text, f"The mapping of owners '{file}'", OWNERS_BYTES)
    place = placed(text, file)
    mistakes = [
        f"{place(f'{name}[1]' if isinstance(raw, list) else name)}'{name}' is not a table of this"
        f" file{nearest(name, ('owner',), most=0)}; write [[owner]]."
        for name, raw in document.items()
        if name != "owner"
    ]
    tables = document.get("owner", [])
    if not isinstance(tables, list) or not all(isinstance(table, Mapping) for table in tables):
        raise WrongInput(f"{place('owner')}'owner' is a list of tables; write [[owner]].")

    rules: list[OwnerRule] = []
    reached: dict[str, dict[str, tuple[str, ...]]] = {kind: defaultdict(tuple) for kind in _REACHED}
    lines: dict[object, str] = {}
    for number, table in enumerate(tables, 1):
        at, patterns = place(f"owner[{number}]"), list[tuple[str, tuple[str, ...]]]()
        name = str(table.get("name", "")).strip()
        if not name:
            mistakes.append(f'{at}it names no owner; write name = "dana".')
        for key, raw in table.items():
            with gathered(mistakes, place(f"owner[{number}].{key}")):
                texts = _texts(key, raw)
                if key in _REACHED:  # several tables of one owner add up
                    before = reached[key][name.lower()]
                    reached[key][name.lower()] = tuple(dict.fromkeys((*before, *texts)))
                elif key != "name":
                    patterns.append((key, texts))

        if not table.keys() - {"name", *_REACHED}:
            mistakes.append(
                f'{at}it says nothing of what {name or "the owner"} has; write cluster = "llama-*".'
            )
        rule = OwnerRule(name, tuple(patterns))
        if rule.where and rule.where in lines:
            before_at = lines[rule.where].rstrip(": ").rpartition(", ")[2]
            mistakes.append(
                f"{at}{before_at} has the same patterns already,"
                " and the first that fits counts; remove one."
            )
        lines.setdefault(rule.where, at)
        rules.append(rule)

    if mistakes:
        raise WrongInput(" ".join(mistakes))
    return OwnerMap(tuple(rules), dict(reached["person"]), dict(reached["channel"]))


def _texts(key: str, raw: Any) -> tuple[str, ...]:
    """Return the texts of a key of an owner's table; raise `WrongInput` for a wrong one."""
    if key not in _KEYS and not any(key.startswith(kind) and key != kind for kind in (TAG, LABEL)):
        raise WrongInput(
            f"'{key}' is nothing to own by{nearest(key, _KEYS)}; a tag is written \"tag:KEY\"."
        )
    texts = tuple(raw) if isinstance(raw, list) else (raw,)
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise WrongInput(f"{key} takes a text or a list of texts.")
    if key not in _REACHED:
        return texts
    try:
        return addresses(",".join(texts), _REACHED[key])
    except WrongInput as error:
        raise WrongInput(f"{key}: {error}") from None


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
        """Return the mapping; a file with a mistake leaves the version before in force."""
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
            text = read_text(path, f"The mapping of owners '{path}'", OWNERS_BYTES)
            self._mapping, self._problem = read_mapping(text, path.name), ""
        except WrongInput as error:
            in_force = "nobody is an owner by it"
            if self._mapping.rules:
                in_force = "its last sound version is in force"
            self._problem = f"{error} Until it is fixed {in_force}."
            log.warning("%s", self._problem)
        else:
            log.info("%s names %d rules of owners", path, len(self._mapping.rules))


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Return a stamp that differs when a file was written or replaced, None where there is none."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
