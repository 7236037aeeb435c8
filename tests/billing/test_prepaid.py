"""What is prepaid costs something in the hours that it buys, not on the day it is paid for; cash stays on its day."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from adapters.billing.bill import BillOptions
from adapters.billing.explorer import open_explorer
from adapters.billing.files import about_of
from bot.model.fleet import Market, Reservation
from bot.model.labels import Labels
from bot.model.spend import Filter
from bot.model.window import Window

BOUGHT = datetime(2026, 10, 13, 9, tzinfo=UTC)
BEGINS = datetime(2026, 10, 13, 12, tzinfo=UTC)
DAYS, NODES = 60, 8
FEE = Decimal("411964.42")
ARN = "arn:aws:ec2:us-east-2:222222222222:capacity-reservation/cr-0ab"
BLOCK = Reservation(
    Labels(resource="cr-0ab", instance_type="trn2.48xlarge", region="us-east-2"),
    NODES,
    0,
    BEGINS,
    BEGINS + timedelta(days=DAYS),
    Market.CAPACITY_BLOCK,
)
TYPE = {
    "product": {"instance_type": "trn2.48xlarge", "region": "us-east-2"},
    "resource_tags": {"user_team": "frontier"},
}
EVER = Window(datetime(2026, 10, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))


def fee(exports, at=BOUGHT, hours=1, cost=str(FEE), resource=ARN, **more):
    return exports.line(at, cost, "Fee", hours, line_item_usage_type="USE2-CapacityBlock:trn2.48xlarge",
                        line_item_resource_id=resource, line_item_line_item_description="Capacity Block fee",
                        **{**TYPE, **more})  # fmt: skip


def hours(exports, nodes, start, end, **more):
    """Return an hour each of the nodes as they are billed in a block: at nothing."""
    words = {
        "line_item_line_item_description": "$0.00 per Capacity Block trn2.48xlarge Instance Hour",
        **TYPE,
    }
    return [
        exports.line(start + timedelta(hours=h), "0", line_item_usage_type="USE2-BoxUsage:trn2.48xlarge",
                     line_item_resource_id=f"i-{n}", **{**words, **more})
        for h in range(int((end - start) / timedelta(hours=1)))
        for n in nodes
    ]  # fmt: skip


def amortised(bill, window=EVER, by=(), *where):
    rows = bill.tally(window, by, where).rows
    return {tuple(row.key.values()): row.money.amortised for row in rows if row.money.amortised}


def test_capacity_block_fee(exports):
    """$411,964 on one day buys 60 days: about $48,000 a week, and an eighth of an hour's share is each node's."""
    through = BEGINS + timedelta(days=21)
    bill = exports.bill(
        fee(exports), *hours(exports, range(NODES), BEGINS, through), blocks=lambda: (BLOCK,)
    )
    week = Window(datetime(2026, 10, 19, tzinfo=UTC), datetime(2026, 10, 26, tzinfo=UTC))
    per_week = FEE * 7 / DAYS
    assert Decimal(48_000) < per_week < Decimal("48_100")
    assert bill.tally(week, ()).total.amortised.quantize(Decimal("0.01")) == per_week.quantize(
        Decimal("0.01")
    )
    assert bill.tally(EVER, ()).total.amortised.quantize(Decimal("0.01")) == (
        FEE * 21 / DAYS
    ).quantize(Decimal("0.01"))
    node_hour = FEE / DAYS / 24 / NODES
    [rate] = bill.rates(through + timedelta(days=2)).by_instance["i-3"]
    assert (rate.market, round(rate.usd_per_hour, 5)) == (
        Market.CAPACITY_BLOCK,
        round(node_hour, 5),
    )
    assert list(bill.problems()) == []


def test_cash_stays_on_its_day(exports, keyed):
    bill = exports.bill(
        fee(exports),
        *hours(exports, range(NODES), BEGINS, BEGINS + timedelta(days=2)),
        blocks=lambda: (BLOCK,),
    )
    nets = keyed(bill.tally(EVER, ("day",)))
    assert nets[("2026-10-13",)] == str(FEE)
    assert {cash for day, cash in nets.items() if day != ("2026-10-13",)} == {"0.00"}
    only = Window(BOUGHT, BOUGHT + timedelta(hours=1))
    assert (bill.tally(only, ()).total.net, bill.tally(only, ()).total.amortised) == (FEE, 0)


def test_over_the_whole_block_the_fee_is_spread_to_the_last_digit(exports):
    begins = datetime(2026, 10, 13, 11, 30, tzinfo=UTC)
    block = replace(BLOCK, starts_at=begins, ends_at=begins + timedelta(days=7), total=3)
    floor, ends = begins.replace(minute=0), begins + timedelta(days=7)
    odd = fee(exports, cost="10000.01")
    bill = exports.bill(
        odd,
        *hours(exports, range(2), floor + timedelta(hours=1), ends + timedelta(days=2)),
        blocks=lambda: (block,),
    )
    total = bill.tally(EVER, ()).total
    assert (total.net, total.amortised) == (Decimal("10000.01"), Decimal("10000.01"))


def test_what_nobody_used_of_it_stands_apart(exports):
    half = BEGINS + timedelta(days=10)
    rows = [
        *hours(exports, range(8), BEGINS, half),
        *hours(exports, range(6), half, BEGINS + timedelta(days=20)),
    ]
    bill = exports.bill(fee(exports), *rows, blocks=lambda: (BLOCK,))
    lines = amortised(bill, EVER, ("line",))
    node_day = FEE / DAYS / NODES
    assert round(lines[("EC2",)], 2) == round(node_day * (80 + 60), 2)
    assert round(lines[("commitment",)], 2) == round(node_day * 20, 2)
    assert round(sum(lines.values()), 6) == round(FEE * 20 / DAYS, 6)
    by_node = amortised(bill, EVER, ("resource",), Filter("line", ("EC2",)))
    assert round(by_node[("i-7",)], 2) == round(node_day * 10, 2)
    [empty] = bill.rates(BEGINS + timedelta(days=22)).by_reservation["cr-0ab"]
    assert round(empty.usd_per_hour, 5) == round(node_day / 24, 5)


def test_the_period_may_stand_in_the_line_itself(exports):
    line = fee(
        exports,
        BEGINS,
        DAYS * 24,
        resource="",
        line_item_usage_amount=str(DAYS * 24 * NODES),
        pricing_unit="Hrs",
    )
    rows = [
        {**row, "pricing_unit": "Hrs"}
        for row in hours(exports, range(4), BEGINS, BEGINS + timedelta(days=6))
    ]
    bill = exports.bill(line, *rows)
    assert {key: round(usd, 2) for key, usd in amortised(bill, EVER, ("line",)).items()} == {
        ("EC2",): round(FEE / 20, 2), ("commitment",): round(FEE / 20, 2)}  # fmt: skip


def test_hours_that_carry_its_reservation_say_what_a_fee_bought(exports):
    """Without an answer of the API: the block is over, and its hours name it."""
    ends = BEGINS + timedelta(days=14)
    held = hours(exports, range(8), BEGINS, ends, capacity_reservation_capacity_reservation_arn=ARN)
    later = exports.line(ends + timedelta(days=3), "21.5", line_item_resource_id="i-plain",
                         capacity_reservation_capacity_reservation_arn="")  # fmt: skip
    bought = fee(exports, capacity_reservation_capacity_reservation_arn=ARN)
    bill = exports.bill(bought, *held, later)
    assert not bill.problems()
    by_day = amortised(bill, EVER, ("day",), Filter("purchase", ("capacity-block",)))
    assert sum(by_day.values()) == FEE
    assert round(by_day[("2026-10-20",)], 2) == round(FEE / 14, 2)
    going_on = exports.bill(bought, *held)
    assert amortised(going_on, EVER, ("day",)) == {("2026-10-13",): FEE}


def test_a_fee_whose_hours_nobody_says_is_named(exports):
    bill = exports.bill(
        fee(exports, resource=""), *hours(exports, range(8), BEGINS, BEGINS + timedelta(days=2))
    )
    assert amortised(bill, EVER, ("day",)) == {("2026-10-13",): FEE}
    [sentence] = bill.problems()
    assert "The fee of $411,964 on Oct 13, 2026" in sentence
    assert "is counted on its day" in sentence


def test_a_fee_of_a_block_that_nobody_tells_of_any_more_stays_on_its_day(exports):
    """Blocks one after the other, whose lines name none of them; EC2 tells of the newest alone."""
    starts = [BEGINS + timedelta(days=n) for n in (0, 20, 40)]
    rows = [fee(exports, at, cost="700", resource="") for at in starts]
    used = hours(exports, range(8), starts[0], starts[2] + timedelta(days=7))
    last = replace(BLOCK, starts_at=starts[2], ends_at=starts[2] + timedelta(days=7))
    bill = exports.bill(*rows, *used, blocks=lambda: (last,))
    by_day = amortised(bill, EVER, ("day",))
    assert [by_day[(f"{at:%Y-%m-%d}",)] for at in starts] == [700, 700, 50]
    assert sum(by_day.values()) == 2100


def test_a_block_that_was_bought_after_a_fee_is_not_what_it_paid(exports):
    """The fee of the next block is billed once it begins."""
    bought_at = BEGINS + timedelta(days=10)
    coming = replace(BLOCK, starts_at=bought_at + timedelta(days=3), bought_at=bought_at)
    rows = [fee(exports, BEGINS, resource=""), *hours(exports, [1], BEGINS, bought_at)]
    bill = exports.bill(*rows, blocks=lambda: (coming,))
    assert amortised(bill, EVER, ("day",)) == {(f"{BEGINS:%Y-%m-%d}",): FEE}


def test_cost_explorer_says_what_it_cannot_spread(tmp_path):
    """Its answers name neither hours nor instances of a Capacity Block."""
    keys = ["Amazon Elastic Compute Cloud - Compute", "USE2-CapacityBlock:trn2.48xlarge"]
    cost = {
        name: {"Amount": str(FEE), "Unit": "USD"} for name in ("UnblendedCost", "AmortizedCost")
    }
    page = {
        "GroupDefinitions": [
            {"Type": "DIMENSION", "Key": key} for key in ("SERVICE", "USAGE_TYPE")
        ],
        "ResultsByTime": [
            {
                "TimePeriod": {"Start": "2026-10-13", "End": "2026-10-14"},
                "Groups": [{"Keys": keys, "Metrics": cost}],
            }
        ],
    }
    top = {
        "GroupDefinitions": [
            {"Type": "DIMENSION", "Key": key} for key in ("LINKED_ACCOUNT", "RECORD_TYPE")
        ],
        "ResultsByTime": [],
    }
    folder = tmp_path / "api" / "ce" / "get_cost_and_usage" / "us-east-1"
    folder.mkdir(parents=True)
    for about, answer in (("accounts", top), (about_of("222222222222", "us-east-2", "Fee"), page)):
        (folder / f"20261101T000000Z.{about}.json").write_text(json.dumps([answer]))
    bill = open_explorer(tmp_path, BillOptions(blocks=lambda: (BLOCK,)))
    total = bill.tally(EVER, ()).total
    [sentence] = bill.problems()
    bill.close()
    assert (total.net, total.amortised) == (FEE, FEE)
    assert "is counted on its day" in sentence
    assert "Cost Explorer names neither" in sentence


def test_a_reservation_that_becomes_known_later_spreads_it(exports):
    known: list[Reservation] = []
    rows = [fee(exports), *hours(exports, range(8), BEGINS, BEGINS + timedelta(days=2))]
    bill = exports.bill(*rows, blocks=lambda: tuple(known))
    assert bill.tally(EVER, ()).total.amortised == FEE
    known.append(BLOCK)
    assert round(bill.tally(EVER, ()).total.amortised, 2) == round(FEE / 30, 2)
    assert list(bill.problems()) == []


def test_two_blocks_at_a_time_keep_their_own_prices(exports):
    other = ARN.replace("0ab", "0cd")
    blocks = (
        replace(BLOCK, total=1),
        replace(BLOCK, labels=replace(BLOCK.labels, resource="cr-0cd"), total=1),
    )
    column = "capacity_reservation_capacity_reservation_arn"
    rows = [
        fee(exports, cost="1440", **{column: ARN}),
        fee(exports, cost="14400", resource=other, **{column: other}),
    ]
    end = BEGINS + timedelta(days=3)
    rows += [
        *hours(exports, [1], BEGINS, end, **{column: ARN}),
        *hours(exports, [2], BEGINS, end, **{column: other}),
    ]
    bill = exports.bill(*rows, blocks=lambda: blocks)
    assert amortised(bill, EVER, ("resource",)) == {("i-1",): Decimal(72), ("i-2",): Decimal(720)}


def focus(at, until, category, billed, effective, resource="i-1", quantity="1", status=""):
    usage = category == "Usage"
    return {
        "BillingAccountId": "1", "SubAccountId": "2", "BillingCurrency": "USD", "BillingPeriodStart": "2026-10-01T00:00:00Z",
        "ChargePeriodStart": f"{at:%Y-%m-%dT%H:%M:%SZ}", "ChargePeriodEnd": f"{until:%Y-%m-%dT%H:%M:%SZ}",
        "ServiceName": "Amazon Elastic Compute Cloud", "x_ServiceCode": "AmazonEC2", "RegionId": "us-east-2",
        "ResourceId": resource, "ChargeClass": "", "ChargeDescription": "Capacity Block trn2.48xlarge", "PricingCategory": "Other",
        "ConsumedQuantity": quantity, "ConsumedUnit": "Hours", "ChargeCategory": category, "BilledCost": billed,
        "EffectiveCost": effective, "InvoiceId": "", "SkuPriceDetails": '{"InstanceType": "trn2.48xlarge"}',
        "SkuMeter": "USE2-BoxUsage:trn2.48xlarge" if usage else "USE2-CapacityBlock:trn2.48xlarge",
        "CapacityReservationId": ARN, "CapacityReservationStatus": status,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fee_effective", "hour_effective"),
    [("0", "100"), ("0", "0"), ("72000", "0")],
    ids=[
        "the export has spread it already",
        "the export has spread it nowhere",
        "the export leaves it on its day",
    ],
)
def test_focus_is_never_spread_twice(exports, fee_effective, hour_effective):
    """One node for 30 days at $72,000: $100 an hour, whichever way the export states it."""
    block = replace(BLOCK, total=1, ends_at=BEGINS + timedelta(days=30))
    rows = [
        focus(BOUGHT, BOUGHT + timedelta(hours=1), "Purchase", "72000", fee_effective, ARN, "720")
    ]
    for h in range(48):
        at = BEGINS + timedelta(hours=h)
        rows.append(focus(at, at + timedelta(hours=1), "Usage", "0", hour_effective, status="Used"))
    bill = exports.bill(*rows, blocks=lambda: (block,))
    total = bill.tally(EVER, ()).total
    assert (total.net, total.amortised) == (Decimal(72000), Decimal(4800))
    assert amortised(bill, EVER, ("resource",)) == {("i-1",): Decimal(4800)}


def test_a_capacity_block_divided_among_pods_keeps_its_sum(exports):
    rows = [fee(exports), *hours(exports, range(8), BEGINS, BEGINS + timedelta(days=1))]
    pod = {"line_item_usage_type": "USE2-EKS-EC2-vCPU-Hours", "line_item_operation": "EKSPod-EC2",
           "split_line_item_parent_resource_id": "i-1", "split_line_item_split_usage_ratio": "0.25",
           "line_item_resource_id": "arn:aws:eks:us-east-2:2:pod/llama/prod/worker/9", **TYPE}  # fmt: skip
    rows += [exports.line(BEGINS + timedelta(hours=h), "", **pod) for h in range(24)]
    bill = exports.bill(*rows, blocks=lambda: (BLOCK,))
    pods = amortised(bill, EVER, ("pod",))
    assert round(pods[("worker",)], 4) == round(FEE / DAYS / NODES / 4, 4)
    assert round(sum(pods.values()), 6) == round(FEE / DAYS, 6)
