"""Read the hours of a day in a time zone, over midnight where they go there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, time
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bot.errors import WrongInput

OFF = "off"
"""Stands for no hours at all."""


@dataclass(frozen=True)
class Hours:
    """Hold half-open hours [start, end) of every day in a zone."""

    start: time
    end: time
    zone: ZoneInfo

    def hold(self, now: datetime) -> bool:
        """Tell whether `now` lies within; the clock of the zone counts, summer time included."""
        at = now.astimezone(self.zone).time()
        if self.start <= self.end:
            return self.start <= at < self.end
        return at >= self.start or at < self.end


@cache
def read_quiet_hours(text: str) -> Hours | None:
    """Read `22:00-07:00 Europe/Berlin` (UTC where no zone is said), None for `off`; raise `WrongInput`."""
    if text == OFF:
        return None
    found = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)-([01]?\d|2[0-3]):([0-5]\d)(?:[ @]([\w/+-]+))?", text)
    if not found:
        raise WrongInput(f"'{text}' is not a time of the day; write 22:00-07:00 Europe/Berlin, or off.")
    start, end = time(int(found[1]), int(found[2])), time(int(found[3]), int(found[4]))
    if start == end:
        raise WrongInput(f"'{text}' begins when it ends; write 22:00-07:00 Europe/Berlin, or off.")
    return Hours(start, end, _zone(found[5] or "UTC"))


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise WrongInput(f"'{name}' is not a time zone known here; write one like Europe/Berlin, or UTC.") from None
