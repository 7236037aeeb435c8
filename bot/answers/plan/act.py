"""Change the fleet by press: prepare and show, confirm, do, and say whether it worked."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from bot.answers.alerts.alerts import find_alert
from bot.answers.cost.storage import unused_of
from bot.answers.fleet.card import NodeRow
from bot.answers.fleet.command import look_over
from bot.cards.card import (
    Button,
    Buttons,
    ButtonStyle,
    Card,
    Facts,
    Tone,
    compose,
    detail,
    quiet,
    text,
)
from bot.cards.columns import DAY, USD, Column, Columns, datum
from bot.cards.words import committed_words
from bot.costs.pricing import HOURS_A_MONTH, Pricing
from bot.errors import TrnbotError, Unavailable, WrongInput, nearest
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.action import Action, ActionKind, ActionState, Progress
from bot.model.alert import Alert
from bot.model.causes import Cause
from bot.model.fleet import LauncherKind, Market, Volume
from bot.model.labels import Labels
from bot.model.money import counted, usd
from bot.model.request import Request, Role, User
from bot.model.window import Window, duration_text
from bot.ports import Documents, Ports
from bot.ports.work import audit, permitted
from bot.watch.deliver import surface_of

log = logging.getLogger("trnbot.act")
ACTIONS = Documents("actions", Action)
_REMEMBERED = 200
_VALID = timedelta(hours=1)
"""How long what was prepared may be confirmed: the fleet changes meanwhile."""
_MOST = 100
"""Things that one press may touch."""
_OFF = (
    "The bot may change nothing here: TRNBOT_ACT_ROLES names no role that may"
    " (docs/acting.md says how to give it one)."
)
_EFFECTS: Mapping[ActionKind, str] = {
    ActionKind.STOP: "The instances stop and keep their volumes; starting them again takes minutes,"
    " and trn capacity may be gone by then.",
    ActionKind.SCALE: "EKS changes the group's desired size; its Auto Scaling group chooses which"
    " nodes end.",
    ActionKind.DELETE: "Each volume is deleted once a snapshot of it is whole; the snapshots stay,"
    " and are billed.",
    ActionKind.CORDON: "Kubernetes places no new pod there; those that run go on. Nothing is"
    " saved by it; the next job does not meet the node.",
    ActionKind.NOTEBOOK: "The notebook stops and keeps its volume; what it holds in memory is gone.",
}


class Plan:
    """Decide whether an action is safe by what is read now; every refusal is one sentence."""

    def __init__(self, ports: Ports, request: Request) -> None:
        self._ports, self._request = ports, request
        self._nodes, self._reading = look_over(ports, request.at)
        self._pricing = Pricing(ports).at(request.at)

    def of_alert(self, alert: Alert) -> Action:
        """Return what would end an alert; raise `WrongInput` where nothing here would."""
        anomaly, kind = alert.anomaly, alert.cause.facts.action
        if kind is None:
            ways = ", ".join(str(cause) for cause in Cause if cause.facts.action)
            raise WrongInput(
                f"Nothing that the bot may do ends '{alert.cause.facts.words}'; it acts on: {ways}."
            )
        if kind is ActionKind.CORDON:
            return self.of(kind, (anomaly.suspect,) if anomaly.suspect else anomaly.things)
        if kind is not ActionKind.STOP:
            return self.of(kind, anomaly.things)

        rows = [row for row in self._nodes if row.instance.id in anomaly.things and row.free]
        groups = {
            f"{row.instance.labels.cluster}/{row.instance.node_group}"
            for row in rows
            if row.instance.node_group
        }
        if not rows:
            raise WrongInput("None of the alert's nodes does nothing any more.")
        if len(groups) == 1:
            (group,) = groups
            return self.of(ActionKind.SCALE, (group,), len(self._of_group(group)) - len(rows))
        return self.of(kind, [row.instance.id for row in rows])

    def of(
        self, kind: ActionKind, targets: Sequence[str], size: int | None = None, region: str = ""
    ) -> Action:
        """Return the action that was asked for; raise `WrongInput` where it would do harm."""
        if not 0 < len(targets) <= _MOST:
            raise WrongInput(
                f"'act {kind}' takes 1 to {_MOST} things to act on; got {len(targets)}."
            )
        weigh: Mapping[ActionKind, Callable[..., Action]] = {
            ActionKind.STOP: self._stop,
            ActionKind.SCALE: self._scale,
            ActionKind.DELETE: self._delete,
            ActionKind.CORDON: self._cordon,
            ActionKind.NOTEBOOK: self._notebook,
        }
        targets = tuple(dict.fromkeys(targets))
        return weigh[kind](targets, size, region)

    def _stop(self, targets: Sequence[str], _: int | None, __: str) -> Action:
        """Stop nodes that a rule says do nothing, and that nothing would start anew."""
        rows = self._rows(targets)
        for row in rows:
            node = row.instance
            if not row.free:
                raise WrongInput(
                    f"{node.id} is not known to do nothing ({row.state}): nothing was prepared."
                )
            if node.node_group or ((by := node.launched_by) and by.kind is LauncherKind.MACHINE):
                group = node.node_group and f"{node.labels.cluster}/{node.node_group}"
                way = f"try 'act scale {group} nodes=N'" if group else "scale that down instead"
                raise WrongInput(
                    f"{node.id} was launched by {node.launched_by or group}, which would start"
                    f" another one; {way}."
                )
            if node.market is Market.SPOT:
                raise WrongInput(f"{node.id} is a spot instance, and those cannot be stopped.")
        return self._action(ActionKind.STOP, targets, rows)

    def _scale(self, targets: Sequence[str], size: int | None, _: str) -> Action:
        """Give one group another number of nodes; a smaller one only where none of them works."""
        name = targets[0]
        groups = {
            f"{cluster.name}/{group.name}": (cluster.labels, group.desired)
            for cluster in self._reading.inventory.eks
            for group in cluster.node_groups
        }
        if name not in groups or len(targets) > 1:
            hint = nearest(name, groups, most=8, otherwise="write CLUSTER/GROUP")
            raise WrongInput(f"No managed node group of EKS is called '{name}'{hint}.")
        if size is None:
            raise WrongInput(f"How many nodes? Write: act scale {name} nodes=N.", "nodes")

        # Nobody can vouch for a node that is not known to be the group's.
        (place, desired), rows = groups[name], self._of_group(name)
        working = [row.instance.id for row in rows if not row.free]
        unknown = max(0, desired - len(rows))
        if size < desired and (working or unknown):
            first = f"{working[0]} for one" if working else f"{unknown} are not known by name"
            raise WrongInput(
                f"{counted(len(working) + unknown, 'node')} of {name} may work ({first}), and its"
                " Auto Scaling group would choose which end: nothing was prepared."
            )
        # Priced by the mean of the nodes it has, since nobody knows which end.
        fewer, (price, saved) = desired - size, self._mean(rows)
        amounts = abs(fewer) * price, fewer * saved
        return self._made(ActionKind.SCALE, (name,), place, size, amounts)

    def _delete(self, targets: Sequence[str], _: int | None, __: str) -> Action:
        """Delete volumes that have been attached to nothing for as long as the rule waits."""
        waits = self._ports.policy.duration("orphaned_storage.for")
        unused = {x.thing.labels.resource: x for x in unused_of(self._reading, self._pricing)}
        old = [unused[name] for name in targets if name in unused]
        for name in targets:
            if name in unused and not isinstance(unused[name].thing, Volume):
                raise WrongInput(f"{name} is a file system, and the bot deletes none.")
            if name not in unused:
                hint = nearest(name, unused, most=0, otherwise="'storage' lists them")
                raise WrongInput(f"'{name}' is no volume that nobody uses{hint}.")
            if unused[name].since > self._request.at - waits:
                raise WrongInput(
                    f"{name} was attached until {unused[name].since:%Y-%m-%d %H:%M} UTC; the rule"
                    f" waits {duration_text(waits)}."
                )
        price = sum((x.price.usd_per_hour for x in old if x.price), Decimal(0))
        place = self._one_place([x.thing.labels for x in old])
        return self._made(ActionKind.DELETE, targets, place, None, (price, price))

    def _cordon(self, targets: Sequence[str], _: int | None, __: str) -> Action:
        """Cordon nodes of one cluster of EKS."""
        rows = self._rows(targets)
        known = {cluster.name for cluster in self._reading.inventory.eks}
        clusters = {row.instance.labels.cluster for row in rows}
        if len(clusters) > 1 or not clusters <= known:
            raise WrongInput(
                "Only nodes of one EKS cluster can be cordoned together; these are of"
                f" {', '.join(sorted(clusters)) or 'none'}."
            )
        action = self._action(ActionKind.CORDON, targets, rows)
        return replace(action, saved_usd_per_hour=Decimal(0))

    def _notebook(self, targets: Sequence[str], _: int | None, region: str) -> Action:
        """Stop one notebook; its price is what the bill says of its last week."""
        places = {
            (labels.account, labels.region)
            for labels in (row.instance.labels for row in self._nodes)
            if region in ("", labels.region)
        }
        if len(places) != 1 or len(targets) > 1:
            raise WrongInput(
                "Name one notebook and its region: act notebook NAME region=us-west-2.", "region"
            )
        ((account, where),) = places
        week = Window(self._request.at - timedelta(days=7), self._request.at)
        rows = self._ports.world.billing.tally(week, ("resource",)).rows
        mine = [row for row in rows if row.key["resource"].endswith(f"/{targets[0].lower()}")]
        hours = max((row.hours for row in mine), default=0.0)
        paid = sum((row.money.amortised for row in mine), Decimal(0))
        price = paid / Decimal(str(hours)) if hours else Decimal(0)
        place = Labels(account=account, region=where)
        return self._made(ActionKind.NOTEBOOK, targets, place, None, (price, price))

    def _rows(self, targets: Sequence[str]) -> list[NodeRow]:
        known = {row.instance.id: row for row in self._nodes}
        for name in targets:
            if name not in known:
                hint = nearest(name, known, most=0, otherwise="'fleet' lists them")
                raise WrongInput(f"No node that runs is called '{name}'{hint}.")
        return [known[name] for name in targets]

    def _of_group(self, name: str) -> list[NodeRow]:
        """Return the nodes of `CLUSTER/GROUP` that run."""
        return [
            row
            for row in self._nodes
            if f"{row.instance.labels.cluster}/{row.instance.node_group}" == name
        ]

    def _action(self, kind: ActionKind, targets: Sequence[str], rows: Sequence[NodeRow]) -> Action:
        """Price what is touched by its nodes."""
        price, saved = (len(rows) * mean for mean in self._mean(rows))
        place = self._one_place([row.instance.labels for row in rows])
        return self._made(kind, targets, place, None, (price, saved))

    def _mean(self, rows: Sequence[NodeRow]) -> tuple[Decimal, Decimal]:
        """Return the mean USD of an hour of nodes, and what of it stopping one saves.

        What is committed is billed all the same.
        """
        price = sum((row.usd_per_hour for row in rows), Decimal(0))
        committed = sum((row.committed_usd_per_hour for row in rows), Decimal(0))
        n = max(1, len(rows))
        return price / n, (price - committed) / n

    def _one_place(self, labels: Sequence[Labels]) -> Labels:
        """Return the account, region and cluster of all; raise `WrongInput` for several places."""
        places = {x.only(("account", "region", "cluster")) for x in labels}
        accounts = {(x.account, x.region) for x in places}
        if len(accounts) > 1:
            raise WrongInput("One press acts in one account and region; name fewer things.")
        if len(places) == 1:
            return next(iter(places))
        return next(iter(places)).only(("account", "region"))

    def _made(
        self,
        kind: ActionKind,
        targets: Sequence[str],
        place: Labels,
        size: int | None,
        amounts: tuple[Decimal, Decimal],
    ) -> Action:
        request, (price, saved) = self._request, amounts
        stamp = repr((request.at, request.user.id, kind, targets, size))
        return Action(
            id="x" + hashlib.sha256(stamp.encode()).hexdigest()[:8],
            kind=kind,
            targets=tuple(targets),
            place=place,
            size=size,
            usd_per_hour=price,
            saved_usd_per_hour=saved,
            at=request.at,
            by=request.user.id,
            by_name=request.user.name,
            channel=request.channel,
            thread=request.thread,
        )


COLUMNS = Columns[Action](
    datum("id", lambda x: x.id),
    Column("when", lambda x: x.at, DAY, "at"),
    Column("what", lambda x: x.title),
    datum("kind", lambda x: x.kind.value),
    datum("targets", lambda x: list(x.targets)),
    datum("nodes", lambda x: x.size),
    Column(
        "costs $/h",
        lambda x: x.usd_per_hour,
        USD,
        "usd_per_hour",
        "sum over its things of the price of an hour",
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
    """Draw what would be done, to which things, for how many dollars, and who has to press."""
    price, saved = action.usd_per_hour, action.saved_usd_per_hour
    month = price * HOURS_A_MONTH
    facts = [("costs", f"{usd(price, digits=2)} an hour, {usd(month)} a month")]
    if action.kind is not ActionKind.CORDON:
        facts.append(("saves" if saved >= 0 else "adds", f"{usd(abs(saved), digits=2)} an hour"))
    state = action.state.value
    if second := needs_second(action, second_usd):
        state = "two admins have to press" if not action.pressed else state
    facts.append(("state", state))
    buttons = (
        Button("Do it", f"act confirm {action.id}", ButtonStyle.DANGER, confirm=f"{action.title}?"),
        Button("Cancel", f"act cancel {action.id}"),
    )
    blocks = compose(
        text(_EFFECTS[action.kind]),
        Facts(tuple(facts)),
        len(action.targets) > 1 and detail(", ".join(action.targets)),
        quiet(" ".join(rehearsed)) if rehearsed else None,
        quiet(words) if (words := committed_words(price, price - saved)) and saved > 0 else None,
        quiet(
            f"From {usd(second_usd)} a month on, a second admin has to press as well."
            if second
            else "Nothing changes before an admin presses."
        )
        if may
        else quiet(_OFF),
        Buttons(buttons) if may and action.state.waits else None,
    )
    return Card(f"{action.title}?", Tone.WARNING, blocks, {"action": COLUMNS.record(action)})


def needs_second(action: Action, second_usd: Decimal) -> bool:
    """Return whether what ends costs so much that two admins have to press; a cordon ends nothing."""
    if action.kind is ActionKind.CORDON:
        return False
    return second_usd > 0 and action.usd_per_hour * HOURS_A_MONTH >= second_usd


def progress_card(action: Action) -> Card:
    """Draw how far an action is that admins pressed for."""
    tones = {ActionState.WORKED: Tone.GOOD, ActionState.FAILED: Tone.ERROR}
    saved = action.saved_usd_per_hour
    worth = (
        f" · {usd(saved)} an hour saved" if saved > 0 and action.state is ActionState.WORKED else ""
    )
    title = f"{action.title}: {action.state}{worth}"
    pressed = " and ".join(action.confirmed_by) or "nobody"
    blocks = compose(
        text(action.words) if action.words else None,
        quiet(f"Prepared by {action.who}, pressed by {pressed}."),
        Buttons((Button("Actions", "act list"),)),
    )
    data = {"action": COLUMNS.record(action)}
    return Card(title, tones.get(action.state, Tone.INFO), blocks, data, public=True)


@command(
    "act",
    "Prepare a change of the fleet that ends an alert or carries out a suggestion: what it would"
    " do, to which things, for how many dollars; nothing changes before admins press.",
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
    what: str = arg(None, "an alert, or: stop, scale, delete, cordon, notebook"),
    targets: str = arg(
        "", "ids of nodes or volumes, CLUSTER/GROUP, or a notebook's name", rest=True
    ),
) -> Card:
    """Weigh it by what is read now, have the provider rehearse it, and keep it to be confirmed."""
    words = targets.replace(",", " ").split()
    named = dict(word.split("=", 1) for word in words if "=" in word)
    names = [word for word in words if "=" not in word]
    if unknown := named.keys() - {"nodes", "region"}:
        raise WrongInput(f"'act' knows nodes= and region=, and no '{sorted(unknown)[0]}='.")

    plan = Plan(ports, request)
    if what in set(ActionKind):
        size = _size(named["nodes"]) if "nodes" in named else None
        action = plan.of(ActionKind(what), names, size, named.get("region", ""))
    elif words:
        hint = nearest(what, list(ActionKind), most=9)
        raise WrongInput(f"'{what}' is no kind of action{hint}.")
    else:
        action = plan.of_alert(find_alert(ports, request, what))

    rehearsed: Sequence[str] = ()
    if actions := ports.world.actions:
        rehearsed = actions.rehearse(action)
        ACTIONS.put(ports.stores.documents, action.id, action)
        for name in ACTIONS.keys(ports.stores.documents, 2 * _REMEMBERED)[_REMEMBERED:]:
            ACTIONS.drop(ports.stores.documents, name)
    return action_card(action, rehearsed, ports.site.second_usd, may=actions is not None)


def _size(text: str) -> int:
    if not text.isdecimal() or len(text) > 4:
        raise WrongInput(f"'{text}' is no number of nodes; write nodes=4.", "nodes")
    return int(text)


def _kept(ports: Ports, name: str) -> Action:
    """Return an action by its id; raise `WrongInput` for an unknown one."""
    action = ACTIONS.get(ports.stores.documents, name)
    if action is None:
        known = ACTIONS.keys(ports.stores.documents, _REMEMBERED)
        hint = nearest(name, known, most=4, otherwise="'act list' lists them")
        raise WrongInput(f"There is no action '{name}'{hint}.")
    return action


@command(
    "act confirm",
    "Do what was prepared; from a set sum on it takes the presses of two admins.",
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
    outbox, lock = ports.stores.outbox, f"act {name}"
    token = outbox.hold(lock)
    if not token:
        raise Unavailable(
            "Somebody else presses for it right now; 'act list' says what came of it."
        )
    try:
        return progress_card(_confirmed(ports, request, _kept(ports, name)))
    finally:
        outbox.release(lock, token)


def _confirmed(ports: Ports, request: Request, action: Action) -> Action:
    """Return the action after a press, which is refused where the fleet changed since."""
    if not action.state.waits:
        return action
    if request.at - action.at > _VALID:
        raise WrongInput(
            f"It was prepared {duration_text(request.at - action.at)} ago; prepare it again."
        )
    if request.user.id in action.pressed:
        raise WrongInput("You pressed already; a second admin has to press as well.")
    Plan(ports, request).of(action.kind, action.targets, action.size, action.place.region)

    user = request.user
    action = replace(
        action,
        pressed=(*action.pressed, user.id),
        confirmed_by=(*action.confirmed_by, user.name or user.id),
        channel=request.channel or action.channel,
        thread=request.thread or action.thread,
    )
    if needs_second(action, ports.site.second_usd) and len(action.pressed) < 2:
        words = (
            f"What it touches costs {usd(action.usd_per_hour * HOURS_A_MONTH)} a month, so a second"
            " admin has to press 'Do it' as well."
        )
        action = replace(action, state=ActionState.CONFIRMED, words=words)
        ACTIONS.put(ports.stores.documents, action.id, action)
        return action

    # Written first: what a kill cuts off here, the next tick goes on with.
    action = replace(action, state=ActionState.UNDER_WAY, began_at=request.at, words="")
    ACTIONS.put(ports.stores.documents, action.id, action)
    return advanced(ports, action, request.at)


def advanced(ports: Ports, action: Action, now: datetime) -> Action:
    """Take an action a step further and keep how far it is; may block.

    It has failed where the provider refuses it at the first step, and where its time is over.
    """
    assert ports.world.actions is not None
    began = action.began_at or now
    try:
        progress = ports.world.actions.advance(action)
    except TrnbotError as error:
        # Refused at once it was never begun; later a tick may find the provider away.
        refused = now == began or now - began > action.kind.patience
        progress = Progress(ActionState.FAILED if refused else ActionState.UNDER_WAY, str(error))
    if progress.state is ActionState.UNDER_WAY and now - began > action.kind.patience:
        words = f"It has not worked within {duration_text(action.kind.patience)}: {progress.words}"
        progress = Progress(ActionState.FAILED, words)
    action = replace(action, state=progress.state, words=progress.words)
    ACTIONS.put(ports.stores.documents, action.id, action)
    if progress.state is not ActionState.UNDER_WAY:
        who = User(action.pressed[-1] if action.pressed else action.by)
        audit("action", progress.state.value, who, line=action.title, because=progress.words)
    return action


@command(
    "act cancel",
    "Discard what was prepared; what is under way goes on.",
    needs=Needs.DATABASE,
    topic=Topic.PLANS,
    examples=("act cancel x1234abcd",),
    who=Role.ADMIN,
    hidden=True,
    changes=True,
)
def act_cancel(ports: Ports, request: Request, name: str = arg(None, "the action's id")) -> Card:
    """Keep that it was cancelled; nothing changes."""
    action = _kept(ports, name)
    if not action.state.waits:
        raise WrongInput(f"It is {action.state} already; nothing was cancelled.")
    action = replace(action, state=ActionState.CANCELLED, words="")
    ACTIONS.put(ports.stores.documents, name, action)
    return progress_card(action)


@command(
    "act list",
    "What the bot changed or was asked to, who pressed, and whether it worked.",
    needs=Needs.DATABASE,
    topic=Topic.PLANS,
    examples=("act list",),
    aliases=("actions",),
    rows=("actions",),
    figures=COLUMNS.sources("actions"),
)
def act_list(ports: Ports, request: Request) -> Card:
    """List them, the newest first."""
    actions = [action for _, action in ACTIONS.newest(ports.stores.documents, _REMEMBERED)]
    actions.sort(key=lambda action: action.at, reverse=True)
    waiting = [action for action in actions if action.state.waits]
    blocks = compose(
        COLUMNS.table(actions, most=20) if actions else text("Nobody has prepared one."),
        quiet(_OFF) if ports.world.actions is None else None,
        Buttons(tuple(Button(f"Do it: {x.title}", f"act confirm {x.id}") for x in waiting[:3]))
        if waiting
        else None,
    )
    title = f"{counted(len(actions), 'action')}, {len(waiting)} of them not decided"
    return Card(
        title if actions else "No action", Tone.INFO, blocks, {"actions": COLUMNS.data(actions)}
    )


async def advance_due(ports: Ports, now: datetime) -> tuple[str, ...]:
    """Take what is under way a step further, and say where it was pressed what came of it.

    Returns a sentence for each channel that could not be told.
    """
    if ports.world.actions is None:
        return ()
    newest = await asyncio.to_thread(ACTIONS.newest, ports.stores.documents, _REMEMBERED)
    failed = []
    for _, begun in newest:
        if begun.state is not ActionState.UNDER_WAY:
            continue
        action = await asyncio.to_thread(advanced, ports, begun, now)
        if action.state is ActionState.UNDER_WAY or not action.channel:
            continue
        try:
            surface, channel = surface_of(action.channel, ports.site.surfaces)
            await permitted()
            card, key = progress_card(action), f"act-{action.id}"
            if action.thread:
                await surface.reply(channel, action.thread, card, key)
            else:
                await surface.post(channel, card, key)
        except (TrnbotError, OSError, TimeoutError) as error:
            log.warning("what came of %s was not told: %s", action.title, error)
            failed.append(f"{action.channel}: {error}")
    return tuple(failed)
