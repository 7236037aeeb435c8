"""Look for launches that AWS refused, twice an hour."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from adapters.aws.api.calls import Calls, Place
from adapters.aws.api.history import KEPT, ApiCall, ResponseHistory
from adapters.aws.api.responses import ResponseInfo, required
from adapters.aws.inventory.identities import trimmed_events
from adapters.aws.inventory.refusals import REFUSED_CALLS, refusals_in
from adapters.aws.inventory.trail import OPERATION, REFUSALS, SERVICE, SPACING_SECONDS
from bot.errors import Unavailable

_EVERY = timedelta(minutes=29)
_BACK = timedelta(days=1)
"""How far the first look reaches back."""
_LATE = timedelta(minutes=20)
"""So late an event may be delivered (CloudTrail User Guide: about 5 minutes on average).

It is looked for once more.
"""
_PAGES = 10
"""Pages of one call's events a look, 50 events each."""


@dataclass
class RefusalPoller:
    """Look twice an hour for launches that were refused.

    All that are known are one answer, so the newest says them all.
    """

    calls: Calls
    responses: ResponseHistory
    stopwatch: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    answers: int = 0
    """How many looks were answered whole so far."""
    _asked: dict[Place, datetime] = field(default_factory=dict)
    _read: dict[tuple[Place, str], datetime] = field(default_factory=dict)
    """Until when the events of a call were read whole."""

    def refresh(self, places: Sequence[Place], now: datetime, deadline: float) -> Iterator[str]:
        """Look at the places that are due.

        Yield a sentence for each that fails, or has more events than are read.
        """
        for place in places:
            if self.stopwatch() >= deadline:
                return
            before = self._asked.get(place)
            if before is None or now - before >= _EVERY:
                self._asked[place] = now
                yield from self._look(place, now)

    def _look(self, place: Place, now: datetime) -> Iterator[str]:
        call = ApiCall(SERVICE, OPERATION, place, REFUSALS)
        info = ResponseInfo(
            SERVICE, OPERATION, place.region, REFUSALS, place.account, now, Path(OPERATION)
        )
        known = {
            _name(event): event
            for page in self.responses.last(call)
            for event in page.get("Events", ())
        }
        for name in REFUSED_CALLS:
            try:
                events, whole = self._events(place, name, now)
            except Unavailable as error:
                yield str(error)
                return
            trimmed: list[dict[str, Any]] = orjson.loads(orjson.dumps(trimmed_events(events)))
            known |= {_name(event): event for event in trimmed if any(refusals_in(event, info))}
            self._read[place, name] = now
            if not whole:
                yield f"AWS cloudtrail:LookupEvents in {place}: only the newest {_PAGES * 50} events of {name} were read."
        kept = [
            event
            for event in known.values()
            if required(event["EventTime"], "EventTime") > now - KEPT
        ]
        self.answers += 1
        self.responses.put(
            call,
            now,
            [{"Events": sorted(kept, key=lambda event: (event["EventTime"], _name(event)))}],
        )

    def _events(
        self, place: Place, name: str, now: datetime
    ) -> tuple[list[Mapping[str, Any]], bool]:
        since = self._read.get((place, name), now - _BACK + _LATE) - _LATE
        given: dict[str, Any] = {
            "LookupAttributes": [{"AttributeKey": "EventName", "AttributeValue": name}],
            "StartTime": since,
            "EndTime": now,
        }
        events: list[Mapping[str, Any]] = []
        began = self.stopwatch()
        for number, page in enumerate(self.calls.pages(place, SERVICE, OPERATION, **given), 1):
            events += page["Events"]
            self.pause(max(0.0, SPACING_SECONDS - (self.stopwatch() - began)))
            began = self.stopwatch()
            if number >= _PAGES and page.get("NextToken"):
                return events, False
        return events, True


def _name(event: Mapping[str, Any]) -> str:
    return str(event.get("EventId") or f"{event.get('EventName')} {event.get('EventTime')}")
