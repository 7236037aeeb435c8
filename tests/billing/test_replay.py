"""What a replay may know: deltas and rates see a row only after its usage end plus the lag."""

import os
from datetime import timedelta
from decimal import Decimal

import numpy as np
import pytest

from bot.costs.pricing import billed_rate
from bot.model.fleet import Instance, Market
from bot.model.labels import Labels
from bot.model.price import AccountRates, Basis
from bot.model.window import Window


def spend(bill, now, days=4):
    frame = bill.deltas(now, days).frame("spend")
    return (
        {}
        if frame is None
        else {
            str(t.usage_type): [float(x) for x in row]
            for t, row in zip(frame.things, frame.values[:, :, 0], strict=True)
        }
    )


@pytest.fixture
def bill(exports):
    def at(day, hour, cost, usage):
        return exports.line(
            exports.day + timedelta(days=day, hours=hour), cost, line_item_usage_type=usage
        )

    return exports.bill(
        at(0, 0, "10", "a"),
        at(0, 23, "1", "a"),
        at(1, 5, "12", "a"),
        at(2, 5, "13", "a"),
        at(2, 6, "7", "b"),
    )


def test_days_before_the_export_are_nan_and_absent_things_are_zero(exports, bill):
    found = spend(bill, exports.day + timedelta(days=4))
    np.testing.assert_array_equal(found["a"], [np.nan, 11, 12, 13])
    np.testing.assert_array_equal(found["b"], [np.nan, 0, 0, 7])


def test_the_frame_ends_at_the_last_day_seen(exports, bill):
    reading = bill.deltas(exports.day + timedelta(days=3, hours=23), 4)
    frame = reading.frame("spend")
    assert (frame.end, frame.step) == (exports.day + timedelta(days=2), timedelta(days=1))
    assert [thing.usage_type for thing in frame.things] == ["a"]
    assert reading.now == exports.day + timedelta(days=3, hours=23)


@pytest.mark.parametrize(
    ("hours", "last"), [(47, []), (48, [11]), (71, [11]), (72, [11, 12]), (96, [11, 12, 13])]
)
def test_nothing_is_known_early(exports, bill, hours, last):
    found = spend(bill, exports.day + timedelta(hours=hours)).get("a", [])
    assert [x for x in found if x == x] == last


def test_a_shorter_lag_sees_earlier(exports):
    bill = exports.bill(exports.line(cost="10"), lag=timedelta(hours=1))
    assert spend(bill, exports.day + timedelta(hours=25), 1) == {
        "USW2-BoxUsage:trn1.32xlarge": [10.0]
    }


def test_ticks_of_one_day_share_the_frame(exports, bill):
    one, two = (
        bill.deltas(exports.day + timedelta(days=3, hours=h), 4).frame("spend") for h in (1, 22)
    )
    assert one is two
    assert bill.deltas(exports.day + timedelta(days=4), 4).frame("spend") is not one


def test_a_row_that_ends_later_leaves_its_own_day_open(exports):
    long = exports.line(cost="90", kind="Fee", hours=24 * 20, line_item_usage_type="fee")
    found = spend(
        exports.bill(exports.line(), long, exports.line(exports.day + timedelta(days=1))),
        exports.day + timedelta(days=3),
        2,
    )
    assert found == {"USW2-BoxUsage:trn1.32xlarge": [1.0, 1.0]}


def test_an_empty_bill_has_no_frame(exports):
    bill = exports.bill()
    assert bill.deltas(exports.day, 7).frames == {}
    assert bill.rates(exports.day) == AccountRates()


def test_a_rate_is_amortised_cost_over_hours(exports):
    covered = {"savings_plan_savings_plan_effective_cost": "12"}
    rows = [
        exports.line(exports.day + timedelta(hours=h), "21.5", "SavingsPlanCoveredUsage", **covered)
        for h in range(24)
    ]
    rows += [
        exports.line(exports.day + timedelta(hours=h), "43", line_item_usage_amount="2")
        for h in range(24)
    ]
    rows.append(
        exports.line(cost="6", line_item_usage_type="USW2-SpotUsage:trn1.32xlarge", product={})
    )
    rows.append(exports.line(cost="1", line_item_usage_type="USW2-EBS:VolumeUsage.gp3", product={}))
    found = {
        price.market: price
        for price in exports.bill(*rows).rates(exports.day + timedelta(days=2)).by_type
    }
    assert {market: price.usd_per_hour for market, price in found.items()} == {
        Market.SAVINGS_PLAN: 12, Market.ON_DEMAND: Decimal("21.5"), Market.SPOT: 6,
    }  # fmt: skip
    price = found[Market.SAVINGS_PLAN]
    assert (price.basis, price.region, price.asof) == (
        Basis.BILLED,
        "us-west-2",
        exports.day.date(),
    )
    assert price.source == "CUR 2.0 of 2026-11, 24 instance-hours"


def test_a_rate_is_known_of_each_instance_and_cluster(exports):
    covered = {
        "savings_plan_savings_plan_effective_cost": "12",
        "line_item_resource_id": "i-2",
        "resource_tags": {"user_team": "x"},
    }
    arn = {"line_item_resource_id": "arn:aws:ec2:us-west-2:222222222222:instance/i-3"}
    rows = [
        exports.line(cost="21.5"),
        exports.line(cost="21.5", kind="SavingsPlanCoveredUsage", **covered),
        exports.line(cost="20", **arn),
    ]
    rates = exports.bill(*rows).rates(exports.day + timedelta(days=2))
    assert {name: [price.usd_per_hour for price in own] for name, own in rates.by_instance.items()} == {
        "i-1": [Decimal("21.5")], "i-2": [12], "i-3": [20],
    }  # fmt: skip
    assert {
        name: [price.usd_per_hour for price in own] for name, own in rates.by_cluster.items()
    } == {"llama": [Decimal("20.75")]}
    assert rates.by_instance["i-2"][0].market is Market.SAVINGS_PLAN


@pytest.mark.parametrize("product", [{}, {"instance_type": "ml.trn1.32xlarge"}])
def test_an_hour_of_a_hyperpod_node_has_the_rate_of_its_own_lines(exports, product):
    hyperpod = exports.line(
        cost="24.8",
        line_item_usage_type="USW2-Cluster:ml.trn1.32xlarge",
        line_item_product_code="AmazonSageMaker",
        line_item_operation="RunInstance",
        line_item_resource_id="arn:aws:sagemaker:us-west-2:222222222222:cluster/abc",
        product={"region": "us-west-2"} | product,
    )
    rates = exports.bill(hyperpod, exports.line(cost="21.5")).rates(exports.day + timedelta(days=2))
    assert {x.instance_type: x.usd_per_hour for x in rates.by_type} == {
        "ml.trn1.32xlarge": Decimal("24.8"),
        "trn1.32xlarge": Decimal("21.5"),
    }


@pytest.mark.parametrize("product", [{}, {"instance_type": "ml.trn1.32xlarge-Training"}])
def test_an_hour_of_a_training_job_has_the_rate_of_its_own_lines(exports, product):
    job = exports.line(
        cost="24.7",
        line_item_usage_type="USW2-Train:ml.trn1.32xlarge",
        line_item_product_code="AmazonSageMaker",
        line_item_operation="RunInstance",
        line_item_resource_id="arn:aws:sagemaker:us-west-2:222222222222:training-job/llama-7b",
        product={"region": "us-west-2"} | product,
    )
    rates = exports.bill(job).rates(exports.day + timedelta(days=2))
    labels = Labels(
        job="llama-7b",
        instance="llama-7b/algo-2",
        instance_type="ml.trn1.32xlarge",
        region="us-west-2",
    )
    price = billed_rate(rates, Instance(labels, exports.day, "running"))
    assert (price.usd_per_hour, price.instance_type) == (Decimal("24.7"), "ml.trn1.32xlarge")


@pytest.mark.parametrize(("days", "known"), [(1, False), (2, True), (8, True), (9, False)])
def test_a_rate_needs_seen_hours_of_the_last_week(exports, days, known):
    bill = exports.bill(exports.line(cost="21.5"))
    assert bool(bill.rates(exports.day + timedelta(days=days)).by_type) is known


def hours(bill, now):
    frame = bill.deltas(now, 4).frame("spend_hour")
    return (
        None
        if frame is None
        else (
            frame.end,
            {t.usage_type: frame.values[i, -3:, 0].tolist() for i, t in enumerate(frame.things)},
        )
    )


def test_hours_are_seen_an_hour_at_a_time(exports):
    at = lambda h, cost, **more: exports.line(exports.day + timedelta(hours=h), cost, **more)  # noqa: E731
    bill = exports.bill(*(at(h, str(10 + h)) for h in range(48)))
    usage = "USW2-BoxUsage:trn1.32xlarge"
    assert hours(bill, exports.day + timedelta(hours=60, minutes=59)) == (
        exports.day + timedelta(hours=36),
        {usage: [43, 44, 45]},
    )
    assert hours(bill, exports.day + timedelta(hours=61))[1] == {usage: [44, 45, 46]}


def test_what_is_billed_by_the_day_has_no_hours(exports):
    assert (
        hours(exports.bill(exports.line(cost="90", hours=24)), exports.day + timedelta(days=3))
        is None
    )


def test_hours_without_any_row_are_nan(exports):
    bill = exports.bill(
        *(exports.line(exports.day + timedelta(hours=h), str(10 + h)) for h in (0, 24, 26))
    )
    _, found = hours(bill, exports.day + timedelta(hours=51))
    np.testing.assert_array_equal(found["USW2-BoxUsage:trn1.32xlarge"], [34, np.nan, 36])


def test_things_carry_their_tags(exports):
    tags = {
        "resource_tags": {
            "user_team": "vision",
            "user_project": "rank",
            "aws_eks_cluster_name": "ada",
        }
    }
    frame = (
        exports.bill(exports.line(cost="10", **tags), exports.line(cost="7"))
        .deltas(exports.day + timedelta(days=2), 1)
        .frame("spend")
    )
    assert sorted(
        (t.team, t.project, t.cluster, float(v[0, 0]))
        for t, v in zip(frame.things, frame.values, strict=True)
    ) == [
        ("search", "", "llama", 7.0),
        ("vision", "rank", "ada", 10.0),
    ]


def test_a_rewritten_file_is_in_every_answer_that_was_kept(exports):
    now, monday = exports.day + timedelta(days=9), exports.day
    bill = exports.bill(*(exports.line(monday + timedelta(hours=h), "10") for h in range(3)))
    for cost in (10, 14):
        path = exports.put(
            "bill.csv", [exports.line(monday + timedelta(hours=h), str(cost)) for h in range(3)]
        )
        stat = path.stat()
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + cost * 10**9))
        reading = bill.deltas(now, 9)
        assert np.nansum(reading.frame("spend").values[:, :, 0]) == 3 * cost
        assert np.nansum(reading.frame("spend_hour").values) == 3 * cost
        assert [
            price.usd_per_hour for price in bill.rates(exports.day + timedelta(days=4)).by_type
        ] == [cost]


def test_a_credit_makes_no_day_cheaper(exports):
    credit = exports.line(exports.day, "-4", "Credit")
    bill = exports.bill(
        exports.line(cost="10"), credit, exports.line(exports.day + timedelta(days=1))
    )
    frame = bill.deltas(exports.day + timedelta(days=4), 4).frame("spend")
    assert np.nansum(frame.values, axis=(0, 1)).tolist() == [11.0, 11.0], (
        "amortised, and as billed before credits"
    )


@pytest.mark.parametrize(("hours", "estimated"), [(47, True), (48, False), (49, False)])
def test_the_newest_two_days_are_estimates(exports, hours, estimated):
    newest = exports.day + timedelta(days=5)
    young = newest - timedelta(hours=hours + 1)  # ends so many hours before the newest row's end
    bill = exports.bill(
        exports.line(young, bill_invoice_id="1"),
        exports.line(newest - timedelta(hours=1), line_item_resource_id="i-2"),
    )
    rows = {
        row.key["resource"]: row.estimated
        for row in bill.tally(Window(exports.day, newest), ("resource",)).rows
    }
    assert rows == {"i-1": estimated, "i-2": True}
