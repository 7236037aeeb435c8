"""Tell whose a resource is, from its tags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bot.model.labels import Labels

_EKS_OWNED = "kubernetes.io/cluster/"


@dataclass(frozen=True)
class TagNames:
    """Name the tags that say cluster, team, project, owner and job; the first that is there counts."""

    cluster: tuple[str, ...] = ("eks:cluster-name", "aws:eks:cluster-name", "cluster")
    team: tuple[str, ...] = ("team",)
    project: tuple[str, ...] = ("project",)
    owner: tuple[str, ...] = ("owner",)
    job: tuple[str, ...] = ("job", "run", "aws:eks:workload-name")

    def labels(self, tags: Mapping[str, str]) -> Labels:
        """Return cluster, team and job as the tags say them."""
        return Labels(cluster=self._cluster(tags), team=first(tags, self.team), job=first(tags, self.job))

    def _cluster(self, tags: Mapping[str, str]) -> str:
        named = first(tags, self.cluster)
        owned = sorted(name.removeprefix(_EKS_OWNED) for name in tags if name.startswith(_EKS_OWNED))
        return named or (owned[0] if owned else "")


def first(tags: Mapping[str, str], names: Iterable[str]) -> str:
    """Return the value of the first of `names` that has one, ""."""
    return next((value for name in names if (value := tags.get(name))), "")


def tags_of(member: Mapping[str, Any], key: str = "Tags") -> dict[str, str]:
    """Return a response's list of {Key, Value} as a mapping."""
    return {str(tag["Key"]): str(tag.get("Value", "")) for tag in member.get(key) or ()}
