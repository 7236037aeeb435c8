"""Read and write lengths of time.

As people type them (`90m`) and as people read them (`1 h 30 min`).
"""

from __future__ import annotations

import re
from datetime import timedelta
from enum import Enum

from bot.errors import WrongInput
from bot.model.counts import counted

DURATION_UNITS = {"m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DAY = 1440
"""Minutes of a day."""


def parse_duration(text: str) -> timedelta:
    """Read `30m`, `2h`, `3d` or `1w`; raise `WrongInput` otherwise."""
    match = re.fullmatch(r"(\d{1,5})\s*(min|[mhdw])", text.strip().lower())
    if not match:
        raise WrongInput(f"'{text}' is not a length of time; write 30m, 2h, 3d or 1w.")
    return timedelta(**{DURATION_UNITS[match[2]]: int(match[1])})


def write_duration(value: timedelta) -> str:
    """Write a length of time in its largest whole unit: `90m`, `2h`, `3d`."""
    minutes = int(value.total_seconds() // 60)
    if minutes and minutes % 1440 == 0:
        return f"{minutes // 1440}d"
    if minutes and minutes % 60 == 0:
        return f"{minutes // 60}h"
    return f"{minutes}m"


class Days(Enum):
    """Name the way in which a length of time of a day or more is written."""

    AND_HOURS = "3 d 4 h"
    WHOLE = "3 days"
    """Whole days from two days on, hours and minutes up to them."""
    NEVER = "76 h 10 min"


def duration_text(length: timedelta, days: Days = Days.AND_HOURS) -> str:
    """Write how long something lasts, in whole minutes.

    `25 min`, `1 h 10 min`, and days as `days` says.
    """
    minutes = max(0, int(length.total_seconds() // 60))
    if days is Days.WHOLE and minutes >= 2 * _DAY:
        return f"{minutes // _DAY} days"
    if days is Days.AND_HOURS and minutes >= _DAY:
        return _parts(minutes // _DAY, "d", minutes % _DAY // 60, "h")
    return _parts(minutes // 60, "h", minutes % 60, "min")


def _parts(most: int, unit: str, rest: int, smaller: str) -> str:
    if not most:
        return f"{rest} {smaller}"
    return f"{most} {unit}" + (f" {rest} {smaller}" if rest else "")


def rounded_duration(length: timedelta) -> str:
    """Write a span of time rounded to days where it is longer than one: `7 days`, `24 hours`."""
    unit, noun = (
        (timedelta(days=1), "day") if length > timedelta(days=1) else (timedelta(hours=1), "hour")
    )
    return counted(round(length / unit), noun)


def age_text(seconds: float) -> str:
    """Write an age in its largest unit: `20 s`, `4 min`, `3 h`, `2 d`."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"
