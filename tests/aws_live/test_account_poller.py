"""Ask who launched what, what EKS and Service Quotas say; let one broken part cost only itself."""

import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from adapters.aws.api.operations import DETAIL_RANK, Place, operations, stops_at
from adapters.aws.api.responses import ResponseHistory
from adapters.aws.config import ReadingConfig
from adapters.aws.files import Problems
from adapters.aws.inventory.ownership import REFUSED_CALLS
from adapters.aws.inventory.poller import MOST_LOOKUPS, LaunchPoller
from adapters.aws.recording.recording import open_recording
from bot.errors import Unavailable
from bot.model.fleet import FileSystem, Inventory
from bot.model.labels import Labels
from tests.aws_live.conftest import FIVE, TYPES
from tests.builders import NOON, instance

OTHER = "444455556666"
ROLE = f"arn:aws:iam::{OTHER}:role/trnbot-reader"
DAY = {"index": 0, "label": "<5%"}
ADVICE = {
    "ranges": [DAY],
    "spot_advisor": {"us-west-2": {"Linux": {"trn1.32xlarge": {"s": 69, "r": 0}}}},
}


def asked(world, action: str) -> int:
    return world.standin.called[action]


def test_a_live_account_knows_what_its_recording_knows(world, tiny):
    live = world.live()
    (now,) = world.ticks(0.25, 0.25)
    ours = live.read(now).inventory
    theirs = open_recording(tiny, ReadingConfig(FIVE, TYPES)).read(now).inventory
    assert {str(x.launched_by) for x in ours.instances.values()} == {
        str(x.launched_by) for x in theirs.instances.values()
    }
    assert all(x.launched_by.person for x in ours.instances.values())
    assert [(x.name, x.version, len(x.node_groups)) for x in ours.eks] == [
        (x.name, x.version, 1) for x in theirs.eks
    ]
    assert [(x.name, x.vcpus) for x in ours.quotas] == [(x.name, x.vcpus) for x in theirs.quotas]
    assert ours.quotas


def test_a_launch_is_asked_for_once_and_for_ever(world, tmp_path):
    live, pauses = None, []
    for hours in (2, 2.5):
        live = world.live(journal=tmp_path, pause=pauses.append)
        live.metrics.pace.pause = lambda _: None
        for now in world.ticks(hours, hours + 0.25):
            reading = live.read(now)
    assert all(x.launched_by for x in reading.inventory.instances.values())
    launches = {(x.launched_by.at, x.labels.cluster) for x in reading.inventory.instances.values()}
    stored = sum(
        isinstance(x, FileSystem) or not x.attached_to
        for x in (*reading.inventory.volumes, *reading.inventory.file_systems)
    )
    looks = 2 * len(REFUSED_CALLS)
    assert (
        asked(world, "cloudtrail:LookupEvents")
        == len(launches) + stored + len(reading.inventory.reservations) + looks
    )
    assert len(pauses) == asked(world, "cloudtrail:LookupEvents")
    assert all(0 <= pause <= 0.5 for pause in pauses)


class Events:
    """Stand for the calls: every lookup is answered with no event."""

    def __init__(self):
        self.asked = []

    def pages(self, place, service, operation, **given):
        self.asked.append(given["LookupAttributes"][0]["AttributeValue"])
        yield {"Events": []}


def test_a_tick_asks_for_some_launches_and_the_next_for_others():
    place = Place("us-west-2", account="111122223333")
    nodes = {f"i-{i}": instance(f"i-{i}") for i in range(MOST_LOOKUPS + 5)}
    labels = Labels(region=place.region, account=place.account)
    nodes = {name: replace(x, labels=x.labels.merge(labels)) for name, x in nodes.items()}
    calls, now = Events(), NOON
    launches = LaunchPoller(calls, ResponseHistory(Problems()), lambda: 0.0, lambda _: None)
    for _ in range(3):
        assert not list(launches.refresh([place], Inventory(now, nodes), now, 1.0))
    assert sorted(calls.asked) == sorted(nodes), "each once, though nobody knew the answer"
    assert not list(
        LaunchPoller(calls, ResponseHistory(Problems()), lambda: 2.0).refresh(
            [place], Inventory(now, nodes), now, 1.0
        )
    )
    assert len(calls.asked) == len(nodes), "no time is left, so nothing is asked"


def test_an_event_that_may_still_come_is_asked_for_again():
    place = Place("us-west-2", account="111122223333")
    young = replace(
        instance("i-1"),
        launched_at=NOON - FIVE,
        labels=Labels(instance="i-1", region="us-west-2", account=place.account),
    )
    calls, heard = Events(), ResponseHistory(Problems())
    launches = LaunchPoller(calls, heard, lambda: 0.0, lambda _: None)
    for minutes in (0, 5, 30, 35, 90):
        now = NOON + timedelta(minutes=minutes)
        assert not list(launches.refresh([place], Inventory(now, {"i-1": young}), now, 1.0))
    assert len(calls.asked) == 2, "after half an hour no event is the answer"


def test_one_denied_action_of_one_account_costs_only_its_part(world, caplog):
    caplog.set_level(logging.INFO, "trnbot.aws")
    denied = {f"ec2:DescribeVolumes@{OTHER}", f"cloudtrail:LookupEvents@{OTHER}"}
    live = world.live(roles=["self", ROLE], regions=["us-west-2", "us-east-1"])
    world.standin.faults.denied = denied
    for now in world.ticks(2, 2.5):
        reading = live.read(now)
        assert reading.gaps == (), "nodes and metrics are whole, so alerts may end"
    accounts = {x.labels.account for x in reading.inventory.instances.values()}
    assert accounts == {"111122223333", OTHER}
    assert {x.labels.account for x in reading.inventory.volumes} == {"111122223333"}
    told = [sentence for sentence in live.problems() if "denied" in sentence]
    assert {
        ("us-west-2" in x, OTHER in x, "allow ec2:DescribeVolumes" in x)
        for x in told
        if "Volumes" in x
    } == {
        (True, True, True),
        (False, True, True),
    }
    world.standin.faults.denied = set()
    for now in world.ticks(3.6, 4):
        reading = live.read(now)
    assert {x.labels.account for x in reading.inventory.volumes} == {"111122223333", OTHER}
    assert not [sentence for sentence in live.problems() if "denied" in sentence]
    said = [
        record.message
        for record in caplog.records
        if "DescribeVolumes in us-west-2" in record.message
    ]
    assert [("is denied" in x, "has recovered" in x) for x in said] == [
        (True, False),
        (False, True),
    ]


def test_instances_that_cannot_be_described_hold_the_alerts(world):
    live = world.live()
    (now,) = world.ticks(0.25, 0.25)
    live.read(now)
    world.standin.faults.denied = {"ec2:DescribeInstances"}
    (later,) = world.ticks(0.34, 0.34)
    reading = live.read(later)
    assert any("DescribeInstances" in gap for gap in map(str, reading.gaps))
    assert all(x.running for x in reading.inventory.instances.values())


def test_the_budget_stops_the_dearest_to_do_without_first(world):
    live = world.live(daily_usd=Decimal(1))
    tab, stopped = live.calls.meter, []
    for percent in range(0, 101, 10):
        tab.today().usd = Decimal(percent) / 100
        stopped.append({x.action for x in operations().values() if not tab.leaves(x.optional)})
    assert stopped[5] == set()
    assert stopped[7] == {"ec2:GetSpotPlacementScores"}
    assert {
        "pricing:GetProducts",
        "cloudtrail:LookupEvents",
        "servicequotas:ListServiceQuotas",
    } <= stopped[8]
    assert "eks:DescribeCluster" in stopped[9] - stopped[8]
    assert "s3:GetObject" in stopped[10] - stopped[9]
    never = {
        "cloudwatch:GetMetricData",
        "cloudwatch:ListMetrics",
        "ec2:DescribeInstances",
        "ec2:DescribeVolumes",
    }
    assert not never & stopped[10]
    assert [stops_at(rank) for rank in (DETAIL_RANK, 4, 3, 2, 1)] == [60, 70, 80, 90, 100]
    tab.today().usd = Decimal("0.6")
    assert live.calls.spent


def test_what_was_spent_outlives_the_process(world, tmp_path):
    file = tmp_path / "usage.json"
    (now,) = world.ticks(0.25, 0.25)
    one, two = world.live(usage=file), world.live(usage=file)
    one.read(now)
    spent = one.calls.meter.today().usd
    assert spent > 0
    two.read(now)
    both = world.live(usage=file, daily_usd=spent).calls.meter
    assert both.today().usd == 2 * spent
    assert both.today().calls["ec2:DescribeInstances"] == 2
    assert not both.leaves(1)
    file.write_text("{broken")
    assert world.live(usage=file).calls.meter.today().usd == 0


def test_the_own_bill_adds_up(world):
    live = world.live()
    world.standin.faults.denied = {"pricing:GetProducts"}
    (now,) = world.ticks(0.25, 0.25)
    live.read(now)
    bill = live.calls.meter.bill()
    assert sum(use.usd for use in bill.uses) == bill.usd > 0
    by_name = {use.operation: use for use in bill.uses}
    metrics = by_name["cloudwatch:GetMetricData"]
    assert metrics.units == world.standin.cloudwatch.requested
    assert metrics.source
    assert metrics.asof
    prices = len(TYPES) + len(("EBS", "FSx"))
    assert by_name["pricing:GetProducts"].failed == prices
    exposed = live.calls.exposition()
    assert f'trnbot_aws_failed_today{{operation="pricing:GetProducts"}} {prices}' in exposed
    assert (
        f'trnbot_aws_units_today{{operation="cloudwatch:GetMetricData"}} {metrics.units}' in exposed
    )


class _Advice(BaseHTTPRequestHandler):
    body = json.dumps(ADVICE).encode()

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


@pytest.fixture
def address() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Advice)
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    ).start()
    yield f"http://127.0.0.1:{server.server_port}/spot-advisor-data.json"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("kind", ["file", "address"])
def test_spot_chances_of_a_live_account(world, tmp_path, address, kind):
    (tmp_path / "advice.json").write_text(json.dumps(ADVICE))
    live = world.live(advisor=address if kind == "address" else str(tmp_path / "advice.json"))
    (now,) = world.ticks(0.25, 0.25)
    live.read(now)
    assert [(x.band, x.savings_ratio) for x in live.interruptions("trn1.32xlarge", now)] == [
        ("<5%", 0.69)
    ]
    assert [x.score for x in live.placement("trn1.32xlarge", now)] == [9]
    assert asked(world, "ec2:GetSpotPlacementScores") == 1


@pytest.mark.parametrize("content", [None, "{}", "<html>", '{"ranges": []}'])
def test_a_wrong_advisor_is_one_sentence_and_no_gap(world, tmp_path, content):
    place = tmp_path / "advice.json"
    if content is not None:
        place.write_text(content)
    live = world.live(advisor=str(place))
    (now,) = world.ticks(0.25, 0.25)
    assert live.read(now).gaps == ()
    assert len([x for x in live.problems() if "TRNBOT_AWS_SPOT_ADVISOR" in x]) == 1
    assert live.quotes("trn1.32xlarge", "us-west-2", now)


def test_a_garbled_list_of_clusters_is_not_no_cluster(world):
    live = world.live()
    (now,) = world.ticks(0.25, 0.25)
    known = live.read(now).inventory.eks
    world.standin.faults.garbled = 1.0
    world.now = now + timedelta(hours=1)
    live.read(world.now)
    assert live._snapshots().at(world.now).inventory.eks == known
    assert known
    with pytest.raises(Unavailable, match="an answer without clusters"):
        live.calls.call(live.places()[0], "eks", "list_clusters")
