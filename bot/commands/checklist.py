"""Keep the steps of a migration: posted once, ticked off by anyone, the same for everybody."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bot.cards.card import Card
from bot.cards.checklist import Step, checklist_card
from bot.commands.registry import arg, command
from bot.errors import WrongInput, nearest
from bot.model.request import Request
from bot.ports import Ports

SHELF = "checklists"
KINDS = {"start": "steps", "devops": "devops"}
"""What can be ticked off: five steps to begin with, or the four of a whole port."""
_MOST = 200


@command(
    "checklist",
    "The steps of a migration, to be ticked off in the thread.",
    examples=("checklist", "checklist llama kind=devops", "checklist llama"),
)
async def checklist(
    ports: Ports,
    request: Request,
    name: str = arg("first", "whose migration, such as the model's name"),
    kind: str = arg("", "start = the first five steps, devops = the four of a whole port", choices=("", *KINDS), keyword=True),
) -> Card:
    """Show the steps as they stand; a name that is new has none ticked."""
    return await asyncio.to_thread(_shown, ports, _plain(name), kind)


@command(
    "checklist done", "Tick a step off.", examples=("checklist done llama 2", "checklist done llama 2 kind=devops"), changes=True
)
async def checklist_done(
    ports: Ports,
    request: Request,
    name: str = arg(None, "whose migration"),
    number: int = arg(None, "the step's number"),
    kind: str = arg("", "which steps, where none is ticked yet", choices=("", *KINDS), keyword=True),
) -> Card:
    """Write who did it, and when; the first tick counts."""
    by = {"by": request.user.name or request.user.id, "at": request.at.isoformat()}
    return await asyncio.to_thread(_ticked, ports, _plain(name), number, kind, by)


@command("checklist reopen", "Take a tick back.", examples=("checklist reopen llama 2",), changes=True)
async def checklist_reopen(
    ports: Ports,
    request: Request,
    name: str = arg(None, "whose migration"),
    number: int = arg(None, "the step's number"),
) -> Card:
    """Forget who did it."""
    return await asyncio.to_thread(_ticked, ports, _plain(name), number, "", None)


def _plain(name: str) -> str:
    if not re.fullmatch(r"[\w.-]{1,60}", name):
        raise WrongInput(f"'{name[:60]}' does not do as a name; take letters, digits, dots and dashes, such as llama-70b.")
    return name


def _shown(ports: Ports, name: str, kind: str) -> Card:
    return _card(ports, name, _kept(ports, name, kind))


def _kept(ports: Ports, name: str, kind: str) -> Mapping[str, Any]:
    """Return what was ticked, nothing for a name that is new; raise `WrongInput` where that is of another kind."""
    kept = ports.shelf.get(SHELF, name)
    if kept is None or not kept["done"]:
        return {"kind": kind or (kept or {}).get("kind", "start"), "done": {}}
    if kind and kept["kind"] != kind:
        raise WrongInput(f"The checklist '{name}' is of kind {kept['kind']} and begun; take another name.")
    return kept


def _ticked(ports: Ports, name: str, number: int, kind: str, by: Mapping[str, str] | None) -> Card:
    if by is None and ports.shelf.get(SHELF, name) is None:
        known = [key for key, _ in ports.shelf.newest(SHELF, _MOST)]
        raise WrongInput(f"There is no checklist '{name}' with a tick{nearest(name, known)}.")
    kept = _kept(ports, name, kind)
    count = len(ports.knowledge.claims().of(KINDS[kept["kind"]]))
    if not 1 <= number <= count:
        raise WrongInput(f"The checklist '{name}' has steps 1 to {count}; got {number}.")
    done = {key: value for key, value in kept["done"].items() if key != str(number)}
    if by:
        done[str(number)] = kept["done"].get(str(number), dict(by))
    made = {"kind": kept["kind"], "done": done}
    ports.shelf.put(SHELF, name, made)
    return _card(ports, name, made)


def _card(ports: Ports, name: str, kept: Mapping[str, Any]) -> Card:
    notes = ports.knowledge.claims().of(KINDS[kept["kind"]])
    return checklist_card(name, kept["kind"], [_step(n, note, kept["done"].get(str(n))) for n, note in enumerate(notes, 1)])


def _step(number: int, note: Any, done: Mapping[str, str] | None) -> Step:
    return Step(number, note, done["by"], datetime.fromisoformat(done["at"])) if done else Step(number, note)
