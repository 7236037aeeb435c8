"""A hundred lines that a second hand wrote once the understanding stood; it was not tuned on them, so their share is what counts.

`python -m tests.answers.test_plain_lines_later` prints it, and each line that is not read as it was meant.
"""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

from bot.answers.all import ANSWERS
from tests.answers.test_plain_words import meaning, outcome, read

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


if __name__ == "__main__":
    print(Counter(fate(row["line"], row["wanted"]) for row in ROWS))
    for row in ROWS:
        if (came := fate(row["line"], row["wanted"])) != "right":
            got = read(row["line"])
            print(
                f"{came:<11}{row['line']}  ->  {' | '.join(got.lines) if got else '-'}  (wanted {row['wanted']})"
            )
