"""Count, price and cap calls; take a broken account for what it is."""

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import botocore.session
import pytest

from adapters.aws.api.calls import TOKENS, Calls
from adapters.aws.api.operations import (
    Place,
    home_of,
    is_sold_in,
    operations,
    partition_of,
    policy_text,
    statements,
)
from adapters.aws.api.outcomes import CallState, Standing
from adapters.aws.api.promql import SERVICES
from adapters.aws.api.responses import instant_of
from adapters.aws.config import ReadingConfig
from adapters.aws.live.account import AccountAccess, LiveConfig, ReadTiming
from adapters.aws.live.source import Live
from bot.errors import Unavailable, WrongInput
from bot.model.window import month_of
from bot.settings.settings import read_settings
from bot.wiring.bills import open_account_bill
from tests.aws_live.serialize import model
from tests.aws_live.serving import BUCKET

HOME = Place("us-west-2")
OTHER = "arn:aws:iam::444455556666:role/trnbot-reader"


def test_a_call_is_counted_and_priced(world):
    live = world.live()
    (now,) = world.ticks(0.25, 0.25)
    live.read(now)
    used = live.calls.meter.today()
    assert used.units["cloudwatch:GetMetricData"] == world.standin.cloudwatch.requested
    expected = used.units["cloudwatch:GetMetricData"] + used.calls["cloudwatch:ListMetrics"]
    assert used.usd == Decimal(expected) / 100_000
    assert live.calls.meter.month_usd() > 0


def test_a_spent_budget_stops_optional_calls_only(world):
    live = world.live(daily_usd=Decimal(0))
    (now,) = world.ticks(0.25, 0.25)
    reading = live.read(now)
    assert reading.frames["node"].things
    assert not any(name.startswith("pricing") for name in world.standin.called)
    assert any("budget of $0" in problem for problem in live.problems())
    assert reading.gaps == ()


def test_a_broken_account_costs_only_its_part(world):
    live = world.live(roles=["self", OTHER])
    world.standin.faults.denied = {"sts:AssumeRole"}
    (now,) = world.ticks(0.25, 0.25)
    reading = live.read(now)
    assert {x.labels.account for x in reading.inventory.instances.values()} == {"111122223333"}
    assert len([gap for gap in map(str, reading.gaps) if "sts:AssumeRole" in gap]) == 1
    world.standin.faults.denied = set()
    (now,) = world.ticks(0.34, 0.34)
    assert live.read(now).gaps == ()
    assert {place.account for place in live.places()} == {"111122223333", "444455556666"}


def test_an_outage_is_unavailable_in_one_sentence(world):
    world.standin.faults.garbled = 1.0
    with pytest.raises(
        Unavailable,
        match=r"^AWS fsx:DescribeFileSystems in us-west-2 is broken \(an answer without FileSystems\)",
    ):
        Calls(lambda: world.now).call(HOME, "fsx", "describe_file_systems")


def test_no_region_is_wrong_input(monkeypatch):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with pytest.raises(WrongInput, match="TRNBOT_AWS_REGIONS"):
        Live(
            LiveConfig(
                ReadingConfig(timedelta(minutes=5), {}), ReadTiming(lambda: datetime.now(UTC))
            )
        )


@pytest.mark.parametrize(
    ("named", "regions", "read"),
    [
        ({"AWS_REGION": "us-east-2", "AWS_DEFAULT_REGION": "eu-west-1"}, (), "us-east-2"),
        ({"AWS_DEFAULT_REGION": "eu-west-1"}, (), "eu-west-1"),
        ({"AWS_CONFIG_FILE": "config"}, (), "ap-south-1"),
        ({"AWS_REGION": "us-east-2"}, ("us-west-2",), "us-west-2"),
    ],
)
def test_the_region_is_the_one_named_nearest(monkeypatch, tmp_path, named, regions, read):
    (tmp_path / "config").write_text("[default]\nregion = ap-south-1\n")
    monkeypatch.chdir(tmp_path)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "nowhere")
    for name, value in named.items():
        monkeypatch.setenv(name, value)
    assert [place.region for place in AccountAccess(regions).places()] == [read]


@pytest.mark.parametrize(
    "said",
    [
        1795176000,
        1795176000.0,
        "1795176000",
        "2026-11-20T12:00:00Z",
        "2026-11-20T13:00:00+01:00",
        "Fri, 20 Nov 2026 12:00:00 GMT",
    ],
)
def test_every_protocol_says_times_in_utc(said):
    assert instant_of(said) == datetime(2026, 11, 20, 12, tzinfo=UTC)
    assert instant_of(said).tzinfo is UTC


def paged():
    """Return every declared operation whose answers can have a next page, with what its answers and its calls name it."""
    for one in (x for x in operations().values() if x.service not in SERVICES):
        service = {"servicequotas": "service-quotas"}.get(one.service, one.service)
        made = model(service).operation_model(
            "".join(x.capitalize() for x in one.operation.split("_"))
        )
        answers = [
            name for name in made.output_shape.members if "Token" in name and "Next" in name.title()
        ]
        if answers:
            yield one.action, answers, made.input_shape.members


def test_the_next_page_of_every_paged_call_is_asked_for():
    found = list(paged())
    assert len(found) > 15
    for name, answers, takes in found:
        assert any(answer in TOKENS and TOKENS[answer] in takes for answer in answers), name


def test_every_role_is_assumed_with_the_external_id(world):
    live = world.live(roles=["self", OTHER], external_id="trnbot-1f3a")
    (now,) = world.ticks(0.25, 0.25)
    live.read(now)
    asked = world.standin.assumed
    assert asked
    assert {(given["RoleArn"], given.get("ExternalId")) for given in asked} == {
        (OTHER, "trnbot-1f3a")
    }


@pytest.mark.parametrize(
    "more",
    [{"TRNBOT_AWS_BILLING": f"s3://{BUCKET}/billing"}, {"TRNBOT_AWS_ATHENA": "bills.cur"}, {}],
    ids=["export", "Athena", "Cost Explorer"],
)
def test_the_bill_is_read_under_the_role_that_is_named_for_it(world, tmp_path, more):
    settings = read_settings(
        {"TRNBOT_AWS_BILLING_ROLE": OTHER, "TRNBOT_AWS_EXTERNAL_ID": "trnbot-1f3a", **more}
    )
    live = world.live(external_id="trnbot-1f3a")
    (world.now,) = world.ticks(0.25, 0.25)
    open_account_bill(settings, live, tmp_path).tally(month_of(world.now), ())
    assert {(given["RoleArn"], given.get("ExternalId")) for given in world.standin.assumed} == {
        (OTHER, "trnbot-1f3a")
    }


@pytest.mark.parametrize(
    ("region", "homes"),
    [
        (
            "us-west-2",
            {"pricing": "us-east-1", "ce": "us-east-1", "sts": "us-west-2", "ec2": "us-west-2"},
        ),
        (
            "cn-north-1",
            {
                "pricing": "cn-northwest-1",
                "ce": "cn-northwest-1",
                "sts": "cn-north-1",
                "ec2": "cn-north-1",
            },
        ),
        ("us-gov-east-1", {"ce": "us-gov-west-1", "sts": "us-gov-east-1", "ec2": "us-gov-east-1"}),
    ],
)
def test_a_region_is_served_within_its_own_partition(region, homes):
    """Each place that is asked exists: botocore has an endpoint of the service there, or the service is one of all regions."""
    assert {service: home_of(service, region) for service in homes} == homes
    session = botocore.session.get_session()
    for service, home in homes.items():
        assert (
            home in session.get_available_regions(service, partition_of(region)) or service == "ce"
        )
    assert is_sold_in("pricing", region) is ("pricing" in homes)


@pytest.mark.parametrize("partition", ["aws", "aws-us-gov", "aws-cn"])
def test_the_policy_can_be_written_for_each_partition(partition):
    resources = json.dumps([x["Resource"] for x in json.loads(policy_text(partition))["Statement"]])
    assert set(re.findall(r"arn:([\w-]+):", resources)) == {partition}


@pytest.mark.parametrize(
    ("operation", "state", "remedy"),
    [
        (
            ("service-quotas", "list_service_quotas"),
            CallState.THROTTLED,
            "it is read again within the hour.",
        ),
        (
            ("service-quotas", "list_service_quotas"),
            CallState.BROKEN,
            "it is tried again within the hour.",
        ),
        (("ec2", "describe_instances"), CallState.THROTTLED, "it is read again at the next tick."),
        (
            ("s3", "get_object"),
            CallState.DENIED,
            "and kms:Decrypt of the key where the bucket is sealed with SSE-KMS.",
        ),
    ],
)
def test_a_failure_says_when_it_is_tried_again_and_what_to_allow(operation, state, remedy):
    standing = Standing(operations()[operation], "us-west-2", state, "X")
    assert standing.problem.endswith(remedy)


def test_the_policy_names_every_role_by_its_arn():
    (statement,) = (x for _, x in statements() if "sts:AssumeRole" in x["Action"])
    assert "*" not in "".join(statement["Resource"])


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            {"TRNBOT_AWS_ROLES": "arn:aws:iam::*:role/trnbot-reader"},
            r"'arn:aws:iam::\*:role/trnbot-reader' is not the ARN of a role",
        ),
        (
            {"TRNBOT_AWS_ROLES": "trnbot-reader"},
            "write arn:aws:iam::111122223333:role/trnbot-reader, or self",
        ),
        ({"TRNBOT_AWS_EXTERNAL_ID": "two words"}, "An external id has 2 to 1224 letters"),
    ],
)
def test_a_pattern_is_no_role_and_an_external_id_is_what_aws_allows(said, sentence):
    with pytest.raises(WrongInput, match=sentence):
        read_settings(said)
