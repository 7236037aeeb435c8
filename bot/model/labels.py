"""Identify metrics, alerts, silences, routes and costs by one set of labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace

CLUSTER_TAGS = (
    "eks:cluster-name",
    "aws:eks:cluster-name",
    "cluster",
    "parallelcluster:cluster-name",
    "aws:pcs:cluster-id",
)
"""Tags that name the cluster of a node or a charge, the first with a value counts.

EKS, ParallelCluster and Parallel Computing Service set theirs (their user guides, 2026-11).
"""


@dataclass(frozen=True, slots=True, order=True)
class Labels:
    """Hold the one identity of a thing; the empty string means "not said"."""

    cluster: str = ""
    instance: str = ""
    core: str = ""
    pod: str = ""
    namespace: str = ""
    job: str = ""
    team: str = ""
    region: str = ""
    zone: str = ""
    account: str = ""
    instance_type: str = ""
    service: str = ""
    usage_type: str = ""
    resource: str = ""
    project: str = ""

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield the (name, value) pairs that are said, in the order of the fields."""
        return ((name, value) for name in NAMES if (value := getattr(self, name)))

    def __str__(self) -> str:
        """Return the labels as `cluster=llama instance=i-1`."""
        return " ".join(f"{name}={value}" for name, value in self)

    def get(self, name: str) -> str:
        """Return one label's value, "" where it is not said."""
        return str(getattr(self, name))

    def only(self, names: Iterable[str]) -> Labels:
        """Keep just the named labels."""
        return Labels(**{name: self.get(name) for name in names})

    def merge(self, other: Labels) -> Labels:
        """Take every label that `other` says over this one's."""
        return replace(self, **dict(other))

    def selects(self, other: Labels) -> bool:
        """Return whether `other` has the same value for every label that is set here."""
        return all(getattr(other, name) == value for name, value in self)

    @staticmethod
    def shared(many: Iterable[Labels]) -> Labels:
        """Keep the labels on which all of `many` agree."""
        first, *others = (*many,) or (Labels(),)
        shared = {
            name: value
            for name, value in first
            if all(getattr(labels, name) == value for labels in others)
        }
        return Labels(**shared)


NAMES: tuple[str, ...] = tuple(field.name for field in fields(Labels))
SHARED_NAMESPACES = frozenset(
    {
        "",
        "default",
        "kube-system",
        "kube-public",
        "kube-node-lease",
        "amazon-cloudwatch",
        "karpenter",
    }
)
"""Namespaces that name no owner."""
PLACE: tuple[str, ...] = ("cluster", "team", "region", "account")
"""The labels of a thing's place, not those of the thing itself.

What a policy may be overridden for.
"""
