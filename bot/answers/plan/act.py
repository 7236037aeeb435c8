"""Change the fleet by press: prepare and show, confirm, do, and say whether it worked."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import zip_longest
from threading import Lock

from bot.answers.alerts.alerts import find_alert
from bot.answers.plan.planner import Planner
from bot.cards.card import (
    Button,
    Buttons,
    ButtonStyle,
    Card,
    Facts,
    Tone,
    compose,
    quiet,
    text,
)
from bot.cards.columns import DAY, USD, Column, Columns, datum
from bot.cards.words import committed_words
from bot.costs.pricing import HOURS_A_MONTH
from bot.errors import NotAllowed, Refused, TrnbotError, Unavailable, WrongInput, not_known
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.action import Action, ActionKind, ActionState, Progress
from bot.model.money import counted, usd
from bot.model.request import PROGRAM, UNNAMED, Request, Role, User
from bot.model.window import duration_text
from bot.ports import Documents, Ports
from bot.ports.work import audit, permitted
from bot.watch.deliver import surface_of

log = logging.getLogger("trnbot.act")
ACTIONS = Documents("actions", Action)
_FOLLOWED = "actions_followed"
"""Names the actions that every tick looks at; the actions themselves are in their own collection."""
_REMEMBERED = 200
_VALID = timedelta(hours=1)
"""How long what was prepared may be confirmed: the fleet changes meanwhile."""
_SAVES = {ActionKind.DELETE: "saves up to, less what the snapshots cost"}
_STEPPING = Lock()
"""Whoever presses, cancels or takes a step holds it: a lease lets its own process in twice."""
_OFF = (
    "The bot cannot change anything here: TRNBOT_ACT_ROLES names no role that allows it (see"
    " docs/acting.md)."
)
_EFFECTS: Mapping[ActionKind, str] = {
    ActionKind.STOP: "The instances stop and keep their EBS volumes. Their local disks and"
    " memory are lost, and there may be no capacity to start them again.",
    ActionKind.SCALE: "EKS changes the group's desired size; its Auto Scaling group chooses"
    " which nodes to terminate.",
    ActionKind.DELETE: "Each volume is deleted once its snapshot is complete; the snapshots stay"
    " and are billed.",
    ActionKind.CORDON: "Kubernetes places no new pods there; running pods continue. This saves"
    " nothing by itself: it keeps the next job off the node.",
    ActionKind.NOTEBOOK: "The notebook stops and keeps its volume; what is in its memory is lost.",
}


COLUMNS = Columns[Action](
    datum("id", lambda x: x.id),
    Column("when", lambda x: x.at, DAY, "at"),
    Column("what", lambda x: x.title),
    datum("kind", lambda x: x.kind.value),
    datum("targets", lambda x: list(x.targets)),
    datum("nodes", lambda x: x.size, "the nodes that the group is to have, as typed or suggested"),
    Column(
        "costs $/h",
        lambda x: x.usd_per_hour,
        USD,
        "usd_per_hour",
        "sum over its things of the price of an hour; none where one of them is not known",
    ),
    Column(
        "saves $/h",
        lambda x: x.saved_usd_per_hour,
        USD,
        "saved_usd_per_hour",
        "usd_per_hour less what a commitment bills whether it runs or not",
    ),
    Column("state", lambda x: x.state.value, key="state"),
    Column("pressed by", lambda x: ", ".join(x.confirmed_by), missing=""),
    Column("by its provider", lambda x: x.words, key="words", missing=""),
)


def action_card(
    action: Action, rehearsed: Sequence[str], second_usd: Decimal, *, may: bool
) -> Card:
    """Draw an action that waits: its things, its dollars, and who has to press."""
    price, saved = action.usd_per_hour, action.saved_usd_per_hour
    facts = [("costs", "not known")]
    if price is not None:
        facts = [("costs", f"{usd(price, digits=2)} an hour, {usd(price * HOURS_A_MONTH)} a month")]
    if action.kind is not ActionKind.CORDON:
        verb = "adds" if saved < 0 else _SAVES.get(action.kind, "saves")
        facts.append((verb, f"{usd(abs(saved), digits=2)} an hour"))
    second = needs_second(action, second_usd)
    if may and second:
        facts.append(("state", action.state.value if action.pressed else "needs two admins"))
    if action.pressed:
        facts.append(("pressed by", ", ".join(action.confirmed_by)))
    note = "Nothing changes until an admin presses Do it."
    if second:
        note = f"From {usd(second_usd)} a month on, a second admin must press it too."
    committed = price is not None and saved > 0 and committed_words(price, price - saved)
    do = Button("Do it", f"act confirm {action.id}", ButtonStyle.DANGER, confirm=f"{action.title}?")

    return Card(
        f"{action.title}?",
        Tone.WARNING,
        compose(
            text(_EFFECTS[action.kind]),
            Facts(tuple(facts)),
            len(action.targets) > 1 and text(", ".join(action.targets)),
            quiet(" ".join(rehearsed)) if rehearsed else None,
            quiet(committed) if committed else None,
            quiet(note if may else _OFF),
            Buttons((do, Button("Cancel", f"act cancel {action.id}")))
            if may and action.state.waits
            else None,
        ),
        {"action": COLUMNS.record(action)},
        public=bool(action.pressed),
    )


def needs_second(action: Action, second_usd: Decimal) -> bool:
    """Return whether two admins must press: from that sum a month on, or where none is known.

    A cordon ends nothing.
    """
    if action.kind is ActionKind.CORDON or not second_usd:
        return False
    return action.usd_per_hour is None or action.usd_per_hour * HOURS_A_MONTH >= second_usd


def progress_card(action: Action) -> Card:
    """Draw how far an action is that admins pressed for."""
    tones = {ActionState.WORKED: Tone.GOOD, ActionState.FAILED: Tone.ERROR}
    saved = action.saved_usd_per_hour
    worth = ""
    if saved > 0 and action.state is ActionState.WORKED:
        up_to = "up to " if action.kind in _SAVES else ""
        worth = f" · {up_to}{usd(saved)} an hour saved"
    pressed = "Pressed"
    if (action.by,) != action.pressed:
        pressed = f"Prepared by {action.who}, pressed"
    return Card(
        f"{action.title}: {action.state}{worth}",
        tones.get(action.state, Tone.INFO),
        compose(
            text(action.words) if action.words else None,
            quiet(f"{pressed} by {' and '.join(action.confirmed_by) or 'nobody'}."),
            Buttons((Button("Actions", "act list"),)),
        ),
        {"action": COLUMNS.record(action)},
        public=not action.private,
    )


@command(
    "act",
    "Prepare a change to the fleet that ends an alert or carries out a suggestion: what it would"
    " do, to what, and the dollars; nothing changes until admins press.",
    needs=Needs.METRICS | Needs.DETECTOR | Needs.STATE,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=(
        "act a1b2c3d4e",
        "act stop i-0a1b2c3d4e5f60718",
        "act scale llama/trn nodes=4",
        "act delete vol-0a1b2c3d4e5f60718",
        "act cordon i-0a1b2c3d4e5f60718",
        "act notebook trial region=us-west-2",
    ),
    who=Role.ADMIN,
    changes=True,
    previews=True,
    figures=COLUMNS.sources("action"),
)
def act(
    ports: Ports,
    request: Request,
    what: str = arg(None, "an alert, or stop, scale, delete, cordon or notebook"),
    targets: str = arg(
        "", "ids of nodes or volumes, CLUSTER/GROUP, or a notebook's name", rest=True
    ),
) -> Card:
    """Weigh it by the newest readings, have the provider rehearse it, and keep it for a press."""
    words = targets.replace(",", " ").split()
    named = dict(word.split("=", 1) for word in words if "=" in word)
    names = [word for word in words if "=" not in word]
    if unknown := named.keys() - {"nodes", "region"}:
        raise WrongInput(f"'act' knows nodes= and region=, and no '{sorted(unknown)[0]}='.")

    planner = Planner(ports, request)
    if what in set(ActionKind):
        nodes = named.get("nodes", "0")
        if not nodes.isdecimal() or len(nodes) > 4:
            raise WrongInput(f"'{nodes}' is not a number of nodes; write nodes=4.", "nodes")
        size = int(nodes) if "nodes" in named else None
        action = planner.of(ActionKind(what), names, size, named.get("region", ""))
    elif words:
        raise not_known(f"'{what}' is not a kind of action", what, list(ActionKind), most=9)
    else:
        action = planner.of_alert(find_alert(ports, request, what))

    rehearsed: Sequence[str] = ()
    if actions := ports.world.actions:
        rehearsed = actions.rehearse(action)
        ACTIONS.put(ports.stores.documents, action.id, action)
        for name, older in ACTIONS.newest(ports.stores.documents, 2 * _REMEMBERED)[_REMEMBERED:]:
            if older.state is not ActionState.UNDER_WAY:
                ACTIONS.drop(ports.stores.documents, name)
    return action_card(action, rehearsed, ports.site.second_usd, may=actions is not None)


def _kept(ports: Ports, name: str) -> Action:
    """Return an action by its id; raise `WrongInput` for an unknown one."""
    action = ACTIONS.get(ports.stores.documents, name)
    if action is None:
        raise not_known(
            f"There is no action '{name}'",
            name,
            ACTIONS.keys(ports.stores.documents, _REMEMBERED),
            most=4,
            otherwise="'act list' lists them",
        )
    return action


@command(
    "act confirm",
    "Do what was prepared; above a set amount it takes two admins.",
    needs=Needs.METRICS | Needs.DETECTOR | Needs.STATE,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=("act confirm x1234abcd",),
    who=Role.ADMIN,
    hidden=True,
    changes=True,
    figures=COLUMNS.sources("action"),
)
def act_confirm(ports: Ports, request: Request, name: str = arg(None, "the action's id")) -> Card:
    """Weigh it anew, note who pressed, and begin it once enough admins did."""
    _kept(ports, name)
    if ports.world.actions is None:
        raise Unavailable(_OFF)
    if request.user.name == UNNAMED or request.user.id.startswith(PROGRAM):
        raise NotAllowed("Whoever presses must be known by name: sign in, or press in a chat.")
    with _alone(ports, name):
        action = _confirmed(ports, request, _kept(ports, name))
    return _card(ports, action)


def _card(ports: Ports, action: Action) -> Card:
    if not action.state.waits:
        return progress_card(action)
    return action_card(action, (), ports.site.second_usd, may=ports.world.actions is not None)


@contextmanager
def _alone(ports: Ports, name: str) -> Iterator[None]:
    """Let nobody else press for, cancel or take a step of an action; raise `Unavailable` if one does."""
    outbox, lock = ports.stores.outbox, f"act {name}"
    if not _STEPPING.acquire(blocking=False):
        raise Unavailable("Somebody else has just pressed; 'act list' shows the outcome.")
    try:
        token = outbox.hold(lock)
        if not token:
            raise Unavailable("Another process is doing it; 'act list' shows the outcome.")
        try:
            yield
        finally:
            outbox.release(lock, token)
    finally:
        _STEPPING.release()


def _confirmed(ports: Ports, request: Request, action: Action) -> Action:
    """Return the action after a press, which is refused where the fleet changed since."""
    if not action.state.waits:
        return action
    if request.at - action.at > _VALID:
        raise WrongInput(
            f"It was prepared {duration_text(request.at - action.at)} ago; prepare it again."
        )
    user, person = request.user, person_of(action, request.user)
    refuse_same_person(action, user.id, person)
    weighed = Planner(ports, request).of(
        action.kind, action.targets, action.size, action.place.region
    )

    channel, thread, private = request.channel, request.thread, request.belonging.shared
    if private or not channel:
        channel, thread = user.id, ""
    action = replace(
        action,
        usd_per_hour=weighed.usd_per_hour,
        saved_usd_per_hour=weighed.saved_usd_per_hour,
        pressed=(*action.pressed, user.id),
        confirmed_by=(*action.confirmed_by, user.name or user.id),
        people=(*action.people, person),
        channel=channel,
        thread=thread,
        private=private,
    )
    if needs_second(action, ports.site.second_usd) and len(action.pressed) < 2:
        action = replace(action, state=ActionState.CONFIRMED)
        ACTIONS.put(ports.stores.documents, action.id, action)
        return action

    # Written first: what a kill cuts off here, the next tick goes on with.
    ports.stores.documents.put(_FOLLOWED, action.id, {})
    action = replace(action, state=ActionState.UNDER_WAY, began_at=request.at, words="")
    ACTIONS.put(ports.stores.documents, action.id, action)
    action = advanced(ports, action, request.at)
    if action.state.ended:
        # Whoever pressed reads it in the answer.
        _close(ports, action)
    return action


def _close(ports: Ports, action: Action) -> None:
    """Keep that those who pressed know what came of an action: nothing more is to be done."""
    ACTIONS.put(ports.stores.documents, action.id, replace(action, answered=True))
    ports.stores.documents.drop(_FOLLOWED, action.id)


def person_of(action: Action, user: User) -> str:
    """Return a stamp that tells a person apart in one action, "" where their e-mail address is not known."""
    stamp = f"{action.id} {user.email}"
    return hashlib.sha256(stamp.encode()).hexdigest()[:16] if user.email else ""


def refuse_same_person(action: Action, address: str, person: str) -> None:
    """Raise `NotAllowed` where who presses did so before, or may have under another address.

    Two accounts of one platform are two people, unless their e-mail addresses are the same; those
    of two platforms are only where both e-mail addresses are known.
    """
    for pressed, presser in zip_longest(action.pressed, action.people, fillvalue=""):
        if address == pressed or (person and person == presser):
            raise NotAllowed("You have pressed already; a second admin must press it too.")
        platforms = [x.partition(":")[0] for x in (pressed, address)]
        if platforms[0] != platforms[1] and not (person and presser):
            unknown = platforms[1] if presser else platforms[0]
            raise NotAllowed(
                f"The first press came from {platforms[0]} and yours comes from {platforms[1]}, and"
                f" {unknown} does not say who has which e-mail address: you may be the same person."
                f" Press in {platforms[0]}, or let another admin do it there."
            )


def advanced(ports: Ports, action: Action, now: datetime) -> Action:
    """Take an action a step further and keep how far it is; may block.

    It has failed where the provider refuses it. Once its time is over nothing more is ordered: the
    fleet is another by then.
    """
    assert ports.world.actions is not None
    patience = action.kind.patience
    if now - (action.began_at or now) > patience:
        progress = Progress(
            ActionState.FAILED,
            f"No effect was seen within {duration_text(patience)}. {action.words}",
        )
    else:
        try:
            progress = ports.world.actions.advance(action)
        except (Refused, WrongInput) as error:
            progress = Progress(ActionState.FAILED, str(error))
        except TrnbotError as error:
            progress = Progress(ActionState.UNDER_WAY, str(error))

    action = replace(
        action,
        state=progress.state,
        words=progress.words,
        ordered=tuple(dict.fromkeys((*action.ordered, *progress.ordered))),
    )
    ACTIONS.put(ports.stores.documents, action.id, action)
    if action.state.ended:
        audit(
            "action",
            progress.state.value,
            User(action.pressed[-1] if action.pressed else action.by),
            line=action.title,
            because=progress.words,
        )
    return action


@command(
    "act cancel",
    "Discard a prepared action; one that is under way continues.",
    needs=Needs.DATABASE,
    topic=Topic.PLANS,
    examples=("act cancel x1234abcd",),
    who=Role.ADMIN,
    hidden=True,
    changes=True,
)
def act_cancel(ports: Ports, request: Request, name: str = arg(None, "the action's id")) -> Card:
    """Keep that it was cancelled; nothing changes."""
    _kept(ports, name)
    with _alone(ports, name):
        action = _kept(ports, name)
        if not action.state.waits:
            raise WrongInput(f"It is {action.state} already; nothing was cancelled.")
        action = replace(action, state=ActionState.CANCELLED, words="", answered=True)
        ACTIONS.put(ports.stores.documents, name, action)
    return progress_card(action)


@command(
    "act show",
    "One action: what it changes, its dollars, and who pressed.",
    needs=Needs.DATABASE,
    topic=Topic.PLANS,
    examples=("act show x1234abcd",),
    hidden=True,
    figures=COLUMNS.sources("action"),
)
def act_show(ports: Ports, request: Request, name: str = arg(None, "the action's id")) -> Card:
    """Show one by its id, with its buttons while it waits."""
    return _card(ports, _kept(ports, name))


@command(
    "act list",
    "What the bot changed or was asked to change, who pressed, and whether it worked.",
    needs=Needs.DATABASE,
    topic=Topic.PLANS,
    examples=("act list",),
    aliases=("actions",),
    rows=("actions",),
    figures=COLUMNS.sources("actions"),
)
def act_list(ports: Ports, request: Request) -> Card:
    """List them, the newest first."""
    newest = (action for _, action in ACTIONS.newest(ports.stores.documents, _REMEMBERED))
    actions = sorted(newest, key=lambda action: action.at, reverse=True)
    waiting = [action for action in actions if action.state.waits]
    title = counted(len(actions), "action") + (f", {len(waiting)} to decide" if waiting else "")
    return Card(
        title if actions else "No action",
        Tone.INFO,
        compose(
            COLUMNS.table(actions, most=20) if actions else text("Nobody has prepared one."),
            quiet(_OFF) if ports.world.actions is None else None,
            Buttons(tuple(Button(f"Show: {x.title}", f"act show {x.id}") for x in waiting[:3]))
            if waiting
            else None,
        ),
        {"actions": COLUMNS.data(actions)},
    )


async def advance_due(ports: Ports, now: datetime) -> tuple[str, ...]:
    """Take all that is under way a step further, and tell the outcome where it was pressed.

    Returns a sentence for each channel that could not be told; the next tick tells it.
    """
    if ports.world.actions is None:
        return ()
    followed = await asyncio.to_thread(ports.stores.documents.newest, _FOLLOWED, _REMEMBERED)
    failed = []
    for name, _ in followed:
        action = None
        try:
            action = await asyncio.to_thread(_stepped, ports, name, now)
            if action and action.state.ended:
                await _answer(ports, action)
        # One that fails in whatever way keeps neither the others nor the tick.
        except Exception as error:  # noqa: BLE001,RUF100
            title, channel = (action.title, action.channel) if action else (name, "actions")
            log.warning("%s was not followed: %s", title, error)
            failed.append(f"{channel}: {error}")
    return tuple(failed)


def _stepped(ports: Ports, name: str, now: datetime) -> Action | None:
    """Take the next step of an action as it stands now; None where nothing of it is to follow."""
    with _alone(ports, name):
        action = ACTIONS.get(ports.stores.documents, name)
        # A kill between the two writes of a press leaves a name that nothing follows from.
        if action is None or action.state.waits or action.answered:
            ports.stores.documents.drop(_FOLLOWED, name)
            return None
        if action.state is ActionState.UNDER_WAY:
            action = advanced(ports, action, now)
    return action


async def _answer(ports: Ports, action: Action) -> None:
    """Tell the outcome of an action once, where it was pressed, or to who pressed alone."""
    if action.channel.partition(":")[0] in ports.site.surfaces:
        surface, channel = surface_of(action.channel, ports.site.surfaces)
        card, key = progress_card(action), f"act-{action.id}"
        # It may be there already, after a crash before that was written.
        if key not in await surface.posted(channel, action.thread):
            await permitted()
            if action.thread:
                await surface.reply(channel, action.thread, card, key)
            else:
                await surface.post(channel, card, key)
    await asyncio.to_thread(_close, ports, action)
