"""Compare what a seed stands for with what it stood for when somebody last looked; `make goldens` writes it anew."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.cards.test_goldens import compare


def figure(value: float) -> float | None:
    """Return a number to five digits, so that another build of numpy is no change; None for none."""
    return float(f"{value:.5g}") if np.isfinite(value) else None


def compared(golden: Path, world: Mapping[str, Any]) -> None:
    """Fail where a world is not the golden; a row of figures is a line of it."""
    drawn = json.dumps(world, indent=1, sort_keys=True, default=str) + "\n"
    drawn = re.sub(r"\[[^\[\]{}]*\]", lambda row: " ".join(row[0].split()), drawn)
    compare(drawn, golden)
