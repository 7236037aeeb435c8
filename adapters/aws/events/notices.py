"""Receive EventBridge's events from SQS queues, and translate them into notices."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any

import orjson

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
from bot.model.codec import table
from bot.model.fleet import Notice, NoticeKind
from bot.model.labels import Labels
from bot.model.request import Check

if TYPE_CHECKING:
    from adapters.aws.api.calls import Calls  # boto3 is slow to load, and a recording needs none

SERVICE, OPERATION = "sqs", "receive_message"
_DONE = frozenset({"closed", "completed", "canceled", "cancelled"})
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
    """State the meaning of one kind of event.

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
        alike = (event["source"], detail_type(event)) == (self.source, self.detail_type)
        return alike and fnmatchcase(
            str(event["detail"].get("eventTypeCode", "")), self.code or "*"
        )


@cache
def notice_rows() -> tuple[NoticeRow, ...]:
    """Return every row, in the order in which the first that fits counts."""
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
        for row in table(__package__, "notices.csv")
    )


def detail_type(event: Mapping[str, Any]) -> str:
    """Return the type of an event; those of Capacity Blocks are documented with an underscore."""
    return str(event.get("detail-type") or event.get("detail_type") or "")


def event_in(message: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the event of EventBridge in a message, None where it holds something else."""
    try:
        event = orjson.loads(message["Body"])
        whole = isinstance(event["detail"], dict) and isinstance(event["source"], str)
        return event if whole and detail_type(event) and event["time"] else None
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
    trimmed = {name: event[name] for name in _KEPT if name in event}
    trimmed |= {"detail-type": detail_type(event), "detail": detail}
    return {"MessageId": str(message.get("MessageId", "")), "Body": orjson.dumps(trimmed).decode()}


def notices(pages: Pages, answer: ResponseInfo) -> tuple[Notice, ...]:
    """Translate answers of ReceiveMessage, one without `Messages` is an empty queue.

    Events of no known kind are left out.
    """
    events = (event_in(message) for page in pages for message in page.get("Messages") or ())
    return tuple(
        notice for event in events if event and (notice := notice_of(event, answer.region))
    )


def notice_of(event: Mapping[str, Any], region: str) -> Notice | None:
    """Return the notice that an event is, None for one of a kind that no row names."""
    row = next((row for row in notice_rows() if row.fits(event)), None)
    if row is None:
        return None
    detail, reservation = event["detail"], ""
    instances: list[str] = []
    if row.about == "reservation":
        reservation = str(detail.get("capacity-reservation-id", ""))
    elif row.about == "instance":
        instances = [str(detail["instance-id"])] if detail.get("instance-id") else []
    elif row.about == "entities":
        ids = (
            str(x.get("entityValue", "")).rpartition("/")[2]
            for x in detail.get("affectedEntities") or ()
            if x.get("status") not in ("RESOLVED", "UNIMPAIRED")
        )
        instances = list(dict.fromkeys(id for id in ids if id.startswith("i-")))

    # Some events say when it happens, others only how long before they are sent.
    stated = event["time"] if row.due == "time" else detail.get(row.due)
    fallback = f"{detail_type(event)} {reservation} {event['time']}"
    return Notice(
        id=str(event.get("id") or event.get("customer_event_id") or fallback),
        kind=row.kind,
        at=instant_of(event["time"]),
        labels=Labels(
            region=str(detail.get("eventRegion") or event.get("region") or region),
            account=str(detail.get("affectedAccount") or event.get("account") or ""),
        ),
        instances=tuple(instances),
        reservation=reservation,
        due=instant_of(stated) + timedelta(minutes=row.minutes) if stated else None,
        subject=reservation or str(detail.get("eventArn", "")).rpartition("/")[2],
        what=str(detail.get("instance-action") or detail.get("eventTypeCode") or ""),
        over=str(detail.get("statusCode", "")).lower() in _DONE,
    )


class Notices:
    """Hold every notice that was ever received, each once however often it was delivered.

    In the order AWS said them.
    """

    def __init__(self, responses: Responses) -> None:
        by_id = {
            notice.id: notice
            for history in responses.histories(SERVICE, OPERATION, notices)
            for _, received in history
            for notice in received
        }
        self._notices = sorted(by_id.values(), key=lambda notice: (notice.at, notice.id))

    def at(self, now: datetime, history: timedelta) -> tuple[Notice, ...]:
        """Return the notices that AWS had said by `now`; of a planned event the newest word counts.

        A notice is a fact from when it was said, whenever the message came.
        """
        newest: dict[str, Notice] = {}
        instances: dict[str, set[str]] = defaultdict(set)
        for notice in self._notices:
            if now - history < notice.at <= now:
                newest[notice.subject or notice.id] = notice
                instances[notice.subject or notice.id].update(notice.instances)
        return tuple(
            replace(notice, instances=tuple(sorted(instances[key])))
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
    r"https://sqs\.([a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com(?:\.cn)?"
    r"/(\d{12})/[\w-]{1,80}(?:\.fifo)?"
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
    if not (parts := _URL.fullmatch(text)):
        raise WrongInput(
            f"'{text}' is not a queue's URL; write TRNBOT_AWS_EVENTS="
            "https://sqs.us-west-2.amazonaws.com/111122223333/NAME."
        )
    return EventQueue(text, Place(parts[1], account=parts[2]))


@dataclass
class EventPoller:
    """Receive the messages of each queue with the process's own credentials.

    Delete it when told that it was used.
    """

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
        """Receive what waits.

        `missing` says what did not answer, and what is there beside events.
        """
        missing = []
        for queue in self.queues:
            messages = self._recalled(queue)
            before, strange = len(messages), 0
            try:
                for message in self._waiting(queue):
                    event = event_in(message)
                    if event is None:
                        strange += 1  # nobody's to delete here
                        continue
                    notice = _notice(event, queue)
                    # One that AWS sent after `now` is for the next reading: it is not used before.
                    used_at = max(now, notice.at) if notice else now

                    # A message that is received again has a new handle, and the older one is void.
                    key = (queue, str(message["MessageId"]))
                    self._received[key] = (used_at, str(message["ReceiptHandle"]))
                    if notice and notice.id not in messages:
                        messages[notice.id] = trimmed_message(message, event)
            except Unavailable as error:
                missing.append(str(error))
            if len(messages) > before:
                # All that is known is written as one answer: what was said once is not said again.
                messages = self._known[queue] = {
                    name: message
                    for name, message in messages.items()
                    if (notice := _notice(orjson.loads(message["Body"]), queue))
                    and max(notice.at, notice.due or notice.at) >= now - KEPT
                }
                self.responses.put(_call(queue), now, pages_of(list(messages.values())))
            if strange:
                missing.append(
                    f"{strange} messages of the queue {queue.name} in {queue.place} are not"
                    " EventBridge events and are left there: is it another program's queue?"
                )
        self.missing = tuple(missing)

    def settle(self, now: datetime) -> None:
        """Delete the messages that a reading of `now` had.

        What could not be deleted is received again, and is known by then.
        """
        failed = []
        for queue in self.queues:
            used = [
                (key, handle)
                for key, (used_at, handle) in self._received.items()
                if key[0] == queue and used_at <= now
            ]
            try:
                for first in range(0, len(used), _MOST):
                    batch = used[first : first + _MOST]
                    entries = [
                        {"Id": str(n), "ReceiptHandle": handle}
                        for n, (_, handle) in enumerate(batch)
                    ]
                    answer = self._ask(queue, "delete_message_batch", Entries=entries)
                    for entry in answer["Successful"]:
                        del self._received[batch[int(entry["Id"])][0]]
            except Unavailable as error:
                failed.append(str(error))
        self.missing = (*self.missing, *failed)

    def examined(self) -> Iterator[Check]:
        """Yield for each queue whether it answers, and how many messages wait in it.

        Receiving and deleting are tried so that nothing changes: a message stays visible to others,
        and no message has the handle.
        """
        for queue in self.queues:
            name = f"event queue {queue.name} in {queue.place.region}"
            attribute = "ApproximateNumberOfMessages"
            try:
                answer = self._ask(queue, "get_queue_attributes", AttributeNames=[attribute])
                self._ask(queue, OPERATION, MaxNumberOfMessages=1, VisibilityTimeout=0)
                self._ask(
                    queue, "delete_message_batch", Entries=[{"Id": "1", "ReceiptHandle": "none"}]
                )
            except Unavailable as error:
                yield Check(name, False, str(error))
            else:
                waiting = f"{answer['Attributes'].get(attribute, '?')} messages wait"
                count = f"{len(self._recalled(queue))} notices within the last {KEPT.days} days"
                yield Check(name, True, f"{waiting}; {count}")

    def _waiting(self, queue: EventQueue) -> Iterator[Mapping[str, Any]]:
        """Yield what waits in a queue, some answers of it at most."""
        for _ in range(_BATCHES):
            messages = self._ask(
                queue,
                OPERATION,
                MaxNumberOfMessages=_MOST,
                VisibilityTimeout=int(_HIDDEN.total_seconds()),
                WaitTimeSeconds=_WAIT_SECONDS,
            ).get("Messages")
            yield from messages or ()
            if not messages:
                return

    def _ask(self, queue: EventQueue, operation: str, **parameters: Any) -> Mapping[str, Any]:
        return self.calls.call(queue.place, SERVICE, operation, QueueUrl=queue.url, **parameters)

    def _recalled(self, queue: EventQueue) -> dict[str, dict[str, Any]]:
        """Return the messages that say something, from before a restart as well."""
        if queue not in self._known:
            self._known[queue] = {
                notice.id: message
                for page in self.responses.last(_call(queue))
                for message in page.get("Messages", ())
                if (event := event_in(message)) and (notice := _notice(event, queue))
            }
        return self._known[queue]


def _notice(event: Mapping[str, Any], queue: EventQueue) -> Notice | None:
    """Return the notice that an event is.

    None for one that is none or lacks what it should name.
    """
    try:
        return notice_of(event, queue.place.region)
    except MALFORMED:
        return None


def _call(queue: EventQueue) -> ApiCall:
    return ApiCall(SERVICE, OPERATION, queue.place, queue.name)
