"""Read routes: from the settings, from tables of a TOML file, and from subscriptions of channels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bot.errors import WrongInput, nearest
from bot.model.causes import Cause, Severity
from bot.model.labels import NAMES, Labels
from bot.model.route import Route, Routes
from bot.ports import Documents, DocumentStore


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
