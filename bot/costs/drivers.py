"""Part the change of a cost into its drivers.

Price, hours, things new and ended, commitments, one-off fees, usage.

The parts are whole cents, but for a rest below one in the last, and sum to the change exactly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from bot.model.money import cents
from bot.model.spend import Filter, Spend

DRIVEN_BY = ("service", "usage_type", "region", "instance_type", "purchase", "line", "cluster")
"""The dimensions of the rows whose change is parted."""
Line = tuple[str, str]
"""Service and usage type."""
_COMMITTED = {"savings-plan", "reserved", "capacity-block"}
_NONE = Decimal(0)
_SLIGHT = 0.001
"""A share of the hours that tells of no other way of buying."""


class DriverKind(StrEnum):
    """Name how a cost can change."""

    PRICE = "price"
    HOURS = "hours"
    NEW = "new"
    ENDED = "ended"
    COMMITMENT = "commitment"
    FEE = "one-off fee"
    USAGE = "usage"


@dataclass(frozen=True)
class Driver:
    """State one driver of a change.

    `hours` and `rates` are those before and now, where they are its reason.
    """

    kind: DriverKind
    what: str
    usd: Decimal
    hours: tuple[float, float] | None = None
    rates: tuple[Decimal, Decimal] | None = None
    covered: tuple[float, float] | None = None
    """The shares of the hours that commitments paid."""
    costs: tuple[Decimal, Decimal] | None = None
    """The costs before and now, where they alone are known."""
    where: tuple[Filter, ...] = ()
    """Keeps the rows that it is made of."""


@dataclass
class _Span:
    """Hold the cost and the hours of one thing in one window, by way of buying."""

    usd: defaultdict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    hours: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, span: _Span) -> None:
        for way, usd in span.usd.items():
            self.usd[way] += usd
            self.hours[way] += span.hours[way]

    @property
    def cost(self) -> Decimal:
        return sum(self.usd.values(), _NONE)

    @property
    def total(self) -> Decimal:
        return _decimal(sum(self.hours.values()))

    @property
    def rate(self) -> Decimal:
        return self.cost / self.total

    def share(self, way: str) -> Decimal:
        return _decimal(self.hours.get(way, 0.0)) / self.total

    def rate_of(self, way: str) -> Decimal | None:
        hours = _decimal(self.hours.get(way, 0.0))
        return self.usd.get(way, _NONE) / hours if hours else None

    @property
    def covered(self) -> float:
        return float(sum((self.share(way) for way in self.hours if way in _COMMITTED), _NONE))


def drivers_of(
    then: Iterable[Spend], now: Iterable[Spend], fees: Collection[Line] = ()
) -> tuple[Driver, ...]:
    """Return the drivers of a change of amortised cost between rows by `DRIVEN_BY`, largest first.

    `fees` are charged once.
    """
    sides = list(then), list(now)
    moved = _clusters(sides[0]) ^ _clusters(sides[1])
    of_nodes: tuple[list[Spend], list[Spend]] = ([], [])
    things: defaultdict[_Thing, list[Decimal]] = defaultdict(lambda: [_NONE, _NONE])
    for side, rows in enumerate(sides):
        for row in rows:
            if row.key["instance_type"] and row.hours and row.key["cluster"] not in moved:
                of_nodes[side].append(row)
            else:
                things[_thing(row, moved, fees)][side] += row.money.amortised

    drivers = []
    for thing, (before, after) in things.items():
        kind = thing.kind or DriverKind.USAGE
        if thing.kind is None and not before:
            kind = DriverKind.NEW
        elif thing.kind is None and not after:
            kind = DriverKind.ENDED
        if before != after:
            costs, usd = (before, after), after - before
            drivers.append(Driver(kind, thing.what, usd, costs=costs, where=thing.where))
    drivers += _of_hours(*of_nodes)
    return tuple(sorted(drivers, key=lambda driver: (-abs(driver.usd), driver.kind, driver.what)))


def _clusters(rows: Iterable[Spend]) -> set[str]:
    return {row.key["cluster"] for row in rows if row.money.amortised or row.hours} - {""}


@dataclass(frozen=True)
class _Thing:
    """Name rows whose hours nobody counts, and the kind of driver that they are; None.

    Told by their costs.
    """

    what: str
    where: tuple[Filter, ...]
    kind: DriverKind | None = None


def _thing(row: Spend, moved: Collection[str], fees: Collection[Line]) -> _Thing:
    """Return the thing that a row counts to."""
    cluster, line = row.key["cluster"], (row.key["service"], row.key["usage_type"])
    if cluster in moved:
        return _Thing(f"cluster {cluster}", _keeping(row, "cluster"))
    if line in fees:
        return _Thing(" ".join(line), _keeping(row, "service", "usage_type"), DriverKind.FEE)
    if row.key["line"] == "commitment":
        return _Thing("commitments that nothing used", _keeping(row, "line"), DriverKind.COMMITMENT)
    where = _keeping(row, "service", "usage_type", "purchase", "line", "cluster")
    if row.money.discounts and not row.money.gross:
        return _Thing(f"discount on {_words(row)}", where, DriverKind.PRICE)
    return _Thing(_words(row), where)


def _keeping(row: Spend, *names: str) -> tuple[Filter, ...]:
    return tuple(Filter(name, (row.key[name],)) for name in names)


def _words(row: Spend) -> str:
    """Name a line of usage; usage types are left as AWS writes them."""
    cluster = f" · {row.key['cluster']}" if row.key["cluster"] else ""
    return f"{row.key['service']} {row.key['usage_type']}{cluster}".strip()


Kind = tuple[str, str]
"""Instance type and region."""


def _of_hours(then: Iterable[Spend], now: Iterable[Spend]) -> Iterator[Driver]:
    """Yield the drivers of nodes: hours by cluster.

    Price and commitments over all clusters of a type and region.
    """
    before, after = _spans(then), _spans(now)
    by_kind: defaultdict[Kind, dict[str, tuple[_Span, _Span]]] = defaultdict(dict)
    for kind, cluster in sorted({*before, *after}):
        first, last = before.get((kind, cluster)), after.get((kind, cluster))
        if first and last:
            by_kind[kind][cluster] = first, last
            continue

        what, where = _name(kind, cluster), _of(kind, cluster)
        if last:
            hours, costs = (0.0, float(last.total)), (_NONE, last.cost)
            yield Driver(DriverKind.NEW, what, last.cost, hours, costs=costs, where=where)
        elif first:
            hours, costs = (float(first.total), 0.0), (first.cost, _NONE)
            yield Driver(DriverKind.ENDED, what, -first.cost, hours, costs=costs, where=where)

    for kind, clusters in by_kind.items():
        yield from _of_kind(kind, clusters)


def _name(kind: Kind, cluster: str) -> str:
    return f"{cluster or 'outside clusters'} · {kind[0]}"


def _of(kind: Kind, *clusters: str) -> tuple[Filter, ...]:
    return (
        Filter("instance_type", kind[:1]),
        Filter("region", kind[1:]),
        Filter("cluster", clusters),
    )


def _spans(rows: Iterable[Spend]) -> Mapping[tuple[Kind, str], _Span]:
    spans: defaultdict[tuple[Kind, str], _Span] = defaultdict(_Span)
    for row in rows:
        kind = row.key["instance_type"], row.key["region"]
        span, way = spans[kind, row.key["cluster"]], row.key["purchase"]
        span.usd[way] += row.money.amortised
        span.hours[way] += row.hours
    return spans


def _of_kind(kind: Kind, clusters: Mapping[str, tuple[_Span, _Span]]) -> Iterator[Driver]:
    """Part each cluster's change.

    More hours at the old rate, then other ways of buying, then other prices.
    """
    name = ", ".join(filter(None, kind))
    bought = priced = _NONE
    first, last = _Span(), _Span()
    for cluster, (before, after) in clusters.items():
        first.add(before)
        last.add(after)
        longer = cents((after.total - before.total) * before.rate)
        if longer:
            what, where = _name(kind, cluster), _of(kind, cluster)
            hours, rates = (float(before.total), float(after.total)), (before.rate, after.rate)
            yield Driver(DriverKind.HOURS, what, longer, hours, rates, where=where)

        # The change of the mean rate that other ways of buying make, each at its old rate; a way
        # that is new has no old rate.
        change = _NONE
        for way in sorted({*before.hours, *after.hours}):
            rate = before.rate_of(way)
            if rate is None:
                rate = after.rate_of(way) or _NONE
            change += (after.share(way) - before.share(way)) * rate
        mixed = cents(after.total * change)
        bought += mixed
        priced += after.cost - before.cost - longer - mixed

    rates, where = (first.rate, last.rate), _of(kind, *clusters)
    covered = first.covered, last.covered
    if bought and abs(last.covered - first.covered) > _SLIGHT:
        yield Driver(DriverKind.COMMITMENT, name, bought, rates=rates, covered=covered, where=where)
    elif bought:
        what = f"{name}, bought otherwise"
        yield Driver(DriverKind.PRICE, what, bought, rates=rates, where=where)
    if priced:
        yield Driver(DriverKind.PRICE, name, priced, rates=rates, where=where)


def _decimal(hours: float) -> Decimal:
    return Decimal(str(round(hours, 6)))
