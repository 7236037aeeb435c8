"""Judge which of two sides does the same work for less, like for like: one value that all ask."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import product
from statistics import median_low

from bot.costs.pricing import listed_price
from bot.costs.training import Sample, equal_loss
from bot.model.claims import ClaimKind, Claims, SpeedUp
from bot.model.fleet import InstanceType, Market
from bot.model.money import usd
from bot.model.price import Basis, Price

_BASES = {
    ClaimKind.EQUAL_LOSS: "in dollars to equal loss, as your own runs measured it",
    ClaimKind.MEASURED: (
        "in dollars a token, as your own runs measured it; no equal loss is measured"
    ),
    ClaimKind.TYPED: "at the speed that you state",
}
_STATED = "by the speed that others state: assumed, not measured"


@dataclass(frozen=True)
class Verdict:
    """State the cost of the same work on `new` as a multiple of that on `old`.

    `speeds` are the work of a node-hour of `new`, old = 1; `prices` those of an hour of both,
    bought alike; `unknown` says what is missing where nothing can be judged. `unused` is what others
    state of the speed where the account's own runs tell it.
    """

    old: str
    new: str
    speeds: tuple[SpeedUp, ...] = ()
    prices: tuple[Price, Price] | None = None
    unknown: str = ""
    unused: tuple[SpeedUp, ...] = ()

    @property
    def factors(self) -> tuple[float, float, float]:
        """Return the slowest, the middle and the fastest of its speeds."""
        # The lower of two middles is a factor that somebody states; their mean would be nobody's.
        factors = [x.factor for x in self.speeds]
        return min(factors), median_low(factors), max(factors)

    @property
    def ratios(self) -> tuple[float, float] | None:
        """Return the lowest and the highest cost of the same work on `new`, on `old` = 1."""
        if self.unknown or not self.speeds or self.prices is None:
            return None
        old, new = self.prices
        costs = [float(new.usd_per_hour / old.usd_per_hour) / x.factor for x in self.speeds]
        return min(costs), max(costs)

    @property
    def yardstick(self) -> ClaimKind | None:
        """Return by what the work is measured, the surest of its speeds."""
        return min((x.kind for x in self.speeds), key=list(ClaimKind).index, default=None)

    @property
    def measured(self) -> bool:
        """Tell whether the account's own runs say how much work a node does."""
        return self.yardstick in (ClaimKind.EQUAL_LOSS, ClaimKind.MEASURED)

    @property
    def proven(self) -> bool:
        """Return whether the account measured both types and was billed for an hour of each."""
        prices = self.prices or ()
        return self.measured and bool(prices) and all(x.basis is Basis.BILLED for x in prices)

    @property
    def cheaper(self) -> str | None:
        """Return the side that costs less at every speed; None where none does."""
        if self.ratios is None:
            return None
        low, high = self.ratios
        return self.new if high < 1 else self.old if low > 1 else None

    @property
    def headline(self) -> str:
        """Say in a few words what a move from old to new comes to."""
        if self.ratios is None:
            return "which costs less is not known"
        pays = {self.new: "costs less", self.old: "costs more", None: "depends on the speed"}
        return f"{pays[self.cheaper]}, {percents(*self.ratios)} of the cost for the same work"

    def __str__(self) -> str:
        """Say which costs less, by what it is measured and at which prices."""
        if self.ratios is None or self.prices is None:
            why = self.unknown or "no price of both, bought the same way, is known where you run"
            return f"Which costs less for the same work is not known: {why}."

        low, high = self.ratios
        basis = _BASES.get(self.yardstick or ClaimKind.CLAIM, _STATED)
        span, dearer = percents(low, high), self.old
        if self.cheaper == self.old:
            span, dearer = percents(1 / high, 1 / low), self.new
        judged = f"{self.cheaper} costs less for the same work: {span} of {dearer}'s cost"
        if self.cheaper is None:
            judged = (
                "It depends on the speed that your model gets: the same work on"
                f" {self.new} costs {span} of {self.old}'s cost"
            )
        old, new = self.prices
        way = old.market.replace("-", " ")
        how = way if old.market is Market.ON_DEMAND else f"as {way}"
        place = f" in {old.region}" if old.region == new.region else ""
        hours = ", ".join(
            f"{name} {usd(x.usd_per_hour)} ({_founded(x, old, new)})"
            for name, x in ((self.old, old), (self.new, new))
        )

        return f"{judged}, {basis}. Like for like, both {how}{place}, an hour: {hours}."


def measured_speed(
    old: Sample, new: Sample, families: tuple[str, str], today: date
) -> SpeedUp | None:
    """Return the work of a node-hour of `new` by two runs of one model, that of `old` = 1.

    By node-hours to equal loss, else by tokens; None where neither is measured of both.
    """
    loss = equal_loss(old, new)
    if loss and old.nodes and new.nodes:
        before, after = loss.a[1] * old.nodes, loss.b[1] * new.nodes
        factor, kind = before / after, ClaimKind.EQUAL_LOSS
        says = (
            f"{new.name} took {after:,.0f} node-hours from a loss of {loss.high:.3f} down to"
            f" {loss.low:.3f}, {old.name} {before:,.0f}"
        )
    elif old.millions and new.millions:
        factor, kind = new.millions / old.millions, ClaimKind.MEASURED
        says = (
            f"{new.name} gained {new.millions:,.1f} million tokens a node-hour,"
            f" {old.name} {old.millions:,.1f} million"
        )
    else:
        return None

    return SpeedUp(*families, factor, kind, says, source="the account's own runs", asof=today)


def stated_speeds(
    old: InstanceType, new: InstanceType, types: Mapping[str, InstanceType], claims: Claims
) -> tuple[SpeedUp, ...]:
    """Return the work of a node of `new` as others state it, that of `old` = 1.

    Where nobody states the peaks, by the data sheets of both; nothing where they do not say either.
    """
    share = _share(new, types) / _share(old, types)
    speeds = [
        replace(speedup, factor=speedup.factor * share)
        for speedup in claims.speedups
        if (speedup.from_family, speedup.to_family) == (old.family, new.family)
    ]
    stated = any(speed.kind is ClaimKind.PEAK for speed in speeds)
    if not stated and old.bf16_tflops and new.bf16_tflops:
        factor = new.bf16_tflops / old.bf16_tflops
        speeds.append(
            SpeedUp(
                old.family,
                new.family,
                factor,
                ClaimKind.PEAK,
                f"BF16 peak of a node is {factor:.2f} times ({new.bf16_tflops:,.0f} /"
                f" {old.bf16_tflops:,.0f} TFLOPS)",
                source="; ".join(dict.fromkeys((new.source, old.source))),
                asof=min(old.asof, new.asof),
            )
        )

    return tuple(speeds)


def _share(kind: InstanceType, types: Mapping[str, InstanceType]) -> float:
    """Return the type's part of its family's full node."""
    full = max((x.chips for x in types.values() if x.family == kind.family), default=kind.chips)
    return kind.chips / full


def like_for_like(
    old: Sequence[Price],
    new: Sequence[Price],
    homes: Collection[str],
    market: Market | None = None,
    region: str = "",
) -> tuple[Price, Price] | None:
    """Return a price of both that are bought the same way, best founded first; never spot unasked.

    Of one region, or each of its own where the account was billed for both. A Capacity Block is
    taken only where the account runs either (`homes`): a block elsewhere is no offer to it.
    """
    pairs = []
    for way in [market] if market else [x for x in Market if x is not Market.SPOT]:
        sides = [[price for price in quotes if price.market is way] for quotes in (old, new)]
        for places in product(
            *({x.region for x in quotes if region in ("", x.region)} for quotes in sides)
        ):
            first, second = (
                listed_price([x for x in quotes if x.region == place], way, place)
                for quotes, place in zip(sides, places, strict=True)
            )
            apart = len(set(places)) > 1
            away = bool(homes) and not set(places) <= set(homes)
            if (
                first is None
                or second is None
                or (not market and away and way is Market.CAPACITY_BLOCK)
                or (apart and not first.basis is second.basis is Basis.BILLED)
            ):
                continue
            rank = (
                sum(x.basis is Basis.FALLBACK for x in (first, second)),
                list(Market).index(way),
                away,
                apart,
                -(first.hours + second.hours),
                first.usd_per_hour + second.usd_per_hour,
                places,
            )
            pairs.append((rank, (first, second)))

    return min(pairs, key=lambda pair: pair[0])[1] if pairs else None


def _founded(price: Price, *pair: Price) -> str:
    where = f"{price.region}, " if len({x.region for x in pair}) > 1 else ""
    return f"{where}{price.origin}"


def percents(low: float, high: float) -> str:
    """Write a span of ratios: `64-82 %`, `64 %` where both ends read alike."""
    ends = dict.fromkeys(f"{share * 100:.0f}" for share in (low, high))
    return f"{'-'.join(ends)} %"
