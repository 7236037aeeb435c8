"""One bill in every form an export takes answers alike."""

import json
from decimal import Decimal

import pytest

from adapters.billing.attribution import read_tags
from bot.answers.cost.commitments import uses_of

BY = ("account", "region", "zone", "service", "usage_type", "operation", "instance_type", "family", "purchase", "line", "resource", "cluster",
      "team", "project", "tag:Cost Center", "day", "hour", "month")  # fmt: skip
NAMES = {"product": None, "resource_tags": None}


@pytest.fixture
def rows(exports):
    tags = {"user_team": "search", "user_cost_center": "r&d", "aws_eks_cluster_name": "llama"}
    covered = {"savings_plan_savings_plan_effective_cost": "12.5"}
    fsx = {
        "line_item_product_code": "AmazonFSx",
        "line_item_usage_type": "USW2-Storage",
        "product": {},
        "resource_tags": {"user_project": "p"},
    }
    return [
        exports.line(cost="21.5", resource_tags=tags),
        exports.line(exports.day.replace(hour=5), "21.5", "SavingsPlanCoveredUsage", **covered),
        exports.line(exports.day.replace(day=3), "3.25", line_item_availability_zone="", **fsx),
        exports.line(exports.day.replace(day=9), "-2", "Credit"),
    ]


def legacy(row, slashed):
    """Rename a CUR 2.0 row to the legacy names: `lineItem/UsageStartDate`, or as the Glue crawler writes them."""
    plain = {k: v for k, v in row.items() if k not in NAMES}
    plain |= {
        "product_instance_type": row["product"].get("instance_type", ""),
        "product_region": row["product"].get("region", ""),
    }
    for tag, name in (("user_team", "user:team"), ("user_project", "user:project"), ("user_cost_center", "user:Cost Center"),
                      ("aws_eks_cluster_name", "aws:eks:cluster-name")):  # fmt: skip
        plain[f"resourceTags/{name}" if slashed else f"resource_tags_{tag}"] = row[
            "resource_tags"
        ].get(tag, "")
    return {_slash(k): v for k, v in plain.items()} if slashed else plain


def _slash(column):
    for group, name in (("line_item", "lineItem"), ("bill", "bill"), ("pricing", "pricing"), ("product", "product"),
                        ("savings_plan", "savingsPlan"), ("reservation", "reservation"), ("split_line_item", "splitLineItem")):  # fmt: skip
        if column.startswith(group + "_"):
            camel = "".join(
                word.capitalize() for word in column.removeprefix(group + "_").split("_")
            )
            return f"{name}/{camel[0].lower() + camel[1:] if group == 'product' else camel}"
    return column


@pytest.mark.parametrize(
    ("name", "turn", "form"),
    [
        ("2026-11/cur-00001.snappy.parquet", lambda row: row, "CUR 2.0"),
        ("cur.csv.gz", lambda row: row, "CUR 2.0"),
        ("legacy.csv", lambda row: legacy(row, slashed=True), "legacy CUR"),
        ("athena.parquet", lambda row: legacy(row, slashed=False), "legacy CUR"),
    ],
)
def test_every_form_answers_alike(exports, november, rows, name, turn, form):
    expected = exports.bill(*rows).tally(november, BY)
    (exports.folder / "billing" / "bill.csv").unlink()
    exports.put(name, [turn(row) for row in rows])
    bill = exports.bill()
    found = bill.tally(november, BY)
    assert found.sources == (form,)
    assert [(dict(r.key), r.money) for r in found.rows] == [
        (dict(r.key), r.money) for r in expected.rows
    ]
    assert list(bill.problems()) == []


def test_the_dimensions_of_a_row(exports, november, rows):
    first = exports.bill(*rows).tally(november, BY).rows[0]
    assert dict(first.key) == {
        "account": "222222222222", "region": "us-west-2", "zone": "us-west-2b", "service": "AmazonEC2",
        "usage_type": "USW2-BoxUsage:trn1.32xlarge", "operation": "RunInstances", "instance_type": "trn1.32xlarge", "family": "trn1",
        "purchase": "on-demand", "line": "EC2", "resource": "i-1", "cluster": "llama", "team": "search", "project": "",
        "tag:Cost Center": "r&d", "day": "2026-11-02", "hour": "2026-11-02T00:00:00Z", "month": "2026-11",
    }  # fmt: skip


USES = [
    ({"line_item_usage_type": "BoxUsage:trn1.32xlarge"}, "EC2"),
    ({"line_item_usage_type": "EBSOptimized:trn1.32xlarge"}, "EC2"),
    (
        {
            "line_item_usage_type": "BoxUsage:c7i.large",
            "resource_tags": {"user_stage": "precompile"},
        },
        "compile",
    ),
    ({"line_item_usage_type": "USW2-EBS:VolumeUsage.gp3"}, "EBS"),
    ({"line_item_usage_type": "USW2-EBS:SnapshotUsage"}, "EBS"),
    ({"line_item_usage_type": "USW2-DataTransfer-Regional-Bytes"}, "data-transfer"),
    (
        {
            "line_item_usage_type": "USE1-CAN1-AWS-Out-Bytes",
            "line_item_product_code": "AmazonS3",
        },
        "data-transfer",
    ),
    ({"line_item_usage_type": "EUS2-NatGateway-Hours"}, "data-transfer"),
    (
        {"line_item_usage_type": "USW2-Requests-Tier1", "line_item_product_code": "AmazonS3"},
        "S3-requests",
    ),
    (
        {
            "line_item_usage_type": "USW2-TimedStorage-ByteHrs",
            "line_item_product_code": "AmazonS3",
        },
        "S3",
    ),
    ({"line_item_usage_type": "USW2-Storage", "line_item_product_code": "AmazonFSx"}, "FSx"),
    (
        {
            "line_item_usage_type": "ComputeSP:1yrNoUpfront",
            "line_item_product_code": "ComputeSavingsPlans",
        },
        "commitment",
    ),
    (
        {
            "line_item_usage_type": "USW2-CW:Requests",
            "line_item_product_code": "AmazonCloudWatch",
        },
        "other",
    ),
]
"""What a row says besides, and the line that it belongs to."""


def test_each_usage_type_has_one_line(exports, november, keyed):
    rows = [
        exports.line(line_item_resource_id=f"i-{n}", **more) for n, (more, _) in enumerate(USES)
    ]
    found = keyed(exports.bill(*rows).tally(november, ("resource", "line")))
    assert found == {(f"i-{n}", line): "1.00" for n, (_, line) in enumerate(USES)}


CLASSES = ("", "GDA-", "GLACIER-", "INT-", "SIA-", "ZIA-")
REQUESTS = [
    *(
        f"{region}Requests-{kind}Tier{tier}"
        for region in ("USW2-", "")
        for kind in CLASSES
        for tier in (1, 2)
    ),
    *(f"USW2-Requests-Tier{tier}" for tier in (3, 4, 5, 6)),
    *(f"USW2-Requests-GDA-Tier{tier}" for tier in (3, 5)),
]
"""Every usage type of requests in the S3 user guide, Understanding your AWS billing and usage reports for Amazon S3."""
NO_REQUESTS = (
    "TimedStorage-ByteHrs", "TimedStorage-GlacierByteHrs", "TimedStorage-SIA-SmObjects", "EarlyDelete-GDA", "Retrieval-SIA",
    "Standard-Retrieval-Bytes", "Select-Scanned-Bytes", "Inventory-ObjectsListed", "BatchOperations-Objects", "TagStorage-TagHrs",
    "StorageAnalytics-ObjCount", "Monitoring-Automation-INT",
)  # fmt: skip


def test_every_usage_type_of_s3_in_awss_table_has_its_line(exports, november, keyed):
    lines = dict.fromkeys(REQUESTS, "S3-requests")
    lines |= {f"USW2-{x}": "S3" for x in NO_REQUESTS}
    rows = [exports.line(line_item_usage_type=x, line_item_product_code="AmazonS3") for x in lines]
    found = keyed(exports.bill(*rows).tally(november, ("usage_type", "line")))
    assert found == dict.fromkeys(lines.items(), "1.00")


DESCRIBED = [
    (
        "Amazon Simple Storage Service",
        "$0.005 per 1,000 PUT, COPY, POST, or LIST requests",
        "S3-requests",
    ),
    (
        "Amazon Simple Storage Service",
        "$0.004 per 10,000 GET and all other requests to Intelligent-Tiering",
        "S3-requests",
    ),
    (
        "Amazon Simple Storage Service",
        "$0.023 per GB - first 50 TB / month of storage used",
        "S3",
    ),
    (
        "Amazon Simple Storage Service",
        "$0.02 per GB - US West (Oregon) data transfer to EU (Ireland)",
        "data-transfer",
    ),
    (
        "Amazon Simple Queue Service",
        "$0.40 per million Amazon SQS standard requests in Tier1",
        "other",
    ),
]
"""Services and descriptions of a real FOCUS 1.0 export, whose rows name no usage type, and their lines."""


def test_a_focus_export_without_usage_types_tells_requests_by_their_description(
    exports, november, keyed
):
    rows = [
        exports.focus(ServiceName=service, ChargeDescription=said, ResourceId=said)
        for service, said, _ in DESCRIBED
    ]
    found = keyed(exports.bill(*rows).tally(november, ("resource", "line")))
    assert found == {(said, line): "1.00" for _, said, line in DESCRIBED}


@pytest.mark.parametrize(
    ("kind", "more", "purchase"),
    [
        ("Usage", {}, "on-demand"),
        ("Usage", {"line_item_usage_type": "USW2-SpotUsage:trn1.32xlarge"}, "spot"),
        ("SavingsPlanCoveredUsage", {}, "savings-plan"),
        ("DiscountedUsage", {}, "reserved"),
        ("Fee", {}, ""),
        ("Credit", {}, ""),
        ("Usage", {"product": {"marketoption": "CapacityBlock"}}, "capacity-block"),
        (
            "Fee",
            {"line_item_line_item_description": "EC2 Capacity Block for ML, 24 hours"},
            "capacity-block",
        ),
    ],
)
def test_each_purchase_option(exports, november, keyed, kind, more, purchase):
    assert list(
        keyed(exports.bill(exports.line(kind=kind, **more)).tally(november, ("purchase",)))
    ) == [(purchase,)]


@pytest.mark.parametrize(
    ("more", "purchase"),
    [
        ({}, "on-demand"),
        ({"PricingCategory": "Dynamic"}, "spot"),
        ({"ChargeCategory": "Credit", "BilledCost": "-1"}, ""),
        ({"ChargeCategory": "Credit", "BilledCost": "-1", "PricingCategory": "Dynamic"}, ""),
        ({"ChargeClass": "Correction", "BilledCost": "-1"}, ""),
        ({"ChargeCategory": "Tax", "PricingCategory": ""}, ""),
        ({"ChargeCategory": "Purchase"}, ""),
    ],
)
def test_what_focus_gives_back_was_bought_in_no_way(exports, november, keyed, more, purchase):
    """As in a CUR, whose line items of credits and refunds name no way to buy."""
    assert list(keyed(exports.bill(exports.focus(**more)).tally(november, ("purchase",)))) == [
        (purchase,)
    ]


def test_an_empty_place_of_a_capacity_block_is_of_the_line_of_its_fee(exports, november, keyed):
    held = {"ChargeDescription": "Capacity Block", "x_ServiceCode": "AmazonEC2"}
    used, empty = (
        exports.focus(**held, x_UsageType=f"USE2-{usage}:trn2.48xlarge")
        for usage in ("BoxUsage", "UnusedBox")
    )
    assert keyed(exports.bill(used, empty).tally(november, ("line",))) == {
        ("EC2",): "1.00",
        ("commitment",): "1.00",
    }


def test_a_tag_is_found_however_it_is_written(exports, november, keyed):
    bill = exports.bill(exports.line())
    for tag in ("team", "Team", "user:team", "user_team"):
        assert keyed(bill.tally(november, (f"tag:{tag}",))) == {("search",): "1.00"}, tag


def test_team_may_mean_another_tag(exports, november, keyed):
    row = exports.line(resource_tags={"user_squad": "blue"})
    assert keyed(
        exports.bill(row, tags={"team": ("squad",)}).tally(november, ("team", "cluster"))
    ) == {("blue", ""): "1.00"}


def test_a_cluster_may_stand_in_the_key(exports, november, keyed):
    row = exports.line(resource_tags={"user_kubernetes.io/cluster/llama": "owned"})
    assert keyed(exports.bill(row).tally(november, ("cluster",))) == {("llama",): "1.00"}


def test_tags_cannot_break_the_query(exports, november, keyed):
    row = exports.line(resource_tags={"user_it's": "x'; DROP TABLE detail; --"})
    assert keyed(exports.bill(row).tally(november, ("tag:it's",))) == {
        ("x'; DROP TABLE detail; --",): "1.00"
    }


def test_unreadable_tags_cost_only_the_tags(exports, november):
    bill = exports.bill({**exports.line(), "resource_tags": json.dumps({"user_team": "a"})[:-3]})
    assert bill.tally(november, ("team",)).rows[0].key == {"team": ""}
    assert "1 unreadable tag set" in bill.problems()[0]


def test_times_in_the_american_form(exports, november):
    row = exports.line(
        line_item_usage_start_date="11/2/2026 13:00", line_item_usage_end_date="11/2/2026 14:00"
    )
    assert exports.bill(row).tally(november, ("hour",)).rows[0].key == {
        "hour": "2026-11-02T13:00:00Z"
    }


def test_a_zone_of_time_is_converted(exports, november):
    row = exports.line(line_item_usage_start_date="2026-11-02T23:30:00-08:00")
    assert exports.bill(row).tally(november, ("day",)).rows[0].key == {"day": "2026-11-03"}


RESERVED = "arn:aws:ec2:us-west-2:222222222222:capacity-reservation/cr-0123456789abcdef0"


@pytest.mark.parametrize("meter", ["USW2-BoxUsage:trn1.32xlarge", "BoxUsage", ""])
def test_focus_1_2_tells_empty_reserved_capacity_by_its_status(exports, november, keyed, meter):
    """An hour of a reservation that an instance used and one that stood empty, each $21.50; a CUR says UnusedBox."""
    said = {
        "SkuMeter": meter,
        "SkuPriceDetails": '{"InstanceType": "trn1.32xlarge"}',
        "x_ServiceCode": "AmazonEC2",
        "InvoiceId": "",
    }
    held = {
        **said,
        "CapacityReservationId": RESERVED,
        "BilledCost": "21.50",
        "EffectiveCost": "21.50",
    }
    used = exports.focus(**held, CapacityReservationStatus="Used")
    empty = exports.focus(**held | {"ResourceId": RESERVED, "CapacityReservationStatus": "Unused"})
    bill = exports.bill(used, empty)
    by_use = keyed(bill.tally(november, ("usage_type", "line")))
    assert by_use == {
        (meter, "EC2"): "21.50",
        (meter.replace("BoxUsage", "UnusedBox") or "UnusedBox", "EC2"): "21.50",
    }
    rates = bill.rates(exports.day.replace(day=5))
    assert [(x.usd_per_hour, x.hours) for x in rates.by_type] == [(Decimal("21.5"), 1.0)]
    by = ("commitment", "purchase", "line", "usage_type", "commitment_ends")
    assert [(x.usd, x.unused_usd) for x in uses_of(bill.tally(november, by), [])] == [
        (Decimal("43.00"), Decimal("21.50"))
    ]
    assert {
        name: [x.usd_per_hour for x in prices] for name, prices in rates.by_reservation.items()
    } == {RESERVED.rpartition("/")[2]: [Decimal("21.5")]}


@pytest.mark.parametrize(
    "named",
    [
        {"capacity_reservation_capacity_reservation_arn": RESERVED},
        {"reservation_reservation_a_r_n": RESERVED},
    ],
)
def test_an_on_demand_reservation_is_one_commitment_used_and_empty(exports, november, named):
    """Where only its used hours name it in a column of its own, the empty ones name it as their resource."""
    empty = {
        **dict.fromkeys(named, ""),
        "line_item_usage_type": "USW2-UnusedBox:trn1.32xlarge",
        "line_item_resource_id": RESERVED,
    }
    bill = exports.bill(
        exports.line(cost="21.50", **named), exports.line(cost="64.50", **{**named, **empty})
    )
    by = ("commitment", "purchase", "line", "usage_type", "commitment_ends")
    (use,) = uses_of(bill.tally(november, by), [])
    assert (use.name, use.usd, use.unused_usd) == (
        RESERVED.rpartition("/")[2],
        Decimal("86.00"),
        Decimal("64.50"),
    )


@pytest.mark.parametrize(
    ("kind", "purchase"),
    [
        ("On-Demand Capacity Reservation", "on-demand"),
        ("EC2 Capacity Blocks for ML", "capacity-block"),
    ],
)
def test_cur_2_columns_of_capacity_reservations_are_read(exports, november, keyed, kind, purchase):
    """`INCLUDE CAPACITY RESERVATION DATA` adds the reservation's ARN, status (used, unused, reserved, cancelled) and type."""
    held = {
        f"capacity_reservation_capacity_reservation_{name}": value
        for name, value in (("arn", RESERVED), ("type", kind))
    }
    status = "capacity_reservation_capacity_reservation_status"
    used = exports.line(cost="21.50", **held, **{status: "Used"})
    unused = {
        "line_item_usage_type": "USW2-UnusedBox:trn1.32xlarge",
        "line_item_resource_id": RESERVED,
    }
    bill = exports.bill(used, exports.line(cost="21.50", **held, **{status: "Unused"}, **unused))
    assert keyed(bill.tally(november, ("purchase", "usage_type"))) == {
        (purchase, "USW2-BoxUsage:trn1.32xlarge"): "21.50",
        (purchase, "USW2-UnusedBox:trn1.32xlarge"): "21.50",
    }
    assert list(bill.rates(exports.day.replace(day=5)).by_reservation) == [
        RESERVED.rpartition("/")[2]
    ]


@pytest.mark.parametrize(
    "key",
    [
        "parallelcluster:cluster-name",
        "user_parallelcluster_cluster_name",
        "resourceTags/user:parallelcluster:cluster-name",
        "aws_pcs_cluster_id",
    ],
)
def test_a_cluster_of_slurm_is_known_by_its_tag_in_every_form(key):
    assert read_tags(json.dumps({key: "hpc"}), {}).cluster == "hpc"
