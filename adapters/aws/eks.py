"""Translate EKS responses into clusters, and tell the cluster of nodes whose tags do not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from adapters.aws.responses import Answer, Pages, instant, members
from bot.model.fleet import Cluster, NodeGroup
from bot.model.labels import Labels

GROUP_TAG = "aws:autoscaling:groupName"


def listed(pages: Pages, answer: Answer) -> tuple[tuple[str, str], ...]:
    """Translate ListClusters into (region, name)."""
    return tuple((answer.region, str(name)) for name in members(pages, "clusters"))


def described(pages: Pages, answer: Answer) -> Cluster:
    """Translate DescribeCluster."""
    (page,) = pages
    told: Mapping[str, Any] = page["cluster"]
    account = str(told.get("arn", "")).split(":")[4:5]
    return Cluster(
        labels=Labels(cluster=str(told["name"]), region=answer.region, account=account[0] if account else answer.account),
        version=str(told.get("version", "")),
        status=str(told.get("status", "")),
        created_at=instant(told.get("createdAt")),
        security_group=str((told.get("resourcesVpcConfig") or {}).get("clusterSecurityGroupId", "")),
    )


def node_group(pages: Pages, answer: Answer) -> tuple[str, str, NodeGroup]:
    """Translate DescribeNodegroup into cluster, region and group."""
    (page,) = pages
    told: Mapping[str, Any] = page["nodegroup"]
    group = NodeGroup(
        name=str(told["nodegroupName"]),
        status=str(told.get("status", "")),
        version=str(told.get("version", "")),
        instance_types=tuple(told.get("instanceTypes") or ()),
        desired=int((told.get("scalingConfig") or {}).get("desiredSize") or 0),
        groups=tuple(str(x["name"]) for x in (told.get("resources") or {}).get("autoScalingGroups") or ()),
    )
    return str(told["clusterName"]), answer.region, group


def joined(clusters: Iterable[Cluster], groups: Iterable[tuple[str, str, NodeGroup]]) -> tuple[Cluster, ...]:
    """Give each cluster its node groups."""
    every = sorted(groups, key=lambda entry: entry[2].name)
    mine = {
        x.labels: tuple(group for name, region, group in every if (name, region) == (x.name, x.labels.region)) for x in clusters
    }
    return tuple(replace(x, node_groups=mine[x.labels]) for x in sorted(clusters, key=lambda x: x.labels))


@dataclass(frozen=True)
class Membership:
    """Tell which cluster a node belongs to by its Auto Scaling group or its security groups."""

    by_group: Mapping[str, str] = field(default_factory=dict)
    by_security_group: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(clusters: Iterable[Cluster]) -> Membership:
        """Read it off the clusters."""
        every = tuple(clusters)
        groups = {name: x.name for x in every for group in x.node_groups for name in group.groups}
        return Membership(groups, {x.security_group: x.name for x in every if x.security_group})

    def cluster(self, tags: Mapping[str, str], security_groups: Iterable[str]) -> str:
        """Return the cluster of a node, "" where neither says one."""
        by_group = self.by_group.get(tags.get(GROUP_TAG, ""), "")
        return by_group or next((self.by_security_group[x] for x in security_groups if x in self.by_security_group), "")
