"""Quotes of Savings Plans and reserved instances: from recorded answers of AWS to `capacity`, beside the account's own hours."""

import csv
import json
from datetime import timedelta
from decimal import Decimal

import pytest

from adapters.aws.api.responses import RecordedResponses
from adapters.aws.files import Problems
from adapters.aws.inventory.snapshots import commitment_ends
from adapters.billing.bill import open_billing
from adapters.simulator.offers import reserved_offerings, savings_plan_rates
from adapters.simulator.scenario import SCENARIOS
from bot.answers.plan.capacity import capacity
from bot.cards.card import Table, Text
from bot.knowledge import load_knowledge
from bot.model.notification import State
from bot.model.price import Payment
from bot.model.request import Request, User
from tests.aws_live.serialize import validated
from tests.belonging import MEMBER
from tests.builders import ports_over

KIND, YEAR = "trn1.32xlarge", 365 * 86_400
PLAN_CALL = "savingsplans/describe_savings_plans_offering_rates/us-east-1/20261117T120000Z.json"
RESERVED_CALL = "ec2/describe_reserved_instances_offerings/us-west-2/20261117T120000Z.json"


class Nothing:
    """A store that remembers nothing."""

    def load(self, now):
        return State()

    def versions(self, most):
        return ()


def rate(usd, years=1, payment="No Upfront", plan="EC2Instance", usage="USW2-BoxUsage:", **more):
    of = {
        "region": "us-west-2",
        "instanceType": KIND,
        "productDescription": "Linux/UNIX",
        "tenancy": "shared",
        **more,
    }
    offering = {"offeringId": "0f0f0f0f-0000-4000-8000-000000000000", "paymentOption": payment, "planType": plan,
                "durationSeconds": years * YEAR, "currency": "USD"}  # fmt: skip
    return {"savingsPlanOffering": offering, "rate": usd, "unit": "Hrs", "productType": "EC2", "serviceCode": "AmazonEC2",
            "usageType": usage + KIND, "operation": "RunInstances",
            "properties": [{"name": name, "value": value} for name, value in of.items()]}  # fmt: skip


def offering(fixed, hourly, years=1, payment="Partial Upfront", **more):
    return {"ReservedInstancesOfferingId": "r-1", "InstanceType": KIND, "InstanceTenancy": "default", "OfferingClass": "standard",
            "OfferingType": payment, "ProductDescription": "Linux/UNIX", "Duration": years * YEAR, "FixedPrice": fixed,
            "UsagePrice": 0.0, "Marketplace": False, "RecurringCharges": [{"Amount": hourly, "Frequency": "Hourly"}],
            **more}  # fmt: skip


@pytest.fixture
def ask(build, at, tmp_path):
    """Return the answer to `capacity` over recorded offers, an on-demand price of $20, and three nodes of a bill."""
    build.node("node_neuroncore_utilization", {m: (32, m) for m in range(120)})
    (tmp_path / "bill").mkdir()

    async def answer(rates=(), reserved=(), hours=(), instance_type=KIND, **arguments):
        if rates:
            pages = validated(
                "savingsplans", "DescribeSavingsPlansOfferingRates", {"searchResults": list(rates)}
            )
            build.api(PLAN_CALL, json.dumps(pages))
        if reserved:
            pages = validated(
                "ec2",
                "DescribeReservedInstancesOfferings",
                {"ReservedInstancesOfferings": list(reserved)},
            )
            build.api(RESERVED_CALL, json.dumps(pages))
        if hours:
            write_bill(tmp_path / "bill" / "bill.csv", hours)
        seen = build.open()
        ports = ports_over(
            seen, Nothing(), billing=open_billing(tmp_path / "bill"), knowledge=load_knowledge()
        )
        defaults = {"nodes": 1, "days": 14, "used": Decimal(90), "region": ""}
        return await capacity(
            ports,
            Request("capacity", User("u"), at(115), "web", MEMBER),
            instance_type,
            **(defaults | arguments),
        )

    def write_bill(path, hours):
        columns = ["line_item_line_item_type", "line_item_product_code", "line_item_usage_type", "line_item_resource_id",
                   "product_region_code", "line_item_usage_start_date", "line_item_usage_end_date", "line_item_usage_amount",
                   "line_item_unblended_cost", "savings_plan_savings_plan_effective_cost"]  # fmt: skip
        start = at(115).replace(hour=0, minute=0) - timedelta(days=10)
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            # Beside them a node all of whose hours a Savings Plan paid already, and one far away.
            kinds = [
                *(("Usage", running, "", "us-west-2") for running in hours),
                ("SavingsPlanCoveredUsage", 24, "13", "us-west-2"),
                ("Usage", 24, "", "us-east-1"),
            ]
            for day in range(10):
                for node, (kind, running, effective, region) in enumerate(kinds):
                    prefix = {"us-west-2": "USW2", "us-east-1": "USE1"}[region]
                    for hour in range(running):
                        begin = start + timedelta(days=day, hours=hour)
                        writer.writerow([kind, "AmazonEC2", f"{prefix}-BoxUsage:{KIND}", f"i-{node}", region, begin.isoformat(),
                                         (begin + timedelta(hours=1)).isoformat(), "1", "20", effective])  # fmt: skip

    return answer


def offers(card):
    return {(x["plan"], x["years"], x["payment"]): x for x in card.data["commitments"]["offers"]}


async def test_a_savings_plan_costs_its_rate_and_what_is_paid_upfront_is_part_of_it(ask):
    every = [rate("13.5", payment="No Upfront"), rate("13.0", payment="Partial Upfront"), rate("9.0", 3, "All Upfront"),
             rate("15.0", plan="Compute")]  # fmt: skip
    found = offers(await ask(every, nodes=2))
    assert {(key, x["usd_per_hour"], x["upfront_usd"]) for key, x in found.items()} == {
        (("EC2 Instance Savings Plan", 1, "no upfront"), Decimal("13.5"), 0),
        (("EC2 Instance Savings Plan", 1, "partial upfront"), 13, 2 * 13 * 4380),
        (("EC2 Instance Savings Plan", 3, "all upfront"), 9, 2 * 9 * 26280),
        (("Compute Savings Plan", 1, "no upfront"), 15, 0),
    }
    assert {(x["source"], f"{x['asof']}") for x in found.values()} == {
        ("Savings Plans offering rates", "2026-11-17")
    }


async def test_rates_of_other_systems_and_of_hours_that_do_not_run_are_no_quotes(ask):
    others = [rate("1", productDescription="Windows"), rate("1", tenancy="dedicated"), rate("1", usage="USW2-UnusedBox:"),
              rate("1", plan="SageMaker")]  # fmt: skip
    assert offers(await ask([*others, rate("13.5")])).keys() == {
        ("EC2 Instance Savings Plan", 1, "no upfront")
    }


async def test_a_reserved_instance_spreads_its_fee_over_the_term(ask):
    every = [
        offering(43_800.0, 5.0),
        offering(1.0, 0.0, Marketplace=True),
        offering(262_800.0, 0.0, 3, "All Upfront"),
    ]
    found = offers(await ask(reserved=every))
    assert {(key, x["usd_per_hour"], x["upfront_usd"]) for key, x in found.items()} == {
        (("standard reserved instance", 1, "partial upfront"), 10, 43_800),
        (("standard reserved instance", 3, "all upfront"), 10, 262_800),
    }


async def test_a_commitment_breaks_even_where_on_demand_hours_cost_as_much(ask):
    card = await ask([rate("13.5"), rate("21.0", plan="Compute")], hours=(24,))
    found = offers(card)
    assert card.data["commitments"]["on_demand_usd_per_hour"] == 20
    one = found["EC2 Instance Savings Plan", 1, "no upfront"]
    assert (one["breakeven_hours"], one["term_hours"], one["off_ratio"]) == (
        5913,
        8760,
        Decimal("0.325"),
    )
    assert (
        found["Compute Savings Plan", 1, "no upfront"]["breakeven_hours"] is None
    )  # dearer than on demand


async def test_a_commitment_is_held_against_the_hours_that_the_account_paid_on_demand(ask):
    # One node ran all day, a second one for 12 hours; three are asked for. The bill's last two days have not settled.
    card = await ask([rate("13.5")], hours=(24, 12), nodes=3)
    lately, one = card.data["commitments"]["used_lately"], card.data["commitments"]["offers"][0]
    days = (lately["until"] - lately["since"]).days
    assert days in (7, 8)
    assert lately["ratio"] == Decimal("0.5")
    assert one["saved_usd"] == days * (36 * 20 - 3 * 24 * Decimal("13.5"))
    said = [str(block.spans[0]) for block in card.blocks if isinstance(block, Text) and block.spans]
    assert any("would have used 50 % of a commitment to 3 nodes" in words for words in said)
    (table,) = (
        block
        for block in card.blocks
        if isinstance(block, Table) and "Commitments" in block.caption
    )
    assert table.rows[0][:6] == (
        "EC2 Instance Savings Plan",
        "1",
        "none",
        "$13.50",
        "32 %",
        "5,913 h",
    )


async def test_without_quotes_the_answer_says_so(ask):
    card = await ask(hours=(24,))
    assert card.data["commitments"]["offers"] == []
    assert any(
        "No offer of a new Savings Plan or reserved instance is known" in str(block)
        for block in card.blocks
    )


async def test_without_a_bill_nothing_is_said_of_the_accounts_own_hours(ask):
    card = await ask([rate("13.5")])
    (one,) = card.data["commitments"]["offers"]
    assert (card.data["commitments"]["used_lately"], one["saved_usd"]) == (None, None)
    assert any("no bill shows the hours" in str(block) for block in card.blocks)


def test_a_garbled_offer_is_reported(build, at):
    build.node("node_neuroncore_utilization", {m: (32, m) for m in range(120)})
    build.api(PLAN_CALL, {"searchResults": [{"rate": "1"}]})
    build.api(
        RESERVED_CALL,
        json.dumps(
            {"ReservedInstancesOfferings": [offering(1.0, 1.0, payment="Light Utilization")]}
        ),
    )
    opened = build.open()
    assert opened.commitment_offers(KIND, at(90)) == ()
    assert len(opened.problems()) == 2


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_the_simulators_offers_are_ones_that_aws_could_give(name):
    clusters = SCENARIOS[name]().clusters if callable(SCENARIOS[name]) else SCENARIOS[name].clusters
    rates = validated(
        "savingsplans", "DescribeSavingsPlansOfferingRates", savings_plan_rates(clusters)
    )
    found = validated("ec2", "DescribeReservedInstancesOfferings", reserved_offerings(clusters))
    assert len(rates["searchResults"]) == len(found["ReservedInstancesOfferings"])
    assert {x["savingsPlanOffering"]["paymentOption"].lower() for x in rates["searchResults"]} <= {
        x.value for x in Payment
    }


def test_a_plan_that_has_begun_ends_when_its_account_says_so_and_the_newest_answer_counts(tmp_path):
    def answer(**ends):
        plans = [
            {
                "savingsPlanArn": f"arn:aws:savingsplans::1:savingsplan/{name}",
                "end": end,
                "state": state,
            }
            for name, (end, state) in ends.items()
        ]
        return json.dumps(
            validated("savingsplans", "DescribeSavingsPlans", {"savingsPlans": plans})
        )

    calls = tmp_path / "savingsplans" / "describe_savings_plans" / "us-east-1"
    calls.mkdir(parents=True)
    (calls / "20261116T120000Z.json").write_text(
        answer(
            old=("2026-11-16T18:00:00.000Z", "active"), p1=("2027-02-01T00:00:00.000Z", "active")
        )
    )
    (calls / "20261117T120000Z.json").write_text(
        answer(
            p1=("2027-03-01T00:00:00.000Z", "active"), next=("2028-03-01T00:00:00.000Z", "queued")
        )
    )
    ends = commitment_ends(RecordedResponses(tmp_path, Problems()))
    assert {name.rpartition("/")[2]: f"{end:%Y-%m-%d %H}" for name, end in ends.items()} == {
        "old": "2026-11-16 18",
        "p1": "2027-03-01 00",
    }
