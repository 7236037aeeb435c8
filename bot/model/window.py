"""Read windows, lengths of time and hours of the day from words, and write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from enum import Enum
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bot.errors import WrongInput
from bot.model.limits import YEARS
from bot.model.money import counted

DURATION_UNITS = {"m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
DAY, HOUR, WEEK = timedelta(days=1), timedelta(hours=1), timedelta(weeks=1)
_DAY_MINUTES = 1440


def parse_duration(text: str) -> timedelta:
    """Read `30m`, `2h`, `3d` or `1w`; raise `WrongInput` otherwise."""
    match = re.fullmatch(r"(\d{1,5})\s*(min|[mhdw])", text.strip().lower())
    if not match:
        raise WrongInput(f"'{text}' is not a length of time; write 30m, 2h, 3d or 1w.")
    return timedelta(**{DURATION_UNITS[match[2]]: int(match[1])})


def write_duration(value: timedelta) -> str:
    """Write a length of time in its largest whole unit: `90m`, `2h`, `3d`."""
    minutes = int(value.total_seconds() // 60)
    if minutes and minutes % _DAY_MINUTES == 0:
        return f"{minutes // _DAY_MINUTES}d"
    if minutes and minutes % 60 == 0:
        return f"{minutes // 60}h"
    return f"{minutes}m"


class Days(Enum):
    """Name the way in which a length of time of a day or more is written."""

    AND_HOURS = "3 d 4 h"
    NEVER = "76 h 10 min"


def duration_text(length: timedelta, days: Days = Days.AND_HOURS) -> str:
    """Write how long something lasts, in whole minutes.

    `25 min`, `1 h 10 min`, and days as `days` says.
    """
    minutes = max(0, int(length.total_seconds() // 60))
    parts = {"h": minutes // 60, "min": minutes % 60}
    if days is Days.AND_HOURS and minutes >= _DAY_MINUTES:
        parts = {"d": minutes // _DAY_MINUTES, "h": minutes % _DAY_MINUTES // 60}
    return " ".join(f"{n} {unit}" for unit, n in parts.items() if n) or "0 min"


def rounded_duration(length: timedelta) -> str:
    """Write a span of time rounded to days where it is longer than one: `7 days`, `24 hours`."""
    if length > DAY:
        return counted(round(length / DAY), "day")
    return counted(round(length / HOUR), "hour")


def age_text(seconds: float) -> str:
    """Write an age in its largest unit: `20 s`, `4 min`, `3 h`, `2 d`."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


OFF = "off"
"""Stands for no hours at all."""


def day(at: date) -> str:
    """Write a day: `Nov 20`."""
    return f"{at:%b} {at.day}"


def calendar_day(at: date) -> str:
    """Write a day of any year: `Nov 20, 2026`."""
    return f"{day(at)}, {at.year}"


def clock(at: datetime) -> str:
    """Write an instant to the minute, in the zone that it has: `Nov 20, 12:00`."""
    return f"{day(at)}, {at:%H:%M}"


def utc_text(at: datetime, now: datetime | None = None) -> str:
    """Write an instant in a sentence: `Nov 20, 12:00 UTC`, or `12:00 UTC` of the day of `now`."""
    start = at.astimezone(UTC)
    if now and start.date() == now.astimezone(UTC).date():
        return f"{start:%H:%M} UTC"
    return f"{clock(start)} UTC"


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
        clock = now.astimezone(self.zone).time()
        if self.start <= self.end:
            return self.start <= clock < self.end
        return clock >= self.start or clock < self.end


@cache
def read_quiet_hours(text: str) -> Hours | None:
    """Read `22:00-07:00 Europe/Berlin` (UTC where no zone is given), None for `off`.

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
    """Hold one moment of every week, or of every day, in a zone.

    `day` 0 is Monday, None every day.
    """

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
        today = now.astimezone(self.zone).date()
        days = (today - timedelta(days=back) for back in range(8))
        moments = (
            datetime.combine(day, self.at, self.zone).astimezone(UTC)
            for day in days
            if self.day in (None, day.weekday())
        )
        return next(moment for moment in moments if moment <= now)


_DAILY = "daily"
_WEEKLY = "weekly"
_RECURRING = re.compile(
    r"(?:every[ @])?([A-Za-z]+)(?:[ @]([01]?\d|2[0-3]):([0-5]\d)(?:[ @]([\w/+-]+))?)?"
)


@cache
def read_weekly(text: str) -> Recurring:
    """Read `mon 09:00 Europe/Berlin` (UTC where no zone is given); raise `WrongInput`."""
    match = _RECURRING.fullmatch(text.strip())
    day = _day(match[1]) if match and match[2] else None
    if not match or day is None:
        raise WrongInput(f"'{text}' is not a time of the week; write mon 09:00 Europe/Berlin.")
    return Recurring(day, time(int(match[2]), int(match[3])), _zone(match[4] or "UTC"))


def read_recurring(text: str, usual: Recurring, *, days: bool = True) -> Recurring:
    """Read `mon 09:00 Europe/Berlin`, where `days` also `daily 09:00`.

    What is left out is as usual. Raise `WrongInput`.
    """
    match = _RECURRING.fullmatch(text.strip() or _WEEKLY)
    word = match[1].lower() if match else ""
    day = usual.day if word == _WEEKLY else _day(word)
    if not match or (day is None and not (days and word in (_DAILY, "day"))):
        span = "week or day; write daily 09:00 Europe/Berlin or" if days else "week; write"
        raise WrongInput(f"'{text}' is not a time of the {span} mon 09:00 Europe/Berlin.")
    if not match[2]:
        return replace(usual, day=day)
    return Recurring(day, time(int(match[2]), int(match[3])), _zone(match[4] or "UTC"))


def _day(word: str) -> int | None:
    """Return the day of the week that a word names by its first letters, None for none."""
    day = word.lower()[:3]
    return DAYS.index(day) if day in DAYS else None


_SOON = "36h, 18:00, mon 09:00 Europe/Berlin, or 2026-11-23 09:00"


def read_moment(text: str, now: datetime) -> datetime:
    """Return the moment after `now` that a person means, in UTC; raise `WrongInput`.

    A length of time (`36h`), a time of the day or of the week (the next one), or a date with or
    without a time, each with a zone behind it (UTC where none is said).
    """
    word = text.strip()
    match = re.fullmatch(
        r"(?:(\d{4}-\d\d-\d\d)|([A-Za-z]{3})[a-z]*)?"
        r"[ T@]?(?:(\d?\d):(\d\d))?(?:Z|[ @]([\w/+-]+))?",
        word,
    )
    # Neither a date nor a clock: it can only be a length of time from now.
    if not match or not (match[1] or match[3]):
        try:
            return now + parse_duration(word)
        except WrongInput:
            raise WrongInput(f"'{word}' is not a time; write {_SOON}.") from None

    zone = _zone(match[5] or "UTC")
    try:
        clock = time(int(match[3] or 0), int(match[4] or 0))
        first = date.fromisoformat(match[1]) if match[1] else now.astimezone(zone).date()
    except ValueError:
        raise WrongInput(f"'{text}' is not on a clock or a calendar; write {_SOON}.") from None
    # A date is that day; a time of the day, or of the week, is the next one.
    for day in [first + timedelta(days=i) for i in range(1 if match[1] else 9)]:
        # The zone's own clock of that day: summer time may begin in between.
        moment = datetime.combine(day, clock, zone).astimezone(UTC)
        if moment > now and (not match[2] or DAYS[day.weekday()] == match[2].lower()):
            return moment
    raise WrongInput(f"'{text}' is in the past, or not a date; write {_SOON}.")


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise WrongInput(
            f"'{name}' is not a time zone known here; write one like Europe/Berlin, or UTC."
        ) from None


GRAMMAR = (
    "7d, 24h, today, yesterday, this-week, last-week, this-month, mtd, last-month, this-year,"
    " 2026-11, 2026-11-20, 2026-11-01..2026-11-07"
)
BOUNDS = (
    "dates are whole days, so A..B includes all of day B; a time of day at the end is excluded;"
    " all in UTC"
)


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """Hold a half-open span `[start, end)` of aware UTC time."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        """Refuse naive or reversed times."""
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ValueError("a window's times carry a time zone")
        if self.end < self.start:
            raise WrongInput(
                f"The window ends ({self.end:%Y-%m-%d %H:%M}) before it starts; swap the two."
            )

    def __contains__(self, at: datetime) -> bool:
        """Return whether `start <= at < end`."""
        return self.start <= at < self.end

    def __str__(self) -> str:
        """Read as dates where both ends are midnights, the last day counted, else to the minute."""
        if midnight(self.start) == self.start and midnight(self.end) == self.end:
            last = self.end - DAY
            until = f"..{last:%Y-%m-%d}" if last > self.start else ""
            return f"{self.start:%Y-%m-%d}{until}"
        return f"{self.start:%Y-%m-%d %H:%M}..{self.end:%Y-%m-%d %H:%M} UTC"

    @property
    def length(self) -> timedelta:
        """Return the length of the window: end minus start."""
        return self.end - self.start

    @property
    def hours(self) -> float:
        """Return the length in hours."""
        return self.length.total_seconds() / 3600

    def previous(self) -> Window:
        """Return the window before: the month before a whole month, else the same length."""
        if self == Window(_month(self.start), _next_month(self.start)):
            # Months differ in length: the month before, and not as many days.
            return Window(_month(self.start - DAY), self.start)
        return Window(self.start - self.length, self.start)

    def within(self, bounds: Window) -> Window:
        """Return the part that lies within another window, an empty one where none does."""
        start = max(self.start, bounds.start)
        return Window(start, max(start, min(self.end, bounds.end)))

    def days(self) -> Iterator[Window]:
        """Yield the UTC days this window touches, clipped to it."""
        at = self.start
        while at < self.end:
            # Days are UTC's, as the bill's are.
            end = min(self.end, midnight(at) + DAY)
            yield Window(at, end)
            at = end

    @staticmethod
    def parse(text: str, now: datetime) -> Window:
        """Read `text` by the grammar `GRAMMAR` relative to `now`; raise `WrongInput` otherwise.

        `7d` is the rolling span that ends now; dates count whole, both ends of `a..b` included;
        times are half-open.
        """
        word = text.strip().lower()
        if match := re.fullmatch(r"(\d{1,4})(min|[mhdw])", word):
            length = timedelta(**{DURATION_UNITS[match[2]]: int(match[1])})
            if not length:
                raise WrongInput(f"'{word}' is an empty window; write 1{match[2]} or more.")
            return Window(now - length, now)

        day, month = midnight(now), _month(now)
        tomorrow, week = day + DAY, day - timedelta(days=day.weekday())
        named = {
            "today": (day, tomorrow),
            "yesterday": (day - DAY, day),
            "this-week": (week, week + WEEK),
            "last-week": (week - WEEK, week),
            "this-month": (month, _next_month(month)),
            "mtd": (month, tomorrow),
            "last-month": (_month(month - DAY), month),
            "next-month": (_next_month(month), _next_month(_next_month(month))),
            "this-year": (month.replace(month=1), month.replace(year=month.year + 1, month=1)),
        }
        if span := named.get(word.replace("_", "-").replace("lastmonth", "last-month")):
            return Window(*span)

        first, dots, last = text.strip().partition("..")
        start, end = _span(first), _span(last if dots else first)
        if start is None or end is None:
            raise WrongInput(f"'{text}' is not a window; write one of {GRAMMAR}.")
        # A slip of the finger in a year is no window of a thousand years of days.
        if start[0].year not in YEARS or end[1].year not in YEARS:
            raise WrongInput(
                f"'{text.strip()}' lies outside {YEARS.start} to {YEARS.stop - 1};"
                f" write one of {GRAMMAR}."
            )
        return Window(start[0], end[1])


def _span(text: str) -> tuple[datetime, datetime] | None:
    """Return the first instant that `text` names and the first instant after it."""
    try:
        if re.fullmatch(r"\d{4}-\d{2}", text):
            month = datetime.fromisoformat(f"{text}-01").replace(tzinfo=UTC)
            return month, _next_month(month)
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            day = datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC)
            return day, day + DAY
        at = parse_instant(text)
    except (ValueError, OverflowError):
        return None
    return at, at


def parse_instant(text: str) -> datetime:
    """Read an ISO 8601 instant, UTC where no zone is given; raise `ValueError` otherwise."""
    at = datetime.fromisoformat(text.strip())
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def midnight(at: datetime) -> datetime:
    """Return the midnight with which the UTC day of an instant begins."""
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _month(at: datetime) -> datetime:
    return midnight(at).replace(day=1)


def _next_month(at: datetime) -> datetime:
    return _month(_month(at) + timedelta(days=32))


EVER = Window(datetime(2006, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))
"""Every hour that a bill of AWS can name."""
NO_TIME = Window(EVER.start, EVER.start)
"""Asked of a bill it holds no row, and so no currency.

The answer says only how far the bill reaches.
"""


def month_of(at: datetime) -> Window:
    """Return the UTC calendar month that holds `at`."""
    return Window(_month(at), _next_month(at))
