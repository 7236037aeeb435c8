"""Answer where spot capacity is cheapest for a job, with the odds and the loss by reclaims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from bot.cards.card import Align, Block, Button, Buttons, Card, Strong, Tone, compose, quiet, text
from bot.cards.columns import NUMBER, SHARE, USD, Column, Columns, Unit, datum
from bot.cards.words import period
from bot.costs.pricing import Pricing, listed_price
from bot.costs.spot import UPPER_SHARES, Crossing, Offer, SpotJob, offer, ranked, zones
from bot.errors import Unavailable, refuse
from bot.grammar.names import known_region, known_type
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.claims import Transfer
from bot.model.fleet import Market
from bot.model.money import counted, usd
from bot.model.price import Interruption, PlacementScore
from bot.model.request import Request
from bot.model.window import Window, calendar_day, clock, day, duration_text
from bot.ports import Ports

_MOST = 12


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

    @property
    def caps(self) -> dict[str, Decimal]:
        """Return the maximum prices whose effect is shown, by their names."""
        best = self.offers[0]
        caps = {"p95": best.zone.p95}
        if best.on_demand:
            list_price = best.on_demand.usd_per_hour
            caps |= {"half of on-demand": list_price / 2, "on-demand": list_price}
        if self.cap is not None:
            caps["yours"] = self.cap

        return caps

    @property
    def move(self) -> str:
        """Quote a move from home by what it saves, less moving the data; "" where none pays."""
        best, job = self.offers[0], self.job
        stay = next((offer for offer in self.offers if offer.zone.region == job.home), None)
        # A zone whose interruptions nobody states stands last, however cheap it is.
        if stay is None or best.zone.region == job.home or stay.expected <= best.expected:
            return ""
        less = usd(stay.expected - (best.expected - best.transfer))
        saved = (
            f"{less} less work cost, {usd(best.transfer)} to move {job.data_gb:,f} GB;"
            f" {usd(stay.expected - best.expected)} saved"
        )

        return f"From {stay.zone.zone} to {best.zone.zone}: {saved}. Advice only."


def _lost(offer: Offer) -> str:
    """Write the share of the work that is done twice, "" where no band tells."""
    if offer.lost_share is None:
        return ""
    return f"{'at least ' if offer.at_least else ''}{offer.lost_share * 100:.2g} %"


def _spaced(band: str) -> str:
    return band.replace("%", " %")


_MILLS = Unit(lambda price: usd(price, 4))
ZONES = Columns[Offer](
    datum("region", lambda x: x.zone.region),
    Column("zone", lambda x: x.zone.zone, key="zone"),
    Column(
        "last",
        lambda x: x.zone.last.usd_per_hour,
        _MILLS,
        "last_usd_per_hour",
        "newest price of the zone in the spot price history",
    ),
    datum(
        "mean_usd_per_hour",
        lambda x: x.zone.mean,
        "mean of the zone's prices over the window, each by how long it stood",
    ),
    Column(
        "median",
        lambda x: x.zone.median,
        _MILLS,
        "median_usd_per_hour",
        "the lowest price that stood, or was undercut, for half of the window",
    ),
    Column(
        "p95",
        lambda x: x.zone.p95,
        _MILLS,
        "p95_usd_per_hour",
        "the lowest price that stood, or was undercut, for 95 % of the window",
    ),
    Column("highest", lambda x: x.zone.highest, _MILLS),
    Column("changes", lambda x: x.zone.changes, NUMBER),
    datum("changed_at", lambda x: x.zone.changed_at),
    datum(
        "on_demand_usd_per_hour",
        lambda x: x.on_demand and x.on_demand.usd_per_hour,
        "on-demand price of the type: the account's own, else listed, of last resort",
    ),
    Column("off list", lambda x: x.off, SHARE, missing="?"),
    Column(
        "interrupted a month",
        lambda x: x.band and x.band.band,
        Unit(_spaced, Align.LEFT),
        "band",
        missing="not known",
    ),
    Column(
        "score",
        lambda x: x.score and x.score.score,
        Unit(lambda score: f"{score}/10"),
        "score",
        "EC2's placement score of the region",
        missing="?",
    ),
    Column("lost", _lost, NUMBER, missing="?"),
    datum(
        "lost_share",
        lambda x: x.lost_share,
        "nodes x upper end of the interruption band / 730 x (half a checkpoint interval +"
        " restart), in hours",
    ),
    Column("compute", lambda x: x.compute, USD, "compute_usd", "mean price x nodes x hours"),
    Column("moving", lambda x: x.transfer or None, Unit(lambda amount: usd(amount, 0))),
    datum(
        "transfer_usd",
        lambda x: x.transfer,
        "GB x price of a GB between regions; nothing where the data lie there",
    ),
    Column(
        "expected",
        lambda x: x.expected,
        USD,
        "expected_usd",
        "compute x (1 + lost share) + transfer",
    ),
)
_RANKING = ZONES.pick(
    "zone", "expected_usd", "compute_usd", "lost", "moving", "off list", "band", "score"
)
_PRICES = ZONES.pick(
    "last_usd_per_hour", "median_usd_per_hour", "p95_usd_per_hour", "highest", "changes"
)
CAPS = Columns[Crossing](
    Column("$ an hour", lambda x: x.cap, _MILLS, "usd_per_hour", "as typed"),
    Column(
        "crossed",
        lambda x: x.times,
        NUMBER,
        "times",
        "count of the times that the price rose above the cap",
    ),
    Column(
        "time above",
        lambda x: x.share,
        Unit(lambda share: f"{share * 100:.1f} %"),
        "share",
        "time above the cap / the window",
    ),
)
BANDS = Columns[Interruption](
    Column("region", lambda x: x.region, key="region"),
    Column("interrupted a month", lambda x: x.band, Unit(_spaced, Align.LEFT), "band"),
    Column(
        "off list",
        lambda x: x.savings_ratio,
        SHARE,
        "savings_ratio",
        "against on-demand, as AWS's Spot Advisor states it",
    ),
    datum("asof", lambda x: x.asof),
)


def spot_card(answer: SpotAnswer) -> Card:
    """Draw the ranking; without any price, the Spot Advisor's bands alone."""
    if not answer.offers:
        ranks = {band: rank for rank, band in enumerate(UPPER_SHARES)}
        bands = sorted(
            answer.bands, key=lambda x: (ranks.get(x.band, len(ranks)), -x.savings_ratio)
        )
        return Card(
            f"{answer.instance_type} on spot: {counted(len(bands), 'region')}, no prices",
            Tone.INFO,
            (
                BANDS.pick("region", "band", "savings_ratio").table(bands[:_MOST]),
                quiet(
                    f"{_advisor(answer.bands)}. No spot price history is known here, so nothing is"
                    " ranked in dollars."
                ),
            ),
            _data(answer),
        )

    best, job, name = answer.offers[0], answer.job, answer.instance_type
    work = f"{counted(job.nodes, 'node')} for {job.hours:,f} hours"
    lost = "interruptions not counted: no band is known"
    if best.lost_share is not None:
        lost = f"{_lost(best)} of the work done twice"
    if best.transfer:
        lost += f", {usd(best.transfer)} to move the data"

    # AWS advises against a maximum price; a policy may require one.
    advice = (
        "Do not set a maximum price: AWS advises against it, as it only adds interruptions; you"
        " pay the spot price either way."
    )
    if best.on_demand:
        advice += (
            " If a policy requires one, use the on-demand price,"
            f" {usd(best.on_demand.usd_per_hour, 2)}."
        )
    crossings = {best.zone.over(cap): words for words, cap in answer.caps.items()}
    age = Column[Offer]("age", lambda x: duration_text(answer.at - x.zone.changed_at), NUMBER)

    return Card(
        f"{name} on spot: {best.zone.zone}, {usd(best.zone.last.usd_per_hour)} an hour now",
        Tone.INFO,
        compose(
            text(
                "Expected ",
                Strong(usd(best.expected)),
                f" for {work} in {best.zone.zone} ({lost}). Estimated.",
            ),
            _RANKING.table(
                answer.offers,
                most=_MOST,
                rest=f"and {counted(len(answer.offers) - _MOST, 'dearer zone')}",
                caption="Cheapest first: mean price x (1 + work lost) x nodes x hours, and moving"
                " the data",
            ),
            Columns(Column("$ an hour", lambda x: x.zone.zone), *_PRICES.columns, age).table(
                answer.offers[:_MOST],
                caption=f"Prices weighted by how long they lasted, {period(answer.window)}; age ="
                " since the last change",
            ),
            Columns[Crossing](
                Column("cap", lambda crossing: crossings[crossing]), *CAPS.drawn
            ).table(list(crossings), caption=f"Effect of a maximum price in {best.zone.zone}"),
            text(advice),
            answer.move and text(answer.move),
            _sources(answer),
            Buttons(
                (
                    Button(
                        "16 nodes, checkpoint every 30 min", f"spot {name} nodes=16 checkpoint=30m"
                    ),
                    Button("Quotas", f"quota {name}"),
                )
            ),
        ),
        _data(answer),
    )


def _sources(answer: SpotAnswer) -> list[Block]:
    job, route = answer.job, answer.route
    between, restart = duration_text(job.checkpoint), duration_text(job.restart)
    scored = max((score.asof for score in answer.scores), default=None)
    listed = next((offer.on_demand for offer in answer.offers if offer.on_demand), None)
    loss = (
        f"An interruption loses half of {between} between checkpoints and {restart} of restart;"
        " a band counts at its upper end.",
        f"Bands: {_advisor(answer.bands)}."
        if answer.bands
        else "No Spot Advisor band is known here, so interruptions are not counted.",
        f"Scores: EC2 placement scores of {clock(scored)}, for a request that takes any of"
        f" {', '.join(answer.scores[0].instance_types)}."
        if scored
        else "",
    )
    prices = (
        "Prices: EC2 spot price history. A price does not guarantee capacity.",
        f"List: {listed}, {listed.region}."
        if listed
        else "No on-demand price is known to compare with.",
        f"Moving: {usd(route.usd_per_gb, 2)} a GB, {calendar_day(route.asof)} ({route.source})."
        if job.data_gb
        else "",
    )

    return [quiet(" ".join(filter(None, sentences))) for sentences in (loss, prices)]


def _advisor(bands: Sequence[Interruption]) -> str:
    newest = max(band.asof for band in bands)
    return f"AWS Spot Advisor of {day(newest)}, {newest.year}"


def _data(answer: SpotAnswer) -> dict[str, Any]:
    job, cap = answer.job, answer.cap

    def crossed(offer: Offer) -> dict[str, Any] | None:
        return None if cap is None else CAPS.record(offer.zone.over(cap))

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
        "zones": [{**ZONES.record(offer), "cap": crossed(offer)} for offer in answer.offers],
        "bands": BANDS.data(answer.bands),
    }


_COMMAND_MOST = Decimal(10**9)


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
    figures={
        "job/nodes": "as typed",
        "job/hours": "as typed",
        "job/checkpoint_seconds": "as typed",
        "job/data_gb": "as typed",
        **ZONES.sources("zones"),
        **CAPS.sources("cap"),
        **BANDS.sources("bands"),
    },
)
def spot(
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
    refuse(
        (not 1 <= nodes <= 100_000, f"nodes is a count from 1 to 100,000; got {nodes}."),
        (not 0 < hours <= _COMMAND_MOST, f"hours is more than 0; got {hours}."),
        (
            not 0 <= data_gb <= _COMMAND_MOST,
            f"data_gb is an amount of GB, such as 5000; got {data_gb}.",
        ),
        (
            bool(data_gb) and not from_,
            "To price moving the data, say where it lies: data_gb=5000 from us-west-2.",
        ),
        (
            cap is not None and not 0 < cap < _COMMAND_MOST,
            f"cap is USD an hour, such as 21.50; got {cap}.",
        ),
    )

    name, asked_at, market = instance_type.lower(), request.at, ports.world.prices
    job = SpotJob(nodes, hours, checkpoint, restart, data_gb, known_region(from_, ports))
    bands, scores = market.interruptions(name, asked_at), market.placement(name, asked_at)
    past = Window(window.start, min(window.end, asked_at)) if window.start < asked_at else window
    zone_prices = zones(market.spot_history(name, asked_at), past)
    if not zone_prices and not bands:
        known_type(name, ports.world.knowledge.types())
        raise Unavailable(
            f"No spot price of {name} is known here for {period(window)}; a live account needs"
            " ec2:DescribeSpotPriceHistory (deploy/iam-policy.json), a recording"
            " api/ec2/describe_spot_price_history. Not every type is sold on spot."
        )

    pricing = Pricing(ports).at(asked_at)
    route = ports.world.knowledge.claims().transfer("inter-region")
    # The list price, there or else anywhere: never the account's own discounted rate.
    listed = {
        region: listed_price(
            [price for price in pricing.quotes(name, region) if not price.hours],
            Market.ON_DEMAND,
            region,
        )
        for region in {zone.region for zone in zone_prices}
    }

    offers = ranked(
        [
            offer(zone, job, bands, scores, listed[zone.region], route.usd_per_gb)
            for zone in zone_prices
        ]
    )

    return spot_card(
        SpotAnswer(name, past, job, offers, tuple(bands), tuple(scores), route, cap, asked_at)
    )
