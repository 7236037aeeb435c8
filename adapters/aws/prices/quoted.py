"""Quote hours and commitments from AWS's answers, and the odds of spot capacity."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson

from adapters.aws.api.responses import Pages, ResponseInfo, Responses, members, newest_at, required
from bot.model.fleet import Market
from bot.model.price import (
    HOURS_A_YEAR,
    Basis,
    CommitmentOffer,
    Interruption,
    Payment,
    PlacementScore,
    Price,
)

_PLANS = {"EC2Instance": "EC2 Instance Savings Plan", "Compute": "Compute Savings Plan"}
_UPFRONT = {Payment.NONE: Decimal(0), Payment.PARTIAL: Decimal("0.5"), Payment.ALL: Decimal(1)}
"""Share of a Savings Plan's commitment that is paid at its start.

Savings Plans User Guide, Payment options, 2026-11.
"""
_MICRO = Decimal("0.000001")
_YEAR_SECONDS = 31_536_000


class CommitmentOffers:
    """Return the commitments offered by a time.

    Before the first of AWS's answers, those of the first.
    """

    def __init__(self, responses: Responses) -> None:
        self._plans = responses.histories(
            "savingsplans", "describe_savings_plans_offering_rates", savings_plans
        )
        self._reserved = responses.histories(
            "ec2", "describe_reserved_instances_offerings", reserved
        )

    def of(self, instance_type: str, now: datetime) -> Sequence[CommitmentOffer]:
        """Return the offers for a type of all regions, the cheapest first.

        Of offers alike the cheapest alone.
        """
        current = [
            x
            for history in (*self._plans, *self._reserved)
            for x in history[newest_at(history, now)][1]
        ]
        ranked = sorted(
            (x for x in current if x.instance_type == instance_type), key=lambda x: x.usd_per_hour
        )
        best: dict[tuple[str, str, int, Payment], CommitmentOffer] = {}
        for offer in ranked:
            best.setdefault((offer.region, offer.plan, offer.years, offer.payment), offer)
        return tuple(best.values())


def savings_plans(pages: Pages, answer: ResponseInfo) -> tuple[CommitmentOffer, ...]:
    """Translate DescribeSavingsPlansOfferingRates: Linux, shared tenancy, hours that run.

    A rate is of each hour of the term.
    """
    return tuple(offer for rate in members(pages, "searchResults") for offer in _plan(rate, answer))


def _plan(member: Mapping[str, Any], answer: ResponseInfo) -> Iterator[CommitmentOffer]:
    of = {x["name"]: x["value"] for x in member["properties"]}
    offering = member["savingsPlanOffering"]
    linux = (
        of.get("productDescription", _LINUX[0]) in _LINUX
        and of.get("tenancy", "shared") == "shared"
    )
    runs = (
        "BoxUsage:" in member.get("usageType", "BoxUsage:") and member.get("unit", "Hrs") == "Hrs"
    )
    years, odd = divmod(int(offering["durationSeconds"]), _YEAR_SECONDS)
    if not (linux and runs and years and not odd) or offering["planType"] not in _PLANS:
        return
    payment, usd = _payment(offering["paymentOption"]), Decimal(str(member["rate"]))
    upfront = usd * years * HOURS_A_YEAR * _UPFRONT[payment]
    plan, source = _PLANS[offering["planType"]], "Savings Plans offering rates"
    yield CommitmentOffer(
        of["instanceType"],
        of["region"],
        plan,
        years,
        payment,
        usd,
        upfront,
        answer.at.date(),
        source,
    )


def reserved(pages: Pages, answer: ResponseInfo) -> tuple[CommitmentOffer, ...]:
    """Translate DescribeReservedInstancesOfferings: Linux, shared tenancy, AWS's own.

    Fees are spread over the term.
    """
    return tuple(
        offer
        for offering in members(pages, "ReservedInstancesOfferings")
        for offer in _reserved(offering, answer)
    )


def _reserved(member: Mapping[str, Any], answer: ResponseInfo) -> Iterator[CommitmentOffer]:
    linux = (
        member.get("ProductDescription", _LINUX[0]) in _LINUX
        and member.get("InstanceTenancy", "default") == "default"
    )
    years, odd = divmod(int(member["Duration"]), _YEAR_SECONDS)
    if not (linux and years and not odd) or member.get("Marketplace"):
        return
    fixed = Decimal(str(member.get("FixedPrice", 0)))
    hourly = sum(
        (
            Decimal(str(x["Amount"]))
            for x in member.get("RecurringCharges", ())
            if x["Frequency"] == "Hourly"
        ),
        Decimal(0),
    )
    usd = (
        fixed / (years * HOURS_A_YEAR) + hourly + Decimal(str(member.get("UsagePrice", 0)))
    ).quantize(_MICRO)
    plan, source = (
        f"{member.get('OfferingClass', 'standard')} reserved instance",
        "EC2 reserved instances offerings",
    )
    payment, asof = _payment(member["OfferingType"]), answer.at.date()
    yield CommitmentOffer(
        str(member["InstanceType"]), answer.region, plan, years, payment, usd, fixed, asof, source
    )


def _payment(text: str) -> Payment:
    return Payment(text.lower())


_LINUX = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
_Spot = tuple[datetime, Price]


class QuotedPrices:
    """Return the prices of AWS's own responses by a time.

    Before the first of them, those of the first.
    """

    def __init__(self, responses: Responses) -> None:
        self._listed = responses.histories("pricing", "get_products", listed)
        self._blocks = responses.histories(
            "ec2", "describe_capacity_block_offerings", capacity_blocks
        )
        self._spot = responses.histories("ec2", "describe_spot_price_history", spot)
        self.spot_scores = SpotScores(responses)
        self.commitments = CommitmentOffers(responses)
        self._changes: tuple[tuple[int, ...], dict[str, list[_Spot]]] | None = None

    def quotes(self, instance_type: str, region: str, now: datetime) -> Sequence[Price]:
        """Return every price known at `now`, the listed first; all regions where `region` is ""."""
        stated = [
            x
            for history in (*self._listed, *self._blocks)
            for x in history[newest_at(history, now)][1]
        ]
        last = {
            (price.region, price.zone): price for _, price in self.spot_history(instance_type, now)
        }
        quoted = [x for x in (*stated, *last.values()) if x.instance_type == instance_type]
        return tuple(x for x in quoted if not region or x.region == region)

    def spot_history(self, instance_type: str, now: datetime) -> Sequence[_Spot]:
        """Return the spot price changes known at `now`, oldest first, of all regions and zones."""
        key = tuple(newest_at(history, now) for history in self._spot)
        changes = self._changes
        if changes is None or changes[0] != key:
            # Join the histories that were read by then: each covers the last months only.
            by_time: dict[tuple[str, str, datetime], Price] = {}
            for history, last in zip(self._spot, key, strict=True):
                for _, history_changes in history[: last + 1]:
                    by_time.update(
                        {
                            (price.instance_type, price.zone, time): price
                            for time, price in history_changes
                        }
                    )
            by_type: dict[str, list[_Spot]] = {}
            for (name, _, time), price in sorted(
                by_time.items(), key=lambda entry: (entry[0][2], entry[0])
            ):
                by_type.setdefault(name, []).append((time, price))
            changes = self._changes = (key, by_type)
        return [change for change in changes[1].get(instance_type, []) if change[0] <= now]


def listed(pages: Pages, answer: ResponseInfo) -> tuple[Price, ...]:
    """Translate GetProducts: Linux, shared tenancy, on demand.

    A price of zero is no price (Capacity Block rows).
    """
    products = [orjson.loads(x) if isinstance(x, str) else x for x in members(pages, "PriceList")]
    return tuple(price for product in products for price in _listed(product, answer))


def _listed(product: Mapping[str, Any], answer: ResponseInfo) -> Iterator[Price]:
    of = product["product"]["attributes"]
    kind, unit, hours = _what(of)
    if not kind:
        return
    for term in (product.get("terms") or {}).get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            usd = _usd(dimension["pricePerUnit"].get("USD", "0"))
            if dimension.get("unit", unit) == unit and usd > 0:
                yield Price(
                    kind,
                    usd / hours,
                    Market.ON_DEMAND,
                    Basis.LISTED,
                    region=of.get("regionCode", ""),
                    asof=answer.at.date(),
                    source=f"AWS Price List, effective {str(term.get('effectiveDate', 'unsaid'))[:10]}",
                )


def _what(of: Mapping[str, Any]) -> tuple[str, str, int]:
    """Return the thing that a product is an hour of ("" for one that is not asked for), its unit.

    How many hours that is.

    Storage is listed by the month: `ebs:gp3` and `fsx:125` are one GiB of it.
    """
    plain = {
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
    }
    if "instanceType" in of and all(of.get(name, value) == value for name, value in plain.items()):
        return of["instanceType"], "Hrs", 1

    stored = _STORAGE.fullmatch(of.get("usagetype", ""))
    if stored and stored["volume"]:
        return f"ebs:{stored['volume']}", "GB-Mo", _HOURS_A_MONTH
    if stored and str(of.get("operation", "")).endswith(":Lustre"):
        return f"fsx:{stored['tier']}", "GB-Mo", _HOURS_A_MONTH
    return "", "", 1


_STORAGE = re.compile(
    r"(?:[A-Z0-9]+-)?(?:EBS:VolumeUsage\.(?P<volume>\w+)|Storage\.SSD\.(?P<tier>\d+))"
)
"""Usage types of storage, as on the bill (`USW2-EBS:VolumeUsage.gp3`, `USE1-Storage.SSD.125`)."""
_HOURS_A_MONTH = 730


def spot(pages: Pages, answer: ResponseInfo) -> tuple[_Spot, ...]:
    """Translate DescribeSpotPriceHistory, Linux only."""
    history = members(pages, "SpotPriceHistory")
    return tuple(
        _spot(x, answer) for x in history if x.get("ProductDescription", _LINUX[0]) in _LINUX
    )


def _spot(member: Mapping[str, Any], answer: ResponseInfo) -> _Spot:
    time = required(member["Timestamp"], "Timestamp")
    price = Price(
        str(member["InstanceType"]),
        _usd(member["SpotPrice"]),
        Market.SPOT,
        Basis.SPOT,
        region=answer.region,
        asof=time.date(),
        source="EC2 spot price history",
        zone=str(member.get("AvailabilityZone", "")),
    )
    return time, price


def capacity_blocks(pages: Pages, answer: ResponseInfo) -> tuple[Price, ...]:
    """Translate DescribeCapacityBlockOfferings.

    The upfront fee over instances and hours, the cheapest of each zone.
    """
    offers = []
    for member in members(pages, "CapacityBlockOfferings"):
        duration = member["CapacityBlockDurationHours"]
        offer = Price(
            str(member["InstanceType"]),
            _usd(member["UpfrontFee"]) / (int(member["InstanceCount"]) * int(duration)),
            Market.CAPACITY_BLOCK,
            Basis.CAPACITY_BLOCK,
            region=answer.region,
            asof=answer.at.date(),
            source=f"EC2 Capacity Block offering, {duration} h",
            zone=str(member.get("AvailabilityZone", "")),
        )
        offers.append(offer)
    best: dict[tuple[str, str], Price] = {}
    for offer in sorted(offers, key=lambda x: x.usd_per_hour):
        best.setdefault((offer.instance_type, offer.zone), offer)
    return tuple(best.values())


def _usd(text: Any) -> Decimal:
    try:
        return Decimal(str(text))
    except InvalidOperation:
        raise ValueError(f"'{text}' is not an amount") from None


ADVISOR_SERVICE, ADVISOR_OPERATION = "spot-advisor", "get_data"
"""Where a recording keeps the advisor's file.

It is no API of AWS, but it is answered and dated like one.
"""
_SYSTEM = "Linux"


ANY_OF = "+"
"""Joins the types of a request for placement scores in the name of its answer."""
FEWEST_TYPES = 3
"""Asked with one or two types EC2 always scores low: none is shown.

EC2 API reference, GetSpotPlacementScores, 2026-11.
"""


class SpotScores:
    """Return the scores of spot capacity by a time: placement scores and interruption bands."""

    def __init__(self, responses: Responses) -> None:
        self._scores = responses.histories("ec2", "get_spot_placement_scores", placement_scores)
        self._bands = responses.histories(ADVISOR_SERVICE, ADVISOR_OPERATION, interruptions)

    def placement(self, instance_type: str, now: datetime) -> Sequence[PlacementScore]:
        """Return a type's scores known at `now`, the best first."""
        newest = [x for history in self._scores for x in history[newest_at(history, now)][1]]
        scores = [
            x
            for x in newest
            if instance_type in x.instance_types and len(x.instance_types) >= FEWEST_TYPES
        ]
        return tuple(sorted(scores, key=lambda x: (-x.score, x.region, x.zone_id)))

    def interruptions(self, instance_type: str, now: datetime) -> Sequence[Interruption]:
        """Return a type's bands known at `now`, by region."""
        return tuple(
            x
            for history in self._bands
            for x in history[newest_at(history, now)][1].get(instance_type, ())
        )


def placement_scores(pages: Pages, answer: ResponseInfo) -> tuple[PlacementScore, ...]:
    """Translate GetSpotPlacementScores; the answer does not name the types it was asked for."""
    types = tuple(answer.argument.split(ANY_OF))
    return tuple(
        PlacementScore(
            types,
            str(x["Region"]),
            str(x.get("AvailabilityZoneId", "")),
            int(x["Score"]),
            answer.at,
        )
        for x in members(pages, "SpotPlacementScores")
    )


def interruptions(pages: Pages, answer: ResponseInfo) -> Mapping[str, tuple[Interruption, ...]]:
    """Translate the advisor's file: `spot_advisor[region][Linux][type] = {s: savings %, r.

    Index into ranges}`.
    """
    (page,) = pages
    bands = {int(x["index"]): str(x["label"]) for x in page["ranges"]}
    by_type: dict[str, list[Interruption]] = {}
    for region, systems in sorted(page["spot_advisor"].items()):
        for name, band_of in systems.get(_SYSTEM, {}).items():
            band = Interruption(
                str(name),
                str(region),
                bands[int(band_of["r"])],
                float(band_of["s"]) / 100,
                answer.at,
            )
            by_type.setdefault(band.instance_type, []).append(band)
    return {name: tuple(bands_of) for name, bands_of in by_type.items()}
