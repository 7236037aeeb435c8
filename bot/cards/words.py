"""Write counts, spans of time and amounts as people say them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from bot.model.durations import rounded_duration
from bot.model.money import usd
from bot.model.window import Window, month_of

_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)


def period(window: Window) -> str:
    """Write a window: `November 2026`, `Nov 13 to 19, 2026`, `7 days to Nov 20, 12:00 UTC`, or two instants."""
    start, end = window.start.astimezone(UTC), window.end.astimezone(UTC)
    if _midnight(start) and _midnight(end) and end > start:
        return _dates(window, start, end - _DAY)
    if window.length and not window.length % (_DAY if window.length > 2 * _DAY else _HOUR):
        return f"{rounded_duration(window.length)} to {clock(end)} UTC"
    return f"{clock(start)}{f' {start.year}' if start.year != end.year else ''} to {clock(end)} UTC"


def day(at: datetime) -> str:
    """Write a day: `Nov 20`."""
    return f"{at:%b} {at.day}"


def clock(at: datetime) -> str:
    """Write an instant to the minute: `Nov 20, 12:00`."""
    return f"{day(at)}, {at:%H:%M}"


def about(amount: Decimal) -> str:
    """Write an estimate to three digits, since more would be pretence: `$272,000`."""
    return usd(Decimal(f"{amount:.3g}"))


def _midnight(at: datetime) -> bool:
    return at == at.replace(hour=0, minute=0, second=0, microsecond=0)


def _dates(window: Window, first: datetime, last: datetime) -> str:
    if window == month_of(first):
        return f"{first:%B %Y}"
    if first == last:
        return f"{day(first)}, {first.year}"
    if first.year != last.year:
        return f"{day(first)}, {first.year} to {day(last)}, {last.year}"
    return f"{day(first)} to {last.day if first.month == last.month else day(last)}, {last.year}"
