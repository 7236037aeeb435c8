"""What is asked of AWS fits what AWS takes: every request of these tests is looked at, and each limit is known to be looked for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import botocore.session
import pytest

from adapters.aws.api.operations import Place, operations
from adapters.aws.api.responses import ResponseHistory
from adapters.aws.files import Problems
from adapters.aws.prices.poller import PricePoller
from bot.errors import Unavailable
from tests.aws_live.requests import Limit, Requests, faults, limits
from tests.aws_live.serialize import model
from tests.cases import in_one_run

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SERVICES = set(botocore.session.get_session().get_available_services())
OF_AWS = [(service, name) for service, name in operations() if service in SERVICES]
"""Prometheus's own API is none of botocore's services."""
SIZES = ("MaxResults", "maxResults", "MaxItems", "MaxRecords")
WITHOUT = {
    "get_query_results": "pages of Athena's own size, 1,000 rows, the most there is",
    "get_savings_plans_coverage": "asked for a month's days at most",
    "get_savings_plans_utilization": "asked for a month's days at most",
    "get_reservation_utilization": "asked for a month's days at most",
    "get_cost_forecast": "one answer",
    "get_anomalies": "asked for some weeks; AWS cuts the pages",
    "get_cost_and_usage": "AWS cuts the pages",
}
"""Operations that could name a page's size and do not, and why."""


def input_of(service: str, operation: str) -> Any:
    name = next(
        x for x in model(service).operation_names if x.lower() == operation.replace("_", "")
    )
    return model(service).operation_model(name)


@in_one_run
@pytest.mark.parametrize(("service", "operation"), OF_AWS, ids=[name for _, name in OF_AWS])
def test_every_call_that_has_pages_names_their_size(service: str, operation: str) -> None:
    shape = input_of(service, operation).input_shape
    sized = [name for name in SIZES if name in shape.members]
    page = operations()[service, operation].page
    if not page:
        assert not sized or operation in WITHOUT, f"{operation} takes {sized[0]}"
        return
    assert set(page) <= set(sized)
    assert faults(input_of(service, operation), page) == [] or shape.required_members


def broken(limit: Limit) -> Any:
    """Return a value beyond a limit."""
    number = int(limit.value) if limit.value.isdigit() else 0
    return {
        "at most": number + 1,
        "at least": number - 1,
        "count at most": [{}] * (number + 1),
        "count at least": ["x"] * (number - 1),
        "multiple of": number + 1,
        "one of": "another",
    }[limit.limit]


@in_one_run
@pytest.mark.parametrize(
    "limit", limits(), ids=[f"{x.operation}-{x.parameter}-{x.limit}" for x in limits()]
)
def test_each_limit_is_looked_for(limit: Limit) -> None:
    assert limit.broken(broken(limit))
    name = limit.operation.lower()
    shapes = [input_of(*x).input_shape for x in OF_AWS if x[1].replace("_", "") == name]
    # Two services may have operations of one name: the limit is of the one that has the parameter.
    (shape,) = [x for x in shapes if limit.parameter.partition(".")[0] in x.members]
    for part in limit.parameter.split("."):
        shape = shape.member if shape.type_name == "list" else shape
        assert part in shape.members
        shape = shape.members[part]


def test_a_request_beyond_a_limit_is_told() -> None:
    given = {
        "InstanceTypes": ["trn1.32xlarge"],
        "TargetCapacity": 1,
        "RegionNames": [f"r-{n}" for n in range(11)],
        "MaxResults": 5,
    }
    told = faults(input_of("ec2", "get_spot_placement_scores"), given)
    assert len([one for one in told if "InstanceTypes" in one]) == 1
    assert any("RegionNames" in one for one in told)
    assert any("MaxResults" in one for one in told)


def test_a_tick_and_a_days_prices_ask_nothing_that_aws_would_refuse(
    world: Any, requests: Requests
) -> None:
    before = dict(requests.asked)
    live = world.live()
    for at in world.ticks(0.25, 0.25):
        live.read(at)
    live.quotes("trn1.32xlarge", "us-west-2", world.now)
    described = {name for name, count in requests.asked.items() if count > before.get(name, 0)}
    declared = {
        f"{service}:{input_of(service, name).name}"
        for service, name in operations()
        if service in ("ec2", "fsx", "pricing")
    }
    assert declared <= described, declared - described
    assert requests.faults == []


class Counted:
    """Stand for the calls: every page is empty, but that of one type AWS refuses."""

    def __init__(self, refused: str) -> None:
        self.refused = refused
        self.asked: list[tuple[str, str, str]] = []
        self.given: dict[str, Mapping[str, Any]] = {}

    def pages(self, place: Place, service: str, operation: str, **given: Any) -> Any:
        self.asked.append((operation, place.region, given.get("InstanceType", "")))
        self.given[operation] = given
        if given.get("InstanceType") == self.refused:
            raise Unavailable(
                f"AWS ec2:DescribeCapacityBlockOfferings in {place} is broken (InvalidParameterValue)."
            )
        yield {}


def test_a_type_that_capacity_blocks_refuse_costs_no_other_price() -> None:
    calls = Counted("p5.bogus")
    poller = PricePoller(calls, ResponseHistory(Problems()))  # type: ignore[arg-type]
    places, types, running = (
        [Place("us-west-2")],
        ["p5.bogus", "trn1.32xlarge"],
        ["p5.bogus", "trn1.32xlarge"],
    )
    assert len(list(poller.refresh(places, types, running, NOON))) == 1
    blocks = [
        name
        for operation, _, name in calls.asked
        if operation == "describe_capacity_block_offerings"
    ]
    assert blocks == ["p5.bogus", "trn1.32xlarge"]
    calls.asked.clear()
    assert not poller.due(NOON + timedelta(minutes=59))
    assert poller.due(NOON + timedelta(hours=1))
    assert len(list(poller.refresh(places, types, running, NOON + timedelta(hours=1)))) == 1
    assert calls.asked == [("describe_capacity_block_offerings", "us-west-2", "p5.bogus")]
    assert len(list(poller.refresh(places, types, running, NOON + timedelta(days=1)))) == 1
    assert len(calls.asked) > 5, "a day later every price is asked again"


def test_placement_scores_are_asked_of_families_of_three_types_and_ten_regions() -> None:
    calls = Counted("")
    poller = PricePoller(calls, ResponseHistory(Problems()))  # type: ignore[arg-type]
    places = [Place(f"us-west-{n}") for n in range(1, 13)]
    types = ["trn1.2xlarge", "trn1.32xlarge", "trn1n.32xlarge", "p4d.24xlarge", "p4de.24xlarge"]
    list(poller.refresh(places, types, ["trn1.32xlarge", "p4d.24xlarge"], NOON))
    scores = calls.given["get_spot_placement_scores"]
    assert scores["InstanceTypes"] == ["trn1.2xlarge", "trn1.32xlarge", "trn1n.32xlarge"]
    assert len(scores["RegionNames"]) == 10


def test_govcloud_is_asked_for_no_price_that_its_partition_has_not() -> None:
    calls = Counted("")
    poller = PricePoller(calls, ResponseHistory(Problems()))  # type: ignore[arg-type]
    assert (
        list(poller.refresh([Place("us-gov-west-1")], ["trn1.32xlarge"], ["trn1.32xlarge"], NOON))
        == []
    )
    assert {region for _, region, _ in calls.asked} == {"us-gov-west-1"}
    operations_asked = {operation for operation, _, _ in calls.asked}
    assert "describe_spot_price_history" in operations_asked
    assert not operations_asked & {"get_products", "describe_savings_plans_offering_rates"}
