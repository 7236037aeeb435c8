"""Quote commitments beside on-demand hours.

Savings Plans and reserved instances, as `capacity` shows them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from bot.cards.card import Align, Block, Column, Table, quiet, text
from bot.cards.words import period
from bot.costs.commitments import Commitments, Weighed, on_demand_use
from bot.costs.offers import Offers
from bot.model.counts import counted
from bot.model.fleet import Market
from bot.model.money import usd
from bot.model.price import Price
from bot.ports import Ports

_OFFERS = (
    Column("commitment"),
    Column("years", Align.RIGHT),
    Column("upfront", Align.RIGHT),
    Column("node $/h", Align.RIGHT),
    Column("off", Align.RIGHT),
    Column("breaks even at", Align.RIGHT),
    Column("lately", Align.RIGHT),
)


def commitment_blocks(commitments: Commitments) -> list[Block]:
    """Draw what AWS offers for a commitment, beside on demand and what it would have saved lately."""
    if not commitments.offers:
        return [
            quiet(
                f"No rate of a Savings Plan or a reserved instance is known for {commitments.instance_type}."
            )
        ]
    what = f"{commitments.nodes} x {commitments.instance_type} in {commitments.region}"
    caption = f"Commitments to {what}, {_against(commitments.on_demand)}"
    table = Table(_OFFERS, tuple(_offer(each) for each in commitments.weighed), caption=caption)
    read = sorted({f"{x.source} of {x.asof}" for x in commitments.offers})
    return [table, text(_used(commitments)), quiet(f"Rates: {'; '.join(read)}. {_TERMS}")]


_TERMS = (
    "Node $/h spreads what is paid upfront over the term of 8,760 hours a year, all of which are paid, used or not; from “breaks "
    "even at” on, hours that run cost more on demand."
)


def _against(on_demand: Price | None) -> str:
    if on_demand is None:
        return "which has no on-demand price to set them against"
    return f"against {usd(on_demand.usd_per_hour)} an hour on demand ({on_demand.basis} of {on_demand.asof})"


def _offer(each: Weighed) -> tuple[str, ...]:
    offer, hours = each.offer, each.breakeven_hours
    off = "–" if each.off_ratio is None else f"{each.off_ratio * 100:.0f} %"
    even = "–" if hours is None else f"{hours:,} h"
    lately = (
        "–"
        if each.saved_usd is None
        else f"{'+' if each.saved_usd > 0 else ''}{usd(each.saved_usd)}"
    )
    paid = offer.payment.partition(" ")[0]
    upfront = f"{paid}: {usd(each.upfront_usd)}" if each.upfront_usd else "none"
    return (offer.plan, str(offer.years), upfront, usd(offer.usd_per_hour), off, even, lately)


def _used(commitments: Commitments) -> str:
    """Say how much of such a commitment the account's own hours would have used."""
    use = commitments.use
    if use is None:
        return "How much of it would have been used lately is not known: no bill tells the hours on demand."
    share = f"{use.ratio(commitments.nodes) * 100:.0f} %"
    nodes = f"a commitment to {counted(commitments.nodes, 'node')}"
    whose = "the account's on-demand hours, which no commitment covered"
    return f"“lately” is {period(use.window)}: {whose}, would have used {share} of {nodes}; saved (+) or lost (-)."


def commitment_data(commitments: Commitments) -> dict[str, Any]:
    """Return the same for scripts."""
    use, price = commitments.use, commitments.on_demand
    each = [
        {
            "plan": x.offer.plan,
            "years": x.offer.years,
            "payment": x.offer.payment.value,
            "usd_per_hour": x.offer.usd_per_hour,
            "upfront_usd": x.upfront_usd,
            "off_ratio": None if x.off_ratio is None else round(x.off_ratio, 4),
            "term_hours": x.offer.hours,
            "breakeven_hours": x.breakeven_hours,
            "saved_usd": x.saved_usd,
            "asof": x.offer.asof,
            "source": x.offer.source,
        }
        for x in commitments.weighed
    ]
    lately = use and {
        "since": use.window.start,
        "until": use.window.end,
        "ratio": round(use.ratio(commitments.nodes), 4),
    }
    on_demand = None if price is None else price.usd_per_hour
    return {
        "region": commitments.region,
        "on_demand_usd_per_hour": on_demand,
        "used_lately": lately,
        "offers": each,
    }


def commitments_of(
    ports: Ports, wanted: tuple[str, int], offers: Offers, at: datetime, region: str
) -> Commitments:
    """Return the offers for a type and a number of nodes in the region asked for, else that of on-demand hours. May block."""
    name, nodes = wanted
    every = ports.world.prices.commitment_offers(name, at)
    known = {offer.region for offer in every}
    priced = offers.of(name, Market.ON_DEMAND, region)
    chosen = (
        region
        if region in known
        else priced.region
        if priced and priced.region in known
        else min(known, default="")
    )
    on_demand = offers.here(name, Market.ON_DEMAND, chosen)
    use = on_demand_use(ports.world.billing, on_demand, at) if on_demand and known else None
    return Commitments(
        name, nodes, chosen, [offer for offer in every if offer.region == chosen], on_demand, use
    )
