"""Ask CloudWatch Logs for the lines of Neuron's compiler.

Off unless log groups are named, and never needed for a tick.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from adapters.aws.api.calls import Calls, Place
from adapters.aws.logs.logbook import Logbook, LogEvent, filter_pattern
from bot.errors import Unavailable, WrongInput

FIRST = timedelta(hours=3)
"""How far the first look reaches back: a compile that goes on has begun since."""
_AGAIN = timedelta(minutes=5)
"""Events may come in so late, and are asked for again; one that was seen is known by its id."""
PAGES = 30
"""Pages of one group and tick.

CloudWatch Logs allows 5 to 25 requests a second, and a page may be empty.
"""
_LONGEST_NAME = 512


@dataclass(frozen=True)
class LogGroup:
    """Name one log group, and the region that it is in, "" for the first one that is read."""

    name: str
    region: str = ""

    def __str__(self) -> str:
        """Read as `us-west-2:/aws/containerinsights/llama/application`."""
        return f"{self.region}:{self.name}" if self.region else self.name


def read_log_group(text: str) -> LogGroup:
    """Read `GROUP` or `REGION:GROUP`; raise `WrongInput` for a text that cannot be a group's name."""
    region, _, name = text.rpartition(":")
    if (
        not name
        or len(name) > _LONGEST_NAME
        or not all(x.isalnum() or x in "_-/.#" for x in name)
        or "/" in region
    ):
        raise WrongInput(
            f"'{text}' is no log group; write GROUP or REGION:GROUP, such as us-west-2:/aws/containerinsights/llama/application."
        )
    return LogGroup(name, region)


@dataclass
class LogPoller:
    """Read on in every group, in each account that has its region.

    Failures are reported by the calls' own states.
    """

    calls: Calls
    groups: Sequence[LogGroup]
    home: str
    book: Logbook = field(default_factory=Logbook)
    _until: dict[tuple[Place, LogGroup], datetime] = field(default_factory=dict)

    def read(self, places: Sequence[Place], now: datetime, nodes: Mapping[str, str]) -> list[str]:
        """Take in the lines logged since the last poll.

        Return a sentence for each group that could not be read whole.
        """
        missing = []
        for place, group in self._wanted(places):
            since = self._until.get((place, group), now - FIRST) - _AGAIN
            try:
                self.book.add(self.events(place, group, since, now), nodes)
            except Unavailable as error:
                missing.append(str(error))
            else:
                self._until[place, group] = now
        return missing

    def examined(self, places: Sequence[Place], now: datetime) -> Iterator[tuple[str, bool, str]]:
        """Yield for each group whether it can be read, and how many compile lines of the last hours it holds."""
        for place, group in self._wanted(places):
            try:
                lines = len(list(self.events(place, group, now - FIRST, now)))
            except Unavailable as error:
                yield f"log group {group.name} in {place}", False, str(error)
            else:
                yield (
                    f"log group {group.name} in {place}",
                    True,
                    f"{lines} compile lines within the last {FIRST // timedelta(hours=1)} h",
                )
        for group in self.groups:
            if not any(x is group for _, x in self._wanted(places)):
                yield (
                    f"log group {group}",
                    False,
                    f"no region of that name is read: {', '.join(sorted({x.region for x in places}))}",
                )

    def events(
        self, place: Place, group: LogGroup, start: datetime, end: datetime, pages: int = PAGES
    ) -> Iterator[LogEvent]:
        """Yield the events that hold a compiler's line.

        Raise `Unavailable` where a page fails or there are too many.
        """
        given: dict[str, Any] = {
            "logGroupName": group.name,
            "startTime": int(start.timestamp() * 1000),
            "endTime": int(end.timestamp() * 1000),
            "filterPattern": filter_pattern(),
        }
        for number, page in enumerate(
            self.calls.pages(place, "logs", "filter_log_events", **given), 1
        ):
            yield from page["events"]
            if number >= pages and page.get("nextToken"):
                raise Unavailable(
                    f"Log group {group.name} in {place} is too large to be searched in time ({pages} pages);"
                    " name a group that holds the training jobs alone."
                )

    def _wanted(self, places: Sequence[Place]) -> list[tuple[Place, LogGroup]]:
        return [
            (place, group)
            for group in self.groups
            for place in places
            if place.region == (group.region or self.home)
        ]
