"""Find times in words: days, weeks, months, quarters, ranges, and two that are compared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bot.answers.plain.calendar import LAST, MONTH, NUMBER, THIS, UNIT, WEEKDAY, Calendar
from bot.errors import WrongInput
from bot.model.window import Window, month_of

_ORD = r"(?:st|nd|rd|th|\.)?"
_DATES = (
    r"(?P<iso>20\d\d-\d\d?-\d\d?)",
    r"(?P<dmy>\d{1,2}\.\d{1,2}\.(?:20\d\d|\d\d)?)(?!\d)",
    r"(?P<slash>\d{1,2}/\d{1,2}(?:/(?:20)?\d\d)?)(?![\d/])",
    rf"(?P<dm>\d{{1,2}}{_ORD}\s*(?:of\s+)?(?:{MONTH})(?:\s+20\d\d)?)",
    rf"(?P<md>(?:{MONTH})\s+(?:the\s+)?\d{{1,2}}{_ORD}(?:,?\s+20\d\d)?)(?!\d)",
    r"(?P<before>the day before yesterday|day before yesterday|vorgestern)",
    r"(?P<named>yesterday|gestern|today|heute|this morning|tonight|last night|letzte nacht)",
    rf"(?P<ago>(?:{NUMBER})\s+(?:days?|weeks?)\s+ago|vor\s+(?:{NUMBER})\s+(?:tagen?|wochen?))",
    rf"(?P<weekday>(?:(?:{LAST}|{THIS}|on|am|every|jeden)\s+)?(?:{WEEKDAY})s?)",
)
_SPANS = (
    rf"(?P<monthyear>(?:{MONTH})\s+20\d\d|20\d\d-\d\d)",
    r"(?P<quarter>(?:q[1-4]|[1-4]\.?\s*quartal|(?:first|second|third|fourth)\s+quarter)(?:\s+(?:of\s+)?20\d\d)?)",
    rf"(?P<relquarter>(?:{LAST}|{THIS})\s+(?:quarter|quartal))",
    rf"(?P<rolling>(?:(?:for|in|over|during)\s+)?(?:the\s+)?(?:{LAST})\s+(?:{NUMBER})\s*(?:{UNIT}))",
    r"(?P<week>(?:the\s+)?(?:week before last|week before|vorletzte[nr]? woche))",
    rf"(?P<relative>(?:the\s+)?(?:{LAST}|{THIS})\s+(?:week|month|year|fortnight|woche|monat|jahr|weekend|wochenende))",
    r"(?P<todate>(?:month|week|year)[ -]to[ -]date|mtd|wtd|ytd|so far this (?:month|week|year))",
    r"(?P<weekend>(?:the\s+|am\s+)?(?:weekend|wochenende))",
    r"(?P<grammar>(?:last|this)-(?:week|month|year)|\d{1,4}(?:min|[hdw]))",
    rf"(?P<length>(?:{NUMBER})\s+(?:{UNIT}))",
    r"(?P<year>20[12]\d)",
    rf"(?P<month>(?:{MONTH}))",
)
_EDGE = r"(?<![\w./=-])", r"(?![\w/=-])"
_TO = r"\s*(?:\.\.|-|–|—|\bto\b|\buntil\b|\btill\b|\bthrough\b|\bthru\b|\bbis\b|\band\b|\bund\b)\s*"
_FROM = r"(?:from|between|von|vom|zwischen)\s+(?:the\s+)?"
_DAYS_OF = (
    rf"(?:{_FROM})?(?P<first>\d{{1,2}}){_ORD}{_TO}(?P<last>\d{{1,2}}){_ORD}\s*(?:of\s+)?(?P<of>{MONTH})",
    rf"(?P<of>{MONTH})\s+(?P<first>\d{{1,2}}){_ORD}{_TO}(?P<last>\d{{1,2}}){_ORD}",
)
_DAY_WORDS = "|".join(re.sub(r"\?P<\w+>", "?:", one) for one in _DATES)
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(_EDGE[0] + pattern + _EDGE[1]), reader)
    for pattern, reader in (
        *((pattern, "days_of_month") for pattern in _DAYS_OF),
        (rf"(?:{_FROM})?(?P<a>{_DAY_WORDS}){_TO}(?P<b>{_DAY_WORDS})", "days_between"),
        (
            rf"(?:since|seit|from|ab|starting)\s+(?:the\s+)?(?P<a>{_DAY_WORDS}|{MONTH})(?:\s+(?:on|onwards?))?",
            "days_since",
        ),
        (rf"(?:until|till|bis)\s+(?P<a>{WEEKDAY})", "until"),
        *((pattern, "span") for pattern in (*_SPANS[:5], _DATES[5])),
        (r"the day before", "day_before"),
        *((pattern, "one_day") for pattern in _DATES),
        *((pattern, "span") for pattern in _SPANS[5:]),
    )
)
"""Each kind of words with the method that reads it, the longest kinds first."""
_VERSUS = r"\s*(?:,\s*)?(?:vs\.?|versus|against|than|(?:compared|relative)\s+(?:to|with)|with|to|and|gegen|im vergleich zu(?:r|m)?)\s+"


@dataclass(frozen=True)
class TimeWords:
    """Hold a time that a line names: where it stands, and the slots that it can fill."""

    start: int
    end: int
    fills: Mapping[str, str] = field(default_factory=dict)
    """`window`, `duration`, `days`, `weekday`, `until`, and `pair` for two times that were compared."""
    window: Window | None = None


def find_times(text: str, now: datetime) -> list[TimeWords]:
    """Return the times of a normalized text in their order; each word belongs to one at most."""
    calendar = Calendar(now)
    taken: list[TimeWords] = []
    for pattern, reader in _PATTERNS:
        for match in pattern.finditer(text):
            if any(match.start() < one.end and one.start < match.end() for one in taken):
                continue
            try:
                fills = calendar.read(reader, match)
            except (ValueError, OverflowError, WrongInput):
                continue
            if fills:
                window = Window.parse(fills["window"], now) if fills.get("window") else None
                taken.append(TimeWords(match.start(), match.end(), fills, window))
    return _compared(sorted(taken, key=lambda one: one.start), text, now)


def _compared(times: list[TimeWords], text: str, now: datetime) -> list[TimeWords]:
    """Join two times that a line compares into the later one.

    `pair` says whether the earlier is the window before it.
    """
    if len(times) != 2 or not all(one.window for one in times):
        return times
    first, second = times
    if re.search(r"\b(?:compare[ds]?|vs|versus|than|against|vergleich\w*|gegen)\b", text) is None:
        return times
    if (
        not re.fullmatch(_VERSUS, f"{text[first.end : second.start]} ".replace("  ", " "))
        and "vergl" not in text
    ):
        return times
    late, early = sorted((first, second), key=lambda one: one.window or month_of(now), reverse=True)
    assert late.window
    assert early.window
    fits = "yes" if early.window.start == late.window.previous().start else "no"
    other = {} if fits == "yes" else {"other": early.fills["window"]}
    return [
        TimeWords(
            first.start,
            second.end,
            {"window": late.fills["window"], "pair": fits, **other},
            late.window,
        )
    ]
