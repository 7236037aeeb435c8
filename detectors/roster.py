"""Describe the nodes behind the rows of a frame, and spread a policy's thresholds over them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bot.model.causes import CAUSES, About
from bot.model.fleet import Instance, Inventory, Market, is_neuron, serves
from bot.model.labels import Labels
from bot.model.policy import Policy
from detectors.numbers import Mask, Numbers, Rows

GIB = 2.0**30
_OF_NODES = {cause.value for cause, facts in CAUSES.items() if facts.about is About.NODES}


@dataclass(frozen=True)
class Roster:
    """Describe the n nodes of a frame, in its order, and accelerated instances without a row."""

    ids: tuple[str, ...]
    labels: tuple[Labels, ...]
    scopes: tuple[Labels, ...]
    """The scopes of alerts.

    One per cluster, or per team, region and account for instances outside any.
    """
    scope: Rows
    """Which scope a node belongs to, shape (n,)."""
    running: Mask
    launched: Numbers
    """Seconds since the epoch, -inf where not known."""
    ends: Numbers
    """When its Capacity Block ends, seconds since the epoch, inf where it is in none."""
    inference: Mask
    accelerated: Mask
    neuron: Mask
    """Of a Neuron family, or of a type not known."""
    nic: Numbers
    """The NIC's limit in bytes a second, nan where not known."""
    memory: Numbers
    """Device memory in bytes, nan where not known."""
    cores: Numbers
    """NeuronCores or GPUs, nan where not known."""
    owners: npt.NDArray[np.str_]
    """Whom each node names as its owner, its team where none in its scope does, else "", (n,)."""
    purposes: tuple[str, ...]
    """What the tag of each node says it is for, "" where none does."""
    instances: Mapping[str, Instance]
    """All that the inventory lists."""

    @cached_property
    def mute(self) -> tuple[Instance, ...]:
        """Return the running Neuron instances that never had a row."""
        without_row = (x for x in self.instances.values() if x.running and x.id not in self.row)
        return tuple(x for x in without_row if is_neuron(x.labels.instance_type))

    @cached_property
    def row(self) -> Mapping[str, int]:
        """Return the row of each instance id."""
        return {name: i for i, name in enumerate(self.ids)}

    @cached_property
    def place(self) -> Mapping[Labels, int]:
        """Return the number of each scope."""
        return {scope: i for i, scope in enumerate(self.scopes)}

    @cached_property
    def jobs(self) -> npt.NDArray[np.str_]:
        """Return the job that each node names, "" where it names none, (n,)."""
        return np.array([x.job for x in self.labels], dtype=np.str_)

    @cached_property
    def makeup(self) -> tuple[object, ...]:
        """Return a key of all that is learnt by: who the nodes are, and what they serve and have."""
        return (
            self.labels,
            self.inference.tobytes(),
            self.cores.tobytes(),
            self.nic.tobytes(),
        )

    @cached_property
    def sizes(self) -> Rows:
        """Return how many running nodes each scope has."""
        return np.bincount(self.scope[self.running], minlength=len(self.scopes))

    def by_scope(self, nodes: Mask) -> Iterator[tuple[int, Rows]]:
        """Yield the scopes of some nodes, (n,), each with the rows of those in it."""
        yield from (
            (scope, np.flatnonzero(nodes & (self.scope == scope)))
            for scope in np.bincount(self.scope[nodes]).nonzero()[0].tolist()
        )

    def pick(self, rows: Rows) -> Roster:
        """Return the nodes at `rows` only, in scopes of the same numbers."""
        of_nodes: dict[str, Any] = {
            name: x[rows] if isinstance(x, np.ndarray) else tuple(x[i] for i in rows)
            for name in {x.name for x in fields(self)} - {"scopes", "instances"}
            for x in [getattr(self, name)]
        }
        return replace(self, **of_nodes)

    def rows_of(self, things: Iterable[str]) -> Rows:
        """Return the rows of the things that are nodes here."""
        return np.array([self.row[thing] for thing in things if thing in self.row], dtype=np.intp)

    def among(self, things: Iterable[str]) -> Mask:
        """Return which nodes are among the things, (n,)."""
        among = np.zeros(len(self.ids), dtype=bool)
        among[self.rows_of(things)] = True
        return among


def build_roster(things: tuple[Labels, ...], inventory: Inventory) -> Roster:
    """Join a frame's things with the inventory; without any, every node counts as running."""
    instances = [inventory.instances.get(x.instance) for x in things]
    labels = tuple(i.labels.merge(x) if i else x for x, i in zip(things, instances, strict=True))
    types = [inventory.types.get(x.instance_type) for x in labels]
    scope_of_node = [scope_of(x) for x in labels]
    scopes = sorted(set(scope_of_node))
    place = {scope: i for i, scope in enumerate(scopes)}
    nothing_known = not inventory.instances

    def numbers(values: Iterable[float]) -> Numbers:
        """Return one number per node; 0 is one that is not known."""
        return np.array([value or np.nan for value in values], dtype=np.float64)

    # What a tag, or a label of its node group, names as the purpose of a node.
    marks = ({**i.node_labels, **i.tags} if i else {} for i in instances)
    purposes = ({key.lower(): text for key, text in x.items()}.get("purpose", "") for x in marks)
    # Whom its tags name, else its labels; where nobody in a scope is named, its team.
    names = [(i.owner or i.labelled_owner) if i else "" for i in instances]
    owned = {scope for scope, name in zip(scope_of_node, names, strict=True) if name}
    owners = [
        name or ("" if scope in owned else x.team)
        for name, scope, x in zip(names, scope_of_node, labels, strict=True)
    ]
    accelerated = [
        is_neuron(x.instance_type) or t is not None for x, t in zip(labels, types, strict=True)
    ]
    return Roster(
        ids=tuple(x.instance for x in labels),
        labels=labels,
        scopes=tuple(scopes),
        scope=np.array([place[scope] for scope in scope_of_node], dtype=np.intp),
        running=np.array([i.running if i else nothing_known for i in instances], dtype=bool),
        launched=np.array([i.launched_at.timestamp() if i else -np.inf for i in instances]),
        ends=np.array([_block_end(i, inventory) if i else np.inf for i in instances]),
        inference=np.array(
            [serves(x, i) for x, i in zip(labels, instances, strict=True)], dtype=bool
        ),
        accelerated=np.array(accelerated, dtype=bool),
        neuron=np.array(
            [is_neuron(x.instance_type) or not x.instance_type for x in labels], dtype=bool
        ),
        nic=numbers(t.network_gbps * 1e9 / 8 if t else 0 for t in types),
        memory=numbers(t.accelerator_memory_gib * GIB if t else 0 for t in types),
        cores=numbers(t.cores if t else 0 for t in types),
        owners=np.array(owners, dtype=np.str_),
        purposes=tuple(purposes),
        instances=inventory.instances,
    )


def scope_of(labels: Labels) -> Labels:
    """Return the scope of alerts about a thing: its cluster, or where it is when it has none."""
    if labels.cluster:
        return Labels(cluster=labels.cluster)
    return labels.only(("team", "region", "account"))


def _block_end(instance: Instance, inventory: Inventory) -> float:
    """Return when the Capacity Block of an instance ends, in seconds since the epoch, else inf.

    An instance that names no reservation is in the one of its type and zone that ends last.
    """
    if instance.market is not Market.CAPACITY_BLOCK:
        return np.inf
    blocks = [
        (block.labels, block.ends_at.timestamp())
        for block in inventory.reservations
        if block.market is Market.CAPACITY_BLOCK and block.ends_at is not None
    ]
    if instance.reservation:
        return next((end for x, end in blocks if x.resource == instance.reservation), np.inf)
    place = (instance.labels.instance_type, instance.labels.zone)
    return max((end for x, end in blocks if (x.instance_type, x.zone) == place), default=np.inf)


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


@dataclass
class Limits:
    """Spread the policy's thresholds over the nodes.

    Each has the overrides of its cluster, team, region and account.
    """

    policy: Policy
    roster: Roster
    _cache: dict[tuple[str, float], Numbers] = field(default_factory=dict)

    @cached_property
    def _policies(self) -> tuple[list[Policy], Rows]:
        """Return the policies of all places, and which of them each node has, (n,)."""
        policies = [self.policy.at(labels) for labels in self.roster.labels]
        by_identity = {id(policy): policy for policy in policies}
        identities, places = np.unique([*map(id, policies)], return_inverse=True)
        return [by_identity[x] for x in identities.tolist()], places

    def number(self, key: str) -> Numbers:
        """Return a number per node, (n,)."""
        return self._spread(key, 0.0, lambda policy: policy.number(key))

    def steps(self, key: str, step: timedelta) -> Numbers:
        """Return a length of time per node in whole steps, at least one, (n,)."""
        return self._spread(
            key, step.total_seconds(), lambda policy: max(1, -(-policy.duration(key) // step))
        )

    def on(self, key: str) -> Mask:
        """Return a switch per node, (n,)."""
        return self._spread(key, 0.0, lambda policy: float(policy.on(key))) > 0

    @cached_property
    def spared(self) -> Mask:
        """Return which nodes are kept ready on purpose, (n,): they may do nothing."""
        policies, places = self._policies
        words = [set(_words(policy.text("idle.spared"))) for policy in policies]
        purposes = zip(self.roster.purposes, places.tolist(), strict=True)
        spared = [
            bool(purpose) and bool(words[i] & set(_words(purpose))) for purpose, i in purposes
        ]
        return np.array(spared, dtype=bool)

    @cached_property
    def longest(self) -> timedelta:
        """Return the longest span that any rule looks back over."""
        # Lengths of time of causes about nodes, unless they look ahead.
        spans = [
            key
            for key, value in self.policy.values.items()
            if isinstance(value, timedelta)
            and key.partition(".")[0] in _OF_NODES
            and key.partition(".")[2] != "ahead"
        ]
        policies = (self.policy, *self._policies[0])
        return max(policy.duration(key) for policy in policies for key in spans)

    def _spread(self, key: str, step: float, of: Callable[[Policy], float]) -> Numbers:
        if (key, step) not in self._cache:
            policies, places = self._policies
            values = np.array([of(policy) for policy in policies], dtype=np.float64)
            self._cache[key, step] = values[places]
        return self._cache[key, step]
