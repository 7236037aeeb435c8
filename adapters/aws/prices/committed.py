"""Quote commitments: the rates of Savings Plans, and reserved instances, of one and three years."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from adapters.aws.api.responses import Pages, ResponseInfo, Responses, members, newest_at
from bot.model.price import HOURS_A_YEAR, CommitmentOffer, Payment

_PLANS = {"EC2Instance": "EC2 Instance Savings Plan", "Compute": "Compute Savings Plan"}
_LINUX = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
_UPFRONT = {Payment.NONE: Decimal(0), Payment.PARTIAL: Decimal("0.5"), Payment.ALL: Decimal(1)}
"""Share of a Savings Plan's commitment that is paid at its start (Savings Plans User Guide, Payment options, 2026-11)."""
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
        every = [
            x
            for history in (*self._plans, *self._reserved)
            for x in history[newest_at(history, now)][1]
        ]
        mine = sorted(
            (x for x in every if x.instance_type == instance_type), key=lambda x: x.usd_per_hour
        )
        best: dict[tuple[str, str, int, Payment], CommitmentOffer] = {}
        for offer in mine:
            best.setdefault((offer.region, offer.plan, offer.years, offer.payment), offer)
        return tuple(best.values())


def savings_plans(pages: Pages, answer: ResponseInfo) -> tuple[CommitmentOffer, ...]:
    """Translate DescribeSavingsPlansOfferingRates: Linux, shared tenancy, hours that run.

    A rate is of each hour of the term.
    """
    return tuple(offer for rate in members(pages, "searchResults") for offer in _plan(rate, answer))


def _plan(member: Mapping[str, Any], answer: ResponseInfo) -> Iterator[CommitmentOffer]:
    of = {one["name"]: one["value"] for one in member["properties"]}
    offering = member["savingsPlanOffering"]
    linux = (
        of.get("productDescription", _LINUX[0]) in _LINUX
        and of.get("tenancy", "shared") == "shared"
    )
    runs = (
        "BoxUsage:" in member.get("usageType", "BoxUsage:") and member.get("unit", "Hrs") == "Hrs"
    )
    years, left = divmod(int(offering["durationSeconds"]), _YEAR_SECONDS)
    if not (linux and runs and years and not left) or offering["planType"] not in _PLANS:
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
    years, left = divmod(int(member["Duration"]), _YEAR_SECONDS)
    if not (linux and years and not left) or member.get("Marketplace"):
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
