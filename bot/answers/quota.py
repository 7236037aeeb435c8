"""Answer how many vCPUs each quota leaves before a launch is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.answers.names import known_type
from bot.answers.registry import Needs, arg, command
from bot.cards.card import Align, Block, Card, Column, Link, Table, Text, Tone, quiet
from bot.cards.words import day
from bot.errors import Unavailable
from bot.model.fleet import InstanceType, Inventory, Quota
from bot.model.request import Request
from bot.ports import Ports

_COUNTED = ("pending", "running")
"""States that count against a quota (EC2 User Guide, On-Demand Instance quotas)."""


@dataclass(frozen=True)
class QuotaUse:
    """Join a quota with its use; `unknown` are running types whose vCPUs no table knows."""

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
    ordered = sorted(
        counts.items(), key=lambda entry: (-entry[1] * vcpus.get(entry[0], 0), entry[0])
    )
    used = sum(n * vcpus.get(name, 0) for name, n in ordered)
    return QuotaUse(
        quota, used, tuple(ordered), tuple(sorted(name for name in counts if not vcpus.get(name)))
    )


_COLUMNS = (
    Column("quota"),
    Column("where"),
    Column("used", Align.RIGHT),
    Column("of", Align.RIGHT),
    Column("room for"),
)
_MOST = 12
TIGHT_SHARE = 0.9
"""Share of a quota in use from which the card warns."""


def quota_card(
    uses: Sequence[QuotaUse], types: Mapping[str, InstanceType], instance_type: str = ""
) -> Card:
    """Draw the quotas, the tightest first.

    Room is counted in `instance_type`, else in the type that runs most.
    """
    shown = [use for use in uses if use.used or instance_type or "trn" in use.quota.families][
        :_MOST
    ] or list(uses[:_MOST])
    tight = [use for use in uses if is_tight(use, types, instance_type)]
    rest = (
        f"and {len(uses) - len(shown)} more quotas without running instances"
        if len(uses) > len(shown)
        else ""
    )
    blocks: list[Block] = [
        Table(_COLUMNS, tuple(_row(use, types, instance_type) for use in shown), rest=rest)
    ]
    blocks.append(_link((tight or shown)[0], tight=bool(tight)))
    unknown = sorted({name for use in uses for name in use.unknown})
    blocks += (
        [quiet(f"Not counted, as their vCPUs are not known: {', '.join(unknown)}.")]
        if unknown
        else []
    )
    oldest = min(use.quota.asof for use in uses)
    blocks += [
        quiet(
            f"vCPUs of pending and running nodes against Service Quotas as of {day(oldest)}. Capacity Blocks do not count."
        )
    ]
    title = (
        f"{len(tight)} of {len(uses)} quotas leave no room for one more node"
        if tight
        else "Quotas leave room"
    )
    title = "1 quota leaves no room for one more node" if len(tight) == 1 else title
    return Card(
        title,
        Tone.WARNING if tight else Tone.GOOD,
        tuple(blocks),
        {"quotas": [_data(use, types, instance_type) for use in uses]},
    )


def room(
    use: QuotaUse, types: Mapping[str, InstanceType], instance_type: str
) -> tuple[str, int] | None:
    """Return a type and how many more of it fit: the one asked for, else the one that runs most.

    None where neither is.
    """
    name = instance_type or next((name for name, _ in use.running if name in types), "")
    vcpus = types[name].vcpus if name in types else 0
    return (name, int(use.free // vcpus)) if vcpus else None


def is_tight(use: QuotaUse, types: Mapping[str, InstanceType], instance_type: str) -> bool:
    """Tell whether the next launch would be refused."""
    fits = room(use, types, instance_type)
    return fits[1] < 1 if fits else bool(use.used) and use.used >= use.quota.vcpus * TIGHT_SHARE


def _row(use: QuotaUse, types: Mapping[str, InstanceType], instance_type: str) -> tuple[str, ...]:
    labels, fits = use.quota.labels, room(use, types, instance_type)
    where = " ".join(part for part in (labels.account, labels.region) if part)
    share = f" ({use.used / use.quota.vcpus * 100:.0f} %)" if use.quota.vcpus else ""
    fit = f"{fits[1]:,} x {fits[0]}" if fits else f"{use.free:,.0f} vCPU"
    return (use.quota.name, where, f"{use.used:,} vCPU{share}", f"{use.quota.vcpus:,.0f}", fit)


def _link(use: QuotaUse, *, tight: bool) -> Text:
    region, code = use.quota.labels.region, use.quota.code
    plain = all(c.isalnum() or c == "-" for c in region + code)
    address = (
        f"https://{region}.console.aws.amazon.com/servicequotas/home/services/ec2/quotas/{code}"
    )
    link = Link("Service Quotas", address) if plain else "Service Quotas"
    if not tight:
        return Text(
            (
                "Any AWS customer may launch these types within the quota, without a partner; request more in ",
                link,
                ".",
            )
        )
    return Text(
        (
            "The next launch would be refused with VcpuLimitExceeded; request more in ",
            link,
            ". It can take days.",
        )
    )


def _data(use: QuotaUse, types: Mapping[str, InstanceType], instance_type: str) -> dict[str, Any]:
    fits, quota = room(use, types, instance_type), use.quota
    return {
        "name": quota.name,
        "code": quota.code,
        "account": quota.labels.account,
        "region": quota.labels.region,
        "market": quota.market.value,
        "limit_vcpus": quota.vcpus,
        "used_vcpus": use.used,
        "running": dict(use.running),
        "room": {"instance_type": fits[0], "nodes": fits[1]} if fits else None,
        "asof": quota.asof,
    }


@command(
    "quota",
    "vCPU quotas of accelerated instances, and how much of each is left.",
    needs=Needs.METRICS,
    examples=("quota", "quota trn1.32xlarge"),
)
async def quota(
    ports: Ports,
    request: Request,
    instance_type: str = arg("", "show how many more instances of this type fit"),
) -> Card:
    """Compare each quota with the vCPUs that run, and say how many nodes more it lets through."""
    inventory = (await asyncio.to_thread(ports.world.source.read, request.at)).inventory
    if instance_type:
        instance_type = known_type(instance_type, inventory.types).name
    uses = [use_of(quota, inventory) for quota in inventory.quotas]
    fitting = [use for use in uses if use.quota.counts(instance_type)] if instance_type else uses
    if not fitting:
        raise Unavailable(
            "No vCPU quota is known here; a live account needs servicequotas:ListServiceQuotas (deploy/iam-policy.json), "
            "a recording api/service-quotas/list_service_quotas."
        )
    return quota_card(sorted(fitting, key=_tightest), inventory.types, instance_type)


def _tightest(use: QuotaUse) -> tuple[bool, float, str]:
    """Order quotas: those in use first, the least free share before the rest."""
    share = use.used / use.quota.vcpus if use.quota.vcpus else 0.0
    return not use.used, -share, use.quota.name
