"""Cut time into half-open windows and read them from words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from bot.errors import WrongInput
from bot.model.durations import DURATION_UNITS
from bot.model.limits import YEARS

_NAMED = (
    "today",
    "yesterday",
    "this-week",
    "last-week",
    "this-month",
    "mtd",
    "last-month",
    "this-year",
)
GRAMMAR = f"7d, 24h, {', '.join(_NAMED)}, 2026-11, 2026-11-20, 2026-11-01..2026-11-07"
BOUNDS = "dates count whole, so A..B holds all of day B; of times of day, what begins at the end is outside; all in UTC"


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
        """Read as dates where both ends are midnights (the last day counted), else to the minute."""
        if _midnight(self.start) == self.start and _midnight(self.end) == self.end:
            last = self.end - timedelta(days=1)
            return (
                f"{self.start:%Y-%m-%d}"
                if last <= self.start
                else f"{self.start:%Y-%m-%d}..{last:%Y-%m-%d}"
            )
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
        """Return the window before this one: the month before a whole month, else the same length."""
        if (
            self.start.day == 1
            and self.end == _next_month(self.start)
            and _midnight(self.start) == self.start
        ):
            return Window(_month(self.start - timedelta(days=1)), self.start)
        return Window(self.start - self.length, self.start)

    def days(self) -> Iterator[Window]:
        """Yield the UTC days this window touches, clipped to it."""
        at = self.start
        while at < self.end:
            end = min(self.end, _midnight(at) + timedelta(days=1))
            yield Window(at, end)
            at = end

    @staticmethod
    def parse(text: str, now: datetime) -> Window:
        """Read `text` by the grammar `GRAMMAR` relative to `now`; raise `WrongInput` otherwise.

        `7d` is the rolling span that ends now; dates count whole, both ends of `a..b` included;
        times are half-open.
        """
        word = text.strip().lower()
        window = _rolling(word, now) or _named(word, now) or _dated(text.strip())
        if window is None:
            raise WrongInput(f"'{text}' is not a window; write one of {GRAMMAR}.")
        return window


def _rolling(word: str, now: datetime) -> Window | None:
    match = re.fullmatch(r"(\d{1,4})(min|[mhdw])", word)
    if not match:
        return None
    length = timedelta(**{DURATION_UNITS[match[2]]: int(match[1])})
    if not length:
        raise WrongInput(f"'{word}' is an empty window; write 1{match[2]} or more.")
    return Window(now - length, now)


def _named(word: str, now: datetime) -> Window | None:
    day = _midnight(now)
    week = day - timedelta(days=day.weekday())
    month = _month(now)
    spans = {
        "today": (day, day + timedelta(days=1)),
        "yesterday": (day - timedelta(days=1), day),
        "this-week": (week, week + timedelta(days=7)),
        "last-week": (week - timedelta(days=7), week),
        "this-month": (month, _next_month(month)),
        "mtd": (month, day + timedelta(days=1)),
        "last-month": (_month(month - timedelta(days=1)), month),
        "this-year": (month.replace(month=1), month.replace(year=month.year + 1, month=1)),
    }
    span = spans.get(word.replace("_", "-").replace("lastmonth", "last-month"))
    return Window(*span) if span else None


def _dated(text: str) -> Window | None:
    first, dots, last = text.partition("..")
    start, end = _span(first), _span(last) if dots else _span(first)
    if start is None or end is None:
        return None
    if start[0].year not in YEARS or end[1].year not in YEARS:
        raise WrongInput(
            f"'{text}' lies outside {YEARS.start} to {YEARS.stop - 1}; write one of {GRAMMAR}."
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
            return day, day + timedelta(days=1)
        at = parse_instant(text)
    except (ValueError, OverflowError):
        return None
    return at, at


def parse_instant(text: str) -> datetime:
    """Read an ISO 8601 instant, UTC where no zone is said; raise `ValueError` otherwise."""
    at = datetime.fromisoformat(text.strip())
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _midnight(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _month(at: datetime) -> datetime:
    return _midnight(at).replace(day=1)


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
