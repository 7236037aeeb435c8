"""Look closer at suspicious nodes: their cores and devices, while they are suspicious, few at a time, within the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import orjson

from adapters.aws.live.calls import Calls, Place
from adapters.aws.live.discovery import close_up
from adapters.aws.live.heard import KEPT
from adapters.aws.live.poll import Poll
from adapters.aws.points import Series

MOST = 8
"""Nodes looked at closer at a time: 64 cores each are 1,024 metrics a tick, a cent."""
HELD = timedelta(minutes=30)
"""How long a node is looked at after it was last suspicious."""
_Span = list[int]
"""Begin and end, seconds."""


@dataclass
class Closer:
    """Keep who is looked at closer until when; `journal` remembers it for recordings."""

    calls: Calls
    poll: Poll
    journal: Path | None
    _until: dict[str, int] = field(default_factory=dict)
    _series: dict[str, set[Series]] = field(default_factory=dict)

    def look(self, wanted: Sequence[tuple[Place, str]], now: datetime) -> int:
        """Read cores and devices of the first `MOST` instances from now on; return how many series that adds.

        Raise `Unavailable` where they cannot be listed. Each series costs as much as any other.
        """
        at, added = int(now.timestamp()), 0
        for instance in [x for x, until in self._until.items() if until <= at]:
            del self._until[instance]
            self._series.pop(instance, None)
        open_places = MOST - len(set(self._until) - {instance for _, instance in wanted})
        for place, instance in wanted[: max(0, open_places)]:
            if self.calls.spent:
                break
            if instance not in self._series:
                self._series[instance] = close_up(self.calls, place, instance, self.poll.book.catalogue)
            added += self.poll.pin(place, self._series[instance], at, at + int(HELD.total_seconds()))
            self._note(instance, at)
        return added

    def instances(self) -> set[str]:
        """Return who is looked at closer."""
        return set(self._until)

    def _note(self, instance: str, at: int) -> None:
        until = self._until[instance] = at + int(HELD.total_seconds())
        if self.journal is None:
            return
        kept = looks(self.journal)
        spans = [x for x in kept.get(instance, []) if x[1] > at - KEPT.total_seconds()]
        if spans and spans[-1][1] >= at:
            spans[-1][1] = until
        else:
            spans.append([at, until])
        self.journal.mkdir(parents=True, exist_ok=True)
        part = self.journal / "closer.part"
        part.write_bytes(orjson.dumps(kept | {instance: spans}))
        part.replace(self.journal / _FILE)


_FILE = "closer.json"


def looks(journal: Path | None) -> dict[str, list[_Span]]:
    """Return which instances a watch looked at closer, and when; none where nothing was kept."""
    try:
        return dict(orjson.loads((journal / _FILE).read_bytes())) if journal else {}
    except (OSError, ValueError):
        return {}
