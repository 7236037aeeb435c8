"""What is committed and not used stands apart, whatever form the export has."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from bot.model.causes import Cause
from bot.model.spend import Filter
from bot.model.window import Window
from bot.policy.schema import default_policy
from detectors import Detector

START = datetime(2026, 11, 2, tzinfo=UTC)
DAYS = 12
WHOLE = Window(START, START + timedelta(days=DAYS))
PLAN = "arn:aws:savingsplans::1:savingsplan/p1"


def focus(
    at,
    category,
    billed,
    effective,
    status="",
    meter="USW2-BoxUsage:trn1.32xlarge",
    code="AmazonEC2",
    of=PLAN,
    kind="Savings Plan",
):
    """Return one row of FOCUS 1.2 about a day under a commitment."""
    return {
        "BillingAccountId": "1", "SubAccountId": "2", "BillingCurrency": "USD", "BillingPeriodStart": "2026-11-01T00:00:00Z",
        "ChargePeriodStart": f"{at:%Y-%m-%dT%H:%M:%SZ}", "ChargePeriodEnd": f"{at + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}",
        "ServiceName": code, "x_ServiceCode": code, "RegionId": "us-west-2", "ResourceId": "", "ChargeClass": "",
        "ChargeDescription": "", "PricingCategory": "Committed", "ConsumedQuantity": "24", "ConsumedUnit": "Hours",
        "ChargeCategory": category, "BilledCost": billed, "EffectiveCost": effective, "InvoiceId": "", "SkuMeter": meter,
        "CommitmentDiscountId": of, "CommitmentDiscountType": kind, "CommitmentDiscountStatus": status,
        "CommitmentDiscountCategory": "Spend" if kind == "Savings Plan" else "Usage",
    }  # fmt: skip


def plan_day(at):
    """A Savings Plan of $360 a day, of which usage took $120; the unused part says neither the fee's service nor its meter."""
    return [focus(at, "Purchase", "360", "0", meter="ComputeSP:1yrNoUpfront", code="ComputeSavingsPlans"),
            focus(at, "Usage", "0", "120", "Used"),
            focus(at, "Usage", "0", "240", "Unused", meter="", code="AmazonEC2")]  # fmt: skip


def reserved_day(at):
    of = {"of": "arn:aws:ec2:us-west-2:1:reserved-instances/r", "kind": "Reserved"}
    return [focus(at, "Purchase", "360", "0", meter="USW2-HeavyUsage:trn1.32xlarge", **of),
            focus(at, "Usage", "0", "120", "Used", **of),
            focus(at, "Usage", "0", "240", "Unused", meter="USW2-UnusedBox:trn1.32xlarge", **of)]  # fmt: skip


def cur_day(exports, at):
    fee = {"line_item_usage_type": "ComputeSP:1yrNoUpfront", "line_item_product_code": "ComputeSavingsPlans",
           "savings_plan_total_commitment_to_date": "360", "savings_plan_used_commitment": "120", "product": {},
           "line_item_resource_id": PLAN}  # fmt: skip
    return [exports.line(at, "360", "SavingsPlanRecurringFee", 24, **fee),
            exports.line(at, "300", "SavingsPlanCoveredUsage", 24, savings_plan_savings_plan_effective_cost="120"),
            exports.line(at, "-300", "SavingsPlanNegation", 24)]  # fmt: skip


@pytest.fixture(params=["FOCUS plan", "FOCUS reserved", "CUR plan"])
def bill(request, exports):
    days = [START + timedelta(days=n) for n in range(DAYS)]
    made = {
        "FOCUS plan": plan_day,
        "FOCUS reserved": reserved_day,
        "CUR plan": lambda at: cur_day(exports, at),
    }[request.param]
    exports.put("bill.csv", [row for day in days for row in made(day)])
    return exports.bill()


def test_unused_commitment_stands_apart(bill):
    lines = {row.key["line"]: row.money for row in bill.tally(WHOLE, ("line",)).rows}
    assert (lines["commitment"].net, lines["commitment"].amortised) == (DAYS * 360, DAYS * 240)
    assert lines["EC2"].amortised == DAYS * 120
    assert bill.tally(WHOLE, (), [Filter("line", ("commitment",))]).total.amortised == Decimal(
        DAYS * 240
    )


def test_days_of_little_use_are_told(bill):
    reading = bill.deltas(WHOLE.end + timedelta(days=1), 45)
    found = [
        x
        for x in Detector()(reading, default_policy(), ()).anomalies
        if x.cause is Cause.COMMITMENT_UNUSED
    ]
    (one,) = found
    assert "33 % of $360 a day was used" in one.why
    assert one.usd_per_hour == 10


def test_a_discount_that_names_its_plan_is_of_the_unused_part_too(exports):
    """The fee's row names its plan in a column of its own, the discount's row as its resource."""
    rows = []
    for day in (START + timedelta(days=n) for n in range(DAYS)):
        fee, covered, negation = cur_day(exports, day)
        of = {"savings_plan_savings_plan_a_r_n": PLAN}
        discount = {**fee, "line_item_line_item_type": "EdpDiscount", "line_item_unblended_cost": "-36",
                    "savings_plan_total_commitment_to_date": "", "savings_plan_used_commitment": ""}  # fmt: skip
        rows += [fee | of, covered | of, negation | of, discount]
    rows = [{"savings_plan_savings_plan_a_r_n": "", **row} for row in rows]
    exports.put("bill.csv", rows)
    bill = exports.bill()
    lines = {row.key["line"]: row.money for row in bill.tally(WHOLE, ("line",)).rows}
    assert (lines["commitment"].net, lines["commitment"].amortised) == (DAYS * 324, DAYS * 216)
    assert lines["EC2"].amortised == DAYS * 108


def test_a_commitment_that_the_bill_does_not_date_ends_as_its_account_says(exports):
    exports.put(
        "bill.csv", [row for n in range(DAYS) for row in plan_day(START + timedelta(days=n))]
    )
    ends = {PLAN: datetime(2027, 3, 1, tzinfo=UTC), "arn of another": START}
    bill = exports.bill(ends=lambda: ends)

    told = {row.key["commitment_ends"] for row in bill.tally(WHOLE, ("commitment_ends",)).rows}
    (rate,) = bill.rates(WHOLE.end + timedelta(days=1)).by_type
    assert (told, rate.lapses) == ({"2027-03-01"}, date(2027, 3, 1))


def test_nobody_is_asked_for_an_end_that_the_bill_says(exports):
    def asked():
        raise AssertionError("the bill says it")

    fee, covered, negation = cur_day(exports, START)
    dated = {
        "savings_plan_savings_plan_a_r_n": PLAN,
        "savings_plan_end_time": "2027-01-31T00:00:00Z",
    }
    exports.put("bill.csv", [x | dated for x in (fee, covered, negation)])
    tally = exports.bill(ends=asked).tally(WHOLE, ("commitment_ends",))
    assert {row.key["commitment_ends"] for row in tally.rows} == {"2027-01-31"}
