"""Answer what the bot itself costs and how its watch stands, and how much an account may still launch."""

from __future__ import annotations

import asyncio

from bot.advice.quota import QuotaUse, use_of
from bot.cards.card import Card
from bot.cards.own import Watched, own_card
from bot.cards.quota import quota_card
from bot.commands.registry import arg, command
from bot.errors import Unavailable, WrongInput, nearest
from bot.model.request import Request
from bot.ports import Ports
from bot.watch import Watch


@command("self", "What the bot's own AWS calls cost, and how its watch stands.", examples=("self",))
async def self_(ports: Ports, request: Request) -> Card:
    """Tell the bot's own bill by API with its budget, and the last tick, its age and what was missed."""
    bill = await asyncio.to_thread(ports.own_bill)
    memory = await asyncio.to_thread(ports.store.load, request.at)
    facts = {name: value for name, value in ports.standing().items() if name not in _SAID}
    return own_card(
        bill, Watched(memory.ticked_at, request.at, ports.interval, facts), await asyncio.to_thread(ports.source.problems)
    )


_SAID = ("ticked_at", "ok", "open_alerts", "usd_per_hour")
"""What stands elsewhere on the card, or is about the fleet."""


@command(
    "quota", "vCPU quotas of accelerated instances, and how much room they leave.", examples=("quota", "quota trn1.32xlarge")
)
async def quota(ports: Ports, request: Request, instance_type: str = arg("", "how many more of this type fit")) -> Card:
    """Compare each quota with the vCPUs that run, and say how many nodes more it lets through."""
    reading = await asyncio.to_thread(Watch(ports, ()).read, request.at)
    inventory = reading.inventory
    if instance_type and instance_type not in inventory.types:
        raise WrongInput(f"'{instance_type}' is not an instance type known here{nearest(instance_type, inventory.types)}.")
    uses = [use_of(quota, inventory) for quota in inventory.quotas]
    fitting = [use for use in uses if use.quota.counts(instance_type)] if instance_type else uses
    if not fitting:
        raise Unavailable(
            "No vCPU quota is known here; a live account needs servicequotas:ListServiceQuotas (deploy/iam-policy.json), "
            "a recording api/service-quotas/list_service_quotas."
        )
    return quota_card(sorted(fitting, key=_tightest), inventory.types, instance_type)


def _tightest(use: QuotaUse) -> tuple[bool, float, str]:
    """Order: what is used first, the least free share before the rest."""
    share = use.used / use.quota.vcpus if use.quota.vcpus else 0.0
    return not use.used, -share, use.quota.name
