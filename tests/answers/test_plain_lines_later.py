"""A hundred lines that a second hand wrote once the understanding stood; it was not tuned on them, so their share is what counts.

`python -m tests.answers.test_plain_lines_later` prints it, and each line that is not read as it was meant.
"""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from bot.answers.all import ANSWERS
from bot.errors import WrongInput
from bot.grammar.line import attempted, understand
from tests.answers.test_plain_words import NOW, meaning, outcome, read

assert ANSWERS
ROWS = list(
    csv.DictReader(
        Path(__file__).with_name("plain_lines_later.csv").read_text("utf-8").splitlines(),
        delimiter=";",
    )
)
LEAST_RIGHT, MOST_WRONG = 70, 9
"""Of the hundred lines; where they stood when they were written, so that nothing gets worse."""


def fate(line: str, wanted: str) -> str:
    """Tell how a line fares: `right` at once or by the buttons it should get, `offered` among others, `asked back`, or `wrong`."""
    came = outcome(line, wanted)
    if came in ("exact", "read", "choice"):
        return "right"
    if came in ("wrong", "surely read"):
        return "wrong"
    reading = read(line)
    offered = {meaning(each) for each in (reading.lines if reading else ())}
    return (
        "offered"
        if offered & {meaning(each) for each in wanted.removeprefix("?").split("|")}
        else "asked back"
    )


def test_lines_of_a_second_hand_fare_no_worse_than_when_they_were_written() -> None:
    fates = Counter(fate(row["line"], row["wanted"]) for row in ROWS)
    assert sum(fates.values()) == 100
    assert fates["right"] + fates["offered"] >= LEAST_RIGHT, fates
    assert fates["wrong"] <= MOST_WRONG, fates


STRANGERS = list(
    csv.DictReader(
        Path(__file__).with_name("plain_lines_strangers.csv").read_text("utf-8").splitlines(),
        delimiter=";",
    )
)
"""Lines of ten kinds of people and in five languages, by a hand that has seen no line of the bot."""
LANGUAGES = ("de", "fr", "es", "ja")


def command_of(line: str) -> str:
    """Return the command of a line of the grammar, "" for none."""
    named = attempted(line)
    return named.name if named else ""


def reception(row: dict[str, str]) -> str:
    """Tell how a stranger is received: `right`, `first` or `among` the buttons, `beside` them, `wrong` or `dead`."""
    wanted, line = row["wanted"].split("|"), row["line"]
    try:
        return "right" if understand(line, NOW).command.name in wanted else "wrong"
    except WrongInput:
        reading = read(line)
    if reading is None:
        return "dead"
    fits = [command_of(each) in wanted for each in (*reading.lines, *reading.others)]
    if not any(fits):
        return "wrong" if reading.sure else "beside"
    return "among" if not fits[0] else "right" if reading.sure else "first"


@pytest.mark.parametrize(
    ("language", "first", "among", "dead"), [("en", 78, 91, 1), *((x, 7, 7, 0) for x in LANGUAGES)]
)
def test_strangers_fare_no_worse_than_when_they_were_first_read(
    language: str, first: int, among: int, dead: int
) -> None:
    """The lines of odd numbers were looked at while the examples grew; those of even ones were not."""
    spoken = [x for x in STRANGERS if (x["who"] if x["who"] in LANGUAGES else "en") == language]
    fates = Counter(map(reception, spoken))
    assert fates["right"] + fates["first"] >= first, fates
    assert fates["right"] + fates["first"] + fates["among"] >= among, fates
    assert fates["wrong"] == 0, fates
    assert fates["dead"] <= dead, fates


if __name__ == "__main__":
    print(Counter(fate(row["line"], row["wanted"]) for row in ROWS))
    print(Counter(map(reception, STRANGERS)))
    print(Counter(fate(row["line"], row["wanted"]) for row in ROWS))
    for row in ROWS:
        if (came := fate(row["line"], row["wanted"])) != "right":
            got = read(row["line"])
            print(
                f"{came:<11}{row['line']}  ->  {' | '.join(got.lines) if got else '-'}  (wanted {row['wanted']})"
            )
