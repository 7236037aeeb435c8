"""Receive EventBridge's events from SQS queues.

A message is deleted only once the tick that used it was saved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import orjson

from adapters.aws.api.calls import Calls, Place
from adapters.aws.api.history import KEPT, ApiCall, ResponseHistory
from adapters.aws.api.responses import MALFORMED
from adapters.aws.events.notices import (
    OPERATION,
    SERVICE,
    event_in,
    notice_of,
    pages_of,
    trimmed_message,
)
from bot.errors import Unavailable, WrongInput
from bot.model.fleet import Notice

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
                    self._delete(queue, mine[first : first + _MOST])
                except Unavailable as error:
                    failed.append(str(error))
                    break
        self.missing = (*self.missing, *failed)

    def _delete(
        self, queue: EventQueue, batch: Sequence[tuple[tuple[EventQueue, str], str]]
    ) -> None:
        entries = [{"Id": str(n), "ReceiptHandle": handle} for n, (_, handle) in enumerate(batch)]
        answer = self.calls.call(
            queue.place, SERVICE, "delete_message_batch", QueueUrl=queue.url, Entries=entries
        )
        for done in answer["Successful"]:
            del self._received[batch[int(done["Id"])][0]]

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
