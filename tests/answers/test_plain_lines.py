"""Lines as people type them, and what each should be read as: written before anything reads them.

Of several readings, parted by |, any is right; after a ? the right answer is a choice of them. The names are of the demo's fleet.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from bot.answers.all import ANSWERS
from bot.grammar.line import read_line
from tests.cases import in_one_run

assert ANSWERS
ROWS = list(
    csv.DictReader(
        Path(__file__).with_name("plain_lines.csv").read_text("utf-8").splitlines(), delimiter=";"
    )
)
READINGS = sorted(
    {reading for row in ROWS for reading in row["wanted"].removeprefix("?").split("|")}
)


def test_no_line_is_wanted_twice() -> None:
    lines = [row["line"].casefold() for row in ROWS]
    assert len(lines) == len(set(lines)) > 300


@in_one_run
@pytest.mark.parametrize("reading", READINGS)
def test_what_is_wanted_is_a_line_of_the_grammar(reading: str) -> None:
    read_line(reading)
