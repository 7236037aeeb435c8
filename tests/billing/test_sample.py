"""A real FOCUS file, grouped in every way, against a straight sum over its rows."""

import csv
import json
import shutil
from collections import defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from adapters.billing.bill import open_billing
from bot.model.spend import Filter
from bot.model.window import Window

SAMPLE = Path(__file__).parents[3] / "shared" / "data" / "billing" / "focus_1.0_sample.csv"
ALL = Window(datetime(2024, 8, 1, tzinfo=UTC), datetime(2024, 12, 1, tzinfo=UTC))
COLUMNS = {
    "account": "SubAccountId",
    "region": "RegionId",
    "zone": "AvailabilityZone",
    "service": "ServiceName",
    "resource": "ResourceId",
}
pytestmark = pytest.mark.skipif(
    not SAMPLE.exists(), reason="the FOCUS sample is not beside the repository"
)


@pytest.fixture(scope="module")
def rows():
    with SAMPLE.open(newline="") as file:
        return [
            {k: "" if v == "NULL" else v for k, v in row.items()} for row in csv.DictReader(file)
        ]


@pytest.fixture(scope="module")
def bill(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recording")
    (folder / "billing").mkdir()
    shutil.copy(SAMPLE, folder / "billing")
    return open_billing(folder)


def key(row, dimension):
    if dimension.startswith("tag:"):
        return json.loads(row["Tags"] or "{}").get(dimension[4:], "")
    at = row["ChargePeriodStart"]
    return {"day": at[:10], "month": at[:7], "hour": f"{at[:10]}T{at[11:13]}:00:00Z"}.get(
        dimension
    ) or row[COLUMNS[dimension]]


@pytest.mark.parametrize("by", [(), *((d,) for d in (*COLUMNS, "day", "hour", "tag:environment", "tag:application")), ("service", "day"),
                                ("account", "region", "tag:business_unit")])  # fmt: skip
def test_every_grouping_is_the_straight_sum(bill, rows, by):
    expected = defaultdict(lambda: [Decimal(0), Decimal(0)])
    for row in rows:
        sums = expected[tuple(key(row, d) for d in by)]
        sums[0] += Decimal(row["BilledCost"])
        sums[1] += (
            0 if row["ChargeCategory"] in {"Credit", "Tax"} else Decimal(row["EffectiveCost"])
        )
    tally = bill.tally(ALL, by)
    assert {tuple(r.key.values()): [r.money.net, r.money.amortised] for r in tally.rows} == dict(
        expected
    )
    assert tally.total.net == sum(Decimal(row["BilledCost"]) for row in rows)


def test_filters_and_a_window_that_cuts_days(bill, rows):
    window = Window(datetime(2024, 9, 3, 7, tzinfo=UTC), datetime(2024, 9, 20, 15, tzinfo=UTC))
    kept = [
        r
        for r in rows
        if "2024-09-03 07" <= r["ChargePeriodStart"] < "2024-09-20 15"
        and r["RegionId"] in {"us-west-2", "us-east-1"}
    ]
    kept = [r for r in kept if key(r, "tag:environment") != "dev"]
    tally = bill.tally(
        window,
        ("service",),
        [Filter("region", ("us-west-2", "us-east-1")), Filter("tag:environment", ("dev",), True)],
    )
    assert tally.total.net == sum(Decimal(r["BilledCost"]) for r in kept)


def test_nothing_is_wrong_with_it(bill):
    assert list(bill.problems()) == []
    assert bill.tally(ALL, ()).billed_through == datetime(2024, 10, 1, tzinfo=UTC)
