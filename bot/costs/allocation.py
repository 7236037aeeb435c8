"""Split the cost of Neuron nodes among the pods that held their cores, and name likely owners."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bot.costs.tally import known_rows
from bot.errors import TrnbotError, WrongInput
from bot.model.codec import by_key
from bot.model.fleet import FileSystem, InstanceType, Inventory, Volume
from bot.model.frame import Doubles, Frame, Mask
from bot.model.labels import SHARED_NAMESPACES, Labels
from bot.model.money import counted
from bot.model.reading import Reading, reaches
from bot.model.spend import Derived, Filter, Money, Spend, Tally
from bot.model.window import DAY, HOUR, Window, midnight, parse_instant
from bot.ports import Ports


@dataclass(frozen=True)
class Shares:
    """Hold a cluster's pods, and the share of its nodes that each held and did not use.

    Shares of pods have the shape (n_pods, n_times). `idle` is the share that no pod held,
    (n_times,); the rest is held by pods that were not read. `read` marks the times that were read.
    """

    pods: tuple[Labels, ...]
    held: Doubles
    unused: Doubles
    idle: Doubles
    read: Mask


@dataclass(frozen=True)
class Occupancy:
    """Hold core-hours of each whole UTC day's 24 hours from midnight `start` on.

    `held` and `used` have the shape (n_pods, n_hours): the cores that each pod requested, and those
    of them that were busy (nan: not read). `offered` holds the cores of the Neuron nodes of a
    cluster, `reserved` those that the nodes report as held by pods, (n_hours,). `window` is the
    time that was read.
    """

    start: datetime
    window: Window
    pods: tuple[Labels, ...]
    held: Doubles
    used: Doubles
    offered: Mapping[str, Doubles]
    reserved: Mapping[str, Doubles]

    def by_day(self) -> Occupancy:
        """Return the occupancy by the day: 24 hours in one."""
        return replace(
            self,
            held=_days(self.held),
            used=_days(self.used),
            offered={name: _days(hours) for name, hours in self.offered.items()},
            reserved={name: _days(hours) for name, hours in self.reserved.items()},
        )

    def of(self, cluster: str) -> Shares:
        """Return the share of a cluster's nodes that each pod held.

        Pods that together ask for more than the nodes offer (a node was not read) share what there
        is.
        """
        rows = np.flatnonzero([pod.cluster == cluster for pod in self.pods])
        cores = self.held[rows]
        zeros, requested = np.zeros(cores.shape[1]), cores.sum(axis=0)
        whole = np.maximum(requested, self.offered.get(cluster, zeros))
        reserved = np.minimum(np.maximum(requested, self.reserved.get(cluster, zeros)), whole)
        idle = np.divide(whole - reserved, whole, out=zeros, where=whole > 0)
        shares = np.divide(cores, whole, out=np.zeros_like(cores), where=whole > 0)

        # What was not read counts as busy.
        busy = np.divide(self.used[rows], cores, out=np.ones_like(cores), where=cores > 0)
        unused = shares * (1 - np.clip(np.nan_to_num(busy, nan=1.0), 0, 1))
        return Shares(tuple(self.pods[row] for row in rows), shares, unused, idle, whole > 0)


def occupancy_of(reading: Reading, types: Mapping[str, InstanceType]) -> Occupancy | None:
    """Return the pods that held cores as far as the reading goes back.

    None where no pod's request was read.

    A pod's request is what it asked for; where that is not reported, what it was given
    (`pod_neuroncore_usage_total`). A node offers its limit; where that is not reported, its type's
    cores while it reports at all.
    """
    pods, nodes = reading.frame("pod"), reading.frame("node")
    if pods is None or not pods.n_steps:
        return None
    requested, allotted = pods.of("neuroncore_request_count"), pods.of("neuroncore_usage_count")
    cores = np.nan_to_num(np.where(np.isnan(requested), allotted, requested).astype(np.float64))
    if not cores.any():
        return None
    busy, ratio = pods.of("neuroncore_busy_count"), pods.of("neuroncore_utilization_ratio")
    busy = np.where(np.isnan(busy), cores * ratio, busy)

    start = midnight(pods.start)
    n_hours = -(-(pods.end - start) // DAY) * 24
    offered, reserved = dict[str, Doubles](), dict[str, Doubles]()
    if nodes:
        kinds = [types.get(node.instance_type) for node in nodes.things]
        sizes = np.array([kind.cores if kind and kind.has_neuron else np.nan for kind in kinds])
        silent = np.isnan(nodes.of("neuroncore_utilization_ratio"))
        limit = nodes.of("neuroncore_limit_count")
        limit = np.where(np.isnan(limit), np.where(silent, np.nan, sizes[:, None]), limit)
        clusters = np.array([node.cluster for node in nodes.things])
        members = {str(name): clusters == name for name in filter(None, np.unique(clusters))}
        amounts = (
            _hours(np.nan_to_num(levels), nodes, start, n_hours)
            for levels in (limit, nodes.of("neuroncore_reserved_count"))
        )
        offered, reserved = (
            {name: hours[of_cluster].sum(axis=0) for name, of_cluster in members.items()}
            for hours in amounts
        )

    return Occupancy(
        start,
        pods.window,
        pods.things,
        _hours(cores, pods, start, n_hours),
        _hours(busy, pods, start, n_hours),
        offered,
        reserved,
    )


def _hours(
    levels: npt.NDArray[np.floating], frame: Frame, start: datetime, n_hours: int
) -> Doubles:
    """Add levels of steps up to amounts of hours, (n_things, n_hours); a nan makes its hour nan."""
    seconds = (frame.start - start).total_seconds() + np.arange(
        frame.n_steps
    ) * frame.step.total_seconds()
    hour = (seconds // HOUR.total_seconds()).astype(np.intp)
    amounts = np.zeros((len(frame.things), n_hours))
    inside = (hour >= 0) & (hour < n_hours)
    first = np.flatnonzero(np.diff(hour[inside], prepend=-1))
    if len(first):
        sums = np.add.reduceat(levels[:, inside].astype(np.float64), first, axis=1)
        amounts[:, hour[inside][first]] = sums * (frame.step / HOUR)
    return amounts


def _days(hours: Doubles) -> Doubles:
    """Add 24 hours up along the last axis."""
    return np.asarray(hours.reshape(*hours.shape[:-1], -1, 24).sum(axis=-1))


QUANTUM = Decimal("0.000001")
"""USD: an hour of a core costs under a dollar, and its parts still add up over a month."""


def apportion(total: Decimal, weights: Sequence[float]) -> list[Decimal]:
    """Return parts in the ratio of `weights` by the largest remainder.

    Weights keep their signs. Each part is whole quanta, but for what of the total lies below one:
    that is the largest part's. No weights, or a sum of 0: the last part has all.
    """
    whole = sum(weights)
    if not weights or not whole:
        return [*[Decimal(0)] * (len(weights) - 1), total]

    # Whole quanta in binary: up to $9 billion they are exact integers, and a remainder is only
    # compared.
    exact = [float(total) / float(QUANTUM) * (weight / whole) for weight in weights]
    quanta = [math.floor(x) for x in exact]
    spare = max(0, int((total - QUANTUM * sum(quanta)) / QUANTUM))
    for n in sorted(range(len(quanta)), key=lambda n: (quanta[n] - exact[n], n))[:spare]:
        quanta[n] += 1

    parts = [QUANTUM * n for n in quanta]
    parts[max(range(len(parts)), key=lambda n: abs(exact[n]))] += total - QUANTUM * sum(quanta)
    return parts


RowKey = tuple[str, ...]
OWNERS = ("pod", "namespace", "team")
"""The dimensions that a pod determines."""
_STEPS = {"hour": HOUR, "day": DAY}


@dataclass
class _Pool:
    """Hold the cost of one key's nodes in one cluster, by time: to be split at once."""

    spend: Spend
    shares: Shares
    by_time: dict[int, Money] = field(default_factory=lambda: defaultdict(Money))
    estimated: bool = False


def split_rows(
    rows: Iterable[Spend], by: Sequence[str], step: str, occupancy: Occupancy
) -> list[Spend]:
    """Return `rows` (keyed by `by`, cluster and `step`) in parts by pod, as changes.

    Each whole once less, its parts once more.

    Rows of clusters without pods, and of hours that were not read, are left as they are.
    """
    shares = {cluster: occupancy.of(cluster) for cluster in {pod.cluster for pod in occupancy.pods}}
    n_columns = occupancy.held.shape[1]
    pools: dict[RowKey, _Pool] = {}
    for row in rows:
        share = shares.get(row.key["cluster"])
        column = (parse_instant(row.key[step]) - occupancy.start) // _STEPS[step]
        if share and 0 <= column < n_columns and share.read[column]:
            key = (*(row.key[name] for name in (*by, *OWNERS)), row.key["cluster"])
            pool = pools.setdefault(key, _Pool(row, share))
            pool.by_time[column] += row.money
            pool.estimated |= row.estimated

    return [change for pool in pools.values() for change in _split(pool)]


def owned_rows(rows: Iterable[Spend]) -> list[Spend]:
    """Return `rows` of pods that carry no team as changes that give them a derived one."""
    changes = []
    for row in rows:
        owner, way = derived_owner(Labels(namespace=row.key["namespace"], pod=row.key["pod"]))
        if owner:
            derived = Derived(row.money.amortised, owners=((owner, way),))
            key = {**row.key, "team": owner}
            changes += [_less(row, row.money), replace(row, key=key, derived=derived)]
    return changes


def changed(tally: Tally, changes: Iterable[Spend], where: Sequence[Filter]) -> Tally:
    """Return the tally with changes that pass the filters; rows of nothing fall away.

    They are filters on owners: the bill has applied all others.
    """
    rows: dict[RowKey, Spend] = {tuple(row.key.values()): row for row in tally.rows}
    for change in (x for x in changes if all(condition.keeps(x.key) for condition in where)):
        key = {name: change.key[name] for name in tally.by}
        row = rows.get(tuple(key.values()))
        if row is None:
            rows[tuple(key.values())] = replace(change, key=key)
            continue

        derived = row.derived or change.derived
        if row.derived and change.derived:
            derived = row.derived + change.derived
        estimated = row.estimated or change.estimated
        rows[tuple(key.values())] = Spend(row.key, row.money + change.money, estimated, derived)

    remaining = sorted(
        (row for row in rows.values() if any(_amounts(row.money))),
        key=lambda row: (-row.money.net, tuple(row.key.values())),
    )
    return replace(
        tally, rows=tuple(remaining), total=sum((row.money for row in remaining), Money())
    )


def _split(pool: _Pool) -> Iterator[Spend]:
    """Yield a pool once less, then its idle part, then the part of each pod."""
    times, shares = list(pool.by_time), pool.shares
    shares_held, unused = shares.held[:, times], shares.unused[:, times]
    holders = np.flatnonzero(shares_held.any(axis=1))
    if not len(holders):
        return

    amounts = np.array([list(map(float, _amounts(money))) for money in pool.by_time.values()])
    parts = shares_held[holders] @ amounts
    weights = np.vstack([parts, amounts.sum(axis=0) - parts.sum(axis=0)])
    lost, idle = unused[holders] @ amounts[:, -1], float(shares.idle[times] @ amounts[:, -1])
    # Nothing is idle where pods held it all: a rest of floating point is no cost.
    weights[-1][np.abs(weights[-1]) < float(QUANTUM)] = 0

    total = sum(pool.by_time.values(), Money())
    columns = map(apportion, _amounts(total), weights.T.tolist())
    *pod_moneys, idle_money = (
        Money(gross, discounts, credits, tax, gross + discounts + credits + tax, amortised)
        for gross, discounts, credits, tax, amortised in zip(*columns, strict=True)
    )
    yield _less(pool.spend, total)
    derived = Derived(idle=_rounded(idle))
    yield replace(pool.spend, money=idle_money, estimated=pool.estimated, derived=derived)

    for n, row in enumerate(holders):
        pod, money = shares.pods[row], pod_moneys[n]
        team, way = pool.spend.key.get("team", "") or pod.team, ""
        if not team:
            team, way = derived_owner(pod)
        key = {**pool.spend.key, "pod": pod.pod, "namespace": pod.namespace, "team": team}
        derived = Derived(money.amortised, _rounded(lost[n]), owners=((team, way),) if way else ())
        yield Spend(key, money, pool.estimated, derived)


def _rounded(amount: float) -> Decimal:
    return Decimal(float(amount)).quantize(QUANTUM)


def _less(row: Spend, money: Money) -> Spend:
    return replace(row, money=-money, estimated=False, derived=None)


def _amounts(money: Money) -> tuple[Decimal, ...]:
    """Return the amounts of which no one is a sum of others."""
    return money.gross, money.discounts, money.credits, money.tax, money.amortised


_NOBODY = ("",)


class Allocation:
    """Answer tallies as `Billing` does, as of `at`.

    Metrics are read only for pods and for nodes of no team.
    """

    def __init__(self, ports: Ports, at: datetime) -> None:
        self._ports, self._at = ports, at

    def tally(
        self,
        window: Window,
        by: Sequence[str],
        where: Sequence[Filter] = (),
        most: int | None = None,
    ) -> Tally:
        """Sum the rows of a window, those beyond `most` in one where the bill alone answers.

        Nodes in parts by pod, and pods under a derived team where they carry none.
        """
        tally = self._ports.world.billing.tally(window, by, where, most)
        owners_asked = {*tally.by, *(condition.dimension for condition in where)} & set(OWNERS)
        if not owners_asked:
            return tally
        if tally.folded:
            tally = self._ports.world.billing.tally(window, by, where)
        bill_filters = [condition for condition in where if condition.dimension not in OWNERS]
        owner_filters = [condition for condition in where if condition.dimension in OWNERS]

        if owners_asked == {"team"}:
            bill_teams = [Filter("team", _NOBODY)]
        else:
            # A tagged node's parts have its team, those of others one of their pod.
            bill_teams = [
                replace(condition, values=tuple(value for value in condition.values if value))
                if condition.negated
                else Filter("team", tuple(dict.fromkeys((*condition.values, *_NOBODY))))
                for condition in owner_filters
                if condition.dimension == "team"
            ]

        changes, occupancy = self._parts(window, tally.by, [*bill_filters, *bill_teams])
        split = occupancy.window if changes and occupancy else None
        if "team" in owners_asked:
            # The bill's own pods get a derived team where they have none.
            pods = [Filter("pod", _NOBODY, negated=True), Filter("team", _NOBODY)]
            dimensions = _dimensions_with(tally.by, ("cluster", *OWNERS))
            podded = known_rows(
                self._ports.world.billing, window, dimensions, [*bill_filters, *pods]
            )
            changes = [*changes, *owned_rows(podded)]
        allocated = changed(tally, changes, owner_filters) if changes else tally
        return replace(allocated, split=split)

    def _parts(
        self, window: Window, by: tuple[str, ...], where: list[Filter]
    ) -> tuple[list[Spend], Occupancy | None]:
        """Return the changes that split rows that the bill leaves whole, and the occupancy used."""
        for step in ("hour", "day"):
            try:
                rows = self._nodes(window, by, where, step)
            except WrongInput:
                # The bill names no hours, or no clusters: it stands as it is.
                continue

            occupancy = self._occupancy if rows and reaches(window, self._at) else None
            if occupancy is None:
                return [], None
            stepped = occupancy if step == "hour" else occupancy.by_day()
            return split_rows(rows, by, step, stepped), occupancy
        return [], None

    def _nodes(
        self, window: Window, by: tuple[str, ...], where: list[Filter], step: str
    ) -> list[Spend]:
        """Return the cost of Neuron nodes where the bill names no pod of their cluster and hour."""
        world = self._ports.world
        types = tuple(name for name, kind in world.knowledge.types().items() if kind.has_neuron)
        nodes = [
            Filter("instance_type", types),
            Filter("cluster", _NOBODY, negated=True),
            Filter("pod", _NOBODY),
        ]
        dimensions = _dimensions_with(by, ("cluster", step, *OWNERS))
        rows = world.billing.tally(window, dimensions, [*where, *nodes]).rows
        if not rows:
            return []

        pods = [Filter("pod", _NOBODY, negated=True)]
        split = world.billing.tally(window, ("cluster", step), pods).rows
        split_hours = {(row.key["cluster"], row.key[step]) for row in split}
        return [row for row in rows if (row.key["cluster"], row.key[step]) not in split_hours]

    def hints(self, window: Window, where: Sequence[Filter]) -> Sequence[OwnerHint]:
        """Return the likely owners of cost without a team.

        Nothing without an inventory, or where the bill names no resource.
        """
        if self.reading is None:
            return ()
        dimensions, teamless = ("resource", "cluster", "namespace"), Filter("team", _NOBODY)
        rows = known_rows(self, window, dimensions, [*where, teamless])
        return owner_hints(rows, self.reading.inventory)

    @cached_property
    def reading(self) -> Reading | None:
        """Return the metrics and the inventory, read once and when first asked.

        None where they cannot be read.
        """
        try:
            return self._ports.world.source.read(self._at)
        except TrnbotError:
            # A bill without metrics is answered as it is.
            return None

    @cached_property
    def _occupancy(self) -> Occupancy | None:
        if self.reading is None:
            return None
        return occupancy_of(self.reading, self._ports.world.knowledge.types())


def _dimensions_with(by: tuple[str, ...], besides: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*by, *besides)))


_ENDING = re.compile(r"(-[a-z0-9]{8,10}-[a-z0-9]{5}|-[a-z0-9]{5}|-\d+)$")
"""The endings that controllers of Kubernetes add to a job's name.

Hash and suffix of a ReplicaSet, suffix of a Job, ordinal.
"""


def derived_owner(pod: Labels) -> tuple[str, str]:
    """Return the owner of a pod and the label it was derived from, ("", "") for none."""
    if pod.namespace not in SHARED_NAMESPACES:
        return pod.namespace, "namespace"
    job = pod.job or _ENDING.sub("", pod.pod)
    return (job, "job") if job else ("", "")


@dataclass(frozen=True)
class OwnerHint:
    """State the likely owner of some untagged cost: `owner` is "" where nothing names one.

    `things` are its resources.
    """

    owner: str
    by: str
    amortised: Decimal
    things: tuple[str, ...]


def owner_hints(rows: Iterable[Spend], inventory: Inventory) -> list[OwnerHint]:
    """Return hints for rows keyed by resource, cluster and namespace, dearest first.

    Rows of one hint are one.
    """
    places = (instance.labels for instance in inventory.instances.values())
    nodes = by_key((x.cluster, x.team) for x in places if x.cluster and x.team)
    teams = {cluster: Counter(of_cluster) for cluster, of_cluster in nodes.items()}

    names = {name: _words(name) for name in {team for counts in teams.values() for team in counts}}
    by_hint = by_key((_hint(row.key, inventory, teams, names), row) for row in rows)
    hints = (
        OwnerHint(
            *hint,
            sum((row.money.amortised for row in of_hint), Decimal(0)),
            tuple(dict.fromkeys(row.key["resource"] for row in of_hint if row.key["resource"])),
        )
        for hint, of_hint in by_hint.items()
    )
    return sorted(hints, key=lambda hint: (not hint.owner, -hint.amortised, hint.owner))


def _hint(
    key: Mapping[str, str],
    inventory: Inventory,
    teams: Mapping[str, Counter[str]],
    names: Mapping[str, Sequence[str]],
) -> tuple[str, str]:
    """Return the surest hint.

    A person who launched it, an owner tag, a name, its namespace, its neighbours.
    """
    resource = key["resource"].rpartition("/")[2]
    launcher = inventory.launcher(resource)
    if launcher and launcher.person:
        return launcher.person, f"launched it ({launcher.event or 'tag'})"
    instance = inventory.instances.get(resource)
    if instance and instance.owner:
        return instance.owner, "owner tag"

    stored: list[Volume | FileSystem] = [*inventory.volumes, *inventory.file_systems]
    thing = instance or next((x for x in stored if x.labels.resource == resource), None)
    name = thing.tags.get("Name", "") if thing else ""
    words = f" {' '.join(_words(name))} "
    for team, of_team in sorted(names.items()):
        if of_team and f" {' '.join(of_team)} " in words:
            return team, f"named {name}"

    if key["namespace"]:
        return key["namespace"], "namespace"
    cluster = key["cluster"] or (instance.labels.cluster if instance else "")
    if neighbours := teams.get(cluster):
        team, n = neighbours.most_common(1)[0]
        return team, f"team of {counted(n, 'other node')} of {cluster}"
    return (str(launcher), "launched it") if launcher else ("", "")


def _words(name: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[a-z0-9]+", name.lower()))
