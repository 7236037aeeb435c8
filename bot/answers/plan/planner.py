"""Plan an action by the newest readings, and refuse one that would do harm."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from bot.answers.cost.storage import unused_of
from bot.answers.fleet.card import NodeRow
from bot.answers.fleet.command import look_over
from bot.costs.pricing import Pricing
from bot.errors import WrongInput, find_named, not_known, refuse
from bot.model.action import Action, ActionKind
from bot.model.alert import Alert
from bot.model.anomaly import NodeState
from bot.model.causes import Cause
from bot.model.fleet import LauncherKind, Market, NodeGroup, Volume
from bot.model.labels import PLACE, Labels
from bot.model.money import counted
from bot.model.request import Request
from bot.model.window import Window, duration_text, utc_text
from bot.ports import Ports

_MOST = 100
"""Things that one press may touch."""
_CLAIMS = {"kubernetes.io/created-for/pvc/name", "ebs.csi.aws.com/cluster", "CSIVolumeName"}
"""Tags by which Kubernetes marks the volumes of its claims (EBS CSI driver, tagging, 2026-11)."""
_DENIES = {"false", "no", "off", "0"}
_NOTEBOOK = re.compile(
    r"(arn:aws[\w-]*:sagemaker:(?P<region>[\w-]+):\d+:notebook-instance/(?P<name>[\w-]+))", re.I
)


class Planner:
    """Decide whether an action is safe by the newest readings; every refusal is one sentence."""

    def __init__(self, ports: Ports, request: Request) -> None:
        self._ports, self._request = ports, request
        self._nodes, self._reading = look_over(ports, request.at)
        self._pricing = Pricing(ports).at(request.at)

    def of_alert(self, alert: Alert) -> Action:
        """Return the action that would end an alert; raise `WrongInput` where none would."""
        anomaly, kind = alert.anomaly, alert.cause.facts.action
        if kind is None:
            raise WrongInput(
                f"The bot has no action for '{alert.cause.facts.words}'; it has one for:"
                f" {', '.join(str(cause) for cause in Cause if cause.facts.action)}."
            )
        if kind is not ActionKind.STOP:
            alone = kind is ActionKind.CORDON and anomaly.suspect
            return self.of(kind, (anomaly.suspect,) if alone else anomaly.things)

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
        _, managed = self._managed(group, region)
        return self.of(ActionKind.SCALE, (group,), managed.desired - len(rows), region)

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
        return weigh[kind](tuple(dict.fromkeys(targets)), size, region)

    def _stop(self, targets: Sequence[str], _: int | None, __: str) -> Action:
        """Stop nodes that a rule says do nothing, and that nothing would start anew."""
        rows = self._rows(targets)
        alerts = self._ports.stores.alerts.load(self._request.at).alerts
        muted = {
            thing: alert.muted_by for alert in alerts if alert.muted_by for thing in alert.things
        }
        self._refuse_spared_nodes(rows)
        for row in rows:
            node, by, group = row.instance, row.instance.launched_by, _group_of(row)
            way = f"try 'act scale {group} nodes=N'" if group else "scale that down instead"
            refuse(
                (
                    not row.free or row.state is not NodeState.IDLE,
                    f"{node.id} is working, or may be ({row.state}): nothing was prepared.",
                ),
                (
                    node.id in muted,
                    f"The alert about {node.id} is muted ({muted.get(node.id)}): it may be waiting"
                    " on purpose. 'silences' lists who muted what.",
                ),
                (
                    bool(group) or (by is not None and by.kind is LauncherKind.MACHINE),
                    f"{node.id} was launched by {by or group}, which would start a replacement;"
                    f" {way}.",
                ),
                (
                    node.market is Market.SPOT,
                    f"{node.id} is a spot instance, and those cannot be stopped.",
                ),
            )
        return self._action(ActionKind.STOP, targets, rows)

    def _refuse_spared_nodes(self, rows: Sequence[NodeRow]) -> None:
        for row in rows:
            node = row.instance
            self._refuse_spared(node.id, node.labels, {**node.node_labels, **node.tags})

    def _refuse_spared(self, name: str, labels: Labels, tags: Mapping[str, str]) -> None:
        """Raise `WrongInput` where a setting or a tag says that the bot leaves a thing alone."""
        policy = self._ports.policy.at(labels)
        if not policy.on("acting.on"):
            place = str(labels.only(PLACE)) or "any place"
            raise WrongInput(
                f"The setting acting.on is off there ({place}): the bot leaves {name} alone."
            )
        if tag := sparing_tag(tags, policy.text("acting.spared")):
            raise WrongInput(
                f"{name} has the tag {tag}, so the bot leaves it alone; the setting acting.spared"
                " lists such words."
            )

    def _managed(self, name: str, region: str) -> tuple[Labels, NodeGroup]:
        """Return the place of one `CLUSTER/GROUP` and the group, or raise `WrongInput`."""
        groups = [
            (f"{cluster.name}/{group.name}", cluster.labels, group)
            for cluster in self._reading.inventory.eks
            for group in cluster.node_groups
            if region in ("", cluster.labels.region)
        ]
        fitting = [(labels, group) for path, labels, group in groups if path == name]
        if not fitting:
            raise not_known(
                f"No EKS managed node group is called '{name}'",
                name,
                [path for path, *_ in groups],
                most=8,
                otherwise="write CLUSTER/GROUP",
            )
        if len(fitting) > 1:
            places = ", ".join(f"{x.region} of {x.account}" for x, _ in fitting)
            raise WrongInput(f"'{name}' is in several places ({places}); add region=.", "region")
        return fitting[0]

    def _scale(self, targets: Sequence[str], size: int | None, region: str) -> Action:
        """Give one group another number of nodes; a smaller one only where none of them works."""
        name = targets[0]
        if len(targets) > 1:
            raise WrongInput("One node group is scaled at a time.")
        place, group = self._managed(name, region)
        if size is None:
            raise WrongInput(f"How many nodes? Write: act scale {name} nodes=N.", "nodes")

        where, desired = (place.account, place.region), group.desired
        rows = [
            row
            for row in self._nodes
            if _group_of(row) == name
            and (row.instance.labels.account, row.instance.labels.region) == where
        ]
        self._refuse_spared(name, place, group.labels)
        self._refuse_spared_nodes(rows if size < max(desired, len(rows)) else ())

        # The list of groups is an hour old at most, that of nodes is of now: the larger one counts.
        working = [row.instance.id for row in rows if not row.free]
        unknown = max(0, desired - len(rows))
        if size < max(desired, len(rows)) and (working or unknown):
            first = f"{working[0]} for one" if working else f"{unknown} are not known by name"
            raise WrongInput(
                f"{counted(len(working) + unknown, 'node')} of {name} may work ({first}), and its"
                " Auto Scaling group would choose which to terminate: nothing was prepared."
            )
        # Priced by the mean of the nodes it has, since nobody knows which end.
        action = self._made(ActionKind.SCALE, (name,), place, self._mean(rows), desired - size)
        return replace(action, size=size, before=desired)

    def _delete(self, targets: Sequence[str], _: int | None, __: str) -> Action:
        """Delete volumes that have been attached to nothing for as long as the rule waits."""
        waits = self._ports.policy.duration("orphaned_storage.for")
        unused = {x.thing.labels.resource: x for x in unused_of(self._reading, self._pricing)}
        old = [unused[name] for name in targets if name in unused]
        for name in targets:
            item = find_named(
                f"'{name}' is not an unused volume",
                name,
                unused,
                most=0,
                otherwise="'storage' lists them",
            )
            thing, since = item.thing, item.since
            if not isinstance(thing, Volume):
                raise WrongInput(f"{name} is a file system, and the bot deletes none.")
            self._refuse_spared(name, thing.labels, thing.tags)
            claims = _CLAIMS & thing.tags.keys()
            refuse(
                (
                    bool(claims),
                    f"{name} belongs to a Kubernetes volume claim (tag"
                    f" {min(claims, default='')}): delete the claim there.",
                ),
                (
                    since > self._request.at - waits,
                    f"{name} was attached until {utc_text(since)}; the rule waits"
                    f" {duration_text(waits)}.",
                ),
            )
        prices = [x.price.usd_per_hour for x in old if x.price]
        price = sum(prices, Decimal(0))
        amount = price if len(prices) == len(old) else None
        return self._made(
            ActionKind.DELETE,
            targets,
            self._one_place([x.thing.labels for x in old]),
            (amount, price),
        )

    def _cordon(self, targets: Sequence[str], _: int | None, __: str) -> Action:
        """Cordon nodes of one cluster of EKS."""
        rows = self._rows(targets)
        clusters = {row.instance.labels.cluster for row in rows}
        of_eks = {cluster.name for cluster in self._reading.inventory.eks}
        if len(clusters) > 1 or not clusters <= of_eks:
            raise WrongInput(
                "Only nodes of one EKS cluster can be cordoned together; these are of"
                f" {', '.join(name or 'no cluster' for name in sorted(clusters))}."
            )
        self._refuse_spared_nodes(rows)
        return replace(
            self._action(ActionKind.CORDON, targets, rows), saved_usd_per_hour=Decimal(0)
        )

    def _notebook(self, targets: Sequence[str], _: int | None, region: str) -> Action:
        """Stop one notebook; the bill of its last week tells its place and its price."""
        week = Window(self._request.at - timedelta(days=7), self._request.at)
        charges = {
            match[1]: (row.hours, row.money.amortised)
            for row in self._ports.world.billing.tally(week, ("resource",)).rows
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
        self._refuse_spared(targets[0], place, {})
        return self._made(ActionKind.NOTEBOOK, targets, place, (price, price or Decimal(0)))

    def _rows(self, targets: Sequence[str]) -> list[NodeRow]:
        rows = {row.instance.id: row for row in self._nodes}
        return [
            find_named(
                f"No running node is called '{name}'",
                name,
                rows,
                most=0,
                otherwise="'fleet' lists them",
            )
            for name in targets
        ]

    def _action(self, kind: ActionKind, targets: Sequence[str], rows: Sequence[NodeRow]) -> Action:
        """Price an action by its nodes."""
        place = self._one_place([row.instance.labels for row in rows])
        return self._made(kind, targets, place, self._mean(rows), len(rows))

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
        if len({(x.account, x.region) for x in places}) > 1:
            raise WrongInput("One press acts in one account and region; name fewer things.")
        place = next(iter(places))
        return place if len(places) == 1 else place.only(("account", "region"))

    def _made(
        self,
        kind: ActionKind,
        targets: Sequence[str],
        place: Labels,
        amounts: tuple[Decimal | None, Decimal],
        fewer: int = 1,
    ) -> Action:
        """Return an action by the price of an hour of each thing, and its part that is saved."""
        request, (price, saved) = self._request, amounts
        stamp = repr((request.at, request.user.id, kind, targets, place))
        return Action(
            id="x" + hashlib.sha256(stamp.encode()).hexdigest()[:8],
            kind=kind,
            targets=tuple(targets),
            place=place,
            size=None,
            usd_per_hour=None if price is None else abs(fewer) * price,
            saved_usd_per_hour=fewer * saved,
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


def sparing_tag(tags: Mapping[str, str], words: str) -> str:
    """Return the tag by which a thing is to be left alone, "" for none: `keep`, or `use=keep`.

    One of the words is its key, unless its value denies that, or is its value. `Do Not Delete` is
    the same word as `do-not-delete`.
    """
    sparing = {_plain(word) for word in words.split(",")} - {""}
    for key, value in tags.items():
        if _plain(key) in sparing and value.strip().lower() not in _DENIES:
            return key
        if _plain(value) in sparing:
            return f"{key}={value}"
    return ""


def _plain(word: str) -> str:
    return re.sub(r"[\W_]+", "", word.lower())
