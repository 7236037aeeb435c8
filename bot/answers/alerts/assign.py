"""Assign an alert to a person, and take it back: picked in a form, mentioned, or called by name."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from dataclasses import replace

from bot.answers.alerts.alerts import (
    WHICH,
    decided_card,
    decision_of,
    find_alert,
    find_with_words,
    lately,
    undoable,
)
from bot.cards.alert_words import where
from bot.cards.card import Block, Button, Buttons, Card, Field, FieldKind, Form, Tone, quiet
from bot.cards.lines import quote
from bot.errors import Unavailable, WrongInput
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.alert import Alert, Decision, DecisionKind
from bot.model.request import Request, User
from bot.ports import Ports, StateUpdate

ME = "me"
_ADDRESS = re.compile(r"[a-z]+:\S{1,200}")
"""A person as surfaces write them into a line: `slack:U01BOB`."""
_NAME_MOST = 60
_PEOPLE_MOST = 20


async def find_person(ports: Ports, request: Request, words: str) -> tuple[User, str]:
    """Return who is meant and the note after a mention; a name that nobody has stays a name."""
    people = await asyncio.to_thread(_known, ports, request)
    first, _, note = words.partition(" ")
    first = first.removeprefix("@")
    if first in (ME, request.user.id):
        return request.user, note
    if _ADDRESS.fullmatch(first):
        return await _addressed(ports, first, people), note

    name = " ".join(words.removeprefix("@").split())
    if len(name) > _NAME_MOST:
        raise WrongInput(f"A person's name has {_NAME_MOST} characters at most.", "person")
    called = next((user for user in people if user.name.casefold() == name.casefold()), None)
    if called is None:
        # The settings may give an owner of this name an address, best on the asker's platform.
        asker = request.channel or request.user.id
        called = User(ports.site.current_routes().owner(name, asker), name)

    return called, ""


async def _addressed(ports: Ports, address: str, known: Iterable[User]) -> User:
    """Return the person of an address as their platform names them.

    Raise `WrongInput` where it knows nobody by it.
    """
    platform, _, who = address.partition(":")
    familiar = next((user.name for user in known if user.id == address), "")
    if platform not in ports.site.people:
        if familiar:
            return User(address, familiar)
        raise WrongInput(
            f"Nobody can be reached at '{address[:_NAME_MOST]}'; write a name, me, or mention"
            " somebody.",
            "person",
        )

    try:
        name = await ports.site.people[platform].name(who)
    except Unavailable:
        return User(address, familiar)

    if not name:
        raise WrongInput(
            f"Nobody here is called '{address[:_NAME_MOST]}'; mention a member of your"
            " organization.",
            "person",
        )

    return User(address, name[:_NAME_MOST])


def _known(ports: Ports, request: Request) -> list[User]:
    """Return who asks, and the people who lately decided of alerts or had one, each once."""
    alerts = lately(ports, request.at)
    decisions = ports.stores.alerts.decisions(*(alert.id for alert in alerts))
    decided = (
        User(*who) for x in decisions for who in ((x.assignee, x.assignee_name), (x.by, x.by_name))
    )
    # Who asks stands first, and of several names of a person the newest stays.
    return list({user.id: user for user in (*decided, request.user) if user.id}.values())[::-1]


WHO = arg(
    "",
    "who: me, @somebody and a note, or a name; asks by a form when left out",
    rest=True,
    finds=find_person,
)


@command(
    "assign",
    "Assign an alert to a person, who is mentioned once in its thread.",
    needs=Needs.STATE,
    topic=Topic.ALERTS,
    examples=("assign a1b2c3d4e me", "assign a1b2c3d4e Bob"),
    changes=True,
)
async def assign(
    ports: Ports,
    request: Request,
    name: str = WHICH,
    person: str = WHO,
) -> Card:
    """Assign one alert; without a person, ask for one by a form."""
    # In an alert's thread, `assign @bob` names no alert.
    if name == ME or _ADDRESS.fullmatch(name.removeprefix("@")):
        target = await asyncio.to_thread(find_alert, ports, request, "")
        words = f"{name} {person}".strip()
    else:
        target, words = await asyncio.to_thread(find_with_words, ports, request, name, person)

    if not words:
        return assign_form(target, request.user, await asyncio.to_thread(_known, ports, request))

    whom, note = await find_person(ports, request, words)
    current = target.assigned
    stamp = f"{whom.id}|{whom.name}|{target.assignment.id if target.assignment else ''}"
    decision = replace(
        decision_of(request, target, DecisionKind.ASSIGN, note, stamp),
        assignee=whom.id,
        assignee_name=whom.name,
    )
    await asyncio.to_thread(ports.stores.alerts.save, StateUpdate(decisions=[decision]))
    confirmed = decided_card(
        target, "Assigned to you" if whom.id == request.user.id else f"Assigned to {decision.whom}"
    )
    if not whom.id:
        unreached = quiet(f"No address of {whom.name} is known, so nobody is mentioned.")
        confirmed = replace(confirmed, blocks=(*confirmed.blocks, unreached))

    return undoable(confirmed, _line_of(current) if current else f"unassign {target.id}")


@command(
    "unassign",
    "Take an alert back from the person it is assigned to.",
    needs=Needs.STATE,
    topic=Topic.ALERTS,
    examples=("unassign a1b2c3d4e",),
    changes=True,
)
def unassign(ports: Ports, request: Request, name: str = WHICH) -> Card:
    """Leave one alert with nobody."""
    target = find_alert(ports, request, name)
    current = target.assigned
    if current is None:
        raise WrongInput("The alert is assigned to nobody.")
    decision = replace(
        decision_of(request, target, DecisionKind.UNASSIGN, stamp=current.id),
        assignee=current.assignee,
        assignee_name=current.assignee_name,
    )
    ports.stores.alerts.save(StateUpdate(decisions=[decision]))

    return undoable(
        decided_card(target, f"No longer assigned to {current.whom}"), _line_of(current)
    )


def _line_of(decision: Decision) -> str:
    """Return the line that assigns its alert so again."""
    return f"assign {decision.alert} {quote(decision.assignee or decision.whom)}"


def assign_form(alert: Alert, asker: User, known: Iterable[User]) -> Card:
    """Ask who is to look into the alert.

    Offer whoever is known where the surface has no list of people.
    """
    options = [(ME, f"{asker.name or asker.id} (you)")]
    options += [(user.id, user.name or user.id) for user in known if user.id != asker.id]
    person = Field(
        "person",
        "Who looks into it",
        FieldKind.PERSON,
        "",
        tuple(options[:_PEOPLE_MOST]),
        "they are mentioned once, in the thread of its message",
        required=True,
    )
    blocks: list[Block] = [Form("Assign", f"assign {alert.id}", (person,), "Assign")]
    if current := alert.assigned:
        back = Buttons((Button("Take it back", f"unassign {alert.id}"),))
        blocks = [quiet(f"Assigned to {current.whom} by {current.who}."), back, *blocks]

    return Card(
        f"Assign: {alert.cause.facts.words} · {where(alert)}",
        Tone.INFO,
        tuple(blocks),
        {"alert": alert.id},
    )
