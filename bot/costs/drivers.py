"""Part the difference between two spans of a bill into drivers: one function over its rows.

Each amount of each row counts to one driver, by its kind of money first: credits, tax, discounts,
and what is paid at another time than it is used. What is left is usage, by quantity and price.
The drivers are whole cents, but for a rest below one, and sum to the difference of net exactly;
so do their amortised parts to that of amortised cost.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from itertools import product
from typing import NamedTuple

from bot.model.codec import by_key
from bot.model.money import cents, summed
from bot.model.spend import ZERO, Filter, Spend

PLACE = ("region", "account", "cluster", "team")
"""The dimensions along which usage moves, with all else as it was."""
DRIVEN_BY = ("service", "usage_type", "instance_type", "purchase", "line", *PLACE)
"""The dimensions of the rows whose change is parted."""
_WAYS = {"savings-plan": "Savings Plans", "reserved": "reserved instances"}
_BLOCK = "capacity-block"
_COMMITTED = {*_WAYS, _BLOCK}
_EXACT = Decimal("1e-9")
_SLIGHT = 0.001
"""A share of the hours that tells of no other way of buying."""
_ALIKE = Decimal("0.5")
"""What leaves one place and what comes to another are the same where the less is so much."""
_REGION_OF_USAGE = re.compile(r"^[A-Z]{2,4}\d-")
_WHOLE = ("account", "cluster", "service")
"""A value of these that one span alone has names all of its usage."""


class DriverKind(StrEnum):
    """Name how a cost can change."""

    PRICE = "price"
    HOURS = "hours"
    NEW = "new"
    ENDED = "ended"
    MOVED = "moved"
    PURCHASE = "purchase"
    COMMITMENT = "commitment"
    FEE = "one-off fee"
    USAGE = "usage"
    CREDITS = "credits"
    REFUND = "refund"
    TAX = "tax"
    DISCOUNTS = "discounts"
    PREPAID = "prepaid"


class Charged(NamedTuple):
    """Name a line of the bill by service and usage type, and whether its credits are meant."""

    service: str
    usage_type: str
    credited: bool = False


@dataclass(frozen=True)
class Driver:
    """State one driver of a change.

    `hours` and `rates` are those before and now, where they are its reason.
    """

    kind: DriverKind
    what: str
    net: Decimal
    amortised: Decimal
    """The part of it that is amortised cost: none of credits, tax and what is paid ahead."""
    hours: tuple[float, float] | None = None
    rates: tuple[Decimal, Decimal] | None = None
    covered: tuple[float, float] | None = None
    """The shares of the hours that commitments paid."""
    shares: tuple[Decimal, Decimal] | None = None
    """Tax or discounts as a share of what they are of."""
    costs: tuple[Decimal, Decimal] | None = None
    """The costs before and now, where they alone are known."""
    where: tuple[Filter, ...] = ()
    """Keeps the rows that it is made of."""


@dataclass
class _Span:
    """Hold the cost and the hours of one thing in one window, by way of buying."""

    usd: defaultdict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    hours: defaultdict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))

    def add(self, span: _Span) -> None:
        for way, usd in span.usd.items():
            self.usd[way] += usd
            self.hours[way] += span.hours[way]

    def split(self, share: Decimal) -> _Span:
        """Take a share of the span away, in whole cents, and return it."""
        part = _Span()
        for way, usd in self.usd.items():
            part.usd[way] = usd if share == 1 else cents(usd * share)
            part.hours[way] = self.hours[way] if share == 1 else self.hours[way] * share
            self.usd[way] -= part.usd[way]
            self.hours[way] -= part.hours[way]
        return part

    @property
    def cost(self) -> Decimal:
        return sum(self.usd.values(), ZERO)

    @property
    def total(self) -> Decimal:
        return sum(self.hours.values(), ZERO)

    @property
    def rate(self) -> Decimal:
        return self.cost / self.total

    def share(self, way: str) -> Decimal:
        return self.hours.get(way, ZERO) / self.total

    def rate_of(self, way: str) -> Decimal | None:
        hours = self.hours.get(way, ZERO)
        return self.usd.get(way, ZERO) / hours if hours else None

    @property
    def covered(self) -> float:
        return float(sum((self.share(way) for way in self.hours if way in _COMMITTED), ZERO))


@dataclass
class _Pair:
    """Hold one thing before and now."""

    then: _Span = field(default_factory=_Span)
    now: _Span = field(default_factory=_Span)

    @property
    def rise(self) -> Decimal:
        """Return the hours that came; less than 0 where some went."""
        return self.now.total - self.then.total


class _Thing(NamedTuple):
    """Name what is used, where it is left aside; of nodes the type alone."""

    service: str
    usage_type: str
    instance_type: str = ""

    @property
    def bare(self) -> _Thing:
        """Return it without the region that a usage type begins with."""
        return self._replace(usage_type=_REGION_OF_USAGE.sub("", self.usage_type))


class _Place(NamedTuple):
    """Hold the values of `PLACE`."""

    region: str
    account: str
    cluster: str
    team: str


_Usage = defaultdict[tuple[_Thing, _Place], _Pair]


class _Key(NamedTuple):
    """Name a driver; where its kind is not said, its costs before and now tell it."""

    what: str
    kind: DriverKind | None = None


_Part = tuple[_Key, Decimal, Decimal, tuple[Filter, ...]]
"""A driver, what counts to it in net and in amortised cost, and the filters that keep it."""


@dataclass
class _Sum:
    """Add up the money of one driver, net and amortised, before and now."""

    net: list[Decimal] = field(default_factory=lambda: [ZERO, ZERO])
    amortised: list[Decimal] = field(default_factory=lambda: [ZERO, ZERO])
    where: tuple[Filter, ...] = ()

    def count(self, side: int, part: _Part) -> None:
        _, net, amortised, self.where = part
        self.net[side] += net
        self.amortised[side] += amortised


def drivers_of(
    then: Iterable[Spend],
    now: Iterable[Spend],
    once: Collection[Charged] = (),
    where: Sequence[Filter] = (),
) -> tuple[Driver, ...]:
    """Return the drivers of a change of net between rows by `DRIVEN_BY`, the largest first.

    `once` are lines charged in one hour alone. Those rows count that pass `where`, which asks for
    a `PLACE`: the others tell where usage came from, and where it went.
    """
    sides = list(then), list(now)
    alone = {name: _values(sides[0], name) ^ _values(sides[1], name) for name in _WHOLE}
    sums: defaultdict[_Key, _Sum] = defaultdict(_Sum)
    usage: _Usage = defaultdict(_Pair)
    bases = {DriverKind.TAX: [ZERO, ZERO], DriverKind.DISCOUNTS: [ZERO, ZERO]}
    for side, rows in enumerate(sides):
        shares = _discount_shares(rows)
        for row in rows:
            rebate = _rebate(row, shares)
            used = row.money.amortised - rebate
            key, filters = _thing_of(row, once)
            if key is None and (used or row.hours):
                pair = usage[_thing(row), _Place(*(row.key[name] for name in PLACE))]
                span, way = (pair.then, pair.now)[side], row.key["purchase"]
                span.usd[way] += used
                span.hours[way] += Decimal(str(round(row.hours, 6)))
            if not all(condition.keeps(row.key) for condition in where):
                continue

            bases[DriverKind.TAX][side] += row.money.gross + row.money.discounts
            bases[DriverKind.DISCOUNTS][side] += row.money.gross
            parts = [*_apart(row, once, rebate)]
            if key is not None:
                parts.append((key, used, used, filters))
            # Of an account that one span alone has, all of its money is one driver.
            if row.key["account"] in alone["account"]:
                what, where_alone = _whole(row.key, "account")
                parts = [(what, net, amortised, where_alone) for _, net, amortised, _ in parts]
            for part in parts:
                sums[part[0]].count(side, part)

    drivers = [*_moves(usage, where)]
    drivers += _of_usage({k: x for k, x in usage.items() if _at(k[1], where)}, alone, sums)
    drivers += [_of_sum(key, total, bases) for key, total in sums.items()]
    # What moved at the price that it had is told, though it changes nothing.
    changed = (x for x in drivers if x.net or x.amortised or x.kind is DriverKind.MOVED)
    return tuple(sorted(changed, key=lambda x: (-abs(x.net), -abs(x.amortised), x.kind, x.what)))


def _values(rows: Iterable[Spend], name: str) -> set[str]:
    return {x.key[name] for x in rows if x.money.amortised or x.money.net or x.hours} - {""}


def _at(place: _Place, where: Iterable[Filter]) -> bool:
    return all(condition.keeps(place._asdict()) for condition in where)


def _keeping(key: Mapping[str, str], *names: str) -> tuple[Filter, ...]:
    return tuple(Filter(name, (key[name],)) for name in names)


def _whole(key: Mapping[str, str], name: str) -> tuple[_Key, tuple[Filter, ...]]:
    what = key[name] if name == "service" else f"{name} {key[name]}"
    return _Key(what), _keeping(key, name)


def _thing(row: Spend) -> _Thing:
    if row.hours and row.key["instance_type"]:
        return _Thing("", "", row.key["instance_type"])
    return _Thing(row.key["service"], row.key["usage_type"])


def _discount_shares(rows: Iterable[Spend]) -> Mapping[str, Decimal]:
    """Return the share that was taken off the fees of commitments, by way of buying."""
    charged = [row for row in rows if row.key["purchase"] in _WAYS and row.money.gross > 0]
    discounts = summed((row.key["purchase"], -row.money.discounts) for row in charged)
    fees = summed((row.key["purchase"], row.money.gross) for row in charged)
    return {way: discounts[way] / fees[way] for way in fees if discounts[way] < fees[way]}


def _rebate(row: Spend, shares: Mapping[str, Decimal]) -> Decimal:
    """Return the discount that is in a row's amortised cost.

    A fee's is in the cost of what the fee paid for, and not told there.
    """
    way, amortised = row.key["purchase"], row.money.amortised
    if way not in _WAYS:
        return row.money.discounts
    share = shares.get(way)
    return amortised - (amortised / (1 - share)).quantize(_EXACT) if share else ZERO


def _apart(row: Spend, once: Collection[Charged], rebate: Decimal) -> Iterator[_Part]:
    """Yield the money of a row that is no usage: credits, tax, discounts, what is paid ahead."""
    money, key = row.money, row.key
    if money.credits:
        refunded = Charged(key["service"], key["usage_type"], credited=True) in once
        if refunded:
            what = _Key(key["service"], DriverKind.REFUND)
            yield what, money.credits, ZERO, _keeping(key, "service", "usage_type")
        else:
            yield _Key("credits", DriverKind.CREDITS), money.credits, ZERO, ()
    if money.tax:
        yield _Key("tax", DriverKind.TAX), money.tax, ZERO, ()
    if rebate:
        yield _Key("discounts", DriverKind.DISCOUNTS), rebate, rebate, ()

    # Paid now and used at other times, or the other way about.
    ahead = money.gross + money.discounts - money.amortised
    if ahead:
        what, where = _block(row) or (
            _Key(_WAYS.get(key["purchase"], "other fees"), DriverKind.PREPAID),
            _keeping(key, "purchase"),
        )
        yield what, ahead, ZERO, where


def _block(row: Spend) -> tuple[_Key, tuple[Filter, ...]] | None:
    """Return the Capacity Block that a row is of: its fee and its hours are one thing."""
    if row.key["purchase"] != _BLOCK:
        return None
    names = filter(None, (row.key["instance_type"], row.key["region"]))
    where = _keeping(row.key, "purchase", "instance_type", "region")
    return _Key(f"Capacity Block, {', '.join(names)}"), where


def _thing_of(row: Spend, once: Collection[Charged]) -> tuple[_Key | None, tuple[Filter, ...]]:
    """Return the driver that the usage of a row counts to wherever it is; None for its place's."""
    key = row.key
    if block := _block(row):
        return block
    if key["line"] == "commitment":
        return _Key("commitments that nothing used", DriverKind.COMMITMENT), _keeping(key, "line")
    if Charged(key["service"], key["usage_type"]) in once:
        words = f"{key['service']} {key['usage_type']}".strip()
        return _Key(words, DriverKind.FEE), _keeping(key, "service", "usage_type")
    return None, ()


def _of_sum(key: _Key, total: _Sum, bases: Mapping[DriverKind, Sequence[Decimal]]) -> Driver:
    """Return the driver of money that is told by its sums before and now."""
    (before, after), (used_before, used_after) = total.net, total.amortised
    kind = key.kind or DriverKind.USAGE
    if key.kind is None and not (before or used_before):
        kind = DriverKind.NEW
    elif key.kind is None and not (after or used_after):
        kind = DriverKind.ENDED

    base, shares = bases.get(kind, (ZERO, ZERO)), None
    if min(base) > 0:
        shares = abs(before) / base[0], abs(after) / base[1]
    return Driver(
        kind,
        key.what,
        after - before,
        used_after - used_before,
        shares=shares,
        costs=(before, after),
        where=total.where,
    )


@dataclass
class _Move:
    """Add up what moved from one place to another: nodes, and the lines that went with them."""

    kinds: set[str] = field(default_factory=set)
    hours: Decimal = ZERO
    left: Decimal = ZERO
    """What it cost where it was; nothing where those rows do not count."""
    joined: Decimal = ZERO


def _moves(usage: _Usage, where: Sequence[Filter]) -> Iterator[Driver]:
    """Take out of the usage what moved, and yield a driver for each move.

    Nodes move where about as many hours leave one place as come to another that differs in one
    dimension, and one of both places had none in one of the spans. Lines that end there and begin
    here go with them.
    """
    moves: defaultdict[tuple[str, str, str, str], _Move] = defaultdict(_Move)
    for name, (thing, source), (_, target) in _paths(usage):
        origin, destination = usage[thing, source], usage[thing, target]
        hours = min(-origin.rise, destination.rise)
        alike = hours > 0 and hours >= _ALIKE * max(-origin.rise, destination.rise)
        if not alike or (origin.now.total and destination.then.total):
            continue

        subject = "" if name == "cluster" else source.cluster
        move = moves[name, getattr(source, name), getattr(target, name), subject]
        parts = [
            (
                origin.then.split(hours / origin.then.total).cost,
                destination.now.split(hours / destination.now.total).cost,
            )
        ]
        lines = [x for x, place in usage if place == source and not x.instance_type]
        for line, begun in product(lines, [x for x, place in usage if place == target]):
            before, after = usage[line, source], usage[begun, target]
            ended = before.then.cost and not before.now.cost
            if line.bare == begun.bare and ended and not after.then.cost:
                parts.append((before.then.split(Decimal(1)).cost, after.now.split(Decimal(1)).cost))

        move.kinds.add(thing.instance_type)
        move.hours += hours
        move.left += sum((x for x, _ in parts), ZERO) if _at(source, where) else ZERO
        move.joined += sum((x for _, x in parts), ZERO) if _at(target, where) else ZERO

    for (name, old, new, subject), move in moves.items():
        if not (move.left or move.joined):
            continue
        whose = subject or ", ".join(sorted(move.kinds))
        changed, node_hours = move.joined - move.left, float(move.hours)
        yield Driver(
            DriverKind.MOVED,
            f"{whose} from {_called(name, old)} to {_called(name, new)}",
            changed,
            changed,
            hours=(node_hours, node_hours),
            costs=(move.left, move.joined),
            where=(Filter(name, (old, new)), *([Filter("cluster", (subject,))] if subject else [])),
        )


_NodesAt = tuple[_Thing, _Place]


def _paths(usage: _Usage) -> Iterator[tuple[str, _NodesAt, _NodesAt]]:
    """Yield each dimension with the two places between which nodes may have moved along it."""
    nodes = [key for key in usage if key[0].instance_type]
    for name in PLACE:
        peers = by_key(
            ((thing, place._replace(**{name: ""})), (thing, place)) for thing, place in nodes
        )
        for group in peers.values():
            ranked = sorted(group, key=lambda key: (usage[key].rise, key))
            for source, target in product(ranked, reversed(ranked)):
                if usage[source].rise < 0 < usage[target].rise:
                    yield name, source, target


def _called(name: str, value: str) -> str:
    if not value:
        return f"no {name}"
    return value if name == "region" else f"{name} {value}"


Kind = tuple[str, str]
"""Instance type and region."""


def _of_usage(
    usage: Mapping[_NodesAt, _Pair],
    alone: Mapping[str, Collection[str]],
    sums: defaultdict[_Key, _Sum],
) -> Iterator[Driver]:
    """Yield the drivers of nodes, and add what is told by its costs alone to the sums."""
    nodes: defaultdict[Kind, defaultdict[str, _Pair]] = defaultdict(lambda: defaultdict(_Pair))
    for (thing, place), pair in usage.items():
        key = {**place._asdict(), "service": thing.service, "usage_type": thing.usage_type}
        name = next((x for x in _WHOLE if key[x] in alone[x]), "")
        if thing.instance_type and not name:
            of_kind = nodes[thing.instance_type, place.region][place.cluster]
            of_kind.then.add(pair.then)
            of_kind.now.add(pair.now)
            continue

        cluster = f" · {place.cluster}" if place.cluster else ""
        what, where = (
            _whole(key, name)
            if name
            else (
                _Key(f"{thing.service} {thing.usage_type}{cluster}".strip()),
                _keeping(key, "service", "usage_type", "cluster"),
            )
        )
        for side, span in enumerate((pair.then, pair.now)):
            sums[what].count(side, (what, span.cost, span.cost, where))

    for kind, clusters in sorted(nodes.items()):
        yield from _of_kind(kind, clusters)


def _of_kind(kind: Kind, clusters: Mapping[str, _Pair]) -> Iterator[Driver]:
    """Part each cluster's change: hours by cluster, price and purchase over all of them.

    More hours at the old rate, then other ways of buying, then other prices.
    """
    name = ", ".join(filter(None, kind))
    bought = priced = ZERO
    first, last = _Span(), _Span()
    for cluster, pair in sorted(clusters.items()):
        before, after = pair.then, pair.now
        what, where = f"{cluster or 'outside clusters'} · {kind[0]}", _of(kind, cluster)
        hours = float(before.total), float(after.total)
        if not (before.total and after.total):
            way = DriverKind.NEW if after.total else DriverKind.ENDED
            costs, usd = (before.cost, after.cost), after.cost - before.cost
            yield Driver(way, what, usd, usd, hours, costs=costs, where=where)
            continue

        first.add(before)
        last.add(after)
        longer = cents((after.total - before.total) * before.rate)
        if longer:
            rates = before.rate, after.rate
            yield Driver(DriverKind.HOURS, what, longer, longer, hours, rates, where=where)

        # The change of the mean rate that other ways of buying make, each at its old rate; a way
        # that is new has no old rate.
        change = ZERO
        for way_bought in sorted({*before.hours, *after.hours}):
            rate = before.rate_of(way_bought)
            if rate is None:
                rate = after.rate_of(way_bought) or ZERO
            change += (after.share(way_bought) - before.share(way_bought)) * rate
        mixed = cents(after.total * change)
        bought += mixed
        priced += after.cost - before.cost - longer - mixed

    if not first.total:
        return
    where = _of(kind, *sorted(clusters))
    rates, covered = (first.rate, last.rate), (first.covered, last.covered)
    if bought and abs(last.covered - first.covered) > _SLIGHT:
        yield Driver(
            DriverKind.COMMITMENT, name, bought, bought, rates=rates, covered=covered, where=where
        )
    elif bought:
        ways = sorted({*first.hours, *last.hours}, key=lambda x: last.share(x) - first.share(x))
        what = f"{name}, {ways[0]} to {ways[-1]}"
        yield Driver(DriverKind.PURCHASE, what, bought, bought, rates=rates, where=where)
    if priced:
        yield Driver(DriverKind.PRICE, name, priced, priced, rates=rates, where=where)


def _of(kind: Kind, *clusters: str) -> tuple[Filter, ...]:
    return (
        Filter("instance_type", kind[:1]),
        Filter("region", kind[1:]),
        Filter("cluster", clusters),
    )
