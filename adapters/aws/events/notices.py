"""Receive EventBridge's events from SQS queues, and translate them into notices."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any

import orjson

from adapters.aws.api.calls import Calls
from adapters.aws.api.operations import Place
from adapters.aws.api.responses import (
    KEPT,
    MALFORMED,
    ApiCall,
    Pages,
    ResponseHistory,
    ResponseInfo,
    Responses,
    instant_of,
)
from bot.errors import Unavailable, WrongInput
from bot.model.fleet import Notice, NoticeKind
from bot.model.labels import Labels

SERVICE, OPERATION = "sqs", "receive_message"
_DONE = frozenset({"closed", "completed", "canceled", "cancelled"})
_RESOLVED = frozenset({"RESOLVED", "UNIMPAIRED"})
_KEPT = ("version", "id", "customer_event_id", "source", "account", "time", "region", "resources")
_KEPT_DETAIL = (
    "instance-id",
    "instance-action",
    "instance-termination-time",
    "capacity-reservation-id",
    "end-date",
    "eventArn",
    "eventTypeCode",
    "startTime",
    "endTime",
    "statusCode",
    "eventRegion",
    "affectedAccount",
)


@dataclass(frozen=True)
class NoticeRow:
    """State what one kind of event means.

    Whose it is, what it names, and when what it tells of happens.
    """

    source: str
    detail_type: str
    code: str
    """A pattern of AWS Health's event type code, "" for any."""
    kind: NoticeKind
    about: str
    due: str
    minutes: int

    def fits(self, event: Mapping[str, Any]) -> bool:
        """Return whether an event is of this row."""
        code = str(event["detail"].get("eventTypeCode", ""))
        named = (event["source"], detail_type(event)) == (self.source, self.detail_type)
        return named and (not self.code or fnmatchcase(code, self.code))


@cache
def notice_rows() -> tuple[NoticeRow, ...]:
    """Return every row, in the order in which the first that fits counts."""
    text = files(__package__).joinpath("notices.csv").read_text(encoding="utf-8")
    return tuple(
        NoticeRow(
            row["source"],
            row["detail_type"],
            row["code"],
            NoticeKind[row["kind"]],
            row["about"],
            row["due"],
            int(row["minutes"]),
        )
        for row in csv.DictReader(text.splitlines())
    )


def detail_type(event: Mapping[str, Any]) -> str:
    """Return the type of an event; those of Capacity Blocks are documented with an underscore."""
    return str(event.get("detail-type") or event.get("detail_type") or "")


def event_in(message: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the event of EventBridge in a message, None where it holds something else."""
    try:
        event = orjson.loads(message["Body"])
        whole = (
            isinstance(event["detail"], dict)
            and isinstance(event["source"], str)
            and bool(detail_type(event))
        )
        return event if whole and bool(event["time"]) else None
    except MALFORMED:
        return None


def trimmed_message(message: Mapping[str, Any], event: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message with no more of its event than is read.

    AWS Health's texts are long and name what they like.
    """
    detail = {name: event["detail"][name] for name in _KEPT_DETAIL if name in event["detail"]}
    entities = event["detail"].get("affectedEntities")
    if isinstance(entities, list):
        detail["affectedEntities"] = [
            {name: x[name] for name in ("entityValue", "status") if name in x}
            for x in entities
            if isinstance(x, dict)
        ]
    kept = {name: event[name] for name in _KEPT if name in event} | {
        "detail-type": detail_type(event),
        "detail": detail,
    }
    return {"MessageId": str(message.get("MessageId", "")), "Body": orjson.dumps(kept).decode()}


def notices(pages: Pages, answer: ResponseInfo) -> tuple[Notice, ...]:
    """Translate answers of ReceiveMessage, one without `Messages` is an empty queue.

    Events of no known kind are left out.
    """
    events = (event_in(message) for page in pages for message in page.get("Messages") or ())
    return tuple(found for event in events if event and (found := notice_of(event, answer.region)))


def notice_of(event: Mapping[str, Any], region: str) -> Notice | None:
    """Return the notice that an event is, None for one of a kind that no row names."""
    row = next((row for row in notice_rows() if row.fits(event)), None)
    if row is None:
        return None
    detail, at = event["detail"], instant_of(event["time"])
    labels = Labels(
        region=str(detail.get("eventRegion") or event.get("region") or region),
        account=str(detail.get("affectedAccount") or event.get("account") or ""),
    )
    reservation = (
        str(detail.get("capacity-reservation-id", "")) if row.about == "reservation" else ""
    )
    return Notice(
        id=str(
            event.get("id")
            or event.get("customer_event_id")
            or f"{detail_type(event)} {reservation} {event['time']}"
        ),
        kind=row.kind,
        at=at,
        labels=labels,
        instances=tuple(_instances(row, detail)),
        reservation=reservation,
        due=_due(row, event, at),
        subject=reservation or str(detail.get("eventArn", "")).rpartition("/")[2],
        what=str(detail.get("instance-action") or detail.get("eventTypeCode") or ""),
        over=str(detail.get("statusCode", "")).lower() in _DONE,
    )


def _instances(row: NoticeRow, detail: Mapping[str, Any]) -> Iterator[str]:
    if row.about == "instance":
        yield from filter(None, [str(detail.get("instance-id", ""))])
    elif row.about == "entities":
        named = (
            x for x in detail.get("affectedEntities") or () if x.get("status") not in _RESOLVED
        )
        ids = (str(x.get("entityValue", "")).rpartition("/")[2] for x in named)
        yield from dict.fromkeys(id for id in ids if id.startswith("i-"))


def _due(row: NoticeRow, event: Mapping[str, Any], at: datetime) -> datetime | None:
    told = at if row.due == "time" else event["detail"].get(row.due)
    if not told:
        return None
    return (told if isinstance(told, datetime) else instant_of(told)) + timedelta(
        minutes=row.minutes
    )


class Notices:
    """Hold every notice that was ever received, each once however often it was delivered, in the order AWS said them."""

    def __init__(self, responses: Responses) -> None:
        every = (
            notice
            for history in responses.histories(SERVICE, OPERATION, notices)
            for _, received in history
            for notice in received
        )
        by_id = {notice.id: notice for notice in every}
        self._said = sorted(by_id.values(), key=lambda notice: (notice.at, notice.id))

    def at(self, now: datetime, history: timedelta) -> tuple[Notice, ...]:
        """Return the notices that AWS had said by `now`; of a planned event the newest word counts.

        A notice is a fact from when it was said, whenever the message came.
        """
        said = [notice for notice in self._said if now - history < notice.at <= now]
        newest = {notice.subject or notice.id: notice for notice in said}
        named: dict[str, set[str]] = {}
        for notice in said:
            named.setdefault(notice.subject or notice.id, set()).update(notice.instances)
        return tuple(
            replace(notice, instances=tuple(sorted(named[key])))
            for key, notice in newest.items()
            if not notice.over
        )


def pages_of(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return messages as answers of ReceiveMessage, which hold ten at most."""
    return [
        {"Messages": list(messages[first : first + 10])}
        for first in range(0, max(1, len(messages)), 10)
    ]


_URL = re.compile(
    r"https://sqs\.([a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com(?:\.cn)?/(\d{12})/[\w-]{1,80}(?:\.fifo)?"
)
_MOST, _BATCHES = 10, 20
"""Messages an answer, and answers a tick: 200 notices."""
_HIDDEN = timedelta(minutes=10)
"""How long a message that was received is kept from being received again.

Longer than a tick until it is saved.
"""
_WAIT_SECONDS = 1
"""Above 0 every server of the queue is asked.

Without it an answer may be empty though messages wait (SQS, long polling).
"""


@dataclass(frozen=True)
class EventQueue:
    """Name one queue, and where it is."""

    url: str
    place: Place

    @property
    def name(self) -> str:
        """Return the queue's name."""
        return self.url.rpartition("/")[2]


def read_event_queue(text: str) -> EventQueue:
    """Read the URL of a queue; raise `WrongInput` for a text that is none."""
    found = _URL.fullmatch(text)
    if not found:
        raise WrongInput(
            f"'{text}' is no queue's URL; write TRNBOT_AWS_EVENTS=https://sqs.us-west-2.amazonaws.com/111122223333/NAME."
        )
    return EventQueue(text, Place(found[1], account=found[2]))


@dataclass
class EventPoller:
    """Receive what waits in each queue with the process's own credentials, and delete it when told that it was used."""

    calls: Calls
    responses: ResponseHistory
    queues: Sequence[EventQueue]
    missing: tuple[str, ...] = ()
    """What the last look could not have."""
    _known: dict[EventQueue, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """The messages of each queue that say something, by their events' ids."""
    _received: dict[tuple[EventQueue, str], tuple[datetime, str]] = field(default_factory=dict)
    """When each message that is not deleted yet was last received, and its newest handle."""

    def receive(self, now: datetime) -> None:
        """Receive what waits; `missing` says what did not answer, and what is there beside events."""
        missing = []
        for queue in self.queues:
            known = self._recalled(queue)
            before, strange = len(known), 0
            try:
                for message in self._waiting(queue):
                    strange += not self._take(queue, message, now)
            except Unavailable as error:
                missing.append(str(error))
            if len(known) > before:
                self._keep(queue, now)
            if strange:
                missing.append(
                    f"{strange} messages of the queue {queue.name} in {queue.place} are no events of EventBridge and are left"
                    " there: is it another program's queue?"
                )
        self.missing = tuple(missing)

    def settle(self, now: datetime) -> None:
        """Delete what a reading of `now` had.

        What could not be deleted is received again, and is known by then.
        """
        failed = []
        for queue in self.queues:
            mine = [
                (key, handle)
                for key, (at, handle) in self._received.items()
                if key[0] == queue and at <= now
            ]
            for first in range(0, len(mine), _MOST):
                try:
                    batch = mine[first : first + _MOST]
                    entries = [
                        {"Id": str(n), "ReceiptHandle": handle}
                        for n, (_, handle) in enumerate(batch)
                    ]
                    answer = self.calls.call(
                        queue.place,
                        SERVICE,
                        "delete_message_batch",
                        QueueUrl=queue.url,
                        Entries=entries,
                    )
                    for done in answer["Successful"]:
                        del self._received[batch[int(done["Id"])][0]]
                except Unavailable as error:
                    failed.append(str(error))
                    break
        self.missing = (*self.missing, *failed)

    def examined(self) -> Iterator[tuple[str, bool, str]]:
        """Yield for each queue whether it answers, and how many messages wait in it.

        None is received.
        """
        for queue in self.queues:
            name = f"event queue {queue.name} in {queue.place.region}"
            wanted = ["ApproximateNumberOfMessages"]
            try:
                answer = self.calls.call(
                    queue.place,
                    SERVICE,
                    "get_queue_attributes",
                    QueueUrl=queue.url,
                    AttributeNames=wanted,
                )
            except Unavailable as error:
                yield name, False, str(error)
            else:
                said = self._recalled(queue)
                waiting = answer["Attributes"].get(wanted[0], "?")
                yield (
                    name,
                    True,
                    f"{waiting} messages wait; {len(said)} notices within the last {KEPT.days} days",
                )

    def _waiting(self, queue: EventQueue) -> Iterator[Mapping[str, Any]]:
        given: dict[str, Any] = {
            "QueueUrl": queue.url,
            "MaxNumberOfMessages": _MOST,
            "VisibilityTimeout": int(_HIDDEN.total_seconds()),
            "WaitTimeSeconds": _WAIT_SECONDS,
        }
        for _ in range(_BATCHES):
            messages = (
                self.calls.call(queue.place, SERVICE, OPERATION, **given).get("Messages") or ()
            )
            yield from messages
            if not messages:
                return

    def _take(self, queue: EventQueue, message: Mapping[str, Any], now: datetime) -> bool:
        """Take in one message, and return whether it holds an event.

        What holds none is nobody's to delete here.
        """
        event = event_in(message)
        if event is None:
            return False
        notice = _notice(event, queue)
        # One that AWS sent after `now` is for the next reading: it is not used before.
        used_at = max(now, notice.at) if notice else now
        self._received[queue, str(message["MessageId"])] = (used_at, str(message["ReceiptHandle"]))
        if notice and notice.id not in self._known[queue]:
            self._known[queue][notice.id] = trimmed_message(message, event)
        return True

    def _recalled(self, queue: EventQueue) -> dict[str, dict[str, Any]]:
        """Return the messages that say something, from before a restart as well."""
        if queue not in self._known:
            known = self._known[queue] = {}
            for page in self.responses.last(_call(queue)):
                for message in page.get("Messages", ()):
                    event = event_in(message)
                    if event and (notice := _notice(event, queue)):
                        known[notice.id] = message
        return self._known[queue]

    def _keep(self, queue: EventQueue, now: datetime) -> None:
        """Write all that is known as one answer: what a queue said once is not said again."""
        known = self._known[queue]
        for name, message in list(known.items()):
            notice = _notice(orjson.loads(message["Body"]), queue)
            if notice is None or max(notice.at, notice.due or notice.at) < now - KEPT:
                del known[name]
        self.responses.put(_call(queue), now, pages_of(list(known.values())))


def _notice(event: Mapping[str, Any], queue: EventQueue) -> Notice | None:
    """Return the notice that an event is, None for one that is none or lacks what it should name."""
    try:
        return notice_of(event, queue.place.region)
    except MALFORMED:
        return None


def _call(queue: EventQueue) -> ApiCall:
    return ApiCall(SERVICE, OPERATION, queue.place, queue.name)
