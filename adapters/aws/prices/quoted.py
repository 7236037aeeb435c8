"""Quote hours and commitments from AWS's answers, and the odds of spot capacity."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from operator import itemgetter
from typing import Any

import orjson

from adapters.aws.api.responses import (
    Histories,
    Pages,
    ResponseInfo,
    Responses,
    members,
    newest_at,
    newest_each,
    required,
)
from bot.model.codec import by_key
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
_YEAR_SECONDS = 31_536_000


def savings_plans(pages: Pages, answer: ResponseInfo) -> tuple[CommitmentOffer, ...]:
    """Translate DescribeSavingsPlansOfferingRates: Linux, shared tenancy, hours that run.

    A rate is of each hour of the term.
    """
    offers = []
    for member in members(pages, "searchResults"):
        of = {x["name"]: x["value"] for x in member["properties"]}
        offering = member["savingsPlanOffering"]
        linux = (
            of.get("productDescription", LINUX[0]) in LINUX
            and of.get("tenancy", "shared") == "shared"
        )
        runs = (
            "BoxUsage:" in member.get("usageType", "BoxUsage:")
            and member.get("unit", "Hrs") == "Hrs"
        )
        years, odd = divmod(int(offering["durationSeconds"]), _YEAR_SECONDS)
        if not (linux and runs and years and not odd) or offering["planType"] not in _PLANS:
            continue
        payment, usd = Payment(offering["paymentOption"].lower()), Decimal(str(member["rate"]))
        offers.append(
            CommitmentOffer(
                of["instanceType"],
                of["region"],
                _PLANS[offering["planType"]],
                years,
                payment,
                usd,
                usd * years * HOURS_A_YEAR * _UPFRONT[payment],
                answer.at.date(),
                "Savings Plans offering rates",
            )
        )
    return tuple(offers)


def reserved(pages: Pages, answer: ResponseInfo) -> tuple[CommitmentOffer, ...]:
    """Translate DescribeReservedInstancesOfferings: Linux, shared tenancy, AWS's own.

    Fees are spread over the term.
    """
    offers = []
    for member in members(pages, "ReservedInstancesOfferings"):
        linux = (
            member.get("ProductDescription", LINUX[0]) in LINUX
            and member.get("InstanceTenancy", "default") == "default"
        )
        years, odd = divmod(int(member["Duration"]), _YEAR_SECONDS)
        if not (linux and years and not odd) or member.get("Marketplace"):
            continue
        fixed, hourly = (Decimal(str(member.get(x, 0))) for x in ("FixedPrice", "UsagePrice"))
        hourly += sum(
            Decimal(str(x["Amount"]))
            for x in member.get("RecurringCharges", ())
            if x["Frequency"] == "Hourly"
        )
        offers.append(
            CommitmentOffer(
                str(member["InstanceType"]),
                answer.region,
                f"{member.get('OfferingClass', 'standard')} reserved instance",
                years,
                Payment(member["OfferingType"].lower()),
                (fixed / (years * HOURS_A_YEAR) + hourly).quantize(Decimal("0.000001")),
                fixed,
                answer.at.date(),
                "EC2 reserved instances offerings",
            )
        )
    return tuple(offers)


LINUX = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
SpotChange = tuple[datetime, Price]
Translation = Callable[[Pages, ResponseInfo], tuple[Any, ...]]


class PriceSource(ABC):
    """Implement `bot.ports.Prices` by the prices known at a time."""

    @abstractmethod
    def quoted(self, now: datetime) -> QuotedPrices:
        """Return the prices that there are at `now`."""

    def quotes(self, instance_type: str, region: str, now: datetime) -> Sequence[Price]:
        """Return every price known at `now`, the listed first; all regions where `region` is ""."""
        prices = self.quoted(now)
        last = {
            (price.region, price.zone): price
            for _, price in prices.spot_history(instance_type, now)
        }
        return tuple(
            x
            for x in (*prices.current(now, listed, capacity_blocks), *last.values())
            if x.instance_type == instance_type and (not region or x.region == region)
        )

    def spot_history(self, instance_type: str, now: datetime) -> Sequence[SpotChange]:
        """Return the spot price changes known at `now`, oldest first, of all regions and zones."""
        return [
            change
            for change in self.quoted(now).spot_changes(now).get(instance_type, ())
            if change[0] <= now
        ]

    def placement(self, instance_type: str, now: datetime) -> Sequence[PlacementScore]:
        """Return a type's placement scores known at `now`, the best first."""
        scores = [
            x
            for x in self.quoted(now).current(now, placement_scores)
            if instance_type in x.instance_types and len(x.instance_types) >= FEWEST_TYPES
        ]
        return tuple(sorted(scores, key=lambda x: (-x.score, x.region, x.zone_id)))

    def interruptions(self, instance_type: str, now: datetime) -> Sequence[Interruption]:
        """Return a type's interruption bands known at `now`, by region."""
        return tuple(
            x
            for x in self.quoted(now).current(now, interruptions)
            if x.instance_type == instance_type
        )

    def commitment_offers(self, instance_type: str, now: datetime) -> Sequence[CommitmentOffer]:
        """Return the offers for a type of all regions, the cheapest first.

        Of offers alike the cheapest alone.
        """
        current = self.quoted(now).current(now, savings_plans, reserved)
        best: dict[tuple[str, str, int, Payment], CommitmentOffer] = {}
        for offer in sorted(current, key=lambda x: x.usd_per_hour):
            if offer.instance_type == instance_type:
                best.setdefault((offer.region, offer.plan, offer.years, offer.payment), offer)
        return tuple(best.values())


class QuotedPrices(PriceSource):
    """Hold the prices, offers and odds of AWS's own responses by a time.

    Before the first of them, those of the first.
    """

    def __init__(self, responses: Responses) -> None:
        self._of = {
            translate: responses.histories(service, operation, translate)
            for translate, (service, operation) in _ANSWERS.items()
        }
        self._spot: Histories[tuple[SpotChange, ...]] = self._of[spot]
        self._changes: tuple[tuple[int, ...], dict[str, list[SpotChange]]] | None = None

    def quoted(self, now: datetime) -> QuotedPrices:  # noqa: ARG002 - its base asks
        """Return itself."""
        return self

    def current(self, now: datetime, *translated: Translation) -> Iterator[Any]:
        """Yield all that the newest answers say."""
        for translate in translated:
            for answer in newest_each(self._of[translate], now):
                yield from answer

    def spot_changes(self, now: datetime) -> Mapping[str, Sequence[SpotChange]]:
        """Return the spot price changes that were answered by `now`, by type, oldest first."""
        key = tuple(newest_at(history, now) for history in self._spot)
        if self._changes is None or self._changes[0] != key:
            # Join the histories that were read by then: each covers the last months only.
            by_time = {
                (time, price.instance_type, price.zone): price
                for history, last in zip(self._spot, key, strict=True)
                for _, changes in history[: last + 1]
                for time, price in changes
            }
            in_time = sorted(by_time.items(), key=itemgetter(0))
            self._changes = (
                key,
                by_key((name, (time, price)) for (time, name, _), price in in_time),
            )
        return self._changes[1]


def listed(pages: Pages, answer: ResponseInfo) -> tuple[Price, ...]:
    """Translate GetProducts: Linux, shared tenancy, on demand.

    A price of zero is no price (Capacity Block rows).
    """
    prices = []
    for member in members(pages, "PriceList"):
        product = orjson.loads(member) if isinstance(member, str) else member
        of = product["product"]["attributes"]
        kind, unit, hours = _what(of)
        terms = (product.get("terms") or {}).get("OnDemand", {}).values() if kind else ()
        for term, rate in ((x, rate) for x in terms for rate in x["priceDimensions"].values()):
            usd = _usd(rate["pricePerUnit"].get("USD", "0"))
            if rate.get("unit", unit) == unit and usd > 0:
                effective = str(term.get("effectiveDate", "unsaid"))[:10]
                prices.append(
                    Price(
                        kind,
                        usd / hours,
                        Market.ON_DEMAND,
                        Basis.LISTED,
                        region=of.get("regionCode", ""),
                        asof=answer.at.date(),
                        source=f"AWS Price List, effective {effective}",
                    )
                )
    return tuple(prices)


def _what(of: Mapping[str, Any]) -> tuple[str, str, int]:
    """Return the thing that a product is an hour of ("" for one that is not asked for), its unit.

    How many hours that is.

    Storage is listed by the month: `ebs:gp3` and `fsx:125` are one GiB of it.
    """
    is_plain = all(of.get(name, value) == value for name, value in PLAIN_HOURS.items())
    if "instanceType" in of and is_plain:
        return of["instanceType"], "Hrs", 1

    # Storage is told by its usage type, as attributes of it differ by service.
    stored = _STORAGE.fullmatch(of.get("usagetype", ""))
    if stored and stored["volume"]:
        return f"ebs:{stored['volume']}", "GB-Mo", _HOURS_A_MONTH
    if stored and str(of.get("operation", "")).endswith(":Lustre"):
        return f"fsx:{stored['tier']}", "GB-Mo", _HOURS_A_MONTH
    return "", "", 1


PLAIN_HOURS = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
"""Attributes of an hour on demand.

Without `marketoption` the list gives Capacity Block rows at $0.00.
"""
_STORAGE = re.compile(
    r"(?:[A-Z0-9]+-)?(?:EBS:VolumeUsage\.(?P<volume>\w+)|Storage\.SSD\.(?P<tier>\d+))"
)
"""Usage types of storage, as on the bill (`USW2-EBS:VolumeUsage.gp3`, `USE1-Storage.SSD.125`)."""
_HOURS_A_MONTH = 730


def spot(pages: Pages, answer: ResponseInfo) -> tuple[SpotChange, ...]:
    """Translate DescribeSpotPriceHistory, Linux only."""
    return tuple(
        (
            time,
            Price(
                str(x["InstanceType"]),
                _usd(x["SpotPrice"]),
                Market.SPOT,
                Basis.SPOT,
                region=answer.region,
                asof=time.date(),
                source="EC2 spot price history",
                zone=str(x.get("AvailabilityZone", "")),
            ),
        )
        for x in members(pages, "SpotPriceHistory")
        if x.get("ProductDescription", LINUX[0]) in LINUX
        for time in [required(x["Timestamp"], "Timestamp")]
    )


def capacity_blocks(pages: Pages, answer: ResponseInfo) -> tuple[Price, ...]:
    """Translate DescribeCapacityBlockOfferings.

    The upfront fee over instances and hours, the cheapest of each zone.
    """
    offers = [
        Price(
            str(x["InstanceType"]),
            _usd(x["UpfrontFee"])
            / (int(x["InstanceCount"]) * int(x["CapacityBlockDurationHours"])),
            Market.CAPACITY_BLOCK,
            Basis.CAPACITY_BLOCK,
            region=answer.region,
            asof=answer.at.date(),
            source=f"EC2 Capacity Block offering, {x['CapacityBlockDurationHours']} h",
            zone=str(x.get("AvailabilityZone", "")),
        )
        for x in members(pages, "CapacityBlockOfferings")
    ]
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


ANY_OF = "+"
"""Joins the types of a request for placement scores in the name of its answer."""
FEWEST_TYPES = 3
"""Asked with one or two types EC2 always scores low: none is shown.

EC2 API reference, GetSpotPlacementScores, 2026-11.
"""


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


def interruptions(pages: Pages, answer: ResponseInfo) -> tuple[Interruption, ...]:
    """Translate the advisor's file: `spot_advisor[region][Linux][type] = {s: savings %, r}`.

    `r` is an index into its ranges.
    """
    (page,) = pages
    bands = {int(x["index"]): str(x["label"]) for x in page["ranges"]}
    return tuple(
        Interruption(
            str(name), str(region), bands[int(band["r"])], float(band["s"]) / 100, answer.at
        )
        for region, systems in sorted(page["spot_advisor"].items())
        for name, band in systems.get("Linux", {}).items()
    )


_ANSWERS: Mapping[Translation, tuple[str, str]] = {
    listed: ("pricing", "get_products"),
    capacity_blocks: ("ec2", "describe_capacity_block_offerings"),
    spot: ("ec2", "describe_spot_price_history"),
    placement_scores: ("ec2", "get_spot_placement_scores"),
    interruptions: (ADVISOR_SERVICE, ADVISOR_OPERATION),
    savings_plans: ("savingsplans", "describe_savings_plans_offering_rates"),
    reserved: ("ec2", "describe_reserved_instances_offerings"),
}
"""Which answers each translation is of."""
