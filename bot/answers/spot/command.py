"""Answer where spot capacity is cheapest for a job, and the effect of a cap on the price."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from decimal import Decimal

from bot.answers.names import known_region, known_type
from bot.answers.registry import Needs, Topic, arg, command
from bot.answers.spot.card import SpotAnswer, spot_card
from bot.answers.spot.ranking import SpotJob, offer, ranked, zones
from bot.cards.card import Card
from bot.costs.pricing import Pricing, listed_price
from bot.errors import Unavailable, WrongInput
from bot.model.fleet import Market
from bot.model.price import Price
from bot.model.request import Request
from bot.model.window import Window
from bot.ports import Ports

_MOST = Decimal(10**9)


@command(
    "spot",
    "Where a type is cheapest on spot, the cost of an interruption, and the effect of a price cap.",
    needs=Needs.METRICS,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=(
        "spot trn1.32xlarge",
        "spot trn1.32xlarge nodes=16 hours=100 checkpoint=30m",
        "spot trn1.32xlarge data_gb=5000 from us-west-2",
    ),
)
async def spot(
    ports: Ports,
    request: Request,
    instance_type: str = arg(None, "the instance type"),
    window: Window = arg("14d", "the price history to use", keyword=True),
    nodes: int = arg("1", "nodes of the job", keyword=True),
    hours: Decimal = arg("168", "hours of work in the job", keyword=True),
    checkpoint: timedelta = arg("1h", "time between two checkpoints", keyword=True),
    restart: timedelta = arg(
        "15m", "time from an interruption until the job works again", keyword=True
    ),
    data_gb: Decimal = arg("0", "GB of data that the job reads", keyword=True),
    from_: str = arg("", "the region where the data lies", keyword=True),
    cap: Decimal | None = arg(
        "",
        "a maximum price in USD an hour, to see how often it would have been exceeded",
        keyword=True,
    ),
) -> Card:
    """Rank the zones by the expected cost of the job."""
    _refuse(nodes, hours, data_gb, from_, cap)
    job = SpotJob(nodes, hours, checkpoint, restart, data_gb, known_region(from_, ports))
    return await asyncio.to_thread(_answer, ports, request, instance_type.lower(), window, job, cap)


def _answer(
    ports: Ports, request: Request, name: str, window: Window, job: SpotJob, cap: Decimal | None
) -> Card:
    changes = ports.world.prices.spot_history(name, request.at)
    bands, scores = (
        ports.world.prices.interruptions(name, request.at),
        ports.world.prices.placement(name, request.at),
    )
    past = (
        Window(window.start, min(window.end, request.at)) if window.start < request.at else window
    )
    zone_prices = zones(changes, past)
    if not zone_prices and not bands:
        known_type(name, ports.world.knowledge.types())
        raise Unavailable(
            f"No spot price of {name} is known here for {window}; a live account needs ec2:DescribeSpotPriceHistory "
            "(deploy/iam-policy.json), a recording api/ec2/describe_spot_price_history. Not every type is sold on spot."
        )
    pricing, route = (
        Pricing(ports).at(request.at),
        ports.world.knowledge.claims().transfer("inter-region"),
    )
    listed = {
        region: _on_demand(pricing, name, region) for region in {x.region for x in zone_prices}
    }
    offers = ranked(
        [offer(x, job, bands, scores, listed[x.region], route.usd_per_gb) for x in zone_prices]
    )
    return spot_card(
        SpotAnswer(name, past, job, offers, tuple(bands), tuple(scores), route, cap, request.at)
    )


def _on_demand(pricing: Pricing, name: str, region: str) -> Price | None:
    """Return the list price of an on-demand hour there, else anywhere.

    Never the account's own discounted rate.
    """
    return listed_price(
        [price for price in pricing.quotes(name, region) if not price.hours],
        Market.ON_DEMAND,
        region,
    )


def _refuse(nodes: int, hours: Decimal, data_gb: Decimal, home: str, cap: Decimal | None) -> None:
    if not 1 <= nodes <= 100_000:
        raise WrongInput(f"nodes is a count from 1 to 100,000; got {nodes}.")
    if not 0 < hours <= _MOST:
        raise WrongInput(f"hours is more than 0; got {hours}.")
    if not 0 <= data_gb <= _MOST:
        raise WrongInput(f"data_gb is an amount of GB, such as 5000; got {data_gb}.")
    if data_gb and not home:
        raise WrongInput(
            "To price moving the data, say where it lies: data_gb=5000 from us-west-2."
        )
    if cap is not None and not 0 < cap < _MOST:
        raise WrongInput(f"cap is USD an hour, such as 21.50; got {cap}.")
