"""Join two sides with the account's own runs, prices and nodes: the verdict that answers ask."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from bot.answers.plan.comparison import SpeedRange, speed_range
from bot.answers.runs.costed import costed_runs, measured_speeds
from bot.cards.columns import RATIO, Columns, datum
from bot.costs.pricing import Offers, Pricing
from bot.costs.training import Sample
from bot.costs.verdict import Verdict, like_for_like, measured_speed
from bot.model.claims import ClaimKind, SpeedUp
from bot.model.fleet import InstanceType, Market
from bot.model.price import Price
from bot.ports import Ports

VERDICT = Columns[Verdict](
    datum("cheaper", lambda x: x.cheaper),
    datum("yardstick", lambda x: x.yardstick.value if x.yardstick and x.ratios else None),
    datum(
        "best",
        lambda x: x.ratios and x.ratios[0],
        "price of an hour of the second / (speed x price of one of the first), bought alike, at the"
        " fastest speed",
        RATIO,
    ),
    datum(
        "worst",
        lambda x: x.ratios and x.ratios[1],
        "the same at the slowest speed",
        RATIO,
    ),
    datum("says", str),
)


def speeds_of(ports: Ports, at: datetime, old: InstanceType, new: InstanceType) -> SpeedRange:
    """Return the work of a node of `new`, by the account's own runs, else as others state it.

    May block. Raise `WrongInput` where nothing compares the two.
    """
    knowledge = ports.world.knowledge
    own = measured_speeds(costed_runs(ports, at), old, new, at.date())
    return speed_range(old, new, knowledge.types(), knowledge.claims(), own)


def stated_speed(old: InstanceType, new: InstanceType, factor: float, at: datetime) -> SpeedRange:
    """Return the speed that the asker states."""
    says = f"a node of {new.name} does {factor:g} times the work of one of {old.name}"
    voice = SpeedUp(
        old.family, new.family, factor, ClaimKind.TYPED, says, source="as you state", asof=at.date()
    )
    return SpeedRange(factor, factor, factor, (voice,))


def verdict_of_types(
    ports: Ports,
    at: datetime,
    types: tuple[str, str],
    speeds: SpeedRange,
    market: Market | None = None,
    region: str = "",
) -> Verdict:
    """Return which of two types does the same work for less; may block."""
    return Verdict(*types, speeds.voices, _prices(ports, at, types, market, region))


def verdict_of_runs(ports: Ports, at: datetime, old: Sample, new: Sample) -> Verdict:
    """Return which of two runs or baselines does the same work for less; may block."""
    missing = [x.name for x in (old, new) if len(x.types) != 1 or not x.node_hours]
    sizes = {f"{x.parameters:.2g}" for x in (old, new) if x.parameters}
    unknown = ""
    if missing:
        unknown = f"the nodes of {' and '.join(missing)} are not known apart from others"
    elif len(sizes) > 1:
        unknown = "they train models of different sizes"
    if unknown:
        return Verdict(old.name, new.name, unknown=unknown)

    kinds = ports.world.knowledge.types()
    families = tuple(kinds[x.types[0]].family if x.types[0] in kinds else "" for x in (old, new))
    speed = measured_speed(old, new, (families[0], families[1]), at.date())
    if speed is None:
        why = "neither an equal loss nor tokens are measured of both"
        return Verdict(old.name, new.name, unknown=why)
    prices = _prices(ports, at, (old.types[0], new.types[0]))

    return Verdict(old.name, new.name, (speed,), prices)


def _prices(
    ports: Ports,
    at: datetime,
    types: Sequence[str],
    market: Market | None = None,
    region: str = "",
) -> tuple[Price, Price] | None:
    nodes = ports.world.source.read(at).inventory.instances.values()
    homes = {x.labels.region for x in nodes if x.labels.instance_type in types and x.running}
    offers = Offers(Pricing(ports).at(at))
    old, new = (offers.quotes(name) for name in types)
    return like_for_like(old, new, homes, market, region)
