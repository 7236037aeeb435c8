"""Each poller asks what it needs, of the time that it needs, as often as it may: played minute by minute."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from adapters.aws.api.calls import NoData
from adapters.aws.api.operations import Place
from adapters.aws.api.responses import ResponseHistory
from adapters.aws.bill.explorer import Explorer, ExplorerAnswers, OutlookPoller
from adapters.aws.bill.outlook import RecordedOutlook
from adapters.aws.files import Problems
from adapters.aws.inventory.poller import (
    MOST_LOOKUPS,
    ClusterPoller,
    LaunchPoller,
    RefusalPoller,
    ResourcePoller,
)
from adapters.aws.live.poller import HELD, MOST, DetailPoller, MetricPoller, detail_spans
from adapters.aws.logs.logbook import LogGroup, LogPoller
from adapters.aws.metrics.points import MetricSeries
from adapters.aws.prices.poller import PricePoller
from bot.errors import Unavailable
from bot.model.fleet import Inventory
from bot.model.labels import Labels
from tests.builders import instance

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
HERE = Place("us-west-2", account="111122223333")
Given = Mapping[str, Any]


@dataclass
class Aws:
    """Answers every call by a page, and remembers when and for what it was asked."""

    pages_of: dict[str, list[Given]] = field(default_factory=dict)
    failing: set[str] = field(default_factory=set)
    now: datetime = NOON
    asked: list[tuple[datetime, str, Given]] = field(default_factory=list)
    spent: bool = False
    error: type[Exception] = Unavailable
    used: dict[str, int] = field(default_factory=dict)

    def pages(self, place: Place, service: str, operation: str, **given: Any) -> Iterator[Given]:
        self.asked.append((self.now, operation, given))
        self.used[f"{service}:{operation}"] = self.used.get(f"{service}:{operation}", 0) + 1
        if operation in self.failing:
            raise self.error(f"AWS {operation} in {place} is away.")
        yield from self.pages_of.get(operation, [{}])

    def clock(self) -> datetime:
        return self.now

    @property
    def meter(self) -> Any:
        day = SimpleNamespace(units=self.used)
        return SimpleNamespace(save=lambda: None, today=lambda: day)

    def play(self, poll: Callable[[datetime], object], minutes: Iterable[int]) -> None:
        """Poll at these minutes after noon."""
        for minute in minutes:
            self.now = NOON + minute * MINUTE
            poll(self.now)

    def minutes(self, operation: str) -> list[int]:
        """Return the minutes at which an operation was asked for."""
        return [(at - NOON) // MINUTE for at, name, _ in self.asked if name == operation]

    def given(self, operation: str) -> list[Given]:
        return [given for _, name, given in self.asked if name == operation]


def history() -> ResponseHistory:
    return ResponseHistory(Problems())


EMPTY: dict[str, list[Given]] = {
    "describe_instances": [{"Reservations": []}],
    "describe_volumes": [{"Volumes": []}],
    "list_clusters": [{"ClusterSummaries": []}],
    "list_training_jobs": [{"TrainingJobSummaries": []}],
}
EVERY = {
    "describe_instances": (1, 1),
    "describe_capacity_reservations": (1, 1),
    "describe_volumes": (59, 1),
    "describe_file_systems": (59, 1),
    "list_service_quotas": (1439, 59),
    "list_clusters": (59, 59),
    "list_training_jobs": (1, 59),
}
"""Minutes until each is asked again: after an answer, and after a failure."""


@pytest.mark.parametrize("failing", [False, True])
def test_each_description_is_asked_for_as_often_as_it_changes(failing: bool) -> None:
    aws = Aws(EMPTY, failing=set(EVERY) if failing else set())
    poller = ResourcePoller(aws, history())  # type: ignore[arg-type]
    aws.play(
        lambda now: list(poller.refresh([HERE], now)), [0, 1, 2, 58, 59, 60, 117, 118, 1438, 1439]
    )
    for operation, every in EVERY.items():
        asked = aws.minutes(operation)
        assert asked[0] == 0
        gaps = {later - earlier for earlier, later in pairwise(asked)}
        assert min(gaps) == every[failing], (operation, asked)


def test_without_the_nodes_nobody_can_tell_what_is_gone() -> None:
    poller = ResourcePoller(Aws(failing=set(EVERY)), history())  # type: ignore[arg-type]
    missing = list(poller.refresh([HERE], NOON))
    assert [x.needed for x in missing] == [True] + [False] * (len(EVERY) - 1)


def test_a_hyperpod_cluster_that_is_gone_has_no_nodes_and_a_job_is_described_until_it_ended() -> (
    None
):
    node = {"InstanceId": "i-1", "InstanceType": "ml.trn1.32xlarge"}
    aws = Aws(
        EMPTY
        | {
            "list_clusters": [{"ClusterSummaries": [{"ClusterName": "hp"}]}],
            "list_cluster_nodes": [{"ClusterNodeSummaries": [node, node | {
                "InstanceId": "i-2", "InstanceType": "ml.m5.large"}]}],
            "list_training_jobs": [{"TrainingJobSummaries": [{"TrainingJobName": "job"}]}],
            "describe_training_job": [{}],
        }
    )  # fmt: skip
    poller = ResourcePoller(aws, history())  # type: ignore[arg-type]

    def poll(now: datetime) -> None:
        list(poller.refresh([HERE], now))

    aws.play(poll, [0])
    assert poller.instances(HERE) == {"i-1"}
    assert poller.types(HERE) == {"ml.trn1.32xlarge"}
    assert poller.running(HERE) == ["ml.trn1.32xlarge"]

    # A job is asked for until it has begun, then when it is listed no more, until it has ended.
    aws.pages_of["describe_training_job"] = [{"TrainingStartTime": "2026-11-20T12:00:00Z"}]
    aws.play(poll, [1, 2, 3])
    aws.pages_of["list_training_jobs"] = [{"TrainingJobSummaries": []}]
    aws.play(poll, [4])
    ended = {"TrainingStartTime": "x", "TrainingEndTime": "y"}
    aws.pages_of["describe_training_job"] = [ended | {"WarmPoolStatus": {"Status": "InUse"}}]
    aws.play(poll, [5, 6])
    aws.pages_of["describe_training_job"] = [ended | {"WarmPoolStatus": {"Status": "Terminated"}}]
    aws.play(poll, [7, 8, 9])
    assert aws.minutes("describe_training_job") == [0, 1, 4, 5, 6, 7]

    aws.pages_of["list_clusters"] = [{"ClusterSummaries": []}]
    aws.play(poll, [59, 60])
    assert aws.minutes("list_cluster_nodes") == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert poller.instances(HERE) == frozenset()


def test_clusters_are_described_hourly_and_one_that_fails_costs_only_itself() -> None:
    aws = Aws(
        {
            "list_clusters": [{"clusters": ["a", "b"]}],
            "describe_cluster": [{}],
            "list_nodegroups": [{"nodegroups": ["g"]}, {"nodegroups": ["h"]}],
        },
        failing={"describe_nodegroup"},
    )
    poller = ClusterPoller(aws, history())  # type: ignore[arg-type]
    sentences = list(poller.refresh([HERE], NOON))
    assert len(sentences) == 2
    aws.failing = set()
    aws.play(lambda now: sentences.extend(poller.refresh([HERE], now)), [58, 59, 117, 118])
    assert aws.minutes("list_clusters") == [0, 59, 118]
    assert [x["nodegroupName"] for x in aws.given("describe_nodegroup")[2:]] == ["g", "h"] * 4
    assert len(sentences) == 2


def launched(name: str, minutes: float) -> Inventory:
    node = instance(name)
    labels = Labels(**{**dict(node.labels), "account": HERE.account})
    node = replace(node, labels=labels, launched_at=NOON - minutes * MINUTE)
    return Inventory(instances={name: node})


@pytest.mark.parametrize(
    ("age", "minutes"),
    [(10, [0, 30]), (30, [0]), (89 * 1440 - 1, [0]), (89 * 1440, [])],
)
def test_a_launch_is_looked_up_until_its_event_must_have_come(age: int, minutes: list[int]) -> None:
    aws = Aws({"lookup_events": [{"Events": []}]})
    poller = LaunchPoller(aws, history(), lambda: 0.0, lambda _: None)  # type: ignore[arg-type]
    inventory = launched("i-1", age)
    aws.play(
        lambda now: list(poller.refresh([HERE], inventory, now, 1.0)), [0, 1, 29, 30, 31, 60, 61]
    )
    assert aws.minutes("lookup_events") == minutes
    begun = NOON - age * MINUTE
    for given in aws.given("lookup_events"):
        assert (begun - given["StartTime"], given["EndTime"] - begun) == (20 * MINUTE, 20 * MINUTE)
        (attribute,) = given["LookupAttributes"]
        assert attribute == {"AttributeKey": "ResourceName", "AttributeValue": "i-1"}


def test_the_newest_launches_are_looked_up_first_some_a_tick_and_none_past_its_time() -> None:
    aws = Aws({"lookup_events": [{"Events": []}]})
    nodes: dict[str, Any] = {}
    for number in range(MOST_LOOKUPS + 5):
        nodes |= launched(f"i-{number}", 60 + number).instances
    inventory = Inventory(instances=nodes)
    poller = LaunchPoller(aws, history(), lambda: 0.0, lambda _: None)  # type: ignore[arg-type]
    list(poller.refresh([HERE], inventory, NOON, 0.0))
    assert not aws.asked
    list(poller.refresh([HERE], inventory, NOON, 1.0))
    names = [x["LookupAttributes"][0]["AttributeValue"] for x in aws.given("lookup_events")]
    assert names == [f"i-{number}" for number in range(MOST_LOOKUPS)]
    list(poller.refresh([HERE], inventory, NOON, 1.0))
    assert len(aws.asked) == MOST_LOOKUPS + 5


def test_refused_launches_are_looked_for_twice_an_hour_and_what_came_late_once_more() -> None:
    aws = Aws({"lookup_events": [{"Events": []}]})
    poller = RefusalPoller(aws, history(), lambda: 0.0, lambda _: None)  # type: ignore[arg-type]
    aws.play(lambda now: list(poller.refresh([HERE], now, 1.0)), [0, 28, 29, 57, 58])
    assert aws.minutes("lookup_events") == [0, 0, 29, 29, 58, 58]
    spans = [(x["StartTime"], x["EndTime"]) for x in aws.given("lookup_events")[::2]]
    assert spans == [
        (NOON - DAY, NOON),
        (NOON - 20 * MINUTE, NOON + 29 * MINUTE),
        (NOON + 9 * MINUTE, NOON + 58 * MINUTE),
    ]


def test_logs_are_read_from_three_hours_ago_and_five_minutes_twice() -> None:
    aws = Aws({"filter_log_events": [{"events": []}]})
    elsewhere = Place("us-east-1")
    groups = [LogGroup("here"), LogGroup("there", "us-east-1")]
    poller = LogPoller(aws, groups, "us-west-2")  # type: ignore[arg-type]
    aws.play(lambda now: poller.read([HERE, elsewhere], now, {}), [0, 5])
    aws.failing = {"filter_log_events"}
    aws.play(lambda now: poller.read([HERE, elsewhere], now, {}), [10])
    aws.failing = set()
    aws.play(lambda now: poller.read([HERE, elsewhere], now, {}), [15])
    asked = aws.given("filter_log_events")
    assert [x["logGroupName"] for x in asked[:2]] == ["here", "there"]
    noon = int(NOON.timestamp())
    spans = [
        ((x["startTime"] // 1000 - noon) // 60, (x["endTime"] // 1000 - noon) // 60) for x in asked
    ]
    assert spans[::2] == [(-185, 0), (-5, 5), (0, 10), (0, 15)]


def test_prices_are_asked_for_by_what_runs_and_a_day_ahead() -> None:
    aws, responses = Aws(), history()
    poller = PricePoller(aws, responses)  # type: ignore[arg-type]
    types, running = ["trn1.2xlarge", "inf2.xlarge"], ["trn1.32xlarge"]
    places = [HERE, Place("us-west-2", account="2"), Place("us-east-2")]
    assert list(poller.refresh(places, types, running, NOON)) == []
    asked = [(name, given) for _, name, given in aws.asked]
    all_types = ["inf2.xlarge", "trn1.2xlarge", "trn1.32xlarge"]

    def fields(given: Given) -> dict[str, str]:
        assert {x["Type"] for x in given["Filters"]} == {"TERM_MATCH"}
        return {x["Field"]: x["Value"] for x in given["Filters"]}

    products = [fields(given) for name, given in asked if name == "get_products"]
    assert [x["instanceType"] for x in products[:3]] == all_types
    stored = [(x["productFamily"], x["regionCode"]) for x in products[3:]]
    assert stored == [("Storage", region) for region in ("us-east-2", "us-west-2") for _ in "ab"]
    services = [given["ServiceCode"] for name, given in asked if name == "get_products"]
    assert services == ["AmazonEC2"] * 3 + ["AmazonEC2", "AmazonFSx"] * 2

    (plans,) = aws.given("describe_savings_plans_offering_rates")
    assert {x["name"]: x["values"] for x in plans["filters"]} == {
        "instanceType": ["trn1.32xlarge"],
        "region": ["us-east-2", "us-west-2"],
        "productDescription": ["Linux/UNIX"],
        "tenancy": ["shared"],
    }
    spot = aws.given("describe_spot_price_history")
    assert len(spot) == 2
    assert spot[0]["StartTime"] == NOON - 14 * DAY
    assert spot[0]["Filters"][0] == {"Name": "instance-type", "Values": all_types}
    reserved = aws.given("describe_reserved_instances_offerings")
    assert [x["Filters"][0]["Values"] for x in reserved] == [["trn1.32xlarge"]] * 2
    assert all(not x["IncludeMarketplace"] and x["InstanceTenancy"] == "default" for x in reserved)
    blocks = aws.given("describe_capacity_block_offerings")
    assert (
        blocks
        == [{"InstanceType": "trn1.32xlarge", "InstanceCount": 1, "CapacityDurationHours": 24}] * 2
    )

    aws.asked.clear()
    late = NOON + DAY - MINUTE
    assert not poller.due(late - timedelta(seconds=1))
    assert poller.due(late)


def test_a_price_that_failed_is_asked_for_after_an_hour_and_by_itself() -> None:
    aws, responses = Aws(failing={"describe_spot_price_history"}), history()
    poller = PricePoller(aws, responses)  # type: ignore[arg-type]

    def poll(now: datetime) -> None:
        if poller.due(now):
            list(poller.refresh([HERE], ["trn1.32xlarge"], ["trn1.32xlarge"], now))

    aws.play(poll, [0, 59, 60, 119, 120, 121, 1438, 1439])
    assert aws.minutes("describe_spot_price_history") == [0, 60, 120, 1438, 1439]
    assert aws.minutes("describe_reserved_instances_offerings") == [0, 1439]
    aws.failing = set()
    aws.play(poll, [1440, 1499, 1500, 1560])
    assert aws.minutes("describe_spot_price_history")[5:] == [1499]


def explorer(aws: Aws, folder: Path, most: int = 60) -> ExplorerAnswers:
    return ExplorerAnswers(aws, folder, HERE, most)  # type: ignore[arg-type]


SPANS: dict[str, list[Given]] = {
    "get_savings_plans_utilization": [{"SavingsPlansUtilizationsByTime": []}],
    "get_savings_plans_coverage": [{"SavingsPlansCoverages": []}],
    "get_reservation_utilization": [{"UtilizationsByTime": []}],
    "get_anomalies": [{"Anomalies": []}],
    "get_cost_forecast": [
        {
            "ForecastResultsByTime": [
                {
                    "TimePeriod": {"Start": start, "End": end},
                    "MeanValue": "10",
                    "PredictionIntervalLowerBound": "8",
                    "PredictionIntervalUpperBound": "13",
                }
                for start, end in (("2026-11-20", "2026-11-25"), ("2026-11-25", "2026-12-01"))
            ]
        }
    ],
}


def test_the_outlook_is_asked_for_daily_of_a_fortnight_and_a_failure_after_two_hours(
    tmp_path: Path,
) -> None:
    aws = Aws(SPANS, failing={"get_anomalies"})
    poller = OutlookPoller(explorer(aws, tmp_path))
    assert poller.due(NOON) == 5
    aws.play(poller.refresh, [0, 119, 120, 1379, 1380])
    assert aws.minutes("get_anomalies") == [0, 120, 1379]
    assert aws.minutes("get_cost_forecast") == [0, 1380]
    assert aws.given("get_anomalies")[0]["DateInterval"] == {
        "StartDate": "2026-11-06",
        "EndDate": "2026-11-20",
    }
    assert aws.given("get_cost_forecast")[0]["TimePeriod"] == {
        "Start": "2026-11-20",
        "End": "2026-12-01",
    }
    past = aws.given("get_savings_plans_coverage")[0]
    assert past["TimePeriod"] == {"Start": "2026-11-06", "End": "2026-11-20"}
    assert past["Granularity"] == "DAILY"

    # What AWS has nothing of is known to be nothing, and what it said counts for three days.
    aws.error = NoData
    aws.play(poller.refresh, [1600])
    assert poller.due(aws.now) == 0
    outlook = RecordedOutlook(tmp_path, {})
    forecast = outlook.forecast(NOON)
    assert forecast
    assert (forecast.mean, forecast.low, forecast.high) == (20, 16, 26)
    assert (forecast.window.start.day, forecast.window.end.month) == (20, 12)
    assert outlook.forecast(NOON - MINUTE) is None
    asked = NOON + 1380 * MINUTE
    assert outlook.forecast(asked + 3 * DAY - MINUTE)
    assert outlook.forecast(asked + 3 * DAY) is None


def groups(*keys: tuple[str, ...]) -> list[Given]:
    found = [
        {"Keys": list(key), "Metrics": {"UnblendedCost": {"Amount": str(-100 + 10 * number)}}}
        for number, key in enumerate(keys)
    ]
    return [{"ResultsByTime": [{"Groups": found}]}]


def test_the_bill_is_asked_for_after_eight_hours_of_two_months_and_whole_days(
    tmp_path: Path,
) -> None:
    aws = Aws({"get_cost_and_usage": groups(("111122223333", "Usage"))})
    bill = Explorer(explorer(aws, tmp_path))
    aws.play(lambda _: bill.keep_fresh(), [0, 479, 480])
    minutes = aws.minutes("get_cost_and_usage")
    assert sorted(set(minutes)) == [0, 480]
    assert {(x["TimePeriod"]["Start"], x["TimePeriod"]["End"]) for x in aws.given(
        "get_cost_and_usage")} == {("2026-09-01", "2026-11-20")}  # fmt: skip
    assert bill.due() == 0
    aws.now = NOON + 480 * MINUTE + 8 * HOUR
    assert bill.due() == 20
    assert re.search(r"asked 8 h ago in \d+ calls", bill.keep_fresh()) is None


def test_a_failed_bill_is_asked_for_after_an_hour_and_never_past_the_days_calls(
    tmp_path: Path,
) -> None:
    aws = Aws({"get_cost_and_usage": groups(("1", "Usage"))}, failing={"get_cost_and_usage"})
    bill = Explorer(explorer(aws, tmp_path, most=5))
    aws.play(lambda _: bill.keep_fresh(), [0, 59, 60, 119, 120])
    assert aws.minutes("get_cost_and_usage") == [0, 60, 120]
    aws.failing = set()
    aws.play(lambda _: bill.keep_fresh(), range(180, 1200, 60))
    assert len(aws.asked) <= 5
    assert "calls to Cost Explorer are used" in bill.keep_fresh("tag=team")


class Lister:
    """Lists one series for each instance."""

    def __init__(self, calls: Aws) -> None:
        self.calls, self.listed = calls, list[str]()

    def details(self, place: Place, name: str) -> set[MetricSeries]:
        self.listed.append(name)
        dimensions = (("InstanceId", name), ("Core", "0"))
        keys = tuple(key for key, _ in dimensions)
        return {
            MetricSeries(
                "N", "neuroncore_utilization", keys, dimensions, place.region, place.account
            )
        }


def test_a_few_nodes_are_looked_at_for_half_an_hour_after_they_were_last_suspicious(
    tmp_path: Path,
) -> None:
    aws = Aws()
    lister = Lister(aws)
    metrics = MetricPoller(aws, 3600, lambda: 0.0)  # type: ignore[arg-type]
    poller = DetailPoller(lister, metrics, tmp_path)  # type: ignore[arg-type]
    nodes = [(HERE, f"i-{number:02}") for number in range(MOST + 2)]

    # Who is looked at already takes no second place, and who is not waits for a free one.
    poller.watch(nodes[:5], NOON)
    poller.watch(nodes, NOON + 10 * MINUTE)
    assert poller.instances() == {name for _, name in nodes[:MOST]}
    assert lister.listed == [name for _, name in nodes[:MOST]]
    poller.watch([], NOON + 10 * MINUTE + HELD - MINUTE)
    assert len(poller.instances()) == MOST
    poller.watch(nodes[-1:], NOON + 10 * MINUTE + HELD)
    assert poller.instances() == {nodes[-1][1]}
    begin = int(NOON.timestamp())
    spans = detail_spans(tmp_path)
    assert spans["i-00"] == [[begin, begin + 2400]]
    assert spans["i-07"] == [[begin + 600, begin + 2400]]
    aws.spent = True
    poller.watch(nodes[:1], NOON + 3 * HOUR)
    assert poller.instances() == set()
