"""Hold log groups, and filter their events as CloudWatch Logs does for a pattern of alternatives."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

PAGE = 2


class NoGroup(Exception):
    """Say that there is no such log group."""


@dataclass
class LogGroups:
    """Hold the events of each group, and say what was asked."""

    events: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    asked: list[dict[str, Any]] = field(default_factory=list)

    def put(self, group: str, stream: str, at: float, message: str) -> None:
        """Add an event at a time in seconds, ingested five seconds later."""
        kept = self.events.setdefault(group, [])
        ms = int(at * 1000)
        number = f"{len(kept):056d}"
        event = {
            "logStreamName": stream,
            "timestamp": ms,
            "message": message,
            "ingestionTime": ms + 5000,
            "eventId": number,
        }
        kept.append(event)

    def filter(self, given: dict[str, Any], now: float) -> dict[str, Any]:
        """Return a page of what matches; a page may be empty though more follows."""
        self.asked.append(given)
        if given["logGroupName"] not in self.events:
            raise NoGroup
        wanted = re.findall(r'\?"([^"]+)"', given["filterPattern"])
        within = [
            x
            for x in self.events[given["logGroupName"]]
            if given["startTime"] <= x["timestamp"] < given["endTime"]
            and x["ingestionTime"] <= now * 1000
        ]
        begin = int(given.get("nextToken", 0))
        page = [
            x
            for x in within[begin : begin + PAGE]
            if any(words in x["message"] for words in wanted)
        ]
        more = {"nextToken": str(begin + PAGE)} if begin + PAGE < len(within) else {}
        return {"events": page, "searchedLogStreams": [], **more}
