"""Count from CloudTrail how often a type was refused for lack of capacity, slowly, and replay it from a recording."""

import json
from datetime import timedelta

import pytest

from adapters.aws.api.responses import ResponseInfo
from adapters.aws.config import ReadingConfig
from adapters.aws.inventory.ownership import refusals_in, trimmed_events
from adapters.aws.live.record import record
from adapters.aws.recording.recording import open_recording
from bot.model.fleet import scarcities
from tests.aws_live.conftest import FIVE, TYPES
from tests.aws_live.serialize import validated
from tests.builders import NOON

HERE = ResponseInfo("us-west-2", "refusals", "111122223333", NOON)
MESSAGE = (
    "We currently do not have sufficient trn1.32xlarge capacity in the Availability Zone you"
    " requested (us-west-2c)."
    " Our system will be working on provisioning additional capacity."
)
SECRETS = ("203.0.113.7", "aws-cli/2", "AIDAPRINCIPAL", "ami-0secret", "my-key-pair")


def event(at, name="RunInstances", number=0, **record):
    told = {
        "eventName": name,
        "userIdentity": {
            "type": "AssumedRole",
            "principalId": SECRETS[2],
            "arn": "arn:aws:sts::111122223333:assumed-role/ci/7",
        },
        "sourceIPAddress": SECRETS[0],
        "userAgent": SECRETS[1],
        **record,
    }
    return {
        "EventId": f"event-{at:%H%M%S}-{number}",
        "EventName": name,
        "EventTime": at.isoformat(),
        "EventSource": "ec2.amazonaws.com",
        "Username": "7",
        "Resources": [],
        "CloudTrailEvent": json.dumps(told),
    }


def refused(
    at, zone="us-west-2b", spot=False, code="Server.InsufficientInstanceCapacity", number=0
):
    market = {"instanceMarketOptions": {"marketType": "spot"}} if spot else {}
    asked = {
        "instancesSet": {
            "items": [{"imageId": SECRETS[3], "minCount": 4, "maxCount": 4, "keyName": SECRETS[4]}]
        },
        "instanceType": "trn1.32xlarge",
        "availabilityZone": zone,
    }
    return event(
        at, number=number, errorCode=code, errorMessage=MESSAGE, requestParameters=asked | market
    )


def fleet(at, *zones):
    """Return a CreateFleet that succeeded without everything that it asked for."""
    item = lambda zone: {  # noqa: E731
        "errorCode": "InsufficientInstanceCapacity",
        "errorMessage": "There is no Spot capacity available that matches your request.",
        "lifecycle": "spot",
        "launchTemplateAndOverrides": {
            "overrides": {"instanceType": "trn1.32xlarge", "availabilityZone": zone}
        },
    }
    answer = {
        "CreateFleetResponse": {
            "fleetId": "fleet-1",
            "errorSet": {"item": [item(zone) for zone in zones]},
        }
    }
    return event(at, "CreateFleet", responseElements=answer)


def counts(reading):
    return {x.zone: (x.refused, x.spot) for x in scarcities(reading.refusals, "trn1.32xlarge")}


@pytest.fixture
def at(world):
    return next(world.ticks(0.25, 0.25))


def test_refusals_are_counted_by_type_and_zone(world, at):
    world.standin.trail = [
        refused(at - timedelta(hours=2)),
        refused(at - timedelta(hours=1), spot=True),
        refused(
            at - timedelta(minutes=30), "us-west-2c", code="Client.InsufficientInstanceCapacity"
        ),
        refused(at - timedelta(minutes=20), code="Client.UnauthorizedOperation"),
        fleet(at - timedelta(minutes=10), "us-west-2b", "us-west-2d"),
    ]
    for one in world.standin.trail:
        validated("cloudtrail", "LookupEvents", {"Events": [{**one, "EventTime": NOON}]})
    assert counts(world.live().read(at)) == {
        "us-west-2b": (3, 2),
        "us-west-2c": (1, 0),
        "us-west-2d": (1, 1),
    }


def test_it_looks_twice_an_hour_two_a_second_and_counts_nothing_twice(world, at):
    pauses = []
    world.standin.trail = [refused(at - timedelta(minutes=5))]
    live = world.live(pause=pauses.append)
    live.read(at)
    before = world.standin.called["cloudtrail:LookupEvents"]
    world.now = at + FIVE
    live.read(world.now)
    assert world.standin.called["cloudtrail:LookupEvents"] == before
    world.standin.trail.append(refused(at + timedelta(minutes=20), number=1))
    world.now = at + timedelta(minutes=30)
    assert counts(live.read(world.now)) == {"us-west-2b": (2, 0)}
    assert world.standin.called["cloudtrail:LookupEvents"] == before + 2
    assert (
        len(pauses) >= world.standin.called["cloudtrail:LookupEvents"]
    )  # reading metrics pauses too


def test_an_event_that_is_delivered_late_is_counted(world, at):
    live = world.live()
    live.read(at)
    world.standin.trail = [refused(at - timedelta(minutes=15))]
    world.now = at + timedelta(minutes=30)
    assert counts(live.read(world.now)) == {"us-west-2b": (1, 0)}


def test_the_message_names_type_and_zone_where_the_request_does_not():
    told = event(
        NOON,
        errorCode="Server.InsufficientInstanceCapacity",
        errorMessage=MESSAGE,
        requestParameters={"subnetId": "s-1"},
    )
    (one,) = refusals_in(told, HERE)
    assert (one.labels.instance_type, one.labels.zone, one.spot) == (
        "trn1.32xlarge",
        "us-west-2c",
        False,
    )


def test_what_is_kept_counts_the_same_and_holds_no_secret():
    events = [refused(NOON, spot=True), fleet(NOON, "us-west-2b")]
    kept = trimmed_events(events)
    assert [list(refusals_in(x, HERE)) for x in kept] == [
        list(refusals_in(x, HERE)) for x in events
    ]
    assert trimmed_events(kept) == kept
    assert not [secret for secret in SECRETS if secret in json.dumps(kept)]


def test_a_recording_and_a_restart_know_the_refusals(world, at, tmp_path):
    world.standin.trail = [
        refused(at - timedelta(hours=1)),
        fleet(at - timedelta(minutes=10), "us-west-2c"),
    ]
    live = world.live(journal=tmp_path / "journal")
    heard = live.read(at).refusals
    record(live, tmp_path / "made", at - timedelta(hours=2), at)
    again = open_recording(tmp_path / "made", ReadingConfig(FIVE, TYPES))
    assert again.read(at).refusals == heard
    assert len(again.read(at - timedelta(minutes=30)).refusals) == 1
    world.standin.trail = []
    assert world.live(journal=tmp_path / "journal").read(at).refusals == heard


def test_where_nobody_may_ask_nothing_is_said(world, at):
    world.standin.faults.denied = {"cloudtrail:LookupEvents"}
    reading = world.live().read(at)
    assert (reading.refusals, reading.gaps) == (None, ())


def test_what_is_empty_in_a_request_is_looked_for_deeper_and_in_the_message():
    """The first text that says something counts, wherever it stands, and whichever of two forms."""
    deep = {"availabilityZone": "", "items": [{"x": [1, None]}, {"availabilityZone": "us-west-2b"}]}
    for parameters, zone in (
        (deep, "us-west-2b"),
        ({"availabilityZone": ""}, "us-west-2c"),
        ({}, "us-west-2c"),
    ):
        told = event(
            NOON,
            errorCode="Server.InsufficientInstanceCapacity",
            errorMessage=MESSAGE,
            requestParameters={"instanceType": "trn1.32xlarge", **parameters},
        )
        (found,) = refusals_in(told, HERE)
        assert (found.labels.zone, found.labels.region) == (zone, "us-west-2")
    assert list(refusals_in({**told, "EventName": "StopInstances"}, HERE)) == []
