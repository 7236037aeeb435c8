"""Lengths of time: what people type is what the bot writes back, and each reads the same wherever it stands."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.errors import WrongInput
from bot.model.frame import Frame, FramePart
from bot.model.labels import Labels
from bot.model.window import (
    DAY,
    WEEK,
    Days,
    Window,
    age_text,
    calendar_day,
    clock,
    day,
    duration_text,
    parse_duration,
    read_moment,
    read_weekly,
    rounded_duration,
    utc_text,
    write_duration,
)

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("minutes", "days", "words"),
    [
        (0, Days.AND_HOURS, "0 min"),
        (25, Days.AND_HOURS, "25 min"),
        (60, Days.AND_HOURS, "1 h"),
        (70, Days.AND_HOURS, "1 h 10 min"),
        (1439, Days.AND_HOURS, "23 h 59 min"),
        (1440, Days.AND_HOURS, "1 d"),
        (4565, Days.AND_HOURS, "3 d 4 h"),
        (4565, Days.NEVER, "76 h 5 min"),
    ],
)
def test_how_long_something_lasts(minutes: int, days: Days, words: str) -> None:
    assert duration_text(timedelta(minutes=minutes), days) == words
    assert duration_text(timedelta(minutes=minutes, seconds=59), days) == words


def test_a_length_is_in_its_larger_unit_from_one_of_it_on() -> None:
    ages = {n: age_text(n) for n in (59, 60, 3599, 3600, 86_399, 86_400)}
    assert list(ages.values()) == ["59 s", "1 min", "59 min", "1 h", "23 h", "1 d"]
    assert [rounded_duration(timedelta(hours=n)) for n in (24, 25)] == ["24 hours", "1 day"]
    assert write_duration(timedelta(0)) == "0m"


def test_the_newest_moment_of_a_week_is_now_or_up_to_a_week_ago() -> None:
    monday = datetime(2026, 11, 23, 9, tzinfo=UTC)
    weekly, second = read_weekly("mon 09:00"), timedelta(seconds=1)
    for now, moment in ((monday, monday), (monday - second, monday - WEEK), (monday + second, monday)):  # fmt: skip
        assert weekly.latest(now) == moment
    assert read_moment("mon 09:00", monday) == monday + WEEK
    assert read_moment("mon 09:00", monday - second) == monday


def test_a_window_may_be_empty_and_lies_within_another_as_far_as_they_meet() -> None:
    day = datetime(2026, 11, 23, tzinfo=UTC)
    empty, whole, later = Window(day, day), Window(day, day + DAY), Window(day + DAY, day + WEEK)
    assert whole.within(later) == Window(day + DAY, day + DAY)
    assert later.within(whole) == Window(day + DAY, day + DAY)
    assert (day in empty, day in whole, day + DAY in whole) == (False, True, False)
    assert [f"{x}" for x in (whole, later)] == ["2026-11-23", "2026-11-24..2026-11-29"]


def test_a_frame_is_cut_to_whole_steps_and_to_no_more_than_it_has() -> None:
    start, step = datetime(2026, 11, 23, tzinfo=UTC), timedelta(minutes=5)
    values = np.arange(8, dtype=np.float32).reshape(2, 4, 1)
    things = (Labels(instance="a"), Labels(instance="b"))
    frame = Frame("node", things, start, step, ("x",), values)
    for whole in (frame, FramePart(frame, [1])):
        lasts = [whole.last(timedelta(minutes=n)) for n in (0, 5, 6, 60)]
        assert [(x.n_steps, x.end) for x in lasts] == [(n, whole.end) for n in (1, 1, 2, 4)]
        untils = [whole.until(start + timedelta(minutes=n)).n_steps for n in (-5, 4, 5, 90)]
        assert untils == [0, 0, 1, 4]
        since = [whole.since(start + timedelta(minutes=n)).n_steps for n in (-5, 0, 1, 5, 90)]
        assert since == [4, 4, 3, 3, 0]
    part = FramePart(frame, [1])
    assert part.values.tolist() == [[[4], [5], [6], [7]]]
    assert part.of("x").tolist() == [[4, 5, 6, 7]]

    # So is a part of a part, of which a cut is not what was copied before.
    inmost = FramePart(FramePart(frame, [1, 0]), [1])
    assert inmost.of("x").tolist() == [[0, 1, 2, 3]]
    assert inmost.of("y").shape == (1, 4)
    assert part.last(step).values.tolist() == [[[7]]]


def test_a_length_before_its_beginning_is_none() -> None:
    assert duration_text(timedelta(minutes=-5)) == "0 min"


@given(st.integers(1, 99_999))
def test_what_is_written_reads_back(minutes: int) -> None:
    length = timedelta(minutes=minutes)
    assert parse_duration(write_duration(length)) == length


@pytest.mark.parametrize("text", ["", "7", "h", "-1h", "1.5h", "1 year", "999999m"])
def test_what_is_no_length_is_refused(text: str) -> None:
    with pytest.raises(WrongInput, match="is not a length of time; write 30m, 2h, 3d or 1w"):
        parse_duration(text)


def test_ages_and_spans_are_rounded_in_words() -> None:
    assert [age_text(seconds) for seconds in (-1, 20, 240, 10_800, 200_000)] == [
        "0 s",
        "20 s",
        "4 min",
        "3 h",
        "2 d",
    ]
    assert [rounded_duration(timedelta(hours=h)) for h in (1, 24, 25, 168)] == [
        "1 hour",
        "24 hours",
        "1 day",
        "7 days",
    ]


def test_a_sentence_writes_an_instant_as_a_month_a_day_and_a_clock_time() -> None:
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
    assert (day(noon), day(date(2026, 11, 3))) == ("Nov 20", "Nov 3")
    assert calendar_day(noon) == "Nov 20, 2026"
    assert clock(noon) == "Nov 20, 12:00"
    far = noon.astimezone(timezone(timedelta(hours=-8)))
    assert utc_text(far) == "Nov 20, 12:00 UTC"
    assert [utc_text(far, noon + timedelta(hours=h)) for h in (11, 12)] == [
        "12:00 UTC",
        "Nov 20, 12:00 UTC",
    ]


def test_no_other_file_writes_instants() -> None:
    """One card that says both Nov 20, 12:00 UTC and 2026-11-20 12:00 UTC is read twice at night."""
    typed_or_logged = {
        "bot/model/window.py",
        "bot/answers/cost/title.py",  # an hour's row is named as it may be typed
        "adapters/chat/slack/forms.py",
        "adapters/timer.py",
        "adapters/web/html.py",  # with seconds, on hover
    }
    sources = [p for x in ("bot", "detectors", "adapters") for p in (ROOT / x).rglob("*.py")]
    found = {
        str(path.relative_to(ROOT))
        for path in sources
        if "simulator" not in path.parts
        and re.search(r"%Y-%m-%d %H|%d %b|%b %d|\.day\} \{", path.read_text())
    }
    assert found == typed_or_logged


def test_no_other_file_writes_lengths_of_time() -> None:
    """A second formatter would say the same minutes otherwise: it divides by 60 and names hours or minutes."""
    pattern = re.compile(r"""(//|divmod\([^)]*,) *(60|3_?600|1440|86_?400)\b""")
    sources = [
        p
        for folder in ("bot", "detectors")
        for p in (ROOT / folder).rglob("*.py")
        if p.name != "window.py"
    ]
    wrong = [
        str(path.relative_to(ROOT))
        for path in sources
        if any(
            pattern.search(line) and re.search(r"""f["'].*\b(min|h|hours?|d|days?)\b""", line)
            for line in path.read_text().splitlines()
        )
    ]
    assert not wrong
