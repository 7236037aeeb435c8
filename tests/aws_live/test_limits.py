"""Ask GetMetricData for no more than one page holds, for history once, and for no more points a second than its quota has."""

from collections import Counter
from datetime import UTC, datetime

import pytest

from adapters.aws.api.calls import DatapointPace, limit_of
from adapters.aws.api.operations import Place, price_of
from adapters.aws.live.frame_buffer import PastGrids
from adapters.aws.live.poller import MetricPoller
from adapters.aws.metrics.points import Points
from benchmarks.aws_bill import HOURS_A_MONTH, fleet, streamed_usd

HOME = Place("us-west-2", account="111122223333")
NOON = 1_795_176_000
DAY = 86_400


class Asked:
    """Stand for the calls: every query is answered with no point."""

    spent = False

    def __init__(self):
        self.given, self.metrics = [], 0

    def clock(self):
        return datetime.fromtimestamp(NOON, UTC)

    def pages(self, place, service, operation, units, **given):
        self.given.append(given)
        self.metrics += units
        yield {
            "MetricDataResults": [
                {"Id": x["Id"], "Timestamps": [], "Values": []} for x in given["MetricDataQueries"]
            ]
        }


def points_of(given):
    seconds = (given["EndTime"] - given["StartTime"]).total_seconds()
    return sum(-(-seconds // query["MetricStat"]["Period"]) for query in given["MetricDataQueries"])


@pytest.fixture
def started():
    """Read four nodes' newest points and their history."""
    calls = Asked()
    poller = MetricPoller(calls, 15 * DAY, lambda: 0.0, pause=lambda _: None)
    poller.enter(HOME, fleet(4), NOON)
    for now in (NOON, NOON + 300):
        poller.read(now - 60, 1e9)
    poller.backfill.start(1e9, lambda _: PastGrids({}, Points.joined([])))
    poller.backfill.join()
    return calls


def test_fifteen_days_cost_one_request_a_series(started):
    assert started.metrics == 3 * len(fleet(4)), "two ticks, and all of history once"


def test_no_call_may_answer_more_points_than_a_page_holds(started):
    most = max(map(points_of, started.given))
    assert 0.9 * limit_of("cloudwatch", "get_metric_data", "datapoints") < most <= 100_800
    assert max(len(given["MetricDataQueries"]) for given in started.given) <= limit_of(
        "cloudwatch", "get_metric_data", "queries"
    )


def test_all_statistics_of_a_series_stand_in_one_call(started):
    calls_of = Counter(
        (str(x["MetricStat"]["Metric"]), given["StartTime"])
        for given in started.given
        for x in {str(q["MetricStat"]["Metric"]): q for q in given["MetricDataQueries"]}.values()
    )
    assert set(calls_of.values()) == {1}


@pytest.mark.parametrize(
    ("age", "rate"), [(3600, 180_000), (4 * 3600, 396_000)], ids=["recent", "older"]
)
def test_points_asked_a_second_stay_below_the_quota(age, rate):
    now = [0.0]
    pace = DatapointPace(lambda: now[0], lambda seconds: now.__setitem__(0, now[0] + seconds))
    asked = 0
    while pace.wait(HOME, 100_000, age, 60.0):
        asked += 100_000
    assert 0.7 * rate < asked / 60 < rate


def test_regions_have_a_quota_each():
    pauses = []
    pace = DatapointPace(lambda: 0.0, pauses.append)
    for region in ("us-west-2", "us-east-1", "eu-west-1"):
        assert pace.wait(Place(region, account="111122223333"), 100_000, DAY, 1.0)
    assert pauses == []


def test_a_call_whose_turn_comes_after_the_tick_is_not_made():
    pace = DatapointPace(lambda: 0.0, lambda _: None)
    assert pace.wait(HOME, 300_000, DAY, 1.0)
    assert not pace.wait(HOME, 1, DAY, 1.0)


def test_a_stream_pays_for_ticks_under_three_minutes_alone():
    polled = {
        minutes: price_of("cloudwatch", "get_metric_data", 60 // minutes * HOURS_A_MONTH)
        for minutes in (1, 3, 4, 5)
    }
    assert polled[4] < streamed_usd(1_000) / 1_000 < polled[3]
