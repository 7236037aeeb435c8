"""Find times in words, English and German, and read them into windows of the grammar."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from operator import itemgetter

from bot.cards.lines import window_line
from bot.errors import WrongInput
from bot.model.window import DAY, Window

MONTHS = (
    "january|jan|januar", "february|feb|februar", "march|mar|maerz|mrz", "april|apr", "may|mai",
    "june|jun|juni", "july|jul|juli", "august|aug", "september|sept|sep", "october|oct|oktober|okt",
    "november|nov", "december|dec|dezember|dez",
)  # fmt: skip
WEEKDAYS = (
    "monday|mon|montag", "tuesday|tue|tues|dienstag", "wednesday|wed|mittwoch",
    "thursday|thu|thur|thurs|donnerstag", "friday|fri|freitag", "saturday|sat|samstag|sonnabend",
    "sunday|sun|sonntag",
)  # fmt: skip
_COUNTS = (
    "zero|null", "one|a|an|ein|eine|einen|einer|einem", "two|zwei|couple of|a couple of",
    "three|drei", "four|vier", "five|fuenf", "six|sechs", "seven|sieben", "eight|acht", "nine|neun",
    "ten|zehn", "eleven|elf", "twelve|zwoelf",
)  # fmt: skip
UNITS = {
    "hours?|hrs?|h|stunden?": "h",
    "days?|d|tage?n?": "d",
    "weeks?|wks?|w|wochen?": "w",
    "fortnights?": "f",
    "months?|monate?n?": "mo",
    "minutes?|mins?|min|minuten?": "m",
}
LAST, THIS = (
    "last|past|previous|prior|letzte[nrms]?|vergangene[nrms]?|vorige[nrms]?|the last|the past",
    "this|current|diese[nrms]?",
)


TODAY = ("today", "heute", "this morning", "tonight")


def _any(groups: tuple[str, ...]) -> str:
    return "|".join(sorted("|".join(groups).split("|"), key=len, reverse=True))


MONTH, WEEKDAY = _any(MONTHS), _any(WEEKDAYS)
NUMBER = rf"\d{{1,4}}|{_any(_COUNTS)}"
UNIT = "|".join(UNITS)


class Calendar:
    """Read the parts of dates relative to `now`.

    An incomplete date is the newest one that has begun.
    """

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._today = now.astimezone(UTC).date()

    def read(self, kind: str, match: re.Match[str]) -> dict[str, str]:
        """Return the slots that words of a kind fill, {} for no time.

        Raise `ValueError` for a day that no month has.
        """
        reader: Callable[[re.Match[str]], dict[str, str]] = getattr(self, f"_read_{kind}")
        return reader(match)

    def _read_days_of_month(self, match: re.Match[str]) -> dict[str, str]:
        first = self._past(int(match["first"]), _index(MONTHS, match["of"]) + 1)
        return {"window": self._text(first, first.replace(day=int(match["last"])))}

    def _read_days_between(self, match: re.Match[str]) -> dict[str, str]:
        first, last = self._day(match["a"]), self._day(match["b"])
        if first > last:
            # `December 28 to January 3` began the year before; `Nov 15 to Nov 10` names the end first:
            # the shorter of the two is meant.
            dated = re.search(r"20\d\d", match["a"])
            before = first if dated else first.replace(year=first.year - 1)
            over_year = before <= last and last - before < first - last
            first, last = (before, last) if over_year else (last, first)
        return {"window": self._text(first, last)}

    def _read_days_since(self, match: re.Match[str]) -> dict[str, str]:
        if re.fullmatch(MONTH, match["a"]):
            first = self._past(1, _index(MONTHS, match["a"]) + 1)
        else:
            first = self._day(match["a"])
            if first == self._today and match["a"].removeprefix("on ") not in TODAY:
                first -= 7 * DAY  # `since friday` on a Friday: the one before
        return {"window": self._text(first, self._today)}

    def _read_until(self, match: re.Match[str]) -> dict[str, str]:
        return {"until": f'"{match["a"][:3]} 09:00"'}

    def _read_one_day(self, match: re.Match[str]) -> dict[str, str]:
        name, words = match.lastgroup, match[0]
        if name == "named":
            return {"window": "today", "now": "yes"} if words in TODAY else {"window": "yesterday"}
        if re.fullmatch(r"may|mar|jan|sun|sat|mon|wed|dec|oct", words):
            return {}  # too short to be sure of where nothing else says that a date is meant
        day = self._day(words)
        weekday = {"weekday": day.strftime("%a").lower()} if name == "weekday" else {}
        return {"window": self._text(day, day), **weekday}

    def _read_span(self, match: re.Match[str]) -> dict[str, str]:
        reader: Callable[[str], dict[str, str]] = getattr(self, f"_{match.lastgroup}")
        return reader(match[0])

    def _before(self, _: str) -> dict[str, str]:
        return {"window": self._text(*[self._today - 2 * DAY] * 2)}

    def _monthyear(self, words: str) -> dict[str, str]:
        if "-" in words:
            return {"window": words}
        name, year = words.split()
        return {"window": f"{year}-{_index(MONTHS, name) + 1:02d}"}

    def _month(self, words: str) -> dict[str, str]:
        if words in ("may", "mar", "dec", "sun"):
            return {}  # too short to be sure of
        past = self._past(1, _index(MONTHS, words) + 1)
        this = self._today.replace(day=1)
        coming = past if past == this else past.replace(year=past.year + 1)
        return {"window": f"{past:%Y-%m}", "coming": f"{coming:%Y-%m}"}

    def _nextmonth(self, _: str) -> dict[str, str]:
        return {"coming": "next-month"}

    def _quarter(self, words: str) -> dict[str, str]:
        ordinals = ("first", "second", "third", "fourth")
        number = next((n for n, word in enumerate(ordinals, 1) if word in words), 0)
        month = 3 * (number or int(re.findall(r"[1-4]", words)[0])) - 2
        year = re.search(r"20\d\d", words)
        start = date(int(year[0]), month, 1) if year else self._past(1, month)
        return {"window": self._quarter_text(start)}

    def _relquarter(self, words: str) -> dict[str, str]:
        start = _quarter_start(self._today)
        if not re.match(THIS, words):
            start = _quarter_start(start - DAY)
        return {"window": self._quarter_text(start)}

    def _quarter_text(self, start: date) -> str:
        return self._text(start, (start.replace(day=1) + timedelta(days=95)).replace(day=1) - DAY)

    def _rolling(self, words: str) -> dict[str, str]:
        return self._length(
            re.sub(rf"^(?:(?:for|in|over|during)\s+)?(?:the\s+)?(?:{LAST})\s+", "", words)
        )

    def _length(self, words: str) -> dict[str, str]:
        match = re.fullmatch(rf"(.+?)\s*({UNIT})", words)
        assert match
        count = _count(match[1])
        unit = next(short for pattern, short in UNITS.items() if re.fullmatch(pattern, match[2]))
        if words.startswith(("a ", "an ")) or not count:
            return {}  # a rate: so much a month
        days = {"d": 1, "w": 7, "f": 14, "mo": 30}.get(unit, 0) * count
        text = f"{days}d" if days else f"{count}{unit}"
        return {"window": text, "duration": text, **({"days": str(days)} if days else {})}

    def _week(self, _: str) -> dict[str, str]:
        monday = self._today - timedelta(days=self._today.weekday() + 14)
        return {"window": self._text(monday, monday + 6 * DAY)}

    def _relative(self, words: str) -> dict[str, str]:
        is_this = re.match(rf"(?:the\s+)?(?:{THIS})\b", words) is not None
        unit = words.rsplit(maxsplit=1)[-1]
        unit = {"woche": "week", "monat": "month", "jahr": "year", "wochenende": "weekend"}.get(
            unit, unit
        )
        if unit == "weekend":
            return self._weekend(words)
        if unit == "fortnight":
            return {"window": "14d"}
        if re.match(r"(?:the\s+)?past\b", words) and unit in ("week", "month"):
            return {"window": "7d" if unit == "week" else "30d"}
        if unit == "year" and not is_this:
            return {"window": f"{self._today.year - 1}-01..{self._today.year - 1}-12"}
        return {"window": f"{'this' if is_this else 'last'}-{unit}"}

    def _todate(self, words: str) -> dict[str, str]:
        unit = next(
            unit for unit in ("month", "week", "year") if unit in words or f"{unit[0]}td" == words
        )
        return {"window": "mtd" if unit == "month" else f"this-{unit}"}

    def _weekend(self, _: str) -> dict[str, str]:
        saturday = self._today - timedelta(days=(self._today.weekday() - 5) % 7)
        return {"window": self._text(saturday, saturday + DAY)}

    def _grammar(self, words: str) -> dict[str, str]:
        days = {"days": words[:-1]} if words.endswith("d") and words[:-1].isdigit() else {}
        duration = {"duration": words} if words[0].isdigit() else {}
        return {"window": words, **duration, **days}

    def _year(self, words: str) -> dict[str, str]:
        return {"window": f"{words}-01..{words}-12"}

    def _day(self, words: str) -> date:
        """Return the day that words name; raise `ValueError` where they name none."""
        if match := re.fullmatch(r"(20\d\d)-(\d\d?)-(\d\d?)", words):
            return date(*map(int, match.groups()))
        if match := re.fullmatch(r"(\d\d?)\.(\d\d?)\.(\d*)", words):
            return self._dated(int(match[1]), int(match[2]), match[3])
        if match := re.fullmatch(r"(\d\d?)/(\d\d?)(?:/(\d+))?", words):
            # The month comes first, but for a number that no month has.
            first, second = int(match[1]), int(match[2])
            day, month = (first, second) if first > 12 else (second, first)
            return self._dated(day, month, match[3] or "")
        if "ago" in words or words.startswith("vor "):
            match = re.search(rf"({NUMBER})\s+(day|week|tag|woche)", words)
            assert match
            unit = DAY if match[2] in ("day", "tag") else 7 * DAY
            return self._today - _count(match[1]) * unit
        if match := re.search(rf"\b({MONTH})\b", words):
            number, year = re.search(r"(?<!\d)\d{1,2}(?!\d)", words), re.search(r"20\d\d", words)
            month = _index(MONTHS, match[1]) + 1
            return self._dated(int(number[0]) if number else 0, month, year[0] if year else "")
        return self._named_day(words)

    def _named_day(self, words: str) -> date:
        if "before" in words or words == "vorgestern":
            return self._today - 2 * DAY
        if words in ("yesterday", "gestern", "last night", "letzte nacht"):
            return self._today - DAY
        if words in TODAY:
            return self._today
        if match := re.fullmatch(r"(?:on )?the (\d\d?)\w\w", words):
            # The newest day of that number; `ValueError` where neither month has it.
            day = int(match[1])
            begun = self._today if day <= self._today.day else self._today.replace(day=1) - DAY
            return begun.replace(day=day)
        match = re.search(rf"({WEEKDAY})s?$", words)
        if not match:
            raise ValueError(words)
        back = (self._today.weekday() - _index(WEEKDAYS, match[1])) % 7
        earlier = 7 if not back and re.match(rf"(?:{LAST})\b", words) else back
        return self._today - timedelta(days=earlier)

    def _dated(self, day: int, month: int, year: str) -> date:
        if year:
            return date(int(year) + (2000 if len(year) == 2 else 0), month, day)
        return self._past(day, month)

    def _past(self, day: int, month: int) -> date:
        """Return the newest such day that is not ahead."""
        newest = date(self._today.year, month, day)
        return newest if newest <= self._today else newest.replace(year=newest.year - 1)

    def _text(self, first: date, last: date) -> str:
        """Write a span of whole days; a span that has begun ends today."""
        last = min(last, self._today) if first <= self._today else last
        start, end = (datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (first, last))
        return window_line(Window(start, end + DAY))


def _count(words: str) -> int:
    return int(words) if words.isdigit() else _index(_COUNTS, words)


def _quarter_start(day: date) -> date:
    return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)


def _index(groups: tuple[str, ...], word: str) -> int:
    """Return the index of the group that holds a word."""
    return next(n for n, group in enumerate(groups) if word in group.split("|"))


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
    r"(?P<nth>(?:on\s+)?the\s+\d{1,2}(?:st|nd|rd|th))",
    rf"(?P<weekday>(?:(?:{LAST}|{THIS}|on|am|every|jeden)\s+)?(?:{WEEKDAY})s?)",
)
_SPANS = (
    rf"(?P<monthyear>(?:{MONTH})\s+20\d\d|20\d\d-\d\d)",
    r"(?P<quarter>(?:q[1-4]|[1-4]\.?\s*quartal|(?:first|second|third|fourth)\s+quarter)"
    r"(?:\s+(?:of\s+)?20\d\d)?)",
    rf"(?P<relquarter>(?:{LAST}|{THIS})\s+(?:quarter|quartal))",
    r"(?P<rolling>(?:(?:for|in|over|during)\s+)?(?:the\s+)?"
    rf"(?:{LAST})\s+(?:{NUMBER})\s*(?:{UNIT}))",
    r"(?P<week>(?:the\s+)?(?:week before last|week before|vorletzte[nr]? woche))",
    rf"(?P<relative>(?:the\s+)?(?:{LAST}|{THIS})\s+"
    r"(?:week|month|year|fortnight|woche|monat|jahr|weekend|wochenende))",
    r"(?P<todate>(?:month|week|year)[ -]to[ -]date|mtd|wtd|ytd|so far this (?:month|week|year))",
    r"(?P<weekend>(?:the\s+|am\s+)?(?:weekend|wochenende))",
    r"(?P<nextmonth>(?:the\s+)?(?:next|coming)[ -]month|(?:n\u00e4chste[nrms]?|naechste[nrms]?) monat)",
    r"(?P<grammar>(?:last|this)-(?:week|month|year)|\d{1,4}(?:min|[hdw]))",
    rf"(?P<length>(?:{NUMBER})\s+(?:{UNIT}))",
    r"(?P<year>20[12]\d)",
    rf"(?P<month>(?:{MONTH}))",
)
_EDGE = r"(?<![\w./=-])", r"(?![\w/=-])"
_TO = (
    r"\s*(?:\.\.|-|–|—|\bto\b|\buntil\b|\btill\b|\bthrough\b|\bthru\b"
    r"|\bbis\b|\band\b|\bund\b)\s*"
)
_FROM = r"(?:from|between|von|vom|zwischen)\s+(?:the\s+)?"
_DAYS_OF = (
    rf"(?:{_FROM})?(?P<first>\d{{1,2}}){_ORD}{_TO}(?P<last>\d{{1,2}}){_ORD}"
    rf"\s*(?:of\s+)?(?P<of>{MONTH})",
    rf"(?P<of>{MONTH})\s+(?P<first>\d{{1,2}}){_ORD}{_TO}(?P<last>\d{{1,2}}){_ORD}",
)
_DAY_WORDS = "|".join(re.sub(r"\?P<\w+>", "?:", pattern) for pattern in _DATES)
_PATTERNS: tuple[tuple[str, str], ...] = tuple(
    (_EDGE[0] + pattern + _EDGE[1], reader)
    for pattern, reader in (
        *((pattern, "days_of_month") for pattern in _DAYS_OF),
        (rf"(?:{_FROM})?(?P<a>{_DAY_WORDS}){_TO}(?P<b>{_DAY_WORDS})", "days_between"),
        (
            rf"(?:since|seit|from|ab|starting)\s+(?:the\s+)?(?P<a>{_DAY_WORDS}|{MONTH})"
            r"(?:\s+(?:on|onwards?))?",
            "days_since",
        ),
        (rf"(?:until|till|bis)\s+(?P<a>{WEEKDAY})", "until"),
        *((pattern, "span") for pattern in (*_SPANS[:5], _DATES[5])),
        (r"(?P<before>the day before)", "span"),
        *((pattern, "one_day") for pattern in _DATES),
        *((pattern, "span") for pattern in _SPANS[5:]),
    )
)
"""Each kind of words with the method that reads it, the longest kinds first.

Few lines are in plain words, so that `re` compiles and keeps them for the first that is.
"""
TIME_WORDS = frozenset(re.findall(r"[a-z]{4,}", " ".join(pattern for pattern, _ in _PATTERNS)))
"""The words of times that are long enough for a slip to be told, and the names of the patterns."""
_VERSUS = (
    r"\s*(?:,\s*)?(?:vs\.?|versus|against|than|(?:compared|relative)\s+(?:to|with)"
    r"|with|to|and|gegen|im vergleich zu(?:r|m)?)\s+"
)
_COMPARES = r"\b(?:compare[ds]?|vs|versus|than|against|vergleich\w*|gegen)\b"


@dataclass(frozen=True)
class TimeWords:
    """Hold a time that a line names: where it stands, and the slots that it can fill."""

    start: int
    end: int
    fills: Mapping[str, str] = field(default_factory=dict)
    """`window`, `duration`, `days`, `weekday`, `until`, and `pair` for two times compared."""
    window: Window | None = None


def find_times(text: str, now: datetime) -> list[TimeWords]:
    """Return the times of a normalized text in their order; each word belongs to one at most."""
    calendar = Calendar(now)
    times: list[TimeWords] = []
    for pattern, reader in _PATTERNS:
        for match in re.finditer(pattern, text):
            if any(match.start() < time.end and time.start < match.end() for time in times):
                continue
            try:
                fills = calendar.read(reader, match)
            except (ValueError, OverflowError, WrongInput):
                continue
            if fills:
                window = Window.parse(fills["window"], now) if fills.get("window") else None
                times.append(TimeWords(match.start(), match.end(), fills, window))
    return _compared(sorted(times, key=lambda time: time.start), text)


def _compared(times: list[TimeWords], text: str) -> list[TimeWords]:
    """Join two times that a line compares into the later one.

    `pair` says whether the earlier is the window before it.
    """
    if len(times) != 2 or not re.search(_COMPARES, text):
        return times
    first, second = times
    between = f"{text[first.end : second.start]} ".replace("  ", " ")
    if not re.fullmatch(_VERSUS, between) and "vergl" not in text:
        return times
    windows = [(time.window, time.fills["window"]) for time in times if time.window]
    if len(windows) < 2:
        return times

    (early, earlier), (late, later) = sorted(windows, key=itemgetter(0))
    fills = {"window": later, "pair": "yes"}
    if early.start != late.previous().start:
        fills |= {"pair": "no", "other": earlier}
    return [TimeWords(first.start, second.end, fills, late)]
