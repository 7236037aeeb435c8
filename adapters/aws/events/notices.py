"""Translate messages of SQS that hold EventBridge's events into notices.

Which event means what are rows of `notices.csv`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any

import orjson

from adapters.aws.api.responses import MALFORMED, Pages, ResponseInfo, Responses, instant_of
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
