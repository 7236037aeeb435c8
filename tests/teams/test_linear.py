"""Texts made to be slow to read are read in linear time, or are cut before: ten times the text takes about ten times as long."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from adapters.chat.teams.activity import TEXT_MOST, Activity, parse_activity, words_of
from adapters.chat.teams.elements import bare, escape, pressed_line
from tests.cases import in_one_run

SMALL = 2_000
GROWTH = 30
"""Ten times, and room for what the processor does beside; growth by the square is a hundred times."""


def message(text: str, mentions: int = 0) -> Activity:
    entity = {"type": "mention", "mentioned": {"id": "28:bot"}, "text": "<at>trnbot</at>"}
    said = {
        "type": "message",
        "text": text,
        "entities": [entity] * mentions,
        "conversation": {"id": "a:1"},
    }
    return parse_activity(
        json.dumps(said | {"recipient": {"id": "28:bot"}, "from": {"id": "29:dana"}}).encode()
    )


def best_s(work: Callable[[], object]) -> float:
    times = []
    for _ in range(5):
        started = time.thread_time()
        work()
        times.append(time.thread_time() - started)
    return min(times)


READERS: dict[str, Callable[[str], object]] = {
    "a message": lambda text: words_of(message(text)),
    "a message with mentions": lambda text: words_of(message(text, len(text) // 10)),
    "a run of text": bare,
    "markdown": escape,
    "a value of a form": lambda text: pressed_line(
        {"line": "cost", "form": 0, "fields": ["by"], "f0.by": text}
    ),
    "the names of a form": lambda text: pressed_line(
        {"line": "cost", "form": 0, "fields": list(text)}
    ),
}
UNITS = [
    "<at",
    "</at ",
    "<p ",
    "<",
    "<at>",
    "&#9",
    "&",
    "&amp",
    " ",
    "\n",
    "\t\n",
    "< ",
    "1",
    "1\n",
    "_",
    "a_",
    "{{",
    "-",
    "* ",
]


@in_one_run
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("reader", READERS)
def test_ten_times_the_text_takes_about_ten_times_as_long(reader: str, unit: str) -> None:
    small, large = (f"<{unit * (size // len(unit))}" for size in (SMALL, SMALL * 10))
    assert best_s(lambda: READERS[reader](large)) <= GROWTH * max(
        best_s(lambda: READERS[reader](small)), 1e-4
    )


def test_of_a_message_no_more_is_read_than_teams_lets_people_write() -> None:
    assert len(words_of(message("x" * 100_000))) == TEXT_MOST


@pytest.mark.parametrize(
    "text", ["&#" + "9" * 5000 + ";", "&#x" + "f" * 5000 + ";", "&#00000000000000000000065;"]
)
def test_a_character_of_thousands_of_digits_is_no_failure(text: str) -> None:
    assert words_of(message(f"cost {text} 7d")) == "cost 7d"


def test_a_form_has_at_most_forty_fields() -> None:
    names = [f"n{i}" for i in range(1000)]
    filled: dict[str, Any] = {f"f0.{name}": "x" * 5000 for name in names}
    line = pressed_line({"line": "cost", "form": 0, "fields": names, **filled})
    assert line.count("=") == 40
    assert len(line) < 50_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<at>x</at>", "<\u200bat>x<\u200b/at>"),
        ("<  at>", "<\u200bat>"),
        ("< / at>", "<\u200b/at>"),
        ("<attic>", "<attic>"),
    ],
)
def test_mentions_are_still_taken_apart(text: str, shown: str) -> None:
    assert bare(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("- a\n  1. b", "\u200b- a\n  \u200b1. b"),
        ("\n\n+ c", "\n\n\u200b+ c"),
        ("12) d", "\u200b12) d"),
        ("12 d", "12 d"),
    ],
)
def test_lists_are_still_taken_apart(text: str, shown: str) -> None:
    assert escape(text) == shown
