"""A choice is made by its number, its value or a part of its name, and a number picks only what is shown."""

from __future__ import annotations

import pytest

from adapters.terminal.prompt import MOST_LISTED, Prompt
from tests.cases import in_one_run

MANY = [(f"C{n}", f"#channel-{30 - n:02}") for n in range(1, MOST_LISTED + 4)]
"""Their names count the other way, so that a number is no part of its own name."""


@in_one_run
@pytest.mark.parametrize(
    ("typed", "picked"),
    [
        (("1",), "C1"),
        ((f"{MOST_LISTED}",), f"C{MOST_LISTED}"),
        ((f"C{MOST_LISTED + 3}",), f"C{MOST_LISTED + 3}"),
        (("channel-15",), "C15"),
        (("#CHANNEL-09",), "C21"),
        # What matches several is listed, and a number picks among these.
        (("channel-2", "2"), "C2"),
        (("nothing", "3"), "C3"),
        (("0", "1"), "C10"),
        # The last one has a number that is not shown: it is a part of another's name.
        ((f"{MOST_LISTED + 3}",), "C7"),
    ],
)
def test_a_choice_is_made(typed: tuple[str, ...], picked: str) -> None:
    answers, shown = iter(typed), list[str]()
    prompt = Prompt(lambda _: next(answers), lambda _: "", shown.append)
    assert prompt.choose("Which?", MANY) == picked
    assert shown[MOST_LISTED] == "      and 3 more; type a part of a name"
    assert next(answers, None) is None
