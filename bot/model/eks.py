"""Describe the clusters of Amazon EKS and their managed node groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bot.model.labels import Labels


@dataclass(frozen=True)
class NodeGroup:
    """State one EKS managed node group; `groups` are the Auto Scaling groups that it is made of."""

    name: str
    status: str
    version: str
    instance_types: tuple[str, ...]
    desired: int
    groups: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    """The Kubernetes labels that it gives its nodes."""


@dataclass(frozen=True)
class Cluster:
    """State one EKS cluster; `labels` carry its name, region and account.

    `security_group` is on every managed node.
    """

    labels: Labels
    version: str
    status: str
    created_at: datetime | None
    security_group: str = ""
    node_groups: tuple[NodeGroup, ...] = ()

    @property
    def name(self) -> str:
        """Return the cluster's name."""
        return self.labels.cluster
