"""Join quotas with what runs: how many vCPUs are left before a launch is refused."""

from __future__ import annotations

from dataclasses import dataclass

from bot.model.fleet import Inventory, Quota

_COUNTED = ("pending", "running")
"""States that count against a quota (EC2 User Guide, On-Demand Instance quotas)."""


@dataclass(frozen=True)
class QuotaUse:
    """Join a quota with what counts against it; `unknown` are running types whose vCPUs no table knows."""

    quota: Quota
    used: int
    running: tuple[tuple[str, int], ...]
    """(instance type, how many), the largest use first."""
    unknown: tuple[str, ...] = ()

    @property
    def free(self) -> float:
        """Return the vCPUs that can still be launched."""
        return max(0.0, self.quota.vcpus - self.used)


def use_of(quota: Quota, inventory: Inventory) -> QuotaUse:
    """Count the running vCPUs of a quota's account, region, families and market."""
    counts: dict[str, int] = {}
    for instance in inventory.instances.values():
        labels = instance.labels
        mine = quota.labels.selects(labels) and quota.counts(labels.instance_type)
        if mine and instance.state in _COUNTED and instance.market is quota.market:
            counts[labels.instance_type] = counts.get(labels.instance_type, 0) + 1
    vcpus = {name: inventory.types[name].vcpus for name in counts if name in inventory.types}
    ordered = sorted(counts.items(), key=lambda entry: (-entry[1] * vcpus.get(entry[0], 0), entry[0]))
    used = sum(n * vcpus.get(name, 0) for name, n in ordered)
    return QuotaUse(quota, used, tuple(ordered), tuple(sorted(name for name in counts if not vcpus.get(name))))
