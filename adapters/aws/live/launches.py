"""Ask CloudTrail who launched what no tag explains, once for each launch and for ever."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from adapters.aws.launchers import launched
from adapters.aws.live.calls import Calls, Place
from adapters.aws.live.heard import Call, Heard
from bot.errors import Unavailable
from bot.model.fleet import Inventory
from bot.model.labels import Labels

_REMEMBERED = timedelta(days=89)
"""CloudTrail's event history reaches back 90 days (CloudTrail User Guide, event history, 2026-11)."""
_AROUND = timedelta(minutes=20)
"""The launch is looked for so long before and after the time that EC2 tells."""
_DELAY = timedelta(minutes=30)
"""An event may be delivered so late: until then, no answer is not an answer (CloudTrail: about 5 minutes on average)."""
_SPACING_SECONDS = 0.5
"""LookupEvents takes two calls a second of an account and region (CloudTrail User Guide, quotas, 2026-11)."""
MOST = 20
"""Lookups a tick: about ten seconds."""
_SERVICE, _OPERATION = "cloudtrail", "lookup_events"


@dataclass(frozen=True)
class Launch:
    """Name a resource, when it was made, and where."""

    resource: str
    at: datetime
    labels: Labels


@dataclass
class Launches:
    """Keep the answers fresh; who launched a thing never changes, so nothing is asked twice."""

    calls: Calls
    heard: Heard
    stopwatch: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    answers: int = 0
    """How many lookups were answered so far."""
    _found: set[str] = field(default_factory=set)
    _tried: dict[str, datetime] = field(default_factory=dict)

    def refresh(self, places: Sequence[Place], inventory: Inventory, now: datetime, deadline: float) -> Iterator[str]:
        """Ask for some launches that are not explained, the newest first; yield a sentence for each place that fails."""
        room = MOST
        for place in places:
            self.heard.recall(_SERVICE, _OPERATION, place)
            for launch in self._unexplained(place, inventory, now):
                if room <= 0 or self.stopwatch() >= deadline:
                    return
                room -= 1
                try:
                    self._look_up(place, launch, now)
                except Unavailable as error:
                    yield str(error)
                    break

    def _unexplained(self, place: Place, inventory: Inventory, now: datetime) -> list[Launch]:
        mine = Labels(region=place.region, account=place.account)
        return [
            launch
            for launch in sorted(_launches(inventory), key=lambda x: x.at, reverse=True)
            if mine.selects(launch.labels)
            and now - launch.at < _REMEMBERED
            and launch.resource not in self._found
            and now - self._tried.get(launch.resource, launch.at - _DELAY) >= _DELAY
            and not self.heard.knows(_call(place, launch))
        ]

    def _look_up(self, place: Place, launch: Launch, now: datetime) -> None:
        """Ask about one resource; one launch's event names all that came with it, so those are not asked for."""
        began = self.stopwatch()
        given: dict[str, Any] = {
            "LookupAttributes": [{"AttributeKey": "ResourceName", "AttributeValue": launch.resource}],
            "StartTime": launch.at - _AROUND,
            "EndTime": launch.at + _AROUND,
        }
        pages = list(self.calls.pages(place, _SERVICE, _OPERATION, **given))
        self.pause(max(0.0, _SPACING_SECONDS - (self.stopwatch() - began)))
        creating = [{"Events": [event for page in pages for event in page["Events"]]}]
        if not any(page["Events"] for page in creating) and now - launch.at < _DELAY:
            self._tried[launch.resource] = now
            return
        self.heard.put(_call(place, launch), now, creating)
        self.answers += 1
        for history in self.heard.histories(_SERVICE, _OPERATION, launched):
            for _, found in history:
                self._found |= found.keys()


def _call(place: Place, launch: Launch) -> Call:
    return Call(_SERVICE, _OPERATION, place, launch.resource)


def _launches(inventory: Inventory) -> Iterator[Launch]:
    """Yield what nobody explains: nodes without a launcher, unattached volumes, file systems, reservations."""
    for x in inventory.instances.values():
        if x.running and x.launched_by is None and x.labels.account:
            yield Launch(x.id, x.launched_at, x.labels)
    for volume in inventory.volumes:
        if not volume.attached_to and volume.launched_by is None:
            yield Launch(volume.labels.resource, volume.created_at, volume.labels)
    for system in inventory.file_systems:
        if system.created_at and system.launched_by is None:
            yield Launch(system.labels.resource, system.created_at, system.labels)
    for held in inventory.reservations:
        if held.launched_by is None:
            yield Launch(held.labels.resource, held.starts_at, held.labels)
