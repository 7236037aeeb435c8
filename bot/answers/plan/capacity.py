"""Answer how capacity for a large run can be had, and how many vCPUs each quota leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from bot.answers.cost.commitments import (
    OFFERS,
    commitment_blocks,
    commitment_data,
    commitments_of,
)
from bot.cards.card import (
    Button,
    Buttons,
    Card,
    Link,
    Strong,
    Text,
    Tone,
    coded,
    compose,
    quiet,
    text,
)
from bot.cards.columns import NUMBER, USD, Column, Columns, Unit, datum
from bot.cards.words import PriceAge, as_read, few, note_lines
from bot.costs.capacity import Commitments
from bot.costs.pricing import Offers, Pricing
from bot.errors import Unavailable, refuse
from bot.grammar.names import known_region, known_type
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.claims import Note
from bot.model.fleet import Inventory, Market, Quota, Scarcity, scarcities
from bot.model.money import cents, counted, usd
from bot.model.price import Price
from bot.model.reading import Reading, coverage_of
from bot.model.request import Request
from bot.model.window import age_text, day, rounded_duration
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
    counted: tuple[str, int] | None = None
    """The type in which its room is counted, and the vCPUs of one."""

    @property
    def free(self) -> float:
        """Return the vCPUs that can still be launched."""
        return max(0.0, self.quota.vcpus - self.used)

    @property
    def share(self) -> float:
        """Return the part of the quota that is in use, 0 where it is of nothing."""
        return self.used / self.quota.vcpus if self.quota.vcpus else 0.0

    @property
    def room(self) -> tuple[str, int] | None:
        """Return a type and how many more of it fit, None where no type is known to count in."""
        return (self.counted[0], int(self.free // self.counted[1])) if self.counted else None

    @property
    def is_tight(self) -> bool:
        """Return whether the next launch would be refused."""
        if self.room:
            return self.room[1] < 1
        return bool(self.used) and self.used >= self.quota.vcpus * TIGHT_SHARE


def use_of(quota: Quota, inventory: Inventory, instance_type: str = "") -> QuotaUse:
    """Count the running vCPUs of a quota's account, region, families and market.

    Its room is counted in the type asked for, else in the one that runs most.
    """
    nodes = Counter(
        instance.labels.instance_type
        for instance in inventory.instances.values()
        if instance.state in _COUNTED
        and instance.market is quota.market
        and quota.labels.selects(instance.labels)
        and quota.counts(instance.labels.instance_type)
    )
    # A type that no table knows counts for nothing here, and is named on the card.
    vcpus = {name: inventory.types[name].vcpus if name in inventory.types else 0 for name in nodes}
    running = sorted(nodes.items(), key=lambda entry: (-entry[1] * vcpus[entry[0]], entry[0]))
    names = (name for name, _ in running if name in inventory.types)
    kind = inventory.types.get(instance_type or next(names, ""))

    return QuotaUse(
        quota,
        sum(n * vcpus[name] for name, n in running),
        tuple(running),
        tuple(sorted(name for name in nodes if not vcpus[name])),
        (kind.name, kind.vcpus) if kind and kind.vcpus else None,
    )


_MOST = 12
TIGHT_SHARE = 0.9
"""Share of a quota in use from which the card warns."""


def console_link(use: QuotaUse) -> Link | str:
    """Return where more of a quota is requested."""
    region, code = use.quota.labels.region, use.quota.code
    # Drawn only where region and code can be nothing else than parts of an address.
    if not all(letter.isalnum() or letter == "-" for letter in region + code):
        return "Service Quotas"
    return Link(
        "Service Quotas",
        f"https://{region}.console.aws.amazon.com/servicequotas/home/services/ec2/quotas/{code}",
    )


def launch_verdict(uses: Sequence[QuotaUse], instance_type: str, nodes: int) -> tuple[Tone, str]:
    """Say whether so many more nodes of a type would start, by the room of its quotas by region."""
    launch, fit = f"{nodes:,} more {instance_type}", "fits" if nodes == 1 else "fit"
    rooms = {use.quota.labels.region or "one region": use.room[1] for use in uses if use.room}
    if fitting := sorted(region for region, most in rooms.items() if most >= nodes):
        return Tone.GOOD, f"{launch} {fit} the quota of {', '.join(fitting)}"
    where = max(rooms, key=lambda region: rooms[region], default="any region")
    most = rooms.get(where, 0)

    return Tone.WARNING, f"{launch} would be refused: room for {most:,} in {where}"


def quota_card(uses: Sequence[QuotaUse], instance_type: str = "", nodes: int = 0) -> Card:
    """Draw the quotas, the tightest first.

    Of `nodes` more of a type that is asked for the title says whether they fit.
    """
    # A quota that nothing uses is worth a row only where it is of the chips that are watched.
    concerned = [use for use in uses if use.used or instance_type or "trn" in use.quota.families]
    listed = (concerned or list(uses))[:_MOST]
    tight = [use for use in uses if use.is_tight]

    hidden = len(uses) - len(listed)
    folded = f"and {hidden} more quotas without running instances" if hidden else ""

    service = console_link((tight or listed)[0])
    if tight:
        advice = text(
            "Where there is no room the next launch is refused with VcpuLimitExceeded; request more"
            " in ",
            service,
            ". It can take days.",
        )
        leave = f"{len(tight)} of {len(uses)} quotas leave" if len(tight) > 1 else "1 quota leaves"
        tone, title = Tone.WARNING, f"{leave} no room for one more node"
    else:
        advice = text(
            "Any AWS customer may launch these types within the quota, without a partner; request"
            " more in ",
            service,
            ".",
        )
        tone, title = Tone.GOOD, "Quotas leave room"

    if nodes:
        of_market = [use for use in uses if use.quota.market is not Market.SPOT]
        tone, title = launch_verdict(of_market, instance_type, nodes)

    unknown = ", ".join(sorted({name for use in uses for name in use.unknown}))

    return Card(
        title,
        tone,
        compose(
            replace(ROOMS.table(listed), rest=folded),
            advice,
            unknown and quiet(f"Not counted, as their vCPUs are not known: {unknown}."),
            quiet(
                "vCPUs of pending and running nodes against Service Quotas as of"
                f" {day(min(use.quota.asof for use in uses))}. Capacity Blocks do not count."
            ),
        ),
        {"quotas": ROOMS.data(uses)},
    )


QUOTAS = Columns[QuotaUse](
    Column("quota", lambda use: use.quota.name, key="name"),
    datum("code", lambda use: use.quota.code),
    datum("account", lambda use: use.quota.labels.account),
    datum("region", lambda use: use.quota.labels.region),
    datum("market", lambda use: use.quota.market.value),
    Column(
        "of",
        lambda use: use.quota.vcpus,
        Unit("{:,.0f}".format),
        "limit_vcpus",
        "the applied quota, by Service Quotas",
    ),
    datum(
        "used_vcpus",
        lambda use: use.used,
        "sum over the running instances of the quota's families of their vCPUs",
    ),
    datum("running", lambda use: dict(use.running)),
    datum("asof", lambda use: use.quota.asof),
)


def _used(use: QuotaUse) -> str:
    share = f" ({use.share * 100:.0f} %)" if use.quota.vcpus else ""
    return f"{use.used:,} vCPU{share}"


ROOMS = Columns[QuotaUse](
    QUOTAS.columns[0],
    Column("where", lambda use: f"{use.quota.labels.account} {use.quota.labels.region}".strip()),
    Column("used", _used, NUMBER),
    *QUOTAS.columns[1:-1],
    Column(
        "room for",
        lambda use: f"{use.room[1]:,} x {use.room[0]}" if use.room else f"{use.free:,.0f} vCPU",
    ),
    datum(
        "room",
        lambda use: use.room and dict(zip(("instance_type", "nodes"), use.room, strict=True)),
    ),
    QUOTAS.columns[-1],
)
"""Quotas with the room that they leave."""


def tight_quotas(inventory: Inventory) -> tuple[QuotaUse, ...]:
    """Return the quotas by which the next launch would be refused, the most used first."""
    uses = [use_of(quota, inventory) for quota in inventory.quotas]
    tight = [use for use in uses if use.is_tight]
    return tuple(sorted(tight, key=lambda use: (-use.used, use.quota.name)))


def room_words(tight: Sequence[QuotaUse]) -> Text:
    """Say by which quotas the next launch would be refused, the most used first."""
    quota, hidden = tight[0].quota, len(tight) - 1
    others = f", and by {counted(hidden, 'more quota')}" if hidden else ""
    return text(
        Strong("Room"),
        ": ",
        *coded(
            f"{tight[0].used:,} of {quota.vcpus:,.0f} vCPU of {quota.name} run in"
            f" {quota.labels.region or 'one region'}: the next launch would be refused{others}; see"
            " `quota`."
        ),
    )


@command(
    "quota",
    "vCPU quotas of accelerated instances, and how much of each is left.",
    needs=Needs.METRICS,
    examples=("quota", "quota trn1.32xlarge nodes=20"),
    figures={
        **QUOTAS.sources("quotas"),
        "running/*": "count of the running instances of the type, by inventory",
        "room/nodes": "(limit - used vCPUs) / vCPUs of the type, rounded down",
    },
)
def quota(
    ports: Ports,
    request: Request,
    instance_type: str = arg("", "show how many more instances of this type fit"),
    nodes: int = arg("0", "check whether this many more fit", keyword=True),
) -> Card:
    """Compare each quota with the vCPUs that run, and say how many nodes more it lets through."""
    refuse((not 0 <= nodes <= 100_000, "'nodes' is 0 to 100,000."))
    reading = ports.world.source.read(request.at)
    inventory = reading.inventory
    if instance_type:
        instance_type = known_type(instance_type, inventory.types).name
    elif nodes:
        running = Counter(
            x.labels.instance_type
            for x in inventory.instances.values()
            if x.running and x.labels.instance_type in inventory.types
        )
        instance_type = next((name for name, _ in running.most_common(1)), "")
    quotas = [x for x in inventory.quotas if not instance_type or x.counts(instance_type)]
    unknown = "How much of the quotas is used is not known"
    if not quotas:
        why = (
            "No vCPU quota is known here; a live account needs servicequotas:ListServiceQuotas"
            " (deploy/iam-policy.json), a recording api/service-quotas/list_service_quotas."
        )
        if coverage_of(reading).because:
            card = Card(unknown, Tone.WARNING, (text(why),), {"quotas": []})
            return as_read(card, unknown, reading)
        raise Unavailable(why)

    uses = sorted(
        (use_of(quota, inventory, instance_type) for quota in quotas),
        key=lambda use: (not use.used, -use.share, use.quota.name),
    )

    return as_read(quota_card(uses, instance_type, nodes), unknown, reading)


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
        return f"{self.nodes} x {self.instance_type} for {counted(self.days, 'day')}"


def refused_of(reading: Reading, instance_type: str) -> tuple[Scarcity, ...] | None:
    """Count by zone the requests of a type that were refused lately; None where nobody asked AWS."""
    if reading.refusals is None:
        return None
    lately = [x for x in reading.refusals if x.at >= reading.now - LOOKED]
    return scarcities(lately, instance_type)


def refused_text(zones: Sequence[Scarcity], instance_type: str, at: datetime) -> Text:
    """Say in one sentence how often requests of a type were refused by zone, as of a time."""
    span = f"within {rounded_duration(LOOKED)}"
    if not zones:
        return quiet(
            f"No request for {instance_type} was refused for lack of capacity {span} ({_TRAIL})."
        )

    places = []
    for zone in zones:
        share = "all" if zone.spot == zone.refused else zone.spot
        market = f", {share} on spot" if zone.spot else ""
        age = age_text((at - zone.newest).total_seconds())
        places.append(f"{zone.zone} {zone.refused:,}{market}, last {age} ago")

    return text(
        Strong(f"{counted(sum(zone.refused for zone in zones), 'request')} refused"),
        f" for lack of capacity {span}: {'; '.join(few(places, _MOST_ZONES, 'zone'))} ({_TRAIL}).",
    )


LOOKED = timedelta(days=7)
"""How far back refused requests are counted."""
_MOST_ZONES = 6
_TRAIL = "CloudTrail's RunInstances and CreateFleet"


@dataclass(frozen=True)
class Ways:
    """Hold the known ways to capacity.

    Prices, what was refused lately, and what others say.
    """

    prices: Sequence[Price]
    refused: Sequence[Scarcity] | None
    at: datetime
    notes: Sequence[Note] = ()
    commitments: Commitments | None = None


REFUSED = Columns[Scarcity](
    datum("zone", lambda x: x.zone),
    datum("refused", lambda x: x.refused),
    datum("of_them_spot", lambda x: x.spot),
    datum("newest", lambda x: x.newest),
)


def capacity_card(demand: Demand, ways: Ways, age: PriceAge) -> Card:
    """Draw each way, the cheapest used hour first."""
    prices, used_hours = ways.prices, demand.hours * demand.used
    market, cost, total, region, asof = (
        Column[Price]("", lambda price: price.market.value, key="market"),
        Column[Price]("node $/h", lambda price: price.usd_per_hour, USD, "usd_per_hour"),
        Column[Price]("in all", demand.paid, USD, "total_usd"),
        Column[Price]("region", lambda price: price.region, key="region"),
        Column[Price]("", lambda price: price.asof, key="asof"),
    )
    table = Columns[Price](
        Column("way", lambda price: HELD[price.market]),
        cost,
        total,
        Column(
            "hour in use",
            lambda price: demand.paid(price) / used_hours if used_hours else None,
            USD,
        ),
        region,
        Column(
            "price of",
            age.dated,
        ),
    )
    long = demand.days > 182 and any(x.market is Market.CAPACITY_BLOCK for x in prices)

    # Spot is no promise: the title quotes it only where nothing else is sold.
    sure = [price for price in prices if price.market is not Market.SPOT]
    best = min(sure or prices, key=lambda price: price.usd_per_hour)

    return Card(
        f"{demand}: from {usd(demand.paid(best))} ({best.market.replace('-', ' ')})",
        Tone.INFO,
        compose(
            table.table(
                sorted(prices, key=lambda x: x.usd_per_hour),
                caption=f"{demand}; {demand.used * 100:.0f} % of the hours used; spot pays only"
                " those that run.",
            ),
            long
            and text("A Capacity Block lasts 182 days at most: you would need two in succession."),
            commitment_blocks(ways.commitments) if ways.commitments else None,
            ways.refused is not None and refused_text(ways.refused, demand.instance_type, ways.at),
            note_lines(ways.notes, age.today),
            quiet(
                "Hours of a reservation or block that nothing uses raise the alert 'unused"
                " capacity'."
            ),
            Buttons(
                (
                    Button("Quotas", f"quota {demand.instance_type}"),
                    Button("Spot", f"spot {demand.instance_type}"),
                )
            ),
        ),
        {
            "instance_type": demand.instance_type,
            "hours": demand.hours,
            "used_ratio": demand.used,
            "ways": Columns(market, cost, total, region, asof).data(prices),
            **({"commitments": commitment_data(ways.commitments)} if ways.commitments else {}),
            "refused": None if ways.refused is None else REFUSED.data(ways.refused),
        },
    )


@command(
    "capacity",
    "Ways to secure capacity (reservation, Capacity Block), the cost of an hour in use, and quotes"
    " of Savings Plans and reserved instances against your own hours.",
    needs=Needs.METRICS | Needs.STATE,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=(
        "capacity trn1.32xlarge nodes=16 days=14",
        "capacity trn2.48xlarge nodes=4 days=30 used=80",
    ),
    figures={
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
        **OFFERS.sources("offers"),
        "refused/*": (
            "count of the requests that were refused for lack of capacity within 7 days, by"
            " CloudTrail"
        ),
    },
)
def capacity(
    ports: Ports,
    request: Request,
    instance_type: str = arg(None, "the instance type"),
    nodes: int = arg("1", "nodes", keyword=True),
    days: int = arg("14", "days", keyword=True),
    used: Decimal = arg("90", "percent of the time that the nodes will work", keyword=True),
    region: str = arg(
        "", "where prices are looked up first; else where most of its hours ran", keyword=True
    ),
) -> Card:
    """Compare every way that has a price."""
    refuse(
        (
            not 1 <= nodes <= 100_000 or not 1 <= days <= 3_650 or not 1 <= used <= 100,
            "nodes and days are 1 or more, used is 1 to 100 percent.",
        )
    )
    name = instance_type.lower()
    known_type(name, ports.world.knowledge.types())
    region = known_region(region, ports)
    offers = Offers(Pricing(ports).at(request.at))
    prices = offers.each(name, region)
    if not prices:
        raise Unavailable(f"No price of {name} is known in any market.")

    return capacity_card(
        Demand(name, nodes, days, used / 100),
        Ways(
            prices,
            refused_of(ports.world.source.read(request.at), name),
            request.at,
            ports.world.knowledge.claims().of("blocks"),
            commitments_of(ports, (name, nodes), offers, request.at, region),
        ),
        PriceAge.on(request.at, ports.policy),
    )
