"""Hold a text against the file that a reader has looked at."""

from __future__ import annotations

import os
from pathlib import Path

WRITES = os.environ.get("GOLDENS") == "write"


def check(golden: Path, text: str) -> None:
    """Fail where the text differs from its golden, or write the golden where GOLDENS=write asks for it."""
    if WRITES:
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text.splitlines() == golden.read_text(encoding="utf-8").splitlines()
