"""The card names for each figure the command that prints it, and each of these commands exists."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.card import PAGE, SECTIONS, UNMEASURED, put
from bot.grammar.registry import command_index
from bot.wiring.verbs import VERBS
from tests.cases import in_one_run

TEXT = PAGE.read_text("utf-8")
ROWS = [line for line in TEXT.splitlines() if line.startswith("| ") and "| figures |" not in line]
MAKEFILE = (Path(__file__).parents[2] / "Makefile").read_text("utf-8")


def test_every_section_says_when_of_what_and_where_it_was_measured() -> None:
    measured = r"Measured 20\d\d-\d\d-\d\d at commit [0-9a-f]+.*; machine: \d+ cores, .+\."
    parts = [part.split("\n\n") for part in TEXT.split("\n## ")[1:]]
    assert [title for title, *_ in parts] == list(SECTIONS)
    for title, first, *_ in parts:
        assert first.startswith(UNMEASURED) or re.fullmatch(measured, first), title


def test_a_section_measured_anew_leaves_the_others(tmp_path: Path) -> None:
    page, (first, second, *_) = tmp_path / "card.md", SECTIONS
    put(page, second, "old\n")
    put(page, first, "old\n")
    put(page, second, "new\n")
    assert f"## {first}\n\nold\n\n## {second}\n\nnew\n\n## " in page.read_text()
    assert page.read_text().count(UNMEASURED) == len(SECTIONS) - 2


@in_one_run
@pytest.mark.parametrize("row", ROWS)
def test_each_row_names_a_command_that_exists(row: str) -> None:
    subject, figures, command = (cell.strip() for cell in row.strip("|").split(" | "))
    assert subject
    assert figures
    (line,) = re.findall(r"^`(.+)`$", command)
    for part in line.split("; "):
        program, *words = part.split()
        if program == "python":
            assert words[0] == "-m"
            assert find_spec(words[1]), words[1]
        elif program == "make":
            assert re.search(rf"^{words[0]}:", MAKEFILE, re.MULTILINE), words[0]
        else:
            assert program == "trnbot"
            assert words[0] in {*VERBS, *command_index()}, words[0]
