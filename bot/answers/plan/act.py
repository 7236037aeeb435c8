"""Change the fleet by press: prepare and show, confirm, do, and say whether it worked."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from threading import Lock

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
    quiet,
    text,
)
from bot.cards.columns import DAY, USD, Column, Columns, datum
from bot.cards.words import committed_words
from bot.costs.pricing import HOURS_A_MONTH, Pricing
from bot.errors import NotAllowed, Refused, TrnbotError, Unavailable, WrongInput, nearest
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.action import Action, ActionKind, ActionState, Progress
from bot.model.alert import Alert
from bot.model.anomaly import NodeState
from bot.model.causes import Cause
from bot.model.fleet import LauncherKind, Market, Volume
from bot.model.labels import Labels
from bot.model.money import counted, usd
from bot.model.request import UNNAMED, Request, Role, User
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
_SAVES = {ActionKind.DELETE: "saves up to, less what the snapshots cost"}
_CLAIMS = {"kubernetes.io/created-for/pvc/name", "ebs.csi.aws.com/cluster", "CSIVolumeName"}
"""Tags by which Kubernetes marks the volumes of its claims (EBS CSI driver, tagging, 2026-11)."""
_NOTEBOOK = re.compile(
    r"(arn:aws[\w-]*:sagemaker:(?P<region>[\w-]+):\d+:notebook-instance/(?P<name>[\w-]+))", re.I
)
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


class Plan:
    """Decide whether an action is safe by the newest readings; every refusal is one sentence."""

    def __init__(self, ports: Ports, request: Request) -> None:
        self._ports, self._request = ports, request
        self._nodes, self._reading = look_over(ports, request.at)
        self._pricing = Pricing(ports).at(request.at)

    def of_alert(self, alert: Alert) -> Action:
        """Return the action that would end an alert; raise `WrongInput` where none would."""
        anomaly, kind = alert.anomaly, alert.cause.facts.action
        if kind is None:
            ways = ", ".join(str(cause) for cause in Cause if cause.facts.action)
            raise WrongInput(
                f"The bot has no action for '{alert.cause.facts.words}'; it has one for: {ways}."
            )
        if kind is ActionKind.CORDON:
            return self.of(kind, (anomaly.suspect,) if anomaly.suspect else anomaly.things)
        if kind is not ActionKind.STOP:
            return self.of(kind, anomaly.things)

        rows = [row for row in self._nodes if row.instance.id in anomaly.things and row.free]
        if not rows:
            raise WrongInput("All nodes of the alert are working again: there is nothing to stop.")
        groups = {(_group_of(row), row.instance.labels.region) for row in rows}
        if len(groups) > 1:
            raise WrongInput(
                "The alert's nodes belong to several node groups: name them with 'act stop' or"
                " 'act scale'."
            )
        ((group, region),) = groups
        if not group:
            return self.of(kind, [row.instance.id for row in rows])
        _, desired = self._managed(group, region)
        return self.of(ActionKind.SCALE, (group,), desired - len(rows), region)

    def of(
        self, kind: ActionKind, targets: Sequence[str], size: int | None = None, region: str = ""
    ) -> Action:
        """Return the action that was asked for; raise `WrongInput` where it would do harm."""
        if not 0 < len(targets) <= _MOST:
            raise WrongInput(f"Name 1 to {_MOST} things after 'act {kind}'; got {len(targets)}.")
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
        rows, muted = self._rows(targets), self._muted()
        for row in rows:
            node = row.instance
            if not row.free or row.state is not NodeState.IDLE:
                raise WrongInput(
                    f"{node.id} is working, or may be ({row.state}): nothing was prepared."
                )
            if node.id in muted:
                raise WrongInput(
                    f"The alert about {node.id} is muted ({muted[node.id]}): it may be waiting on"
                    " purpose. 'silences' lists who muted what."
                )
            if node.node_group or ((by := node.launched_by) and by.kind is LauncherKind.MACHINE):
                group = _group_of(row)
                way = f"try 'act scale {group} nodes=N'" if group else "scale that down instead"
                raise WrongInput(
                    f"{node.id} was launched by {node.launched_by or group}, which would start a"
                    " replacement;"
                    f" {way}."
                )
            if node.market is Market.SPOT:
                raise WrongInput(f"{node.id} is a spot instance, and those cannot be stopped.")
        return self._action(ActionKind.STOP, targets, rows)

    def _muted(self) -> dict[str, str]:
        """Return the nodes of muted alerts, and the reason of each."""
        alerts = self._ports.stores.alerts.load(self._request.at).alerts
        return {
            thing: alert.muted_by for alert in alerts if alert.muted_by for thing in alert.things
        }

    def _managed(self, name: str, region: str) -> tuple[Labels, int]:
        """Return the place of one `CLUSTER/GROUP` and its desired size, or raise `WrongInput`."""
        groups = [
            (f"{cluster.name}/{group.name}", cluster.labels, group.desired)
            for cluster in self._reading.inventory.eks
            for group in cluster.node_groups
            if region in ("", cluster.labels.region)
        ]
        fitting = [(labels, desired) for known, labels, desired in groups if known == name]
        if not fitting:
            known = [known for known, *_ in groups]
            hint = nearest(name, known, most=8, otherwise="write CLUSTER/GROUP")
            raise WrongInput(f"No EKS managed node group is called '{name}'{hint}.")
        if len(fitting) > 1:
            places = ", ".join(f"{x.region} of {x.account}" for x, _ in fitting)
            raise WrongInput(f"'{name}' is in several places ({places}); add region=.", "region")
        return fitting[0]

    def _scale(self, targets: Sequence[str], size: int | None, region: str) -> Action:
        """Give one group another number of nodes; a smaller one only where none of them works."""
        name = targets[0]
        if len(targets) > 1:
            raise WrongInput("One node group is scaled at a time.")
        place, desired = self._managed(name, region)
        if size is None:
            raise WrongInput(f"How many nodes? Write: act scale {name} nodes=N.", "nodes")

        # The list of groups is an hour old at most, that of nodes is of now: the larger one counts.
        rows = self._of_group(name, place)
        working = [row.instance.id for row in rows if not row.free]
        unknown = max(0, desired - len(rows))
        if size < max(desired, len(rows)) and (working or unknown):
            first = f"{working[0]} for one" if working else f"{unknown} are not known by name"
            raise WrongInput(
                f"{counted(len(working) + unknown, 'node')} of {name} may work ({first}), and its"
                " Auto Scaling group would choose which to terminate: nothing was prepared."
            )
        # Priced by the mean of the nodes it has, since nobody knows which end.
        fewer, (price, saved) = desired - size, self._mean(rows)
        amount = None if price is None else abs(fewer) * price
        made = self._made(ActionKind.SCALE, (name,), place, (amount, fewer * saved))
        return replace(made, size=size, before=desired)

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
                raise WrongInput(f"'{name}' is not an unused volume{hint}.")
            claims = _CLAIMS & unused[name].thing.tags.keys()
            if claims:
                raise WrongInput(
                    f"{name} belongs to a Kubernetes volume claim (tag {min(claims)}): delete"
                    " the claim there."
                )
            if unused[name].since > self._request.at - waits:
                raise WrongInput(
                    f"{name} was attached until {unused[name].since:%Y-%m-%d %H:%M} UTC; the rule"
                    f" waits {duration_text(waits)}."
                )
        known = [x.price.usd_per_hour for x in old if x.price]
        price = sum(known, Decimal(0))
        place = self._one_place([x.thing.labels for x in old])
        amount = price if len(known) == len(old) else None
        return self._made(ActionKind.DELETE, targets, place, (amount, price))

    def _cordon(self, targets: Sequence[str], _: int | None, __: str) -> Action:
        """Cordon nodes of one cluster of EKS."""
        rows = self._rows(targets)
        known = {cluster.name for cluster in self._reading.inventory.eks}
        clusters = {row.instance.labels.cluster for row in rows}
        if len(clusters) > 1 or not clusters <= known:
            raise WrongInput(
                "Only nodes of one EKS cluster can be cordoned together; these are of"
                f" {', '.join(name or 'no cluster' for name in sorted(clusters))}."
            )
        action = self._action(ActionKind.CORDON, targets, rows)
        return replace(action, saved_usd_per_hour=Decimal(0))

    def _notebook(self, targets: Sequence[str], _: int | None, region: str) -> Action:
        """Stop one notebook; the bill of its last week tells its place and its price."""
        week = Window(self._request.at - timedelta(days=7), self._request.at)
        rows = self._ports.world.billing.tally(week, ("resource",)).rows
        charges = {
            match[1]: (row.hours, row.money.amortised)
            for row in rows
            if (match := _NOTEBOOK.fullmatch(row.key["resource"]))
            and match["name"].lower() == targets[0].lower()
            and region in ("", match["region"])
        }
        if len(targets) > 1 or len(charges) != 1:
            raise WrongInput(
                f"The bill of the last week names {len(charges) or 'no'} such notebooks; name one,"
                " and its region: act notebook NAME region=us-west-2.",
                "region",
            )
        ((arn, (hours, paid)),) = charges.items()
        where, account = arn.split(":")[3:5]
        price = paid / Decimal(str(hours)) if hours else None
        place = Labels(account=account, region=where)
        return self._made(ActionKind.NOTEBOOK, targets, place, (price, price or Decimal(0)))

    def _rows(self, targets: Sequence[str]) -> list[NodeRow]:
        known = {row.instance.id: row for row in self._nodes}
        for name in targets:
            if name not in known:
                hint = nearest(name, known, most=0, otherwise="'fleet' lists them")
                raise WrongInput(f"No running node is called '{name}'{hint}.")
        return [known[name] for name in targets]

    def _of_group(self, name: str, place: Labels) -> list[NodeRow]:
        """Return the nodes of `CLUSTER/GROUP` that run."""
        where = (place.account, place.region)
        return [
            row
            for row in self._nodes
            if _group_of(row) == name
            and (row.instance.labels.account, row.instance.labels.region) == where
        ]

    def _action(self, kind: ActionKind, targets: Sequence[str], rows: Sequence[NodeRow]) -> Action:
        """Price an action by its nodes."""
        price, saved = self._mean(rows)
        place = self._one_place([row.instance.labels for row in rows])
        amount = None if price is None else len(rows) * price
        return self._made(kind, targets, place, (amount, len(rows) * saved))

    def _mean(self, rows: Sequence[NodeRow]) -> tuple[Decimal | None, Decimal]:
        """Return the mean USD of an hour of nodes, and the part of it that stopping one saves.

        None where the price of any is not known. What a commitment or a reservation holds is billed
        all the same.
        """
        if not rows:
            return None, Decimal(0)
        price = sum((row.usd_per_hour for row in rows), Decimal(0)) / len(rows)
        saved = sum(
            (
                row.usd_per_hour - row.committed_usd_per_hour
                for row in rows
                if not row.instance.reservation
            ),
            Decimal(0),
        )
        return price if all(row.price for row in rows) else None, saved / len(rows)

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
        amounts: tuple[Decimal | None, Decimal],
    ) -> Action:
        request, (price, saved) = self._request, amounts
        stamp = repr((request.at, request.user.id, kind, targets, place))
        return Action(
            id="x" + hashlib.sha256(stamp.encode()).hexdigest()[:8],
            kind=kind,
            targets=tuple(targets),
            place=place,
            size=None,
            usd_per_hour=price,
            saved_usd_per_hour=saved,
            at=request.at,
            by=request.user.id,
            by_name=request.user.name,
            channel=request.channel,
            thread=request.thread,
        )


def _group_of(row: NodeRow) -> str:
    """Return the `CLUSTER/GROUP` of a node, "" for one of no group."""
    node = row.instance
    return f"{node.labels.cluster}/{node.node_group}" if node.node_group else ""


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
        month = usd(price * HOURS_A_MONTH)
        facts = [("costs", f"{usd(price, digits=2)} an hour, {month} a month")]
    if action.kind is not ActionKind.CORDON:
        verb = "adds" if saved < 0 else _SAVES.get(action.kind, "saves")
        facts.append((verb, f"{usd(abs(saved), digits=2)} an hour"))
    second = needs_second(action, second_usd)
    if may:
        is_new = second and not action.pressed
        facts.append(("state", "needs two admins" if is_new else action.state.value))
    if action.pressed:
        facts.append(("pressed by", ", ".join(action.confirmed_by)))
    note = "Nothing changes until an admin presses Do it."
    if second:
        note = f"From {usd(second_usd)} a month on, a second admin must press it too."
    committed = price is not None and saved > 0 and committed_words(price, price - saved)

    buttons = (
        Button("Do it", f"act confirm {action.id}", ButtonStyle.DANGER, confirm=f"{action.title}?"),
        Button("Cancel", f"act cancel {action.id}"),
    )
    blocks = compose(
        text(_EFFECTS[action.kind]),
        Facts(tuple(facts)),
        len(action.targets) > 1 and text(", ".join(action.targets)),
        quiet(" ".join(rehearsed)) if rehearsed else None,
        quiet(committed) if committed else None,
        quiet(note if may else _OFF),
        Buttons(buttons) if may and action.state.waits else None,
    )
    data = {"action": COLUMNS.record(action)}
    return Card(f"{action.title}?", Tone.WARNING, blocks, data, public=bool(action.pressed))


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
    pressed = " and ".join(action.confirmed_by) or "nobody"
    blocks = compose(
        text(action.words) if action.words else None,
        quiet(f"Prepared by {action.who}, pressed by {pressed}."),
        Buttons((Button("Actions", "act list"),)),
    )
    data = {"action": COLUMNS.record(action)}
    title = f"{action.title}: {action.state}{worth}"
    return Card(title, tones.get(action.state, Tone.INFO), blocks, data, public=True)


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
    what: str = arg(None, "an alert, or: stop, scale, delete, cordon, notebook"),
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

    plan = Plan(ports, request)
    if what in set(ActionKind):
        size = _size(named["nodes"]) if "nodes" in named else None
        action = plan.of(ActionKind(what), names, size, named.get("region", ""))
    elif words:
        hint = nearest(what, list(ActionKind), most=9)
        raise WrongInput(f"'{what}' is not a kind of action{hint}.")
    else:
        action = plan.of_alert(find_alert(ports, request, what))

    rehearsed: Sequence[str] = ()
    if actions := ports.world.actions:
        rehearsed = actions.rehearse(action)
        ACTIONS.put(ports.stores.documents, action.id, action)
        for name, older in ACTIONS.newest(ports.stores.documents, 2 * _REMEMBERED)[_REMEMBERED:]:
            if older.state is not ActionState.UNDER_WAY:
                ACTIONS.drop(ports.stores.documents, name)
    return action_card(action, rehearsed, ports.site.second_usd, may=actions is not None)


def _size(text: str) -> int:
    if not text.isdecimal() or len(text) > 4:
        raise WrongInput(f"'{text}' is not a number of nodes; write nodes=4.", "nodes")
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
    if request.user.name == UNNAMED:
        raise NotAllowed("Whoever presses must be known by name: sign in, or press in a chat.")
    with _alone(ports, name):
        action = _confirmed(ports, request, _kept(ports, name))
    if action.state is ActionState.CONFIRMED:
        return action_card(action, (), ports.site.second_usd, may=True)
    return progress_card(action)


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
    if request.user.id in action.pressed:
        raise WrongInput("You have pressed already; a second admin must press it too.")
    plan = Plan(ports, request)
    weighed = plan.of(action.kind, action.targets, action.size, action.place.region)

    user = request.user
    action = replace(
        action,
        usd_per_hour=weighed.usd_per_hour,
        saved_usd_per_hour=weighed.saved_usd_per_hour,
        pressed=(*action.pressed, user.id),
        confirmed_by=(*action.confirmed_by, user.name or user.id),
        channel=request.channel or action.channel,
        thread=request.thread or action.thread,
    )
    if needs_second(action, ports.site.second_usd) and len(action.pressed) < 2:
        action = replace(action, state=ActionState.CONFIRMED)
        ACTIONS.put(ports.stores.documents, action.id, action)
        return action

    # Written first: what a kill cuts off here, the next tick goes on with.
    action = replace(action, state=ActionState.UNDER_WAY, began_at=request.at, words="")
    ACTIONS.put(ports.stores.documents, action.id, action)
    action = advanced(ports, action, request.at)
    if action.state.ended:
        # Whoever pressed reads it in the answer.
        action = replace(action, answered=True)
        ACTIONS.put(ports.stores.documents, action.id, action)
    return action


def advanced(ports: Ports, action: Action, now: datetime) -> Action:
    """Take an action a step further and keep how far it is; may block.

    It has failed where the provider refuses it. Once its time is over nothing more is ordered: the
    fleet is another by then.
    """
    assert ports.world.actions is not None
    patience = action.kind.patience
    if now - (action.began_at or now) > patience:
        words = f"No effect was seen within {duration_text(patience)}. {action.words}"
        progress = Progress(ActionState.FAILED, words)
    else:
        try:
            progress = ports.world.actions.advance(action)
        except (Refused, WrongInput) as error:
            progress = Progress(ActionState.FAILED, str(error))
        except TrnbotError as error:
            progress = Progress(ActionState.UNDER_WAY, str(error))

    ordered = tuple(dict.fromkeys((*action.ordered, *progress.ordered)))
    action = replace(action, state=progress.state, words=progress.words, ordered=ordered)
    ACTIONS.put(ports.stores.documents, action.id, action)
    if action.state.ended:
        who = User(action.pressed[-1] if action.pressed else action.by)
        audit("action", progress.state.value, who, line=action.title, because=progress.words)
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
    action = _kept(ports, name)
    if not action.state.waits:
        return progress_card(action)
    return action_card(action, (), ports.site.second_usd, may=ports.world.actions is not None)


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
    actions = [action for _, action in ACTIONS.newest(ports.stores.documents, _REMEMBERED)]
    actions.sort(key=lambda action: action.at, reverse=True)
    waiting = [action for action in actions if action.state.waits]
    blocks = compose(
        COLUMNS.table(actions, most=20) if actions else text("Nobody has prepared one."),
        quiet(_OFF) if ports.world.actions is None else None,
        Buttons(tuple(Button(f"Show: {x.title}", f"act show {x.id}") for x in waiting[:3]))
        if waiting
        else None,
    )
    title = f"{counted(len(actions), 'action')}, {len(waiting)} of them not decided"
    return Card(
        title if actions else "No action", Tone.INFO, blocks, {"actions": COLUMNS.data(actions)}
    )


async def advance_due(ports: Ports, now: datetime) -> tuple[str, ...]:
    """Take all that is under way a step further, and tell the outcome where it was pressed.

    Returns a sentence for each channel that could not be told; the next tick tells it.
    """
    if ports.world.actions is None:
        return ()
    newest = await asyncio.to_thread(ACTIONS.newest, ports.stores.documents, _REMEMBERED)
    failed = []
    for name, begun in newest:
        if begun.answered or begun.state.waits:
            continue
        try:
            action = await asyncio.to_thread(_stepped, ports, name, now)
            if action.state.ended:
                await _answer(ports, action)
        # One that fails in whatever way keeps neither the others nor the tick.
        except Exception as error:  # noqa: BLE001,RUF100
            log.warning("%s was not followed: %s", begun.title, error)
            failed.append(f"{begun.channel}: {error}")
    return tuple(failed)


def _stepped(ports: Ports, name: str, now: datetime) -> Action:
    """Take the next step of an action as it stands now, where it is under way."""
    with _alone(ports, name):
        action = _kept(ports, name)
        if action.state is ActionState.UNDER_WAY:
            action = advanced(ports, action, now)
    return action


async def _answer(ports: Ports, action: Action) -> None:
    """Tell the outcome of an action once, where it was pressed."""
    if action.channel:
        surface, channel = surface_of(action.channel, ports.site.surfaces)
        card, key = progress_card(action), f"act-{action.id}"
        # It may be there already, after a crash before that was written.
        if key not in await surface.posted(channel, action.thread):
            await permitted()
            if action.thread:
                await surface.reply(channel, action.thread, card, key)
            else:
                await surface.post(channel, card, key)
    answered = replace(action, answered=True)
    await asyncio.to_thread(ACTIONS.put, ports.stores.documents, action.id, answered)
