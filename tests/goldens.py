"""Hold a text against the file that a reader has looked at."""

from __future__ import annotations

import difflib
import itertools
import os
from pathlib import Path

import pytest

WRITES = os.environ.get("GOLDENS") == "write"
MOST = 40
"""Lines of a difference that are told."""


def check(golden: Path, text: str) -> None:
    """Fail where the text differs from its golden, or write the golden where GOLDENS=write asks for it."""
    if WRITES:
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    lines = golden.read_text(encoding="utf-8").splitlines(), text.splitlines()
    if lines[0] != lines[1]:
        changes = difflib.unified_diff(*lines, "was", "is", lineterm="", n=1)
        pytest.fail(
            f"{golden} differs\n" + "\n".join(itertools.islice(changes, MOST)), pytrace=False
        )
