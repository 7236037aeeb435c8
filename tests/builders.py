"""Build nouns for tests in one line each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from bot.costs.pricing import Offers
from bot.errors import Unavailable
from bot.model.alert import Alert, Waste
from bot.model.anomaly import Anomaly, Detection
from bot.model.causes import Cause
from bot.model.fleet import Instance, Inventory, Market
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.price import Basis, Price
from bot.model.reading import Gap, Reading
from bot.model.window import Window
from bot.policy.schema import default_policy
from bot.ports import Ports, Site, Stores, World

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
FIVE = timedelta(minutes=5)


def nodes(n: int, cluster: str = "llama") -> tuple[str, ...]:
    return tuple(f"i-{cluster}{i:03d}" for i in range(n))


def anomaly(
    cause: Cause = Cause.STARVED,
    *,
    n: int = 4,
    cluster: str = "llama",
    at: datetime = NOON,
    **more: Any,
) -> Anomaly:
    things = nodes(n, cluster)
    made = Anomaly(
        rule=cause.value,
        cause=cause,
        scope=Labels(cluster=cluster),
        labels=Labels(cluster=cluster, instance_type="trn1.32xlarge", region="us-west-2"),
        things=things,
        window=Window(at - timedelta(minutes=10), at),
        score=0.9,
        value=0.2,
        unit="ratio",
        usual=(0.85, 0.95),
        why="NeuronCore utilization 20 %, usually 85-95 % at this hour.",
        wasted_shares=(0.75,) * n,
        metric="neuroncore_utilization_ratio",
    )
    return replace(made, **more)


def alert(
    found: Anomaly | None = None, *, name: str = "a1", opened: datetime = NOON, **more: Any
) -> Alert:
    made = Alert(id=name, anomaly=found or anomaly(), opened=opened, seen=opened, things_at_peak=4)
    return replace(made, **more)


def waste(per_hour: str = "100", so_far: str = "50") -> Waste:
    hour, far = Decimal(per_hour), Decimal(so_far)
    return Waste(hour, far, hour * 10, hour * 9, hour * 11, "price list", date(2026, 11, 20))


def instance(
    name: str, cluster: str = "llama", *, owner: str = "", market: Market = Market.ON_DEMAND
) -> Instance:
    labels = Labels(
        cluster=cluster, instance=name, instance_type="trn1.32xlarge", region="us-west-2"
    )
    return Instance(labels, NOON - timedelta(days=3), market=market, owner=owner)


def inventory(names: Sequence[str], **more: Any) -> Inventory:
    return Inventory(NOON, {name: instance(name, **more) for name in names})


def reading(at: datetime = NOON, n: int = 4, gaps: tuple[Gap, ...] = (), **more: Any) -> Reading:
    found = inventory(nodes(n), **more)
    things = tuple(node.labels for node in found.instances.values())
    levels = np.full((n, 12, 1), 0.2, np.float32)
    step = timedelta(minutes=5)
    reported = Frame("node", things, at - 12 * step, step, ("host_cpu_utilization_ratio",), levels)
    return Reading(at, {} if gaps else {"node": reported}, inventory=found, gaps=gaps)


def price(
    usd: str = "21.50",
    market: Market = Market.ON_DEMAND,
    basis: Basis = Basis.LISTED,
    region: str = "us-west-2",
) -> Price:
    return Price("trn1.32xlarge", Decimal(usd), market, basis, region, date(2026, 11, 20), "a test")


class NoReplays:
    """Replay nothing: tests that replay name theirs."""

    def again(self, _: Any) -> Any:
        raise Unavailable("Nothing is replayed here.")


def quoted(quotes: Sequence[Price]) -> Offers:
    """Return the offers of these prices alone."""

    class Quoted(Offers):
        def __init__(self) -> None:
            self.quotes = lambda name: [x for x in quotes if x.instance_type == name]

    return Quoted()


def ports_over(fleet: Any, store: Any, **parts: Any) -> Ports:
    """Return ports of which `fleet` is the whole world and `store` keeps everything, but for the parts that are named."""
    world = World(fleet, fleet, fleet, fleet, lambda *_: Detection(), NoReplays())  # type: ignore[arg-type]
    return with_parts(
        Ports(world, Stores(store, store, store, store), Site(default_policy(), FIVE)), **parts
    )


def with_parts(ports: Ports, **parts: Any) -> Ports:
    """Return the ports with some parts replaced, whichever record holds them; `store` is every store at once."""
    if "store" in parts:
        store = parts.pop("store")
        parts = dict.fromkeys(("alerts", "versions", "documents"), store) | parts
    for name in ("world", "stores", "site"):
        record = getattr(ports, name)
        own = {field.name: parts.pop(field.name) for field in fields(record) if field.name in parts}
        ports = replace(ports, **{name: replace(record, **own)})
    assert not parts, f"no record of Ports holds {', '.join(parts)}"
    return ports
