"""Answer how capacity for a large run can be had, and how many vCPUs each quota leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from bot.answers.cost.commitments import commitment_blocks, commitment_data, commitments_of
from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    Card,
    Heading,
    Link,
    Strong,
    Table,
    Text,
    Tone,
    quiet,
    text,
)
from bot.cards.words import PriceAge, day, note_lines
from bot.costs.commitments import Commitments
from bot.costs.pricing import Offers, Pricing
from bot.errors import Unavailable, WrongInput
from bot.grammar.names import known_region, known_type
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.claims import Note
from bot.model.fleet import InstanceType, Inventory, Market, Quota, Scarcity, scarcities
from bot.model.labels import Labels
from bot.model.money import cents, counted, usd
from bot.model.price import Price
from bot.model.reading import Reading
from bot.model.request import Request
from bot.model.window import age_text, rounded_duration
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
    Heading("quota"),
    Heading("where"),
    Heading("used", Align.RIGHT),
    Heading("of", Align.RIGHT),
    Heading("room for"),
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


_QUOTA_FIGURES = {
    "limit_vcpus": "the applied quota, by Service Quotas",
    "used_vcpus": "sum over the running instances of the quota's families of their vCPUs",
    "running/*": "count of the running instances of the type, by inventory",
    "room/nodes": "(limit - used vCPUs) / vCPUs of the type, rounded down",
}


@command(
    "quota",
    "vCPU quotas of accelerated instances, and how much of each is left.",
    needs=Needs.METRICS,
    examples=("quota", "quota trn1.32xlarge"),
    figures=_QUOTA_FIGURES,
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


_R = Align.RIGHT
HELD = {
    Market.CAPACITY_BLOCK: "Capacity Block, paid upfront",
    Market.ON_DEMAND: "on-demand reservation, paid used or not",
    Market.SAVINGS_PLAN: "Savings Plan, the account's own rate",
    Market.RESERVED: "reserved, the account's own rate",
    Market.SPOT: "spot: not guaranteed",
}


@dataclass(frozen=True)
class Demand:
    """State the capacity that is wanted; `used` is the share of its hours that will be used."""

    instance_type: str
    nodes: int
    days: int
    used: Decimal

    @property
    def hours(self) -> int:
        """Return the node-hours."""
        return self.nodes * self.days * 24

    def paid(self, price: Price) -> Decimal:
        """Return the cost in USD: of every hour, on spot of those that are used."""
        return cents(
            price.usd_per_hour
            * self.hours
            * (self.used if price.market is Market.SPOT else Decimal(1))
        )

    def __str__(self) -> str:
        """Read as `16 x trn1.32xlarge for 14 days`."""
        return f"{self.nodes} x {self.instance_type} for {self.days} days"


@dataclass(frozen=True)
class Refused:
    """Hold how often requests of one type were refused by zone, as of a time.

    `zones` is None where nobody asked AWS.
    """

    instance_type: str
    zones: tuple[Scarcity, ...] | None
    at: datetime

    def blocks(self) -> list[Block]:
        """Say it in one sentence; nothing where nobody asked."""
        if self.zones is None:
            return []
        span = f"within {rounded_duration(LOOKED)}"
        if not self.zones:
            return [
                quiet(
                    f"No request for {self.instance_type} was refused for want of capacity {span} ({_TRAIL})."
                )
            ]
        total = counted(sum(zone.refused for zone in self.zones), "request")
        each = "; ".join(self._words(zone) for zone in self.zones[:_MOST_ZONES])
        more = (
            f"; and {counted(len(self.zones) - _MOST_ZONES, 'more zone')}"
            if len(self.zones) > _MOST_ZONES
            else ""
        )
        return [
            text(
                Strong(f"{total} refused"),
                f" for want of capacity {span}: {each}{more} ({_TRAIL}).",
            )
        ]

    def data(self) -> list[dict[str, Any]] | None:
        """Return the counts for scripts; None where nobody asked."""
        if self.zones is None:
            return None
        return [
            {"zone": x.zone, "refused": x.refused, "of_them_spot": x.spot, "newest": x.newest}
            for x in self.zones
        ]

    def _words(self, zone: Scarcity) -> str:
        market = (
            f", {'all' if zone.spot == zone.refused else zone.spot} on spot" if zone.spot else ""
        )
        return f"{zone.zone} {zone.refused:,}{market}, last {age_text((self.at - zone.newest).total_seconds())} ago"


def refused_of(reading: Reading, instance_type: str) -> Refused:
    """Count the requests of a type that were refused lately."""
    told = reading.refusals
    since = reading.now - LOOKED
    zones = None if told is None else scarcities([x for x in told if x.at >= since], instance_type)
    return Refused(instance_type, zones, reading.now)


LOOKED = timedelta(days=7)
"""How far back refused requests are counted."""
_MOST_ZONES = 6
_TRAIL = "CloudTrail's RunInstances and CreateFleet"


@dataclass(frozen=True)
class Ways:
    """Hold what is known of the ways to capacity.

    Prices, what was refused lately, and what others say.
    """

    prices: Sequence[Price]
    refused: Refused
    notes: Sequence[Note] = ()
    commitments: Commitments | None = None


def capacity_card(demand: Demand, ways: Ways, age: PriceAge) -> Card:
    """Draw each way, the cheapest used hour first."""
    prices = ways.prices
    rows = [_capacity_row(x, demand, age) for x in sorted(prices, key=lambda x: x.usd_per_hour)]
    columns = (
        Heading("way"),
        Heading("node $/h", _R),
        Heading("in all", _R),
        Heading("hour in use", _R),
        Heading("region"),
        Heading("price of"),
    )
    use = f"{demand.used * 100:.0f} % of the hours used; spot pays only those that run."
    blocks: list[Block] = [Table(columns, tuple(rows), caption=f"{demand}; {use}")]
    if demand.days > 182 and any(x.market is Market.CAPACITY_BLOCK for x in prices):
        blocks.append(
            text("A Capacity Block lasts 182 days at most: you would need two in succession.")
        )
    blocks += commitment_blocks(ways.commitments) if ways.commitments else []
    blocks += ways.refused.blocks()
    blocks += [
        *note_lines(ways.notes, age.today),
        quiet(
            "Hours of a reservation or block that nothing uses raise the alert 'unused capacity'."
        ),
    ]
    blocks.append(
        Buttons(
            (
                Button("Quotas", f"quota {demand.instance_type}"),
                Button("Spot", f"spot {demand.instance_type}"),
            )
        )
    )
    sure = [x for x in prices if x.market is not Market.SPOT]
    best = min(sure or prices, key=lambda x: x.usd_per_hour)
    title = f"{demand}: from {usd(demand.paid(best))} ({best.market.replace('-', ' ')})"
    return Card(title, Tone.INFO, tuple(blocks), _capacity_data(demand, ways))


def _capacity_data(demand: Demand, ways: Ways) -> dict[str, Any]:
    each = [
        {
            "market": x.market.value,
            "usd_per_hour": x.usd_per_hour,
            "total_usd": demand.paid(x),
            "region": x.region,
            "asof": x.asof,
        }
        for x in ways.prices
    ]
    asked = {
        "instance_type": demand.instance_type,
        "hours": demand.hours,
        "used_ratio": demand.used,
    }
    committed = {"commitments": commitment_data(ways.commitments)} if ways.commitments else {}
    return {**asked, "ways": each, **committed, "refused": ways.refused.data()}


def _capacity_row(price: Price, demand: Demand, age: PriceAge) -> tuple[str, ...]:
    paid = demand.paid(price)
    each = usd(paid / (demand.hours * demand.used)) if demand.used else "–"
    return (
        HELD[price.market],
        usd(price.usd_per_hour),
        usd(paid),
        each,
        price.region,
        f"{price.asof}, {price.basis}{age.of(price.asof)}",
    )


_CAPACITY_FIGURES = {
    "hours": "nodes x days x 24",
    "used_ratio": "percent as typed / 100",
    "usd_per_hour": (
        "best-founded price of the way to buy: the account's own, else listed, offered, of "
        "last resort"
    ),
    "total_usd": "price x hours; on spot x the share that is used",
    "commitments/on_demand_usd_per_hour": (
        "best-founded price of an hour on demand in the region of the quotes"
    ),
    "used_lately/ratio": (
        "sum over the hours of min(nodes asked for; nodes paid on demand: the bill's USD of"
        " the hour / price) / (nodes x hours of the window)"
    ),
    "offers/years": "the term, by AWS's offer",
    "offers/usd_per_hour": (
        "the rate of the Savings Plan; of a reserved instance fee / hours of the term + "
        "what it costs by the hour"
    ),
    "offers/upfront_usd": (
        "nodes x what one costs at the start: the fee, or of a Savings Plan rate x hours of"
        " the term x the share that is paid upfront"
    ),
    "offers/off_ratio": "1 - rate / price on demand",
    "offers/term_hours": "years x 365 x 24",
    "offers/breakeven_hours": "hours of the term x rate / price on demand, rounded up",
    "offers/saved_usd": (
        "hours that it would have taken over x price on demand - nodes x hours of the window x rate"
    ),
    "refused/*": (
        "count of the requests that were refused for want of capacity within 7 days, by CloudTrail"
    ),
}


@command(
    "capacity",
    "Ways to secure capacity (reservation, Capacity Block), the cost of an hour in use, and quotes of Savings Plans and reserved "
    "instances against your own hours.",
    needs=Needs.METRICS | Needs.STATE,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=(
        "capacity trn1.32xlarge nodes=16 days=14",
        "capacity trn2.48xlarge nodes=4 days=30 used=80",
    ),
    figures=_CAPACITY_FIGURES,
)
async def capacity(
    ports: Ports,
    request: Request,
    instance_type: str = arg(None, "the instance type"),
    nodes: int = arg("1", "nodes", keyword=True),
    days: int = arg("14", "days", keyword=True),
    used: Decimal = arg("90", "percent of the time that the nodes will work", keyword=True),
    region: str = arg("", "where prices are looked up first", keyword=True),
) -> Card:
    """Compare every way that has a price."""
    if not 1 <= nodes <= 100_000 or not 1 <= days <= 3_650 or not 1 <= used <= 100:
        raise WrongInput("nodes and days are 1 or more, used is 1 to 100 percent.")
    return await asyncio.to_thread(
        _answer, ports, request, Demand(instance_type.lower(), nodes, days, used / 100), region
    )


def _answer(ports: Ports, request: Request, demand: Demand, region: str) -> Card:
    name = demand.instance_type
    known_type(name, ports.world.knowledge.types())
    region = known_region(region, ports)
    offers = Offers(Pricing(ports).at(request.at))
    prices = offers.each(name, region)
    if not prices:
        raise Unavailable(f"No price of {name} is known in any market.")
    stale = ports.policy.at(Labels()).number("advice.stale_days")
    notes = ports.world.knowledge.claims().of("blocks")
    refused = refused_of(ports.world.source.read(request.at), name)
    committed = commitments_of(ports, (name, demand.nodes), offers, request.at, region)
    return capacity_card(
        demand, Ways(prices, refused, notes, committed), PriceAge(request.at.date(), stale)
    )
