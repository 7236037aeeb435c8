"""Derive who owns a pod that carries no team."""

from __future__ import annotations

import re

from bot.model.labels import Labels

_SHARED = frozenset({"", "default", "kube-system", "kube-public", "kube-node-lease", "amazon-cloudwatch", "karpenter"})
"""Namespaces that say nothing of an owner."""
_ENDING = re.compile(r"(-[a-z0-9]{8,10}-[a-z0-9]{5}|-[a-z0-9]{5}|-\d+)$")
"""What controllers of Kubernetes put behind a job's name: hash and suffix of a ReplicaSet, suffix of a Job, ordinal."""


def derived_owner(pod: Labels) -> tuple[str, str]:
    """Return an owner of a pod and what it was derived from, ("", "") where nothing tells one."""
    if pod.namespace not in _SHARED:
        return pod.namespace, "namespace"
    job = pod.job or _ENDING.sub("", pod.pod)
    return (job, "job") if job else ("", "")
