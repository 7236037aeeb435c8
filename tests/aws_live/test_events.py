"""Notices come from SQS into a tick, once each; a message is deleted only after the tick that used it was saved."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from adapters.aws.config import ReadingConfig
from adapters.aws.events.notices import notice_of, notice_rows, read_event_queue
from adapters.aws.live.doctor import examine
from adapters.aws.live.record import record
from adapters.aws.recording.recording import open_recording
from bot.errors import WrongInput
from bot.model.fleet import NoticeKind
from tests.aws_live.conftest import FIVE, TYPES, open_tiny
from tests.aws_live.serialize import validated
from tests.aws_live.serving import ACCOUNT

QUEUE = f"https://sqs.us-west-2.amazonaws.com/{ACCOUNT}/trnbot-events"


def event(kind, at, source="aws.ec2", name="e-1", **detail):
    """Return an event as EventBridge delivers it."""
    return {
        "version": "0",
        "id": name,
        "detail-type": kind,
        "source": source,
        "account": ACCOUNT,
        "time": f"{at:%Y-%m-%dT%H:%M:%SZ}",
        "region": "us-west-2",
        "resources": [],
        "detail": {name.replace("_", "-"): value for name, value in detail.items()},
    }


def interruption(instance, at, name="e-1"):
    kind = "EC2 Spot Instance Interruption Warning"
    return event(kind, at, name=name, instance_id=instance, instance_action="terminate")


def health(code, *instances, at, starts, status="upcoming", name="e-2"):
    """Return an event of AWS Health as its user guide shows one."""
    made = event("AWS Health Event", at, source="aws.health", name=name)
    made["detail"] = {
        "eventArn": f"arn:aws:health:us-west-2::event/EC2/{code}/{code}_90353408594353980",
        "service": "EC2",
        "eventTypeCode": code,
        "eventTypeCategory": "scheduledChange",
        "startTime": f"{starts:%a, %d %b %Y %H:%M:%S GMT}",
        "statusCode": status,
        "eventRegion": "us-west-2",
        "eventDescription": [
            {"language": "en_US", "latestDescription": "Ask ada@example.com about it."}
        ],
        "affectedEntities": [{"entityValue": x, "status": "PENDING"} for x in instances],
        "page": "1",
        "totalPages": "1",
        "affectedAccount": ACCOUNT,
    }
    return made


def block_end(at, ends):
    return {
        "customer_event_id": "cr-1-approaching-expiry",
        "detail_type": "Capacity Block Expiration Warning",
        "source": "aws.ec2",
        "account": ACCOUNT,
        "time": f"{at:%Y-%m-%dT%H:%M:%SZ}",
        "resources": ["arn:aws:ec2:us-west-2:111122223333:capacity-reservation/cr-1"],
        "detail": {"capacity-reservation-id": "cr-1", "end-date": f"{ends:%Y-%m-%dT%H:%M:%SZ}"},
    }


@pytest.fixture
def at(world):
    """Return a tick of the world."""
    return next(world.ticks(0.25, 0.25))


def test_a_notice_is_in_the_reading_of_the_tick_that_received_it(world, at):
    world.standin.queue.put(interruption("i-1", at - timedelta(seconds=40)))
    live = world.live(events=[QUEUE])
    live.receive(at)
    (notice,) = live.read(at).notices
    assert (notice.kind, notice.instances, notice.what) == (
        NoticeKind.INTERRUPTION,
        ("i-1",),
        "terminate",
    )
    assert notice.due == at + timedelta(seconds=80)
    assert (notice.labels.region, notice.labels.account) == ("us-west-2", ACCOUNT)
    assert not [x for x in live.problems() if "The history of" not in x]


def test_a_message_is_deleted_only_after_the_tick_that_used_it_was_saved(world, at):
    world.standin.queue.put(interruption("i-1", at))
    live = world.live(events=[QUEUE])
    live.receive(at)
    live.read(at)
    assert world.standin.queue.bodies
    live.settle(at - FIVE)
    assert world.standin.queue.bodies
    live.settle(at)
    assert not world.standin.queue.bodies


def test_a_message_that_was_sent_after_a_tick_began_is_left_for_the_next_one(world, at):
    world.standin.queue.put(interruption("i-1", at + timedelta(minutes=1)))
    live = world.live(events=[QUEUE])
    live.receive(at)
    assert live.read(at).notices == ()
    live.settle(at)
    assert world.standin.queue.bodies
    assert len(live.read(at + FIVE).notices) == 1
    live.settle(at + FIVE)
    assert not world.standin.queue.bodies


def test_what_was_not_saved_comes_again_and_is_still_one_notice(world, at):
    world.standin.queue.put(interruption("i-1", at))
    live = world.live(events=[QUEUE])
    live.receive(at)
    world.now = at + 3 * FIVE
    live.receive(world.now)
    assert len(live.read(world.now).notices) == 1
    live.settle(world.now)
    assert not world.standin.queue.bodies


def test_a_duplicate_and_what_comes_out_of_order_do_not_double(world, at):
    for seconds in (10, 50, 10):
        world.standin.queue.put(
            interruption(f"i-{seconds}", at - timedelta(seconds=seconds), name=f"e-{seconds}")
        )
    live = world.live(events=[QUEUE])
    live.receive(at)
    assert [x.instances for x in live.read(at).notices] == [("i-50",), ("i-10",)]


def test_a_restart_remembers_what_was_deleted(world, at, tmp_path):
    world.standin.queue.put(interruption("i-1", at))
    first = world.live(events=[QUEUE], journal=tmp_path / "journal")
    first.receive(at)
    first.settle(at)
    world.now = at + FIVE
    second = world.live(events=[QUEUE], journal=tmp_path / "journal")
    second.receive(world.now)
    assert [x.id for x in second.read(world.now).notices] == ["e-1"]


def test_a_question_hears_nothing_and_hides_nothing_from_the_watch(world, at):
    world.standin.queue.put(interruption("i-1", at))
    assert world.live(events=[QUEUE]).read(at).notices == ()
    watch = world.live(events=[QUEUE])
    watch.receive(at)
    assert len(watch.read(at).notices) == 1


def test_messages_of_another_program_are_left_alone_and_named(world, at):
    for body in ("not json", json.dumps({"order": 17}), json.dumps([1, 2])):
        world.standin.queue.put(body)
    live = world.live(events=[QUEUE])
    live.receive(at)
    live.settle(at)
    assert len(world.standin.queue.bodies) == 3
    assert any(
        "3 messages of the queue trnbot-events" in x and "another program's queue" in x
        for x in live.problems()
    )


def test_events_that_mean_nothing_here_are_taken_away(world, at):
    world.standin.queue.put(
        event("EC2 Instance State-change Notification", at, instance_id="i-1", state="running")
    )
    live = world.live(events=[QUEUE])
    live.receive(at)
    live.settle(at)
    assert not world.standin.queue.bodies
    assert live.read(at).notices == ()


def test_without_the_permission_the_watch_goes_on_and_doctor_says_so(world, at):
    world.standin.faults.denied = {"sqs:ReceiveMessage", "sqs:GetQueueAttributes"}
    live = world.live(events=[QUEUE])
    live.receive(at)
    reading = live.read(at)
    assert (reading.notices, reading.gaps) == ((), ())
    assert any("allow sqs:ReceiveMessage" in x for x in live.problems())
    (check,) = (x for x in examine(live) if "event queue" in x.name)
    assert not check.ok


def test_doctor_counts_what_waits_and_hides_none_of_it(world, at):
    world.standin.queue.put(interruption("i-1", at))
    live = world.live(events=[QUEUE])
    (check,) = (x for x in examine(live) if "event queue" in x.name)
    assert check.ok
    assert check.found.startswith("1 messages wait")
    assert all(seen <= world.standin.now for seen in world.standin.queue.visible.values())


def test_no_queue_is_asked_unless_it_is_named(world, at):
    live = world.live()
    live.receive(at)
    live.settle(at)
    assert not [name for name in world.standin.called if name.startswith("sqs")]


def test_a_recording_holds_what_was_heard_without_texts_and_replays_it(world, at, tmp_path):
    known = open_tiny(world.standin.folder).read(at).frame("node").things[0].instance
    plan = health(
        "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED",
        known,
        at=at - FIVE,
        starts=at + timedelta(days=9),
    )
    world.standin.queue.put(interruption(known, at - timedelta(minutes=1)))
    world.standin.queue.put(plan)
    live = world.live(events=[QUEUE], journal=tmp_path / "journal")
    live.receive(at)
    heard = live.read(at).notices
    live.settle(at)
    record(live, tmp_path / "made", at - timedelta(hours=2), at)
    (path,) = (tmp_path / "made/api/sqs/receive_message/us-west-2").glob("*.json")
    for page in json.loads(path.read_text()):
        validated("sqs", "ReceiveMessage", page)
    assert "example" not in path.read_text()
    again = open_recording(tmp_path / "made", ReadingConfig(FIVE, TYPES))
    assert again.read(at).notices == heard
    assert {x.kind for x in heard} == {NoticeKind.INTERRUPTION, NoticeKind.RETIREMENT}
    assert [x.kind for x in again.read(at - timedelta(minutes=2)).notices] == [
        NoticeKind.RETIREMENT
    ]


def test_what_aws_health_took_back_is_no_notice_any_more(world, at):
    code, starts = "AWS_EC2_INSTANCE_REBOOT_MAINTENANCE_SCHEDULED", at + timedelta(days=3)
    live = world.live(events=[QUEUE])
    world.standin.queue.put(
        health(code, "i-1", at=at - timedelta(hours=2), starts=starts, name="e-1")
    )
    world.standin.queue.put(
        health(code, "i-2", at=at - timedelta(hours=1), starts=starts, name="e-2")
    )
    live.receive(at)
    (notice,) = live.read(at).notices
    assert (notice.kind, notice.instances, notice.due) == (
        NoticeKind.MAINTENANCE,
        ("i-1", "i-2"),
        starts,
    )
    world.standin.queue.put(health(code, at=at, starts=starts, status="closed", name="e-3"))
    live.receive(at)
    assert live.read(at).notices == ()


NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("sent", "kind", "due"),
    [
        (interruption("i-1", NOW), NoticeKind.INTERRUPTION, timedelta(minutes=2)),
        (
            event("EC2 Instance Rebalance Recommendation", NOW, instance_id="i-1"),
            NoticeKind.REBALANCE,
            None,
        ),
        (
            event(
                "EC2 Capacity Reservation Instance Interruption Warning",
                NOW,
                instance_id="i-1",
                instance_termination_time="2026-11-20T12:02:05Z",
            ),
            NoticeKind.INTERRUPTION,
            timedelta(minutes=2, seconds=5),
        ),
        (block_end(NOW, NOW + timedelta(minutes=40)), NoticeKind.BLOCK_END, timedelta(minutes=10)),
        (
            health("AWS_EC2_INSTANCE_STOP_SCHEDULED", "i-1", at=NOW, starts=NOW + FIVE),
            NoticeKind.RETIREMENT,
            FIVE,
        ),
        (
            health("AWS_EC2_INSTANCE_STORE_DRIVE_PERFORMANCE_DEGRADED", "i-1", at=NOW, starts=NOW),
            NoticeKind.HEALTH,
            None,
        ),
    ],
)
def test_every_documented_event_is_understood(sent, kind, due):
    notice = notice_of(sent, "us-west-2")
    assert (notice.kind, notice.due and notice.due - NOW) == (kind, due)
    assert notice.instances == (("i-1",) if kind is not NoticeKind.BLOCK_END else ())
    assert notice.reservation == ("cr-1" if kind is NoticeKind.BLOCK_END else "")


def test_an_event_of_another_service_is_no_notice():
    other = health("AWS_RDS_MAINTENANCE_SCHEDULED", at=NOW, starts=NOW)
    assert notice_of(other, "us-west-2") is None


def test_every_kind_has_a_row():
    assert {row.kind for row in notice_rows()} == set(NoticeKind)


@pytest.mark.parametrize(
    "text",
    ["", "trnbot-events", "http://sqs.us-west-2.amazonaws.com/111122223333/q", f"{QUEUE}/more"],
)
def test_what_is_no_queue_is_refused(text):
    with pytest.raises(WrongInput, match="is not a queue's URL"):
        read_event_queue(text)
