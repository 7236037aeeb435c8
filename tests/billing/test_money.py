"""The MONEY table: which amount of a row counts as what."""

from dataclasses import astuple
from decimal import Decimal

import pytest

D = Decimal
SP = {
    "savings_plan_savings_plan_effective_cost": "12.5",
    "savings_plan_total_commitment_to_date": "15",
    "savings_plan_used_commitment": "12.5",
}
RI = {
    "reservation_effective_cost": "9.25",
    "reservation_reservation_a_r_n": "arn:aws:ec2:us-west-2:1:reserved-instances/x",
    "reservation_unused_amortized_upfront_fee_for_billing_period": "0.5",
    "reservation_unused_recurring_fee": "0.25",
}


@pytest.mark.parametrize(
    ("kind", "cost", "more", "expected"),
    [
        # line item type, unblended, columns, (gross, discounts, credits, tax, net, amortised)
        ("Usage", "21.5", {}, (21.5, 0, 0, 0, 21.5, 21.5)),
        ("Fee", "100", {}, (100, 0, 0, 0, 100, 100)),
        ("Fee", "100", RI, (100, 0, 0, 0, 100, 0)),
        ("EdpDiscount", "-3", {}, (0, -3, 0, 0, -3, -3)),
        ("BundledDiscount", "-1", {}, (0, -1, 0, 0, -1, -1)),
        ("PrivateRateDiscount", "-1", {}, (0, -1, 0, 0, -1, -1)),
        ("SppDiscount", "-1", {}, (0, -1, 0, 0, -1, -1)),
        ("Credit", "-5", {}, (0, 0, -5, 0, -5, 0)),
        ("Refund", "-7", {}, (0, 0, -7, 0, -7, 0)),
        ("Tax", "2.1", {}, (0, 0, 0, 2.1, 2.1, 0)),
        ("SavingsPlanCoveredUsage", "21.5", SP, (0, 0, 0, 0, 0, 12.5)),
        ("SavingsPlanNegation", "-21.5", SP, (0, 0, 0, 0, 0, 0)),
        ("SavingsPlanRecurringFee", "15", SP, (15, 0, 0, 0, 15, 2.5)),
        ("SavingsPlanUpfrontFee", "900", SP, (900, 0, 0, 0, 900, 0)),
        ("DiscountedUsage", "0", RI, (0, 0, 0, 0, 0, 9.25)),
        ("RIFee", "40", RI, (40, 0, 0, 0, 40, 0.75)),
    ],
)
def test_each_line_item_type_of_a_cur(exports, november, kind, cost, more, expected):
    tally = exports.bill(exports.line(cost=cost, kind=kind, **more)).tally(november, ())
    assert astuple(tally.total) == tuple(D(str(x)) for x in expected)


@pytest.mark.parametrize(
    ("category", "billed", "effective", "more", "expected"),
    [
        ("Usage", "21.5", "12.5", {}, (21.5, 0, 0, 0, 21.5, 12.5)),
        ("Purchase", "900", "0", {}, (900, 0, 0, 0, 900, 0)),
        ("Adjustment", "-3", "-3", {"ChargeDescription": "EDP discount"}, (0, -3, 0, 0, -3, -3)),
        (
            "Adjustment",
            "0.19",
            "0",
            {"ChargeDescription": "Standard - A1 - Memory"},
            (0.19, 0, 0, 0, 0.19, 0),
        ),
        ("Usage", "-4", "-4", {"ChargeClass": "Correction"}, (0, 0, -4, 0, -4, 0)),
        ("Credit", "-5", "-5", {}, (0, 0, -5, 0, -5, 0)),
        ("Tax", "2", "2", {}, (0, 0, 0, 2, 2, 0)),
    ],
)
def test_each_charge_category_of_focus(
    exports, november, category, billed, effective, more, expected
):
    row = exports.focus(ChargeCategory=category, BilledCost=billed, EffectiveCost=effective, **more)
    assert astuple(exports.bill(row).tally(november, ()).total) == tuple(
        D(str(x)) for x in expected
    )


def test_focus_1_2_has_no_usage_type_column(exports, november, keyed):
    sku = {
        "SkuMeter": "BoxUsage",
        "SkuPriceDetails": '{"InstanceType": "trn1.32xlarge"}',
        "CommitmentDiscountType": "Savings Plan",
    }
    row = exports.focus(
        BilledCost="0", EffectiveCost="12.5", InvoiceId="", x_ServiceCode="AmazonEC2", **sku
    )
    tally = exports.bill(row).tally(
        november, ("service", "usage_type", "instance_type", "purchase", "team")
    )
    assert keyed(tally, "amortised") == {
        ("AmazonEC2", "BoxUsage", "trn1.32xlarge", "savings-plan", "search"): "12.50"
    }
    assert tally.sources == ("FOCUS 1.2",)


def test_amounts_stay_exact(exports, november):
    costs = ("0.000000100000001", "1.2E-7", "123456789.123456789", "-0.005")
    bill = exports.bill(*(exports.line(cost=x, line_item_resource_id=x) for x in costs))
    found = bill.tally(november, ("resource",)).rows
    assert {row.key["resource"]: row.money.net for row in found} == {x: D(x) for x in costs}


def test_a_thousand_tenths_are_a_hundred(exports, november):
    exports.put(
        "bill.parquet",
        [exports.line(cost="0.1", line_item_resource_id=f"i-{n}") for n in range(1000)],
    )
    assert str(exports.bill().tally(november, ()).total.net) == "100.00"


def test_unlike_currencies_are_never_added(exports, november):
    from bot.errors import WrongInput
    from bot.model.spend import Filter

    bill = exports.bill(exports.line(), exports.line(line_item_currency_code="CNY", cost="7"))
    with pytest.raises(WrongInput, match="holds CNY and USD"):
        bill.tally(november, ("service",))
    tally = bill.tally(november, ("service",), [Filter("currency", ("CNY",))])
    assert (tally.currency, tally.total.net) == ("CNY", D(7))
