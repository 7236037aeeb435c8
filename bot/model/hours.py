"""Read the hours of a day, and a moment of the week, in a time zone."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bot.errors import WrongInput
from bot.model.durations import parse_duration

OFF = "off"
"""Stands for no hours at all."""


@dataclass(frozen=True)
class Hours:
    """Hold half-open hours [start, end) of every day in a zone."""

    start: time
    end: time
    zone: ZoneInfo

    def hold(self, now: datetime) -> bool:
        """Return whether `now` lies within the hours.

        The clock of the zone counts, summer time included.
        """
        at = now.astimezone(self.zone).time()
        if self.start <= self.end:
            return self.start <= at < self.end
        return at >= self.start or at < self.end


@cache
def read_quiet_hours(text: str) -> Hours | None:
    """Read `22:00-07:00 Europe/Berlin` (UTC where no zone is said), None for `off`.

    Raise `WrongInput`.
    """
    if text == OFF:
        return None
    match = re.fullmatch(
        r"([01]?\d|2[0-3]):([0-5]\d)-([01]?\d|2[0-3]):([0-5]\d)(?:[ @]([\w/+-]+))?", text
    )
    if not match:
        raise WrongInput(
            f"'{text}' is not a time of the day; write 22:00-07:00 Europe/Berlin, or off."
        )
    start, end = time(int(match[1]), int(match[2])), time(int(match[3]), int(match[4]))
    if start == end:
        raise WrongInput(f"'{text}' begins when it ends; write 22:00-07:00 Europe/Berlin, or off.")
    return Hours(start, end, _zone(match[5] or "UTC"))


DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@dataclass(frozen=True)
class Recurring:
    """Hold one moment of every week, or of every day, in a zone; `day` 0 is Monday, None every day."""

    day: int | None
    at: time
    zone: ZoneInfo

    def __str__(self) -> str:
        """Return the text as a person types it."""
        return f"{_DAILY if self.day is None else DAYS[self.day]} {self.at:%H:%M} {self.zone}"

    def latest(self, now: datetime) -> datetime:
        """Return the newest such moment that is not after `now`, in UTC.

        The clock of the zone counts, summer time included.
        """
        here = now.astimezone(self.zone)
        today = here.date()
        for back in range(8):
            day = today - timedelta(days=back)
            moment = datetime.combine(day, self.at, self.zone).astimezone(UTC)
            if self.day in (None, day.weekday()) and moment <= now:
                return moment
        raise AssertionError("every week has every day")


_DAILY = "daily"
_WEEKLY = "weekly"
_RECURRING = re.compile(
    r"(?:every[ @])?([A-Za-z]+)(?:[ @]([01]?\d|2[0-3]):([0-5]\d)(?:[ @]([\w/+-]+))?)?"
)


@cache
def read_weekly(text: str) -> Recurring:
    """Read `mon 09:00 Europe/Berlin` (UTC where no zone is said); raise `WrongInput`."""
    match = _RECURRING.fullmatch(text.strip())
    day = _day(match[1]) if match and match[2] else None
    if not match or day is None:
        raise WrongInput(f"'{text}' is not a time of the week; write mon 09:00 Europe/Berlin.")
    return Recurring(day, _clock(match), _zone(match[4] or "UTC"))


def read_recurring(text: str, usual: Recurring, *, days: bool = True) -> Recurring:
    """Read `mon 09:00 Europe/Berlin`, where `days` also `daily 09:00`.

    What is left out is as usual. Raise `WrongInput`.
    """
    match = _RECURRING.fullmatch(text.strip() or _WEEKLY)
    word = match[1].lower() if match else ""
    day = usual.day if word == _WEEKLY else _day(word)
    if not match or (day is None and not (days and word in (_DAILY, "day"))):
        also = "daily 09:00 Europe/Berlin or " if days else ""
        raise WrongInput(
            f"'{text}' is not a time of the week{' or day' if days else ''}; write {also}mon 09:00 Europe/Berlin."
        )
    if not match[2]:
        return replace(usual, day=day)
    return Recurring(day, _clock(match), _zone(match[4] or "UTC"))


def _day(word: str) -> int | None:
    """Return the day of the week that a word names by its first three letters or more, None for none."""
    day = word.lower()[:3]
    return DAYS.index(day) if day in DAYS else None


def _clock(match: re.Match[str]) -> time:
    return time(int(match[2]), int(match[3]))


_SOON = "36h, 18:00, mon 09:00 Europe/Berlin, or 2026-11-23 09:00"


def read_moment(text: str, now: datetime) -> datetime:
    """Return the moment after `now` that a person means, in UTC; raise `WrongInput`.

    A length of time (`36h`), a time of the day or of the week (the next one), or a date with or
    without a time, each with a zone behind it (UTC where none is said).
    """
    word = text.strip()
    match = re.fullmatch(
        r"(?:(\d{4}-\d\d-\d\d)|([A-Za-z]{3})[a-z]*)?[ T@]?(?:(\d?\d):(\d\d))?(?:Z|[ @]([\w/+-]+))?",
        word,
    )
    if not match or not (match[1] or match[3]):
        return now + _length(word)
    zone = _zone(match[5] or "UTC")
    try:
        at = time(int(match[3] or 0), int(match[4] or 0))
        first = date.fromisoformat(match[1]) if match[1] else now.astimezone(zone).date()
    except ValueError:
        raise WrongInput(
            f"'{text}' is no time that a clock or a calendar shows; write {_SOON}."
        ) from None
    days = (
        [first]
        if match[1]
        else [
            first + timedelta(days=i)
            for i in range(9)
            if _is_day(first + timedelta(days=i), match[2])
        ]
    )
    moments = (datetime.combine(day, at, zone).astimezone(UTC) for day in days)
    chosen = next((moment for moment in moments if moment > now), None)
    if chosen is None:
        raise WrongInput(f"'{text}' is past, or no day; write {_SOON}.")
    return chosen


def _is_day(day: date, name: str | None) -> bool:
    return name is None or DAYS[day.weekday()] == name.lower()


def _length(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except WrongInput:
        raise WrongInput(f"'{text}' is no time; write {_SOON}.") from None


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise WrongInput(
            f"'{name}' is not a time zone known here; write one like Europe/Berlin, or UTC."
        ) from None
