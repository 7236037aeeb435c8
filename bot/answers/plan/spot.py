"""Answer where spot capacity is cheapest for a job, with the odds and the loss by reclaims."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from bot.answers.plan.spot_ranking import Offer, SpotJob, offer, ranked, zones
from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    Card,
    Heading,
    Strong,
    Table,
    Text,
    Tone,
    quiet,
    text,
)
from bot.cards.words import clock, day, period
from bot.costs.pricing import Pricing, listed_price
from bot.errors import Unavailable, WrongInput
from bot.grammar.names import known_region, known_type
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.claims import Transfer
from bot.model.fleet import Market
from bot.model.money import counted, usd
from bot.model.price import Interruption, PlacementScore, Price
from bot.model.request import Request
from bot.model.window import Window, duration_text
from bot.ports import Ports

_MOST = 12
_R = Align.RIGHT


@dataclass(frozen=True)
class SpotAnswer:
    """Hold the answer to `spot`: offers, the cheapest first."""

    instance_type: str
    window: Window
    job: SpotJob
    offers: tuple[Offer, ...]
    bands: tuple[Interruption, ...]
    scores: tuple[PlacementScore, ...]
    route: Transfer
    cap: Decimal | None
    at: datetime


def spot_card(answer: SpotAnswer) -> Card:
    """Draw the ranking; without any price, the Spot Advisor's bands alone."""
    if not answer.offers:
        return _bands_card(answer)
    best = answer.offers[0]
    blocks: list[Block] = [
        _lead(answer, best),
        _ranking(answer),
        _prices(answer),
        _caps(answer, best),
    ]
    blocks += _move(answer) + _sources(answer)
    other = "spot " + answer.instance_type + " nodes=16 checkpoint=30m"
    blocks.append(
        Buttons(
            (
                Button("16 nodes, checkpoint every 30 min", other),
                Button("Quotas", f"quota {answer.instance_type}"),
            )
        )
    )
    title = f"{answer.instance_type} on spot: {best.zone.zone}, {usd(best.zone.last.usd_per_hour)} an hour now"
    return Card(title, Tone.INFO, tuple(blocks), _data(answer))


def _lead(answer: SpotAnswer, best: Offer) -> Text:
    job = answer.job
    what = f"{counted(job.nodes, 'node')} for {job.hours:,f} hours"
    lost = (
        "interruptions not counted: no band is known"
        if best.lost_share is None
        else f"{_lost(best)} of the work done twice"
    )
    moved = f", {usd(best.transfer)} to move the data" if best.transfer else ""
    return text(
        "Expected ",
        Strong(usd(best.expected)),
        f" for {what} in {best.zone.zone} ({lost}{moved}). Estimated.",
    )


def _ranking(answer: SpotAnswer) -> Table:
    columns = (
        Heading("zone"),
        Heading("expected", _R),
        Heading("compute", _R),
        Heading("lost", _R),
        Heading("moving", _R),
        Heading("off list", _R),
        Heading("interrupted a month"),
        Heading("score", _R),
    )
    rows = tuple(
        (
            x.zone.zone,
            usd(x.expected),
            usd(x.compute),
            _lost(x) if x.lost_share is not None else "?",
            usd(x.transfer, 0) if x.transfer else "–",
            f"{x.off * 100:.0f} %" if x.off is not None else "?",
            x.band.band.replace("%", " %") if x.band else "not known",
            f"{x.score.score}/10" if x.score else "?",
        )
        for x in answer.offers[:_MOST]
    )
    more = len(answer.offers) - _MOST
    rest = f"and {counted(more, 'dearer zone')}" if more > 0 else ""
    return Table(
        columns,
        rows,
        caption="Cheapest first: mean price x (1 + work lost) x nodes x hours, and moving the data",
        rest=rest,
    )


def _prices(answer: SpotAnswer) -> Table:
    columns = (
        Heading("$ an hour"),
        *(Heading(name, _R) for name in ("last", "median", "p95", "highest", "changes", "age")),
    )
    rows = tuple(
        (
            x.zone.zone,
            *(
                usd(price, 4)
                for price in (x.zone.last.usd_per_hour, x.zone.median, x.zone.p95, x.zone.highest)
            ),
            f"{x.zone.changes}",
            duration_text(answer.at - x.zone.changed_at),
        )
        for x in answer.offers[:_MOST]
    )
    return Table(
        columns,
        rows,
        caption=f"Prices by the time they stood, {period(answer.window)}; age = since the last change",
    )


def _caps(answer: SpotAnswer, best: Offer) -> Table:
    caps = [("p95", best.zone.p95)]
    caps += (
        [
            ("half of on-demand", best.on_demand.usd_per_hour / 2),
            ("on-demand", best.on_demand.usd_per_hour),
        ]
        if best.on_demand
        else []
    )
    caps += [("yours", answer.cap)] if answer.cap is not None else []
    rows = []
    for name, cap in caps:
        crossed = best.zone.over(cap)
        rows.append((name, usd(cap, 4), f"{crossed.times}", f"{crossed.share * 100:.1f} %"))
    columns = (
        Heading("cap"),
        Heading("$ an hour", _R),
        Heading("crossed", _R),
        Heading("time above", _R),
    )
    return Table(columns, tuple(rows), caption=f"Effect of a maximum price in {best.zone.zone}")


def _move(answer: SpotAnswer) -> list[Block]:
    """Quote a move away from home: the saving, less moving the data."""
    home = [x for x in answer.offers if x.zone.region == answer.job.home]
    best = answer.offers[0]
    advice = "Do not set a maximum price: AWS advises against it, as it only adds interruptions; you pay the spot price either way."
    cap = (
        f" If a policy requires one, use the on-demand price, {usd(best.on_demand.usd_per_hour, 2)}."
        if best.on_demand
        else ""
    )
    blocks: list[Block] = [text(advice + cap)]
    if home and best.zone.region != answer.job.home:
        here, there = home[0].expected, best.expected - best.transfer
        saved = f"{usd(here - there)} less work cost, {usd(best.transfer)} to move {answer.job.data_gb:,f} GB"
        blocks.append(
            text(
                f"From {home[0].zone.zone} to {best.zone.zone}: {saved}; {usd(here - best.expected)} saved. Advice only."
            )
        )
    return blocks


def _sources(answer: SpotAnswer) -> list[Block]:
    job = answer.job
    between, restart = duration_text(job.checkpoint), duration_text(job.restart)
    loss = f"An interruption loses half of {between} between checkpoints and {restart} of restart; "
    loss += "a band counts at its upper end."
    newest = max((x.asof for x in answer.bands), default=None)
    bands = (
        f" Bands: AWS Spot Advisor of {day(newest)}, {newest.year}."
        if newest
        else " No Spot Advisor band is known here, so interruptions are not counted."
    )
    scored = max((x.asof for x in answer.scores), default=None)
    any_of = ", ".join(answer.scores[0].instance_types) if answer.scores else ""
    score = (
        f" Scores: EC2 placement scores of {clock(scored)}, for a request that takes any of {any_of}."
        if scored
        else ""
    )
    listed = next((x.on_demand for x in answer.offers if x.on_demand), None)
    against = (
        f" List: {listed}, {listed.region}."
        if listed
        else " No on-demand price is known to compare with."
    )
    route = (
        f" Moving: {usd(answer.route.usd_per_gb, 2)} a GB, {answer.route.asof} ({answer.route.source})."
        if job.data_gb
        else ""
    )
    price = "Prices: EC2 spot price history. A price does not guarantee capacity."
    return [quiet(loss + bands + score), quiet(price + against + route)]


def _bands_card(answer: SpotAnswer) -> Card:
    rows = tuple(
        (x.region, x.band.replace("%", " %"), f"{x.savings_ratio * 100:.0f} %")
        for x in _by_band(answer.bands)[:_MOST]
    )
    columns = (Heading("region"), Heading("interrupted a month"), Heading("off list", _R))
    newest = max(x.asof for x in answer.bands)
    notes = quiet(
        f"AWS Spot Advisor of {day(newest)}, {newest.year}. No spot price history is known here, so nothing is ranked in dollars."
    )
    return Card(
        f"{answer.instance_type} on spot: {counted(len(answer.bands), 'region')}, no prices",
        Tone.INFO,
        (Table(columns, rows), notes),
        _data(answer),
    )


def _by_band(bands: Sequence[Interruption]) -> list[Interruption]:
    order = ("<5%", "5-10%", "10-15%", "15-20%", ">20%")
    return sorted(
        bands,
        key=lambda x: (order.index(x.band) if x.band in order else len(order), -x.savings_ratio),
    )


def _lost(offer: Offer) -> str:
    assert offer.lost_share is not None
    return f"{'at least ' if offer.at_least else ''}{offer.lost_share * 100:.2g} %"


def _data(answer: SpotAnswer) -> dict[str, Any]:
    job = answer.job
    return {
        "instance_type": answer.instance_type,
        "window": {"start": answer.window.start, "end": answer.window.end},
        "job": {
            "nodes": job.nodes,
            "hours": job.hours,
            "checkpoint_seconds": job.checkpoint.total_seconds(),
            "data_gb": job.data_gb,
            "from": job.home,
        },
        "zones": [_offer_data(x, answer) for x in answer.offers],
        "bands": [
            {"region": x.region, "band": x.band, "savings_ratio": x.savings_ratio, "asof": x.asof}
            for x in answer.bands
        ],
    }


def _offer_data(offer: Offer, answer: SpotAnswer) -> dict[str, Any]:
    zone, cap = offer.zone, answer.cap
    crossed = zone.over(cap) if cap is not None else None
    return {
        "region": zone.region,
        "zone": zone.zone,
        "last_usd_per_hour": zone.last.usd_per_hour,
        "mean_usd_per_hour": zone.mean,
        "median_usd_per_hour": zone.median,
        "p95_usd_per_hour": zone.p95,
        "changed_at": zone.changed_at,
        "on_demand_usd_per_hour": offer.on_demand.usd_per_hour if offer.on_demand else None,
        "band": offer.band.band if offer.band else None,
        "score": offer.score.score if offer.score else None,
        "lost_share": offer.lost_share,
        "compute_usd": offer.compute,
        "transfer_usd": offer.transfer,
        "expected_usd": offer.expected,
        "cap": {"usd_per_hour": cap, "times": crossed.times, "share": crossed.share}
        if crossed
        else None,
    }


_COMMAND_MOST = Decimal(10**9)


_SPOT_FIGURES = {
    "job/nodes": "as typed",
    "job/hours": "as typed",
    "job/checkpoint_seconds": "as typed",
    "job/data_gb": "as typed",
    "last_usd_per_hour": "newest price of the zone in the spot price history",
    "mean_usd_per_hour": "mean of the zone's prices over the window, each by how long it stood",
    "median_usd_per_hour": "the lowest price that stood, or was undercut, for half of the window",
    "p95_usd_per_hour": "the lowest price that stood, or was undercut, for 95 % of the window",
    "on_demand_usd_per_hour": (
        "on-demand price of the type: the account's own, else listed, of last resort"
    ),
    "lost_share": (
        "nodes x upper end of the interruption band / 730 x (half a checkpoint interval + "
        "restart), in hours"
    ),
    "score": "EC2's placement score of the region",
    "compute_usd": "mean price x nodes x hours",
    "transfer_usd": "GB x price of a GB between regions; nothing where the data lie there",
    "expected_usd": "compute x (1 + lost share) + transfer",
    "cap/usd_per_hour": "as typed",
    "cap/times": "count of the times that the price rose above the cap",
    "cap/share": "time above the cap / the window",
    "savings_ratio": "against on-demand, as AWS's Spot Advisor states it",
}


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
    figures=_SPOT_FIGURES,
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
    if not 0 < hours <= _COMMAND_MOST:
        raise WrongInput(f"hours is more than 0; got {hours}.")
    if not 0 <= data_gb <= _COMMAND_MOST:
        raise WrongInput(f"data_gb is an amount of GB, such as 5000; got {data_gb}.")
    if data_gb and not home:
        raise WrongInput(
            "To price moving the data, say where it lies: data_gb=5000 from us-west-2."
        )
    if cap is not None and not 0 < cap < _COMMAND_MOST:
        raise WrongInput(f"cap is USD an hour, such as 21.50; got {cap}.")
